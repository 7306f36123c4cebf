//! Waiting jobs that more nodes would not help, because a limit of their queue is in the way. Pure.
//!
//! Autoscalers add nodes for pods that are `Unschedulable`. Where nodes lack, no single job breaks a limit yet: jobs are
//! therefore counted together, in the order of the plan, as if there were nodes for all of them.

use std::collections::BTreeMap;

use kai_api::names::status::reason;
use kai_core::fairness::{QueueResource, UNLIMITED};
use kai_core::input::Text;
use kai_core::plan::JobReport;

use super::accounts::Accounts;
use super::amounts::Sum;

/// Smallest part of an amount that counts as more than a limit.
const TOLERANCE: f64 = 1e-6;

/// Why more nodes would not help a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OverLimit {
    /// The job itself breaks a bound of its queue; its message says so.
    Alone,
    /// Jobs before it take what is left of the limit of this queue.
    AfterOthers(Text),
}

/// What is left of the limits of queues.
pub(super) struct QueueHeadroom<'a> {
    accounts: &'a Accounts,
    /// What each queue has, and what jobs ask for that more nodes would help.
    taken: BTreeMap<Text, Sum>,
}

impl<'a> QueueHeadroom<'a> {
    pub(super) fn new(accounts: &'a Accounts) -> Self {
        Self { accounts, taken: BTreeMap::new() }
    }

    /// Why more nodes would not help the job; none: they would, and what it asks for counts for the jobs after it.
    pub(super) fn take(&mut self, report: &JobReport) -> Option<OverLimit> {
        let breaks_bound = |reason: &str| {
            matches!(reason, reason::OVER_LIMIT | reason::NON_PREEMPTIBLE_OVER_QUOTA)
        };
        if report.errors.iter().any(|error| breaks_bound(&error.reason)) {
            return Some(OverLimit::Alone);
        }
        let usage = self.accounts.group(&report.job)?.usage();
        let mut pending = usage.requested;
        pending.subtract(&usage.allocated);
        let chain = self.accounts.chain(&report.queue);
        for queue in &chain {
            let taken = self.taken_of(&queue.name);
            let is_over = |resource: QueueResource| {
                let (limit, more) = (queue.limit[resource], pending.in_planner_units(resource));
                let all = taken.in_planner_units(resource) + more;
                limit != UNLIMITED && more > 0.0 && all > limit + TOLERANCE
            };
            if QueueResource::ALL.into_iter().any(is_over) {
                return Some(OverLimit::AfterOthers(queue.name.clone()));
            }
        }
        for queue in &chain {
            if let Some(taken) = self.taken.get_mut(&queue.name) {
                taken.add(&pending);
            }
        }
        None
    }

    fn taken_of(&mut self, queue: &Text) -> &Sum {
        let accounts = self.accounts;
        self.taken.entry(queue.clone()).or_insert_with(|| accounts.usage(queue).allocated)
    }
}
