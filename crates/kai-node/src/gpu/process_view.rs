//! Which pods use a device, how much of it they hold, and whether the library that limits GPU memory is in their processes.
//!
//! NVML lists processes, `/proc` says to which pods they belong and what is mapped into them. All of it needs the PID
//! namespace of the node; the memory map and the account of another user's process need `CAP_SYS_PTRACE`. What is read there
//! was written by tenants: it is bounded, and nothing but states and the names of processes is passed on.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kai_api::gpu_processes::{ObservedGuard, PodProcesses};
use kai_api::names::guard;
use kai_guard::usage::{self, Guard};
use serde::Serialize;

use crate::gpu::held_memory::NOTABLE_MIB;
use crate::gpu::idle_pods::idle_pods;
use crate::gpu::nvml::Nvml;

/// Why nothing is known of a process.
const UNREADABLE: &str = "the memory map of its process cannot be read";
/// Name of CUDA's driver library, without its version.
const CUDA_LIBRARY: &str = "/libcuda.so";
/// Longest account of a container that is read, in bytes.
const LONGEST_REGION: u64 = 8 << 20;
/// Longest reason that is written, in characters.
const LONGEST_REASON: usize = 160;
/// Characters of a pod's UID.
const UID_LENGTH: usize = 36;
/// Looks at the processes on the device for one look at all processes of the node, which takes longer.
const LOOKS_PER_SEARCH: u32 = 4;

/// A process that uses a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObservedProcess {
    pub pid: u32,
    /// UID of its pod; none: it runs in no pod.
    pub pod: Option<String>,
    /// Bytes of the device that it holds.
    pub used_bytes: u64,
    /// What the library does in it.
    pub guard: ObservedGuard,
    /// Why the library does not limit it.
    pub why: String,
}

/// The processes on a device; `proc` is where the node's processes are, `/proc`. None: NVML does not list them.
pub fn observe_device(nvml: &dyn Nvml, uuid: &str, proc: &Path) -> Option<Vec<ObservedProcess>> {
    let count = nvml.device_count().ok()?;
    let mut devices = (0..count).filter_map(|index| nvml.device(index).ok());
    let device = devices.find(|device| device.uuid().as_deref() == Ok(uuid))?;
    let observed = device.processes().ok()?.into_iter().filter_map(|process| {
        let folder = proc.join(process.pid.to_string());
        let pod = pod_uid(&read_text(&folder.join("cgroup"))?);
        let (guard, why) = observe(&folder)?;
        let used_bytes = process.used_bytes.unwrap_or_default();
        Some(ObservedProcess { pid: process.pid, pod, used_bytes, guard, why })
    });
    Some(observed.collect())
}

/// The processes on one device, observed again and again.
#[derive(Clone, Debug)]
pub struct ProcessView {
    uuid: String,
    proc: PathBuf,
    /// Looks since the start.
    looks: u32,
    /// Pods that share the device and did not use it when all processes were searched last.
    idle: BTreeMap<String, ObservedGuard>,
    written: Option<Vec<PodProcesses>>,
}

impl ProcessView {
    /// Of the device with this UUID; `proc` is where the node's processes are, `/proc`.
    pub fn of(uuid: &str, proc: &Path) -> Self {
        let (uuid, proc) = (uuid.to_owned(), proc.to_owned());
        Self { uuid, proc, looks: 0, idle: BTreeMap::new(), written: None }
    }

    /// Pods that share the device, if they are worth writing: the first time, when pods or the state of the library
    /// changed, and when the memory of a pod changed notably.
    pub fn changed(&mut self, nvml: &dyn Nvml) -> Option<Vec<PodProcesses>> {
        let pods = self.pods(nvml)?;
        if self.written.as_ref().is_some_and(|written| !is_notable(written, &pods)) {
            return None;
        }
        self.written = Some(pods.clone());
        Some(pods)
    }

