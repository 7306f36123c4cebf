//! Contexts and code: what they take is measured, because only the driver knows.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use kai_guard::MIB;
use kai_guard::limits::Mode;

use crate::account::{self, Verdict, reserve};
use crate::attach::Attached;
use crate::cuda::{CuDevice, CuResult, Handle, OUT_OF_MEMORY, SUCCESS};
use crate::hooks::hooks;
use crate::measured::update_overhead;
use crate::state::{Account, Device, State, current_device};
use crate::symbols;

hooks! {
    cuCtxCreate(context: *mut Handle, flags: c_uint, device: CuDevice) = create;
    cuCtxCreate_v2(context: *mut Handle, flags: c_uint, device: CuDevice) = create;
    cuCtxCreate_v3(context: *mut Handle, params: *mut c_void, count: c_int, flags: c_uint, device: CuDevice) = create_v3;
    cuCtxCreate_v4(context: *mut Handle, params: *mut c_void, flags: c_uint, device: CuDevice) = create_v4;
    cuCtxDestroy(context: Handle) = destroy;
    cuCtxDestroy_v2(context: Handle) = destroy;
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: CuDevice) = retain;
    cuDevicePrimaryCtxRelease(device: CuDevice) = release_primary;
    cuDevicePrimaryCtxRelease_v2(device: CuDevice) = release_primary;
    cuDevicePrimaryCtxReset(device: CuDevice) = release_primary;
    cuDevicePrimaryCtxReset_v2(device: CuDevice) = release_primary;
    cuGreenCtxCreate(context: *mut Handle, description: Handle, device: CuDevice, flags: c_uint) = create_green;
    cuCtxSetLimit(limit: c_int, value: usize) = set_limit;
    cuModuleLoad(module: *mut Handle, path: *const c_char) = load;
    cuModuleLoadData(module: *mut Handle, image: *const c_char) = load;
    cuModuleLoadFatBinary(module: *mut Handle, image: *const c_char) = load;
    cuModuleLoadDataEx(module: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_int, values: *mut *mut c_void) = load_with_options;
    cuModuleUnload(module: Handle) = unload;
    cuLibraryGetModule(module: *mut Handle, library: Handle) = load_from_library;
    cuLibraryUnload(library: Handle) = unload;
}

/// Creates a context on a device. `undo` destroys it again.
fn created(
    state: &State,
    ordinal: CuDevice,
    call: impl FnOnce() -> CuResult,
    undo: impl FnOnce(),
) -> CuResult {
    let (attached, device) = match state.account(ordinal) {
        Account::Closed => return OUT_OF_MEMORY,
        Account::Free => return call(),
        Account::Limited(attached, device) => (attached, device),
    };
    // The first process of the container does not know the size yet: it measures, and gives the context back if
    // that is too much. All others know it beforehand.
    let estimate = attached.region.context_bytes(device.index).max(MIB);
    let Verdict::Reserved(reservation) =
        reserve(state, Account::Limited(attached, device), estimate)
    else {
        return OUT_OF_MEMORY;
    };
    let result = call();
    if result != SUCCESS {
        return result;
    }
    let is_first = device.contexts.fetch_add(1, Ordering::AcqRel) == 0;
    let is_measured = update_overhead(state, attached, device, estimate, 1);
    drop(reservation);
    if is_measured && is_first {
        let overhead = attached.region.own(attached.slot, device.index).overhead;
        attached.region.learn_context(device.index, overhead);
    }
    if is_over(state, attached, device) {
        undo();
        device.contexts.fetch_sub(1, Ordering::AcqRel);
        update_overhead(state, attached, device, 0, 0);
        attached.region.count_refusal(device.index);
        return OUT_OF_MEMORY;
    }
    result
}

fn is_over(state: &State, attached: &Attached, device: &Device) -> bool {
    let limit = device.limit.load(Ordering::Relaxed);
    state.mode == Mode::Enforce && attached.region.used(device.index) > limit
}

type Destroy = unsafe extern "C" fn(Handle) -> CuResult;

fn destroy_context(context: *mut Handle) {
    let address = crate::hooks::real(&reals::cuCtxDestroy_v2, "cuCtxDestroy_v2");
    if address != 0 {
        // SAFETY: the address is that of the driver's `cuCtxDestroy_v2`; the context was created a moment ago.
        unsafe {
            let real = std::mem::transmute::<usize, Destroy>(address);
            real(context.read());
            context.write(std::ptr::null_mut());
        }
    }
}

unsafe fn create(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, c_uint, CuDevice) -> CuResult,
    context: *mut Handle,
    flags: c_uint,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's arguments.
    created(state, device, || unsafe { real(context, flags, device) }, || destroy_context(context))
}

unsafe fn create_v3(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, *mut c_void, c_int, c_uint, CuDevice) -> CuResult,
    context: *mut Handle,
    params: *mut c_void,
    count: c_int,
    flags: c_uint,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(context, params, count, flags, device) };
    created(state, device, call, || destroy_context(context))
}

unsafe fn create_v4(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, *mut c_void, c_uint, CuDevice) -> CuResult,
    context: *mut Handle,
    params: *mut c_void,
    flags: c_uint,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(context, params, flags, device) };
    created(state, device, call, || destroy_context(context))
}

/// A green context lives in the primary one; what it takes in addition is measured.
unsafe fn create_green(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, Handle, CuDevice, c_uint) -> CuResult,
    context: *mut Handle,
    description: Handle,
    device: CuDevice,
    flags: c_uint,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(context, description, device, flags) };
    measure(state, Some(device));
    result
}

