//! Virtual memory management: physical memory is charged on the device it is created on.

use std::ffi::{c_int, c_void};

use crate::account::{self, Verdict, reserve};
use crate::cuda::{
    AllocationProperties, CuDevicePtr, CuResult, LOCATION_DEVICE, OUT_OF_MEMORY, SUCCESS,
};
use crate::hooks::hooks;
use crate::state::State;

type PhysicalHandle = u64;

hooks! {
    cuMemCreate(handle: *mut PhysicalHandle, bytes: usize, properties: *const AllocationProperties, flags: u64) = create;
    cuMemRelease(handle: PhysicalHandle) = release;
    cuMemRetainAllocationHandle(handle: *mut PhysicalHandle, address: *mut c_void) = retain;
    cuMemMap(address: CuDevicePtr, bytes: usize, offset: usize, handle: PhysicalHandle, flags: u64) = map;
    cuMemUnmap(address: CuDevicePtr, bytes: usize) = unmap;
}

unsafe fn create(
    state: &State,
    real: unsafe extern "C" fn(
        *mut PhysicalHandle,
        usize,
        *const AllocationProperties,
        u64,
    ) -> CuResult,
    handle: *mut PhysicalHandle,
    bytes: usize,
    properties: *const AllocationProperties,
    flags: u64,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real(handle, bytes, properties, flags) };
    // SAFETY: the caller passes properties, or null, which the driver rejects.
    let location = unsafe { properties.as_ref() }.map(|properties| properties.location);
    let Some(location) = location.filter(|location| location.kind == LOCATION_DEVICE) else {
        return call();
    };
    match reserve(state, state.account(location.id as c_int), bytes as u64) {
        Verdict::Refused => OUT_OF_MEMORY,
        Verdict::Free => call(),
        Verdict::Reserved(reservation) => {
            let result = call();
            if result == SUCCESS {
                // SAFETY: on success the driver wrote the handle.
                state.physicals.create(unsafe { handle.read() }, location.id, bytes as u64);
                reservation.keep(bytes as u64);
            }
            result
        }
    }
}

unsafe fn release(
    state: &State,
    real: unsafe extern "C" fn(PhysicalHandle) -> CuResult,
    handle: PhysicalHandle,
) -> CuResult {
    let _operation = state.begin();
    // Before the call: afterwards the driver may give the same handle to another thread.
    let freed = state.physicals.release(handle);
    // SAFETY: the caller's argument.
    let result = unsafe { real(handle) };
    if result == SUCCESS
        && let Some(freed) = freed
    {
        account::release(state, freed.device, freed.bytes);
    }
    result
}

unsafe fn retain(
    state: &State,
    real: unsafe extern "C" fn(*mut PhysicalHandle, *mut c_void) -> CuResult,
    handle: *mut PhysicalHandle,
    address: *mut c_void,
) -> CuResult {
    // SAFETY: the caller's arguments; on success the driver wrote the handle.
    unsafe {
        let result = real(handle, address);
        if result == SUCCESS {
            state.physicals.retain(handle.read(), address as u64);
        }
        result
    }
}

unsafe fn map(
    state: &State,
    real: unsafe extern "C" fn(CuDevicePtr, usize, usize, PhysicalHandle, u64) -> CuResult,
    address: CuDevicePtr,
    bytes: usize,
    offset: usize,
    handle: PhysicalHandle,
    flags: u64,
) -> CuResult {
    // SAFETY: the caller's arguments.
    let result = unsafe { real(address, bytes, offset, handle, flags) };
    if result == SUCCESS {
        state.physicals.map(address, bytes as u64, handle);
    }
    result
}

unsafe fn unmap(
    state: &State,
    real: unsafe extern "C" fn(CuDevicePtr, usize) -> CuResult,
    address: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    let _operation = state.begin();
    // Before the call: afterwards another thread may map memory there.
    let freed = state.physicals.unmap(address, bytes as u64);
    // SAFETY: the caller's arguments.
    let result = unsafe { real(address, bytes) };
    if result == SUCCESS {
        for freed in freed {
            account::release(state, freed.device, freed.bytes);
        }
    }
    result
}
