//! Binds of several steps: shared devices and their reservations.

use serde_json::{Value, json};

use crate::open;
use crate::sharing::{Answer, NodeAgents, device_of};
use crate::statuses::{condition, event_messages};
use crate::world::World;

/// A cluster with one node of so many devices, a queue, and `kai` with everything in it.
pub(crate) async fn cluster(name: &'static str, devices: u32) -> Option<World> {
    let world = World::new(name).await?;
    world.queue("q", open(), open()).await;
    world.node("n", gpu_node(devices)).await;
    Some(world)
}

pub(crate) fn gpu_node(devices: u32) -> Value {
    json!({"cpu": "8", "memory": "8Gi", "pods": "20", "nvidia.com/gpu": devices.to_string()})
}

/// A pod that wants half a device.
pub(crate) fn half(world: &World, name: &str) -> Value {
    world.sharing_pod(name, &world.queue_name("q"), &json!({"gpu-fraction": "0.5"}))
}

#[tokio::test]
async fn two_pods_share_a_device() {
    let Some(mut world) = cluster("share", 1).await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.start_kai("kai", &[]).await;
    world.create_pod(&half(&world, "a")).await;
    world.create_pod(&half(&world, "b")).await;
    world.create_pod(&half(&world, "c")).await;
    world
        .wait("two are bound", async || {
            let pods = world.list("/api/v1", "pods").await;
            pods.iter().filter(|pod| pod["spec"]["nodeName"] == "share-n").count() == 2
        })
        .await;
    let pods = world.list("/api/v1", "pods").await;
    let (bound, waiting): (Vec<&Value>, Vec<&Value>) =
        pods.iter().partition(|pod| pod["spec"]["nodeName"].is_string());
    let [reservation] = &world.reservations().await[..] else {
        panic!("one device, one reservation")
    };
    let group = &reservation["metadata"]["labels"]["runai-gpu-group"];
    for pod in &bound {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        assert_eq!(pod["metadata"]["labels"]["runai-gpu-group"], *group);
        assert_eq!(pod["metadata"]["annotations"]["received-resource-type"], "Fraction");
        let config = world.shared_gpu_config(name).await.expect("a config map");
        assert_eq!(config["NVIDIA_VISIBLE_DEVICES"], "share-n-0");
        assert_eq!(
            (&config["GPU_PORTION"], &config["RUNAI_NUM_OF_GPUS"]),
            (&json!("0.50"), &json!("0.50"))
        );
        let variables = format!("/api/v1/namespaces/share/configmaps/{name}-shared-gpu-0-evar");
        assert!(world.get(&variables).await.is_some());
    }
    assert!(world.bind_requests().await.is_empty(), "the binder of the same process is asked");
    // One ends: the third replaces it beside the other, on the same reservation.
    let (stays, ends) =
        (bound[0]["metadata"]["name"].as_str(), bound[1]["metadata"]["name"].as_str());
    let third = waiting[0]["metadata"]["name"].as_str().expect("a name");
    world.remove_pod(ends.expect("a name")).await;
    world.wait_bound(third).await;
    let now = world.reservations().await;
    assert_eq!(now.len(), 1);
    assert_eq!(now[0]["metadata"]["uid"], reservation["metadata"]["uid"]);
    // No pod is left: the device is free.
    world.remove_pod(stays.expect("a name")).await;
    world.remove_pod(third).await;
    world.wait_released().await;
}