fn primary_is_active(ordinal: CuDevice) -> Option<bool> {
    let (mut flags, mut active) = (0, 0);
    let ask = symbols::cu_primary_ctx_state()?;
    // SAFETY: the driver writes two ints.
    let answer = unsafe { ask(ordinal, &raw mut flags, &raw mut active) };
    (answer == SUCCESS).then_some(active != 0)
}

unsafe fn retain(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, CuDevice) -> CuResult,
    context: *mut Handle,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(context, device) };
    if primary_is_active(device) == Some(true) {
        return call();
    }
    created(state, device, call, || {
        let address = crate::hooks::real(
            &reals::cuDevicePrimaryCtxRelease_v2,
            "cuDevicePrimaryCtxRelease_v2",
        );
        if address != 0 {
            // SAFETY: the address is that of the driver's function; the context was retained a moment ago.
            unsafe {
                let real = std::mem::transmute::<usize, unsafe extern "C" fn(CuDevice) -> CuResult>(
                    address,
                );
                real(device);
            }
        }
    })
}

unsafe fn release_primary(
    state: &State,
    real: unsafe extern "C" fn(CuDevice) -> CuResult,
    device: CuDevice,
) -> CuResult {
    let was_active = primary_is_active(device) == Some(true);
    // SAFETY: the caller's argument.
    let result = unsafe { real(device) };
    if was_active && primary_is_active(device) == Some(false) {
        context_is_gone(state, device);
    }
    result
}

unsafe fn destroy(
    state: &State,
    real: unsafe extern "C" fn(Handle) -> CuResult,
    context: Handle,
) -> CuResult {
    // SAFETY: the caller's argument.
    let device = unsafe { device_of(context) };
    // SAFETY: the caller's argument.
    let result = unsafe { real(context) };
    if result == SUCCESS
        && let Some(device) = device
    {
        context_is_gone(state, device);
    }
    result
}

/// Device of a context that need not be current: it is made current for the question.
unsafe fn device_of(context: Handle) -> Option<CuDevice> {
    let (push, pop) = (symbols::cu_ctx_push()?, symbols::cu_ctx_pop()?);
    let mut popped: Handle = std::ptr::null_mut();
    // SAFETY: the driver rejects a handle that is not a context.
    unsafe {
        if push(context) != SUCCESS {
            return None;
        }
        let device = current_device();
        pop(&raw mut popped);
        device
    }
}

/// With the last context of a device the driver frees all memory that was allocated in it. While others remain, the
/// memory of the destroyed one stays charged: it is not known which allocations were its own.
fn context_is_gone(state: &State, ordinal: CuDevice) {
    let Account::Limited(attached, device) = state.account(ordinal) else { return };
    let subtract = |contexts: u64| Some(contexts.saturating_sub(1));
    let before = device.contexts.fetch_update(Ordering::AcqRel, Ordering::Acquire, subtract);
    if before.is_ok_and(|contexts| contexts <= 1) {
        for allocation in state.pointers.remove_device(ordinal) {
            if allocation.is_managed {
                device.managed.fetch_sub(allocation.bytes, Ordering::Relaxed);
            }
            account::release(state, ordinal, allocation.bytes);
        }
        state.pools.refresh(state);
    }
    update_overhead(state, attached, device, 0, 0);
}

fn measure(state: &State, ordinal: Option<CuDevice>) -> Option<bool> {
    let Account::Limited(attached, device) = state.account(ordinal?) else { return None };
    update_overhead(state, attached, device, 0, 0);
    Some(is_over(state, attached, device))
}

/// Stack, heap and buffers of device code.
unsafe fn set_limit(
    state: &State,
    real: unsafe extern "C" fn(c_int, usize) -> CuResult,
    limit: c_int,
    value: usize,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(limit, value) };
    measure(state, current_device());
    result
}

/// A module brings code and its global variables; one that does not fit is unloaded again.
fn loaded(state: &State, module: *mut Handle, call: impl FnOnce() -> CuResult) -> CuResult {
    let ordinal = current_device();
    if let Some(Account::Closed) = ordinal.map(|ordinal| state.account(ordinal)) {
        return OUT_OF_MEMORY;
    }
    let result = call();
    if result != SUCCESS || measure(state, ordinal) != Some(true) {
        return result;
    }
    let address = crate::hooks::real(&reals::cuModuleUnload, "cuModuleUnload");
    if address != 0 {
        // SAFETY: the address is that of the driver's function; the module was loaded a moment ago.
        unsafe {
            let real = std::mem::transmute::<usize, Destroy>(address);
            real(module.read());
            module.write(std::ptr::null_mut());
        }
    }
    measure(state, ordinal);
    OUT_OF_MEMORY
}

unsafe fn load(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, *const c_char) -> CuResult,
    module: *mut Handle,
    source: *const c_char,
) -> CuResult {
    // SAFETY: the caller's arguments.
    loaded(state, module, || unsafe { real(module, source) })
}

unsafe fn load_with_options(
    state: &State,
    real: unsafe extern "C" fn(
        *mut Handle,
        *const c_void,
        c_uint,
        *mut c_int,
        *mut *mut c_void,
    ) -> CuResult,
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *mut c_int,
    values: *mut *mut c_void,
) -> CuResult {
    // SAFETY: the caller's arguments.
    loaded(state, module, || unsafe { real(module, image, count, options, values) })
}

/// The module belongs to the library and cannot be unloaded alone: it is only measured.
unsafe fn load_from_library(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, Handle) -> CuResult,
    module: *mut Handle,
    library: Handle,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(module, library) };
    measure(state, current_device());
    result
}

unsafe fn unload(
    state: &State,
    real: unsafe extern "C" fn(Handle) -> CuResult,
    module: Handle,
) -> CuResult {
    // SAFETY: the caller's argument.
    let result = unsafe { real(module) };
    measure(state, current_device());
    result
}
