//! Types and numbers of the CUDA driver API and of NVML that hooks need.

use std::ffi::{c_int, c_uint, c_void};

pub(crate) type CuResult = c_int;
pub(crate) type CuDevice = c_int;
pub(crate) type CuDevicePtr = u64;
/// Any opaque handle.
pub(crate) type Handle = *mut c_void;

pub(crate) const SUCCESS: CuResult = 0;
pub(crate) const OUT_OF_MEMORY: CuResult = 2;
pub(crate) const NOT_INITIALIZED: CuResult = 3;
pub(crate) const UNKNOWN: CuResult = 999;

pub(crate) const LOCATION_NONE: c_int = 0;
pub(crate) const LOCATION_DEVICE: c_int = 1;
pub(crate) const POOL_RESERVED_CURRENT: c_int = 5;
pub(crate) const POOL_USED_CURRENT: c_int = 7;
pub(crate) const GRAPH_RESERVED_CURRENT: c_int = 2;
pub(crate) const NODE_CHILD_GRAPH: c_int = 4;
pub(crate) const NODE_MEM_ALLOC: c_int = 10;
pub(crate) const ATTRIBUTE_INTEGRATED: c_int = 18;
pub(crate) const POINTER_MEMPOOL_HANDLE: c_int = 17;
pub(crate) const POINTER_RANGE_SIZE: c_int = 12;

/// `CUmemLocation`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// Start of `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct AllocationProperties {
    pub(crate) kind: c_int,
    pub(crate) handle_types: c_int,
    pub(crate) location: Location,
}

/// Start of `CUmemPoolProps`; the same fields as far as they are read.
pub(crate) type PoolProperties = AllocationProperties;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, with space for fields of later versions.
#[repr(C)]
pub(crate) struct AllocNodeParams {
    pub(crate) pool: PoolProperties,
    /// Rest of the 88 bytes of `CUmemPoolProps`.
    pub(crate) pool_rest: [u64; 9],
    pub(crate) access: *const c_void,
    pub(crate) access_count: usize,
    pub(crate) bytes: usize,
    pub(crate) pointer: CuDevicePtr,
    pub(crate) later: [u64; 16],
}

const _: () = assert!(std::mem::offset_of!(AllocNodeParams, access) == 88);

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
pub(crate) struct Array3dDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: c_uint,
    pub(crate) channels: c_uint,
    pub(crate) flags: c_uint,
}

/// `nvmlMemory_t`.
#[repr(C)]
pub(crate) struct NvmlMemory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub(crate) struct NvmlMemoryV2 {
    pub(crate) version: c_uint,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlProcessInfo_v1_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct NvmlProcessV1 {
    pub(crate) pid: c_uint,
    pub(crate) used: u64,
}

/// `nvmlProcessInfo_v2_t`, of which `_v2` and `_v3` functions fill arrays.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct NvmlProcessV2 {
    pub(crate) pid: c_uint,
    pub(crate) used: u64,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
}
