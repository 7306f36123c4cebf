//! One plan, and the orders it gives.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::{gpu, scheduling};
use kai_core::input::pod::GpuRequest;
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{CyclePlan, Step, StepKind, assume, plan};
use kai_core::time::Timestamp;
use kai_translate::time;
use serde_json::{Value, json};

use super::pods::Membership;
use super::{Planner, Publish, Wait};
use crate::orders::{Bind, Order, Victim};

impl Planner {
    /// Plans and gives the orders. The decisions count as done until the cluster confirms or refutes them.
    pub fn cycle(&mut self, now: Timestamp) {
        self.wait_after_failed_requests(now);
        self.end_waits(now);
        self.dirty = false;
        self.wake_at = None;
        if !self.settings.schedules {
            return;
        }
        let made = plan(&mut self.world, now);
        assume(&mut self.world, &made);
        self.wake_at = made.wake_at;
        for step in &made.steps {
            match &step.kind {
                StepKind::Bind { node, gpu_groups, .. } => {
                    self.order_bind(step, node, gpu_groups, now);
                }
                StepKind::Nominate { node, for_job: None, .. } => self.promise(&step.pod, node),
                StepKind::Nominate { .. } | StepKind::Evict { .. } => {}
            }
        }
        self.order_evictions(&made.steps);
        self.mark_groups(&made, now);
        self.publish_waiting(&made, now);
        tracing::debug!(steps = made.steps.len(), waiting = made.waiting.len(), "planned");
    }

    fn order_bind(&mut self, step: &Step, node: &Text, groups: &[Text], now: Timestamp) {
        let pod = step.pod.clone();
        let Some(entry) = self.pods.get(&pod) else { return };
        if !entry.base.claims.is_empty() {
            tracing::warn!(%pod, "it claims devices, which cannot be allocated yet; it waits");
            self.world.forget(&pod);
            self.wait(&pod, Wait::Bind, now);
            return;
        }
        let kind = received(&entry.base.request.gpu);
        let filled = entry.base.constraints.volume_claims.iter().all(|claim| {
            let claim = ObjectName { namespace: pod.namespace.clone(), name: claim.clone() };
            self.filled_claims.contains(&claim)
        });
        if groups.is_empty() && filled {
            let annotations = [(gpu::RECEIVED_RESOURCE_TYPE, kind.to_owned())].into();
            let bind = Bind { pod, uid: step.uid.clone(), node: node.clone(), annotations };
            self.orders.push(Order::Bind(bind));
        } else {
            let request = self.bind_request_for(step, node, groups);
            self.orders.push(Order::RequestBind(pod, Box::new(request)));
        }
    }

