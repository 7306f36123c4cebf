//! Symbols of loaded objects, read from their dynamic sections. `dlsym` cannot be used for this: we replace it.

use std::ffi::{CStr, c_char, c_int, c_void};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const STT_FUNC: u8 = 2;
const STT_OBJECT: u8 = 1;

/// A loaded ELF object with its symbol tables.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    base: usize,
    start: usize,
    end: usize,
    symbols: *const libc::Elf64_Sym,
    strings: *const c_char,
    gnu_hash: *const u32,
    hash: *const u32,
    name: *const c_char,
}

#[repr(C)]
struct DynamicEntry {
    tag: u64,
    value: u64,
}

/// Calls `visit` with every loaded object, in the order in which symbols are searched, until it returns true.
pub(crate) fn objects(visit: &mut dyn FnMut(&Object) -> bool) {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the reference below, which outlives the iteration; `info` is the loader's.
        let (visit, info) =
            unsafe { (&mut *data.cast::<&mut dyn FnMut(&Object) -> bool>(), &*info) };
        // SAFETY: the loader holds its lock, the object stays mapped during the callback.
        let stop = unsafe { Object::read(info) }.is_some_and(|object| visit(&object));
        c_int::from(stop)
    }
    let mut visit = visit;
    // SAFETY: the callback gets a pointer to `visit`, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut visit).cast()) };
}

impl Object {
    unsafe fn read(info: &libc::dl_phdr_info) -> Option<Self> {
        let base = info.dlpi_addr as usize;
        let (mut dynamic, mut start, mut end) = (None, usize::MAX, 0);
        for index in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the loader says that there are `dlpi_phnum` headers.
            let header = unsafe { &*info.dlpi_phdr.add(index) };
            let at = base.wrapping_add(header.p_vaddr as usize);
            match header.p_type {
                PT_LOAD => {
                    start = start.min(at);
                    end = end.max(at.wrapping_add(header.p_memsz as usize));
                }
                PT_DYNAMIC => dynamic = Some(at as *const DynamicEntry),
                _ => {}
            }
        }
        let mut object = Self {
            base,
            start,
            end,
            symbols: std::ptr::null(),
            strings: std::ptr::null(),
            gnu_hash: std::ptr::null(),
            hash: std::ptr::null(),
            name: info.dlpi_name,
        };
        let mut entry = dynamic?;
        loop {
            // SAFETY: the dynamic section ends with DT_NULL.
            let DynamicEntry { tag, value } = unsafe { entry.read() };
            // glibc writes absolute addresses into the section, except where it is read-only.
            let value = value as usize;
            let address = if value < base { base.wrapping_add(value) } else { value };
            match tag {
                DT_NULL => break,
                DT_SYMTAB => object.symbols = address as *const libc::Elf64_Sym,
                DT_STRTAB => object.strings = address as *const c_char,
                DT_GNU_HASH => object.gnu_hash = address as *const u32,
                DT_HASH => object.hash = address as *const u32,
                _ => {}
            }
            // SAFETY: not the last entry, so there is a next one.
            entry = unsafe { entry.add(1) };
        }
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// Whether the object contains an address.
    pub(crate) fn contains(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Path of the object's file; empty for the program itself.
    pub(crate) fn path(&self) -> &CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader's name is a C string that lives as long as the object.
        unsafe { CStr::from_ptr(self.name) }
    }

    /// Address of a function or variable that the object defines.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: tables come from the object's dynamic section and follow the ELF specification.
        unsafe { if self.gnu_hash.is_null() { self.by_hash(name) } else { self.by_gnu_hash(name) } }
    }

    unsafe fn by_gnu_hash(&self, name: &CStr) -> Option<usize> {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let table = self.gnu_hash;
        // SAFETY: a GNU hash table starts with four words, then come the filter, the buckets and the chains.
        unsafe {
            let (buckets, first) = (table.read(), table.add(1).read());
            let filter_words = table.add(2).read() as usize;
            let bucket_table = table.add(4 + filter_words * 2);
            let chains = bucket_table.add(buckets as usize);
            let mut index = bucket_table.add((hash.checked_rem(buckets)?) as usize).read();
            if index < first {
                return None;
            }
            loop {
                let chain = chains.add((index - first) as usize).read();
                if chain | 1 == hash | 1
                    && let Some(address) = self.defined(index, name)
                {
                    return Some(address);
                }
                if chain & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }

    unsafe fn by_hash(&self, name: &CStr) -> Option<usize> {
        if self.hash.is_null() {
            return None;
        }
        // SAFETY: the second word of a hash table is the number of symbols.
        let count = unsafe { self.hash.add(1).read() };
        // SAFETY: every index is below the number of symbols.
        (0..count).find_map(|index| unsafe { self.defined(index, name) })
    }

    unsafe fn defined(&self, index: u32, name: &CStr) -> Option<usize> {
        // SAFETY: the hash table names this index, so the symbol exists; names are C strings.
        let (symbol, symbol_name) = unsafe {
            let symbol = &*self.symbols.add(index as usize);
            (symbol, CStr::from_ptr(self.strings.add(symbol.st_name as usize)))
        };
        let kind = symbol.st_info & 0xf;
        let is_defined = symbol.st_shndx != 0 && matches!(kind, STT_FUNC | STT_OBJECT);
        (is_defined && symbol_name == name)
            .then(|| self.base.wrapping_add(symbol.st_value as usize))
    }
}

/// Whether an object is this library or another copy of it.
pub(crate) fn is_guard(object: &Object) -> bool {
    object.contains(own_address()) || object.symbol(c"KAI_GUARD_LIBRARY").is_some()
}

/// An address inside this library.
pub(crate) fn own_address() -> usize {
    (&raw const crate::KAI_GUARD_LIBRARY) as usize
}

/// The function that the next object after this library defines; any other object's if there is none after it.
pub(crate) fn next_definition(name: &CStr) -> Option<usize> {
    let (mut is_after, mut before, mut found) = (false, None, None);
    objects(&mut |object| {
        if object.contains(own_address()) {
            is_after = true;
        } else if !is_guard(object)
            && let Some(address) = object.symbol(name)
        {
            if is_after {
                found = Some(address);
            } else {
                before = before.or(Some(address));
            }
        }
        found.is_some()
    });
    found.or(before)
}

/// The library that defines all of `names`: the one with `file` in its path if there is one.
pub(crate) fn library(file: &[u8], names: &[&CStr]) -> Option<Object> {
    let (mut by_name, mut any) = (None, None);
    objects(&mut |object| {
        if is_guard(object) || !names.iter().all(|name| object.symbol(name).is_some()) {
            return false;
        }
        let path = object.path().to_bytes();
        if path.windows(file.len()).any(|part| part == file) {
            by_name = Some(*object);
        } else if any.is_none() {
            any = Some(*object);
        }
        by_name.is_some()
    });
    by_name.or(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_found() {
        let found = next_definition(c"getpid");
        assert_eq!(found, Some(libc::getpid as *const () as usize));
        assert_eq!(next_definition(c"no_such_function_anywhere"), None);
        assert!(library(b"libc.so", &[c"getpid", c"malloc"]).is_some());
        assert!(library(b"libc.so", &[c"getpid", c"cuInit"]).is_none());
    }
}
