//! Annotations of pod groups that survive the process: starts, evictions, missing members and delays of reclaim.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::scheduling;
use kai_core::input::ObjectName;
use kai_core::plan::{CyclePlan, StepKind};
use kai_core::time::Timestamp;
use kai_translate::time;

use super::workloads::{Marks, Workloads};

/// The marks that a plan sets and removes. `is_being_completed` is whether pods of a group are being bound: such a group keeps
/// its mark of missing members.
pub(super) fn marks_of(
    made: &CyclePlan,
    workloads: &Workloads,
    is_being_completed: impl Fn(&ObjectName) -> bool,
    now: Timestamp,
) -> BTreeMap<ObjectName, Marks> {
    let mut marks: BTreeMap<ObjectName, Marks> = BTreeMap::new();
    let mut mark = |group: &ObjectName, key: &'static str, moment: Option<Timestamp>| {
        marks.entry(group.clone()).or_default().insert(key, moment.map(time::format));
    };
    for group in &made.started {
        mark(group, scheduling::LAST_START, Some(now));
    }
    let evicted = made.steps.iter().filter(|step| matches!(step.kind, StepKind::Evict { .. }));
    for group in evicted.filter_map(|step| step.group.as_ref()) {
        mark(group, scheduling::LAST_EVICTION, Some(now));
    }
    for (group, since) in &made.staleness {
        if since.is_some() || !is_being_completed(group) {
            mark(group, scheduling::STALE_SINCE, *since);
        }
    }
    for (group, since) in &made.reclaim_delays {
        mark(group, scheduling::RECLAIM_DELAYED_SINCE, Some(*since));
    }
    for group in ended_delays(made, workloads) {
        mark(&group, scheduling::RECLAIM_DELAYED_SINCE, None);
    }
    marks
}

/// Groups that disruption budgets delayed, and of which no pod waits any more.
fn ended_delays(made: &CyclePlan, workloads: &Workloads) -> BTreeSet<ObjectName> {
    let binds = made.steps.iter().filter(|step| matches!(step.kind, StepKind::Bind { .. }));
    let groups = binds.filter_map(|step| step.group.as_ref());
    let ended = groups.filter(|group| {
        let object = workloads.group(group);
        let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
        let is_delayed =
            annotations.is_some_and(|keys| keys.contains_key(scheduling::RECLAIM_DELAYED_SINCE));
        is_delayed && !made.waiting.iter().any(|report| report.job == **group)
    });
    ended.cloned().collect()
}

#[cfg(test)]
mod tests {
    use kai_core::config::Config;
    use kai_core::plan::plan;
    use kai_core::world::World;

    use super::*;

    #[test]
    fn missing_members_stay_marked_while_the_group_is_being_completed() {
        let group = ObjectName::new("a", "g");
        let now = Timestamp { nanos: 1_000_000_000 };
        let mut made = plan(&mut World::new(Config::default()), now);
        made.started = vec![group.clone()];
        made.staleness = vec![(group.clone(), None)];
        let started = (scheduling::LAST_START, Some("1970-01-01T00:00:01Z".to_owned()));
        let marks = |is_being_completed: bool| {
            let mut marks = marks_of(&made, &Workloads::default(), |_| is_being_completed, now);
            marks.remove(&group).unwrap_or_default()
        };
        assert_eq!(marks(true), Marks::from([started.clone()]));
        assert_eq!(marks(false), Marks::from([started, (scheduling::STALE_SINCE, None)]));
    }
}
