//! Scaling pods that have no node yet. While one may still come to a node, no new device of that node is reserved for the pod
//! it stands for: there is a place now, so that the scaling pod is removed first. It holds no other pod up.

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_api::names::objects;
use kai_core::input::node::NodeSpec;
use kai_core::input::pod::{GpuRequest, PodConstraints, tolerate_all};
use kai_core::input::{ObjectName, Text};
use kai_translate::gpus::Probed;
use kai_translate::pod::{self as pods, PodRules};
use kai_translate::{node, view};

use super::BinderSettings;

/// Scaling pods that have no node yet.
pub(super) struct ScalingPods {
    namespace: String,
    /// Label that names the pool of nodes and scaling pods; empty: there are no pools.
    pool_key: String,
    waiting: BTreeMap<ObjectName, Waiting>,
}

/// The pod that a scaling pod stands for. KAI's have labels only.
pub fn scaling_pod_origin(pod: &view::Pod) -> ObjectName {
    let named = pod.metadata.annotations.get(objects::SCALING_FOR);
    if let Some((namespace, name)) = named.and_then(|text| text.split_once('/')) {
        return ObjectName::new(namespace, name);
    }
    let label = |key: &str| pod.metadata.labels.get(key).map_or("", String::as_str);
    ObjectName::new(label(objects::SHARED_GPU_POD_NAMESPACE), label(objects::SHARED_GPU_POD_NAME))
}

/// Where a scaling pod may go, and for which pod.
struct Waiting {
    origin: ObjectName,
    pool: Option<Text>,
    devices: i64,
    constraints: Arc<PodConstraints>,
}

impl ScalingPods {
    pub(super) fn new(settings: &BinderSettings) -> Self {
        Self {
            namespace: settings.scale_adjust_namespace.clone(),
            pool_key: settings.node_pool_label_key.clone(),
            waiting: BTreeMap::new(),
        }
    }

    /// A pod as it is.
    pub(super) fn set(&mut self, name: &ObjectName, pod: &view::Pod) {
        if *name.namespace != *self.namespace {
            return;
        }
        match Waiting::read(pod, &self.pool_key) {
            Some(waiting) => self.waiting.insert(name.clone(), waiting),
            None => self.waiting.remove(name),
        };
    }

    /// A pod is gone.
    pub(super) fn remove(&mut self, name: &ObjectName) {
        self.waiting.remove(name);
    }

    /// A scaling pod that may still come to the node, where each of these pods has one that may.
    pub(super) fn that_may_come_to<'a>(
        &self,
        node: &view::Node,
        pods: impl Iterator<Item = &'a ObjectName>,
    ) -> Option<&ObjectName> {
        if self.waiting.is_empty() {
            return None;
        }
        let node = node::translate(node, &Probed::default()).object?;
        let pool = node.labels.get(&*self.pool_key);
        let may_come = |one: &Waiting| one.pool.as_ref() == pool && one.suits(&node);
        let mut found = None;
        for pod in pods {
            let mut waiting = self.waiting.iter();
            let own = waiting.find(|(_, one)| one.origin == *pod && may_come(one));
            found = Some(own.map(|(name, _)| name)?);
        }
        found
    }
}

impl Waiting {
    /// None where it has a node, or will never have one.
    fn read(pod: &view::Pod, pool_key: &str) -> Option<Self> {
        let mut conditions = pod.status.conditions.iter();
        let is_scheduled =
            conditions.any(|one| one.type_ == "PodScheduled" && one.status == "True");
        let has_ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let has_node = pod.spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
        if is_scheduled || has_ended || has_node || pod.metadata.is_terminating() {
            return None;
        }
        let spec = pods::translate(pod, &PodRules::default()).object?;
        let devices = match spec.request.gpu {
            GpuRequest::Whole { count } => count,
            GpuRequest::None
            | GpuRequest::Mig(_)
            | GpuRequest::Fraction { .. }
            | GpuRequest::Memory { .. } => 0,
        };
        let pool = pod.metadata.labels.get(pool_key).map(|pool| pool.as_str().into());
        let origin = scaling_pod_origin(pod);
        Some(Self { origin, pool, devices, constraints: spec.constraints })
    }

