//! Functions that glibc before 2.34 keeps in `libpthread.so.0` and `libdl.so.2`, for this library alone.
//!
//! Linked the usual way they would make the loader demand both files, and images without them (glibc 2.34 and later needs
//! neither) would start no program at all. The definitions below are hidden: no other object sees them.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::elf;

/// Keys above this number are our own, handed out where the process has no thread library.
const FIRST_OWN_KEY: u32 = 1 << 30;
const NO_MEMORY: c_int = 12;

type KeyCreate = unsafe extern "C" fn(*mut u32, *mut c_void) -> c_int;
type KeyDelete = unsafe extern "C" fn(u32) -> c_int;
type SetSpecific = unsafe extern "C" fn(u32, *const c_void) -> c_int;
type Dlopen = unsafe extern "C" fn(*const std::ffi::c_char, c_int) -> *mut c_void;

/// The function of a loaded object, remembered once it is found.
fn real(cache: &AtomicUsize, name: &CStr) -> Option<usize> {
    let known = cache.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    let found = elf::next_definition(name)?;
    cache.store(found, Ordering::Release);
    Some(found)
}

/// `dlopen`; null where the process has no `libdl`, which `libcuda` always brings.
pub(crate) fn dlopen(file: &CStr, flags: c_int) -> *mut c_void {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    let Some(real) = real(&REAL, c"dlopen") else { return std::ptr::null_mut() };
    // SAFETY: the address is that of a `dlopen`, and the file name a C string.
    unsafe { std::mem::transmute::<usize, Dlopen>(real)(file.as_ptr(), flags) }
}

/// `pthread_key_create` for the standard library, which frees variables of ended threads by it. Without a thread library
/// there is one thread, whose variables live as long as the process.
unsafe extern "C" fn key_create(key: *mut u32, destructor: *mut c_void) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    static OWN: AtomicU32 = AtomicU32::new(FIRST_OWN_KEY);
    if let Some(real) = real(&REAL, c"pthread_key_create") {
        // SAFETY: the address is that of the function of this name; the arguments are the caller's.
        return unsafe { std::mem::transmute::<usize, KeyCreate>(real)(key, destructor) };
    }
    if key.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: not null, and the caller's variable.
    unsafe { key.write(OWN.fetch_add(1, Ordering::Relaxed)) };
    0
}

/// `pthread_key_delete`.
unsafe extern "C" fn key_delete(key: u32) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    match real(&REAL, c"pthread_key_delete").filter(|_| key < FIRST_OWN_KEY) {
        // SAFETY: the address is that of the function of this name, and so the key is one of its own.
        Some(real) => unsafe { std::mem::transmute::<usize, KeyDelete>(real)(key) },
        None => 0,
    }
}

/// `pthread_setspecific`. A value under a key of our own is never read again.
unsafe extern "C" fn set_specific(key: u32, value: *const c_void) -> c_int {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    match real(&REAL, c"pthread_setspecific").filter(|_| key < FIRST_OWN_KEY) {
        // SAFETY: the address is that of the function of this name, and so the key is one of its own.
        Some(real) => unsafe { std::mem::transmute::<usize, SetSpecific>(real)(key, value) },
        None => 0,
    }
}

/// `pthread_rwlock_rdlock` and `pthread_rwlock_wrlock` for the unwinder, which holds its locks for a few instructions and
/// never twice. The lock is zero at first and 1 while it is held.
unsafe extern "C" fn lock(lock: *const AtomicU32) -> c_int {
    // SAFETY: the caller's lock, which is larger and aligned for a word.
    let word = unsafe { &*lock };
    while word.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
    0
}

/// `pthread_rwlock_unlock`.
unsafe extern "C" fn unlock(lock: *const AtomicU32) -> c_int {
    // SAFETY: as in `lock`.
    unsafe { &*lock }.store(0, Ordering::Release);
    0
}

/// `dladdr` for the unwinder, which would print names by it: nothing is found.
unsafe extern "C" fn no_name(_: *const c_void, _: *mut c_void) -> c_int {
    0
}

#[cfg(all(not(test), target_arch = "x86_64"))]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}
#[cfg(all(not(test), target_arch = "aarch64"))]
macro_rules! jump {
    () => {
        "b {function}"
    };
}

/// Defines a function of the C library for the objects of this library alone.
macro_rules! hidden {
    ($($name:literal = $function:path;)*) => {$(
        #[cfg(not(test))]
        std::arch::global_asm!(
            concat!(".hidden ", $name),
            concat!(".globl ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            jump!(),
            concat!(".size ", $name, ", . - ", $name),
            function = sym $function,
        );
    )*};
}

hidden! {
    "pthread_key_create" = key_create;
    "pthread_key_delete" = key_delete;
    "pthread_setspecific" = set_specific;
    "pthread_rwlock_rdlock" = lock;
    "pthread_rwlock_wrlock" = lock;
    "pthread_rwlock_unlock" = unlock;
    "dladdr" = no_name;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_thread_library() {
        let mut key = 0;
        // SAFETY: a variable of this function, a destructor that is never called, a key that exists.
        unsafe {
            assert_eq!(key_create(&raw mut key, std::ptr::null_mut()), 0);
            assert!(key < FIRST_OWN_KEY, "{key}");
            assert_eq!(set_specific(key, (&raw const key).cast()), 0);
            assert_eq!(libc::pthread_getspecific(key), (&raw mut key).cast());
            assert_eq!(key_delete(key), 0);
        }
    }

    #[test]
    fn locks_exclude_each_other() {
        let word = AtomicU32::new(0);
        let count = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        // SAFETY: a lock that outlives the threads.
                        unsafe { lock(&raw const word) };
                        let value = count.load(Ordering::Relaxed);
                        count.store(value + 1, Ordering::Relaxed);
                        // SAFETY: as above.
                        unsafe { unlock(&raw const word) };
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 4000);
    }
}
