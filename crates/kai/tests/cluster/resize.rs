//! Pods that are resized in place count with what they ask for and what they have, the larger of both, until the kubelet
//! confirms.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

impl World {
    /// Asks for other cores for a running pod, as `kubectl patch --subresource resize` does.
    async fn resize(&self, name: &str, cores: &str) {
        let pod = self.see_pod(name).await.expect("the pod");
        let mut containers = pod["spec"]["containers"].clone();
        containers[0]["resources"] = json!({"requests": {"cpu": cores}, "limits": {"cpu": cores}});
        let path = format!("/api/v1/namespaces/{}/pods/{name}/resize", self.name);
        let resized = self.patch(&path, &json!({"spec": {"containers": containers}})).await;
        assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"]["cpu"], cores);
    }

    /// Reports as the kubelet which cores a pod has.
    async fn confirm_cores(&self, name: &str, cores: &str) {
        let path = format!("/api/v1/namespaces/{}/pods/{name}/status", self.name);
        let running = json!({"startedAt": "2026-01-01T00:00:00Z"});
        let container = json!({
            "name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": running}, "allocatedResources": {"cpu": cores},
            "resources": {"requests": {"cpu": cores}, "limits": {"cpu": cores}},
        });
        let status = json!({"phase": "Running", "containerStatuses": [container]});
        self.patch(&path, &json!({"status": status})).await;
    }

    async fn why_pending(&self, name: &str) -> String {
        let pod = self.see_pod(name).await.expect("the pod");
        assert!(pod["spec"]["nodeName"].is_null(), "{name} was bound");
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|one| one["type"] == "PodScheduled");
        scheduled.map(Value::to_string).unwrap_or_default()
    }
}

/// A pod of one core grows to two. Another pod of one core waits for `why`, also while the first one shrinks, until the
/// kubelet has taken the core away.
async fn second_pod_waits_for_the_kubelet(world: &World, why: &str) {
    let queue = world.queue_name("q");
    let core = json!({"cpu": "1"});
    world.create_pod(&world.pod("first", &[(QUEUE, &queue)], &core)).await;
    world.wait_bound("first").await;
    world.confirm_cores("first", "1").await;
    world.resize("first", "2").await;
    world.create_pod(&world.pod("second", &[(QUEUE, &queue)], &core)).await;
    let waits = async || world.why_pending("second").await.contains(why);
    world.wait("second waits although the kubelet has not resized first yet", waits).await;
    world.confirm_cores("first", "2").await;
    world.resize("first", "1").await;
    // The scheduler has observed the resize when a pod that is made after it was planned.
    world.create_pod(&world.pod("third", &[(QUEUE, &queue)], &core)).await;
    let waits = async || world.why_pending("third").await.contains(why);
    world.wait("third waits: first still has two cores", waits).await;
    assert!(world.why_pending("second").await.contains(why), "second was bound too early");
    world.confirm_cores("first", "1").await;
    world.wait_bound("second").await;
}

#[tokio::test]
async fn resized_pod_counts_in_the_limit_of_its_queue() {
    let Some(mut world) = World::new("resized-queue").await else { return };
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    world.queue("q", json!({"quota": -1, "limit": 2000, "overQuotaWeight": 1}), open()).await;
    world.start_kai("kai", &[]).await;
    second_pod_waits_for_the_kubelet(&world, "limit").await;
}

#[tokio::test]
async fn resized_pod_counts_on_its_node() {
    let Some(mut world) = World::new("resized-node").await else { return };
    world.node("n", json!({"cpu": "2", "memory": "8Gi", "pods": "10"})).await;
    world.queue("q", open(), open()).await;
    world.start_kai("kai", &[]).await;
    second_pod_waits_for_the_kubelet(&world, "CPU cores").await;
}
