//! Runs files on several threads and puts the results back in order.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Discovery, Filter, InputError, ScenarioFile, ScenarioResult, SuiteResult, Verdict};
use crate::format::{CompatibilityChoice, FormatError, Run, Scenario};
use crate::run::{self, Planner, RunOptions, RunResult};
use crate::state::ClusterState;

/// How the files are run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which scenarios are run.
    pub filter: Filter,
    /// What to compare besides the expectations.
    pub options: RunOptions,
    /// Overrides what the files say about compatibility.
    pub compatibility: Option<CompatibilityChoice>,
    /// How many threads; 0: as many as the machine has cores.
    pub workers: usize,
}

/// Receives the progress of a set of files.
pub trait Progress: Sync {
    /// `done` of `total` files are dealt with.
    fn advanced(&self, done: usize, total: usize);
}

/// Progress that is not reported.
impl Progress for () {
    fn advanced(&self, _done: usize, _total: usize) {}
}

/// What became of one file.
enum FileResult {
    Ran(ScenarioResult),
    FilteredOut,
    Bad(FormatError),
}

/// Runs every file of `found`. Each scenario gets a planner of its own from `new_planner`.
pub fn run_files<'p, F>(
    found: Discovery,
    settings: &Settings,
    new_planner: F,
    progress: &dyn Progress,
) -> SuiteResult
where
    F: Fn(&Scenario) -> Box<dyn Planner + 'p> + Sync,
{
    let total = found.files.len();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = found.files.get(index) else { return };
            let result = run_file(file, settings, &new_planner);
            if let Ok(mut results) = results.lock() {
                results.insert(index, result);
            }
            progress.advanced(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        }
    };
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let workers = if settings.workers == 0 { cores() } else { settings.workers };
    thread::scope(|scope| {
        for _ in 0..workers.min(total) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    collect(found, results)
}

fn collect(found: Discovery, results: BTreeMap<usize, FileResult>) -> SuiteResult {
    let mut suite = SuiteResult {
        errors: found.errors,
        skipped_files: found.skipped,
        ..SuiteResult::default()
    };
    let mut file_of_id: BTreeMap<String, &ScenarioFile> = BTreeMap::new();
    for (index, result) in results {
        let file = &found.files[index];
        let bad =
            |path: String, message: String| InputError { file: file.file.clone(), path, message };
        match result {
            FileResult::FilteredOut => suite.filtered_out += 1,
            FileResult::Bad(FormatError { path, message }) => suite.errors.push(bad(path, message)),
            FileResult::Ran(ran) => {
                if let Some(other) = file_of_id.get(&ran.id) {
                    let other = other.file.display();
                    let message = format!("`{}` is also the id of {other}", ran.id);
                    suite.errors.push(bad("id".to_owned(), message));
                } else {
                    file_of_id.insert(ran.id.clone(), file);
                    suite.scenarios.push(ran);
                }
            }
        }
    }
    suite.errors.sort_by(|left, right| left.file.cmp(&right.file));
    suite
}

fn run_file<'p, F>(file: &ScenarioFile, settings: &Settings, new_planner: &F) -> FileResult
where
    F: Fn(&Scenario) -> Box<dyn Planner + 'p>,
{
    let scenario = match read(file) {
        Ok(scenario) => scenario,
        Err(error) => return FileResult::Bad(error),
    };
    let id = scenario.id.clone().unwrap_or_else(|| file.default_id.clone());
    if !settings.filter.accepts(&id, &scenario) {
        return FileResult::FilteredOut;
    }
    let ran = ClusterState::from_scenario(&scenario).and_then(|mut state| {
        if let Some(compatibility) = settings.compatibility {
            state.config.params.compatibility = compatibility;
        }
        run::run(&scenario, state, &mut *new_planner(&scenario), settings.options)
    });
    match ran {
        Ok(result) => FileResult::Ran(ScenarioResult {
            id,
            verdict: verdict(&scenario, &result),
            cycles: result.cycles,
            explanations: result.explanations,
            jobs: scenario.cluster.jobs.iter().map(|job| job.name.clone()).collect(),
        }),
        Err(error) => FileResult::Bad(error),
    }
}

fn read(file: &ScenarioFile) -> Result<Scenario, FormatError> {
    let text = fs::read_to_string(&file.file)
        .map_err(|error| FormatError::new(String::new(), error.to_string()))?;
    let scenario = Scenario::from_json(&text)?;
    if let Some(id) = &scenario.id {
        let leaves =
            id.starts_with('/') || id.split('/').any(|part| matches!(part, "" | "." | ".."));
        if leaves {
            let message = format!("`{id}` is no id, expected names separated by `/`");
            return Err(FormatError::new("id", message));
        }
    }
    Ok(scenario)
}

fn verdict(scenario: &Scenario, result: &RunResult) -> Verdict {
    if let Some(error) = &result.planner_error {
        return Verdict::Failed(format!("the planner gave up: {error}"));
    }
    if let Some(difference) = result.difference.as_ref().or(result.recorded_difference.as_ref()) {
        return Verdict::Failed(difference.to_string());
    }
    if expects_anything(scenario) { Verdict::Passed } else { Verdict::WithoutExpectations }
}

fn expects_anything(scenario: &Scenario) -> bool {
    let steps = match &scenario.run {
        Run::Timeline(steps) => steps.as_slice(),
        Run::Cycle | Run::Rounds { .. } => &[],
    };
    scenario.expect.is_some()
        || scenario.expect_kai.is_some()
        || steps.iter().any(|step| step.expect.is_some() || step.expect_kai.is_some())
}