#[tokio::test]
async fn a_pod_has_parts_of_several_devices() {
    let Some(mut world) = cluster("several", 2).await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    // Each function alone, each with its own rights.
    world.start_kai("scheduler", &["--only", "scheduler"]).await;
    world.start_kai("pod-grouper", &["--only", "pod-grouper"]).await;
    world.start_kai("binder", &["--only", "binder"]).await;
    let wants = json!({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"});
    world.create_pod(&world.sharing_pod("p", &world.queue_name("q"), &wants)).await;
    world.wait_bound("p").await;
    let reservations = world.reservations().await;
    assert_eq!(reservations.len(), 2);
    let pod = world.see_pod("p").await.expect("the pod");
    let labels = pod["metadata"]["labels"].as_object().expect("labels");
    assert!(!labels.contains_key("runai-gpu-group"), "several groups have labels of their own");
    let config = world.shared_gpu_config("p").await.expect("a config map");
    let mut devices: Vec<&str> =
        config["NVIDIA_VISIBLE_DEVICES"].as_str().expect("devices").split(',').collect();
    devices.sort_unstable();
    assert_eq!(devices, ["several-n-0", "several-n-1"]);
    for reservation in &reservations {
        let group = reservation["metadata"]["labels"]["runai-gpu-group"].as_str().expect("a group");
        assert_eq!(labels[&format!("runai-gpu-group/{group}")], group);
    }
    world.remove_pod("p").await;
    world.wait_released().await;
}

#[tokio::test]
async fn a_device_is_not_given_to_two_groups() {
    let Some(mut world) = cluster("collision", 2).await else { return };
    let labels = json!({"metadata": {"labels": {"nvidia.com/gpu.count": "2"}}});
    world.patch("/api/v1/nodes/collision-n", &labels).await;
    let agents = NodeAgents::start(&world, Answer::FirstDevice);
    world.start_kai("kai", &["--bind-requests", "always"]).await;
    let large = |name: &str| {
        world.sharing_pod(name, &world.queue_name("q"), &json!({"gpu-fraction": "0.75"}))
    };
    let (first, second) = (large("first"), large("second"));
    world.create_pod(&first).await;
    world.wait_bound("first").await;
    world.create_pod(&second).await;
    world
        .wait("the second reservation is rejected", async || {
            let requests = world.bind_requests().await;
            requests.iter().any(|one| {
                let reason = one["status"]["reason"].as_str().unwrap_or_default();
                reason.contains("it got device collision-n-0, which is that of gpu group")
            }) || {
                let devices: Vec<_> =
                    world.reservations().await.iter().filter_map(device_of).collect();
                devices.len() == 2
            }
        })
        .await;
    assert_eq!(world.node_of("second").await, None);
    drop(agents);
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.wait_bound("second").await;
    assert_eq!(
        world.shared_gpu_config("first").await.expect("a config map")["NVIDIA_VISIBLE_DEVICES"],
        "collision-n-0"
    );
    assert_eq!(
        world.shared_gpu_config("second").await.expect("a config map")["NVIDIA_VISIBLE_DEVICES"],
        "collision-n-1"
    );
    world
        .wait("what was tried without success is gone", async || {
            world.reservations().await.len() == 2
        })
        .await;
}

#[tokio::test]
async fn denied_reservation_is_reported_at_once_and_leaves_nothing() {
    let Some(mut world) = cluster("refusal", 1).await else { return };
    let _agents = NodeAgents::start(&world, Answer::Rejection);
    world.start_kai("kai", &["--only", "binder"]).await; // no scheduler removes the failed request
    world.create_pod(&half(&world, "p")).await;
    let uid = world.see_pod("p").await.expect("the pod")["metadata"]["uid"].clone();
    let request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}]},
        "spec": {"podName": "p", "selectedNode": "refusal-n", "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"}, "selectedGPUGroups": ["6c1b6a3e-7f0a-4f2e-9a52-7d1f5f3b7a11"]},
    });
    let path = "/apis/scheduling.run.ai/v1alpha2/namespaces/refusal/bindrequests";
    world.create(path, &request).await;
    world
        .wait("the request failed", async || {
            world.bind_requests().await[0]["status"]["phase"] == "Failed"
        })
        .await;
    let status = world.bind_requests().await[0]["status"].clone();
    let reason = status["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("failed to reserve GPUs for pod <refusal/p> in gpu group <6c1b6a3e"),
        "{reason}"
    );
    assert!(reason.ends_with("UnexpectedAdmissionError: no devices left"), "{reason}");
    assert_eq!(status["failedAttempts"], 1);
    world.wait_released().await;
    let pod = world.see_pod("p").await.expect("the pod");
    assert!(pod["metadata"]["labels"]["runai-gpu-group"].is_null());
    assert!(world.shared_gpu_config("p").await.is_none());
}

#[tokio::test]
async fn reservation_that_reports_no_device_times_out() {
    let Some(mut world) = cluster("silence", 1).await else { return };
    let agents = NodeAgents::start(&world, Answer::Silence);
    world.start_kai("kai", &["--resource-reservation-allocation-timeout", "2"]).await;
    world.create_pod(&half(&world, "p")).await;
    world.wait("it waits for a reservation", async || !world.reservations().await.is_empty()).await;
    world.wait("it gives up", async || world.reservations().await.is_empty()).await;
    assert_eq!(world.node_of("p").await, None);
    drop(agents);
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.wait_bound("p").await;
}

/// A bind request as KAI's scheduler creates it; only a binder runs.
#[tokio::test]
async fn binder_alone_executes_bind_requests_of_kais_scheduler_and_reports_them() {
    let Some(mut world) = cluster("lone", 1).await else { return };
    world.start_kai("binder", &["--only", "binder", "--events=all"]).await;
    world.create_pod(&world.pod("p", &[], &json!({"cpu": "1"}))).await;
    let uid = world.see_pod("p").await.expect("the pod")["metadata"]["uid"].clone();
    let request = |name: &str, node: &str, limit: Value| {
        json!({
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": {"name": name, "labels": {"selected-node": node},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}]},
            "spec": {"podName": "p", "selectedNode": node, "receivedResourceType": "Regular",
                "receivedGPU": {"count": 0, "portion": "0.00"}, "backoffLimit": limit},
        })
    };
    let path = "/apis/scheduling.run.ai/v1alpha2/namespaces/lone/bindrequests";
    world.create(path, &request("p", "lone-nowhere", Value::Null)).await;
    world
        .wait("its condition says why it is not bound", async || {
            condition(&world, "p", "PodBound").await["reason"] == "BindingError"
        })
        .await;
    let said = condition(&world, "p", "PodBound").await["message"].clone();
    let text = "Failed to bind pod lone/p to node lone-nowhere: node <lone-nowhere> not found";
    assert_eq!(said, text);
    world
        .wait("an event reports it", async || {
            event_messages(&world, "p", "BindingError").await == [text.to_owned()]
        })
        .await;
    world.delete(&format!("{path}/p"), &json!({})).await;
    world.create(path, &request("p", "lone-n", json!(2))).await;
    assert_eq!(world.wait_bound("p").await, "lone-n");
    world
        .wait("its condition says that it is bound", async || {
            condition(&world, "p", "PodBound").await["status"] == "True"
        })
        .await;
    let bound = "Pod bound successfully to node lone-n".to_owned();
    world
        .wait("an event reports it", async || {
            event_messages(&world, "p", "Bound").await == [bound.clone()]
        })
        .await;
    world
        .wait("the request is done", async || {
            world.bind_requests().await[0]["status"]["phase"] == "Succeeded"
        })
        .await;
}
