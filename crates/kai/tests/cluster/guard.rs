//! GPU memory limits on a real API server: what sharing pods are given, and what tenants cannot change.

use serde_json::{Value, json};

use crate::binder::gpu_node;
use crate::open;
use crate::sharing::{Answer, NodeAgents};
use crate::world::{World, send};

const STATUS: &str = "kai.scheduler/gpu-memory-enforcement-status";
const LIMITS: &str = "kai.scheduler/container.main.gpu-memory-limits";
const GUARDED: [&str; 3] =
    ["--gpu-sharing-enabled", "--guard-image=kai:1", "--gpu-fraction-runtime-class-name="];

/// A pod that satisfies the restricted standard by itself.
fn restricted_pod(world: &World, annotations: &Value) -> Value {
    let mut pod =
        world.pod("p", &[("kai.scheduler/queue", &world.queue_name("q"))], &json!({"cpu": "1"}));
    pod["metadata"]["annotations"] = annotations.clone();
    pod["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    pod["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    pod
}

#[tokio::test]
async fn restricted_namespaces_accept_pods_with_the_library() {
    let Some(mut world) = World::alone("guarded").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", gpu_node(1)).await;
    let memory = json!({"metadata": {"labels": {"nvidia.com/gpu.memory": "32600"}}});
    world.patch("/api/v1/nodes/guarded-n", &memory).await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.start_admitting("kai", &GUARDED).await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "kai.scheduler/gpu-memory-enforcement": "enforce"});
    world.patch("/api/v1/namespaces/guarded", &json!({"metadata": {"labels": labels}})).await;
    // Reservation pods pass the same standard.
    let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let reservations = "/api/v1/namespaces/kai-resource-reservation";
    world.patch(reservations, &json!({"metadata": {"labels": restricted}})).await;
    let pods = "/api/v1/namespaces/guarded/pods";
    let mut hiding = restricted_pod(&world, &json!({"gpu-memory": "1000"}));
    hiding["spec"]["volumes"] = json!([{"name": "own", "emptyDir": {}}]);
    hiding["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "own", "mountPath": "/etc//ld.so.preload", "subPath": "x"}]);
    let denied = world.try_create(pods, &hiding).await.expect_err("it hides the library");
    assert!(denied.to_string().contains("mounts /etc/ld.so.preload itself"), "{denied}");
    let mut loose = restricted_pod(&world, &json!({"gpu-memory": "1000"}));
    loose["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let denied = world.try_create(pods, &loose).await.expect_err("the standard is in effect");
    assert!(denied.to_string().contains("PodSecurity"), "{denied}");
    world.create(pods, &restricted_pod(&world, &json!({"gpu-memory": "1000"}))).await;
    let pod = world.see_pod("p").await.expect("the pod");
    let first = &pod["spec"]["initContainers"][0];
    assert_eq!((&first["name"], &first["image"]), (&json!("kai-guard"), &json!("kai:1")));
    assert_eq!(
        pod["metadata"]["annotations"]["kai.scheduler/gpu-memory-enforcement"], "enforce",
        "as the namespace says"
    );
    world.wait_bound("p").await;
    let pod = world.see_pod("p").await.expect("the pod");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations[STATUS], "not enforceable: device guarded-n-0 has no UUID");
    assert_eq!(annotations[LIMITS], "v1 mode=off", "nothing that CUDA knows is limited");
    tenants_change_nothing(&world).await;
}

async fn tenants_change_nothing(world: &World) {
    let path = "/api/v1/namespaces/guarded/pods/p";
    let client = world.tenant().await;
    for (key, value) in [
        ("kai.scheduler/gpu-memory-enforcement", json!("off")),
        (STATUS, json!("enforced")),
        (LIMITS, json!("v1 mode=report")),
        ("kai.scheduler/gpu-memory-used", json!("GPU-1=0")),
        ("nvidia.com/container.main.gpus.devices", json!("GPU-1")),
    ] {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let ended = send(&client, "PATCH", path, "application/merge-patch+json", &patch).await;
        let denied = ended.expect_err(key).to_string();
        assert!(denied.contains("Forbidden") || denied.contains("denied"), "{key}: {denied}");
    }
}
