//! `kai bench core` as a person or a script meets it.

use std::process::{Command, Output};

use serde_json::Value;

fn kai(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kai"))
        .args(["bench", "core"])
        .args(arguments)
        .output()
        .expect("kai starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("kai prints text")
}

#[test]
fn a_script_gets_the_documented_keys() {
    let output = kai(&["--case", "allocate-10", "--case", "steady-10", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 2);
    let keys: Vec<_> = cases[0].as_object().expect("an object").keys().collect();
    let expected = [
        "name",
        "nodes",
        "pods",
        "build_ms",
        "cycle_ms",
        "pods_per_s",
        "work_units",
        "peak_rss_mb",
    ];
    assert_eq!(keys, expected);
    assert_eq!(cases[0]["name"], "allocate-10");
    assert_eq!((&cases[0]["nodes"], &cases[0]["pods"]), (&10.into(), &80.into()));
    assert_eq!(cases[1]["pods"], 480);
}

#[test]
fn a_person_gets_a_line_per_case() {
    let output = kai(&["--case", "consolidate-50", "--no-naive"]);
    assert!(output.status.success(), "{output:?}");
    assert!(stdout(&output).lines().any(|line| line.starts_with("consolidate-50 ")));
}

#[test]
fn unknown_cases_are_bad_input() {
    let output = kai(&["--case", "allocate-few"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("there is no case `allocate-few`, expected one of allocate"),
        "{errors}"
    );
}
