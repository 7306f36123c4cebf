//! One pod: what the cluster shows of it, and its membership in a pod group.

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_api::names::gpu;
use kai_api::view::Pod as GroupingView;
use kai_core::input::{ObjectName, PodSpec, Text};
use kai_core::time::Timestamp;
use kai_translate::{time, view};

use super::own_group::OwnGroup;
use super::packed::Packed;
use super::shared_parts::SharedParts;

/// A pod with its membership and the fields that binding reads.
pub(super) struct PodEntry {
    /// As the cluster shows it.
    pub(super) base: PodSpec,
    /// The fields that rules of grouping read.
    view: Packed<GroupingView>,
    /// A controller creates another pod when this one is gone.
    pub(super) has_controller: bool,
    /// Device claims: name in the pod to name of the object.
    pub(super) claims: BTreeMap<String, String>,
    /// Names of its containers, init containers first, while it has no node.
    pub(super) containers: Vec<Text>,
    /// The pod group that it belongs to.
    pub(super) group: Membership,
    /// Since when it counts as started: its node took it, else it was bound, else a plan decided to bind it. A pod that is bound
    /// is protected at once, not only when its node took it.
    pub(super) started: Option<Timestamp>,
    /// Its node has taken it: the kubelet reported when, or the state of a container.
    pub(super) is_on_its_node: bool,
}

/// The pod group that a pod belongs to.
pub(super) enum Membership {
    /// The group it names, or none.
    Named,
    /// Not decided before everything is listed.
    Unknown,
    /// The grouper is deciding.
    Requested,
    /// The pod is its own group.
    Own(OwnGroup),
}

impl PodEntry {
    /// A pod as observed, which shares what others have too. `decided` is when a plan decided to bind it.
    pub(super) fn observed(
        view: &view::Pod,
        base: PodSpec,
        group: Membership,
        decided: Option<Timestamp>,
        shared: &mut SharedParts,
    ) -> Self {
        let claims = view.spec.resource_claims.iter().filter_map(|claim| {
            Some((claim.name.clone(), view.claim_object(&claim.name)?.to_owned()))
        });
        let containers = view.spec.init_containers.iter().chain(&view.spec.containers);
        let has_node = base.node.is_some();
        let created = time::format(base.created);
        let packed = shared.pack_view(view.for_grouping(), &texts_of(&base, &created));
        let containers = containers.filter(|_| !has_node).map(|one| one.name.as_str().into());
        Self {
            base,
            view: packed,
            has_controller: !view.metadata.owner_references.is_empty(),
            claims: claims.collect(),
            containers: containers.collect(),
            group,
            started: observed_start(view).or(decided),
            is_on_its_node: is_on_its_node(view),
        }
    }

    /// The fields that rules of grouping read.
    pub(super) fn grouping_view(&self) -> Option<GroupingView> {
        self.view.unpack(&texts_of(&self.base, &time::format(self.base.created)))
    }

    /// The same fields without the texts of the pod, where these are the same for other pods.
    pub(super) fn template(&self) -> Option<&Arc<GroupingView>> {
        self.view.template()
    }

    /// The pod waits for a node.
    pub(super) fn is_pending(&self) -> bool {
        self.base.status.is_waiting() && self.base.node.is_none()
    }

    /// The group that the pod names.
    pub(super) fn named_group(&self) -> Option<ObjectName> {
        named_group(&self.base)
    }
}

/// Texts in the fields for grouping that other pods of the template do not have.
fn texts_of<'a>(pod: &'a PodSpec, created: &'a str) -> [&'a str; 4] {
    [&pod.uid, &pod.name.name, pod.node.as_deref().unwrap_or_default(), created]
}

/// The group that a pod names.
pub(super) fn named_group(pod: &PodSpec) -> Option<ObjectName> {
    let name = pod.group.clone()?;
    Some(ObjectName { namespace: pod.name.namespace.clone(), name })
}

/// Since when a pod counts as started by its own status: its node took it, else it was bound.
fn observed_start(view: &view::Pod) -> Option<Timestamp> {
    let bound = view
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "True");
    let bound = bound.and_then(|condition| condition.last_transition_time.as_deref());
    let moment = view.status.start_time.as_deref().or(bound)?;
    time::parse(moment).ok()
}

/// The kubelet has reported about the pod.
fn is_on_its_node(view: &view::Pod) -> bool {
    let status = &view.status;
    status.start_time.is_some()
        || !status.container_statuses.is_empty()
        || !status.init_container_statuses.is_empty()
}

/// The pod requests GPUs of AMD.
pub(super) fn requests_amd_gpus(view: &view::Pod) -> bool {
    let containers = view.spec.containers.iter().chain(&view.spec.init_containers);
    containers.into_iter().any(|one| one.resources.requests.contains_key(gpu::AMD))
}

#[cfg(test)]
pub(super) mod tests {
    use kai_translate::pod::{PodRules, translate};
    use serde_json::{Value, json};

    use super::*;

    /// A pod of namespace `a`, with these fields of its metadata, spec and status.
    pub(in super::super) fn pod(name: &str, extra: Value) -> view::Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}")},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]},
            "status": {"phase": "Pending"},
        });
        merge(&mut pod, extra);
        serde_json::from_value(pod).expect("a pod")
    }

    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    /// The entry of a pod that belongs to the group it names.
    pub(in super::super) fn entry(view: &view::Pod) -> PodEntry {
        let base = translate(view, &PodRules::default()).object.expect("a valid pod");
        PodEntry::observed(view, base, Membership::Named, None, &mut SharedParts::default())
    }

    #[test]
    fn a_pod_starts_when_its_node_took_it_else_when_it_was_bound_else_when_that_was_decided() {
        let bound = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}]);
        let view = pod("p", json!({"status": {"conditions": bound}}));
        let second = |text: &str| time::parse(text).ok();
        assert_eq!(entry(&view).started, second("2026-01-01T00:00:01Z"));
        assert!(!entry(&view).is_on_its_node);
        let status = json!({"conditions": bound, "startTime": "2026-01-01T00:00:02Z"});
        let view = pod("p", json!({"status": status}));
        assert_eq!(entry(&view).started, second("2026-01-01T00:00:02Z"));
        assert!(entry(&view).is_on_its_node);
        let view = pod("p", json!({}));
        let decided = Some(Timestamp { nanos: 5 });
        let base = entry(&view).base;
        let entry = PodEntry::observed(
            &view,
            base,
            Membership::Named,
            decided,
            &mut SharedParts::default(),
        );
        assert_eq!(entry.started, decided);
    }

    #[test]
    fn containers_are_named_while_the_pod_has_no_node() {
        assert_eq!(entry(&pod("p", json!({}))).containers, [Text::from("main")]);
        let placed = pod("p", json!({"spec": {"nodeName": "n1"}}));
        assert!(entry(&placed).containers.is_empty() && !entry(&placed).is_pending());
    }
}
