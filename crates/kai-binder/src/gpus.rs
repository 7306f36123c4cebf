//! The GPUs of a cluster and who shares them, as the binder sees it: for people, for metrics, and for those who want to
//! know what a reservation pod would be.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::guard::ENFORCED;
use kai_client::watch::Change;
use kai_core::input::pod::{GpuRequest, PodRole};
use kai_core::input::{ObjectName, Text};
use kai_core::world::gpu_facts::Sharing;
use kai_serve::metrics_text::{Labels, Page};
use kai_translate::pod::{self as pods, PodRules};
use kai_translate::view;
use serde::Serialize;
use serde_json::Value;

use super::facts::Facts;
use super::nvml_fallbacks::NvmlFallbacks;
use super::reservation::{self, Blueprint};
use super::{Binder, BinderSettings, DeviceKey, SharedDevice};

/// The GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeGpus {
    pub node: String,
    /// Devices that its device plugin advertises.
    pub advertised: i64,
    /// Devices that exist.
    pub physical: i64,
    /// MiB of each; none: neither a label nor a reservation pod reports it.
    pub memory_mib: Option<i64>,
    /// Why its devices are not shared.
    pub trouble: Option<&'static str>,
    /// Devices that are shared.
    pub devices: Vec<DeviceGpus>,
    /// Pods that hold whole devices, with how many.
    pub whole: BTreeMap<String, i64>,
}

impl NodeGpus {
    /// Devices that pods hold whole.
    pub fn whole_count(&self) -> i64 {
        self.whole.values().sum()
    }
}

/// A device that is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceGpus {
    /// Groups of pods on it; more than one were put there by a scheduler that did not know.
    pub groups: Vec<String>,
    pub uuid: String,
    /// MiB that were given away.
    pub used_mib: i64,
    /// Memory of the device in MiB.
    pub total_mib: i64,
    /// MiB of each pod on it.
    pub pods: BTreeMap<String, i64>,
    /// No pod on it can use more than its limit.
    pub enforced: bool,
    /// How the limit of each pod is kept, as the pod says.
    pub enforcement: BTreeMap<String, String>,
    /// MiB that the processes of a pod hold, where the reservation pod observes processes.
    pub processes_mib: BTreeMap<String, i64>,
    /// MiB that all processes on it hold, where its reservation pod measures it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_mib: Option<i64>,
}

/// The GPUs of a cluster with these nodes and pods.
pub fn gpus(
    nodes: impl IntoIterator<Item = view::Node>,
    pods: impl IntoIterator<Item = view::Pod>,
    settings: &BinderSettings,
) -> Vec<NodeGpus> {
    let mut facts = Facts::new(settings);
    let mut names: BTreeSet<Text> = BTreeSet::new();
    for node in nodes {
        names.insert(node.metadata.name.as_str().into());
        facts.apply(&Change::Node(Box::new(node)));
    }
    let rules =
        PodRules { reservation_app: settings.reservation.app_label.clone(), ..PodRules::default() };
    let mut whole: BTreeMap<Text, BTreeMap<String, i64>> = BTreeMap::new();
    for pod in pods {
        if let Some((node, count)) = whole_devices(&pod, &rules) {
            let name = pods::name(&pod).to_string();
            whole.entry(node).or_default().insert(name, count);
        }
        facts.apply(&Change::Pod(Box::new(pod)));
    }
    let with_whole = |name: &Text| {
        let whole = whole.get(name).cloned().unwrap_or_default();
        Some(NodeGpus { whole, ..gpus_of(&facts, name)? })
    };
    names.iter().filter_map(with_whole).collect()
}

/// The node on which a pod holds whole devices, and how many. Reservation pods hold theirs for the pods that share it.
fn whole_devices(pod: &view::Pod, rules: &PodRules) -> Option<(Text, i64)> {
    if matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
        || rules.role(pod) == PodRole::Reservation
    {
        return None;
    }
    let spec = pods::translate(pod, rules).object?;
    match spec.request.gpu {
        GpuRequest::Whole { count } if count > 0 => Some((spec.node?, count)),
        _ => None,
    }
}

