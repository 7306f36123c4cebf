//! Shared devices: results name them by labels of their own, so on each node labels and actual ids must
//! be a renaming of each other.

use std::collections::BTreeMap;

use super::Mismatch;
use crate::format::{Expectation, TaskExpectation};
use crate::outcome::CycleOutcome;
use crate::state::{ClusterState, Task};

/// One task's labels and the ids it actually has.
struct Pairing<'a> {
    task: &'a str,
    labels: &'a [String],
    ids: &'a [String],
}

/// Compares the device labels of all results on every node.
pub(super) fn check(
    expect: &Expectation,
    state: &ClusterState,
    outcome: &CycleOutcome,
) -> Result<(), Mismatch> {
    let mut by_node: BTreeMap<&str, Vec<Pairing<'_>>> = BTreeMap::new();
    for (task, expected) in results(expect, state) {
        let (Some(labels), Some(actual)) = (&expected.gpu_groups, outcome.tasks.get(&task.name))
        else {
            continue;
        };
        let Some(node) = actual.occupied_node().filter(|_| task.shares_devices()) else { continue };
        if labels.len() != actual.gpu_groups.len() {
            return Err(Mismatch::new(
                format!("task {}", task.name),
                "shared devices",
                format!("{} ({})", labels.len(), labels.join(", ")),
                format!("{} ({})", actual.gpu_groups.len(), actual.gpu_groups.join(", ")),
            ));
        }
        let pairing = Pairing { task: &task.name, labels, ids: &actual.gpu_groups };
        by_node.entry(node).or_default().push(pairing);
    }
    for (node, pairings) in by_node {
        if !Renaming::default().extends_to(&pairings, 0) {
            let shown = |pairing: &Pairing<'_>| {
                let Pairing { task, labels, ids } = pairing;
                format!("{task} {} is {}", labels.join("+"), ids.join("+"))
            };
            return Err(Mismatch::new(
                format!("node {node}"),
                "shared devices",
                "equal labels for equal devices and different ones for different devices",
                pairings.iter().map(shown).collect::<Vec<_>>().join(", "),
            ));
        }
    }
    Ok(())
}

/// Every task a result is about.
fn results<'a>(
    expect: &'a Expectation,
    state: &'a ClusterState,
) -> impl Iterator<Item = (&'a Task, &'a TaskExpectation)> {
    let of_jobs = expect.jobs.iter().flat_map(|(name, expected)| {
        let tasks = state.job(name).map(|job| job.tasks.as_slice()).unwrap_or_default();
        tasks.iter().map(move |task| (task, expected))
    });
    let of_tasks = expect
        .tasks
        .iter()
        .filter_map(|(name, expected)| state.task(name).map(|(_, task)| (task, expected)));
    of_jobs.chain(of_tasks)
}

/// Labels and ids that belong together so far.
#[derive(Default)]
struct Renaming<'a> {
    id_of: BTreeMap<&'a str, &'a str>,
    label_of: BTreeMap<&'a str, &'a str>,
}

impl<'a> Renaming<'a> {
    /// Whether some order of each task's ids makes labels and ids one-to-one. `placed` labels of the
    /// first task are dealt with already.
    fn extends_to(&mut self, pairings: &[Pairing<'a>], placed: usize) -> bool {
        let Some((first, rest)) = pairings.split_first() else { return true };
        let Some(label) = first.labels.get(placed) else { return self.extends_to(rest, 0) };
        for id in first.ids {
            match (self.id_of.get(label.as_str()), self.label_of.get(id.as_str())) {
                (Some(known), _) if *known != id => {}
                (_, Some(known)) if *known != label => {}
                (Some(_), Some(_)) => {
                    if self.extends_to(pairings, placed + 1) {
                        return true;
                    }
                }
                _ => {
                    self.id_of.insert(label, id);
                    self.label_of.insert(id, label);
                    if self.extends_to(pairings, placed + 1) {
                        return true;
                    }
                    self.id_of.remove(label.as_str());
                    self.label_of.remove(id.as_str());
                }
            }
        }
        false
    }
}
