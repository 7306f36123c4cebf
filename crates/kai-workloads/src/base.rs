//! What all rules start from: one group for the workload, of at least one pod, with the workload's own metadata.

use std::borrow::Cow;
use std::sync::Arc;

use kai_api::names::{objects, workload};
use kai_api::view::Pod;
use serde_json::Value;

use crate::config::GrouperConfig;
use crate::facts::Facts;
use crate::object::{Object, pod_object};
use crate::plan::{Minimum, Notice, PodGroupPlan};
use crate::queue::{LabelSource, queue_of};
use crate::{metadata, priority, topology};

/// A pod, its owners and what is known.
pub(crate) struct Case<'a> {
    pub(crate) pod: &'a Pod,
    /// The object to which the rule of its kind applies; the pod itself where it has no owners.
    pub(crate) top: Cow<'a, Value>,
    /// The owners, the pod's own first, `top` last; empty where `top` is the pod.
    pub(crate) owners: Vec<Cow<'a, Value>>,
    /// Owners above `top` that were passed over, the uppermost first.
    pub(crate) skipped: Vec<Cow<'a, Value>>,
    pub(crate) facts: &'a Facts,
    pub(crate) config: &'a GrouperConfig,
}

/// In which order owners are searched for priority, preemptibility and delays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The nearest owner first, the pod last: kinds without a rule of their own.
    NearestFirst,
    /// The workload, then the pod, then the owners between: kinds with a rule.
    WorkloadFirst,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        pod: &'a Pod,
        owners: &'a [Arc<Value>],
        facts: &'a Facts,
        config: &'a GrouperConfig,
    ) -> Self {
        let owners: Vec<Cow<'a, Value>> =
            owners.iter().map(|owner| Cow::Borrowed(&**owner)).collect();
        let top = owners.last().cloned().unwrap_or_else(|| Cow::Owned(pod_object(pod)));
        Self { pod, top, owners, skipped: Vec::new(), facts, config }
    }

    pub(crate) fn top(&self) -> Object<'_> {
        Object::new(&self.top)
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.pod.metadata.namespace
    }

    /// The nearest owner of a kind.
    pub(crate) fn owner_of_kind(&self, kind: &str) -> Option<Object<'_>> {
        self.owners.iter().map(|owner| Object::new(owner)).find(|owner| owner.kind() == kind)
    }

    /// All owners, in the order in which they are searched.
    pub(crate) fn owners_in_order<'b>(
        &'b self,
        workload: Object<'b>,
        order: Order,
    ) -> Vec<Object<'b>> {
        let owners = self.owners.iter().map(|owner| Object::new(owner));
        match order {
            Order::NearestFirst if self.owners.is_empty() => vec![workload],
            Order::NearestFirst => owners.collect(),
            Order::WorkloadFirst => {
                let others = owners.filter(|owner| owner.uid() != workload.uid());
                std::iter::once(workload).chain(others).collect()
            }
        }
    }
}

/// The group of a kind without a rule of its own.
pub(crate) fn default_plan(case: &Case<'_>, class: &str) -> PodGroupPlan {
    base_plan(case, case.top(), class, Order::NearestFirst)
}

/// What the rule of a kind starts from.
pub(crate) fn workload_plan(case: &Case<'_>, workload: Object<'_>, class: &str) -> PodGroupPlan {
    base_plan(case, workload, class, Order::WorkloadFirst)
}

fn base_plan(case: &Case<'_>, workload: Object<'_>, class: &str, order: Order) -> PodGroupPlan {
    let mut notices = Vec::new();
    let owners = case.owners_in_order(workload, order);
    let priority_class_name = priority::class(case, &owners, class, &mut notices);
    let preemptibility = priority::preemptibility(case, &owners, order, &mut notices);
    let preemption_delay = priority::duration(
        case,
        &owners,
        order,
        workload::PREEMPTION_DELAY,
        |nanos| nanos >= 0,
        &mut notices,
    );
    let staleness_grace_period = priority::duration(
        case,
        &owners,
        order,
        workload::STALENESS_GRACE_PERIOD,
        |_| true,
        &mut notices,
    );
    PodGroupPlan {
        name: group_name(workload),
        namespace: case.namespace().to_owned(),
        owner: workload.reference(),
        labels: metadata::labels(case, workload),
        annotations: metadata::annotations(case, workload),
        queue: queue(case, &[workload], &[], &mut notices),
        priority_class_name,
        preemptibility,
        preemption_delay,
        staleness_grace_period,
        topology: topology::constraint(|key| workload.annotation(key)),
        minimum: Minimum::Members(1),
        sub_groups: Vec::new(),
        pod_sub_group: None,
        notices,
    }
}

/// Name of a pod group, `pg-<name>-<uid>`.
pub(crate) fn group_name(object: Object<'_>) -> String {
    format!("{}{}-{}", objects::POD_GROUP_PREFIX, object.name(), object.uid())
}

/// The queue, from the labels of these objects, then of the pod, then of the last resorts.
pub(crate) fn queue(
    case: &Case<'_>,
    workloads: &[Object<'_>],
    last_resorts: &[Object<'_>],
    notices: &mut Vec<Notice>,
) -> String {
    let described = |objects: &[Object<'_>]| {
        objects.iter().map(|object| (object.describe(), object.labels())).collect::<Vec<_>>()
    };
    let pod = (pod_name(case.pod), case.pod.metadata.labels.clone());
    let mut named = described(workloads);
    named.push(pod);
    named.extend(described(last_resorts));
    let sources: Vec<LabelSource<'_>> =
        named.iter().map(|(object, labels)| LabelSource { object, labels }).collect();
    let choice = queue_of(
        &sources,
        &case.pod.metadata.labels,
        &case.config.queue_label_key,
        &case.config.node_pool_label_key,
    );
    notices.extend(
        choice
            .disagreeing
            .into_iter()
            .map(|other| Notice::QueuesDisagree { chosen: choice.queue.clone(), other }),
    );
    choice.queue
}

/// `Pod namespace/name`, for messages.
pub(crate) fn pod_name(pod: &Pod) -> String {
    format!("Pod {}/{}", pod.metadata.namespace, pod.metadata.name)
}

/// Makes the pod the owner of its own group, which keeps the workload's metadata.
pub(crate) fn one_group_per_pod(case: &Case<'_>, plan: &mut PodGroupPlan) {
    let pod = pod_object(case.pod);
    plan.owner = Object::new(&pod).reference();
    plan.name = group_name(Object::new(&pod));
    plan.minimum = Minimum::Members(1);
}
