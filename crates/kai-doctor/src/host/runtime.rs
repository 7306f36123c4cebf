//! NVIDIA's container runtime, and whether containerd knows it.

use super::{HostFacts, error, warning};
use crate::check::Check;
use crate::finding::Finding;

const CONFIG: &str = "/etc/nvidia-container-runtime/config.toml";
const PROGRAMS: [&str; 3] = [
    "/usr/bin/nvidia-container-runtime",
    "/usr/local/bin/nvidia-container-runtime",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
];
const CONTAINERD: &str = "/etc/containerd/config.toml";
const CONTAINERD_PARTS: &str = "/etc/containerd/conf.d";
const K3S: &str = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
/// Where descriptions of devices are kept.
const CDI: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// The mode that is configured.
pub(super) fn mode(facts: &HostFacts) -> Option<String> {
    let text = facts.read(CONFIG)?;
    let mode = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "mode").then(|| value.trim().trim_matches('"').to_owned())
    });
    Some(mode.unwrap_or_else(|| "auto".to_owned()))
}

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let Some(program) = PROGRAMS.iter().find(|path| facts.exists(path)) else {
        let message =
            "NVIDIA's container runtime is not installed: no container sees a GPU".to_owned();
        let fix = "sudo apt-get install nvidia-container-toolkit";
        return vec![error(Check::RuntimeMissing, PROGRAMS[0], message, fix)];
    };
    unknown(facts, program).into_iter().chain(wrong_mode(facts)).collect()
}

fn unknown(facts: &HostFacts, program: &str) -> Option<Finding> {
    let (file, fix) = if facts.is_k3s() {
        (K3S, "sudo systemctl restart k3s  # or k3s-agent; it finds the runtime when it starts")
    } else {
        let fix = "sudo nvidia-ctk runtime configure --runtime=containerd && sudo systemctl restart containerd";
        (CONTAINERD, fix)
    };
    let parts = facts.names(CONTAINERD_PARTS).into_iter();
    let parts = parts.filter_map(|name| facts.read(&format!("{CONTAINERD_PARTS}/{name}")));
    let known = facts.read(file).into_iter().chain(parts).any(|text| text.contains("nvidia"));
    let message = || format!("it does not name the runtime nvidia, though {program} is there");
    (!known).then(|| error(Check::RuntimeNotConfigured, file, message(), fix))
}

fn wrong_mode(facts: &HostFacts) -> Option<Finding> {
    const AUTO: &str = "sudo nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto";
    let described = CDI.iter().any(|folder| !facts.names(folder).is_empty());
    let tegra = facts.is_tegra();
    match mode(facts)?.as_str() {
        "cdi" if !described => {
            let message = "its mode is cdi, and no device is described in /etc/cdi or /var/run/cdi";
            let fix = "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml";
            Some(error(Check::RuntimeMode, CONFIG, message.to_owned(), fix))
        }
        "csv" if !tegra => {
            let message = "its mode is csv, which is for Tegra only".to_owned();
            Some(error(Check::RuntimeMode, CONFIG, message, AUTO))
        }
        "legacy" if tegra => {
            let message =
                "its mode is legacy, which mounts nothing on Tegra: pods rely on the Tegra profile";
            Some(warning(Check::RuntimeMode, CONFIG, message.to_owned(), AUTO))
        }
        _ => None,
    }
}
