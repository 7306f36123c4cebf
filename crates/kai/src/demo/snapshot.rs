//! What a person would see of the cluster: pods and devices.

use std::collections::BTreeMap;

use kai_api::gpu_request::{GpuAnnotations, GpuResources};
use kai_api::names::objects;
use kai_embed::nodes::Device;
use kai_embed::object::{
    annotation, entries, has_condition, is_terminating, items, name, text, uid,
};
use kai_embed::{Cluster, Key};
use serde_json::Value;

/// A pod as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodView {
    pub(super) name: String,
    pub(super) queue: String,
    pub(super) phase: String,
    pub(super) node: String,
    /// What it asks for: whole devices, or a part of one.
    pub(super) gpus: String,
    /// Why it waits, where it does.
    pub(super) reason: Option<String>,
}

/// A node and its devices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeView {
    pub(super) name: String,
    pub(super) devices: Vec<Device>,
}

impl NodeView {
    /// Names of the pods that use its devices, each once.
    pub(super) fn users(&self) -> Vec<&str> {
        let users = self.devices.iter().flat_map(|device| &device.users);
        let mut pods: Vec<&str> = users.map(|user| user.pod.name.as_str()).collect();
        pods.sort_unstable();
        pods.dedup();
        pods
    }
}

/// A queue as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueueView {
    pub(super) name: String,
    pub(super) parent: String,
    /// GPUs that it is guaranteed; `-` without a bound.
    pub(super) quota: String,
    /// GPUs that its pods have.
    pub(super) allocated: String,
    /// GPUs that its pods have or ask for.
    pub(super) requested: String,
}

/// The cluster at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// Pods of the cluster, by UID.
    pub(super) pods: BTreeMap<String, PodView>,
    pub(super) nodes: Vec<NodeView>,
    /// Queues of the walk-through, parents before their children.
    pub(super) queues: Vec<QueueView>,
    /// Why pods were evicted, by the name of the pod or of its group.
    evictions: Vec<(String, String)>,
}

const QUEUE: &str = "kai.scheduler/queue";
const INSTALLED: [&str; 2] = [objects::DEFAULT_PARENT_QUEUE, objects::DEFAULT_QUEUE];

impl Snapshot {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let pods = cluster.list(("", "pods")).filter(|pod| is_ours(pod));
        let pods = pods.map(|pod| (uid(pod).to_owned(), pod_view(cluster, pod))).collect();
        let nodes = cluster.list(("", "nodes"));
        let nodes = nodes.map(|node| NodeView {
            name: name(node).to_owned(),
            devices: cluster.devices(name(node)),
        });
        let events = cluster.list(("", "events")).filter(|event| event["reason"] == "Evict");
        let evictions = events.map(|event| {
            (text(&event["involvedObject"]["name"]).to_owned(), text(&event["message"]).to_owned())
        });
        let queues = queues(cluster);
        Self { pods, nodes: nodes.collect(), queues, evictions: evictions.collect() }
    }

    /// Pods in the order of their names.
    pub(super) fn sorted(&self) -> Vec<&PodView> {
        let mut pods: Vec<&PodView> = self.pods.values().collect();
        pods.sort_by(|one, other| one.name.cmp(&other.name));
        pods
    }

    /// What happened since `before`, one sentence each.
    pub(super) fn since(&self, before: &Self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (uid, pod) in &before.pods {
            if !self.pods.contains_key(uid) && !pod.node.is_empty() {
                decisions.push(Decision::Left(pod.name.clone(), pod.node.clone()));
            }
        }
        let new = self.evictions.iter().filter(|one| !before.evictions.contains(one));
        let whys: Vec<&String> = new.map(|(_, why)| why).collect();
        // Each says the same with other numbers: one is enough.
        if let Some((first, rest)) = whys.split_first() {
            let alike = if rest.is_empty() {
                String::new()
            } else {
                format!(" ({} more alike)", rest.len())
            };
            decisions.push(Decision::Because(format!("{first}{alike}")));
        }
        for (uid, pod) in &self.pods {
            let placed = before.pods.get(uid).is_some_and(|old| !old.node.is_empty());
            if !pod.node.is_empty() && !placed {
                decisions.push(Decision::Placed(pod.name.clone(), pod.node.clone()));
            }
        }
        decisions.sort();
        decisions
    }
}

