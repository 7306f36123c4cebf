//! Which processes of the region still run.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use kai_guard::process_table::{ProcessIdentity, hash, maps_inode, parse_stat};
use kai_guard::region::{Liveness, Owner};

/// Offset of the lock of slot 0 in the region file, far behind its end: locks need no bytes below them.
const LOCK_OFFSET: i64 = 1 << 40;

/// Identity of this process.
pub(crate) fn own_identity() -> ProcessIdentity {
    let stat = std::fs::read_to_string("/proc/self/stat").ok();
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok();
    ProcessIdentity {
        pid: std::process::id(),
        start_ticks: stat.and_then(|text| parse_stat(&text)).map_or(0, |stat| stat.start_ticks),
        pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino()),
        boot: boot.map_or(0, |text| hash(&text)),
    }
}

/// Asks `/proc` and the locks on the region file.
pub(crate) struct RunningProcesses {
    me: ProcessIdentity,
    file: i32,
    inode: u64,
    /// Whether `/proc/<pid>/maps` shows inodes here: some sandboxes do not.
    shows_maps: OnceLock<bool>,
}

impl RunningProcesses {
    pub(crate) fn new(me: ProcessIdentity, file: i32, inode: u64) -> Self {
        Self { me, file, inode, shows_maps: OnceLock::new() }
    }

    fn exists(pid: u32) -> bool {
        // SAFETY: signal 0 is not delivered.
        let answer = unsafe { libc::kill(pid as libc::pid_t, 0) };
        answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
    }

    /// A process of another PID namespace, for example of the container before its restart: only the lock that it
    /// holds on the region file shows whether it runs.
    fn holds_lock(&self, position: usize) -> bool {
        let mut lock = slot_lock(position);
        // SAFETY: `lock` is a valid `flock` that the kernel fills.
        let answer = unsafe { libc::fcntl(self.file, libc::F_OFD_GETLK, &raw mut lock) };
        answer != 0 || libc::c_int::from(lock.l_type) != libc::F_UNLCK
    }

    /// The same process after `exec` of another program no longer maps the region and holds no GPU memory.
    fn runs_another_program(&self, pid: u32) -> bool {
        let maps_region = |path: &str| {
            std::fs::read_to_string(path).map(|maps| maps_inode(&maps, self.inode)).ok()
        };
        *self.shows_maps.get_or_init(|| maps_region("/proc/self/maps") == Some(true))
            && maps_region(&format!("/proc/{pid}/maps")) == Some(false)
    }

    fn is_running(&self, owner: ProcessIdentity) -> bool {
        match std::fs::read_to_string(format!("/proc/{}/stat", owner.pid)) {
            Ok(text) => match parse_stat(&text) {
                Some(stat) if stat.has_ended || stat.start_ticks != owner.start_ticks => false,
                Some(_) => !self.runs_another_program(owner.pid),
                None => true,
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Self::exists(owner.pid),
            Err(_) => true,
        }
    }
}

impl Liveness for RunningProcesses {
    fn is_alive(&self, owner: Owner, position: usize) -> bool {
        match owner {
            Owner::Pid(pid) => Self::exists(pid),
            Owner::Process(owner) if owner == self.me => true,
            Owner::Process(owner) if owner.boot != self.me.boot => false,
            Owner::Process(owner) if owner.pid_namespace != self.me.pid_namespace => {
                self.holds_lock(position)
            }
            Owner::Process(owner) => self.is_running(owner),
        }
    }
}

fn slot_lock(position: usize) -> libc::flock {
    // SAFETY: all zeros is a valid `flock`; the kernel demands `l_pid` to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = LOCK_OFFSET + position as i64;
    lock.l_len = 1;
    lock
}

/// Locks the slot for as long as this process has the region file open. Kernels without such locks (before 3.15)
/// leave slots of ended containers charged.
pub(crate) fn lock_slot(file: i32, position: usize) {
    let mut lock = slot_lock(position);
    // SAFETY: `lock` is a valid `flock`.
    unsafe { libc::fcntl(file, libc::F_OFD_SETLK, &raw mut lock) };
}
