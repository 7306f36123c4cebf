//! Devices of a node and the pods that use them.

use kai_api::gpu_request::{GpuAnnotations, GpuResources};
use kai_api::names::{gpu, node as labels};
use kai_api::quantity::Quantity;
use kai_node::gpu::share_mib;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::kinds::{NODES, PODS, id};
use crate::object::{Key, at, items, text};

/// A physical GPU of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its place on the node.
    pub index: usize,
    /// UUID, as NVML reports it.
    pub uuid: String,
    /// Name of the product; empty if unknown.
    pub product: String,
    /// Memory in MiB; 0 if unknown.
    pub memory_mib: u64,
    /// The pods that use the device.
    pub users: Vec<DeviceUse>,
}

/// A pod's use of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUse {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// Memory of the device that the pod uses, in MiB.
    pub mib: u64,
}

/// One place that the device plugin advertises.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    /// Extended resource under which the slot is advertised.
    pub(super) resource: String,
    /// Index of the physical device.
    pub(super) device: usize,
    /// The replica or instance on it.
    pub(super) replica: u64,
}

/// An amount of a node.
pub(super) fn amount(amounts: &Value, resource: &str) -> i64 {
    let written = match &amounts[resource] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return 0,
    };
    Quantity::parse(&written).map_or(0, |quantity| quantity.value())
}

/// How many physical devices a node has: what the label says, or what is advertised per replica.
fn physical(node: &Value) -> u64 {
    let label = |key: &str| {
        node["metadata"]["labels"][key].as_str().and_then(|text| text.parse::<u64>().ok())
    };
    let advertised =
        amount(at(node, &["status", "allocatable"]), gpu::NVIDIA).max(0).unsigned_abs();
    let replicas = label(labels::GPU_REPLICAS).filter(|replicas| *replicas > 0).unwrap_or(1);
    label(labels::GPU_COUNT).unwrap_or(advertised / replicas)
}

/// Every place that the node's device plugin advertises of a resource, device by device.
pub(super) fn slots(node: &Value, resource: &str) -> Vec<Slot> {
    let advertised = amount(at(node, &["status", "allocatable"]), resource).max(0).unsigned_abs();
    let devices = physical(node).max(1);
    let per_device = advertised.div_ceil(devices).max(1);
    (0..advertised)
        .map(|at| Slot {
            resource: resource.to_owned(),
            device: (at / per_device) as usize,
            replica: at % per_device,
        })
        .collect()
}

/// The id of a device follows from its place.
pub(super) fn uuid(node: &str, index: usize) -> String {
    let seed = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut ids = crate::ids::Ids::new(seed.wrapping_add(index as u64));
    format!("GPU-{}", ids.uid())
}

pub(super) fn of_node(cluster: &Cluster, name: &str) -> Vec<Device> {
    let Some(node) = cluster.store.get(&id(NODES), &Key::new("", name)) else { return Vec::new() };
    let memory = node["metadata"]["labels"][labels::GPU_MEMORY].as_str();
    let memory_mib = memory.and_then(|text| text.parse().ok()).unwrap_or_default();
    let product = text(at(node, &["metadata", "labels", "nvidia.com/gpu.product"])).to_owned();
    let device = |index| {
        let (uuid, product) = (uuid(name, index), product.clone());
        Device { index, uuid, product, memory_mib, users: Vec::new() }
    };
    let mut devices: Vec<Device> = (0..physical(node) as usize).map(device).collect();
    let runs = || cluster.nodes.runs.of_node(name);
    let pod_of = |key: &Key| cluster.store.get(&id(PODS), key);
    for (run, pod) in runs().filter_map(|run| Some((run, pod_of(&run.pod)?))) {
        for group in groups(pod) {
            let holder = runs().find(|holder| {
                let holds = pod_of(&holder.pod);
                holds.is_some_and(|pod| is_reservation(pod) && groups(pod).contains(&group))
            });
            let slot = holder.and_then(|holder| holder.slots.first());
            let Some(device) = slot.and_then(|slot| devices.get_mut(slot.device)) else { continue };
            if !is_reservation(pod) {
                let mib = shared_mib(pod, memory_mib);
                device.users.push(DeviceUse { pod: run.pod.clone(), mib });
            }
        }
        for slot in run.slots.iter().filter(|_| !is_reservation(pod)) {
            let per_device = slots(node, &slot.resource).len() as u64 / physical(node).max(1);
            let Some(device) = devices.get_mut(slot.device) else { continue };
            let mib = memory_mib / per_device.max(1);
            match device.users.iter_mut().find(|user| user.pod == run.pod) {
                Some(user) => user.mib += mib,
                None => device.users.push(DeviceUse { pod: run.pod.clone(), mib }),
            }
        }
    }
    for device in &mut devices {
        device.users.sort_by(|one, other| one.pod.cmp(&other.pod));
    }
    devices
}

/// Whether the pod is a reservation pod, which holds a device for the pods that share it.
pub(super) fn is_reservation(pod: &Value) -> bool {
    crate::object::name(pod).starts_with(gpu::RESERVATION_POD_PREFIX)
}

/// The shared devices of a pod.
fn groups(pod: &Value) -> Vec<&str> {
    let labels = crate::object::labels(pod).into_iter();
    let ours =
        labels.filter(|(key, _)| *key == gpu::GROUP || key.starts_with(gpu::MULTI_GROUP_PREFIX));
    ours.map(|(_, group)| group).collect()
}

/// MiB that a pod has of a device that it shares.
fn shared_mib(pod: &Value, device_mib: u64) -> u64 {
    let annotations = crate::object::entries(at(pod, &["metadata", "annotations"]));
    let reading = GpuAnnotations::of(&annotations).read(GpuResources::default());
    let device_mib = i64::try_from(device_mib).unwrap_or(i64::MAX);
    let share = reading.request.shared().map(|(share, _)| share);
    share.map_or(0, |share| share_mib(share, device_mib).unsigned_abs())
}

/// What the containers of a pod ask of a resource.
pub(super) fn requested(pod: &Value, resource: &str) -> i64 {
    let sum = |list: &str| -> Vec<i64> {
        items(&pod["spec"][list])
            .map(|container| amount(at(container, &["resources", "requests"]), resource))
            .collect()
    };
    let running: i64 = sum("containers").iter().sum();
    running.max(sum("initContainers").into_iter().max().unwrap_or_default())
}
