//! Functions of the CUDA driver API and of NVML that we replace, one module per family.

pub(crate) mod arrays;
pub(crate) mod contexts;
pub(crate) mod graphs;
pub(crate) mod host;
pub(crate) mod linear;
pub(crate) mod nvml;
pub(crate) mod pools;
pub(crate) mod queries;
pub(crate) mod vmm;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cuda::{CuResult, NOT_INITIALIZED, UNKNOWN};
use crate::resolve;
use crate::symbols::{self, Library, Wrapper};

/// `NVML_ERROR_FUNCTION_NOT_FOUND`.
const NVML_FUNCTION_NOT_FOUND: CuResult = 13;

static RESOLUTION: &[Wrapper] = &[
    Wrapper {
        name: c"cuGetProcAddress",
        address: || resolve::cuGetProcAddress as *const () as usize,
        real: &resolve::REAL_GET,
    },
    Wrapper {
        name: c"cuGetProcAddress_v2",
        address: || resolve::cuGetProcAddress_v2 as *const () as usize,
        real: &resolve::REAL_GET_V2,
    },
];

static FAMILIES: [&[Wrapper]; 10] = [
    RESOLUTION,
    linear::HOOKS,
    pools::HOOKS,
    vmm::HOOKS,
    graphs::HOOKS,
    arrays::HOOKS,
    contexts::HOOKS,
    host::HOOKS,
    queries::HOOKS,
    nvml::HOOKS,
];

/// All hooked functions.
pub(crate) fn wrappers() -> impl Iterator<Item = &'static Wrapper> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Address of a real function, looked for if it is not known yet; 0 when the driver has no such function.
pub(crate) fn real(cell: &AtomicUsize, name: &str) -> usize {
    match cell.load(Ordering::Acquire) {
        0 => {
            symbols::find(library(name));
            cell.load(Ordering::Acquire)
        }
        known => known,
    }
}

fn library(name: &str) -> Library {
    if name.starts_with("nvml") { Library::Nvml } else { Library::Cuda }
}

/// Answer for a function that the installed driver does not have.
pub(crate) fn missing(name: &str) -> CuResult {
    if library(name) == Library::Nvml { NVML_FUNCTION_NOT_FOUND } else { NOT_INITIALIZED }
}

/// No panic crosses into the workload.
pub(crate) fn shield(hook: impl FnOnce() -> CuResult) -> CuResult {
    std::panic::catch_unwind(AssertUnwindSafe(hook)).unwrap_or(UNKNOWN)
}

/// Defines exported functions and their table `HOOKS`. The body gets the state, the real function and the
/// arguments; in mode off it is never called.
macro_rules! hooks {
    ($($name:ident($($argument:ident: $kind:ty),*) = $body:path;)*) => {
        mod reals {
            $(
                #[allow(non_upper_case_globals, reason = "NVIDIA's name")]
                pub(super) static $name: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            )*
        }
        $(
            #[doc = concat!("`", stringify!($name), "`")]
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "NVIDIA's name")]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
                let real = $crate::hooks::real(&reals::$name, stringify!($name));
                if real == 0 {
                    return $crate::hooks::missing(stringify!($name));
                }
                // SAFETY: the address is that of the driver's function of this name, with this signature.
                let real = unsafe {
                    std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> i32>(real)
                };
                let Some(state) = $crate::state::get() else {
                    // SAFETY: the caller's arguments, unchanged.
                    return unsafe { real($($argument),*) };
                };
                // SAFETY: the caller's arguments, unchanged; bodies keep the contract of the function.
                $crate::hooks::shield(|| unsafe { $body(state, real, $($argument),*) })
            }
        )*
        pub(crate) static HOOKS: &[$crate::symbols::Wrapper] = &[$(
            $crate::symbols::Wrapper {
                name: match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                address: || $name as *const () as usize,
                real: &reals::$name,
            }
        ),*];
    };
}
pub(crate) use hooks;
