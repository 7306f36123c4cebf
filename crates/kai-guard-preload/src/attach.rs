//! Joining the container's accounting: limits file, region file, slot.

use std::ffi::{CString, OsStr, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use kai_guard::limits::{self, Limits, LimitsError, Mode};
use kai_guard::region::{Region, SlotIndex};

use crate::processes::{RunningProcesses, lock_slot, own_identity};

/// Largest limits file that is read.
const LONGEST_LIMITS: usize = 64 << 10;

/// Folder above the one in which the library lies; every path is relative to it. Nothing the tenant can set in the
/// environment changes it.
fn root() -> Option<PathBuf> {
    let mut path = None;
    crate::elf::objects(&mut |object| {
        let is_own = object.contains(crate::elf::own_address());
        if is_own {
            path = Some(PathBuf::from(OsStr::from_bytes(object.path().to_bytes())));
        }
        is_own
    });
    Some(path?.parent()?.parent()?.to_path_buf())
}

/// Reads the limits file. A file that does not exist is empty.
pub(crate) fn read_limits() -> Result<Limits, LimitsError> {
    let text =
        root().and_then(|root| std::fs::read(root.join("limits/limits")).ok()).unwrap_or_default();
    let text = text.get(..LONGEST_LIMITS).unwrap_or(&text);
    limits::parse(&String::from_utf8_lossy(text))
}

/// Limits with the consequence of a broken file: `enforce` keeps its mode, everything else is off.
pub(crate) fn effective_limits() -> (Limits, Option<String>) {
    match read_limits() {
        Ok(limits) => (limits, None),
        Err(error) if error.readable.mode == Mode::Enforce => {
            let text = error.to_string();
            (*error.readable, Some(text))
        }
        Err(error) => {
            (Limits { mode: Mode::Off, ..*error.readable.clone() }, Some(error.to_string()))
        }
    }
}

/// The mapped region and the slot of this process in it.
pub(crate) struct Attached {
    pub(crate) region: &'static Region,
    pub(crate) slot: SlotIndex,
    pub(crate) processes: RunningProcesses,
    pub(crate) pid: u32,
}

/// Maps the region and takes a slot.
///
/// # Errors
/// Why the accounting cannot start.
pub(crate) fn attach() -> Result<Attached, &'static str> {
    let (region, file, inode) = map_region()?;
    region.open().map_err(|_| "usage region has an unknown format")?;
    let me = own_identity();
    let processes = RunningProcesses::new(me, file, inode);
    let slot = region.take_slot(me, &processes).ok_or("more than 256 processes use the GPU")?;
    lock_slot(file, slot.position());
    Ok(Attached { region, slot, processes, pid: me.pid })
}

/// Maps the region file if it can be opened; used to publish a failure.
pub(crate) fn map_region() -> Result<(&'static Region, i32, u64), &'static str> {
    let path = root().ok_or("path of the library is unknown")?.join("usage/region");
    let file = open(&path).ok_or("usage region cannot be opened")?;
    let bytes = size_of::<Region>();
    // SAFETY: all zeros is a valid `stat`, and `file` is open.
    let status = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(file, &raw mut status) == 0).then_some(status)
    };
    let status = status.ok_or("usage region has no status")?;
    if status.st_mode & libc::S_IFMT != libc::S_IFREG {
        close(file);
        return Err("usage region is not a file");
    }
    // SAFETY: `file` is open for writing; a file that is long enough stays as it is.
    let is_long =
        status.st_size >= bytes as i64 || unsafe { libc::ftruncate(file, bytes as i64) } == 0;
    if !is_long {
        close(file);
        return Err("usage region cannot be extended");
    }
    // SAFETY: a new shared mapping; the address is the kernel's choice.
    let address = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut::<c_void>(), bytes, access, libc::MAP_SHARED, file, 0)
    };
    if address == libc::MAP_FAILED {
        close(file);
        return Err("usage region cannot be mapped");
    }
    // SAFETY: the mapping is as long as a region, aligned to pages, never unmapped, and all fields are atomics, for
    // which every bit pattern is valid.
    let region = unsafe { &*address.cast::<Region>() };
    Ok((region, move_out_of_the_way(file), status.st_ino))
}

fn open(path: &Path) -> Option<i32> {
    let path = CString::new(path.as_os_str().to_owned().into_vec()).ok()?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: a C string; mode is needed with O_CREAT.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
    if file < 0 {
        return None;
    }
    // Processes of other users share the region. Fails for all users but the owner, which did it before.
    // SAFETY: `file` is open.
    unsafe { libc::fchmod(file, 0o666) };
    Some(file)
}

fn close(file: i32) {
    // SAFETY: we opened it.
    unsafe { libc::close(file) };
}

/// Programs may expect low descriptor numbers.
fn move_out_of_the_way(file: i32) -> i32 {
    // SAFETY: `file` is open.
    let moved = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 200) };
    if moved < 0 {
        return file;
    }
    close(file);
    moved
}
