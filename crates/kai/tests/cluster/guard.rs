//! GPU memory limits on a real API server: what sharing pods are given, and what tenants cannot change.

use serde_json::{Value, json};

use crate::binder::gpu_node;
use crate::open;
use crate::sharing::{Answer, NodeAgents};
use crate::world::{World, send};

const STATUS: &str = "kai.scheduler/gpu-memory-enforcement-status";
const USED: &str = "kai.scheduler/gpu-memory-used";
const HELD: &str = "kai.scheduler/gpu-memory-held-mib";
const PROCESSES: &str = "kai.scheduler/gpu-processes";
const DEVICE: &str = "GPU-00000000-0000-4000-8000-000000000000";
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
    let observing = ["--resource-reservation-observe-processes"];
    world.start_admitting("kai", &[&GUARDED[..], &observing].concat()).await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted", "kai.scheduler/gpu-memory-enforcement": "enforce"});
    world.patch("/api/v1/namespaces/guarded", &json!({"metadata": {"labels": labels}})).await;
    // Reservation pods pass the same standard, without the processes that they should observe.
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
    let [reservation] = &world.reservations().await[..] else { panic!("one device is shared") };
    assert!(reservation["spec"]["hostPID"].is_null(), "{reservation}");
    tenants_change_nothing(&world).await;
}

async fn tenants_change_nothing(world: &World) {
    let path = "/api/v1/namespaces/guarded/pods/p";
    let client = world.tenant().await;
    for (key, value) in [
        ("kai.scheduler/gpu-memory-enforcement", json!("off")),
        (STATUS, json!("enforced")),
        (LIMITS, json!("v1 mode=report")),
        (USED, json!("GPU-1=0")),
        (PROCESSES, json!("[]")),
        (HELD, json!("0")),
        ("nvidia.com/container.main.gpus.devices", json!("GPU-1")),
    ] {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let ended = send(&client, "PATCH", path, "application/merge-patch+json", &patch).await;
        let denied = ended.expect_err(key).to_string();
        assert!(denied.contains("Forbidden") || denied.contains("denied"), "{key}: {denied}");
    }
}

/// What a reservation pod measures reaches the pods: every writer has only the rights that it has in an installation, and
/// the admission policies are in effect.
#[tokio::test]
async fn measured_memory_and_observed_processes_reach_the_pods_on_the_device() {
    let Some(mut world) = World::alone("held").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", gpu_node(1)).await;
    let memory = json!({"metadata": {"labels": {"nvidia.com/gpu.memory": "32600"}}});
    world.patch("/api/v1/nodes/held-n", &memory).await;
    let agents = NodeAgents::start(&world, Answer::OwnUuid);
    let enforcing = ["--gpu-memory-enforcement=enforce"];
    world.start_admitting("kai", &[&GUARDED[..], &enforcing].concat()).await;
    for name in ["p", "q"] {
        let mut pod = restricted_pod(&world, &json!({"gpu-memory": "4000"}));
        pod["metadata"]["name"] = json!(name);
        world.create("/api/v1/namespaces/held/pods", &pod).await;
        world.wait_bound(name).await;
    }
    drop(agents);
    let shows = async |name: &str, key: &str, text: &str| {
        let pod = world.see_pod(name).await.expect("the pod");
        pod["metadata"]["annotations"][key] == text
    };
    assert!(shows("p", STATUS, "not yet observed: no process of the pod uses the GPU").await);
    assert!(shows("p", LIMITS, &format!("v1 mode=enforce device={DEVICE},limit=4000")).await);
    let [reservation] = &world.reservations().await[..] else { panic!("one device is shared") };
    assert_eq!(reservation["spec"]["hostPID"], true, "observed, since limits are enforced");
    let account = "kai-resource-reservation";
    let agent = world.client_of(account, account).await;
    let name = reservation["metadata"]["name"].as_str().expect("a name");
    let path = format!("/api/v1/namespaces/{account}/pods/{name}");
    let report = async |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        send(&agent, "PATCH", &path, "application/merge-patch+json", &patch)
            .await
            .expect("a write");
    };
    report(json!({HELD: "9000"})).await;
    // Nothing says whose it is: after a minute neither pod claims to be within its limit.
    let exceeded = format!(
        "not enforceable: processes hold 9000 MiB of {DEVICE}, the limits of 2 pods sum to 8000 MiB: a program runs without the library (static, musl, or a loader of its own)"
    );
    world.wait("the status is corrected", async || shows("q", STATUS, &exceeded).await).await;
    let uid = |pod: &Value| pod["metadata"]["uid"].clone();
    let pod = world.see_pod("p").await.expect("the pod");
    let processes = json!([{"uid": uid(&pod), "mib": 3000, "guard": "enforcing"}]);
    report(json!({HELD: "3000", PROCESSES: processes.to_string()})).await;
    let used = |mib: u32| format!("{DEVICE}={mib}");
    world
        .wait("the memory of one pod is known", async || shows("p", USED, &used(3000)).await)
        .await;
    world.wait("and of the other", async || shows("q", USED, &used(0)).await).await;
    world.remove_pod("p").await;
    world
        .create(
            "/api/v1/namespaces/held/pods",
            &restricted_pod(&world, &json!({"gpu-memory": "4000"})),
        )
        .await;
    world.wait_bound("p").await;
    let pod = world.see_pod("p").await.expect("the pod");
    let processes = json!([{"uid": uid(&pod), "mib": 3100, "guard": "enforcing"}]);
    report(json!({PROCESSES: processes.to_string()})).await;
    world
        .wait("it is observed with the library", async || shows("p", STATUS, "enforced").await)
        .await;
    let table = world.kai("gpus", "kai", &["--resource-reservation-app-label", "held"]).await;
    assert!(table.contains("held/p (4000, holds 3100) held/q (4000, holds 0)"), "{table}");
    assert!(table.contains("held/p: enforced; held/q: not enforceable: "), "{table}");
}
