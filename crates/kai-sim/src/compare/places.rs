//! Nodes, placements and counts.

use std::collections::BTreeSet;

use super::{Mismatch, same_amount};
use crate::format::{CountExpectation, Expectation, Placement};
use crate::outcome::{CycleOutcome, NodeOutcome};
use crate::state::ClusterState;

/// Compares what is free on nodes.
pub(super) fn check_nodes(expect: &Expectation, outcome: &CycleOutcome) -> Result<(), Mismatch> {
    for (name, expected) in &expect.nodes {
        let subject = format!("node {name}");
        let Some(actual) = outcome.nodes.get(name) else {
            return Err(Mismatch::new(subject, "existence", "a node", "none reported"));
        };
        let amounts = [
            ("idle devices", expected.idle_gpus, actual.idle_gpus),
            ("releasing devices", expected.releasing_gpus, actual.releasing_gpus),
        ];
        for (property, expected, actual) in amounts {
            if let Some(expected) = expected.filter(|&expected| !same_amount(expected, actual)) {
                return Err(Mismatch::new(subject, property, expected, actual));
            }
        }
        for (&zone, amounts) in &expected.numa_available {
            for (resource, &expected) in &amounts.amounts {
                zone_amount(&subject, zone, resource, expected, actual)?;
            }
        }
    }
    Ok(())
}

fn zone_amount(
    subject: &str,
    zone: usize,
    resource: &str,
    expected: i64,
    actual: &NodeOutcome,
) -> Result<(), Mismatch> {
    let available = actual.numa_available.get(zone);
    let available = available.map(|zone| zone.get(resource).copied().unwrap_or(0));
    if available == Some(expected) {
        return Ok(());
    }
    let property = format!("{resource} available in zone {zone}");
    let available = available.map_or("no such zone".to_owned(), |amount| amount.to_string());
    Err(Mismatch::new(subject, property, expected, available))
}

/// Compares where jobs and their pod sets are.
pub(super) fn check_placements(
    expect: &Expectation,
    state: &ClusterState,
    outcome: &CycleOutcome,
) -> Result<(), Mismatch> {
    expect.placements.iter().try_for_each(|expected| placement(expected, state, outcome))
}

fn placement(
    expected: &Placement,
    state: &ClusterState,
    outcome: &CycleOutcome,
) -> Result<(), Mismatch> {
    let subject = match &expected.sub_group {
        Some(pod_set) => format!("job {} sub-group {pod_set}", expected.job),
        None => format!("job {}", expected.job),
    };
    let Some(job) = state.job(&expected.job) else {
        return Err(Mismatch::new(subject, "existence", "a job", "none"));
    };
    let in_pod_set = |name: &str| expected.sub_group.as_deref().is_none_or(|set| set == name);
    let nodes: BTreeSet<&str> = job
        .tasks
        .iter()
        .filter(|task| in_pod_set(&task.sub_group))
        .filter_map(|task| outcome.tasks.get(&task.name)?.occupied_node())
        .collect();
    // A node without the label is a place of its own, not no place.
    let value = |name: &&str| {
        let label = state.node(name).and_then(|node| node.labels.get(&expected.label));
        label.map_or("", String::as_str)
    };
    let values: BTreeSet<&str> = nodes.iter().map(value).collect();
    let label = &expected.label;

    if let Some(wanted) = expected.values.as_ref().map(|wanted| set(wanted))
        && wanted != values
    {
        return Err(Mismatch::new(subject, label, list(&wanted), list(&values)));
    }
    if let Some(wanted) = expected.values_subset_of.as_ref().map(|wanted| set(wanted))
        && !values.is_subset(&wanted)
    {
        let wanted = format!("only {}", list(&wanted));
        return Err(Mismatch::new(subject, label, wanted, list(&values)));
    }
    if let Some(wanted) = expected.distinct_values.filter(|&wanted| wanted != values.len()) {
        let wanted = format!("{wanted} different values");
        return Err(Mismatch::new(subject, label, wanted, list(&values)));
    }
    match expected.nodes.as_ref().map(|wanted| set(wanted)) {
        Some(wanted) if wanted != nodes => {
            Err(Mismatch::new(subject, "nodes", list(&wanted), list(&nodes)))
        }
        _ => Ok(()),
    }
}

fn set(names: &[String]) -> BTreeSet<&str> {
    names.iter().map(String::as_str).collect()
}

fn list(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Compares how many tasks have a status.
pub(super) fn check_counts(
    expect: &Expectation,
    state: &ClusterState,
    outcome: &CycleOutcome,
) -> Result<(), Mismatch> {
    for expected in &expect.counts {
        let counted = state
            .tasks()
            .filter(|(job, _)| expected.job.as_ref().is_none_or(|name| *name == job.name))
            .filter(|(job, _)| expected.queue.as_ref().is_none_or(|name| *name == job.queue))
            .filter_map(|(_, task)| outcome.tasks.get(&task.name))
            .filter(|task| task.status == expected.status)
            .filter(|task| {
                expected.node.is_none() || task.occupied_node() == expected.node.as_deref()
            })
            .count();
        count(expected, counted)?;
    }
    Ok(())
}

fn count(expected: &CountExpectation, counted: usize) -> Result<(), Mismatch> {
    let wanted = [
        (expected.equals.is_none_or(|bound| counted == bound), "", expected.equals),
        (expected.at_least.is_none_or(|bound| counted >= bound), "at least ", expected.at_least),
        (expected.at_most.is_none_or(|bound| counted <= bound), "at most ", expected.at_most),
    ];
    for (holds, word, bound) in wanted {
        if let Some(bound) = bound.filter(|_| !holds) {
            let owners = [
                expected.job.as_ref().map(|name| format!(" of job {name}")),
                expected.queue.as_ref().map(|name| format!(" of queue {name}")),
                expected.node.as_ref().map(|name| format!(" on node {name}")),
            ];
            let owners: String = owners.into_iter().flatten().collect();
            let subject = format!("tasks{owners}");
            let property = format!("number that are {}", expected.status);
            return Err(Mismatch::new(subject, property, format!("{word}{bound}"), counted));
        }
    }
    Ok(())
}