fn gpus_of(facts: &Facts, name: &Text) -> Option<NodeGpus> {
    let known = facts.gpus(name).filter(|gpus| gpus.advertised > 0)?;
    let groups = |uuid: &str| {
        let on_it = |key: &&DeviceKey| {
            let counts = facts.reservation(key);
            counts.is_some_and(|(_, one)| one.device.as_deref() == Some(uuid))
        };
        facts.devices_of_node(name).filter(on_it).map(|key| key.group.to_string()).collect()
    };
    let shares = facts.shares(name, &known).into_iter();
    let devices = shares.map(|(uuid, SharedDevice { total_mib, pods })| {
        let limits = |pod: &String| {
            let (namespace, name) = pod.split_once('/')?;
            Some(&facts.pod(&ObjectName::new(namespace, name))?.limits)
        };
        let status = |pod: &String| limits(pod)?.status.clone();
        let measured = |pod: &String| limits(pod)?.used_mib.get(&uuid).copied();
        let enforcement: BTreeMap<String, String> =
            pods.keys().filter_map(|pod| Some((pod.clone(), status(pod)?))).collect();
        let is_enforced = |pod: &String| enforcement.get(pod).is_some_and(|one| one == ENFORCED);
        DeviceGpus {
            groups: groups(&uuid),
            used_mib: pods.values().sum(),
            total_mib,
            enforced: !pods.is_empty() && pods.keys().all(is_enforced),
            processes_mib: pods
                .keys()
                .filter_map(|pod| Some((pod.clone(), measured(pod)?)))
                .collect(),
            held_mib: facts.held_mib(name, &uuid),
            enforcement,
            uuid,
            pods,
        }
    });
    let trouble = match known.sharing {
        Sharing::UnknownDeviceCount => {
            Some("time-sliced, and the number of physical GPUs is not known")
        }
        Sharing::Possible if !known.memory_known => Some("the memory of its GPUs is not known"),
        Sharing::Possible => None,
    };
    Some(NodeGpus {
        node: name.to_string(),
        advertised: known.advertised,
        physical: known.physical,
        memory_mib: known.memory_known.then_some(known.memory_mib),
        trouble,
        devices: devices.collect(),
        whole: BTreeMap::new(),
    })
}

/// The pod that would reserve a device of the node for this group, in a cluster with these runtime classes.
pub fn reservation_pod(
    node: &view::Node,
    group: &str,
    classes: &[&str],
    settings: &BinderSettings,
) -> Value {
    let mut binder = Binder::new(settings.clone());
    binder.apply(&Change::Node(Box::new(node.clone())));
    let named = classes.iter().map(|name| ((*name).to_owned(), (*name).to_owned()));
    binder.facts.classes = named.collect();
    let device = DeviceKey { node: node.metadata.name.as_str().into(), group: group.into() };
    let name = reservation::name(&device, 0, &settings.reservation);
    let Some(known) = binder.facts.node(&device.node) else { return Value::Null };
    let allowed = binder.allowed_rungs(known);
    let blueprint = Blueprint {
        name: &name,
        device: &device,
        tolerations: &[],
        is_fake: known.is_fake(),
        rung: NvmlFallbacks::default().next(&allowed.rungs),
        platform: allowed.platform,
        class: allowed.class,
        observes_processes: settings.observes_processes(),
    };
    reservation::manifest(blueprint, &settings.reservation)
}

