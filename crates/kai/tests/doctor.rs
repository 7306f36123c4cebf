//! `kai doctor` as a process: what scripts rely on.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn doctor(arguments: &[&str]) -> Output {
    // Other programs of this machine have nothing to say.
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_kai"));
    doctor.arg("doctor").args(arguments).env("PATH", "").output().expect("kai runs")
}

/// A folder with these files, readable by all users.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("doctor-{name}"));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root).expect("a folder");
    for (path, text) in files {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(&file, text).expect("a file");
        let mode = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(&file, mode).expect("a mode");
    }
    root
}

fn findings(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report.as_object().map(serde_json::Map::len), Some(1), "{report}");
    report["findings"].as_array().cloned().expect("findings")
}

#[test]
fn a_host_without_anything_has_findings_with_commands() {
    let root = folder("bare", &[]);
    let root = root.to_str().expect("text");
    let output = doctor(&["node", "--root", root, "--node-name", "n1", "--json"]);
    assert_eq!(output.status.code(), Some(1), "something does not work");
    let found = findings(&output);
    assert!(found.iter().any(|finding| finding["check"] == "nvml-library"), "{found:#?}");
    let wanted = BTreeSet::from(["check", "severity", "object", "message", "fix"]);
    for finding in &found {
        let keys = finding.as_object().expect("an object").keys();
        assert_eq!(keys.map(String::as_str).collect::<BTreeSet<_>>(), wanted);
        assert!(finding["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{finding}");
    }
    let text = doctor(&["node", "--root", root, "--node-name", "n1"]);
    assert_eq!(text.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&text.stdout).contains("nvml-library"));
}

#[test]
fn nothing_is_found_on_a_jetson_that_is_set_up() {
    let runtime = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.\"nvidia\"]\n";
    let files = [
        ("proc/sys/kernel/osrelease", "6.8.12-tegra\n"),
        ("etc/nv_tegra_release", "# R38 (release), REVISION: 2, GCID: 42, EABI: aarch64\n"),
        ("usr/lib/aarch64-linux-gnu/nvidia/libnvidia-ml.so.1", ""),
        ("usr/bin/nvidia-container-runtime", ""),
        ("etc/nvidia-container-runtime/config.toml", "[nvidia-container-runtime]\n"),
        ("var/lib/rancher/k3s/agent/etc/containerd/config.toml", runtime),
        ("dev/nvidiactl", ""),
        ("dev/nvidia0", ""),
        ("dev/nvmap", ""),
        ("dev/nvhost-ctrl", ""),
        ("dev/nvhost-gpu", ""),
    ];
    let root = folder("jetson", &files);
    let root = root.to_str().expect("text");
    let output = doctor(&["node", "--root", root, "--node-name", "n1", "--json"]);
    assert_eq!(findings(&output), Vec::<Value>::new());
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_cluster_that_does_not_answer_is_no_healthy_one() {
    let nowhere = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                   clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}";
    let root = folder("nowhere", &[("kubeconfig", nowhere)]);
    let kubeconfig = root.join("kubeconfig");
    let output = doctor(&["--kubeconfig", kubeconfig.to_str().expect("text"), "--json"]);
    assert_eq!(output.status.code(), Some(2));
}
