//! Nodes without a kubelet: pods that are bound to them start, pods that are evicted are gone, and reservation pods
//! say which device they hold. Volumes are made where a node was chosen for their claims.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::provisioner;
use crate::test_space::send;

const PODS: &str = "/api/v1/pods";
const POLL: Duration = Duration::from_millis(100);
/// How a reservation pod says which device it holds.
const RESERVED_DEVICE: &str = "run.ai/reserve_for_gpu_index";
/// Devices of a node.
const MOST_DEVICES: u32 = 64;
const RESERVATIONS: &str = "kai-resource-reservation";

/// How pods end that are evicted.
#[derive(Debug, Default)]
pub struct Ends {
    slowly: AtomicBool,
}

impl Ends {
    /// From now on they stay until [`Ends::at_once`].
    pub fn never(&self) {
        self.slowly.store(true, Ordering::Relaxed);
    }

    /// From now on they are gone at once.
    pub fn at_once(&self) {
        self.slowly.store(false, Ordering::Relaxed);
    }
}

/// Plays the kubelet of every node until it is dropped; pods that are evicted are gone at once.
pub async fn play(client: Client) {
    play_with(client, &Ends::default()).await;
}

/// The same, with pods that end as the caller says.
pub async fn play_with(client: Client, ends: &Ends) {
    loop {
        // A failed list is retried.
        if let Ok(list) = send(&client, "GET", PODS, "application/json", &Value::Null).await {
            attend(&client, list["items"].as_array().map_or(&[], Vec::as_slice), ends).await;
        }
        provisioner::attend(&client).await;
        tokio::time::sleep(POLL).await;
    }
}

async fn attend(client: &Client, pods: &[Value], ends: &Ends) {
    let mut devices: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in pods {
        let device = pod["metadata"]["annotations"][RESERVED_DEVICE].as_str();
        if let (Some(node), Some(device)) = (pod["spec"]["nodeName"].as_str(), device) {
            devices.entry(node).or_default().push(device);
        }
    }
    let mut given: Vec<String> = Vec::new();
    for pod in pods {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        let metadata = &pod["metadata"];
        let is_reservation = metadata["namespace"] == RESERVATIONS;
        if !metadata["deletionTimestamp"].is_null() {
            if !ends.slowly.load(Ordering::Relaxed) {
                end(client, pod).await;
            }
        } else if is_reservation && metadata["annotations"][RESERVED_DEVICE].is_null() {
            let taken = devices.get(node).map_or(&[][..], Vec::as_slice);
            let is_free =
                |device: &String| !taken.contains(&device.as_str()) && !given.contains(device);
            let devices = (0..MOST_DEVICES).map(|number| format!("GPU-{node}-{number}"));
            let free = devices.into_iter().find(is_free);
            let patch = json!({"metadata": {"annotations": {RESERVED_DEVICE: free}}});
            given.extend(free);
            patch_pod(client, pod, "", &patch).await;
        } else if pod["status"]["phase"] == "Pending" {
            start(client, pod).await;
        }
    }
}

async fn start(client: &Client, pod: &Value) {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": null});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let started = &pod["metadata"]["creationTimestamp"];
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let statuses: Vec<Value> = containers
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": {"running": {"startedAt": started}},
            })
        })
        .collect();
    let patch = json!({"status": {
        "phase": "Running", "startTime": started, "conditions": conditions, "containerStatuses": statuses,
    }});
    patch_pod(client, pod, "/status", &patch).await;
}

/// Pods may change or go while we look: what fails now is tried again at the next look.
async fn patch_pod(client: &Client, pod: &Value, part: &str, patch: &Value) {
    let path = format!("{}{part}", path_of(pod));
    let _ = send(client, "PATCH", &path, "application/merge-patch+json", patch).await;
}

async fn end(client: &Client, pod: &Value) {
    let options =
        json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}});
    let _ = send(client, "DELETE", &path_of(pod), "application/json", &options).await;
}

fn path_of(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}
