//! KAI's texts from reasons. Scenario runner and cluster adapters share this one renderer.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::config::ActionKind;
use crate::fairness::{self, QueueResource};
use crate::ids::{JobId, TaskId};
use crate::input::pod_group::DEFAULT_LEAF;
use crate::input::{ObjectName, Text};
use crate::plan::Explanation;
use crate::report::job_fit::{JobError, Progress};
use crate::report::refusal::{Lacking, NodeRefusal, Shortage};
use crate::report::task_fit::{NodeReason, SlicedNode, TaskFit};
use crate::resources::{CPU, MEMORY};
use crate::time::{Span, Timestamp};
use crate::world::World;

/// Reason of an attempt in which a pod found no node.
pub const POD_SCHEDULING_ERRORS: &str = "PodSchedulingErrors";
/// What is said when several attempts failed for different reasons.
pub const UNABLE_TO_SCHEDULE: &str = "Unable to schedule podgroup";
const NO_NODE: &str = "no nodes with enough resources were found";
const OVERHEAD: &str = "Not enough resources due to pod overhead resources";

/// What one attempt ended with.
pub fn explain(world: &World, error: &JobError) -> Explanation {
    match error {
        JobError::QueueDoesNotExist(queue) => {
            same("QueueDoesNotExist", format!("Queue '{queue}' does not exist"))
        }
        JobError::Capacity(violation) => {
            let text = fairness::text::capacity_message(
                &world.tree,
                violation,
                world.config().compatibility,
            );
            same(violation.kind.reason(), text)
        }
        JobError::NoNode { task, progress, fit } => {
            explain_no_node(world, *task, progress, &task_fit(world, fit))
        }
        JobError::Topology(refusal) => Explanation {
            reason: refusal.reason().into(),
            message: refusal.messages().join(", ").into(),
            detail: refusal.detail().into(),
        },
        JobError::PreemptionDelay { delay, until } => {
            let text = format!(
                "Workload is within its preemption delay window ({}) and may not trigger evictions before {}",
                go_duration(*delay),
                rfc3339(*until)
            );
            same("PreemptionDelayNotElapsed", text)
        }
    }
}

/// A pod found no node, for a cause that is known in words.
pub(crate) fn explain_no_node(
    world: &World,
    task: TaskId,
    progress: &Progress,
    cause: &str,
) -> Explanation {
    same(POD_SCHEDULING_ERRORS, no_node(world, task, progress, cause))
}

fn same(reason: &str, text: String) -> Explanation {
    let message: crate::input::Text = text.into();
    Explanation { reason: reason.into(), detail: message.clone(), message }
}

fn no_node(world: &World, task: TaskId, progress: &Progress, cause: &str) -> String {
    match progress {
        Progress::Alone => {
            let pod = &world.task(task).spec.name;
            format!("Resources were not found for pod {pod} due to: {cause}")
        }
        Progress::Gang { found, needed } => format!(
            "Resources were found for {found} pods while {needed} are required for gang scheduling. \
             Additional pods cannot be scheduled due to: {cause}"
        ),
        Progress::SubGroup { found, name, needed } => format!(
            "Resources were found for {found} pods from all sub-groups while sub-group {name} requires {needed} \
             pods for gang scheduling. Additional pods cannot be scheduled in this sub-group due to: {cause}"
        ),
    }
}

/// All attempts of a job in KAI's detailed form.
pub fn detailed_message(errors: &[Explanation]) -> String {
    let reason = match errors {
        [only] => &*only.reason,
        _ => UNABLE_TO_SCHEDULE,
    };
    let mut lines: Vec<String> =
        errors.iter().map(|error| format!("\n{}.", error.detail)).collect();
    lines.sort();
    format!("\n{reason}.{}", lines.concat())
}

/// All attempts of a job in KAI's short form: equal texts are counted.
pub fn short_message(errors: &[Explanation]) -> String {
    let reason = match errors {
        [only] => &*only.reason,
        _ => UNABLE_TO_SCHEDULE,
    };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for error in errors {
        *counts.entry(&error.message).or_default() += 1;
    }
    let mut texts: Vec<String> = counts
        .into_iter()
        .map(|(text, count)| if count > 1 { format!("{count} {text}") } else { text.to_owned() })
        .collect();
    texts.sort();
    if texts.is_empty() { reason.to_owned() } else { format!("{reason}: {}.", texts.join(". \n")) }
}