    fn pods(&mut self, nvml: &dyn Nvml) -> Option<Vec<PodProcesses>> {
        let mut bytes: BTreeMap<String, (u64, ObservedGuard, String)> = BTreeMap::new();
        for process in observe_device(nvml, &self.uuid, &self.proc)? {
            let Some(uid) = process.pod else { continue };
            let known = bytes.entry(uid).or_insert((0, process.guard, String::new()));
            known.0 = known.0.saturating_add(process.used_bytes);
            if process.guard >= known.1 {
                (known.1, known.2) = (process.guard, process.why);
            }
        }
        if self.looks.is_multiple_of(LOOKS_PER_SEARCH) {
            self.idle = idle_pods(&self.proc, &self.uuid);
        }
        self.looks = self.looks.wrapping_add(1);
        for (uid, guard) in &self.idle {
            let why = if *guard == ObservedGuard::Unknown { UNREADABLE } else { "" };
            bytes.entry(uid.clone()).or_insert_with(|| (0, *guard, why.to_owned()));
        }
        let pods = bytes.into_iter().map(|(uid, (bytes, guard, why))| PodProcesses {
            uid,
            mib: bytes >> 20,
            guard,
            why: why.chars().take(LONGEST_REASON).collect(),
        });
        Some(pods.collect())
    }
}

fn is_notable(before: &[PodProcesses], after: &[PodProcesses]) -> bool {
    let is_same = |one: &PodProcesses, other: &PodProcesses| {
        (&one.uid, one.guard, &one.why) == (&other.uid, other.guard, &other.why)
            && one.mib.abs_diff(other.mib) < NOTABLE_MIB
    };
    before.len() != after.len() || !before.iter().zip(after).all(|(one, other)| is_same(one, other))
}

pub(super) fn read_text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// UID of the pod in a control group, as the kubelet names it: `pod<uid>`, with hyphens or with underscores where systemd
/// makes the groups.
pub(super) fn pod_uid(cgroup: &str) -> Option<String> {
    let mut parts = cgroup.split(['/', '\n']).rev();
    let uid = |part: &str| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let (_, uid) = part.rsplit_once("pod")?;
        let is_digit = |one: char| one.is_ascii_hexdigit() || one == '-' || one == '_';
        (uid.len() == UID_LENGTH && uid.chars().all(is_digit)).then(|| uid.replace('_', "-"))
    };
    parts.find_map(uid)
}

/// What the library does in a process of the node, and why it does not limit it. None: the process has ended.
fn observe(folder: &Path) -> Option<(ObservedGuard, String)> {
    match mapped(&folder.join("maps"), false) {
        Ok(Some(Mapped { library: true, .. })) => Some(account(folder)),
        Ok(Some(_)) => {
            let why = "uses the GPU without the library (static, musl, or a loader of its own)";
            Some((ObservedGuard::Absent, format!("{} {why}", process_name(folder))))
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Some((ObservedGuard::Unknown, UNREADABLE.to_owned()))
        }
        Ok(None) | Err(_) => None,
    }
}

/// What a process has mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapped {
    /// The library that limits GPU memory.
    pub(super) library: bool,
    /// CUDA's driver library.
    pub(super) cuda: bool,
}

/// What is in a memory map; none: the map is empty. Read line by line, because a tenant can make it long, and only until
/// what is looked for was found.
pub(super) fn mapped(maps: &Path, looks_for_cuda: bool) -> std::io::Result<Option<Mapped>> {
    let library = format!("{}/{}", guard::LIBRARY_FOLDER, guard::LIBRARY);
    let mut found = None;
    for line in BufReader::new(File::open(maps)?).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let mapped: &mut Mapped = found.get_or_insert_default();
        mapped.library |= line.contains(&library);
        mapped.cuda |= line.contains(CUDA_LIBRARY);
        if mapped.library && (mapped.cuda || !looks_for_cuda) {
            break;
        }
    }
    Ok(found)
}

/// `process NAME`, for people.
fn process_name(folder: &Path) -> String {
    let name = read_text(&folder.join("comm")).unwrap_or_default();
    let printable: String = name.trim().chars().filter(char::is_ascii_graphic).collect();
    format!("process {printable}")
}

