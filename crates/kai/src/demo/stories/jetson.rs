//! A Jetson Thor beside a server: what their reservation pods need.

use kai_api::json;
use kai_embed::nodes::{Machine, NodeProfile};
use kai_embed::object::{items, name, text};
use serde_json::{Map, Value, json};

use super::super::recording::Exhibit;
use super::super::stage::Stage;
use super::OPEN_QUEUE;
use crate::embedded::{RESERVATIONS, VirtualCluster};

pub(super) const ABOUT: &str = "A GPU that is shared is held by a reservation pod, which asks NVML for its id. On a server the \
container runtime brings what NVML needs. On a Jetson Thor the library lies in a folder of its own and the device files \
are others: its reservation pod gets them, and only there.";

const ON_SERVER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: on-server, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: '0.5'}}
spec:
  schedulerName: kai-scheduler
  nodeSelector: {kubernetes.io/arch: amd64}
  containers:
  - {name: main, image: 'notebook:1'}
";

const ON_THOR: &str = "
apiVersion: v1
kind: Pod
metadata: {name: on-thor, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: '0.5'}}
spec:
  schedulerName: kai-scheduler
  nodeSelector: {kubernetes.io/arch: arm64}
  containers:
  - {name: main, image: 'notebook:1'}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    let thor = NodeProfile {
        machine: Machine::JetsonThor,
        cpu: 14,
        memory_gib: 128,
        gpu_memory_mib: 125_772,
        gpu_product: "NVIDIA-Thor".to_owned(),
        ..NodeProfile::with_gpus("thor", 1)
    };
    stage.nodes(&[NodeProfile::with_gpus("server", 1), thor])?;
    stage.set_up(OPEN_QUEUE)?;
    stage.apply("Half a GPU of the server.", ON_SERVER).await?;
    let both = |cluster: &VirtualCluster| {
        [reservations(cluster, "server"), reservations(cluster, "thor")].concat()
    };
    let what = "Half the GPU of the Thor: its reservation pod against that of the server.";
    stage.examine(what, ON_THOR, both).await
}

/// The reservation pods of a node, without what every pod has.
fn reservations(cluster: &VirtualCluster, node: &str) -> Vec<Exhibit> {
    cluster.look(|cluster| {
        let pods = cluster.list(kai_embed::kinds::PODS).filter(|pod| {
            pod["metadata"]["namespace"] == RESERVATIONS && pod["spec"]["nodeName"] == node
        });
        let exhibit = |pod: &Value| Exhibit {
            title: format!("the reservation pod on {node}: {}", name(pod)),
            text: serde_saphyr::to_string(&essence(pod)).unwrap_or_default(),
        };
        pods.map(|pod| exhibit(pod)).collect()
    })
}

/// What is particular about a reservation pod.
fn essence(pod: &Value) -> Value {
    let picked = |from: &Value, fields: &[&str]| -> Value {
        let present = fields.iter().filter_map(|field| {
            let value = from.get(*field).filter(|value| !is_empty(value))?;
            Some(((*field).to_owned(), value.clone()))
        });
        Value::Object(present.collect::<Map<_, _>>())
    };
    let of_container = ["args", "env", "securityContext", "volumeMounts"];
    let containers: Vec<Value> =
        items(&pod["spec"]["containers"]).map(|one| picked(one, &of_container)).collect();
    let mut spec = picked(&pod["spec"], &["runtimeClassName", "volumes"]);
    json::set(&mut spec, &["containers"], json!(containers));
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations_about_gpus = annotations.filter(|(key, _)| key.contains("gpu"));
    let annotations_about_gpus: Map<String, Value> =
        annotations_about_gpus.map(|(key, value)| (key.clone(), value.clone())).collect();
    json!({"metadata": {"annotations": annotations_about_gpus}, "spec": spec})
}

fn is_empty(value: &Value) -> bool {
    text(value).is_empty() && value.is_string()
        || value.as_object().is_some_and(Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
}
