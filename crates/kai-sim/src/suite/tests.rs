//! Folders with good, bad and foreign files.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::format::Scenario;
use crate::run::{Planner, RunOptions};
use crate::scripted::ScriptedPlanner;

/// A folder of its own for one test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kai-suite-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn document(head: &str, status: &str) -> String {
    format!(
        r#"{{"schema": "scenario/v1", {head} "title": "t", "config": {{"actions": ["allocate"]}},
            "cluster": {{"nodes": [], "queues": [{{"name": "q"}}],
                "jobs": [{{"name": "j", "queue": "q", "tasks": [{{}}]}}]}},
            "run": {{"mode": "cycle"}}{status}}}"#
    )
}

fn expecting(status: &str) -> String {
    format!(r#", "expect": {{"jobs": {{"j": {{"status": "{status}"}}}}}}"#)
}

fn idle(_: &Scenario) -> Box<dyn Planner> {
    Box::new(ScriptedPlanner::default())
}

fn run_folder(folder: &Path, filter: Filter) -> SuiteResult {
    let settings = Settings { filter, workers: 3, ..Settings::default() };
    run_files(discover(&[folder.to_path_buf()]), &settings, idle, &())
}

#[test]
fn good_files_run_beside_bad_ones_and_foreign_ones_are_counted() {
    let folder = Folder::new("mixed");
    folder.write("b/good.json", &document("", &expecting("Pending")));
    folder.write("a/wrong.json", &document("", &expecting("Running")));
    folder.write("a/unjudged.json", &document(r#""id": "named/here","#, ""));
    folder.write("bad.json", &document(r#""colour": 1,"#, ""));
    folder.write("broken.json", "{");
    folder.write("vectors.json", r#"{"schema": "vectors/v1"}"#);
    folder.write("list.json", "[1]");
    folder.write("readme.txt", "not JSON");

    let result = run_folder(&folder.0, Filter::default());
    let ids: Vec<_> = result.scenarios.iter().map(|scenario| scenario.id.as_str()).collect();
    assert_eq!(ids, ["named/here", "a/wrong", "b/good"]);
    assert_eq!((result.passed(), result.failed(), result.without_expectations()), (1, 1, 1));
    assert_eq!(result.skipped_files, 2);
    let errors: Vec<_> = result
        .errors
        .iter()
        .map(|error| (error.file.file_name().unwrap().to_str().unwrap(), error.path.as_str()))
        .collect();
    assert_eq!(errors, [("bad.json", "colour"), ("broken.json", "")]);
    assert_eq!(result.exit_code(), 2);
    assert_eq!(result.scenarios[1].suite(), "a");
}

#[test]
fn exit_codes_distinguish_failures_from_success() {
    let folder = Folder::new("codes");
    folder.write("good.json", &document("", &expecting("Pending")));
    assert_eq!(run_folder(&folder.0, Filter::default()).exit_code(), 0);
    folder.write("wrong.json", &document("", &expecting("Running")));
    assert_eq!(run_folder(&folder.0, Filter::default()).exit_code(), 1);
}

#[test]
fn filters_leave_scenarios_out_and_count_them() {
    let folder = Folder::new("filters");
    folder.write("one.json", &document(r#""id": "x/one", "features": ["gang"],"#, ""));
    folder.write("two.json", &document(r#""id": "x/two", "features": ["mig"],"#, ""));
    let by_id = Filter { id: Some(IdPattern::new("x/o*")), ..Filter::default() };
    let by_feature = Filter { feature: Some("mig".to_owned()), ..Filter::default() };
    for (filter, id) in [(by_id, "x/one"), (by_feature, "x/two")] {
        let result = run_folder(&folder.0, filter);
        assert_eq!(result.scenarios.len(), 1);
        assert_eq!(result.scenarios[0].id, id);
        assert_eq!(result.filtered_out, 1);
    }
}

#[test]
fn ids_are_unique_and_stay_inside_a_folder() {
    let folder = Folder::new("ids");
    folder.write("a.json", &document(r#""id": "same","#, ""));
    folder.write("b.json", &document(r#""id": "same","#, ""));
    folder.write("c.json", &document(r#""id": "../up","#, ""));
    let result = run_folder(&folder.0, Filter::default());
    assert_eq!(result.scenarios.len(), 1);
    assert_eq!(result.errors.len(), 2);
    assert!(result.errors.iter().all(|error| error.path == "id"));
}

#[test]
fn a_path_named_twice_is_run_once_and_a_missing_one_is_an_error() {
    let folder = Folder::new("twice");
    folder.write("a.json", &document("", ""));
    let paths = [folder.0.clone(), folder.0.join("a.json"), folder.0.join("missing")];
    let found = discover(&paths);
    assert_eq!(found.files.len(), 1);
    assert_eq!(found.errors.len(), 1);
}

#[test]
fn a_named_file_must_be_a_scenario() {
    let folder = Folder::new("named");
    folder.write("vectors.json", r#"{"schema": "vectors/v1"}"#);
    let found = discover(&[folder.0.join("vectors.json")]);
    let settings = Settings { options: RunOptions::default(), ..Settings::default() };
    let result = run_files(found, &settings, idle, &());
    assert_eq!(result.errors[0].path, "schema");
}

#[test]
fn patterns_match_a_part_or_the_whole() {
    let matches = |pattern: &str, id: &str| IdPattern::new(pattern).matches(id);
    assert!(matches("reclaim", "integration/reclaim/000"));
    assert!(!matches("reclaim*", "integration/reclaim/000"));
    assert!(matches("*reclaim*", "integration/reclaim/000"));
    assert!(matches("*/00?", "integration/reclaim/000"));
    assert!(!matches("*/01?", "integration/reclaim/000"));
    assert!(matches("*a*b*c", "xxaxxbxxbxc"));
}