/// What the account of the container says that the process runs in.
fn account(folder: &Path) -> (ObservedGuard, String) {
    let region = Path::new(guard::USAGE_FOLDER).join(guard::REGION);
    let inside = region.strip_prefix("/").unwrap_or(&region);
    let unused = || {
        let why = "uses the GPU, but not through the library that it has loaded";
        (ObservedGuard::Absent, format!("{} {why}", process_name(folder)))
    };
    let unknown =
        |why: &str| (ObservedGuard::Unknown, format!("the account of its container {why}"));
    let mut file = match open(&folder.join("root").join(inside)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return unused(),
        Err(_) => return unknown("cannot be opened"),
    };
    let mut bytes = Vec::new();
    if file.by_ref().take(LONGEST_REGION).read_to_end(&mut bytes).is_err() {
        return unknown("cannot be read");
    }
    match usage::read(&bytes).map(|usage| usage.guard) {
        Ok(Guard::Enforcing) => (ObservedGuard::Enforcing, String::new()),
        Ok(Guard::Reporting) => (ObservedGuard::Reporting, String::new()),
        Ok(Guard::Off) => (ObservedGuard::Off, String::new()),
        Ok(Guard::Failed(reason)) => (ObservedGuard::Failed, printable(&reason)),
        Ok(Guard::NotAttached) => unused(),
        Err(_) => unknown("has another form"),
    }
}

fn printable(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).collect()
}

/// Opens a file that a tenant made: no link, and nothing that waits for a writer.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
pub(in crate::gpu) mod tests {
    use super::*;
    use crate::gpu::discovery::Device;
    use crate::gpu::listed::ListedNvml;
    use crate::gpu::nvml::GpuProcess;

    pub(in crate::gpu) const UID: &str = "0a1b2c3d-0000-4000-8000-00000000000a";
    pub(in crate::gpu) const OTHER: &str = "0a1b2c3d-0000-4000-8000-00000000000b";
    pub(in crate::gpu) const LIBRARY: &str =
        "7f00-7f01 r-xp 00000000 00:2f 12 /kai-guard/lib/libkai_guard.so\n7f02-7f03 rw-p 0 0 0\n";

    /// A folder like `/proc`.
    pub(in crate::gpu) struct Proc(pub(in crate::gpu) PathBuf);

    impl Proc {
        pub(in crate::gpu) fn new(test: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("kai-proc-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        pub(in crate::gpu) fn process(&self, pid: u32, cgroup: &str, maps: &str) -> PathBuf {
            let folder = self.0.join(pid.to_string());
            fs::create_dir_all(folder.join("root/kai-guard/usage")).expect("a folder");
            fs::write(folder.join("cgroup"), cgroup).expect("a file");
            fs::write(folder.join("maps"), maps).expect("a file");
            fs::write(folder.join("comm"), "serve\n").expect("a file");
            folder
        }
    }

