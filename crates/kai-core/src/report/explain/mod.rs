//! A waiting job explained to a person: everything its report has, in our own words where KAI has none.

use std::fmt::Write as _;

use crate::fairness::text::shown_amount;
use crate::fairness::{Amounts, QueueResource, ReclaimRefusal, ViolationKind};
use crate::ids::QueueId;
use crate::plan::JobReport;
use crate::report::broken_bound::BrokenBound;
use crate::report::held_back::HeldBack;
use crate::report::refused_nodes::{RefusedClass, RefusedNodes};
use crate::report::victims::{Examples, TooLittleFree, VictimVerdict, VictimsConsidered};
use crate::world::World;

/// Everything that is known about why a job waits.
pub fn job(report: &JobReport) -> String {
    let mut text = format!("Job {} of queue {} waits.\n", report.job, report.queue);
    for reason in &report.held_back {
        paragraph(&mut text, "", &held_back(reason));
    }
    for error in &report.errors {
        paragraph(&mut text, &error.reason, &error.message);
    }
    for bound in &report.bounds {
        paragraph(&mut text, "", &broken_bound(&report.queue, bound));
    }
    let is_news = |known: &str| !report.errors.iter().any(|error| error.message.contains(known));
    for pod in report.pods.iter().filter(|pod| is_news(&pod.message)) {
        paragraph(&mut text, &format!("pod {}", pod.pod), &pod.message);
    }
    for nodes in different_refusals(report) {
        for line in refused_nodes(nodes) {
            let _ = writeln!(text, "    {line}");
        }
    }
    if let Some(refusal) = &report.cannot_reclaim {
        paragraph(&mut text, "reclaim", refusal);
    }
    for considered in &report.victims {
        for (at, line) in victims(considered).iter().enumerate() {
            let _ = writeln!(text, "{}{line}", if at == 0 { "  " } else { "    " });
        }
    }
    text
}

/// What pods met, once each.
fn different_refusals(report: &JobReport) -> Vec<&RefusedNodes> {
    let mut different: Vec<&RefusedNodes> = Vec::new();
    for pod in &report.pods {
        if !different.contains(&&*pod.nodes) {
            different.push(&pod.nodes);
        }
    }
    different
}

/// Refusals class by class, where there is more than one, and node by node, on request.
pub fn refused_nodes(refused: &RefusedNodes) -> Vec<String> {
    let class = |class: &RefusedClass| {
        let reasons: Vec<String> =
            class.reasons.iter().map(|(reason, nodes)| format!("{nodes} {reason}")).collect();
        let nodes = counted(class.nodes, "node", "nodes");
        format!("{nodes} {}: {}", class.class, reasons.join(", "))
    };
    let several = refused.classes.len() > 1;
    let classes = refused.classes.iter().filter(|_| several).map(class);
    classes.chain(refused.each.iter().map(|(node, why)| format!("node {node}: {why}"))).collect()
}

/// A title and a text, lines indented below it.
fn paragraph(text: &mut String, title: &str, body: &str) {
    let body = body.trim().replace('\n', "\n    ");
    let _ = if title.is_empty() {
        writeln!(text, "  {body}")
    } else {
        writeln!(text, "  {title}: {body}")
    };
}

/// Why a job was not tried.
pub fn held_back(reason: &HeldBack) -> String {
    match reason {
        HeldBack::NotReady { sub_group, needed, exist, gated, backing_off } => {
            let pods = match sub_group {
                None => "pods".to_owned(),
                Some(name) => format!("pods for SubGroup {name}"),
            };
            let retries = match backing_off {
                0 => String::new(),
                pods => format!(", {pods} are retried soon after a failed bind"),
            };
            format!(
                "Job is not ready for scheduling. Waiting for {needed} {pods}, currently {exist} exist, \
                 {gated} are gated{retries}"
            )
        }
        HeldBack::UnknownSubGroup { sub_group, pods } => format!(
            "{pods} of its pods are left out: they name sub-groups that it does not have, such as {sub_group}"
        ),
        HeldBack::QueueHasChildren(queue) => {
            format!("Queue {queue} has queues below it; only queues without hold jobs")
        }
        HeldBack::QueueWithoutParent(queue) => {
            format!("Queue {queue} is out of use: a parent queue does not exist")
        }
        HeldBack::QueueInCycle(queue) => {
            format!("Queue {queue} is out of use: its parent queues form a cycle")
        }
        HeldBack::Denied(why) => why.to_string(),
        HeldBack::GivenUp => "It failed before and asks not to be tried again".to_owned(),
        HeldBack::BeyondQueueDepth(depths) => {
            let depths: Vec<String> =
                depths.iter().map(|(action, depth)| format!("{} {depth}", action.name())).collect();
            format!(
                "It was not tried: more jobs of its queue are before it than each action looks at ({})",
                depths.join(", ")
            )
        }
        HeldBack::NotReached => {
            "It was not tried: no action came to it, because a job alike failed before, \
                                 the budget was spent or no action places waiting jobs"
                .to_owned()
        }
    }
}

