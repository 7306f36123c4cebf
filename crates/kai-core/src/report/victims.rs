//! Victims that were looked at for a job, by queue and by why they were not taken, with a few examples.

use std::collections::BTreeMap;

use crate::config::ActionKind;
use crate::fairness::{Amounts, ReclaimRefusal};
use crate::input::{ObjectName, Text};

/// Examples named per queue and reason.
pub const MOST_EXAMPLES: usize = 3;

/// What one action looked at for one job.
#[derive(Clone, PartialEq, Debug)]
pub struct VictimsConsidered {
    /// The action.
    pub action: ActionKind,
    /// Running jobs by queue and verdict.
    pub verdicts: BTreeMap<(Text, VictimVerdict), Examples>,
    /// Sets of victims that were tried on the model.
    pub simulations: u32,
    /// Sets of victims that the rules of the action refused.
    pub refused: u32,
    /// The last such refusal, in words.
    pub last_refusal: Option<Text>,
    /// The same while the cycle runs.
    pub(crate) refusal: Option<ReclaimRefusal>,
    /// Where taking everything that may be taken is too little: needed and takeable.
    pub not_enough: Option<NotEnough>,
    /// The search ended because its budget was spent.
    pub budget_spent: bool,
}

/// Everything that may be taken is too little.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NotEnough {
    /// What the job needs beyond what is free.
    pub needed: Amounts,
    /// The most that may be taken.
    pub takeable: Amounts,
}

/// What became of a running job that was looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VictimVerdict {
    /// Its queue holds no more than it is entitled to.
    QueueProtected,
    /// It has not run long enough.
    YoungerThanMinRuntime,
    /// It may not be preempted.
    NotPreemptible,
    /// Its priority is not lower.
    PriorityNotLower,
    /// A disruption budget protects it.
    DisruptionBudget,
    /// It was in sets that were tried and did not help.
    TriedInVain,
}

/// How many, and some of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Examples {
    /// How many jobs.
    pub count: u32,
    /// The first few.
    pub names: Vec<ObjectName>,
}

impl Examples {
    pub(crate) fn add(&mut self, name: &ObjectName) {
        self.count += 1;
        if self.names.len() < MOST_EXAMPLES {
            self.names.push(name.clone());
        }
    }
}

impl VictimsConsidered {
    pub(crate) fn new(action: ActionKind) -> Self {
        Self {
            action,
            verdicts: BTreeMap::new(),
            simulations: 0,
            refused: 0,
            last_refusal: None,
            refusal: None,
            not_enough: None,
            budget_spent: false,
        }
    }

    /// Notes `count` jobs at once, the first few of them by name.
    pub(crate) fn note_many<'a>(
        &mut self,
        queue: &Text,
        verdict: VictimVerdict,
        count: usize,
        first: impl Iterator<Item = &'a ObjectName>,
    ) {
        if count == 0 {
            return;
        }
        let examples = self.verdicts.entry((queue.clone(), verdict)).or_default();
        examples.count += count as u32;
        let room = MOST_EXAMPLES.saturating_sub(examples.names.len()).min(count);
        examples.names.extend(first.take(room).cloned());
    }

    pub(crate) fn note(&mut self, queue: &Text, verdict: VictimVerdict, job: &ObjectName) {
        self.verdicts.entry((queue.clone(), verdict)).or_default().add(job);
    }
}