/// Why a pod found no node: refusals with the number of nodes that gave them, then the devices that were tried.
pub fn task_fit(world: &World, fit: &TaskFit) -> String {
    let base = fit.before_nodes.as_deref().unwrap_or(NO_NODE);
    if world.config().params.detailed_fit_errors && !fit.per_node.is_empty() {
        return detailed_task_fit(world, base, fit);
    }
    let mut reasons: Vec<String> = fit
        .counts
        .iter()
        .map(|(reason, nodes)| format!("{nodes} {}", node_reason(world, reason)))
        .collect();
    reasons.sort();
    let mut text = base.to_owned();
    if !reasons.is_empty() {
        let _ = write!(text, ": {}.", reasons.join(". \n"));
    }
    if !world.config().compatibility.is_kai() {
        for device in &fit.devices {
            let _ = write!(
                text,
                " Node {}, device {}: {} of {} MiB used by {} pods, {} MiB requested.",
                device.node,
                device.device,
                device.used_mib,
                device.total_mib,
                device.pods,
                device.requested_mib
            );
            if device.used_mib > device.total_mib {
                text.push_str(" More of it was given away than it has: nothing more fits.");
            }
        }
        for sliced in &fit.sliced {
            let _ = write!(text, " {}", sliced_node(sliced));
        }
    }
    text
}

/// Why a time-sliced node has fewer GPUs than it advertises.
pub(crate) fn sliced_node(sliced: &SlicedNode) -> String {
    let SlicedNode { node, advertised, physical } = sliced;
    format!(
        "Node {node} advertises {advertised} GPUs of which {physical} exist: whole GPUs take physical devices there \
         (policy physical)."
    )
}

pub(crate) fn node_reason(world: &World, reason: &NodeReason) -> String {
    match reason {
        NodeReason::Lacks { what, overhead } => {
            let mut text = lacking(world, *what);
            if !overhead.is_empty() {
                let _ = write!(text, ". {OVERHEAD}. The overhead resources are");
                for (name, amount) in overhead {
                    let _ = write!(text, " {name}: {}", quantity(name, *amount));
                }
            }
            text
        }
        NodeReason::QueueCapacity(violation) => {
            let details = fairness::text::capacity_message(
                &world.tree,
                violation,
                world.config().compatibility,
            );
            let reason = violation.kind.reason();
            format!("node does not have enough capacity. Reason: {reason}, Details: {details}")
        }
        NodeReason::Rule(_, text) => text.to_string(),
    }
}

