//! How much memory there is: the limit, and what is left of it.

use std::ffi::c_uint;
use std::sync::atomic::Ordering;

use kai_guard::limits::Mode;

use crate::attach::Attached;
use crate::cuda::{CuDevice, CuResult, SUCCESS};
use crate::hooks::hooks;
use crate::measured::update_overhead;
use crate::state::{Account, Device, State, current_device};

hooks! {
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = memory_info;
    cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) = memory_info_v1;
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CuDevice) = total_memory;
    cuDeviceTotalMem(bytes: *mut c_uint, device: CuDevice) = total_memory_v1;
}

type MemoryInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> CuResult;

/// Free and total bytes of the current device, as the driver says.
pub(crate) fn real_memory() -> Option<(u64, u64)> {
    let address = crate::hooks::real(&reals::cuMemGetInfo_v2, "cuMemGetInfo_v2");
    if address == 0 {
        return None;
    }
    let (mut free, mut total) = (0_usize, 0_usize);
    // SAFETY: the address is that of the driver's `cuMemGetInfo_v2`, which writes two sizes.
    let result = unsafe {
        let real = std::mem::transmute::<usize, MemoryInfo>(address);
        real(&raw mut free, &raw mut total)
    };
    (result == SUCCESS).then_some((free as u64, total as u64))
}

/// Total and free bytes inside the limit.
fn limited(
    state: &State,
    attached: &Attached,
    device: &Device,
    total: u64,
    free: u64,
) -> (u64, u64) {
    attached.region.reap(&attached.processes, Some(attached.pid));
    update_overhead(state, attached, device, 0, 0);
    let total = total.min(device.limit.load(Ordering::Relaxed));
    let left = total.saturating_sub(attached.region.used(device.index));
    (total, left.min(free))
}

fn limited_on(state: &State, ordinal: Option<CuDevice>, total: u64, free: u64) -> (u64, u64) {
    if state.mode != Mode::Enforce {
        return (total, free);
    }
    match ordinal.map_or(Account::Free, |ordinal| state.account(ordinal)) {
        Account::Limited(attached, device) => limited(state, attached, device, total, free),
        Account::Closed => (total, 0),
        Account::Free => (total, free),
    }
}

unsafe fn memory_info(
    state: &State,
    real: MemoryInfo,
    free: *mut usize,
    total: *mut usize,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote both.
    unsafe {
        let result = real(free, total);
        if result == SUCCESS {
            let shown =
                limited_on(state, current_device(), total.read() as u64, free.read() as u64);
            total.write(shown.0 as usize);
            free.write(shown.1 as usize);
        }
        result
    }
}

unsafe fn memory_info_v1(
    state: &State,
    real: unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> CuResult,
    free: *mut c_uint,
    total: *mut c_uint,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote both.
    unsafe {
        let result = real(free, total);
        if result == SUCCESS {
            let shown =
                limited_on(state, current_device(), total.read().into(), free.read().into());
            total.write(u32::try_from(shown.0).unwrap_or(u32::MAX));
            free.write(u32::try_from(shown.1).unwrap_or(u32::MAX));
        }
        result
    }
}

unsafe fn total_memory(
    state: &State,
    real: unsafe extern "C" fn(*mut usize, CuDevice) -> CuResult,
    bytes: *mut usize,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the size.
    unsafe {
        let result = real(bytes, device);
        if result == SUCCESS {
            bytes.write(limited_on(state, Some(device), bytes.read() as u64, 0).0 as usize);
        }
        result
    }
}

unsafe fn total_memory_v1(
    state: &State,
    real: unsafe extern "C" fn(*mut c_uint, CuDevice) -> CuResult,
    bytes: *mut c_uint,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the size.
    unsafe {
        let result = real(bytes, device);
        if result == SUCCESS {
            let shown = limited_on(state, Some(device), bytes.read().into(), 0).0;
            bytes.write(u32::try_from(shown).unwrap_or(u32::MAX));
        }
        result
    }
}
