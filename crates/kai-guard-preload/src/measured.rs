//! What NVML says this process holds: the truth about contexts, code and the slack of the driver's blocks.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::attach::Attached;
use crate::cuda::{Handle, NvmlProcessV2, SUCCESS};
use crate::state::{Device, State};
use crate::{local_symbols, symbols};

const INSUFFICIENT_SIZE: i32 = 7;
const ABSENT: usize = usize::MAX;
const NOT_AVAILABLE: u64 = u64::MAX;

/// NVML in this process; loaded when the first context was made.
#[derive(Default)]
pub(crate) struct Nvml(OnceLock<bool>);

impl Nvml {
    fn is_loaded(&self) -> bool {
        *self.0.get_or_init(|| {
            let flags = libc::RTLD_LAZY | libc::RTLD_LOCAL;
            let library = local_symbols::dlopen(c"libnvidia-ml.so.1", flags);
            // SAFETY: `nvmlInit_v2` takes nothing and may be called several times.
            !library.is_null()
                && symbols::nvml_init().is_some_and(|init| unsafe { init() } == SUCCESS)
        })
    }

    fn handle(&self, device: &Device) -> Option<Handle> {
        if !self.is_loaded() {
            return None;
        }
        match device.nvml_handle.load(Ordering::Relaxed) {
            ABSENT => return None,
            0 => {}
            known => return Some(known as Handle),
        }
        let find = symbols::nvml_device_by_uuid()?;
        let found = ["GPU", "MIG"].iter().find_map(|prefix| {
            let name = CString::new(format!("{prefix}-{}", device.uuid)).ok()?;
            let mut handle: Handle = std::ptr::null_mut();
            // SAFETY: a C string, and NVML writes one handle.
            (unsafe { find(name.as_ptr(), &raw mut handle) } == SUCCESS).then_some(handle)
        });
        device.nvml_handle.store(found.map_or(ABSENT, |handle| handle as usize), Ordering::Relaxed);
        found
    }

    /// Bytes of this process on a device; `None` when NVML does not list it, as with drivers that know no PID
    /// namespaces.
    fn own_bytes(&self, device: &Device, pid: u32) -> Option<u64> {
        let handle = self.handle(device)?;
        let list = symbols::nvml_processes()?;
        let empty = NvmlProcessV2 { pid: 0, used: 0, gpu_instance: 0, compute_instance: 0 };
        let mut processes = vec![empty; 128];
        for _ in 0..3 {
            let mut count = processes.len() as u32;
            // SAFETY: NVML writes at most `count` entries.
            match unsafe { list(handle, &raw mut count, processes.as_mut_ptr()) } {
                SUCCESS => {
                    let own =
                        processes.iter().take(count as usize).find(|process| process.pid == pid);
                    return own.map(|process| process.used).filter(|used| *used != NOT_AVAILABLE);
                }
                INSUFFICIENT_SIZE => processes.resize(count as usize + 64, empty),
                _ => return None,
            }
        }
        None
    }
}

/// Compares NVML with the charges of this process and corrects the overhead. `pending` are bytes that the caller
/// reserved and has not allocated yet, `own_operations` how many of the running operations are the caller's.
/// Returns whether NVML answered.
///
/// The answer is exact when no other allocation or free ran meanwhile. Otherwise it may only raise the overhead.
pub(crate) fn update_overhead(
    state: &State,
    attached: &Attached,
    device: &Device,
    pending: u64,
    own_operations: u64,
) -> bool {
    device.unmeasured.store(0, Ordering::Relaxed);
    let charges = || attached.region.own(attached.slot, device.index);
    let is_alone = || state.in_flight.load(Ordering::SeqCst) <= own_operations;
    // Pools shrink unnoticed when the device is synchronised; a stale charge would hide overhead.
    state.pools.refresh(state);
    let (before, was_alone) = (charges(), is_alone());
    let Some(measured) = state.nvml.own_bytes(device, attached.pid) else {
        let contexts = device.contexts.load(Ordering::Relaxed);
        let overhead = contexts.saturating_mul(state.context_bytes);
        attached.region.set_overhead(attached.slot, device.index, overhead);
        return false;
    };
    state.pools.refresh(state);
    let after = charges();
    let is_exact = was_alone && is_alone() && after == before;
    let invisible = pending.saturating_add(device.managed.load(Ordering::Relaxed));
    let visible = before.data.max(after.data).saturating_sub(invisible);
    let overhead = measured.saturating_sub(visible);
    if is_exact || overhead > before.overhead {
        attached.region.set_overhead(attached.slot, device.index, overhead);
    }
    true
}
