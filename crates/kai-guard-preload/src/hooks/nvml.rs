//! NVML: the same numbers as CUDA, and no processes of other tenants.

use std::ffi::{CStr, c_char, c_uint};

use kai_guard::limits::{DeviceUuid, Mode};

use crate::attach::Attached;
use crate::cuda::{
    CuResult, Handle, NvmlMemory, NvmlMemoryV2, NvmlProcessV1, NvmlProcessV2, SUCCESS,
};
use crate::hooks::hooks;
use crate::state::State;
use crate::symbols;

hooks! {
    nvmlDeviceGetMemoryInfo(device: Handle, memory: *mut NvmlMemory) = memory_info;
    nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: *mut NvmlMemoryV2) = memory_info_v2;
    nvmlDeviceGetComputeRunningProcesses(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV1) = processes_v1;
    nvmlDeviceGetComputeRunningProcesses_v2(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV2) = processes;
    nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV2) = processes;
    nvmlDeviceGetGraphicsRunningProcesses(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV1) = processes_v1;
    nvmlDeviceGetGraphicsRunningProcesses_v2(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV2) = processes;
    nvmlDeviceGetGraphicsRunningProcesses_v3(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV2) = processes;
    nvmlDeviceGetMPSComputeRunningProcesses(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV1) = processes_v1;
    nvmlDeviceGetMPSComputeRunningProcesses_v2(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV2) = processes;
    nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Handle, count: *mut c_uint, list: *mut NvmlProcessV2) = processes;
}

/// What a container sees of a device.
struct Shown {
    total: u64,
    free: u64,
    used: u64,
}

/// Numbers for a device with limits in mode enforce, whether or not this process uses it with CUDA.
fn shown(state: &State, device: Handle, total: u64, free: u64) -> Option<Shown> {
    let attached = enforced(state)?;
    let limits = state.limits_of(uuid(device)?)?;
    let index = attached.region.device(limits.uuid)?;
    attached.region.reap(&attached.processes, Some(attached.pid));
    let total = total.min(limits.limit_bytes);
    let used = attached.region.used(index).min(total);
    Some(Shown { total, used, free: free.min(total - used) })
}

fn enforced(state: &State) -> Option<&Attached> {
    state.attached.as_ref().filter(|_| state.mode == Mode::Enforce)
}

fn uuid(device: Handle) -> Option<DeviceUuid> {
    let ask = symbols::nvml_device_uuid()?;
    let mut text = [0_u8; 96];
    // SAFETY: NVML writes a C string of at most 96 bytes.
    if unsafe { ask(device, text.as_mut_ptr().cast::<c_char>(), 96) } != SUCCESS {
        return None;
    }
    DeviceUuid::parse(CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?)
}

unsafe fn memory_info(
    state: &State,
    real: unsafe extern "C" fn(Handle, *mut NvmlMemory) -> CuResult,
    device: Handle,
    memory: *mut NvmlMemory,
) -> CuResult {
    // SAFETY: the caller's arguments; on success NVML filled the structure.
    unsafe {
        let result = real(device, memory);
        if result == SUCCESS
            && let Some(shown) = shown(state, device, (*memory).total, (*memory).free)
        {
            memory.write(NvmlMemory {
                total: shown.total,
                free: shown.free,
                used: shown.total - shown.free,
            });
        }
        result
    }
}

unsafe fn memory_info_v2(
    state: &State,
    real: unsafe extern "C" fn(Handle, *mut NvmlMemoryV2) -> CuResult,
    device: Handle,
    memory: *mut NvmlMemoryV2,
) -> CuResult {
    // SAFETY: the caller's arguments; on success NVML filled the structure.
    unsafe {
        let result = real(device, memory);
        if result == SUCCESS
            && let Some(shown) = shown(state, device, (*memory).total, (*memory).free)
        {
            (*memory).total = shown.total;
            (*memory).free = shown.free;
            (*memory).used = shown.used;
            // What the container may have and the device cannot give now, so that the sum is the total.
            (*memory).reserved = shown.total - shown.used - shown.free;
        }
        result
    }
}

/// Keeps the entries of the container's own processes; returns how many.
unsafe fn keep_own<T: Copy>(
    attached: &Attached,
    list: *mut T,
    count: usize,
    pid: fn(&T) -> u32,
) -> c_uint {
    let own: Vec<u32> = attached.region.pids().collect();
    // SAFETY: NVML filled `count` entries of the caller's array.
    let entries = unsafe { std::slice::from_raw_parts_mut(list, count) };
    let kept: Vec<T> = entries.iter().copied().filter(|entry| own.contains(&pid(entry))).collect();
    for (to, from) in entries.iter_mut().zip(&kept) {
        *to = *from;
    }
    kept.len() as c_uint
}

unsafe fn processes(
    state: &State,
    real: unsafe extern "C" fn(Handle, *mut c_uint, *mut NvmlProcessV2) -> CuResult,
    device: Handle,
    count: *mut c_uint,
    list: *mut NvmlProcessV2,
) -> CuResult {
    // SAFETY: the caller's arguments; on success NVML wrote the number and the entries.
    unsafe {
        let result = real(device, count, list);
        if let (SUCCESS, false, Some(attached)) = (result, list.is_null(), enforced(state)) {
            count.write(keep_own(attached, list, count.read() as usize, |entry| entry.pid));
        }
        result
    }
}

unsafe fn processes_v1(
    state: &State,
    real: unsafe extern "C" fn(Handle, *mut c_uint, *mut NvmlProcessV1) -> CuResult,
    device: Handle,
    count: *mut c_uint,
    list: *mut NvmlProcessV1,
) -> CuResult {
    // SAFETY: the caller's arguments; on success NVML wrote the number and the entries.
    unsafe {
        let result = real(device, count, list);
        if let (SUCCESS, false, Some(attached)) = (result, list.is_null(), enforced(state)) {
            count.write(keep_own(attached, list, count.read() as usize, |entry| entry.pid));
        }
        result
    }
}
