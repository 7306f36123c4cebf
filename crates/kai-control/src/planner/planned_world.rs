//! The core's model, and when it is planned again: after a change, or when time alone changes the plan. Checks that its counts
//! agree with a recount and that the cluster keeps its rules: on a timer while nothing is planned, when `/debug/check` requests
//! it, and in debug builds after every cycle.

use std::collections::BTreeSet;

use kai_client::kinds::Kind;
use kai_core::check::{Severity, Violation, miscounts, violations};
use kai_core::config::Config;
use kai_core::input::{Delta, ObjectName};
use kai_core::plan::{CyclePlan, OrderedJob, assume};
use kai_core::time::{Span, Timestamp};
use kai_core::world::World;
use kai_translate::time::seconds;

/// Time between two checks.
const CHECK_PERIOD: Span = seconds(300);

/// The model and the moments at which it is planned and checked.
pub(super) struct PlannedWorld {
    world: World,
    /// Kinds of which everything that existed at first was received.
    listed: BTreeSet<Kind>,
    /// Something changed since the latest plan.
    is_dirty: bool,
    wake_at: Option<Timestamp>,
    check_at: Option<Timestamp>,
    /// Jobs in the order of the latest plan, where a plugin publishes it.
    job_order: Option<Vec<OrderedJob>>,
}

impl PlannedWorld {
    pub(super) fn new(config: Config) -> Self {
        Self {
            world: World::new(config),
            listed: BTreeSet::new(),
            is_dirty: false,
            wake_at: None,
            check_at: None,
            job_order: None,
        }
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// For plans and settings of the model; objects change through `apply`.
    pub(super) fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Everything of a kind that existed at first was received. True once that holds for all kinds: a plan is due then.
    pub(super) fn set_listed(&mut self, kind: Kind) -> bool {
        self.listed.insert(kind);
        self.is_dirty |= self.is_ready();
        self.is_ready()
    }

    /// All kinds are listed; nothing is planned before.
    pub(super) fn is_ready(&self) -> bool {
        self.listed.len() == Kind::ALL.len()
    }

    /// Something changed since the latest plan.
    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub(super) fn require_plan(&mut self) {
        self.is_dirty = true;
    }

    /// Takes a change over; logs what the model rejects.
    pub(super) fn apply(&mut self, delta: Delta) {
        let effect = self.world.apply(delta);
        for problem in &effect.problems {
            tracing::warn!(%problem, "an object is not taken over");
        }
        self.is_dirty |= effect.changed;
    }

    /// A decision about the pod no longer counts as done.
    pub(super) fn forget(&mut self, pod: &ObjectName) {
        self.world.forget(pod);
    }

    /// The changes since `was_dirty` was read need no plan.
    pub(super) fn restore_dirty(&mut self, was_dirty: bool) {
        self.is_dirty = was_dirty;
    }

    /// Everything up to now is about to be planned.
    pub(super) fn begin_cycle(&mut self) {
        self.wake_at = None;
        self.is_dirty = false;
    }

    /// The decisions of a plan count as done until the cluster confirms or refutes them.
    pub(super) fn assume(&mut self, made: &CyclePlan) {
        assume(&mut self.world, made);
        self.wake_at = made.wake_at;
    }

    pub(super) fn set_job_order(&mut self, order: Option<Vec<OrderedJob>>) {
        self.job_order = order;
    }

    pub(super) fn job_order(&self) -> Option<&[OrderedJob]> {
        self.job_order.as_deref()
    }

    /// A plan is due at this moment at the latest.
    pub(super) fn wake_by(&mut self, moment: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(moment, |wake| wake.min(moment)));
    }

    /// When a plan is due although nothing changes; none before everything is listed.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at.filter(|_| self.is_ready())
    }

    /// When the next check is due; none before everything is listed.
    pub(super) fn check_at(&self) -> Option<Timestamp> {
        self.check_at.filter(|_| self.is_ready())
    }

    /// What a check finds where one is due and nothing is to be planned. The first call only sets the timer.
    pub(super) fn check_if_due(&mut self, now: Timestamp) -> Option<Vec<Violation>> {
        let due = *self.check_at.get_or_insert(now.plus(CHECK_PERIOD));
        if now < due || self.is_dirty || !self.is_ready() {
            return None;
        }
        self.check_at = Some(now.plus(CHECK_PERIOD));
        let found = logged(violations(&self.world));
        self.drop_unused_parts(now);
        Some(found)
    }

    /// Builds the model anew where most of what it keeps for many objects at once is of objects that are gone. A plan is due then:
    /// shares of queues are those of the latest plan.
    fn drop_unused_parts(&mut self, now: Timestamp) {
        if self.world.keeps_mostly_unused_parts() {
            self.world = self.world.rebuilt();
            self.is_dirty = true;
            self.wake_by(now);
            tracing::info!("built the planner's model anew, most shapes of pods in it were unused");
        }
    }

    /// Everything that is wrong, one line each.
    pub(super) fn violations(&self) -> Vec<String> {
        violations(&self.world).iter().map(line).collect()
    }

    /// Ends a debug build whose counts a recount contradicts.
    pub(super) fn check_counts_in_debug_builds(&self) {
        if cfg!(debug_assertions) {
            let wrong = logged(miscounts(&self.world));
            debug_assert!(wrong.is_empty(), "the planner's counts are wrong: {}", lines(&wrong));
        }
    }
}

