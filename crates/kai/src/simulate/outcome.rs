//! Where everything ended.

use std::collections::BTreeMap;

use kai_embed::nodes::Device;
use kai_embed::object::{items, name, namespace, text};
use kai_embed::{Cluster, Key};
use serde::Serialize;
use serde_json::Value;

use crate::demo::Paint;
use crate::embedded::RESERVATIONS;
use crate::text_layout::table;

/// Final state of a simulation.
#[derive(Serialize)]
pub(super) struct Outcome {
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    queues: Vec<Queue>,
    /// Workloads whose pods were rejected, each with the reason.
    #[serde(skip)]
    rejected: Vec<String>,
}

#[derive(Serialize)]
struct Pod {
    namespace: String,
    name: String,
    phase: String,
    node: Option<String>,
    gpus: Vec<Gpu>,
    reason: Option<String>,
}

/// What a pod has of a device.
#[derive(Clone, Serialize)]
struct Gpu {
    device: usize,
    uuid: String,
    mib: u64,
}

#[derive(Serialize)]
struct Node {
    name: String,
    gpus: Vec<NodeGpu>,
}

#[derive(Serialize)]
struct NodeGpu {
    device: usize,
    uuid: String,
    mib: u64,
    used_mib: u64,
    pods: Vec<String>,
}

#[derive(Serialize)]
struct Queue {
    name: String,
    parent: Option<String>,
    allocated: Value,
    requested: Value,
}

impl Outcome {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let nodes: Vec<(&str, Vec<Device>)> = cluster
            .list(("", "nodes"))
            .map(|node| (name(node), cluster.devices(name(node))))
            .collect();
        let uses = uses(&nodes);
        Self {
            pods: cluster
                .list(("", "pods"))
                .filter(|pod| namespace(pod) != RESERVATIONS)
                .map(|pod| Pod::of(pod, &uses))
                .collect(),
            nodes: nodes.iter().map(|(name, devices)| Node::of(name, devices)).collect(),
            queues: cluster
                .list(("scheduling.run.ai", "queues"))
                .map(|queue| Queue::of(queue))
                .collect(),
            rejected: cluster
                .list(("", "events"))
                .filter(|event| event["reason"] == "FailedCreate")
                .map(|event| rejected(event))
                .collect(),
        }
    }

    /// Workloads whose pods were rejected, a line each.
    pub(super) fn rejected(&self) -> &[String] {
        &self.rejected
    }

    /// The outcome as tables.
    pub(super) fn text(&self, paint: Paint) -> String {
        let mut rows = vec![
            ["NAMESPACE", "POD", "PHASE", "NODE", "GPUS", "PENDING BECAUSE"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for pod in &self.pods {
            let devices: Vec<String> = pod.gpus.iter().map(|gpu| gpu.device.to_string()).collect();
            let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
            rows.push(vec![
                pod.namespace.clone(),
                pod.name.clone(),
                pod.phase.clone(),
                or_dash(pod.node.clone().unwrap_or_default()),
                or_dash(devices.join(",")),
                pod.reason.clone().unwrap_or_default(),
            ]);
        }
        let mut text = String::new();
        for (at, line) in table(&rows, "").lines().enumerate() {
            let pod = at.checked_sub(1).and_then(|at| self.pods.get(at));
            let row = pod.map_or(line.to_owned(), |pod| paint.pod_row(&pod.phase, line));
            text.push_str(&row);
            text.push('\n');
        }
        let mut devices = vec![["NODE", "GPU", "USED", "OF", "PODS"].map(str::to_owned).to_vec()];
        for node in &self.nodes {
            for gpu in &node.gpus {
                devices.push(vec![
                    node.name.clone(),
                    gpu.device.to_string(),
                    format!("{} MiB", gpu.used_mib),
                    format!("{} MiB", gpu.mib),
                    gpu.pods.join(", "),
                ]);
            }
        }
        if devices.len() > 1 {
            text.push('\n');
            text.push_str(&table(&devices, ""));
        }
        text
    }
}

impl Pod {
    fn of(pod: &Value, uses: &BTreeMap<&Key, Vec<Gpu>>) -> Self {
        let node = text(&pod["spec"]["nodeName"]).to_owned();
        let gpus = uses.get(&Key::of(pod)).cloned().unwrap_or_default();
        Self {
            namespace: namespace(pod).to_owned(),
            name: name(pod).to_owned(),
            phase: text(&pod["status"]["phase"]).to_owned(),
            gpus,
            reason: reason(pod),
            node: Some(node).filter(|node| !node.is_empty()),
        }
    }
}

/// What each pod has of devices.
fn uses<'a>(nodes: &'a [(&str, Vec<Device>)]) -> BTreeMap<&'a Key, Vec<Gpu>> {
    let mut uses: BTreeMap<&Key, Vec<Gpu>> = BTreeMap::new();
    for device in nodes.iter().flat_map(|(_, devices)| devices) {
        for user in &device.users {
            let gpu = Gpu { device: device.index, uuid: device.uuid.clone(), mib: user.mib };
            uses.entry(&user.pod).or_default().push(gpu);
        }
    }
    uses
}

/// A line about a workload whose pods were rejected.
fn rejected(event: &Value) -> String {
    let about = &event["involvedObject"];
    let (kind, name) = (text(&about["kind"]), text(&about["name"]));
    format!("{}: {kind} {name}: {}\n", text(&about["namespace"]), text(&event["message"]))
}

/// Why a pod waits or failed; none where it runs or has run.
fn reason(pod: &Value) -> Option<String> {
    let message = pod["status"]["message"].as_str();
    if let Some(message) = message {
        return Some(message.to_owned());
    }
    let placed = !text(&pod["spec"]["nodeName"]).is_empty();
    if placed {
        return None;
    }
    let mut conditions = items(&pod["status"]["conditions"]);
    let condition =
        conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
    if let Some(message) = condition.and_then(|condition| condition["message"].as_str()) {
        return Some(message.to_owned());
    }
    let scheduler = text(&pod["spec"]["schedulerName"]);
    (scheduler != "kai-scheduler")
        .then(|| format!("its spec.schedulerName is {scheduler:?}, which is not simulated"))
}

impl Node {
    fn of(name: &str, devices: &[Device]) -> Self {
        let gpus = devices.iter().map(|device| NodeGpu {
            device: device.index,
            mib: device.memory_mib,
            used_mib: device.users.iter().map(|user| user.mib).sum(),
            pods: device.users.iter().map(|user| user.pod.to_string()).collect(),
            uuid: device.uuid.clone(),
        });
        Self { name: name.to_owned(), gpus: gpus.collect() }
    }
}

impl Queue {
    fn of(queue: &Value) -> Self {
        Self {
            name: name(queue).to_owned(),
            parent: queue["spec"]["parentQueue"].as_str().map(str::to_owned),
            allocated: queue["status"]["allocated"].clone(),
            requested: queue["status"]["requested"].clone(),
        }
    }
}
