//! Device files.

use super::{HostFacts, error, warning};
use crate::check::Check;
use crate::finding::Finding;

/// Every system with a GPU has them.
const COMMON: [&str; 2] = ["/dev/nvidiactl", "/dev/nvidia0"];
/// Tegra's systems have this one, too, and several that begin with [`TEGRA_HOST`].
const TEGRA_MEMORY: &str = "/dev/nvmap";
const TEGRA_HOST: &str = "nvhost-";

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    missing(facts).into_iter().chain(closed(facts)).collect()
}

fn missing(facts: &HostFacts) -> Option<Finding> {
    let mut missing: Vec<&str> = COMMON.into_iter().filter(|path| !facts.exists(path)).collect();
    let tegra = facts.is_tegra();
    if tegra && !facts.exists(TEGRA_MEMORY) {
        missing.push(TEGRA_MEMORY);
    }
    if tegra && !facts.names("/dev").iter().any(|name| name.starts_with(TEGRA_HOST)) {
        missing.push("/dev/nvhost-*");
    }
    let first = missing.first()?;
    let fix = if tegra {
        "sudo modprobe nvidia && sudo modprobe nvmap && ls -la /dev | grep -e nvidia -e nvmap -e nvhost"
    } else {
        "sudo modprobe nvidia && sudo nvidia-modprobe -c 0 -u && ls -la /dev | grep nvidia"
    };
    let message = format!("missing: {}: Driver Not Loaded", missing.join(", "));
    Some(error(Check::DeviceFiles, first, message, fix))
}

/// On Tegra reservation pods are privileged and run as root, which is what files of the group `video` ask for; elsewhere any
/// user of a container opens them.
fn closed(facts: &HostFacts) -> Vec<Finding> {
    let tegra = facts.is_tegra();
    let needed = if tegra { 0o060 } else { 0o006 };
    let names = facts.names("/dev").into_iter().filter(|name| is_device(name, tegra));
    let closed = names.filter_map(|name| {
        let path = format!("/dev/{name}");
        let mode = facts.mode(&path)?;
        (mode & needed != needed).then_some((path, mode))
    });
    closed.map(|(path, mode)| is_closed(&path, mode, tegra)).collect()
}

fn is_closed(path: &str, mode: u32, tegra: bool) -> Finding {
    let message = format!("its mode is {mode:04o}: containers may not open it: Permission denied");
    if tegra {
        let fix = format!("sudo chmod 0660 {path}  # for good: a rule in /etc/udev/rules.d");
        return warning(Check::DevicePermissions, path, message, fix);
    }
    let lasting = "NVreg_DeviceFileMode=0666 in /etc/modprobe.d/nvidia.conf";
    let fix = format!("sudo chmod 0666 {path}  # for good: {lasting}");
    error(Check::DevicePermissions, path, message, fix)
}

fn is_device(name: &str, tegra: bool) -> bool {
    let numbered = name
        .strip_prefix("nvidia")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
    numbered
        || ["nvidiactl", "nvidia-uvm"].contains(&name)
        || (tegra && (name == "nvmap" || name.starts_with(TEGRA_HOST)))
}