    fn suits(&self, node: &NodeSpec) -> bool {
        let PodConstraints { node_selector, node_terms, tolerations, .. } = &*self.constraints;
        let has = |(key, value): &(Text, Text)| node.labels.get(key) == Some(value);
        let matches = node_terms.is_empty()
            || node_terms.iter().any(|term| term.matches(&node.name, &node.labels));
        node.allocatable.gpus >= self.devices
            && node_selector.iter().all(has)
            && matches
            && tolerate_all(tolerations, &node.taints)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn waits(pods: &[Value], node: Value) -> bool {
        let mut all = ScalingPods::new(&BinderSettings::default());
        for pod in pods {
            let pod: view::Pod = serde_json::from_value(pod.clone()).expect("a pod");
            all.set(&pods::name(&pod), &pod);
        }
        let node: view::Node = serde_json::from_value(node).expect("a node");
        let origin = ObjectName::new("a", "p");
        all.that_may_come_to(&node, [&origin].into_iter()).is_some()
    }

    fn scaling(devices: &str) -> Value {
        json!({"metadata": {"name": "s", "namespace": "kai-scale-adjust", "labels": {},
                "annotations": {"kai.scheduler/scaling-for": "a/p"}},
            "spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": devices}}}]},
            "status": {"phase": "Pending"}})
    }

    fn node(labels: &Value) -> Value {
        json!({"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": "2"}}})
    }

    #[test]
    fn only_nodes_that_it_may_come_to_wait_for_it() {
        let plain = node(&json!({}));
        assert!(waits(&[scaling("1")], plain.clone()));
        assert!(!waits(&[], plain.clone()));
        assert!(!waits(&[scaling("4")], plain.clone()), "it needs a larger node");
        let pool = node(&json!({"kai.scheduler/node-pool": "a"}));
        assert!(!waits(&[scaling("1")], pool.clone()), "it is of another pool");
        let mut pooled = scaling("1");
        pooled["metadata"]["labels"]["kai.scheduler/node-pool"] = json!("a");
        assert!(waits(&[pooled.clone()], pool) && !waits(&[pooled], plain.clone()));
        let mut choosy = scaling("1");
        choosy["spec"]["nodeSelector"] = json!({"disk": "fast"});
        assert!(!waits(&[choosy.clone()], plain.clone()));
        assert!(waits(&[choosy], node(&json!({"disk": "fast"}))));
        let mut tainted = plain;
        tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
        assert!(!waits(&[scaling("1")], tainted));
    }

    #[test]
    fn it_holds_up_only_the_pod_it_stands_for() {
        let mut all = ScalingPods::new(&BinderSettings::default());
        let pod: view::Pod = serde_json::from_value(scaling("1")).expect("a pod");
        all.set(&pods::name(&pod), &pod);
        let node: view::Node = serde_json::from_value(node(&json!({}))).expect("a node");
        let [own, other] = [ObjectName::new("a", "p"), ObjectName::new("b", "p")];
        let waits =
            |pods: &[&ObjectName]| all.that_may_come_to(&node, pods.iter().copied()).is_some();
        assert!(waits(&[&own]));
        assert!(!waits(&[&other]), "the pod of another team");
        assert!(!waits(&[&own, &other]), "both share the device: the other does not wait");
        assert!(!waits(&[]));
    }

    #[test]
    fn scaling_pod_that_has_a_node_or_is_deleted_delays_nothing() {
        let plain = || node(&json!({}));
        let changed = |path: &str, key: &str, value: Value| {
            let mut pod = scaling("1");
            pod[path][key] = value;
            pod
        };
        let condition = json!([{"type": "PodScheduled", "status": "True"}]);
        for pod in [
            changed("spec", "nodeName", json!("n")),
            changed("status", "phase", json!("Succeeded")),
            changed("status", "conditions", condition),
            changed("metadata", "deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ] {
            assert!(!waits(&[scaling("1"), pod.clone()], plain()), "it no longer waits: {pod}");
        }
        let elsewhere = changed("metadata", "namespace", json!("other"));
        assert!(!waits(&[elsewhere], plain()));
    }
}
