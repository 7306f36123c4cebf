//! Verdicts for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};

use crate::suite::{InputError, ScenarioResult, SuiteResult, Verdict};

/// The first difference of each failure and every input error, then a table with one line per suite, so
/// that the verdict is what a terminal shows last.
pub fn text(result: &SuiteResult, width: usize) -> String {
    let mut text = String::new();
    for scenario in &result.scenarios {
        if let Verdict::Failed(difference) = &scenario.verdict {
            let indented = difference.replace('\n', "\n  ");
            let _ = write!(text, "FAILED {}\n  {indented}\n\n", scenario.id);
        }
    }
    for InputError { file, path, message } in &result.errors {
        let place = if path.is_empty() { String::new() } else { format!("at {path}: ") };
        let _ = write!(text, "BAD INPUT {}\n  {place}{message}\n\n", file.display());
    }
    text + &table(result, width)
}

/// Everything that is known about why the job called `job` waits, scenario by scenario; none where no scenario
/// has it.
pub fn explanations(result: &SuiteResult, job: &str) -> Option<String> {
    let mut text = String::new();
    for scenario in &result.scenarios {
        if let Some(found) = scenario.explanations.get(job) {
            let last = scenario.cycles.len();
            let _ =
                writeln!(text, "{}, cycle {} of {last}\n{}", scenario.id, found.cycle, found.text);
        } else if scenario.jobs.contains(job) {
            let _ = writeln!(text, "{}\nJob {job} never waits.\n", scenario.id);
        }
    }
    (!text.is_empty()).then_some(text)
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    without: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::WithoutExpectations => self.without += 1,
        }
    }
}

const NUMBER_COLUMNS: usize = 4 * 11;

fn table(result: &SuiteResult, width: usize) -> String {
    let mut suites: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut total = Counts::default();
    for scenario in &result.scenarios {
        suites.entry(scenario.suite()).or_default().add(&scenario.verdict);
        total.add(&scenario.verdict);
    }
    let longest = suites.keys().map(|suite| suite.chars().count()).max().unwrap_or(0);
    let name_width = longest.clamp(5, width.saturating_sub(NUMBER_COLUMNS).max(12));

    let header = ["scenarios", "passed", "failed", "unjudged"];
    let mut text = format!("{:<name_width$}", "suite");
    for column in header {
        let _ = write!(text, "{column:>11}");
    }
    text.push('\n');
    for (suite, counts) in &suites {
        line(&mut text, &shortened(suite, name_width), name_width, counts);
    }
    if suites.len() > 1 {
        line(&mut text, "total", name_width, &total);
    }
    let left_out = [
        (result.skipped_files, "other JSON files passed over"),
        (result.filtered_out, "scenarios left out by the filter"),
        (result.errors.len(), "input errors"),
    ];
    for (count, what) in left_out.iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "{count} {what}");
    }
    text
}

fn line(text: &mut String, name: &str, name_width: usize, counts: &Counts) {
    let Counts { passed, failed, without } = counts;
    let scenarios = passed + failed + without;
    let _ =
        writeln!(text, "{name:<name_width$}{scenarios:>11}{passed:>11}{failed:>11}{without:>11}");
}

/// The end of a path identifies a file better than its beginning.
fn shortened(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length + 1 - width).collect();
    format!("…{kept}")
}

/// All verdicts as one object.
#[derive(Serialize)]
pub struct JsonReport<'a> {
    scenarios: usize,
    passed: usize,
    failed: usize,
    without_expectations: usize,
    failures: Vec<JsonFailure<'a>>,
    errors: Vec<JsonError<'a>>,
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    id: &'a str,
    difference: &'a str,
}

#[derive(Serialize)]
struct JsonError<'a> {
    file: String,
    path: &'a str,
    message: &'a str,
}

impl<'a> From<&'a SuiteResult> for JsonReport<'a> {
    fn from(result: &'a SuiteResult) -> Self {
        let failure = |scenario: &'a ScenarioResult| match &scenario.verdict {
            Verdict::Failed(difference) => Some(JsonFailure { id: &scenario.id, difference }),
            Verdict::Passed | Verdict::WithoutExpectations => None,
        };
        let error = |error: &'a InputError| JsonError {
            file: error.file.display().to_string(),
            path: &error.path,
            message: &error.message,
        };
        Self {
            scenarios: result.scenarios.len(),
            passed: result.passed(),
            failed: result.failed(),
            without_expectations: result.without_expectations(),
            failures: result.scenarios.iter().filter_map(failure).collect(),
            errors: result.errors.iter().map(error).collect(),
        }
    }
}

