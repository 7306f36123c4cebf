//! Statuses as patches: what is wanted against what is there. Pure; nothing is written where both say the same.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodCondition;
use kai_api::PodGroup;
use kai_api::names::status::{
    ORPHAN, OVER_QUOTA, POD_SCHEDULED, UNSCHEDULABLE, UNSCHEDULABLE_ON_NODE_POOL,
};
use kai_api::pod_group::{PodGroupResources, SchedulingCondition, UnschedulableReason};
use kai_api::quantity::RawQuantity;
use kai_api::queue::{QueueCondition, QueueStatus};
use kai_client::write::Identity;
use kai_core::time::Timestamp;
use kai_translate::time;
use serde_json::{Map, Value, json};

use super::accounts::Usage;
use super::amounts::same_quantities;
use super::verdicts::PodVerdict;

/// The condition of a pod that shows whether it has a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedCondition {
    /// `True`, `False` or empty.
    pub status: String,
    /// The reason in one word.
    pub reason: String,
    /// The message in one sentence.
    pub message: String,
}

impl ObservedCondition {
    /// The condition of a pod with this verdict.
    pub fn of(verdict: &PodVerdict) -> Self {
        Self {
            status: "False".to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.to_string(),
        }
    }
}

/// The condition that a pod gets for its verdict; none where it has it.
pub fn pod_condition(
    observed: &ObservedCondition,
    verdict: &PodVerdict,
    now: Timestamp,
) -> Option<PodCondition> {
    let wanted = ObservedCondition::of(verdict);
    if *observed == wanted {
        return None;
    }
    Some(PodCondition {
        type_: POD_SCHEDULED.to_owned(),
        last_transition_time: (observed.status != "False").then(|| time::api_time(now)),
        status: wanted.status,
        reason: Some(wanted.reason),
        message: Some(wanted.message),
        ..PodCondition::default()
    })
}

/// Which group of the name is written; where its list of conditions is replaced, only while no other writer changed the group.
pub(crate) fn group_identity(group: &PodGroup, is_unchanged: bool) -> Identity {
    let metadata = &group.metadata;
    match (&metadata.uid, &metadata.resource_version) {
        (Some(uid), Some(version)) if is_unchanged => {
            Identity::Version { uid: uid.as_str().into(), version: version.clone() }
        }
        (Some(uid), _) => Identity::Uid(uid.as_str().into()),
        (None, _) => Identity::Any,
    }
}

/// Whether a group can be placed on a node pool.
pub enum PoolVerdict<'a> {
    /// No pod of the group can be scheduled in this node pool.
    Unschedulable {
        /// Name of the node pool.
        pool: &'a str,
        /// Why, in one text.
        message: &'a str,
        /// Why, reason by reason.
        reasons: &'a [UnschedulableReason],
    },
    /// Nothing of it waits.
    Settled,
}

/// The conditions a group should have; none where it has them.
pub fn group_conditions(
    group: &PodGroup,
    verdict: &PoolVerdict<'_>,
    now: Timestamp,
) -> Option<Vec<SchedulingCondition>> {
    let observed = group.status.as_ref().map_or(&[][..], |status| &status.scheduling_conditions);
    let PoolVerdict::Unschedulable { pool, message, reasons } = verdict else {
        return (!observed.is_empty()).then(Vec::new);
    };
    let number = |condition: &SchedulingCondition| -> i64 {
        condition.transition_id.as_deref().and_then(|id| id.parse().ok()).unwrap_or(0)
    };
    let says_so = |condition: &SchedulingCondition| {
        condition.type_.as_deref() == Some(UNSCHEDULABLE_ON_NODE_POOL)
            && condition.node_pool.as_deref() == Some(pool)
            && condition.reason.as_deref() == Some(UNSCHEDULABLE)
            && condition.message.as_deref() == Some(message)
            && condition.status.as_deref() == Some("True")
    };
    let highest = observed.iter().map(number).max().unwrap_or(0);
    if observed.last().is_some_and(|last| says_so(last) && number(last) == highest) {
        return None;
    }
    let others = observed.iter().filter(|one| one.node_pool.as_deref() != Some(pool));
    let mut wanted: Vec<SchedulingCondition> = others.cloned().collect();
    wanted.push(SchedulingCondition {
        type_: Some(UNSCHEDULABLE_ON_NODE_POOL.to_owned()),
        node_pool: Some((*pool).to_owned()),
        reason: Some(UNSCHEDULABLE.to_owned()),
        message: Some((*message).to_owned()),
        reasons: reasons.to_vec(),
        transition_id: Some((highest + 1).to_string()),
        last_transition_time: Some(time::api_time(now)),
        status: Some("True".to_owned()),
    });
    Some(wanted)
}

