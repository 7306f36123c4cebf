//! Pinned host memory: memory of the device where both are the same (Tegra, GB10), nothing elsewhere.

use std::ffi::{c_uint, c_void};

use kai_guard::allocations::Allocation;

use crate::account::{self, Verdict, reserve};
use crate::cuda::{CuResult, OUT_OF_MEMORY, SUCCESS};
use crate::hooks::hooks;
use crate::state::{Account, State};

hooks! {
    cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) = allocate;
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) = allocate_with_flags;
    cuMemFreeHost(pointer: *mut c_void) = free;
}

fn charged(
    state: &State,
    bytes: usize,
    pointer: *mut *mut c_void,
    call: impl FnOnce() -> CuResult,
) -> CuResult {
    let account = state.current_account();
    if !matches!(&account, Account::Limited(_, device) if device.is_unified) {
        return call();
    }
    let bytes = bytes as u64;
    match reserve(state, account, bytes) {
        Verdict::Refused => OUT_OF_MEMORY,
        Verdict::Free => call(),
        Verdict::Reserved(reservation) => {
            let result = call();
            if result == SUCCESS {
                let allocation =
                    Allocation { device: reservation.device.ordinal, bytes, is_managed: false };
                // SAFETY: on success the driver wrote the pointer.
                state.pointers.insert(unsafe { pointer.read() } as u64, allocation);
                reservation.keep(bytes);
            }
            result
        }
    }
}

unsafe fn allocate(
    state: &State,
    real: unsafe extern "C" fn(*mut *mut c_void, usize) -> CuResult,
    pointer: *mut *mut c_void,
    bytes: usize,
) -> CuResult {
    // SAFETY: the caller's arguments.
    charged(state, bytes, pointer, || unsafe { real(pointer, bytes) })
}

unsafe fn allocate_with_flags(
    state: &State,
    real: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> CuResult,
    pointer: *mut *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> CuResult {
    // SAFETY: the caller's arguments.
    charged(state, bytes, pointer, || unsafe { real(pointer, bytes, flags) })
}

unsafe fn free(
    state: &State,
    real: unsafe extern "C" fn(*mut c_void) -> CuResult,
    pointer: *mut c_void,
) -> CuResult {
    let known = state.pointers.remove(pointer as u64);
    // SAFETY: the caller's argument.
    let result = unsafe { real(pointer) };
    match known {
        Some(allocation) if result == SUCCESS => {
            account::release(state, allocation.device, allocation.bytes);
        }
        Some(allocation) => state.pointers.insert(pointer as u64, allocation),
        None => {}
    }
    result
}
