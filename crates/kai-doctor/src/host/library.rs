//! NVML's library.

use super::{HostFacts, error};
use crate::check::Check;
use crate::finding::Finding;

/// File name of NVML's library.
pub(super) const NAME: &str = "libnvidia-ml.so.1";
/// Folders in which the system looks by itself.
const USUAL: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/lib/wsl/lib",
];
/// Folders that only Tegra's systems have. Reservation pods get them by the Tegra profile.
const OF_TEGRA: [&str; 2] =
    ["/usr/lib/aarch64-linux-gnu/nvidia", "/usr/lib/aarch64-linux-gnu/tegra"];
/// Where the GPU operator keeps the driver.
const OF_OPERATOR: [&str; 2] =
    ["/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64"];

/// The folder that has it.
pub(super) fn folder(facts: &HostFacts) -> Option<&'static str> {
    let mut all = USUAL.into_iter().chain(OF_TEGRA).chain(OF_OPERATOR);
    all.find(|folder| facts.exists(&format!("{folder}/{NAME}")))
}

pub(super) fn findings(facts: &HostFacts) -> Option<Finding> {
    let Some(folder) = folder(facts) else { return Some(missing(facts)) };
    let kernel = facts.kernel();
    if !OF_TEGRA.contains(&folder) || kernel.contains("tegra") {
        return None;
    }
    let message = format!(
        "{NAME} is in {folder}, where only the Tegra profile looks, and the kernel {kernel} does not say that this is Tegra"
    );
    let fix = format!("kubectl label node {} kai.scheduler/tegra=on --overwrite", facts.node);
    Some(error(Check::NvmlLibraryFolder, folder, message, fix))
}

fn missing(facts: &HostFacts) -> Finding {
    let folder = if facts.is_tegra() { OF_TEGRA[0] } else { USUAL[0] };
    let object = format!("{folder}/{NAME}");
    // A link may be left whose target went with another version of the driver.
    let message = if facts.at(&object).is_symlink() {
        "it is a broken link: ERROR_LIBRARY_NOT_FOUND".to_owned()
    } else {
        format!("there is no {NAME} on this host: ERROR_LIBRARY_NOT_FOUND")
    };
    let fix = if facts.is_tegra() {
        "sudo apt-get install --reinstall nvidia-l4t-core nvidia-l4t-cuda"
    } else {
        "sudo apt-get install --reinstall nvidia-utils-VERSION  # the version of the driver"
    };
    error(Check::NvmlLibrary, &object, message, fix)
}
