//! The group of a pod that is alone in it: planned from the rules of grouping, without an object.

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_api::names::objects::POD_GROUP_PREFIX;
use kai_api::pod_group::TopologyConstraint as ApiConstraint;
use kai_core::input::pod_group::{DEFAULT_LEAF, GroupLeaf, GroupSet, TopologyConstraint};
use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::time::Span;
use kai_workloads::PodGroupPlan;

use super::packed::Packed;
use super::shared_parts::SharedParts;

/// A group of one pod.
pub(super) struct OwnGroup {
    pub(super) name: ObjectName,
    pub(super) parts: Arc<GroupParts>,
    /// The object of the group was ordered.
    pub(super) published: bool,
}

/// A group of one pod but for its name: the same for most pods of a template.
#[derive(Debug)]
pub(super) struct GroupParts {
    /// The leaf of the pod in the tree of the group.
    pub(super) sub_group: Option<Text>,
    pub(super) traits: Arc<GroupTraits>,
    /// Read only when the group becomes an object.
    plan: Packed<PodGroupPlan>,
}

/// What the world knows of a group apart from its pod: the same for all pods of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupTraits {
    /// Labels of the group; they decide to which partition it belongs.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) queue: Text,
    pub(super) priority_class: Text,
    pub(super) preemptibility: Option<String>,
    pub(super) staleness_grace: Option<Span>,
    pub(super) preemption_delay: Option<Span>,
    pub(super) tree: Arc<GroupSet>,
}

impl GroupTraits {
    fn of(plan: &PodGroupPlan) -> Self {
        let leaf = GroupLeaf { name: DEFAULT_LEAF.into(), min_available: 1, topology: None };
        let topology = constraint(&plan.topology);
        let span = |nanos: i64| Span { nanos };
        Self {
            labels: plan.labels.clone(),
            queue: plan.queue.as_str().into(),
            priority_class: plan.priority_class_name.as_str().into(),
            preemptibility: plan.preemptibility.clone(),
            staleness_grace: plan.staleness_grace_period.map(span),
            preemption_delay: plan.preemption_delay.map(span),
            tree: GroupSet { topology, leaves: vec![leaf], ..GroupSet::default() }.into(),
        }
    }
}

impl GroupParts {
    /// Parts of the planned group of this pod, which share what groups of other pods have too.
    pub(super) fn new(pod: &PodSpec, plan: &PodGroupPlan, shared: &mut SharedParts) -> Self {
        Self {
            sub_group: plan.pod_sub_group.as_deref().map(Text::from),
            traits: shared.share_traits(GroupTraits::of(plan)),
            plan: shared.pack_plan(plan.clone(), &[&pod.uid, &pod.name.name, &plan.name]),
        }
    }

    /// Nothing in these parts comes from the pod itself: they are those of every pod of its template. Notices name the pod.
    pub(super) fn are_of_template(&self) -> bool {
        self.plan.template().is_some_and(|plan| {
            plan.owner.name.is_empty() && plan.name.is_empty() && plan.notices.is_empty()
        })
    }
}

impl OwnGroup {
    /// The group of this pod, with these parts.
    pub(super) fn new(pod: &PodSpec, parts: Arc<GroupParts>, published: bool) -> Self {
        let name = format!("{POD_GROUP_PREFIX}{}-{}", pod.name.name, pod.uid).into();
        let name = ObjectName { namespace: pod.name.namespace.clone(), name };
        Self { name, parts, published }
    }

    /// The plan of the group of this pod.
    pub(super) fn plan(&self, pod: &PodSpec) -> Option<PodGroupPlan> {
        self.parts.plan.unpack(&[&pod.uid, &pod.name.name, &self.name.name])
    }
}

/// A constraint applies where it names a topology.
fn constraint(planned: &ApiConstraint) -> Option<TopologyConstraint> {
    let text = |text: &Option<String>| -> Option<Text> {
        text.as_deref().filter(|text| !text.is_empty()).map(Into::into)
    };
    Some(TopologyConstraint {
        topology: text(&planned.topology)?,
        required: text(&planned.required_topology_level),
        preferred: text(&planned.preferred_topology_level),
    })
}

#[cfg(test)]
mod tests {
    use kai_workloads::{Decision, Facts, GrouperConfig, group_pod};

    use super::super::pod_entry::tests::{entry, pod};
    use super::*;

    fn own_group(name: &str, queue: &str, shared: &mut SharedParts) -> OwnGroup {
        let labels = serde_json::json!({"metadata": {"labels": {"kai.scheduler/queue": queue}}});
        let view = pod(name, labels);
        let entry = entry(&view);
        let grouping = entry.grouping_view().expect("a view");
        let facts = Facts {
            priority_classes: ["train".to_owned()].into_iter().collect(),
            ..Facts::default()
        };
        let decision = group_pod(&grouping, &[], &facts, &GrouperConfig::default());
        let Ok(Decision::Group(plan)) = decision else { panic!("not grouped: {decision:?}") };
        let parts = Arc::new(GroupParts::new(&entry.base, &plan, shared));
        assert!(parts.are_of_template());
        let own = OwnGroup::new(&entry.base, parts, false);
        assert_eq!(own.plan(&entry.base), Some(*plan));
        own
    }

    #[test]
    fn groups_of_pods_of_one_template_share_their_traits() {
        let mut shared = SharedParts::default();
        let (one, other) = (own_group("p-1", "q", &mut shared), own_group("p-2", "q", &mut shared));
        assert!(Arc::ptr_eq(&one.parts.traits, &other.parts.traits));
        let plans = [&one, &other].map(|own| own.parts.plan.template());
        assert!(plans[0].zip(plans[1]).is_some_and(|(one, other)| Arc::ptr_eq(one, other)));
        assert_ne!(one.name, other.name);
        let third = own_group("p-3", "other", &mut shared);
        assert_eq!((&*one.parts.traits.queue, &*third.parts.traits.queue), ("q", "other"));
    }
}
