//! `kai scenario run`: the judge.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use kai_sim::format::{CompatibilityChoice, Scenario};
use kai_sim::report::{self, JsonReport};
use kai_sim::run::{CorePlanner, Planner, RunOptions};
use kai_sim::suite::{
    Filter, IdPattern, InputError, Progress, Settings, SuiteResult, discover, run_files,
};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai scenario run examples/                      every scenario of a folder
  kai scenario run examples/ --id 'reclaim*'      scenarios whose id begins with reclaim
  kai scenario run examples/ --feature topology   scenarios with a feature tag
  kai scenario run a.json b.json --out states/    also write the states of every cycle
  kai scenario run a.json --explain train         why the job train is pending
  kai scenario run tables/ --compatibility kai --strict
                                                  compare with recorded outcomes

Exit status: 0 if every expectation held, 1 if one failed, 2 on bad input.";

/// What to run and how.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// Scenario files, or folders with scenarios (`*.json` whose schema is scenario/v1).
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Fix the reference scheduler's known faults (right) or reproduce them (kai). Overrides the files.
    #[arg(long, value_enum)]
    compatibility: Option<Compatibility>,

    /// Also compare every task in every cycle with the recorded outcome, if a stable one was recorded.
    #[arg(long)]
    strict: bool,

    /// Write status and node of every task in every cycle to DIR/ID.json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,

    /// Also print in detail why JOB is pending.
    #[arg(long, value_name = "JOB", conflicts_with = "json")]
    explain: Option<String>,

    /// Run only scenarios whose id contains PATTERN; a PATTERN with * or ? must match the whole id.
    #[arg(long, value_name = "PATTERN")]
    id: Option<String>,

    /// Run only scenarios with this feature tag.
    #[arg(long, value_name = "TAG")]
    feature: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Compatibility {
    Right,
    Kai,
}

impl From<Compatibility> for CompatibilityChoice {
    fn from(choice: Compatibility) -> Self {
        match choice {
            Compatibility::Right => Self::Right,
            Compatibility::Kai => Self::Kai,
        }
    }
}

/// Runs the scenarios and reports; the exit status.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<u8> {
    let settings = Settings {
        filter: Filter {
            id: arguments.id.as_ref().map(IdPattern::new),
            feature: arguments.feature.clone(),
        },
        options: RunOptions { strict: arguments.strict },
        compatibility: arguments.compatibility.map(Into::into),
        workers: 0,
    };
    let new_planner = |_: &Scenario| -> Box<dyn Planner> {
        Box::new(CorePlanner::asked_about(arguments.explain.clone()))
    };
    let mut result =
        run_files(discover(&arguments.paths), &settings, new_planner, &Counter::default());
    report_nothing_to_run(&mut result, &arguments.paths);
    if let Some(job) = &arguments.explain {
        explain(&mut result, job, &arguments.paths)?;
    }
    if let Some(folder) = &arguments.out {
        write_states(folder, &result)?;
    }
    let text = if arguments.json {
        serde_json::to_string_pretty(&JsonReport::from(&result))? + "\n"
    } else {
        report::text(&result, output::width())
    };
    output::print(&text)?;
    Ok(result.exit_code())
}

/// A run that judged nothing must not look like one in which all went well.
fn report_nothing_to_run(result: &mut SuiteResult, paths: &[PathBuf]) {
    if !result.scenarios.is_empty() || !result.errors.is_empty() {
        return;
    }
    let message = if result.filtered_out > 0 {
        "the filter matches no scenario"
    } else {
        "no scenario found, expected JSON documents with schema scenario/v1"
    };
    result.errors.push(InputError {
        file: paths.first().cloned().unwrap_or_default(),
        path: String::new(),
        message: message.to_owned(),
    });
}

/// Prints why a job is pending, before the verdicts. A name that no scenario has is bad input.
fn explain(result: &mut SuiteResult, job: &str, paths: &[PathBuf]) -> anyhow::Result<()> {
    if let Some(text) = report::explanations(result, job) {
        return Ok(output::print(&text)?);
    }
    result.errors.push(InputError {
        file: paths.first().cloned().unwrap_or_default(),
        path: String::new(),
        message: format!("no scenario that ran has a job `{job}`, expected one to explain"),
    });
    Ok(())
}

fn write_states(folder: &Path, result: &SuiteResult) -> anyhow::Result<()> {
    for scenario in &result.scenarios {
        let file = folder.join(format!("{}.json", scenario.id));
        let text = serde_json::to_string_pretty(&report::states_document(scenario))? + "\n";
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&file, text))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Shows how many files are done, on a terminal.
struct Counter {
    watched: bool,
}

impl Default for Counter {
    fn default() -> Self {
        Self { watched: output::someone_watches() }
    }
}

impl Progress for Counter {
    fn advanced(&self, done: usize, total: usize) {
        if self.watched {
            let end = if done == total { "\r\x1b[K" } else { "" };
            output::complain(&format!("\r{done}/{total} scenarios{end}"));
        }
    }
}
