//! Pods that share devices, and the node agent that answers for their reservations.

use std::collections::BTreeSet;
use std::time::Duration;

use kai_testenv::objects;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::world::{World, send};

const RESERVATIONS: &str = "kai-resource-reservation";
const POLL: Duration = Duration::from_millis(50);

/// What the agents of a cluster's nodes do with reservation pods.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// Each gets a device of its own: `<node>-0`, `<node>-1`, ...
    OwnDevice,
    /// Each gets a device of its own, named as CUDA names devices.
    OwnUuid,
    /// All get the first device of the node, as time-slicing may do it.
    FirstDevice,
    /// The node rejects them.
    Rejection,
    /// The reservation pod reports nothing.
    Silence,
}

/// Plays the agents of a cluster's nodes until it is dropped.
pub(crate) struct NodeAgents(JoinHandle<()>);

impl NodeAgents {
    pub(crate) fn start(world: &World, answer: Answer) -> Self {
        Self::of(world, RESERVATIONS, world.name, answer)
    }

    /// For reservation pods of this namespace with this app label.
    pub(crate) fn of(
        world: &World,
        namespace: &'static str,
        app: &'static str,
        answer: Answer,
    ) -> Self {
        let client = world.client.clone();
        Self(tokio::spawn(async move {
            loop {
                answer_all(&client, namespace, app, answer).await;
                tokio::time::sleep(POLL).await;
            }
        }))
    }
}

impl Drop for NodeAgents {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn list(client: &Client, namespace: &str, app: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{app}");
    let list = send(client, "GET", &path, "application/json", &Value::Null).await.expect("a list");
    list["items"].as_array().cloned().expect("items")
}

async fn answer_all(client: &Client, namespace: &str, app: &str, answer: Answer) {
    let pods = list(client, namespace, app).await;
    let mut taken: BTreeSet<String> = pods.iter().filter_map(device_of).collect();
    for pod in
        pods.iter().filter(|pod| device_of(pod).is_none() && pod["status"]["phase"] == "Pending")
    {
        let node = pod["spec"]["nodeName"].as_str().expect("a node");
        let mut devices = (0..).map(|number| match answer {
            Answer::OwnUuid => format!("GPU-{number:08}-0000-4000-8000-000000000000"),
            _ => format!("{node}-{number}"),
        });
        let device = match answer {
            Answer::Silence => continue,
            Answer::Rejection => None,
            Answer::FirstDevice => devices.next(),
            Answer::OwnDevice | Answer::OwnUuid => devices.find(|device| !taken.contains(device)),
        };
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let (path, patch) = if let Some(device) = &device {
            let annotations = json!({"run.ai/reserve_for_gpu_index": device});
            (path, json!({"metadata": {"annotations": annotations}}))
        } else {
            let status = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices left"});
            (path + "/status", json!({"status": status}))
        };
        // It may be gone by now.
        let _ = send(client, "PATCH", &path, "application/merge-patch+json", &patch).await;
        taken.extend(device);
    }
}

/// The device that a reservation pod says it keeps.
pub(crate) fn device_of(pod: &Value) -> Option<String> {
    pod["metadata"]["annotations"]["run.ai/reserve_for_gpu_index"].as_str().map(str::to_owned)
}

impl World {
    /// A pod with this GPU fraction, as admission completes it.
    pub(crate) fn sharing_pod(&self, name: &str, queue: &str, annotations: &Value) -> Value {
        let mut pod = self.pod(name, &[("kai.scheduler/queue", queue)], &json!({"cpu": "10m"}));
        pod["metadata"]["annotations"] = annotations.clone();
        objects::add_share_references(&mut pod);
        pod
    }

    pub(crate) async fn reservations(&self) -> Vec<Value> {
        list(&self.client, RESERVATIONS, self.name).await
    }

    pub(crate) async fn bind_requests(&self) -> Vec<Value> {
        self.list("/apis/scheduling.run.ai/v1alpha2", "bindrequests").await
    }

    /// The config map with the GPUs of a sharing pod.
    async fn shared_gpu_config_map(&self, pod: &str) -> Option<Value> {
        let path = format!("/api/v1/namespaces/{}/configmaps/{pod}-shared-gpu-0", self.name);
        self.get(&path).await
    }

    /// Data of the config map with the GPUs of a sharing pod.
    pub(crate) async fn shared_gpu_config(&self, pod: &str) -> Option<Value> {
        self.shared_gpu_config_map(pod).await.map(|map| map["data"].clone())
    }

    /// Owners of the config map with the GPUs of a sharing pod.
    pub(crate) async fn owners_of_shared_gpu_config(&self, pod: &str) -> Value {
        let map = self.shared_gpu_config_map(pod).await.expect("a config map");
        map["metadata"]["ownerReferences"].clone()
    }

    /// Removes a pod at once, as its node would.
    pub(crate) async fn remove_pod(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.name);
        self.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    }

    /// Waits until no reservation is left.
    pub(crate) async fn wait_released(&self) {
        self.wait("every reservation is released", async || self.reservations().await.is_empty())
            .await;
    }
}
