//! One case, measured in a process of its own so that its peak memory is its own.

use std::fmt::{self, Write};
use std::fs;
use std::hash::Hasher;
use std::time::{Duration, Instant};

use clap::Args;
use kai_core::plan::CyclePlan;
use kai_core::world::World;
use kai_sim::bench::{Built, Case, Decided, Family, Steady};
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

use crate::output;

/// Fewer cycles than this say little about the next one.
pub(super) const FEWEST_CYCLES: usize = 5;
/// A cycle that takes longer than this is not repeated.
const TOO_LONG_TO_REPEAT: Duration = Duration::from_secs(10);
/// Short cycles are repeated for this long.
const REPEAT_FOR: Duration = Duration::from_secs(1);
const MOST_CYCLES: usize = 101;
/// Events of a steady world, which are short.
const EVENTS: usize = 500;

#[derive(Args)]
pub(crate) struct CaseArguments {
    /// Name of the case, such as `allocate-500`.
    case: String,

    /// Without any shortcut of the search.
    #[arg(long)]
    naive: bool,
}

/// What was measured of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) name: String,
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    pub(crate) build_ms: f64,
    /// Median of all measured cycles.
    pub(crate) cycle_ms: f64,
    pub(crate) cycles: usize,
    /// Pods that waited, and pods that were evicted.
    pub(crate) pods_decided: usize,
    pub(crate) work_units: u64,
    /// Memory of the process once the world was built.
    pub(crate) world_rss_mb: f64,
    pub(crate) peak_rss_mb: f64,
    /// Equal for equal decisions and reasons.
    pub(crate) digest: u64,
    /// What is wrong with the outcome.
    pub(crate) mismatch: Option<String>,
}

impl Measurement {
    pub(crate) fn pods_per_s(&self) -> f64 {
        self.pods_decided as f64 / (self.cycle_ms / 1e3)
    }
}

/// Measures the case and prints the measurement; the exit status.
pub(crate) fn run(arguments: &CaseArguments) -> anyhow::Result<u8> {
    let case: Case = arguments.case.parse()?;
    let measurement = match case.family {
        Family::Steady => steady(case, arguments.naive)?,
        _ => cycles(case, arguments.naive)?,
    };
    output::print(&(serde_json::to_string(&measurement)? + "\n"))?;
    Ok(0)
}

fn cycles(case: Case, naive: bool) -> anyhow::Result<Measurement> {
    let started = Instant::now();
    let mut built = case.build()?;
    let build = started.elapsed();
    let world_rss_mb = memory_mb("VmRSS:");
    built.world.set_naive_search(naive);
    let mut times: Vec<Duration> = Vec::new();
    let mut first: Option<PlanSummary> = None;
    let mut mismatch: Option<String> = None;
    while wants_another(&times, naive) {
        let started = Instant::now();
        let plan = measured_cycle(&mut built);
        times.push(started.elapsed());
        match &first {
            None => {
                mismatch = case.check(&plan).err().map(|error| error.to_string());
                first = Some(PlanSummary::of(&plan));
            }
            Some(first) if first.whole != whole_digest(&plan) => {
                mismatch.get_or_insert_with(|| "a cycle changed the world".to_owned());
            }
            Some(_) => {}
        }
    }
    let mut measurement = measurement(case, &built.world, build, &mut times);
    if let Some(first) = first {
        measurement.pods_decided = pods_waiting(&built.world) + first.evicted_or_moved;
        measurement.work_units = first.work_units;
        measurement.digest = first.digest;
    }
    if mismatch.is_none() && times.len() >= FEWEST_CYCLES {
        mismatch = built.made_worse().first().map(ToString::to_string);
    }
    Ok(Measurement { world_rss_mb, mismatch, ..measurement })
}