/// An amount as it would stand in a manifest.
fn quantity(resource: &str, amount: i64) -> String {
    let units: &[(i64, &str)] = match resource {
        "cpu" if amount % 1000 != 0 => return format!("{amount}m"),
        "cpu" => return (amount / 1000).to_string(),
        "memory" => &[(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")],
        _ => &[],
    };
    let unit = units.iter().find(|(size, _)| amount != 0 && amount % size == 0);
    unit.map_or_else(|| amount.to_string(), |(size, suffix)| format!("{}{suffix}", amount / size))
}

fn lacking(world: &World, what: Lacking) -> String {
    match what {
        Lacking::MigProfile(slot) => {
            format!("node(s) didn't have enough of mig profile: {}", world.names.name(slot))
        }
        other => format!("node(s) didn't have enough resources: {}", resource_name(world, other)),
    }
}

fn resource_name(world: &World, what: Lacking) -> String {
    match what {
        Lacking::Gpus => "GPUs".to_owned(),
        Lacking::GpuMemory => "GPU memory".to_owned(),
        Lacking::Slot(CPU) => "CPU cores".to_owned(),
        Lacking::Slot(MEMORY) => "memory".to_owned(),
        Lacking::Slot(slot) | Lacking::MigProfile(slot) => world.names.name(slot).to_owned(),
    }
}

fn detailed_task_fit(world: &World, base: &str, fit: &TaskFit) -> String {
    let mut lines = vec![format!("\n{base}.")];
    lines.extend(each_node(world, fit).map(|(node, why)| format!("\n<{node}>: {why}.")));
    lines.sort();
    lines.concat()
}

/// Why each node refuses, where that was asked for.
pub(crate) fn each_node(world: &World, fit: &TaskFit) -> impl Iterator<Item = (Text, Text)> {
    fit.per_node.iter().map(move |(node, refusal)| {
        let reasons = match refusal {
            NodeRefusal::Shortages(shortages) => {
                let texts: Vec<String> =
                    shortages.iter().map(|shortage| detailed_shortage(world, shortage)).collect();
                texts.join(", ")
            }
            NodeRefusal::QueueCapacity(violation) => {
                node_reason(world, &NodeReason::QueueCapacity(**violation))
            }
            NodeRefusal::Rule { text, .. } => text.to_string(),
        };
        (node.clone(), reasons.into())
    })
}

fn detailed_shortage(world: &World, shortage: &Shortage) -> String {
    if shortage.what == Lacking::GpuMemory {
        return format!(
            "Node didn't have enough resources: Each gpu on the node has a gpu memory capacity of {} Mib. \
             {} Mib of gpu memory has been requested.",
            shortage.capacity, shortage.requested
        );
    }
    let shown = |amount: i64| match shortage.what {
        Lacking::Gpus => three_digits(amount as f64 / 100.0),
        Lacking::Slot(CPU) => fairness::text::shown_amount(amount as f64, QueueResource::Cpu),
        Lacking::Slot(MEMORY) => fairness::text::shown_amount(amount as f64, QueueResource::Memory),
        Lacking::GpuMemory | Lacking::Slot(_) | Lacking::MigProfile(_) => amount.to_string(),
    };
    format!(
        "Node didn't have enough resources: {}, requested: {}, used: {}, capacity: {}",
        resource_name(world, shortage.what),
        shown(shortage.requested),
        shown(shortage.used),
        shown(shortage.capacity)
    )
}

/// A number with three significant digits.
fn three_digits(number: f64) -> String {
    let digits =
        if number.abs() >= 1.0 { 2 - (number.abs().log10().floor() as i32).min(2) } else { 3 };
    let text = format!("{number:.*}", digits.max(0) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Why a pod is evicted.
pub fn eviction(world: &World, action: ActionKind, task: TaskId, for_job: Option<JobId>) -> String {
    let pod = &world.task(task).spec.name;
    match (action, for_job) {
        (ActionKind::Preempt, Some(job)) => format!(
            "Pod {pod} was preempted by higher priority workload {}",
            world.job(job).spec.name
        ),
        (ActionKind::Reclaim, Some(job)) => reclaim_eviction(world, task, job),
        (ActionKind::Consolidation, _) => format!(
            "Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) procedure"
        ),
        _ => stale_eviction(world, task),
    }
}

/// The text of an eviction that a disruption budget has delayed as long as it may.
pub fn overridden(why: &str, budget: &ObjectName) -> String {
    let why = why.trim_end().trim_end_matches('.');
    format!("{why}. Disruption budget {budget} delayed the reclaim as long as it may")
}

fn reclaim_eviction(world: &World, task: TaskId, job: JobId) -> String {
    let pod = &world.task(task).spec.name;
    let workload = &world.job(job).spec.name;
    let victim_queue = world.task(task).job.and_then(|victim| world.job(victim).queue);
    match (victim_queue, world.job(job).queue) {
        (Some(victim), Some(reclaimer)) => fairness::text::reclaim_message(
            &world.tree,
            (&pod.namespace, &pod.name),
            victim,
            (&workload.namespace, &workload.name),
            reclaimer,
            world.config().compatibility,
        ),
        _ => format!("Pod {pod} was preempted by workload {workload}."),
    }
}

fn stale_eviction(world: &World, task: TaskId) -> String {
    let entry = world.task(task);
    let pod = &entry.spec.name;
    let lead = "Workload doesn't meet the minimum required number of pods";
    let leaf = entry.job.zip(entry.leaf).map(|(job, leaf)| (world.job(job), leaf as usize));
    match leaf {
        Some((job, leaf))
            if job.leaves.len() == 1 && &*job.leaves[leaf].declared.name == DEFAULT_LEAF =>
        {
            format!(
                "{lead} ({}), evicting remaining pod: {pod}",
                job.leaves[leaf].declared.min_available
            )
        }
        Some((job, leaf)) => format!(
            "{lead} ({}) in sub-group {}, evicting remaining pod: {pod}",
            job.leaves[leaf].declared.min_available, job.leaves[leaf].declared.name
        ),
        None => format!("{lead}, evicting remaining pod: {pod}"),
    }
}

/// A span as Go prints durations.
fn go_duration(span: Span) -> String {
    let seconds = span.nanos as f64 / 1e9;
    let (hours, rest) = ((seconds / 3600.0).floor(), seconds % 3600.0);
    let (minutes, seconds) = ((rest / 60.0).floor(), rest % 60.0);
    let mut text = String::new();
    if hours > 0.0 {
        let _ = write!(text, "{hours}h");
    }
    if minutes > 0.0 || hours > 0.0 {
        let _ = write!(text, "{minutes}m");
    }
    let _ = write!(text, "{seconds}s");
    text
}

/// A moment as RFC 3339 in UTC, whole seconds.
pub fn rfc3339(moment: Timestamp) -> String {
    let seconds = moment.nanos.div_euclid(1_000_000_000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Days since 1970-01-01 as a date of the Gregorian calendar; eras of 400 years, years from March.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
