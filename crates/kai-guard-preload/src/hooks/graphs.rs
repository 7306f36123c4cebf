//! Graphs that allocate memory: it is taken when the graph is first uploaded or launched, and kept until trimmed.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use kai_guard::MIB;

use crate::account::{Verdict, reserve};
use crate::cuda::{
    AllocNodeParams, CuDevice, CuResult, GRAPH_RESERVED_CURRENT, Handle, LOCATION_DEVICE,
    NODE_CHILD_GRAPH, NODE_MEM_ALLOC, OUT_OF_MEMORY, SUCCESS,
};
use crate::hooks::hooks;
use crate::state::{Account, State, lock};
use crate::symbols;

/// Graph memory grows in such steps.
const STEP: u64 = 32 * MIB;
/// Graphs nest; this is deeper than any known graph.
const DEEPEST: u32 = 16;

hooks! {
    cuGraphInstantiate(exec: *mut Handle, graph: Handle, error: *mut Handle, log: *mut c_char, log_bytes: usize) = instantiate_logged;
    cuGraphInstantiate_v2(exec: *mut Handle, graph: Handle, error: *mut Handle, log: *mut c_char, log_bytes: usize) = instantiate_logged;
    cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) = instantiate_with_flags;
    cuGraphInstantiateWithParams(exec: *mut Handle, graph: Handle, params: *mut c_void) = instantiate_with_params;
    cuGraphInstantiateWithParams_ptsz(exec: *mut Handle, graph: Handle, params: *mut c_void) = instantiate_with_params;
    cuGraphUpload(exec: Handle, stream: Handle) = launch;
    cuGraphUpload_ptsz(exec: Handle, stream: Handle) = launch;
    cuGraphLaunch(exec: Handle, stream: Handle) = launch;
    cuGraphLaunch_ptsz(exec: Handle, stream: Handle) = launch;
    cuGraphExecDestroy(exec: Handle) = destroy;
    cuDeviceGraphMemTrim(device: CuDevice) = trim;
}

/// Graphs with memory nodes. Most programs have none and pay one load per launch.
#[derive(Default)]
pub(crate) struct Graphs {
    has_memory: AtomicBool,
    /// Executable graph to bytes of its allocation nodes per device.
    needs: Mutex<BTreeMap<usize, BTreeMap<CuDevice, u64>>>,
    /// Device to bytes charged for graphs.
    charged: Mutex<BTreeMap<CuDevice, u64>>,
}

fn reserved(ordinal: CuDevice) -> Option<u64> {
    let mut value = 0_u64;
    let ask = symbols::cu_graph_memory()?;
    // SAFETY: the attribute is a 64-bit number.
    let answer = unsafe { ask(ordinal, GRAPH_RESERVED_CURRENT, (&raw mut value).cast()) };
    (answer == SUCCESS).then_some(value)
}

impl Graphs {
    /// Brings the charge of a device in line with what graphs hold there; returns the growth.
    fn grown(&self, state: &State, ordinal: CuDevice) -> u64 {
        let mut charged = lock(&self.charged);
        let Some(holds) = reserved(ordinal) else { return 0 };
        let before = charged.insert(ordinal, holds).unwrap_or(0);
        if holds < before {
            crate::account::release(state, ordinal, before - holds);
        }
        holds.saturating_sub(before)
    }

    fn record(&self, exec: Handle, graph: Handle) {
        let mut needs = BTreeMap::new();
        add_needs(graph, &mut needs, 0);
        let mut known = lock(&self.needs);
        if needs.is_empty() {
            known.remove(&(exec as usize));
        } else {
            known.insert(exec as usize, needs);
            self.has_memory.store(true, Ordering::Release);
        }
    }
}

/// Adds the bytes of all allocation nodes. What the graph really takes is less where nodes reuse memory.
fn add_needs(graph: Handle, needs: &mut BTreeMap<CuDevice, u64>, depth: u32) {
    for node in nodes(graph) {
        let mut kind: c_int = -1;
        let Some(ask) = symbols::cu_node_type() else { return };
        // SAFETY: the node is one of the graph; the driver writes one int.
        if unsafe { ask(node, &raw mut kind) } != SUCCESS {
            continue;
        }
        if kind == NODE_MEM_ALLOC
            && let Some(ask) = symbols::cu_alloc_node_params()
        {
            // SAFETY: all zeros is a valid value of the structure.
            let mut params: AllocNodeParams = unsafe { std::mem::zeroed() };
            // SAFETY: the structure is at least as large as the driver's.
            let answer = unsafe { ask(node, &raw mut params) };
            if answer == SUCCESS && params.pool.location.kind == LOCATION_DEVICE {
                *needs.entry(params.pool.location.id).or_default() += params.bytes as u64;
            }
        } else if kind == NODE_CHILD_GRAPH
            && depth < DEEPEST
            && let Some(ask) = symbols::cu_child_graph()
        {
            let mut child: Handle = std::ptr::null_mut();
            // SAFETY: the node is a child graph node; the driver writes one handle.
            if unsafe { ask(node, &raw mut child) } == SUCCESS {
                add_needs(child, needs, depth + 1);
            }
        }
    }
}

