//! `kai bench core`: every case in a process of its own, and a table of all.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use kai_sim::bench::Case;
use serde::Serialize;

use super::callgrind;
use super::measure::Measurement;
use super::table::{self, Naive, Row};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai bench core                                every case in every size
  kai bench core --case allocate                one kind of world in every size
  kai bench core --case reclaim-no-500 --json   one case, for a script
  kai bench core --case allocate --growth       also count instructions, with valgrind

Exit status: 0 if every outcome was right, 1 if one was wrong, 2 on bad input.";

/// What to measure and how.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CoreArguments {
    /// Measure only this case (allocate-500), or all sizes of a kind (allocate); may be given several times.
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,

    /// Also count instructions and show how they grow from size to size; slow, needs valgrind.
    #[arg(long)]
    growth: bool,

    /// Do not compare with a search without shortcuts.
    #[arg(long)]
    no_naive: bool,

    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A search without shortcuts that takes longer than this is ended.
const NAIVE_LIMIT: Duration = Duration::from_secs(20);

#[derive(Serialize)]
struct JsonReport<'a> {
    cases: Vec<JsonCase<'a>>,
}

#[derive(Serialize)]
struct JsonCase<'a> {
    name: &'a str,
    nodes: usize,
    pods: usize,
    build_ms: f64,
    cycle_ms: f64,
    pods_per_s: f64,
    work_units: u64,
    peak_rss_mb: f64,
}

/// Measures and reports; the exit status.
pub(crate) fn run(arguments: &CoreArguments) -> anyhow::Result<u8> {
    let cases = selected(&arguments.cases)?;
    ensure!(!arguments.growth || callgrind::is_available(), "--growth needs valgrind");
    let mut rows = Vec::new();
    for (at, &case) in cases.iter().enumerate() {
        output::complain(&format!("{}/{} {case}\n", at + 1, cases.len()));
        let measurement = measure(case)?;
        let naive = if arguments.no_naive { Naive::Unknown } else { compare(case, &measurement)? };
        rows.push(Row { case, measurement, naive, growth: None });
    }
    if arguments.growth {
        add_growth(&mut rows)?;
    }
    let text = if arguments.json { json(&rows)? } else { table::text(&rows) };
    output::print(&text)?;
    let wrong: Vec<String> = rows.iter().filter_map(Row::fault).collect();
    for fault in &wrong {
        output::complain(&format!("{fault}\n"));
    }
    Ok(u8::from(!wrong.is_empty()))
}

fn selected(names: &[String]) -> anyhow::Result<Vec<Case>> {
    if names.is_empty() {
        return Ok(Case::all());
    }
    let mut cases = Vec::new();
    for name in names {
        cases.extend(Case::named(name)?);
    }
    Ok(cases)
}

fn measure(case: Case) -> anyhow::Result<Measurement> {
    let child = start(case, &[])?;
    let output = child.wait_with_output().context("cannot wait for the case")?;
    ensure!(output.status.success(), "{case} ended with {}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{case} printed no measurement"))
}

/// The same without shortcuts, unless that takes too long.
fn compare(case: Case, fast: &Measurement) -> anyhow::Result<Naive> {
    let mut child = start(case, &["--naive"])?;
    let mut stdout = child.stdout.take().context("the case has no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text).map(|_| sender.send(text));
    });
    let Ok(text) = receiver.recv_timeout(NAIVE_LIMIT) else {
        child.kill().and_then(|()| child.wait()).context("cannot stop the case")?;
        return Ok(Naive::TooSlow { times: NAIVE_LIMIT.as_secs_f64() * 1e3 / fast.cycle_ms });
    };
    let status = child.wait().context("cannot wait for the case")?;
    ensure!(status.success(), "{case} without shortcuts ended with {status}");
    let naive: Measurement = serde_json::from_str(&text)
        .with_context(|| format!("{case} without shortcuts printed no measurement"))?;
    Ok(Naive::Known {
        times: naive.cycle_ms / fast.cycle_ms,
        same_plan: naive.digest == fast.digest,
    })
}

fn start(case: Case, flags: &[&str]) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    Command::new(program)
        .args(["bench", "case", &case.to_string()])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("cannot start a process for the case")
}

/// Counts instructions and compares each size with the one below.
fn add_growth(rows: &mut [Row]) -> anyhow::Result<()> {
    let mut counts: BTreeMap<Case, u64> = BTreeMap::new();
    for row in rows.iter_mut() {
        output::complain(&format!("instructions of {}\n", row.case));
        let count = callgrind::instructions(row.case)?;
        let below = counts
            .iter()
            .filter(|(case, _)| case.family == row.case.family && case.size < row.case.size);
        let below = below.max_by_key(|(case, _)| case.size);
        row.growth = below.map(|(case, &smaller)| (case.size, count as f64 / smaller as f64));
        counts.insert(row.case, count);
    }
    Ok(())
}

fn json(rows: &[Row]) -> anyhow::Result<String> {
    let cases = rows.iter().map(|row| JsonCase::from(&row.measurement)).collect();
    Ok(serde_json::to_string_pretty(&JsonReport { cases })? + "\n")
}

impl<'a> From<&'a Measurement> for JsonCase<'a> {
    fn from(measurement: &'a Measurement) -> Self {
        let &Measurement { nodes, pods, build_ms, cycle_ms, work_units, peak_rss_mb, .. } =
            measurement;
        let (name, pods_per_s) = (measurement.name.as_str(), measurement.pods_per_s());
        Self { name, nodes, pods, build_ms, cycle_ms, pods_per_s, work_units, peak_rss_mb }
    }
}
