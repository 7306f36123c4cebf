//! From a plan to what is written: the pod group, and the pod's link to it.
//!
//! What others own survives: the queue once it is set, the node pool, `markUnschedulable`, `schedulingBackoff`, foreign labels and
//! annotations, and a topology constraint that the workload does not name. What equals is not written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kai_api::PodGroup;
use kai_api::duration::DurationText;
use kai_api::names::workload;
use kai_api::pod_group::{PodGroupSpec, SubGroup, TopologyConstraint};
use kai_api::view::Pod;

use crate::config::GrouperConfig;
use crate::plan::{Minimum, PodGroupPlan};

/// What to do with a pod group.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupWrite {
    /// Create the pod group.
    Create(Box<PodGroup>),
    /// Update fields of the existing pod group.
    Update(Box<GroupUpdate>),
    /// It is as it should be.
    Nothing,
}

/// A change of a pod group, in two forms with the same effect.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupUpdate {
    /// Only what the grouper owns, for a server-side apply.
    pub apply: PodGroup,
    /// The whole object, for a replacement.
    pub replace: PodGroup,
}

/// How an existing group is treated.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions<'a> {
    /// The field manager under which the grouper writes.
    pub manager: &'a str,
    /// The queue may change: the administrator allows it and no pod of the group has a node.
    pub move_queue: bool,
}

/// What to write so that the group is as planned.
pub fn write_group(
    plan: &PodGroupPlan,
    existing: Option<&PodGroup>,
    config: &GrouperConfig,
    options: WriteOptions<'_>,
) -> GroupWrite {
    let mut wanted = planned_group(plan);
    let Some(existing) = existing else { return GroupWrite::Create(Box::new(wanted)) };
    keep(&mut wanted, existing, config, options);
    let stale = StaleKeys::of(existing, &wanted, options.manager);
    if is_as_wanted(existing, &wanted) && stale.is_empty() {
        return GroupWrite::Nothing;
    }
    let mut replace = existing.clone();
    stale.remove_from(&mut replace);
    let labels = replace.metadata.labels.get_or_insert_default();
    labels.extend(wanted.metadata.labels.clone().unwrap_or_default());
    let annotations = replace.metadata.annotations.get_or_insert_default();
    annotations.extend(wanted.metadata.annotations.clone().unwrap_or_default());
    replace.metadata.owner_references.clone_from(&wanted.metadata.owner_references);
    replace.spec = with_foreign_fields(&wanted.spec, &existing.spec);
    GroupWrite::Update(Box::new(GroupUpdate { apply: wanted, replace }))
}

/// The group as planned, as if there were none.
pub fn planned_group(plan: &PodGroupPlan) -> PodGroup {
    let mut group = PodGroup::new(&plan.name, planned_spec(plan));
    group.metadata.namespace = Some(plan.namespace.clone());
    group.metadata.labels = Some(plan.labels.clone());
    group.metadata.annotations = Some(plan.annotations.clone());
    group.metadata.owner_references = Some(vec![OwnerReference {
        api_version: plan.owner.api_version.clone(),
        kind: plan.owner.kind.clone(),
        name: plan.owner.name.clone(),
        uid: plan.owner.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }]);
    group
}

fn planned_spec(plan: &PodGroupPlan) -> PodGroupSpec {
    let (min_member, min_sub_group) = split(plan.minimum);
    let sub_groups = plan.sub_groups.iter().map(|group| {
        let (min_member, min_sub_group) = split(group.minimum);
        SubGroup {
            name: group.name.clone(),
            parent: group.parent.clone(),
            min_member,
            min_sub_group,
            topology_constraint: group.topology.clone(),
        }
    });
    PodGroupSpec {
        min_member,
        min_sub_group,
        queue: Some(plan.queue.clone()),
        priority_class_name: Some(plan.priority_class_name.clone()),
        preemptibility: plan.preemptibility.clone(),
        topology_constraint: Some(plan.topology.clone())
            .filter(|t| *t != TopologyConstraint::default()),
        sub_groups: sub_groups.collect(),
        mark_unschedulable: None,
        scheduling_backoff: None,
        preemption_delay: plan.preemption_delay.map(DurationText::from_nanos),
        staleness_grace_period: plan.staleness_grace_period.map(DurationText::from_nanos),
    }
}

const fn split(minimum: Minimum) -> (Option<i32>, Option<i32>) {
    match minimum {
        Minimum::Members(members) => (Some(members), None),
        Minimum::SubGroups(sub_groups) => (None, Some(sub_groups)),
    }
}

/// Takes over what an existing group keeps.
fn keep(
    wanted: &mut PodGroup,
    existing: &PodGroup,
    config: &GrouperConfig,
    options: WriteOptions<'_>,
) {
    let old =
        |key: &str| existing.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let labels = wanted.metadata.labels.get_or_insert_default();
    match old(&config.node_pool_label_key) {
        Some(pool) => labels.insert(config.node_pool_label_key.clone(), pool),
        None => labels.remove(&config.node_pool_label_key),
    };
    if !options.move_queue {
        if let Some(queue) = old(&config.queue_label_key) {
            labels.insert(config.queue_label_key.clone(), queue);
        }
        if existing.spec.queue.as_ref().is_some_and(|queue| !queue.is_empty()) {
            wanted.spec.queue.clone_from(&existing.spec.queue);
        }
    }
    let named = wanted.spec.topology_constraint.as_ref().and_then(|t| t.topology.as_ref());
    if named.is_none() {
        wanted.spec.topology_constraint.clone_from(&existing.spec.topology_constraint);
    }
}