/// Which bound of which queue, at which level, and by how much.
pub fn broken_bound(own_queue: &str, broken: &BrokenBound) -> String {
    let shown = |amount: f64| shown_amount(amount, broken.resource);
    let (bound, allocated) = match broken.kind {
        ViolationKind::OverLimit => ("limit", "held"),
        ViolationKind::OverLendingLimit => ("bound by what other queues do not lend", "held"),
        ViolationKind::NonPreemptibleOverQuota => {
            ("quota", "held by pods that may not be preempted")
        }
    };
    let level = match broken.levels_above {
        0 => String::new(),
        1 => format!(" (above {own_queue})"),
        levels => format!(" ({levels} levels above {own_queue})"),
    };
    format!(
        "Queue {}{level} has a {bound} of {} {}: {} {allocated}, {} asked for, {} too many",
        broken.queue,
        shown(broken.bound),
        unit(broken.resource),
        shown(broken.allocated),
        shown(broken.requested),
        shown(broken.excess())
    )
}

/// Why a queue may not take from others, or not these victims. KAI is silent about it.
pub fn reclaim_refusal(world: &World, refusal: &ReclaimRefusal) -> String {
    match refusal {
        ReclaimRefusal::AboveFairShare { queue, resource, fair_share, would_hold } => format!(
            "queue {} would hold {} {}, more than its fair share of {}",
            name(world, *queue),
            shown_amount(*would_hold, *resource),
            unit(*resource),
            shown_amount(*fair_share, *resource)
        ),
        ReclaimRefusal::NonPreemptibleAboveQuota { queue, resource, deserved, would_hold } => {
            format!(
                "pods of queue {} that may not be preempted would hold {} {}, more than its quota of {}",
                name(world, *queue),
                shown_amount(*would_hold, *resource),
                unit(*resource),
                shown_amount(*deserved, *resource)
            )
        }
        ReclaimRefusal::VictimQueueProtected { victim_level, remaining, protected } => format!(
            "queue {} holds no more than what is guaranteed to it: {}",
            name(world, *victim_level),
            parts(remaining, protected)
        ),
        ReclaimRefusal::BudgetWithinQuota { queue, resource, quota, remaining } => format!(
            "disruption budgets protect the quota of queue {}: {} of {} {} would remain",
            name(world, *queue),
            shown_amount(*remaining, *resource),
            shown_amount(*quota, *resource),
            unit(*resource)
        ),
        ReclaimRefusal::MoreSaturatedThanSibling {
            queue,
            sibling,
            resource,
            saturation,
            sibling_saturation,
        } => format!(
            "queue {} would hold {saturation:.2} times its fair share of {}, its sibling {} only {sibling_saturation:.2} \
             times",
            name(world, *queue),
            unit(*resource),
            name(world, *sibling)
        ),
    }
}