    /// The object that asks a binder for a bind of several steps.
    fn bind_request_for(&self, step: &Step, node: &Text, groups: &[Text]) -> Value {
        let pod = &step.pod;
        let request = self.pods.get(pod).map(|entry| &entry.base.request.gpu);
        let mut labels = BTreeMap::from([(scheduling::SELECTED_NODE.to_owned(), node.to_string())]);
        if let Some(pool) = self.settings.partition.name() {
            labels.insert(self.settings.partition.key.clone(), pool.to_owned());
        }
        let facts = self.world.node_named(node).map(|id| &self.world.node(id).gpus);
        let (count, centi) = match request {
            Some(GpuRequest::Fraction { portion, devices }) => {
                (*devices, (portion * 100.0).round() as i64)
            }
            Some(GpuRequest::Memory { mib, devices }) => {
                (*devices, facts.map_or(0, |facts| facts.centi_of_memory(*mib)))
            }
            Some(GpuRequest::Whole { count }) => (*count, 100),
            _ => (0, 0),
        };
        json!({
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": {
                "name": &*pod.name,
                "namespace": &*pod.namespace,
                "labels": labels,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": &*pod.name, "uid": &*step.uid}],
            },
            "spec": {
                "podName": &*pod.name,
                "selectedNode": &**node,
                "receivedResourceType": request.map_or(gpu::RECEIVED_REGULAR, received),
                "receivedGPU": {"count": count, "portion": format!("{}.{:02}", centi / 100, centi % 100)},
                "selectedGPUGroups": groups.iter().map(|group| &**group).collect::<Vec<_>>(),
            },
        })
    }

    /// The pod prefers the node it was promised.
    fn promise(&mut self, pod: &ObjectName, node: &Text) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        if entry.promised.as_ref() != Some(node) {
            entry.promised = Some(node.clone());
            let dirty = self.dirty;
            self.refresh_pod(pod);
            self.dirty = dirty; // only its preference changed: no plan need be made for that
        }
    }

    /// Victims for one job are told to go one after the other; other jobs' victims do not wait for them.
    fn order_evictions(&mut self, steps: &[Step]) {
        let mut latest: Option<&Option<ObjectName>> = None;
        let mut victims: Vec<Victim> = Vec::new();
        for step in steps {
            let StepKind::Evict { for_job, message, .. } = &step.kind else { continue };
            if latest.is_some_and(|latest| latest != for_job) {
                self.orders.push(Order::Evict(std::mem::take(&mut victims)));
            }
            latest = Some(for_job);
            victims.push(Victim {
                pod: step.pod.clone(),
                uid: step.uid.clone(),
                message: message.clone(),
            });
        }
        if !victims.is_empty() {
            self.orders.push(Order::Evict(victims));
        }
    }

    /// Starts, evictions and missing members are remembered on the groups, so that they survive us.
    fn mark_groups(&mut self, made: &CyclePlan, now: Timestamp) {
        let mut marks: BTreeMap<ObjectName, BTreeMap<&'static str, Option<String>>> =
            BTreeMap::new();
        for group in &made.started {
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::LAST_START, Some(time::format(now)));
        }
        let evicted: BTreeSet<&ObjectName> = made
            .steps
            .iter()
            .filter(|step| matches!(step.kind, StepKind::Evict { .. }))
            .filter_map(|step| step.group.as_ref())
            .collect();
        for group in evicted {
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::LAST_EVICTION, Some(time::format(now)));
        }
        for (group, since) in &made.staleness {
            let marks = marks.entry(group.clone()).or_default();
            marks.insert(scheduling::STALE_SINCE, since.map(time::format));
        }
        for (group, mut marks) in marks {
            let Some(object) = self.groups.get_mut(&group) else { continue };
            let annotations = object.metadata.annotations.get_or_insert_default();
            marks.retain(|key, value| annotations.get(*key) != value.as_ref());
            if marks.is_empty() {
                continue;
            }
            for (key, value) in &marks {
                match value {
                    Some(value) => annotations.insert((*key).to_owned(), value.clone()),
                    None => annotations.remove(*key),
                };
            }
            self.tell_group(&group);
            self.orders.push(Order::MarkGroup(group, marks));
        }
    }

    /// Pods that are their own group and have waited long enough get an object of it.
    fn publish_waiting(&mut self, made: &CyclePlan, now: Timestamp) {
        let Publish::AfterWaiting(patience) = self.settings.publish else { return };
        for report in &made.waiting {
            let Some(pod) = self.own_groups.get(&report.job) else { continue };
            let Some(entry) = self.pods.get_mut(pod) else { continue };
            let Membership::Own { plan, published: published @ false } = &mut entry.group else {
                continue;
            };
            let due = entry.base.created.plus(patience);
            if due <= now {
                *published = true;
                self.orders.push(Order::Publish(Box::new(entry.view.clone()), plan.clone()));
            } else {
                self.wake_at = Some(self.wake_at.map_or(due, |wake| wake.min(due)));
            }
        }
    }
}

/// What a pod is said to have received.
fn received(request: &GpuRequest) -> &'static str {
    match request {
        GpuRequest::Fraction { .. } | GpuRequest::Memory { .. } => gpu::RECEIVED_FRACTION,
        GpuRequest::Mig(_) => gpu::RECEIVED_MIG,
        GpuRequest::None | GpuRequest::Whole { .. } => gpu::RECEIVED_REGULAR,
    }
}