impl Binder {
    /// Shared devices, as metrics.
    pub(super) fn add_metrics(&self, page: &mut Page) {
        let mut series: [Vec<(Labels, f64)>; 3] = Default::default();
        for node in self.facts.node_names().filter_map(|name| gpus_of(&self.facts, name)) {
            for device in node.devices {
                let labels: Labels =
                    vec![("node".to_owned(), node.node.clone()), ("uuid".to_owned(), device.uuid)];
                let values = [device.total_mib, device.used_mib, device.pods.len() as i64];
                for (series, value) in series.iter_mut().zip(values) {
                    series.push((labels.clone(), value as f64));
                }
            }
        }
        let [total, used, pods] = series;
        page.gauges("shared_gpu_memory_mib", "Memory of a shared GPU.", total);
        page.gauges("shared_gpu_memory_granted_mib", "Memory that pods were given of it.", used);
        page.gauges("shared_gpu_pods", "Pods that share it.", pods);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decoded<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).expect("an object")
    }

    fn node(labels: &Value) -> view::Node {
        decoded(json!({
            "metadata": {"name": "n", "labels": labels},
            "status": {"allocatable": {"nvidia.com/gpu": "100"}, "nodeInfo": {"architecture": "arm64", "kernelVersion": "6.8.12-tegra"}},
        }))
    }

    #[test]
    fn devices_are_shown_with_who_has_how_much() {
        let reservation = json!({
            "metadata": {"name": "r", "namespace": "kai-resource-reservation", "labels": {"app": "kai-resource-reservation", "runai-gpu-group": "g"},
                "annotations": {"run.ai/reserve_for_gpu_index": "GPU-1", "kai.scheduler/gpu-memory-held-mib": "700"}},
            "spec": {"nodeName": "n"},
        });
        let user = json!({
            "metadata": {"name": "p", "namespace": "a", "labels": {"runai-gpu-group": "g"}, "annotations": {
                "gpu-memory": "30720", "kai.scheduler/gpu-memory-enforcement-status": "enforced", "kai.scheduler/gpu-memory-used": "GPU-1=512,GPU-2=7"}},
            "spec": {"nodeName": "n", "schedulerName": "kai-scheduler"},
        });
        let labels = json!({"nvidia.com/gpu.memory": "131072"});
        let shown = gpus(
            [node(&labels)],
            [decoded(reservation), decoded(user)],
            &BinderSettings::default(),
        );
        let device = DeviceGpus {
            groups: vec!["g".to_owned()],
            uuid: "GPU-1".to_owned(),
            used_mib: 30_720,
            total_mib: 131_072,
            pods: [("a/p".to_owned(), 30_720)].into(),
            enforced: true,
            enforcement: [("a/p".to_owned(), "enforced".to_owned())].into(),
            processes_mib: [("a/p".to_owned(), 512)].into(),
            held_mib: Some(700),
        };
        let expected = NodeGpus {
            node: "n".to_owned(),
            advertised: 100,
            physical: 1,
            memory_mib: Some(131_072),
            trouble: None,
            devices: vec![device],
            whole: BTreeMap::new(),
        };
        assert_eq!(shown, [expected]);
    }

    #[test]
    fn whole_devices_count_while_their_pod_is_on_the_node() {
        let pod = |name: &str, node: &str, phase: &str, count: &str| -> view::Pod {
            let resources = json!({"requests": {"nvidia.com/gpu": count}});
            decoded(json!({
                "metadata": {"name": name, "namespace": "a"},
                "spec": {"nodeName": node, "containers": [{"name": "c", "resources": resources}]},
                "status": {"phase": phase},
            }))
        };
        let pods = [
            pod("two", "n", "Running", "2"),
            pod("one", "n", "Pending", "1"),
            pod("done", "n", "Succeeded", "4"),
            pod("waiting", "", "Pending", "8"),
        ];
        let shown = gpus([node(&json!({}))], pods, &BinderSettings::default());
        let whole = [("a/one".to_owned(), 1), ("a/two".to_owned(), 2)];
        assert_eq!(shown[0].whole, whole.into());
        assert_eq!(shown[0].whole_count(), 3);
    }

    #[test]
    fn the_reservation_pod_of_a_jetson_can_be_shown() {
        let settings = BinderSettings::default();
        let pod = reservation_pod(&node(&json!({})), "g", &["nvidia"], &settings);
        assert_eq!(pod["spec"]["runtimeClassName"], "nvidia");
        assert_eq!(pod["spec"]["containers"][0]["securityContext"]["privileged"], true);
        let off = json!({"kai.scheduler/tegra": "off"});
        let pod = reservation_pod(&node(&off), "g", &[], &settings);
        assert!(pod["spec"]["volumes"].is_null());
        let fake = json!({"run.ai/fake.gpu": "true"});
        let pod = reservation_pod(&node(&fake), "g", &[], &settings);
        assert_eq!(pod["spec"]["containers"][0]["args"], json!(["sleep", "infinity"]));
        assert!(pod["spec"]["volumes"].is_null());
    }
}
