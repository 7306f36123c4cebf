//! Victims that were looked at for a job, by queue and by why they were not taken, with a few examples.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::ActionKind;
use crate::fairness::{Amounts, ReclaimRefusal};
use crate::input::{ObjectName, Text};
use crate::time::Timestamp;

/// Examples named per queue and reason, unless the job is to be explained.
pub const MOST_EXAMPLES: usize = 3;

/// What one action looked at for one job.
#[derive(Clone, PartialEq, Debug)]
pub struct VictimsConsidered {
    /// Action that searched for victims.
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
    /// What is free, where moving every pod could not help because that is too little.
    pub too_little_free: Option<TooLittleFree>,
    /// The search ended because its budget was spent.
    pub budget_spent: bool,
    /// Disruption budgets that are in the way.
    pub budgets: BTreeSet<ObjectName>,
    /// When they no longer are; none: never.
    pub budgets_until: Option<Timestamp>,
    /// How many are named per queue and reason.
    pub(crate) most_examples: usize,
}

/// Everything that may be taken is too little.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NotEnough {
    /// What the job needs beyond what is free.
    pub needed: Amounts,
    /// The most that may be taken.
    pub takeable: Amounts,
}

/// All that is free in the cluster is too little.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLittleFree {
    /// Hundredths of GPUs that the job needs.
    pub needed_centi: i64,
    /// Hundredths of GPUs that are free or becoming free.
    pub free_centi: i64,
    /// MiB of GPU memory that the job asks for by amount.
    pub needed_mib: i64,
    /// MiB of GPU memory that are free or becoming free.
    pub free_mib: i64,
}

/// What became of a running job that was looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VictimVerdict {
    /// Its queue holds no more than its fair share.
    QueueProtected,
    /// It has not run long enough.
    YoungerThanMinRuntime,
    /// It may not be preempted.
    NotPreemptible,
    /// Its priority is not lower.
    PriorityNotLower,
    /// A disruption budget protects it.
    DisruptionBudget,
    /// The API server refused the eviction of one of its pods, and it is not tried again yet.
    EvictionRefused,
    /// More jobs come before it than may be moved at once.
    BeyondMostMoved,
    /// Nothing spares it, but no set of victims it could be in helps.
    TakenInVain,
}

impl VictimVerdict {
    /// The job was left alone.
    pub fn spares(self) -> bool {
        self != Self::TakenInVain
    }
}

/// How many, and some of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Examples {
    /// Number of jobs with this verdict.
    pub count: u32,
    /// The first of them, at most as many as the report names.
    pub names: Vec<ObjectName>,
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
            too_little_free: None,
            budget_spent: false,
            budgets: BTreeSet::new(),
            budgets_until: None,
            most_examples: MOST_EXAMPLES,
        }
    }

    /// The same report with every job named.
    #[must_use]
    pub(crate) fn naming_every_job(self) -> Self {
        Self { most_examples: usize::MAX, ..self }
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
        let missing = self.most_examples.saturating_sub(examples.names.len()).min(count);
        examples.names.extend(first.take(missing).cloned());
    }

    pub(crate) fn note(&mut self, queue: &Text, verdict: VictimVerdict, job: &ObjectName) {
        self.note_many(queue, verdict, 1, std::iter::once(job));
    }
}
