//! Which address a caller gets for a name: ours where the driver's would be, everything else untouched.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cuda::{CuResult, NOT_INITIALIZED, SUCCESS};
use crate::symbols::{self, Library};
use crate::{elf, state};

static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);
static REAL_DLVSYM: AtomicUsize = AtomicUsize::new(0);

/// Answer of a filter: the address and 1, or 0 when the real function has to be called as if we were not there.
#[repr(C)]
pub(crate) struct Filtered {
    address: usize,
    is_final: usize,
}

const PASS: Filtered = Filtered { address: 0, is_final: 0 };

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// `dlsym`. The real function is reached by a jump with the caller's return address, because it finds out by that
/// address which object `RTLD_NEXT` starts from.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rdi", "push rsi", "sub rsp, 8",
        "call {filter}",
        "add rsp, 8", "pop rsi", "pop rdi",
        "test rdx, rdx", "jnz 2f",
        "mov rax, qword ptr [rip + {real}]", "jmp rax",
        "2:", "ret",
        filter = sym filter_dlsym, real = sym REAL_DLSYM,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, -32]!", "stp x0, x1, [sp, 16]",
        "bl {filter}",
        "mov x9, x0", "mov x10, x1",
        "ldp x0, x1, [sp, 16]", "ldp x29, x30, [sp], 32",
        "cbnz x10, 2f",
        "adrp x16, {real}", "ldr x16, [x16, :lo12:{real}]", "br x16",
        "2:", "mov x0, x9", "ret",
        filter = sym filter_dlsym, real = sym REAL_DLSYM,
    );
}

/// `dlvsym`; as `dlsym`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rdi", "push rsi", "push rdx",
        "call {filter}",
        "mov rcx, rdx",
        "pop rdx", "pop rsi", "pop rdi",
        "test rcx, rcx", "jnz 2f",
        "mov rax, qword ptr [rip + {real}]", "jmp rax",
        "2:", "ret",
        filter = sym filter_dlvsym, real = sym REAL_DLVSYM,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, -48]!", "stp x0, x1, [sp, 16]", "str x2, [sp, 32]",
        "bl {filter}",
        "mov x9, x0", "mov x10, x1",
        "ldp x0, x1, [sp, 16]", "ldr x2, [sp, 32]", "ldp x29, x30, [sp], 48",
        "cbnz x10, 2f",
        "adrp x16, {real}", "ldr x16, [x16, :lo12:{real}]", "br x16",
        "2:", "mov x0, x9", "ret",
        filter = sym filter_dlvsym, real = sym REAL_DLVSYM,
    );
}

unsafe extern "C" fn filter_dlsym(handle: *mut c_void, name: *const c_char) -> Filtered {
    let Some(real) = real_address(&REAL_DLSYM, c"dlsym") else {
        return Filtered { address: 0, is_final: 1 };
    };
    // SAFETY: the address is that of a `dlsym`.
    let real = unsafe { std::mem::transmute::<usize, Dlsym>(real) };
    // SAFETY: the caller passes a C string, as `dlsym` demands.
    unsafe {
        filter(name, |next| {
            let handle = if next { libc::RTLD_NEXT } else { handle };
            real(handle, name) as usize
        })
    }
}

unsafe extern "C" fn filter_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> Filtered {
    let Some(real) = real_address(&REAL_DLVSYM, c"dlvsym") else {
        return Filtered { address: 0, is_final: 1 };
    };
    // SAFETY: the address is that of a `dlvsym`.
    let real = unsafe { std::mem::transmute::<usize, Dlvsym>(real) };
    // SAFETY: the caller passes C strings, as `dlvsym` demands.
    unsafe {
        filter(name, |next| {
            let handle = if next { libc::RTLD_NEXT } else { handle };
            real(handle, name, version) as usize
        })
    }
}

/// The loader's own function. Never found with `dlsym`, and without any allocation: allocators call `dlsym` too.
fn real_address(cache: &AtomicUsize, name: &CStr) -> Option<usize> {
    match cache.load(Ordering::Acquire) {
        0 => {
            let found = elf::next_definition(name)?;
            cache.store(found, Ordering::Release);
            Some(found)
        }
        known => Some(known),
    }
}

/// Judges one lookup; `look_up(true)` looks only behind this library.
unsafe fn filter(name: *const c_char, look_up: impl Fn(bool) -> usize) -> Filtered {
    if name.is_null() {
        return PASS;
    }
    // SAFETY: not null, and the caller's C string.
    let name = unsafe { CStr::from_ptr(name) };
    let library = match name.to_bytes() {
        [b'c', b'u', b'A'..=b'Z', ..] => Library::Cuda,
        [b'n', b'v', b'm', b'l', ..] => Library::Nvml,
        _ => return PASS,
    };
    let Some(wrapper) = symbols::by_name(name) else { return PASS };
    let ours = (wrapper.address)();
    let mut real = look_up(false);
    if real == ours {
        // A lookup in the global scope finds our export first; the caller means the driver's.
        real = look_up(true);
    }
    let replaces = real != 0 && symbols::find(library) && state::is_on();
    let address =
        if replaces && wrapper.real.load(Ordering::Acquire) == real { ours } else { real };
    Filtered { address, is_final: 1 }
}

type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut usize, c_int, u64) -> CuResult;
type GetProcAddressV2 =
    unsafe extern "C" fn(*const c_char, *mut usize, c_int, u64, *mut c_int) -> CuResult;

/// Address table entries of the two functions below; the driver fills version, flags and status as always.
pub(crate) static REAL_GET: AtomicUsize = AtomicUsize::new(0);
pub(crate) static REAL_GET_V2: AtomicUsize = AtomicUsize::new(0);

/// `cuGetProcAddress` of CUDA 11.3.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case, reason = "NVIDIA's name")]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: *mut usize,
    version: c_int,
    flags: u64,
) -> CuResult {
    symbols::find(Library::Cuda);
    let real = REAL_GET.load(Ordering::Acquire);
    if real == 0 {
        return NOT_INITIALIZED;
    }
    // SAFETY: the address is that of the driver's function of this name; arguments are the caller's.
    unsafe {
        let real = std::mem::transmute::<usize, GetProcAddress>(real);
        let result = real(name, function, version, flags);
        replace_answer(result, function);
        result
    }
}

/// `cuGetProcAddress_v2` of CUDA 12.0.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case, reason = "NVIDIA's name")]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut usize,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> CuResult {
    symbols::find(Library::Cuda);
    let real = REAL_GET_V2.load(Ordering::Acquire);
    if real == 0 {
        return NOT_INITIALIZED;
    }
    // SAFETY: the address is that of the driver's function of this name; arguments are the caller's.
    unsafe {
        let real = std::mem::transmute::<usize, GetProcAddressV2>(real);
        let result = real(name, function, version, flags, status);
        replace_answer(result, function);
        result
    }
}

/// The driver chose version and variant; we only exchange the address it chose, if that is one of ours.
unsafe fn replace_answer(result: CuResult, function: *mut usize) {
    if result != SUCCESS || function.is_null() || !state::is_on() {
        return;
    }
    // SAFETY: the driver succeeded, so the caller's pointer holds the answer.
    unsafe {
        if let Some(ours) = symbols::replaced(function.read()) {
            function.write(ours);
        }
    }
}