/// The resources a group should show; none where it shows them.
pub fn group_resources(
    group: &PodGroup,
    usage: &Usage,
) -> Option<(PodGroupResources, Map<String, Value>)> {
    let nothing = PodGroupResources::default();
    let observed = group.status.as_ref().and_then(|status| status.resources_status.as_ref());
    let observed = observed.unwrap_or(&nothing);
    let wanted = PodGroupResources {
        allocated: usage.allocated.quantities(),
        allocated_non_preemptible: usage.fixed.quantities(),
        requested: usage.requested.quantities(),
    };
    let fields = [
        ("allocated", &observed.allocated, &wanted.allocated),
        (
            "allocatedNonPreemptible",
            &observed.allocated_non_preemptible,
            &wanted.allocated_non_preemptible,
        ),
        ("requested", &observed.requested, &wanted.requested),
    ];
    let patch = changed_lists(fields);
    (!patch.is_empty()).then_some((wanted, patch))
}

/// Why no tree of queues holds a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanReason {
    /// Its parent queue does not exist.
    ParentNotFound,
    /// Its parent queues form a cycle.
    ParentCycle,
}

/// What is wrong with a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFaults {
    /// Why no tree of queues holds it.
    pub orphan: Option<OrphanReason>,
    /// It has more than its quota.
    pub is_over_quota: bool,
}

/// The status a queue should have; none where it has it.
pub fn queue_status(
    observed: &QueueStatus,
    usage: &Usage,
    children: Vec<String>,
    faults: QueueFaults,
    now: Timestamp,
) -> Option<(QueueStatus, Map<String, Value>)> {
    let wanted = QueueStatus {
        conditions: queue_conditions(&observed.conditions, faults, now),
        child_queues: children,
        allocated: usage.allocated.quantities(),
        allocated_non_preemptible: usage.fixed.quantities(),
        requested: usage.requested.quantities(),
    };
    let fields = [
        ("allocated", &observed.allocated, &wanted.allocated),
        (
            "allocatedNonPreemptible",
            &observed.allocated_non_preemptible,
            &wanted.allocated_non_preemptible,
        ),
        ("requested", &observed.requested, &wanted.requested),
    ];
    let mut patch = changed_lists(fields);
    let mut known = observed.child_queues.clone();
    known.sort();
    if known != wanted.child_queues {
        patch.insert("childQueues".to_owned(), json!(wanted.child_queues));
    }
    if observed.conditions != wanted.conditions {
        patch.insert("conditions".to_owned(), json!(wanted.conditions));
    }
    (!patch.is_empty()).then_some((wanted, patch))
}

/// A queue with which nothing was ever wrong has no conditions.
fn queue_conditions(
    observed: &[QueueCondition],
    faults: QueueFaults,
    now: Timestamp,
) -> Vec<QueueCondition> {
    let mut conditions = observed.to_vec();
    let parent = match faults.orphan {
        Some(OrphanReason::ParentNotFound) => {
            ("ParentNotFound", "The parent queue does not exist; pods of the queue stay pending")
        }
        Some(OrphanReason::ParentCycle) => {
            ("ParentCycle", "The parent queues form a cycle; pods of the queue stay pending")
        }
        None => ("ParentFound", "The parent queue exists"),
    };
    let quota = if faults.is_over_quota {
        ("AllocatedAboveQuota", "It has more than its quota")
    } else {
        ("AllocatedWithinQuota", "It has no more than its quota")
    };
    let wanted =
        [(ORPHAN, faults.orphan.is_some(), parent), (OVER_QUOTA, faults.is_over_quota, quota)];
    for (kind, holds, (reason, message)) in wanted {
        let status = if holds { "True" } else { "False" };
        let known = conditions.iter_mut().find(|condition| condition.type_ == kind);
        match known {
            Some(condition) if condition.status == status => {}
            Some(condition) => {
                status.clone_into(&mut condition.status);
                condition.reason = Some(reason.to_owned());
                condition.message = Some(message.to_owned());
                condition.last_transition_time = Some(time::api_time(now));
            }
            None if holds => conditions.push(QueueCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                last_probe_time: None,
                last_transition_time: Some(time::api_time(now)),
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
            }),
            None => {}
        }
    }
    conditions
}

type Quantities = BTreeMap<String, RawQuantity>;

