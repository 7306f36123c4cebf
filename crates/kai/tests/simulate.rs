//! `kai simulate` with what users give it: standard input, dumps of clusters, empty folders, large jobs.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn simulate(arguments: &[&str], input: &str) -> Output {
    let mut kai = Command::new(env!("CARGO_BIN_EXE_kai"))
        .arg("simulate")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kai starts");
    kai.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    kai.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn pods(output: &Output) -> Vec<Value> {
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    outcome["pods"].as_array().cloned().expect("pods")
}

fn pod(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{kai.scheduler/queue: default-queue}}\n{more}\nspec:\n  \
         schedulerName: kai-scheduler\n  containers:\n  - {{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}\n"
    )
}

fn job(pods: usize) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: wide, labels: {{kai.scheduler/queue: default-queue}}}}\nspec:\n  \
         parallelism: {pods}\n  completions: {pods}\n  template:\n    spec:\n      schedulerName: kai-scheduler\n      \
         restartPolicy: Never\n      containers:\n      - {{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}\n"
    )
}

#[test]
fn standard_input_is_read() {
    let output = simulate(&["-f", "-", "--json"], &pod("p", ""));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(pods(&output)[0]["phase"], "Running");
}

#[test]
fn a_folder_without_manifests_is_an_error() {
    let folder = std::env::temp_dir().join(format!("kai-empty-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let output = simulate(&["-f", folder.to_str().expect("a path")], "");
    fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no manifests in"), "{}", text(&output.stderr));
}

#[test]
fn pods_of_a_dump_stay_although_their_owner_is_elsewhere() {
    let owned = |kind: &str, name: &str| {
        format!(
            "  ownerReferences:\n  - {{apiVersion: batch/v1, kind: {kind}, name: {name}, uid: u, controller: true}}"
        )
    };
    let ended = pod("ended", "status: {phase: Succeeded}");
    let input = [
        pod("orphan", &owned("Job", "missing")),
        job(1),
        pod("wide-copy", &owned("Job", "wide")),
        ended,
    ]
    .join("---\n");
    let output = simulate(&["-f", "-", "--json"], &input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let names: Vec<String> =
        pods(&output).iter().map(|pod| pod["name"].as_str().expect("a name").to_owned()).collect();
    assert!(names.contains(&"orphan".to_owned()), "{names:?}");
    assert_eq!(names.len(), 2, "the job creates its pod itself: {names:?}");
    let errors = text(&output.stderr);
    assert!(errors.contains("skipped Pod wide-copy: its owner is in the manifests"), "{errors}");
    assert!(errors.contains("skipped Pod ended: the pod has ended"), "{errors}");
}

#[test]
fn a_denied_annotation_is_shown_by_its_line() {
    let manifest = pod("p", "  annotations:\n    gpu-fraction: '2'")
        .replace(", resources: {limits: {nvidia.com/gpu: 1}}", "");
    let output = simulate(&["-f", "-"], &manifest);
    assert_eq!(output.status.code(), Some(2));
    let line = 1 + manifest.lines().position(|line| line.contains("gpu-fraction")).expect("it");
    let errors = text(&output.stderr);
    let start = format!("-:{line}: metadata.annotations.gpu-fraction: ");
    assert!(errors.starts_with(&start), "{start:?} does not start {errors}");
}

#[test]
fn more_than_a_thousand_documents_are_read() {
    let mut input = String::new();
    for at in 0..1100 {
        let _ =
            write!(input, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{at}}}\n");
    }
    let output = simulate(&["-f", "-", "--json"], &input);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// More pods than the log of writes holds: all of them start.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "takes minutes unoptimised: cargo test --release -p kai --test simulate"
)]
fn a_job_of_ten_thousand_pods_settles() {
    let output = simulate(&["-f", "-", "--json", "--nodes", "1300"], &job(10_000));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pods = pods(&output);
    assert_eq!(pods.len(), 10_000);
    assert!(pods.iter().all(|pod| pod["phase"] == "Running"));
}

/// A pod that no kubelet can start is reported, and not as if everything were well.
#[test]
fn what_does_not_settle_is_said_with_its_own_exit_status() {
    let volume =
        "  volumes: [{name: v, persistentVolumeClaim: {claimName: never}}]\n  nodeName: node-1\n";
    let manifest = pod("p", "") + volume;
    let output = simulate(&["-f", "-"], &manifest);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("not settled: pod default/p is bound to a node and not started"),
        "{errors}"
    );
}
