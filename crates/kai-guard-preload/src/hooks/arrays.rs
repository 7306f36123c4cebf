//! CUDA arrays and mipmapped arrays.

use std::ffi::c_uint;

use kai_guard::allocations::Allocation;
use kai_guard::array_size::ArrayShape;

use crate::account::{self, Verdict, charged_bytes, reserve};
use crate::cuda::{Array3dDescriptor, ArrayDescriptor, CuResult, Handle, OUT_OF_MEMORY, SUCCESS};
use crate::hooks::hooks;
use crate::state::State;

hooks! {
    cuArrayCreate_v2(array: *mut Handle, descriptor: *const ArrayDescriptor) = create;
    cuArrayCreate(array: *mut Handle, descriptor: *const ArrayDescriptorV1) = create_v1;
    cuArray3DCreate_v2(array: *mut Handle, descriptor: *const Array3dDescriptor) = create_3d;
    cuArray3DCreate(array: *mut Handle, descriptor: *const Array3dDescriptorV1) = create_3d_v1;
    cuMipmappedArrayCreate(array: *mut Handle, descriptor: *const Array3dDescriptor, levels: c_uint) = create_mipmapped;
    cuArrayDestroy(array: Handle) = destroy;
    cuMipmappedArrayDestroy(array: Handle) = destroy;
}

/// `CUDA_ARRAY_DESCRIPTOR` of CUDA 2.
#[repr(C)]
pub struct ArrayDescriptorV1 {
    width: c_uint,
    height: c_uint,
    format: c_uint,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of CUDA 2.
#[repr(C)]
pub struct Array3dDescriptorV1 {
    width: c_uint,
    height: c_uint,
    depth: c_uint,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

impl From<&ArrayDescriptor> for ArrayShape {
    fn from(from: &ArrayDescriptor) -> Self {
        Self {
            width: from.width as u64,
            height: from.height as u64,
            depth: 0,
            format: from.format,
            channels: from.channels,
            flags: 0,
        }
    }
}

impl From<&ArrayDescriptorV1> for ArrayShape {
    fn from(from: &ArrayDescriptorV1) -> Self {
        Self {
            width: from.width.into(),
            height: from.height.into(),
            depth: 0,
            format: from.format,
            channels: from.channels,
            flags: 0,
        }
    }
}

impl From<&Array3dDescriptor> for ArrayShape {
    fn from(from: &Array3dDescriptor) -> Self {
        Self {
            width: from.width as u64,
            height: from.height as u64,
            depth: from.depth as u64,
            format: from.format,
            channels: from.channels,
            flags: from.flags,
        }
    }
}

impl From<&Array3dDescriptorV1> for ArrayShape {
    fn from(from: &Array3dDescriptorV1) -> Self {
        Self {
            width: from.width.into(),
            height: from.height.into(),
            depth: from.depth.into(),
            format: from.format,
            channels: from.channels,
            flags: from.flags,
        }
    }
}

/// Reserves the size of the array; handles share the table of pointers, both are addresses.
unsafe fn charged(
    state: &State,
    array: *mut Handle,
    shape: Option<ArrayShape>,
    levels: u32,
    call: impl FnOnce() -> CuResult,
) -> CuResult {
    let bytes = shape.map_or(0, |shape| shape.bytes(levels));
    if bytes == 0 {
        return call();
    }
    let bytes = charged_bytes(bytes);
    match reserve(state, state.current_account(), bytes) {
        Verdict::Refused => OUT_OF_MEMORY,
        Verdict::Free => call(),
        Verdict::Reserved(reservation) => {
            let result = call();
            if result == SUCCESS {
                let allocation =
                    Allocation { device: reservation.device.ordinal, bytes, is_managed: false };
                // SAFETY: on success the driver wrote the handle.
                state.pointers.insert(unsafe { array.read() } as u64, allocation);
                reservation.keep(bytes);
            }
            result
        }
    }
}

macro_rules! creators {
    ($($name:ident($descriptor:ty);)*) => {$(
        unsafe fn $name(
            state: &State,
            real: unsafe extern "C" fn(*mut Handle, *const $descriptor) -> CuResult,
            array: *mut Handle,
            descriptor: *const $descriptor,
        ) -> CuResult {
            // SAFETY: the caller's arguments; the driver rejects a null descriptor.
            unsafe {
                let shape = descriptor.as_ref().map(ArrayShape::from);
                charged(state, array, shape, 1, || real(array, descriptor))
            }
        }
    )*};
}

creators! {
    create(ArrayDescriptor);
    create_v1(ArrayDescriptorV1);
    create_3d(Array3dDescriptor);
    create_3d_v1(Array3dDescriptorV1);
}

unsafe fn create_mipmapped(
    state: &State,
    real: unsafe extern "C" fn(*mut Handle, *const Array3dDescriptor, c_uint) -> CuResult,
    array: *mut Handle,
    descriptor: *const Array3dDescriptor,
    levels: c_uint,
) -> CuResult {
    // SAFETY: the caller's arguments; the driver rejects a null descriptor.
    unsafe {
        let shape = descriptor.as_ref().map(ArrayShape::from);
        charged(state, array, shape, levels, || real(array, descriptor, levels))
    }
}

unsafe fn destroy(
    state: &State,
    real: unsafe extern "C" fn(Handle) -> CuResult,
    array: Handle,
) -> CuResult {
    let _operation = state.begin();
    let known = state.pointers.remove(array as u64);
    // SAFETY: the caller's argument.
    let result = unsafe { real(array) };
    match known {
        Some(allocation) if result == SUCCESS => {
            account::release(state, allocation.device, allocation.bytes);
        }
        Some(allocation) => state.pointers.insert(array as u64, allocation),
        None => {}
    }
    result
}
