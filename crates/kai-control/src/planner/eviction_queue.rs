//! Evictions that were decided and not answered yet: which of them are sent next. One plan per preemptor; the victims of a
//! plan are sent in its order, gang by gang, through a window that starts small and doubles while nothing is refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::plan::{Step, StepKind};
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use crate::orders::Victim;

/// Number of evictions of one plan that may be unanswered at first.
const FIRST_WINDOW: usize = 4;
/// Number of evictions of one plan that may be unanswered at most, apart from the gang that fills the window.
const LARGEST_WINDOW: usize = 64;

/// The victims of one preemptor. A refusal ends the plan.
#[derive(Clone, Debug)]
pub(super) struct EvictionPlan {
    /// The preemptor; none for a gang that is evicted because it lacks members.
    pub(super) for_job: Option<ObjectName>,
    /// A pod was bound since the plan was made, and may use quota that the victims still hold: they must go.
    pub(super) is_counted_on: bool,
    /// Gangs, or single pods, that were not sent yet.
    unsent: VecDeque<Vec<Victim>>,
    /// Pods whose evictions were sent and not answered.
    unanswered: BTreeSet<ObjectName>,
    /// Number of evictions that may be unanswered before the next gang is sent.
    window: usize,
}

impl EvictionPlan {
    fn has_capacity(&self) -> bool {
        !self.unsent.is_empty() && self.unanswered.len() < self.window
    }

    fn is_done(&self) -> bool {
        self.unsent.is_empty() && self.unanswered.is_empty()
    }
}

/// A step that evicts a pod.
struct Eviction<'a> {
    for_job: Option<&'a ObjectName>,
    group: Option<&'a ObjectName>,
    victim: Victim,
}

impl<'a> Eviction<'a> {
    fn of(step: &'a Step) -> Option<Self> {
        let StepKind::Evict { for_job, message, overrides_budget, .. } = &step.kind else {
            return None;
        };
        let victim = Victim {
            pod: step.pod.clone(),
            uid: step.uid.clone(),
            message: message.clone(),
            overrides_budget: overrides_budget.is_some(),
        };
        Some(Self { for_job: for_job.as_ref(), group: step.group.as_ref(), victim })
    }
}

/// All eviction plans that are not finished.
#[derive(Clone, Debug, Default)]
pub(super) struct EvictionQueue {
    /// By number, the oldest first.
    plans: BTreeMap<u64, EvictionPlan>,
    plans_made: u64,
    /// The plan of each pod that was sent and not answered.
    plan_of: BTreeMap<ObjectName, u64>,
    /// UIDs of pods that count as evicted until the watch shows it.
    assumed: BTreeMap<ObjectName, Text>,
    pace: Pace,
}

/// Allows a number of evictions per second on average, and those of one second at once.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// The evictions that were sent use up the rate until then.
    used_until: Timestamp,
}

impl Pace {
    /// When the next eviction may be sent.
    fn opens_at(self) -> Timestamp {
        Timestamp { nanos: self.used_until.nanos - seconds(1).nanos }
    }

    fn count(&mut self, pods: usize, per_second: Option<u32>, now: Timestamp) {
        let Some(per_second) = per_second else { return };
        let each = seconds(1).nanos / i64::from(per_second.max(1));
        let pods = i64::try_from(pods).unwrap_or(i64::MAX);
        self.used_until = self.used_until.max(now).plus(Span { nanos: each.saturating_mul(pods) });
    }
}

impl EvictionQueue {
    /// Queues the victims of a plan, one eviction plan per preemptor. A pod that the plan binds may depend on every victim
    /// that is still to be evicted.
    pub(super) fn add_steps(&mut self, steps: &[Step]) {
        let evictions: Vec<Eviction<'_>> = steps.iter().filter_map(Eviction::of).collect();
        for of_one_job in evictions.chunk_by(|left, right| left.for_job == right.for_job) {
            let gangs = of_one_job
                .chunk_by(|left, right| left.group.is_some() && left.group == right.group);
            let victims =
                |gang: &[Eviction<'_>]| gang.iter().map(|one| one.victim.clone()).collect();
            self.add(of_one_job[0].for_job.cloned(), gangs.map(victims).collect());
        }
        if steps.iter().any(|step| matches!(step.kind, StepKind::Bind { .. })) {
            self.count_on_all();
        }
    }

    fn add(&mut self, for_job: Option<ObjectName>, unsent: VecDeque<Vec<Victim>>) {
        let victims = unsent.iter().flatten();
        self.assumed.extend(victims.map(|victim| (victim.pod.clone(), victim.uid.clone())));
        self.plans_made += 1;
        let plan = EvictionPlan {
            for_job,
            unsent,
            unanswered: BTreeSet::new(),
            is_counted_on: false,
            window: FIRST_WINDOW,
        };
        self.plans.insert(self.plans_made, plan);
    }

    /// Every victim of the plans that exist must go, whether its preemptor still waits or not.
    fn count_on_all(&mut self) {
        self.plans.values_mut().for_each(|plan| plan.is_counted_on = true);
    }

    /// The oldest plan that may send more.
    pub(super) fn next_plan(&self) -> Option<(u64, &EvictionPlan)> {
        let mut plans = self.plans.iter().filter(|(_, plan)| plan.has_capacity());
        plans.next().map(|(number, plan)| (*number, plan))
    }

    /// When the next evictions are to be sent; none while all plans wait for answers.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.next_plan().map(|_| self.pace.opens_at())
    }

