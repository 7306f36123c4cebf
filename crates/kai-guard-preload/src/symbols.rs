//! The table of hooked functions: name, our function, address of the real one.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::elf;
use crate::hooks::wrappers;

/// Library of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Cuda,
    Nvml,
}

/// A hooked function and its replacement.
pub(crate) struct Wrapper {
    pub(crate) name: &'static CStr,
    /// Address of our function.
    pub(crate) address: fn() -> usize,
    /// Address of the driver's function; 0 when unknown or absent.
    pub(crate) real: &'static AtomicUsize,
}

impl Wrapper {
    fn library(&self) -> Library {
        if self.name.to_bytes().starts_with(b"nvml") { Library::Nvml } else { Library::Cuda }
    }
}

/// The hooked function with this name.
pub(crate) fn by_name(name: &CStr) -> Option<&'static Wrapper> {
    wrappers().find(|wrapper| wrapper.name == name)
}

/// Our function in the place of a real one. Addresses the table does not know stay as they are.
pub(crate) fn replaced(real: usize) -> Option<usize> {
    let known = |wrapper: &&Wrapper| wrapper.real.load(Ordering::Relaxed) == real;
    (real != 0).then(|| wrappers().find(known)).flatten().map(|wrapper| (wrapper.address)())
}

static HAS_CUDA: AtomicBool = AtomicBool::new(false);
static HAS_NVML: AtomicBool = AtomicBool::new(false);

/// Makes sure that the real functions of a library are known, if it is loaded. Two threads that do this at the
/// same time write the same addresses.
pub(crate) fn find(library: Library) -> bool {
    let (found, file, names): (_, &[u8], &[&CStr]) = match library {
        Library::Cuda => (&HAS_CUDA, b"libcuda.so", &[c"cuInit", c"cuMemAlloc_v2"]),
        Library::Nvml => {
            (&HAS_NVML, b"libnvidia-ml.so", &[c"nvmlInit_v2", c"nvmlDeviceGetMemoryInfo"])
        }
    };
    if found.load(Ordering::Acquire) {
        return true;
    }
    let Some(object) = elf::library(file, names) else { return false };
    for wrapper in wrappers().filter(|wrapper| wrapper.library() == library) {
        wrapper.real.store(object.symbol(wrapper.name).unwrap_or(0), Ordering::Relaxed);
    }
    for helper in HELPERS.iter().filter(|helper| helper.library == library) {
        helper.real.store(object.symbol(helper.name).unwrap_or(0), Ordering::Relaxed);
    }
    found.store(true, Ordering::Release);
    true
}

/// A function that we call and do not replace.
pub(crate) struct Helper {
    name: &'static CStr,
    library: Library,
    real: AtomicUsize,
}

macro_rules! helpers {
    ($($function:ident, $library:ident, $name:ident($($argument:ty),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, if the library has it.")]
            pub(crate) fn $function() -> Option<unsafe extern "C" fn($($argument),*) -> i32> {
                static INDEX: AtomicUsize = AtomicUsize::new(usize::MAX);
                let name = concat!(stringify!($name), "\0");
                let real = helper(&INDEX, name, Library::$library)?;
                // SAFETY: the address is that of the function of this name; NVIDIA's headers give the signature.
                Some(unsafe { std::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> i32>(real) })
            }
        )*
        static HELPERS: [Helper; [$(stringify!($name)),*].len()] = [$(Helper {
            name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
            library: Library::$library,
            real: AtomicUsize::new(0),
        }),*];
    };
}

fn helper(index: &AtomicUsize, name: &str, library: Library) -> Option<usize> {
    if !find(library) {
        return None;
    }
    let mut position = index.load(Ordering::Relaxed);
    if position == usize::MAX {
        let is_named = |helper: &Helper| helper.name.to_bytes_with_nul() == name.as_bytes();
        position = HELPERS.iter().position(is_named)?;
        index.store(position, Ordering::Relaxed);
    }
    match HELPERS.get(position)?.real.load(Ordering::Relaxed) {
        0 => None,
        real => Some(real),
    }
}

use crate::cuda::{AllocNodeParams, CuDevice, CuDevicePtr, Handle, NvmlProcessV2};
use std::ffi::{c_char, c_int, c_uint, c_void};

helpers! {
    cu_ctx_get_device, Cuda, cuCtxGetDevice(*mut CuDevice);
    cu_ctx_push, Cuda, cuCtxPushCurrent_v2(Handle);
    cu_ctx_pop, Cuda, cuCtxPopCurrent_v2(*mut Handle);
    cu_device_get_uuid, Cuda, cuDeviceGetUuid(*mut u8, CuDevice);
    cu_device_get_uuid_v2, Cuda, cuDeviceGetUuid_v2(*mut u8, CuDevice);
    cu_device_get_attribute, Cuda, cuDeviceGetAttribute(*mut c_int, c_int, CuDevice);
    cu_primary_ctx_state, Cuda, cuDevicePrimaryCtxGetState(CuDevice, *mut c_uint, *mut c_int);
    cu_device_get_mem_pool, Cuda, cuDeviceGetMemPool(*mut Handle, CuDevice);
    cu_pool_attribute, Cuda, cuMemPoolGetAttribute(Handle, c_int, *mut c_void);
    cu_pointer_attribute, Cuda, cuPointerGetAttribute(*mut c_void, c_int, CuDevicePtr);
    cu_graph_nodes, Cuda, cuGraphGetNodes(Handle, *mut Handle, *mut usize);
    cu_node_type, Cuda, cuGraphNodeGetType(Handle, *mut c_int);
    cu_alloc_node_params, Cuda, cuGraphMemAllocNodeGetParams(Handle, *mut AllocNodeParams);
    cu_child_graph, Cuda, cuGraphChildGraphNodeGetGraph(Handle, *mut Handle);
    cu_graph_memory, Cuda, cuDeviceGetGraphMemAttribute(CuDevice, c_int, *mut c_void);
    nvml_init, Nvml, nvmlInit_v2();
    nvml_device_by_uuid, Nvml, nvmlDeviceGetHandleByUUID(*const c_char, *mut Handle);
    nvml_device_uuid, Nvml, nvmlDeviceGetUUID(Handle, *mut c_char, c_uint);
    nvml_processes, Nvml, nvmlDeviceGetComputeRunningProcesses_v3(Handle, *mut c_uint, *mut NvmlProcessV2);
}