/// The states of one scenario as a document: status and node of every task in every cycle in which
/// actions ran.
pub fn states_document(scenario: &ScenarioResult) -> Value {
    let cycle = |states: &crate::run::CycleStates| {
        let tasks: serde_json::Map<_, _> = states
            .iter()
            .map(|(name, (status, node))| (name.clone(), json!({"status": status, "node": node})))
            .collect();
        json!({ "tasks": tasks })
    };
    let cycles: Vec<_> = scenario.cycles.iter().map(cycle).collect();
    json!({"id": scenario.id, "cycles": cycles})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Status;
    use crate::run::CycleStates;

    fn scenario(id: &str, verdict: Verdict) -> ScenarioResult {
        ScenarioResult {
            id: id.to_owned(),
            verdict,
            cycles: Vec::new(),
            explanations: BTreeMap::new(),
            jobs: ["job".to_owned()].into(),
        }
    }

    fn result() -> SuiteResult {
        SuiteResult {
            scenarios: vec![
                scenario("allocate/one", Verdict::Passed),
                scenario("allocate/two", Verdict::Failed("cycle 1: no\n  event".to_owned())),
                scenario("reclaim/one", Verdict::WithoutExpectations),
            ],
            errors: vec![InputError {
                file: "bad.json".into(),
                path: "cluster.nodes[0]".to_owned(),
                message: "missing field `name`".to_owned(),
            }],
            skipped_files: 2,
            filtered_out: 0,
        }
    }

    #[test]
    fn first_differences_come_before_a_table_with_a_line_per_suite() {
        let expected = "\
FAILED allocate/two
  cycle 1: no
    event

BAD INPUT bad.json
  at cluster.nodes[0]: missing field `name`

suite     scenarios     passed     failed   unjudged
allocate          2          1          1          0
reclaim           1          0          0          1
total             3          1          1          1
2 other JSON files passed over
1 input errors
";
        assert_eq!(text(&result(), 80), expected);
    }

    #[test]
    fn a_job_is_explained_in_every_scenario_that_has_it() {
        let mut result = result();
        let text = "Job ns/job of queue q waits.\n".to_owned();
        let explanation = crate::run::Explanation { cycle: 2, text };
        result.scenarios[0].explanations.insert("job".to_owned(), explanation);
        let text = explanations(&result, "job").unwrap();
        assert!(text.starts_with("allocate/one, cycle 2 of 0\nJob ns/job of queue q waits.\n"));
        assert!(text.contains("reclaim/one\nJob job never waits.\n"));
        assert_eq!(explanations(&result, "missing"), None);
    }

    #[test]
    fn long_suite_names_keep_the_table_inside_the_terminal() {
        let long = scenario(&format!("{}/case", "suite".repeat(40)), Verdict::Passed);
        let result = SuiteResult { scenarios: vec![long], ..SuiteResult::default() };
        assert!(text(&result, 80).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn json_report_has_the_agreed_keys() {
        let written = serde_json::to_value(JsonReport::from(&result())).unwrap();
        let expected = json!({
            "scenarios": 3, "passed": 1, "failed": 1, "without_expectations": 1,
            "failures": [{"id": "allocate/two", "difference": "cycle 1: no\n  event"}],
            "errors": [{
                "file": "bad.json", "path": "cluster.nodes[0]", "message": "missing field `name`"
            }],
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn states_document_says_null_where_a_task_has_no_node() {
        let mut states = CycleStates::new();
        states.insert("a-0".to_owned(), (Status::Binding, Some("node0".to_owned())));
        states.insert("b-0".to_owned(), (Status::Pending, None));
        let mut ran = scenario("some/id", Verdict::Passed);
        ran.cycles = vec![states];
        let expected = json!({"id": "some/id", "cycles": [{"tasks": {
            "a-0": {"status": "Binding", "node": "node0"},
            "b-0": {"status": "Pending", "node": null},
        }}]});
        assert_eq!(states_document(&ran), expected);
    }
}
