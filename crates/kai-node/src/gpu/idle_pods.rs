//! Pods that share a device and do not use it yet: whether the library that limits GPU memory would be in their way.
//!
//! NVML lists processes that use a device. Other pods are found by the limits file that the kubelet mounts into the containers
//! that share one, in the PID namespace of the node. A tenant can imitate the file: what follows from it holds for its own pod.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use kai_api::gpu_processes::ObservedGuard;
use kai_api::names::guard;

use crate::gpu::process_view::{Mapped, mapped, open, pod_uid, read_text};

/// Most processes of a pod that are looked at. A tenant can start many.
const MOST_PROCESSES: usize = 16;
/// Longest limits file that is read, in bytes.
const LONGEST_LIMITS: u64 = 64 << 10;
/// The folder that the kubelet exchanges when the file changes; the file itself is a link into it.
const KUBELET_FOLDER: &str = "..data";

/// States of the pods whose limits files name the device, by UID. `proc` is where the node's processes are.
pub(super) fn idle_pods(proc: &Path, uuid: &str) -> BTreeMap<String, ObservedGuard> {
    let mut pods: BTreeMap<String, Vec<Option<Mapped>>> = BTreeMap::new();
    for folder in processes(proc) {
        let Some(uid) = read_text(&folder.join("cgroup")).and_then(|text| pod_uid(&text)) else {
            continue;
        };
        let known = pods.entry(uid).or_default();
        if known.len() >= MOST_PROCESSES || !shares(&folder, uuid) {
            continue;
        }
        match mapped(&folder.join("maps"), true) {
            Ok(Some(mapped)) => known.push(Some(mapped)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => known.push(None),
            Ok(None) | Err(_) => {}
        }
    }
    pods.into_iter().filter_map(|(uid, processes)| Some((uid, state(&processes)?))).collect()
}

/// Folders of the processes, in the order of their PIDs.
fn processes(proc: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut pids: Vec<u32> = entries.filter_map(pid).collect();
    pids.sort_unstable();
    pids.into_iter().map(|pid| proc.join(pid.to_string())).collect()
}

/// The process is in a container whose limits file names the device.
fn shares(folder: &Path, uuid: &str) -> bool {
    let inside = guard::LIMITS_FOLDER.trim_start_matches('/');
    let file = folder.join("root").join(inside).join(KUBELET_FOLDER).join(guard::LIMITS);
    let mut limits = String::new();
    let read = open(&file).and_then(|file| file.take(LONGEST_LIMITS).read_to_string(&mut limits));
    let device = format!("device={uuid},");
    read.is_ok() && limits.split(' ').any(|word| word.starts_with(&device))
}

/// What the processes of a pod have in common; none: the pod has no process that shares the device. A process that has the
/// library counts more than its shell, which may be static.
fn state(processes: &[Option<Mapped>]) -> Option<ObservedGuard> {
    let readable = || processes.iter().flatten();
    if processes.is_empty() {
        None
    } else if readable().any(|one| one.library && one.cuda) {
        Some(ObservedGuard::Idle)
    } else if readable().any(|one| one.library) {
        Some(ObservedGuard::NoCuda)
    } else if processes.iter().any(Option::is_none) {
        Some(ObservedGuard::Unknown)
    } else {
        Some(ObservedGuard::NoLibrary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::process_view::tests::{LIBRARY, OTHER, Proc, UID, slice};

    const STATIC: &str = "400000-401000 r-xp 0 0 0 /bin/serve\n";
    const CUDA: &str = "7f10-7f11 r-xp 0 0 0 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04\n";

    /// A process in a container that shares this device.
    fn sharing(proc: &Proc, pid: u32, uid: &str, maps: &str, device: &str) {
        let folder = proc.process(pid, &slice(uid), maps).join("root/kai-guard/limits/..data");
        fs::create_dir_all(&folder).expect("a folder");
        let limits = format!("v1 mode=enforce device={device},limit=4000");
        fs::write(folder.join("limits"), limits).expect("a file");
    }

    #[test]
    fn libraries_of_the_processes_decide() {
        let cuda = format!("{LIBRARY}{CUDA}");
        for (maps, expected) in [
            (&[STATIC][..], ObservedGuard::NoLibrary),
            (&[STATIC, LIBRARY], ObservedGuard::NoCuda),
            (&[STATIC, CUDA], ObservedGuard::NoLibrary),
            (&[LIBRARY, &cuda, STATIC], ObservedGuard::Idle),
        ] {
            let proc = Proc::new("libraries");
            for (pid, maps) in (1..).zip(maps) {
                sharing(&proc, pid, UID, maps, "GPU-1");
            }
            let found = idle_pods(&proc.0, "GPU-1");
            assert_eq!(found, BTreeMap::from([(UID.to_owned(), expected)]), "{maps:?}");
        }
    }

    #[test]
    fn pods_of_other_devices_and_containers_without_limits_do_not_count() {
        let proc = Proc::new("others");
        sharing(&proc, 1, UID, LIBRARY, "GPU-1");
        proc.process(2, &slice(UID), STATIC); // the pause container, or a sidecar
        sharing(&proc, 3, OTHER, STATIC, "GPU-12");
        proc.process(4, "0::/user.slice\n", STATIC);
        let expected = BTreeMap::from([(UID.to_owned(), ObservedGuard::NoCuda)]);
        assert_eq!(idle_pods(&proc.0, "GPU-1"), expected);
        assert_eq!(idle_pods(Path::new("/absent"), "GPU-1"), BTreeMap::new());
    }

    #[test]
    fn processes_beyond_a_bound_are_not_looked_at() {
        let proc = Proc::new("bound");
        let most = u32::try_from(MOST_PROCESSES).expect("a small number");
        for pid in 1..=most {
            sharing(&proc, pid, UID, STATIC, "GPU-1");
        }
        sharing(&proc, most + 1, UID, LIBRARY, "GPU-1");
        let expected = BTreeMap::from([(UID.to_owned(), ObservedGuard::NoLibrary)]);
        assert_eq!(idle_pods(&proc.0, "GPU-1"), expected);
    }
}
