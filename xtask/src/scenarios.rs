//! Scenario suites through the shipped binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::deviations::Deviations;
use crate::process::cargo;
use crate::tally::Tally;

/// When everything is broken, the first few differences are enough.
const MOST_SHOWN: i64 = 25;

/// What `kai scenario run --json` prints.
#[derive(Deserialize)]
struct Report {
    passed: i64,
    without_expectations: usize,
    failures: Vec<Failure>,
    errors: Vec<InputError>,
}

#[derive(Deserialize)]
struct Failure {
    id: String,
    difference: String,
}

#[derive(Deserialize)]
struct InputError {
    file: String,
    path: String,
    message: String,
}

/// The scenarios of the repository.
pub(crate) fn examples(root: &Path) -> anyhow::Result<Tally> {
    let report = run(root, &["examples/"])?;
    Ok(judge(&report, &BTreeSet::new(), &BTreeSet::new()))
}

/// Our own scenarios, one per rule, faults reproduced.
pub(crate) fn own_as_kai(root: &Path) -> anyhow::Result<Tally> {
    let report = run(root, &["tests/scenarios/", "--compatibility", "kai"])?;
    Ok(judge(&report, &BTreeSet::new(), &BTreeSet::new()))
}

/// Our own scenarios as users get them.
pub(crate) fn own_by_default(root: &Path) -> anyhow::Result<Tally> {
    let report = run(root, &["tests/scenarios/", "--compatibility", "right"])?;
    Ok(judge(&report, &BTreeSet::new(), &BTreeSet::new()))
}

/// The recorded scenarios, faults reproduced, every recorded state compared.
pub(crate) fn recorded_as_kai(root: &Path) -> anyhow::Result<Tally> {
    let Some(folder) = recorded(root) else { return Ok(skipped()) };
    let folder = folder.to_string_lossy();
    let report = run(root, &[&folder, "--compatibility", "kai", "--strict"])?;
    let deviations = Deviations::read(root)?;
    Ok(judge(&report, &deviations.injected(), &BTreeSet::new()))
}

/// The recorded scenarios as users get them; what differs is listed.
pub(crate) fn recorded_by_default(root: &Path) -> anyhow::Result<Tally> {
    let Some(folder) = recorded(root) else { return Ok(skipped()) };
    let folder = folder.to_string_lossy();
    let report = run(root, &[&folder, "--compatibility", "right"])?;
    let deviations = Deviations::read(root)?;
    Ok(judge(&report, &deviations.by_default(), &deviations.by_default()))
}

fn recorded(root: &Path) -> Option<PathBuf> {
    let named = std::env::var_os("KAI_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    let folder = root.join(named).join("scenarios/scenarios");
    folder.is_dir().then_some(folder)
}

fn skipped() -> Tally {
    println!("SKIPPED recorded scenarios: no shared folder (set KAI_SHARED)");
    Tally { skipped: 1, ..Tally::default() }
}

/// Counts a report. Ids in `may_fail` are no failures; ids in `must_fail` that pass are.
fn judge(report: &Report, may_fail: &BTreeSet<&str>, must_fail: &BTreeSet<&str>) -> Tally {
    let mut tally = Tally { passed: report.passed, ..Tally::default() };
    for Failure { id, difference } in &report.failures {
        if may_fail.contains(id.as_str()) {
            println!("listed deviation: {id}");
            continue;
        }
        tally.failed += 1;
        if tally.failed <= MOST_SHOWN {
            println!("FAILED {id}\n  {}", difference.replace('\n', "\n  "));
        }
    }
    if tally.failed > MOST_SHOWN {
        println!("and {} more failures", tally.failed - MOST_SHOWN);
    }
    let failed = |id: &str| report.failures.iter().any(|failure| failure.id == id);
    for id in must_fail.iter().filter(|id| !failed(id)) {
        println!("FAILED {id}\n  listed as a deviation, but it passes: strike it off the list");
        tally.failed += 1;
    }
    for InputError { file, path, message } in &report.errors {
        println!("BAD INPUT {file}\n  at {path}: {message}");
        tally.failed += 1;
    }
    println!("{tally}, {} without expectations", report.without_expectations);
    tally
}

fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<Report> {
    let output = cargo()
        .args(["run", "--quiet", "--locked", "--release", "--", "scenario", "run", "--json"])
        .args(arguments)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if output.stdout.is_empty() {
        bail!("kai scenario run printed nothing and ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("kai scenario run printed no report")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(failing: &[&str]) -> Report {
        let failure = |id: &&str| Failure { id: (*id).to_owned(), difference: String::new() };
        Report {
            passed: 3,
            without_expectations: 0,
            failures: failing.iter().map(failure).collect(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn listed_deviations_fail_exactly() {
        let listed = BTreeSet::from(["a"]);
        let failed = |failing: &[&str]| judge(&report(failing), &listed, &listed).failed;
        assert_eq!(failed(&["a"]), 0);
        assert_eq!(failed(&["a", "b"]), 1);
        assert_eq!(failed(&[]), 1);
    }
}