/// Lists that differ, as parts of a merge patch: what is no longer there is null.
fn changed_lists<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a Quantities, &'a Quantities)>,
) -> Map<String, Value> {
    let changed =
        fields.into_iter().filter(|(_, observed, wanted)| !same_quantities(observed, wanted));
    let patch = changed.map(|(field, observed, wanted)| {
        let gone = observed.keys().filter(|name| !wanted.contains_key(*name));
        let gone = gone.map(|name| (name.clone(), Value::Null));
        let there = wanted.iter().map(|(name, amount)| (name.clone(), json!(amount.0)));
        (field.to_owned(), Value::Object(gone.chain(there).collect()))
    });
    patch.collect()
}

#[cfg(test)]
mod tests {
    use kai_api::pod_group::PodGroupStatus;

    use super::*;

    const NOW: Timestamp = Timestamp { nanos: 1_767_225_600_000_000_000 };

    fn group(conditions: Vec<SchedulingCondition>) -> PodGroup {
        let status = PodGroupStatus { scheduling_conditions: conditions, ..Default::default() };
        PodGroup { status: Some(status), ..PodGroup::default() }
    }

    fn full<'a>(pool: &'a str, message: &'a str) -> PoolVerdict<'a> {
        PoolVerdict::Unschedulable { pool, message, reasons: &[] }
    }

    #[test]
    fn a_group_has_one_condition_per_pool_and_the_newest_is_last() {
        let first = group_conditions(&group(Vec::new()), &full("a", "no"), NOW).expect("news");
        assert_eq!(first[0].transition_id.as_deref(), Some("1"));
        assert_eq!(group_conditions(&group(first.clone()), &full("a", "no"), NOW), None);
        let second = group_conditions(&group(first), &full("b", "no"), NOW).expect("news");
        let pools: Vec<_> = second.iter().filter_map(|one| one.node_pool.as_deref()).collect();
        assert_eq!(pools, ["a", "b"]);
        let third = group_conditions(&group(second), &full("a", "no"), NOW).expect("not last");
        let ids: Vec<_> = third.iter().filter_map(|one| one.transition_id.as_deref()).collect();
        assert_eq!(ids, ["2", "3"]);
        let settled = group_conditions(&group(third), &PoolVerdict::Settled, NOW);
        assert_eq!(settled, Some(Vec::new()));
        assert_eq!(group_conditions(&group(Vec::new()), &PoolVerdict::Settled, NOW), None);
    }

    #[test]
    fn a_condition_is_written_once_and_keeps_the_moment_of_its_transition() {
        let verdict = PodVerdict {
            uid: "u".into(),
            reason: UNSCHEDULABLE,
            message: "no capacity".into(),
            mark: true,
        };
        let first = pod_condition(&ObservedCondition::default(), &verdict, NOW).expect("news");
        assert_eq!(json!(first)["lastTransitionTime"], "2026-01-01T00:00:00Z");
        let written = ObservedCondition::of(&verdict);
        assert_eq!(pod_condition(&written, &verdict, NOW), None);
        let other = PodVerdict { message: "still no capacity".into(), ..verdict };
        let second = pod_condition(&written, &other, NOW).expect("news");
        assert_eq!(second.last_transition_time, None);
    }

    #[test]
    fn what_a_queue_no_longer_has_is_taken_out() {
        let list = |text: &str| BTreeMap::from([("cpu".to_owned(), RawQuantity(text.to_owned()))]);
        let observed = QueueStatus {
            requested: list("2"),
            child_queues: vec!["b".into(), "a".into()],
            ..QueueStatus::default()
        };
        let children = vec!["a".to_owned(), "b".to_owned()];
        let status = |observed: &QueueStatus, faults: QueueFaults| {
            queue_status(observed, &Usage::default(), children.clone(), faults, NOW)
        };
        let well = QueueFaults::default();
        let (_, patch) = status(&observed, well).expect("news");
        assert_eq!(Value::Object(patch), json!({"requested": {"cpu": null}}));
        let empty = QueueStatus { child_queues: children.clone(), ..QueueStatus::default() };
        assert_eq!(status(&empty, well), None);
        let orphan =
            QueueFaults { orphan: Some(OrphanReason::ParentNotFound), is_over_quota: false };
        let (written, _) = status(&empty, orphan).expect("news");
        assert_eq!(
            (&*written.conditions[0].type_, &*written.conditions[0].status),
            ("Orphan", "True")
        );
        assert_eq!(status(&written, orphan), None);
        let (written, _) = status(&written, well).expect("news");
        assert_eq!(written.conditions[0].status, "False");
        assert_eq!(written.conditions[0].reason.as_deref(), Some("ParentFound"));
    }
}
