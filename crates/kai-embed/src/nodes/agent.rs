//! The program in a reservation pod: our own, on an NVML that sees what the device plugin gave to the container.

use kai_node::gpu::discovery::Device;
use kai_node::gpu::listed::ListedNvml;
use kai_node::gpu::publish::reserve;
use kai_node::gpu::visible::VisibleDevices;
use serde_json::{Value, json};

use super::devices::{self, is_reservation};
use crate::api::{Part, Writer};
use crate::cluster::Cluster;
use crate::kinds::{NODES, PODS, id};
use crate::object::{self, Key, text, uid};

/// What simulated drivers say of themselves.
const DRIVER: &str = "580.95.05";

/// Runs the agent in a started pod, if the pod is a reservation pod. If it finds no device: its last message.
pub(super) fn run(cluster: &mut Cluster, pod: &Value) -> Result<(), String> {
    if !is_reservation(pod) {
        return Ok(());
    }
    let Environment { nvml, visible, machine_has } = environment(cluster, pod);
    let reserved =
        reserve(&nvml, &visible, Some(machine_has)).map_err(|error| error.to_string())?;
    let Some(resource) = cluster.kinds.get(&id(PODS)).cloned() else { return Ok(()) };
    let mut pod = pod.clone();
    object::remove(&mut pod, &["metadata", "resourceVersion"]);
    for (key, value) in reserved.annotations() {
        object::set(&mut pod, &["metadata", "annotations", key], json!(value));
    }
    // The pod was read a moment ago; one that is gone keeps no device.
    let _ = cluster.update(&resource, pod, Part::Whole, &Writer::named("reservation"));
    Ok(())
}

/// What the container of a pod sees: the devices it was given, the variable that names them, and how many devices are
/// on the machine's bus.
struct Environment {
    nvml: ListedNvml,
    visible: VisibleDevices,
    machine_has: u64,
}

fn environment(cluster: &Cluster, pod: &Value) -> Environment {
    let run = cluster.nodes.runs.get(uid(pod));
    let node = run.and_then(|run| cluster.store.get(&id(NODES), &Key::new("", &*run.node)));
    // NVML does not report the memory of a GPU without memory of its own.
    let shares_memory = node
        .is_some_and(|node| text(&node["status"]["nodeInfo"]["kernelVersion"]).ends_with("-tegra"));
    let all = run.map(|run| devices::of_node(cluster, &run.node)).unwrap_or_default();
    let slots = run.map(|run| run.slots.as_slice()).unwrap_or_default();
    let given: Vec<Device> = slots
        .iter()
        .filter_map(|slot| all.get(slot.device))
        .zip(0..)
        .map(|(device, index)| Device {
            index,
            uuid: device.uuid.clone(),
            name: Some(device.product.clone()).filter(|name| !name.is_empty()),
            memory_mib: Some(device.memory_mib).filter(|mib| *mib > 0 && !shares_memory),
            free_mib: None,
        })
        .collect();
    let named: Vec<String> = slots
        .iter()
        .zip(&given)
        .map(|(slot, device)| format!("{}::{}", device.uuid, slot.replica))
        .collect();
    let visible = VisibleDevices::of_names(named.iter().map(String::as_str));
    let nvml = ListedNvml { driver: DRIVER.to_owned(), devices: given, ..ListedNvml::default() };
    Environment { nvml, visible, machine_has: all.len() as u64 }
}