/// Victims that were considered and why they were not taken: a heading, then a line per finding.
pub fn victims(considered: &VictimsConsidered) -> Vec<String> {
    let spared = considered.verdicts.iter().filter(|((_, verdict), _)| verdict.spares());
    let jobs: u32 = spared.map(|(_, examples)| examples.count).sum();
    let sets = considered.simulations;
    let tried = match sets {
        0 => "tried no set of victims".to_owned(),
        _ => {
            format!("tried {} without success", counted(sets, "set of victims", "sets of victims"))
        }
    };
    let spared = counted(jobs, "running job", "running jobs");
    let mut lines = vec![format!("{} spared {spared} and {tried}", considered.action.name())];
    for ((queue, verdict), examples) in &considered.verdicts {
        let who = counted(examples.count, "job", "jobs");
        lines.push(format!(
            "{who} of queue {queue}: {} ({})",
            verdict_text(*verdict),
            named(examples)
        ));
    }
    if !considered.budgets.is_empty() {
        let names = considered.budgets.iter().map(ToString::to_string);
        lines.push(format!("disruption budgets in the way: {}", listed(names)));
    }
    if considered.refused > 0 {
        let mut line = format!("the rules of the action refused {}", considered.refused);
        if let Some(refusal) = &considered.last_refusal {
            let _ = write!(line, ", the last because {refusal}");
        }
        lines.push(line);
    }
    if let Some(not_enough) = &considered.not_enough {
        lines.push(format!(
            "all that may be taken is too little: {} are needed, {} may be taken",
            amounts(&not_enough.needed),
            amounts(&not_enough.takeable)
        ));
    }
    if let Some(free) = &considered.too_little_free {
        lines.push(too_little_free(free));
    }
    if considered.budget_spent {
        lines.push("the search ended early: its budget was spent".to_owned());
    }
    lines
}

/// Moving others cannot make more of what is free.
fn too_little_free(free: &TooLittleFree) -> String {
    if free.free_centi < free.needed_centi {
        let gpus = |centi: i64| shown_amount(centi as f64 / 100.0, QueueResource::Gpu);
        let (needed, has) = (gpus(free.needed_centi), gpus(free.free_centi));
        format!("all free GPUs together are too few: {needed} are needed, {has} are free")
    } else {
        format!(
            "all free GPU memory together is too little: {} MiB are needed, {} MiB are free",
            free.needed_mib, free.free_mib
        )
    }
}

fn verdict_text(verdict: VictimVerdict) -> &'static str {
    match verdict {
        VictimVerdict::QueueProtected => "their queue holds no more than its fair share",
        VictimVerdict::YoungerThanMinRuntime => "they have not run long enough",
        VictimVerdict::NotPreemptible => "they may not be preempted",
        VictimVerdict::PriorityNotLower => "their priority is not lower",
        VictimVerdict::DisruptionBudget => "a disruption budget protects them",
        VictimVerdict::EvictionRefused => "the API server refused an eviction a moment ago",
        VictimVerdict::BeyondMostMoved => "more jobs come before them than may be moved at once",
        VictimVerdict::TakenInVain => "taking them does not help",
    }
}

fn named(examples: &Examples) -> String {
    let names: Vec<String> = examples.names.iter().map(ToString::to_string).collect();
    let more = examples.count as usize - names.len();
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}

fn counted(count: u32, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn name(world: &World, queue: QueueId) -> &str {
    &world.tree.node(queue).display_name
}

fn unit(resource: QueueResource) -> &'static str {
    match resource {
        QueueResource::Cpu => "CPU cores",
        QueueResource::Memory => "GB of memory",
        QueueResource::Gpu => "GPUs",
    }
}

/// Every amount that is not zero.
fn amounts(amounts: &Amounts) -> String {
    let shown = |resource: QueueResource| {
        let amount = amounts[resource];
        (amount != 0.0).then(|| format!("{} {}", shown_amount(amount, resource), unit(resource)))
    };
    listed(QueueResource::ALL.into_iter().filter_map(shown))
}

/// What is allocated of every bound that is not unlimited.
fn parts(allocated: &Amounts, bounds: &Amounts) -> String {
    let shown = |resource: QueueResource| {
        let (part, whole) = (allocated[resource], bounds[resource]);
        let shown = |amount| shown_amount(amount, resource);
        let text = || format!("{} of {} {}", shown(part), shown(whole), unit(resource));
        (whole != crate::fairness::UNLIMITED).then(text)
    };
    listed(QueueResource::ALL.into_iter().filter_map(shown))
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { "nothing".to_owned() } else { texts.join(", ") }
}

#[cfg(test)]
mod tests;