/// The wanted spec, with the fields that the grouper never writes.
fn with_foreign_fields(wanted: &PodGroupSpec, existing: &PodGroupSpec) -> PodGroupSpec {
    PodGroupSpec {
        mark_unschedulable: existing.mark_unschedulable,
        scheduling_backoff: existing.scheduling_backoff,
        ..wanted.clone()
    }
}

fn is_as_wanted(existing: &PodGroup, wanted: &PodGroup) -> bool {
    let contains = |all: Option<&BTreeMap<String, String>>,
                    some: Option<&BTreeMap<String, String>>| {
        some.into_iter()
            .flatten()
            .all(|(key, value)| all.and_then(|all| all.get(key)) == Some(value))
    };
    contains(existing.metadata.labels.as_ref(), wanted.metadata.labels.as_ref())
        && contains(existing.metadata.annotations.as_ref(), wanted.metadata.annotations.as_ref())
        && existing.metadata.owner_references == wanted.metadata.owner_references
        && normal(existing.spec.clone())
            == normal(with_foreign_fields(&wanted.spec, &existing.spec))
}

/// Empty and absent mean the same; durations mean what they amount to.
fn normal(mut spec: PodGroupSpec) -> PodGroupSpec {
    for text in [&mut spec.queue, &mut spec.priority_class_name, &mut spec.preemptibility] {
        *text = text.take().filter(|text| !text.is_empty());
    }
    for duration in [&mut spec.preemption_delay, &mut spec.staleness_grace_period] {
        if let Some(nanos) = duration.as_ref().and_then(|duration| duration.nanos().ok()) {
            *duration = Some(DurationText::from_nanos(nanos));
        }
    }
    let constraints = spec.sub_groups.iter_mut().map(|group| &mut group.topology_constraint);
    for constraint in constraints.chain([&mut spec.topology_constraint]) {
        if let Some(constraint) = constraint {
            for text in [
                &mut constraint.topology,
                &mut constraint.required_topology_level,
                &mut constraint.preferred_topology_level,
            ] {
                *text = text.take().filter(|text| !text.is_empty());
            }
        }
        *constraint =
            constraint.take().filter(|constraint| *constraint != TopologyConstraint::default());
    }
    spec
}

/// Labels and annotations that the grouper wrote and no longer wants.
struct StaleKeys {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

impl StaleKeys {
    fn of(existing: &PodGroup, wanted: &PodGroup, manager: &str) -> Self {
        let managed = existing.metadata.managed_fields.as_deref().unwrap_or_default();
        let stale = |section: &str, wanted: Option<&BTreeMap<String, String>>| {
            let mut keys = owned_keys(managed, manager, section);
            keys.retain(|key| wanted.is_none_or(|wanted| !wanted.contains_key(key)));
            keys
        };
        Self {
            labels: stale("f:labels", wanted.metadata.labels.as_ref()),
            annotations: stale("f:annotations", wanted.metadata.annotations.as_ref()),
        }
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    fn remove_from(&self, group: &mut PodGroup) {
        let remove = |map: &mut Option<BTreeMap<String, String>>, keys: &BTreeSet<String>| {
            if let Some(map) = map {
                map.retain(|key, _| !keys.contains(key));
            }
        };
        remove(&mut group.metadata.labels, &self.labels);
        remove(&mut group.metadata.annotations, &self.annotations);
    }
}

fn owned_keys(managed: &[ManagedFieldsEntry], manager: &str, section: &str) -> BTreeSet<String> {
    managed
        .iter()
        .filter(|entry| entry.manager.as_deref() == Some(manager))
        .filter_map(|entry| {
            entry.fields_v1.as_ref()?.0.get("f:metadata")?.get(section)?.as_object()
        })
        .flat_map(|fields| fields.keys())
        .filter_map(|key| key.strip_prefix("f:").map(str::to_owned))
        .collect()
}

/// Labels and annotations that link a pod to its group: a text sets one, none removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLink {
    /// Label of the sub-group.
    pub labels: BTreeMap<Cow<'static, str>, Option<String>>,
    /// Annotation of the group.
    pub annotations: BTreeMap<Cow<'static, str>, Option<String>>,
}

/// What links the pod to its group; none where it is linked already.
pub fn pod_link(pod: &Pod, plan: &PodGroupPlan) -> Option<PodLink> {
    let mut link = PodLink::default();
    if pod.annotation(workload::POD_GROUP_NAME) != Some(plan.name.as_str()) {
        link.annotations.insert(workload::POD_GROUP_NAME.into(), Some(plan.name.clone()));
    }
    if pod.label(workload::SUBGROUP_NAME) != plan.pod_sub_group.as_deref() {
        link.labels.insert(workload::SUBGROUP_NAME.into(), plan.pod_sub_group.clone());
    }
    (link != PodLink::default()).then_some(link)
}