fn nodes(graph: Handle) -> Vec<Handle> {
    let Some(ask) = symbols::cu_graph_nodes() else { return Vec::new() };
    let mut count = 0_usize;
    // SAFETY: with a null array the driver only counts.
    if unsafe { ask(graph, std::ptr::null_mut(), &raw mut count) } != SUCCESS {
        return Vec::new();
    }
    let mut nodes = vec![std::ptr::null_mut(); count];
    // SAFETY: the array has space for `count` nodes.
    if unsafe { ask(graph, nodes.as_mut_ptr(), &raw mut count) } != SUCCESS {
        return Vec::new();
    }
    nodes.truncate(count);
    nodes
}

unsafe fn instantiate_logged(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> CuResult,
    exec: *mut Handle,
    graph: Handle,
    error: *mut Handle,
    log: *mut c_char,
    log_bytes: usize,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the handle.
    unsafe {
        let result = real(exec, graph, error, log, log_bytes);
        if result == SUCCESS {
            state.graphs.record(exec.read(), graph);
        }
        result
    }
}

unsafe fn instantiate_with_flags(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, Handle, u64) -> CuResult,
    exec: *mut Handle,
    graph: Handle,
    flags: u64,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the handle.
    unsafe {
        let result = real(exec, graph, flags);
        if result == SUCCESS {
            state.graphs.record(exec.read(), graph);
        }
        result
    }
}

/// The flags may demand an upload at once, which takes the memory: it is charged afterwards.
unsafe fn instantiate_with_params(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, Handle, *mut c_void) -> CuResult,
    exec: *mut Handle,
    graph: Handle,
    params: *mut c_void,
) -> CuResult {
    let mut needs = BTreeMap::new();
    add_needs(graph, &mut needs, 0);
    // SAFETY: the caller's arguments; on success the driver wrote the handle.
    charged(state, needs, || unsafe {
        let result = real(exec, graph, params);
        if result == SUCCESS {
            state.graphs.record(exec.read(), graph);
        }
        result
    })
}

unsafe fn launch(
    state: &State,
    real: unsafe extern "C" fn(Handle, Handle) -> CuResult,
    exec: Handle,
    stream: Handle,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(exec, stream) };
    if !state.graphs.has_memory.load(Ordering::Acquire) {
        return call();
    }
    let needs = lock(&state.graphs.needs).get(&(exec as usize)).cloned();
    needs.map_or_else(call, |needs| charged(state, needs, call))
}

/// Reserves what the graph can take at most, calls the driver and charges what graphs hold then.
fn charged(
    state: &State,
    needs: BTreeMap<CuDevice, u64>,
    call: impl FnOnce() -> CuResult,
) -> CuResult {
    let mut reservations = Vec::new();
    for (ordinal, bytes) in needs {
        let step = bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
        let charged = lock(&state.graphs.charged).get(&ordinal).copied().unwrap_or(0);
        if charged >= step {
            // Held since an earlier launch. Launches of several graphs at once can take more; it is charged below.
            reservations.push((ordinal, None));
            continue;
        }
        match reserve(state, state.account(ordinal), step) {
            Verdict::Refused => return OUT_OF_MEMORY,
            Verdict::Free => {}
            Verdict::Reserved(reservation) => reservations.push((ordinal, Some(reservation))),
        }
    }
    let result = call();
    for (ordinal, reservation) in reservations {
        let grown = state.graphs.grown(state, ordinal);
        match reservation {
            Some(reservation) => reservation.keep(grown),
            None => charge_unchecked(state, ordinal, grown),
        }
    }
    result
}

fn charge_unchecked(state: &State, ordinal: CuDevice, bytes: u64) {
    if let (Account::Limited(attached, device), true) = (state.account(ordinal), bytes > 0) {
        attached.region.reserve_unchecked(attached.slot, device.index, bytes);
        attached.region.commit(attached.slot, device.index, bytes, bytes);
    }
}

unsafe fn destroy(
    state: &State,
    real: unsafe extern "C" fn(Handle) -> CuResult,
    exec: Handle,
) -> CuResult {
    if state.graphs.has_memory.load(Ordering::Acquire) {
        lock(&state.graphs.needs).remove(&(exec as usize));
    }
    // SAFETY: the caller's argument.
    unsafe { real(exec) }
}

unsafe fn trim(
    state: &State,
    real: unsafe extern "C" fn(CuDevice) -> CuResult,
    device: CuDevice,
) -> CuResult {
    let _operation = state.begin();
    // SAFETY: the caller's argument.
    let result = unsafe { real(device) };
    let grown = state.graphs.grown(state, device);
    charge_unchecked(state, device, grown);
    result
}

/// Makes graphs release memory that no graph uses at the moment, before an allocation is refused.
pub(crate) fn trim_device(state: &State, ordinal: CuDevice) {
    if !state.graphs.has_memory.load(Ordering::Acquire) {
        return;
    }
    let address = crate::hooks::real(&reals::cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim");
    if address != 0 {
        // SAFETY: the address is that of the driver's `cuDeviceGraphMemTrim`.
        let real = unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn(CuDevice) -> CuResult>(address)
        };
        // SAFETY: the device has been used.
        unsafe { trim(state, real, ordinal) };
    }
}