fn steady(case: Case, naive: bool) -> anyhow::Result<Measurement> {
    let started = Instant::now();
    let mut steady = Steady::new(case.size)?;
    let build = started.elapsed();
    let world_rss_mb = memory_mb("VmRSS:");
    steady.set_naive_search(naive);
    let mut times = Vec::new();
    let mut mismatch = None;
    let (mut work_units, mut first_digest) = (0, None);
    while wants_another(&times, naive) || (!naive && times.len() < EVENTS && is_short(&times)) {
        let event = steady.next_event();
        let started = Instant::now();
        let plan = measured_event(&mut steady, event.deltas);
        times.push(started.elapsed());
        work_units = plan.work_units;
        first_digest.get_or_insert_with(|| digest(&plan));
        if let Err(error) = steady.settle(&event.arrived, &plan) {
            mismatch = Some(error.to_string());
            break;
        }
    }
    let world = &steady.built().world;
    let measurement = measurement(case, world, build, &mut times);
    let (pods_decided, digest) = (pods_waiting(world) + 1, first_digest.unwrap_or_default());
    Ok(Measurement { pods_decided, work_units, world_rss_mb, digest, mismatch, ..measurement })
}

/// One cycle. Counters of instructions find it by its name.
#[inline(never)]
pub(super) fn measured_cycle(built: &mut Built) -> CyclePlan {
    built.cycle()
}

/// A job ends, a job arrives, a cycle, its decisions noted. Counters of instructions find it by its name.
#[inline(never)]
pub(super) fn measured_event(
    steady: &mut Steady,
    deltas: Vec<kai_core::input::Delta>,
) -> CyclePlan {
    steady.take(deltas)
}

fn wants_another(times: &[Duration], naive: bool) -> bool {
    let fewest = if naive { 1 } else { FEWEST_CYCLES };
    match times {
        [] => true,
        [first] if *first > TOO_LONG_TO_REPEAT => false,
        _ => times.len() < fewest || (is_short(times) && times.len() < MOST_CYCLES),
    }
}

fn is_short(times: &[Duration]) -> bool {
    times.iter().sum::<Duration>() < REPEAT_FOR
}

/// What is kept of the first plan. The plan itself is dropped, as a scheduler drops it: two plans at once would count as
/// memory of the planner.
struct PlanSummary {
    /// Pods that are evicted or moved.
    evicted_or_moved: usize,
    work_units: u64,
    digest: u64,
    whole: u64,
}

impl PlanSummary {
    fn of(plan: &CyclePlan) -> Self {
        Self {
            evicted_or_moved: pods_evicted_or_moved(plan),
            work_units: plan.work_units,
            digest: digest(plan),
            whole: whole_digest(plan),
        }
    }
}

/// A number that equal decisions and reasons share. How much was searched is no part of it.
fn digest(plan: &CyclePlan) -> u64 {
    let mut hasher = Hashing(FxHasher::default());
    let reasons = plan.waiting.iter().map(|report| (&report.job, &report.errors, &report.pods));
    let _ = write!(hasher, "{:?}{:?}", plan.steps, reasons.collect::<Vec<_>>());
    hasher.0.finish()
}

/// Text that goes into a hash.
struct Hashing(FxHasher);

impl fmt::Write for Hashing {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// A number that equal decisions and reports share. The work done is no part of it: it may be less once something is
/// remembered.
fn whole_digest(plan: &CyclePlan) -> u64 {
    let mut hasher = Hashing(FxHasher::default());
    let _ = write!(hasher, "{:?}{:?}", plan.steps, plan.waiting);
    hasher.0.finish()
}

fn measurement(case: Case, world: &World, build: Duration, times: &mut [Duration]) -> Measurement {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Measurement {
        name: case.to_string(),
        nodes: world.nodes().count(),
        pods: world.tasks().count(),
        build_ms: milliseconds(build),
        cycle_ms: milliseconds(median),
        cycles: times.len(),
        pods_decided: 0,
        work_units: 0,
        world_rss_mb: 0.0,
        peak_rss_mb: memory_mb("VmHWM:"),
        digest: 0,
        mismatch: None,
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn pods_waiting(world: &World) -> usize {
    let waits = kai_core::status::Status::Pending;
    world.tasks().filter(|(_, task)| task.state.status == waits).count()
}

fn pods_evicted_or_moved(plan: &CyclePlan) -> usize {
    let decided = Decided::of(plan, "");
    decided.releasing + decided.moved
}

/// Memory of this process by the system's name for it, zero where the system does not say.
fn memory_mb(name: &str) -> f64 {
    const KIB_PER_MB: f64 = 1024.0;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or_default() / KIB_PER_MB
}
