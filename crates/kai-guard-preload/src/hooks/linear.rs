//! Linear, pitched and managed memory, and the functions that free it.

use std::ffi::c_uint;
use std::sync::atomic::Ordering;

use kai_guard::allocations::Allocation;

use crate::account::{self, Verdict, charged_bytes, reserve};
use crate::cuda::{CuDevicePtr, CuResult, Handle, OUT_OF_MEMORY, SUCCESS};
use crate::hooks::{hooks, pools};
use crate::state::{Account, State};

hooks! {
    cuMemAlloc_v2(pointer: *mut CuDevicePtr, bytes: usize) = allocate;
    cuMemAlloc(pointer: *mut u32, bytes: c_uint) = allocate_v1;
    cuMemAllocPitch_v2(pointer: *mut CuDevicePtr, pitch: *mut usize, width: usize, height: usize, element: c_uint) = allocate_pitch;
    cuMemAllocPitch(pointer: *mut u32, pitch: *mut c_uint, width: c_uint, height: c_uint, element: c_uint) = allocate_pitch_v1;
    cuMemAllocManaged(pointer: *mut CuDevicePtr, bytes: usize, flags: c_uint) = allocate_managed;
    cuMemFree_v2(pointer: CuDevicePtr) = free;
    cuMemFree(pointer: u32) = free_v1;
    cuMemFreeAsync(pointer: CuDevicePtr, stream: Handle) = free_async;
    cuMemFreeAsync_ptsz(pointer: CuDevicePtr, stream: Handle) = free_async;
}

/// Reserves, calls the driver and records the pointer that it wrote.
fn charged(
    state: &State,
    bytes: u64,
    is_managed: bool,
    call: impl FnOnce() -> CuResult,
    pointer: impl FnOnce() -> (CuDevicePtr, u64),
) -> CuResult {
    match reserve(state, state.current_account(), bytes) {
        Verdict::Refused => OUT_OF_MEMORY,
        Verdict::Free => call(),
        Verdict::Reserved(reservation) => {
            let result = call();
            if result == SUCCESS {
                let (pointer, bytes) = pointer();
                let device = reservation.device;
                if is_managed {
                    device.managed.fetch_add(bytes, Ordering::Relaxed);
                }
                let allocation = Allocation { device: device.ordinal, bytes, is_managed };
                state.pointers.insert(pointer, allocation);
                reservation.keep(bytes);
            }
            result
        }
    }
}

unsafe fn allocate(
    state: &State,
    real: unsafe extern "C" fn(*mut CuDevicePtr, usize) -> CuResult,
    pointer: *mut CuDevicePtr,
    bytes: usize,
) -> CuResult {
    let charge = charged_bytes(bytes as u64);
    // SAFETY: the caller's arguments; on success the driver wrote the pointer.
    unsafe { charged(state, charge, false, || real(pointer, bytes), || (pointer.read(), charge)) }
}

/// 32-bit pointers of CUDA 2; today's drivers still export the function.
unsafe fn allocate_v1(
    state: &State,
    real: unsafe extern "C" fn(*mut u32, c_uint) -> CuResult,
    pointer: *mut u32,
    bytes: c_uint,
) -> CuResult {
    let charge = charged_bytes(u64::from(bytes));
    let written = || {
        // SAFETY: on success the driver wrote the pointer.
        (u64::from(unsafe { pointer.read() }), charge)
    };
    // SAFETY: the caller's arguments.
    charged(state, charge, false, || unsafe { real(pointer, bytes) }, written)
}

