//! Scaling pods on a real API server, made by an account that may do nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::open;
use crate::sharing::{Answer, NodeAgents};
use crate::world::World;

const SCALING: &str = "/api/v1/namespaces/kai-scale-adjust/pods";

/// The scaling pods of our scheduler's pods.
async fn scaling_pods(world: &World) -> Vec<Value> {
    let path = format!("{SCALING}?labelSelector=shared-gpu-pod-namespace%3D{}", world.name);
    let list = world.get(&path).await.expect("a list");
    list["items"].as_array().cloned().expect("items")
}

async fn start_adjuster(world: &mut World) {
    let alone = ["--only", "node-scale-adjuster", "--unschedulable-grace-period=1s"];
    world.start_kai("node-scale-adjuster", &alone).await;
}

/// The latest condition about the pod's place: reason and message.
async fn pod_scheduled_condition(world: &World, pod: &str) -> (String, String) {
    let pod = world.see_pod(pod).await.expect("the pod");
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.iter().find(|one| one["type"] == "PodScheduled").cloned();
    let condition = condition.unwrap_or_default();
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

#[tokio::test]
async fn node_is_requested_once_and_used_when_it_joins() {
    let Some(mut world) = World::new("scaled").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    start_adjuster(&mut world).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let mut half = world.sharing_pod("half", &queue, &json!({"gpu-fraction": "0.5"}));
    half["spec"]["nodeSelector"] = json!({"kai.scheduler/node-pool": "scaled"});
    half["spec"]["initContainers"] =
        json!([{"name": "first", "image": "none", "resources": {"requests": {"cpu": "2"}}}]);
    world.create_pod(&half).await;
    let mut other = world.sharing_pod("other", &queue, &json!({"gpu-fraction": "0.5"}));
    other["spec"]["nodeSelector"] = half["spec"]["nodeSelector"].clone();
    world.create_pod(&other).await;
    world.wait("a scaling pod is made", async || !scaling_pods(&world).await.is_empty()).await;
    let made = scaling_pods(&world).await.remove(0);
    let (spec, container) = (&made["spec"], &made["spec"]["containers"][0]);
    assert_eq!(made["metadata"]["labels"]["app"], "scaling-pod");
    assert_eq!(container["resources"]["limits"], json!({"nvidia.com/gpu": "1"}));
    assert_eq!(spec["schedulerName"], "default-scheduler");
    assert_eq!(spec["nodeSelector"], half["spec"]["nodeSelector"]);
    assert_eq!(spec["serviceAccountName"], "kai-scale-adjust");
    let origin = made["metadata"]["labels"]["shared-gpu-pod-name"].as_str().expect("a pod");
    let cpu = if origin == "half" { "2" } else { "1" };
    assert_eq!(container["resources"]["requests"]["cpu"], cpu, "init containers count");
    world
        .wait("autoscalers see that it waits", async || {
            let pods = scaling_pods(&world).await;
            let conditions = pods[0]["status"]["conditions"].as_array().cloned();
            conditions.unwrap_or_default().iter().any(|one| {
                one["type"] == "PodScheduled"
                    && one["reason"] == "Unschedulable"
                    && one["status"] == "False"
            })
        })
        .await;
    // A restart finds it.
    world.kill_first_kai();
    start_adjuster(&mut world).await;
    world
        .stays("two halves need one device", Duration::from_secs(4), async || {
            let pods = scaling_pods(&world).await;
            pods.len() == 1 && pods[0]["metadata"]["uid"] == made["metadata"]["uid"]
        })
        .await;
    used_when_it_is_there(world).await;
}

/// The node comes; what waits for it runs there, and the next one has to wait a while.
async fn used_when_it_is_there(mut world: World) {
    let queue = world.queue_name("q");
    // No process removes the scaling pod now: it delays at most its own pod.
    world.kill_kai();
    world.start_kai("kai", &[]).await;
    world
        .node("gpu", json!({"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"}))
        .await;
    for pod in ["half", "other"] {
        assert_eq!(world.wait_bound(pod).await, "scaled-gpu");
    }
    assert_eq!(scaling_pods(&world).await.len(), 1, "the scaling pod was there meanwhile");
    start_adjuster(&mut world).await;
    world.wait("the scaling pod is gone", async || scaling_pods(&world).await.is_empty()).await;
    // The cool-down.
    world.create_pod(&world.sharing_pod("late", &queue, &json!({"gpu-fraction": "0.9"}))).await;
    world
        .wait("it is unschedulable", async || {
            pod_scheduled_condition(&world, "late").await.0 == "Unschedulable"
        })
        .await;
    world
        .stays("no other is made yet", Duration::from_secs(5), async || {
            scaling_pods(&world).await.is_empty()
        })
        .await;
    world.wait("another is made", async || scaling_pods(&world).await.len() == 1).await;
    // When a pod is deleted, its scaling pod is removed.
    let path = format!("/api/v1/namespaces/{}/pods/late", world.name);
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    world.wait("it is of no use any more", async || scaling_pods(&world).await.is_empty()).await;
}

#[tokio::test]
async fn the_remains_of_scaling_pods_are_removed() {
    // Any adjuster removes them: here there is no other.
    let Some(mut world) = World::alone("remains").await else { return };
    let labels = json!({"app": "scaling-pod", "shared-gpu-pod-name": "gone", "shared-gpu-pod-namespace": "remains"});
    for (name, phase) in
        [("remains-failed", "Failed"), ("remains-done", "Succeeded"), ("remains-lost", "Pending")]
    {
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {
            "serviceAccountName": "kai-scale-adjust", "containers": [{"name": "scaling-pod", "image": "none"}]}});
        world.create(SCALING, &pod).await;
        let status = json!({"status": {"phase": phase}});
        world.patch(&format!("{SCALING}/{name}/status"), &status).await;
    }
    start_adjuster(&mut world).await;
    world.wait("all are gone", async || scaling_pods(&world).await.is_empty()).await;
}

#[tokio::test]
async fn config_turns_it_on_where_one_process_does_everything() {
    let Some(mut world) = World::alone("grown").await else { return };
    world.queue("q", open(), open()).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let pod = world.sharing_pod(
        "many",
        &queue,
        &json!({"gpu-memory": "4000", "gpu-fraction-num-devices": "3"}),
    );
    world.create_pod(&pod).await;
    world
        .wait("it is unschedulable", async || {
            pod_scheduled_condition(&world, "many").await.0 == "Unschedulable"
        })
        .await;
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": {
        "global": {"schedulerName": world.name},
        "nodeScaleAdjuster": {"service": {"enabled": true}, "args": {
            "unschedulableGracePeriod": 0, "scalingPodImage": {"repository": "here", "tag": "1"}}}}});
    assert!(scaling_pods(&world).await.is_empty(), "no pod needs it");
    world.create("/apis/kai.scheduler/v1/configs", &config).await;
    world.wait("a scaling pod is made", async || scaling_pods(&world).await.len() == 1).await;
    let container = scaling_pods(&world).await.remove(0)["spec"]["containers"][0].take();
    assert_eq!(container["image"], "here/scalingpod:1");
    assert_eq!(container["resources"]["requests"]["nvidia.com/gpu"], "3");
    let path = "/apis/kai.scheduler/v1/configs/kai-config";
    let off = json!({"spec": {"nodeScaleAdjuster": {"service": {"enabled": false}}}});
    world.patch(path, &off).await;
    let path = format!("/api/v1/namespaces/{}/pods/many", world.name);
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    world
        .stays("no process reconciles it any more", Duration::from_secs(3), async || {
            scaling_pods(&world).await.len() == 1
        })
        .await;
}
