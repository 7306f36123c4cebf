//! The states of every task in every cycle against those another implementation recorded.

use std::collections::BTreeMap;

use crate::compare::Mismatch;
use crate::format::{Reference, ReferenceTask};
use crate::outcome::CycleOutcome;

/// Recorded states, cycle by cycle.
pub struct RecordedStates<'a> {
    reference: &'a Reference,
    next: usize,
    tasks: BTreeMap<&'a str, &'a ReferenceTask>,
}

impl<'a> RecordedStates<'a> {
    /// The recorded states, from the first cycle on.
    pub fn new(reference: &'a Reference) -> Self {
        Self { reference, next: 0, tasks: BTreeMap::new() }
    }

    /// Goes on to the next entry; the states of all tasks in it, or nothing when the record has ended.
    pub fn advance(&mut self) -> Option<&BTreeMap<&'a str, &'a ReferenceTask>> {
        let entry = self.reference.cycles.get(self.next)?;
        self.next += 1;
        let states = entry.tasks.iter().chain(&entry.changed_tasks);
        self.tasks.extend(states.map(|(name, task)| (name.as_str(), task)));
        Some(&self.tasks)
    }

    /// Goes on to the next entry and compares status and node of every task with it. A node means
    /// something only while the task occupies it.
    pub fn compare_next(&mut self, outcome: &CycleOutcome) -> Result<(), Mismatch> {
        let Some(recorded) = self.advance() else { return Ok(()) };
        for (&name, recorded) in recorded {
            let Some(actual) = outcome.tasks.get(name) else {
                return Err(Mismatch::new(
                    format!("task {name}"),
                    "recorded state",
                    recorded.status,
                    "none",
                ));
            };
            let node = recorded.node.as_deref().filter(|_| recorded.status.occupies_node());
            if (recorded.status, node) != (actual.status, actual.occupied_node()) {
                let shown = |node: Option<&str>| node.unwrap_or("no node").to_owned();
                return Err(Mismatch::new(
                    format!("task {name}"),
                    "recorded state",
                    format!("{} on {}", recorded.status, shown(node)),
                    format!("{} on {}", actual.status, shown(actual.occupied_node())),
                ));
            }
        }
        Ok(())
    }
}
