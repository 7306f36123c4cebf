//! The log of a running `kai`: what it says of devices, and how its level and form are changed.

use serde_json::json;

use crate::served::{ask, free_port};
use crate::world::World;
use crate::{QUEUE, open};

#[tokio::test]
async fn devices_are_logged_on_request() {
    let Some(mut world) = World::new("logged").await else { return };
    let file = std::env::temp_dir().join(format!("kai-logged-{}.log", std::process::id()));
    world.log_to(&file);
    world.queue("q", open(), open()).await;
    world
        .node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "100"}))
        .await;
    let labels = json!({"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.replicas": "100"});
    world.patch("/api/v1/nodes/logged-n", &json!({"metadata": {"labels": labels}})).await;
    let port = free_port();
    let local = format!("--plugin-server-port={port}");
    world.start_kai("kai", &["--v=2", "--log-json", &local]).await;
    let log = || std::fs::read_to_string(&file).unwrap_or_default();
    let sliced = "GPU time-slicing detected (allocatable=100 devices, physical=1 GPUs)";
    world.wait("time-slicing is logged", async || log().contains(sliced)).await;
    assert_eq!(log().matches(sliced).count(), 1, "once per node and change");
    let queue = world.queue_name("q");
    let memory = |name: &str| {
        let mut pod = world.pod(name, &[(QUEUE, &queue)], &json!({"cpu": "1"}));
        // What admission would add: without it the bind fails at once and the device is free again.
        let maps = format!("{name}-shared-gpu");
        pod["metadata"]["annotations"] =
            json!({"gpu-memory": "8000", "runai/shared-gpu-configmap": maps});
        pod
    };
    world.create_pod(&memory("p0")).await;
    world.wait("it is decided", async || world.reservations().await.len() == 1).await;
    assert!(!log().contains("[GPU_"), "nothing of devices at this level");
    world
        .wait("the level is changed", async || {
            ask(port, "PUT", "/debug/flags/v", "4").is_some_and(|(status, _)| status == 200)
        })
        .await;
    for name in ["p1", "p2", "p3", "p4"] {
        world.create_pod(&memory(name)).await;
    }
    let no_fit = "TotalGpuMemory=<32600 MiB>, Fits=<false>";
    world.wait("the fifth does not fit", async || log().contains(no_fit)).await;
    let log = log();
    let line = log.lines().find(|line| line.contains(no_fit)).expect("a line");
    let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(entry["level"], "DEBUG");
    let message = entry["fields"]["message"].as_str().expect("a message");
    assert!(message.starts_with("[GPU_FILTER] Pod <logged/p"), "{message}");
    assert!(message.contains("UsedMemory=<32000 MiB>, AllocatedMemory=<32000 MiB>"), "{message}");
    // Which of the pods does not fit depends on which pod is observed first.
    for tag in ["[GPU_SELECT] Pod <logged/p", "[GPU_ALLOCATE] Pod <logged/p"] {
        assert!(log.contains(tag), "{log}");
    }
    let _ = std::fs::remove_file(&file);
}
