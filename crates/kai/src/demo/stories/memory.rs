//! Limits of GPU memory: what pods on one GPU are given, and what their neighbour sees, with and without enforcement.

use kai_api::names::guard;
use kai_embed::nodes::NodeProfile;
use serde_json::{Map, Value, json};

use super::super::recording::Exhibit;
use super::super::stage::Stage;
use super::OPEN_QUEUE;
use crate::embedded::VirtualCluster;

pub(super) const ABOUT: &str = "Two pods on one GPU, 20,000 MiB each. The scheduler counts both, but CUDA knows nothing of it: \
a process can take the whole card, and its neighbour gets the out-of-memory errors. With enforcement the webhook gives the pod \
a library that stops its allocations at the limit, and the binder writes the limit where only the binder can.";

const UNBOUNDED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: unbounded, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-memory: '20000'}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1'}
";

const BOUNDED: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: bounded
  namespace: default
  labels: {kai.scheduler/queue: team}
  annotations: {gpu-memory: '20000', kai.scheduler/gpu-memory-enforcement: enforce}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1'}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    stage.nodes(&[NodeProfile::with_gpus("node-1", 1)])?;
    stage.set_up(OPEN_QUEUE)?;
    let what = "Without enforcement: CUDA shows this pod the whole card, and nothing stops it at 20,000 MiB.";
    stage.examine(what, UNBOUNDED, |cluster| given(cluster, "unbounded")).await?;
    let what = "With enforcement: CUDA shows this pod a card of 20,000 MiB, and its neighbour keeps the rest.";
    stage.examine(what, BOUNDED, |cluster| given(cluster, "bounded")).await
}

/// What a pod was given to keep its limit.
fn given(cluster: &VirtualCluster, name: &str) -> Vec<Exhibit> {
    cluster.look(|cluster| {
        let pods = cluster.list(kai_embed::kinds::PODS);
        let pods = pods.filter(|pod| pod["metadata"]["name"] == name);
        let exhibit = |pod: &Value| Exhibit {
            title: format!("what {name} was given"),
            text: serde_saphyr::to_string(&essence(pod)).unwrap_or_default(),
        };
        pods.map(|pod| exhibit(pod)).collect()
    })
}

/// What of a pod concerns its limit.
fn essence(pod: &Value) -> Value {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let about = annotations.filter(|(key, _)| {
        *key == guard::ENFORCEMENT || *key == guard::STATUS || key.ends_with(guard::LIMITS_SUFFIX)
    });
    let about: Map<String, Value> =
        about.map(|(key, value)| (key.clone(), value.clone())).collect();
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let first: Vec<Value> =
        containers.map(|one| json!({"name": one["name"], "args": one["args"]})).collect();
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten();
    let mounts: Vec<&Value> = mounts.map(|one| &one["mountPath"]).collect();
    json!({"annotations": about, "initContainers": first, "mounts of main": mounts})
}