/// Something the scheduler did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Decision {
    /// A pod was evicted.
    Left(String, String),
    /// Why the scheduler evicted the pods: the text of its event.
    Because(String),
    /// A pod was given a node.
    Placed(String, String),
}

fn pod_view(cluster: &Cluster, pod: &Value) -> PodView {
    let node = text(&pod["spec"]["nodeName"]).to_owned();
    let phase = if is_terminating(pod) { "Terminating" } else { text(&pod["status"]["phase"]) };
    let waits = node.is_empty() && !has_condition(pod, "PodScheduled");
    PodView {
        name: name(pod).to_owned(),
        queue: queue(cluster, pod),
        phase: phase.to_owned(),
        node,
        gpus: gpus(pod),
        reason: waits.then(|| reason(pod)).flatten(),
    }
}

/// Queues that the installation did not create.
fn queues(cluster: &Cluster) -> Vec<QueueView> {
    let all = cluster.list(("scheduling.run.ai", "queues"));
    let mut queues: Vec<QueueView> = all
        .filter(|queue| !INSTALLED.contains(&name(queue)))
        .map(|queue| queue_view(queue))
        .collect();
    queues.sort_by(|one, other| {
        let place = |queue: &QueueView| match queue.parent.as_str() {
            "" => (queue.name.clone(), String::new()),
            parent => (parent.to_owned(), queue.name.clone()),
        };
        place(one).cmp(&place(other))
    });
    queues
}

fn queue_view(queue: &Value) -> QueueView {
    let quota = match queue["spec"]["resources"]["gpu"]["quota"].as_f64() {
        Some(quota) if quota < 0.0 => "-".to_owned(),
        quota => quota.unwrap_or_default().to_string(),
    };
    let gpus = |field: &str| match text(&queue["status"][field]["nvidia.com/gpu"]) {
        "" => "0".to_owned(),
        amount => amount.to_owned(),
    };
    QueueView {
        name: name(queue).to_owned(),
        parent: text(&queue["spec"]["parentQueue"]).to_owned(),
        quota,
        allocated: gpus("allocated"),
        requested: gpus("requested"),
    }
}

/// Whether a pod is one that our scheduler places.
pub(super) fn is_ours(pod: &Value) -> bool {
    pod["spec"]["schedulerName"] == "kai-scheduler"
}

/// GPU request of a pod.
fn gpus(pod: &Value) -> String {
    let mut resources = GpuResources::default();
    for container in items(&pod["spec"]["containers"]) {
        for (resource, amount) in entries(&container["resources"]["requests"]) {
            resources.add(resource, amount.parse().unwrap_or_default());
        }
    }
    let annotations = entries(&pod["metadata"]["annotations"]);
    GpuAnnotations::of(&annotations).read(resources).request.to_string()
}

/// Why the pod is pending: the message of its condition `PodScheduled`.
fn reason(pod: &Value) -> Option<String> {
    let mut conditions = items(&pod["status"]["conditions"]);
    let condition =
        conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    condition["message"].as_str().map(str::to_owned)
}

/// The queue of a pod: its own label, or that of its group.
fn queue(cluster: &Cluster, pod: &Value) -> String {
    let own = pod["metadata"]["labels"][QUEUE].as_str();
    let group = annotation(pod, "pod-group-name").and_then(|group| {
        let key = Key::new(text(&pod["metadata"]["namespace"]), group);
        cluster.get(("scheduling.run.ai", "podgroups"), &key)
    });
    let groups = group.and_then(|group| group["spec"]["queue"].as_str());
    groups.or(own).unwrap_or_default().to_owned()
}