    /// A usage region in this state, as the library writes it.
    fn region(state: u64) -> Vec<u8> {
        use std::mem::offset_of;

        use kai_guard::region::{Header, MAGIC, Region, VERSION};

        let mut bytes = vec![0_u8; size_of::<Region>()];
        for (at, value) in [
            (offset_of!(Header, magic), MAGIC),
            (offset_of!(Header, version), VERSION),
            (offset_of!(Header, state), state),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn nvml(processes: &[(u32, u64)]) -> ListedNvml {
        let device = Device { uuid: "GPU-1".to_owned(), ..Device::default() };
        let process = |&(pid, mib): &(u32, u64)| GpuProcess { pid, used_bytes: Some(mib << 20) };
        let processes = processes.iter().map(process).collect();
        ListedNvml { devices: vec![device], processes, ..ListedNvml::default() }
    }

    pub(in crate::gpu) fn slice(uid: &str) -> String {
        let uid = uid.replace('-', "_");
        format!("0::/../../kubepods-burstable-pod{uid}.slice/cri-containerd-0a.scope\n")
    }

    #[test]
    fn control_groups_of_every_kind_name_their_pod() {
        let hierarchy = format!("12:memory:/kubepods/besteffort/pod{UID}/0a\n");
        let guaranteed = format!("0::/kubepods/pod{UID}/0a\n");
        for text in [slice(UID), hierarchy, guaranteed] {
            assert_eq!(pod_uid(&text).as_deref(), Some(UID), "{text}");
        }
        assert_eq!(pod_uid("0::/system.slice/podman.service\n"), None);
        assert_eq!(pod_uid("0::/user.slice\n"), None);
    }

    #[test]
    fn each_pod_is_listed_by_itself_and_its_worst_process_counts() {
        let proc = Proc::new("apart");
        let guarded = proc.process(1, &slice(UID), LIBRARY);
        fs::write(guarded.join("root/kai-guard/usage/region"), region(3)).expect("a file");
        proc.process(2, &slice(OTHER), "400000-401000 r-xp 0 0 0 /bin/serve\n");
        proc.process(3, "0::/user.slice\n", "");
        let mut view = ProcessView::of("GPU-1", &proc.0);
        let seen = view.changed(&nvml(&[(1, 500), (2, 700), (3, 9), (4, 9)])).expect("the first");
        let enforcing = PodProcesses {
            uid: UID.to_owned(),
            mib: 500,
            guard: ObservedGuard::Enforcing,
            why: String::new(),
        };
        let absent = PodProcesses {
            uid: OTHER.to_owned(),
            mib: 700,
            guard: ObservedGuard::Absent,
            why: "process serve uses the GPU without the library (static, musl, or a loader of its own)".to_owned(),
        };
        assert_eq!(seen, [enforcing, absent.clone()]);
        assert_eq!(view.changed(&nvml(&[(1, 510), (2, 700)])), None, "hardly more");
        proc.process(5, &slice(UID), "400000-401000 r-xp 0 0 0 /bin/serve\n");
        let seen = view.changed(&nvml(&[(1, 500), (2, 700), (5, 1)])).expect("another process");
        assert_eq!((seen[0].mib, seen[0].guard), (501, ObservedGuard::Absent));
        assert_eq!(view.changed(&nvml(&[])), Some(Vec::new()), "all ended");
    }

    #[test]
    fn pod_that_does_not_use_the_device_is_listed_until_it_does() {
        let proc = Proc::new("idle");
        let static_program = "400000-401000 r-xp 0 0 0 /bin/serve\n";
        let folder = proc.process(1, &slice(UID), static_program);
        let limits = folder.join("root/kai-guard/limits/..data");
        fs::create_dir_all(&limits).expect("a folder");
        fs::write(limits.join("limits"), "v1 mode=enforce device=GPU-1,limit=9").expect("a file");
        let mut view = ProcessView::of("GPU-1", &proc.0);
        let seen = view.changed(&nvml(&[])).expect("the first");
        assert_eq!((seen[0].mib, seen[0].guard), (0, ObservedGuard::NoLibrary));
        let seen = view.changed(&nvml(&[(1, 70)])).expect("it uses the device");
        assert_eq!((seen.len(), seen[0].mib, seen[0].guard), (1, 70, ObservedGuard::Absent));
        fs::remove_dir_all(&folder).expect("the process ends");
        let seen: Vec<usize> =
            (0..4).filter_map(|_| view.changed(&nvml(&[])).map(|pods| pods.len())).collect();
        assert_eq!(seen, [1, 0], "gone with the next search");
    }

    #[test]
    fn state_of_the_account_decides_where_the_library_is_loaded() {
        let proc = Proc::new("account");
        let folder = proc.process(1, &slice(UID), LIBRARY);
        let file = folder.join("root/kai-guard/usage/region");
        assert_eq!(observe(&folder).map(|(guard, _)| guard), Some(ObservedGuard::Absent));
        for (state, expected) in [
            (0, ObservedGuard::Absent),
            (1, ObservedGuard::Off),
            (2, ObservedGuard::Reporting),
            (3, ObservedGuard::Enforcing),
            (4, ObservedGuard::Failed),
        ] {
            fs::write(&file, region(state)).expect("a file");
            assert_eq!(observe(&folder).map(|(guard, _)| guard), Some(expected), "{state}");
        }
        fs::write(&file, "not a region").expect("a file");
        assert_eq!(observe(&folder).map(|(guard, _)| guard), Some(ObservedGuard::Unknown));
        fs::remove_file(&file).expect("the file");
        std::os::unix::fs::symlink(folder.join("maps"), &file).expect("a link");
        assert_eq!(observe(&folder).map(|(guard, _)| guard), Some(ObservedGuard::Unknown));
        assert_eq!(observe(&proc.0.join("9")), None, "the process has ended");
    }
}
