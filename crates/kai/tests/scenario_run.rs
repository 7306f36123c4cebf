//! `kai scenario run` as a person or a script meets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kai-cli-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        Self(folder)
    }

    fn write(&self, name: &str, document: &Value) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, document.to_string()).expect("a file for the test");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kai(arguments: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kai"))
        .args(["scenario", "run"])
        .arg(path)
        .args(arguments)
        .output()
        .expect("kai starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("kai prints text")
}

fn empty_cluster() -> Value {
    json!({
        "schema": "scenario/v1", "title": "nothing at all", "features": ["empty"],
        "config": {"actions": ["allocate"]},
        "cluster": {"nodes": [], "queues": [], "jobs": []},
        "run": {"mode": "cycle"}
    })
}

#[test]
fn help_shows_examples_and_exit_statuses() {
    let output = kai(&["--help"], Path::new("."));
    let text = stdout(&output);
    assert!(output.status.success());
    for part in [
        "--compatibility",
        "--strict",
        "--out",
        "--json",
        "--id",
        "--feature",
        "--explain",
        "Examples:",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
}

#[test]
fn bad_input_is_reported_with_its_place_and_ends_with_2() {
    let folder = Folder::new("bad");
    let mut document = empty_cluster();
    document["cluster"]["nodes"] = json!([{"name": "a"}, {"label": "b"}]);
    let file = folder.write("bad.json", &document);

    let output = kai(&["--json"], &folder.0);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["scenarios"], 0);
    let error = &report["errors"][0];
    assert_eq!(error["file"], file.display().to_string());
    assert_eq!(error["path"], "cluster.nodes[1].label");
    assert!(error["message"].as_str().unwrap().contains("expected one of `name`"));

    let text = stdout(&kai(&[], &folder.0));
    assert!(text.contains("BAD INPUT"), "{text}");
    assert!(text.contains("at cluster.nodes[1].label: unknown field"), "{text}");
}

#[test]
fn nothing_to_run_is_not_success() {
    let folder = Folder::new("nothing");
    assert_eq!(kai(&[], &folder.0).status.code(), Some(2));
    assert_eq!(kai(&[], &folder.0.join("missing")).status.code(), Some(2));
    folder.write("a.json", &empty_cluster());
    assert_eq!(kai(&["--id", "b"], &folder.0).status.code(), Some(2));
    assert_eq!(kai(&["--feature", "full"], &folder.0).status.code(), Some(2));
}

#[test]
fn an_empty_cluster_runs_and_its_states_are_written() {
    let folder = Folder::new("empty");
    folder.write("a.json", &empty_cluster());
    let out = folder.0.join("out");
    let output = kai(&["--json", "--out", out.to_str().unwrap()], &folder.0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!({
        "scenarios": 1, "passed": 0, "failed": 0, "without_expectations": 1,
        "failures": [], "errors": []
    });
    assert_eq!(report, expected);
    assert_eq!(output.status.code(), Some(0));
    let states: Value =
        serde_json::from_str(&fs::read_to_string(out.join("a.json")).unwrap()).unwrap();
    assert_eq!(states, json!({"id": "a", "cycles": [{"tasks": {}}]}));
}

#[test]
fn a_job_is_explained_on_request() {
    let folder = Folder::new("explain");
    let mut document = empty_cluster();
    document["cluster"] = json!({
        "nodes": [{"name": "node0", "allocatable": {"gpus": 1}}],
        "queues": [{"name": "team", "gpu": {"limit": 1}}],
        "jobs": [
            {"name": "runs", "queue": "team", "tasks": [{"request": {"gpu": {"count": 1}}}]},
            {"name": "waits", "queue": "team", "tasks": [{"request": {"gpu": {"count": 1}}}]}
        ]
    });
    folder.write("a.json", &document);
    let text = stdout(&kai(&["--explain", "waits"], &folder.0));
    for part in [
        "a, cycle 1 of 1\nJob /waits of queue team waits.",
        "Queue team has a limit of 1 GPUs: 1 held, 1 asked for, 1 too many",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(stdout(&kai(&["--explain", "runs"], &folder.0)).contains("Job runs never waits."));
    assert_eq!(kai(&["--explain", "absent"], &folder.0).status.code(), Some(2));
    assert_eq!(kai(&["--explain", "runs", "--json"], &folder.0).status.code(), Some(2));
}
