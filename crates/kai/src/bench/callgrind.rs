//! Instructions of one cycle, counted by valgrind's callgrind. Unlike times they are the same in every run.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::Args;
use kai_sim::bench::{Case, Family, Steady};

use super::measure::{measured_cycle, measured_event};
use crate::output;

#[derive(Args)]
pub(crate) struct OnceArguments {
    /// Name of the case, such as `allocate-500`.
    case: String,
}

#[derive(Args)]
pub(crate) struct InstructionsArguments {
    /// Names of the cases, such as `allocate-500`.
    #[arg(required = true)]
    cases: Vec<String>,
}

/// Builds the case and plans once; the exit status.
pub(crate) fn run_once(arguments: &OnceArguments) -> anyhow::Result<u8> {
    let case: Case = arguments.case.parse()?;
    if case.family == Family::Steady {
        let mut steady = Steady::new(case.size)?;
        // The first event finds nothing remembered; what counts is the life after it.
        let event = steady.next_event();
        let plan = steady.take(event.deltas);
        steady.settle(&event.arrived, &plan)?;
        let event = steady.next_event();
        black_box(measured_event(&mut steady, event.deltas));
    } else {
        black_box(measured_cycle(&mut case.build()?));
    }
    Ok(0)
}

/// Counts the instructions of each case and prints them; the exit status.
pub(crate) fn run(arguments: &InstructionsArguments) -> anyhow::Result<u8> {
    let mut counts = BTreeMap::new();
    for name in &arguments.cases {
        let case: Case = name.parse()?;
        counts.insert(case.to_string(), instructions(case)?);
    }
    output::print(&(serde_json::to_string_pretty(&counts)? + "\n"))?;
    Ok(0)
}

/// Whether instructions can be counted here.
pub(super) fn is_available() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Instructions of one cycle of `case`, building not counted.
pub(super) fn instructions(case: Case) -> anyhow::Result<u64> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--toggle-collect=*::measured_cycle", "--toggle-collect=*::measured_event"])
        .arg(program)
        .args(["bench", "once", &case.to_string()])
        .output()
        .context("cannot start valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed on {case}:\n{text}");
    let collected = text.lines().find_map(|line| line.split_once("Collected :"));
    let count = collected.and_then(|(_, count)| count.trim().parse().ok());
    let count: u64 = count.with_context(|| format!("valgrind counted nothing:\n{text}"))?;
    ensure!(count > 0, "valgrind did not meet the cycle of {case}");
    Ok(count)
}