fn line(violation: &Violation) -> String {
    match violation.severity {
        Severity::Cluster => format!("cluster: {violation}"),
        Severity::Books => format!("planner: {violation}"),
    }
}

fn lines(violations: &[Violation]) -> String {
    violations.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Logs violations: what the cluster breaks can be the work of other schedulers, what the counts break is a fault of `kai`.
fn logged(violations: Vec<Violation>) -> Vec<Violation> {
    for violation in &violations {
        match violation.severity {
            Severity::Cluster => tracing::warn!(%violation, "the cluster breaks a rule"),
            Severity::Books => tracing::error!(%violation, "a count of the planner is wrong"),
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kai_core::input::pod::PodRequest;
    use kai_core::input::{NamespaceSpec, Object, ObjectKey, PodSpec};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: second * 1_000_000_000 }
    }

    fn listed() -> PlannedWorld {
        let mut world = PlannedWorld::new(Config::default());
        for kind in Kind::ALL {
            world.set_listed(kind);
        }
        world
    }

    fn config_map(name: &str) -> Delta {
        Delta::Set(Object::ConfigMap(ObjectName::new("a", name)))
    }

    fn namespace(name: &str) -> Delta {
        Delta::Set(Object::Namespace(NamespaceSpec { name: name.into(), labels: BTreeMap::new() }))
    }

    #[test]
    fn nothing_is_due_before_every_kind_is_listed() {
        let mut world = PlannedWorld::new(Config::default());
        world.wake_by(at(1));
        let last = Kind::ALL.len() - 1;
        for kind in &Kind::ALL[..last] {
            assert!(!world.set_listed(*kind));
        }
        assert!(!world.is_dirty() && world.wake_at().is_none() && world.check_at().is_none());
        assert!(world.set_listed(Kind::ALL[last]));
        assert!(world.is_dirty());
        assert_eq!(world.wake_at(), Some(at(1)));
    }

    #[test]
    fn only_a_change_makes_a_plan_due() {
        let mut world = listed();
        world.apply(namespace("one"));
        world.begin_cycle();
        world.apply(namespace("one"));
        assert!(!world.is_dirty(), "the same object again");
        world.apply(config_map("one"));
        assert!(!world.is_dirty(), "no pod requires it");
        world.apply(namespace("two"));
        assert!(world.is_dirty());
    }

    #[test]
    fn the_earliest_moment_wakes() {
        let mut world = listed();
        world.wake_by(at(5));
        world.wake_by(at(3));
        world.wake_by(at(4));
        assert_eq!(world.wake_at(), Some(at(3)));
        world.begin_cycle();
        assert_eq!(world.wake_at(), None);
    }

    /// A pod that asks for a resource of its own.
    fn unlike_others(number: usize) -> PodSpec {
        let other = vec![(format!("example.com/{number}").into(), 1_000)];
        let request = PodRequest { cpu_milli: 100, other, ..PodRequest::default() };
        PodSpec::pending(ObjectName::new("a", format!("p{number}")), request)
    }

    #[test]
    fn parts_of_pods_that_are_gone_are_dropped_at_the_next_check() {
        let mut world = listed();
        for number in 0..6_000 {
            let pod = unlike_others(number);
            let key = ObjectKey::Pod(pod.name.clone());
            world.apply(Delta::Set(Object::Pod(Box::new(pod))));
            world.apply(Delta::Remove(key));
        }
        world.apply(Delta::Set(Object::Pod(Box::new(unlike_others(0)))));
        world.begin_cycle();
        assert!(world.world().keeps_mostly_unused_parts());
        let before = world.world().describe();
        assert!(world.check_if_due(at(0)).is_none(), "the timer starts");
        assert_eq!(world.check_if_due(at(300)).as_deref(), Some(&[][..]));
        assert!(!world.world().keeps_mostly_unused_parts());
        assert_eq!(world.world().describe(), before);
        assert_eq!(world.wake_at(), Some(at(300)), "a plan is due");
    }

    #[test]
    fn a_check_waits_for_its_period_and_for_the_plan() {
        let mut world = listed();
        assert!(world.check_if_due(at(0)).is_none(), "the timer starts");
        assert!(world.check_if_due(at(400)).is_none(), "a plan is due");
        world.begin_cycle();
        assert!(world.check_if_due(at(299)).is_none());
        assert_eq!(world.check_if_due(at(300)).as_deref(), Some(&[][..]));
        assert_eq!(world.check_at(), Some(at(600)));
    }
}