    /// The pace allows an eviction now.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        self.pace.opens_at() <= now
    }

    /// The next gang of a plan, without the pods that `exists` denies; it counts as sent.
    pub(super) fn send_next(
        &mut self,
        number: u64,
        per_second: Option<u32>,
        now: Timestamp,
        exists: impl Fn(&Victim) -> bool,
    ) -> Vec<Victim> {
        let Some(plan) = self.plans.get_mut(&number) else { return Vec::new() };
        let mut gang = plan.unsent.pop_front().unwrap_or_default();
        gang.retain(exists);
        for victim in &gang {
            plan.unanswered.insert(victim.pod.clone());
            self.plan_of.insert(victim.pod.clone(), number);
        }
        if plan.is_done() {
            self.plans.remove(&number);
        }
        self.pace.count(gang.len(), per_second, now);
        gang
    }

    /// The API server accepted the eviction of a pod: its plan may have one more unanswered, so that the window doubles
    /// with every round.
    pub(super) fn accept(&mut self, pod: &ObjectName) {
        let Some(number) = self.plan_of.remove(pod) else { return };
        let Some(plan) = self.plans.get_mut(&number) else { return };
        plan.unanswered.remove(pod);
        plan.window = LARGEST_WINDOW.min(plan.window + 1);
        if plan.is_done() {
            self.plans.remove(&number);
        }
    }

    /// The API server refused the eviction of a pod: its plan ends. The pods that stay: the victim, and what was not sent.
    pub(super) fn refuse(&mut self, pod: &ObjectName) -> Vec<ObjectName> {
        self.assumed.remove(pod);
        let number = self.plan_of.remove(pod);
        let mut spared = number.map(|number| self.cancel(number)).unwrap_or_default();
        spared.push(pod.clone());
        spared
    }

    /// Ends a plan. The pods that were not sent stay; those that were count as evicted.
    pub(super) fn cancel(&mut self, number: u64) -> Vec<ObjectName> {
        let unsent = self.plans.remove(&number).map(|plan| plan.unsent).unwrap_or_default();
        let spared: Vec<ObjectName> =
            unsent.into_iter().flatten().map(|victim| victim.pod).collect();
        for pod in &spared {
            self.assumed.remove(pod);
        }
        spared
    }

    /// Ends all plans. The pods that were not sent.
    pub(super) fn cancel_all(&mut self) -> Vec<ObjectName> {
        let numbers: Vec<u64> = self.plans.keys().copied().collect();
        numbers.into_iter().flat_map(|number| self.cancel(number)).collect()
    }

    /// The pod of this UID counts as evicted already.
    pub(super) fn is_assumed(&self, pod: &ObjectName, uid: &Text) -> bool {
        self.assumed.get(pod) == Some(uid)
    }

    /// The pod ends because we evicted it, and nothing else about it changed: the world has counted it as ending since the
    /// plan was made, so no new plan is due for that.
    pub(super) fn confirms(&self, known: &PodSpec, observed: &PodSpec) -> bool {
        let is_ours = self.is_assumed(&observed.name, &observed.uid);
        if !known.status.is_alive() || !is_ours || observed.status != Status::Releasing {
            return false;
        }
        let mut before = observed.clone();
        before.status = known.status;
        before.stuck_at = known.stuck_at;
        before == *known
    }

    /// The watch has shown every eviction that was assumed.
    pub(super) fn all_are_shown(&self) -> bool {
        self.assumed.is_empty()
    }

    /// The pod is gone, or is shown to end.
    pub(super) fn forget(&mut self, pod: &ObjectName) {
        self.assumed.remove(pod);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pod_entry::tests::{entry, pod as view};
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp { nanos: millis * 1_000_000 }
    }

    fn pod(name: &str) -> ObjectName {
        ObjectName::new("a", name)
    }

    /// A queue with one plan of gangs of these sizes.
    fn queue(gangs: &[usize]) -> EvictionQueue {
        let gangs = gangs.iter().enumerate().map(|(gang, members)| {
            let members = (0..*members).map(|member| Victim {
                pod: pod(&format!("{gang}-{member}")),
                uid: "u".into(),
                message: "".into(),
                overrides_budget: false,
            });
            members.collect()
        });
        let mut queue = EvictionQueue::default();
        queue.add(None, gangs.collect());
        queue
    }

    /// Everything that may be sent now.
    fn send(queue: &mut EvictionQueue) -> Vec<ObjectName> {
        let mut sent = Vec::new();
        while let Some(number) = queue.next_plan().map(|(number, _)| number) {
            let gang = queue.send_next(number, None, at(0), |_| true);
            sent.extend(gang.into_iter().map(|victim| victim.pod));
        }
        sent
    }

    #[test]
    fn window_doubles_with_every_round_up_to_its_limit() {
        let mut queue = queue(&[1; 300]);
        let mut rounds = Vec::new();
        loop {
            let sent = send(&mut queue);
            if sent.is_empty() {
                break;
            }
            for pod in &sent {
                queue.accept(pod);
            }
            rounds.push(sent.len());
        }
        assert_eq!(rounds, [4, 8, 16, 32, 64, 64, 64, 48]);
        assert!(queue.plans.is_empty() && queue.plan_of.is_empty());
    }

    #[test]
    fn a_gang_enters_the_window_whole() {
        let mut queue = queue(&[2, 100, 1]);
        assert_eq!(send(&mut queue).len(), 102);
        queue.accept(&pod("0-0"));
        assert!(send(&mut queue).is_empty(), "the window is full");
    }

    #[test]
    fn a_refusal_spares_what_was_not_sent_and_no_more() {
        let mut queue = queue(&[2, 2, 2, 1]);
        assert_eq!(send(&mut queue).len(), 4);
        let spared = queue.refuse(&pod("0-1"));
        assert_eq!(spared, [pod("2-0"), pod("2-1"), pod("3-0"), pod("0-1")]);
        assert_eq!(queue.refuse(&pod("1-0")), [pod("1-0")], "another refusal of the same plan");
        queue.accept(&pod("0-0"));
        assert!(queue.is_assumed(&pod("0-0"), &"u".into()), "it counts as evicted");
        assert!(!queue.is_assumed(&pod("2-0"), &"u".into()));
        assert!(send(&mut queue).is_empty());
    }

    #[test]
    fn only_our_eviction_alone_needs_no_plan() {
        let running = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        let known = entry(&view("0-0", running)).base;
        let ends = PodSpec { status: Status::Releasing, ..known.clone() };
        let mut queue = queue(&[1]);
        assert!(!queue.confirms(&known, &ends), "a pod of another UID");
        queue.assumed.insert(known.name.clone(), known.uid.clone());
        assert!(queue.confirms(&known, &ends));
        assert!(!queue.confirms(&known, &known), "it does not end");
        let labelled = PodSpec { group: Some("g".into()), ..ends };
        assert!(!queue.confirms(&known, &labelled), "something else changed");
    }

    #[test]
    fn pods_that_are_gone_are_not_sent() {
        let mut queue = queue(&[1, 1]);
        let first = queue.send_next(1, None, at(0), |_| false);
        assert!(first.is_empty() && queue.next_plan().is_some());
        assert!(queue.send_next(1, None, at(0), |_| false).is_empty());
        assert!(queue.plans.is_empty());
    }

    #[test]
    fn evictions_of_one_second_pass_at_once_and_the_rest_one_by_one() {
        let mut pace = Pace::default();
        let mut passed = 0;
        while pace.opens_at() <= at(5000) {
            pace.count(1, Some(50), at(5000));
            passed += 1;
        }
        assert_eq!(passed, 51, "one more than the rate");
        assert_eq!(pace.opens_at(), at(5020));
        pace.count(100, Some(50), at(5020));
        assert_eq!(pace.opens_at(), at(7020), "a gang passes whole and is counted afterwards");
        let mut open = Pace::default();
        open.count(1000, None, at(5000));
        assert!(open.opens_at() <= at(5000));
    }
}