/// Rows are padded to a pitch that only the driver knows: 512 bytes on every device so far. The charge is
/// corrected with the pitch that it returns.
unsafe fn allocate_pitch(
    state: &State,
    real: unsafe extern "C" fn(*mut CuDevicePtr, *mut usize, usize, usize, c_uint) -> CuResult,
    pointer: *mut CuDevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: c_uint,
) -> CuResult {
    let estimate = charged_bytes(padded(width as u64).saturating_mul(height as u64));
    let written = || {
        // SAFETY: on success the driver wrote pointer and pitch.
        let (pointer, pitch) = unsafe { (pointer.read(), pitch.read() as u64) };
        (pointer, charged_bytes(pitch.saturating_mul(height as u64)))
    };
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(pointer, pitch, width, height, element) };
    charged(state, estimate, false, call, written)
}

unsafe fn allocate_pitch_v1(
    state: &State,
    real: unsafe extern "C" fn(*mut u32, *mut c_uint, c_uint, c_uint, c_uint) -> CuResult,
    pointer: *mut u32,
    pitch: *mut c_uint,
    width: c_uint,
    height: c_uint,
    element: c_uint,
) -> CuResult {
    let estimate = charged_bytes(padded(u64::from(width)).saturating_mul(u64::from(height)));
    let written = || {
        // SAFETY: on success the driver wrote pointer and pitch.
        let (pointer, pitch) = unsafe { (u64::from(pointer.read()), u64::from(pitch.read())) };
        (pointer, charged_bytes(pitch.saturating_mul(u64::from(height))))
    };
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(pointer, pitch, width, height, element) };
    charged(state, estimate, false, call, written)
}

fn padded(width: u64) -> u64 {
    width.checked_next_multiple_of(512).unwrap_or(u64::MAX)
}

/// Managed memory moves between host and device; it is charged in full, because all of it may be on the device.
unsafe fn allocate_managed(
    state: &State,
    real: unsafe extern "C" fn(*mut CuDevicePtr, usize, c_uint) -> CuResult,
    pointer: *mut CuDevicePtr,
    bytes: usize,
    flags: c_uint,
) -> CuResult {
    let charge = charged_bytes(bytes as u64);
    // SAFETY: the caller's arguments; on success the driver wrote the pointer.
    unsafe {
        charged(state, charge, true, || real(pointer, bytes, flags), || (pointer.read(), charge))
    }
}

/// Frees a pointer. One that we do not know is the driver's business alone.
fn freed(state: &State, pointer: CuDevicePtr, call: impl FnOnce() -> CuResult) -> CuResult {
    let _operation = state.begin();
    let known = state.pointers.remove(pointer);
    let orphan = if known.is_none() { state.pools.orphaned(pointer) } else { None };
    let result = call();
    match known {
        Some(allocation) if result == SUCCESS => {
            if allocation.is_managed
                && let Account::Limited(_, device) = state.account(allocation.device)
            {
                device.managed.fetch_sub(allocation.bytes, Ordering::Relaxed);
            }
            account::release(state, allocation.device, allocation.bytes);
        }
        Some(allocation) => state.pointers.insert(pointer, allocation),
        None if result == SUCCESS => state.pools.freed(state, orphan.as_ref()),
        None => {}
    }
    result
}

unsafe fn free(
    state: &State,
    real: unsafe extern "C" fn(CuDevicePtr) -> CuResult,
    pointer: CuDevicePtr,
) -> CuResult {
    // SAFETY: the caller's argument.
    let result = freed(state, pointer, || unsafe { real(pointer) });
    // Freeing this way waits for the device, after which pools give memory back.
    pools::refresh_if_needed(state);
    result
}

unsafe fn free_v1(
    state: &State,
    real: unsafe extern "C" fn(u32) -> CuResult,
    pointer: u32,
) -> CuResult {
    // SAFETY: the caller's argument.
    freed(state, u64::from(pointer), || unsafe { real(pointer) })
}

unsafe fn free_async(
    state: &State,
    real: unsafe extern "C" fn(CuDevicePtr, Handle) -> CuResult,
    pointer: CuDevicePtr,
    stream: Handle,
) -> CuResult {
    // SAFETY: the caller's arguments.
    freed(state, pointer, || unsafe { real(pointer, stream) })
}
