//! What only the host shows: libraries, device files, the container runtime.

mod devices;
mod images;
mod library;
mod runtime;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::check::Check;
use crate::finding::{Finding, Findings, Severity};

/// More links than this lead in a circle.
const MOST_LINKS: usize = 20;

/// What is known of a host.
#[derive(Clone, Debug)]
pub struct HostFacts {
    /// The folder that is the host's `/`.
    pub root: PathBuf,
    /// Names of images in containerd or k3s; none: neither of them answers.
    pub images: Option<Vec<String>>,
    /// A part of the name of our image.
    pub image: String,
    /// The node's name in the cluster.
    pub node: String,
}

impl HostFacts {
    /// The place of a path of the host.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Where a path leads to. Links are followed as the host follows them; none: they lead nowhere.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        let mut path = PathBuf::from(path);
        for _ in 0..MOST_LINKS {
            let place = self.root.join(path.strip_prefix("/").unwrap_or(&path));
            let Ok(target) = fs::read_link(&place) else {
                return place.exists().then_some(place);
            };
            path = path.parent().unwrap_or(Path::new("/")).join(target);
        }
        None
    }

    fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_some()
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.resolve(path)?).ok()
    }

    /// Names in a folder, in order.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Permission bits of a file; none if it does not exist.
    fn mode(&self, path: &str) -> Option<u32> {
        let metadata = fs::metadata(self.resolve(path)?).ok()?;
        Some(metadata.permissions().mode() & 0o777)
    }

    fn kernel(&self) -> String {
        self.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
    }

    /// The release of Jetson Linux: `R38.2`.
    fn l4t(&self) -> Option<String> {
        let text = self.read("/etc/nv_tegra_release")?;
        let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let major = words.find(|word| word.starts_with('R'))?;
        let minor = text.split("REVISION:").nth(1).and_then(|rest| rest.trim().split(',').next());
        Some(minor.map_or(major.to_owned(), |minor| format!("{major}.{}", minor.trim())))
    }

    fn is_tegra(&self) -> bool {
        let family = self.read("/sys/devices/soc0/family").unwrap_or_default();
        let tree = self.read("/proc/device-tree/compatible").unwrap_or_default();
        self.exists("/etc/nv_tegra_release")
            || self.kernel().contains("tegra")
            || family.trim() == "Tegra"
            || tree.contains("nvidia,tegra")
    }

    /// The container runtime of the node is that of k3s.
    fn is_k3s(&self) -> bool {
        self.exists("/var/lib/rancher/k3s/agent") || self.exists("/usr/local/bin/k3s")
    }
}

fn error(check: Check, object: &str, message: String, fix: impl Into<String>) -> Finding {
    let (object, fix) = (object.to_owned(), fix.into());
    Finding { check, severity: Severity::Error, object, message, fix }
}

fn warning(check: Check, object: &str, message: String, fix: impl Into<String>) -> Finding {
    Finding { severity: Severity::Warning, ..error(check, object, message, fix) }
}

/// The system in a line: kernel, release of Jetson Linux, mode of the runtime, where the library is.
pub fn summary(facts: &HostFacts) -> String {
    let mut parts = vec![format!("kernel {}", facts.kernel())];
    parts.extend(facts.is_tegra().then(|| {
        format!("Jetson Linux {}", facts.l4t().as_deref().unwrap_or("of unknown release"))
    }));
    parts.push(match runtime::mode(facts) {
        Some(mode) => format!("NVIDIA's runtime in mode {mode}"),
        None => "no configuration of NVIDIA's runtime".to_owned(),
    });
    parts.push(match library::folder(facts) {
        Some(folder) => format!("{} in {folder}", library::NAME),
        None => format!("no {}", library::NAME),
    });
    parts.push(if facts.is_k3s() { "k3s".to_owned() } else { "containerd".to_owned() });
    parts.join(", ")
}

/// Runs every check of a host.
pub fn examine(facts: &HostFacts) -> Findings {
    let mut all = Vec::new();
    all.extend(library::findings(facts));
    all.extend(devices::findings(facts));
    all.extend(runtime::findings(facts));
    all.extend(images::findings(facts));
    all.extend(release(facts));
    Findings::of(all)
}

/// The first release of Jetson Linux with NVML.
const FIRST_WITH_NVML: u32 = 36;

fn release(facts: &HostFacts) -> Option<Finding> {
    const FILE: &str = "/etc/nv_tegra_release";
    const FIX: &str =
        "sudo apt-get update && sudo apt-get install nvidia-l4t-core  # or flash JetPack 7";
    if !facts.is_tegra() {
        return None;
    }
    let Some(release) = facts.l4t() else {
        let kernel = facts.kernel();
        let message =
            format!("this is Tegra (kernel {kernel}), and the release of Jetson Linux is unknown");
        return Some(warning(Check::L4tRelease, FILE, message, FIX));
    };
    let major = release.trim_start_matches('R').split('.').next().map(str::parse::<u32>);
    let old = matches!(major, Some(Ok(major)) if major < FIRST_WITH_NVML);
    old.then(|| {
        let message =
            format!("Jetson Linux {release} has no NVML; it came with R{FIRST_WITH_NVML}");
        error(Check::L4tRelease, FILE, message, FIX)
    })
}
