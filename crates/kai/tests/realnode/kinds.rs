//! Halves, memory and whole GPUs beside each other; nodes with few labels.

use serde_json::json;

use crate::sandboxed;
use crate::site::{Gpus, Site};

#[test]
fn parts_and_whole_devices_live_beside_each_other() {
    sandboxed("kinds::parts_and_whole_devices_live_beside_each_other", async || {
        let mut site = Site::with_runtime("kinds").await;
        site.gpu_node("n1", Gpus { count: 2, replicas: 1, mib: 16_000 }).await;
        site.start_kai(&[]).await;
        site.share("half", &json!({"gpu-fraction": "0.5"})).await;
        site.wait_running("half").await;
        site.share("quarter", &json!({"gpu-memory": "4000"})).await;
        site.wait_running("quarter").await;
        site.whole("whole", "1").await;
        site.wait_running("whole").await;
        assert_eq!(site.devices("half"), site.devices("quarter"), "they fit on one device");
        assert_ne!(site.devices("half"), site.devices("whole"), "the other one is whole");
        site.whole("more", "1").await;
        site.share("three-quarters", &json!({"gpu-fraction": "0.75"})).await;
        site.wait_waiting("more").await;
        site.wait_waiting("three-quarters").await;
        for pod in ["half", "quarter", "whole", "more", "three-quarters"] {
            site.remove(pod).await;
        }
        site.wait_empty().await;
    });
}

#[test]
fn pods_run_on_three_nodes() {
    sandboxed("kinds::pods_run_on_three_nodes", async || {
        let mut site = Site::with_runtime("three").await;
        let nodes = ["n1", "n2", "n3"];
        for node in nodes {
            site.gpu_node(node, Gpus { count: 1, replicas: 1, mib: 16_000 }).await;
        }
        site.start_kai(&[]).await;
        let mut used = Vec::new();
        for pod in ["a", "b", "c"] {
            site.share(pod, &json!({"gpu-memory": "9000"})).await;
            site.wait_running(pod).await;
            let pod_object = site.world.see_pod(pod).await.expect("the pod");
            used.push(pod_object["spec"]["nodeName"].as_str().expect("a node").to_owned());
        }
        used.sort();
        assert_eq!(used, nodes, "two do not fit on one device");
        for pod in ["a", "b", "c"] {
            site.remove(pod).await;
        }
        site.wait_empty().await;
    });
}

#[test]
fn a_node_without_labels_is_used_and_labels_count_when_they_come() {
    let test = "kinds::a_node_without_labels_is_used_and_labels_count_when_they_come";
    sandboxed(test, async || {
        let mut site = Site::with_runtime("bare").await;
        let plan = site.plan("n1", &[]);
        site.node(&plan).await;
        site.advertise("n1", Gpus { count: 1, replicas: 4, mib: 0 }).await;
        site.start_kai(&[]).await;
        // Without labels the node counts as four devices.
        site.whole("whole", "2").await;
        site.wait_running("whole").await;
        site.share("half", &json!({"gpu-fraction": "0.5"})).await;
        site.wait_running("half").await;
        site.share("memory", &json!({"gpu-memory": "4000"})).await;
        let why = site.wait_waiting("memory").await;
        assert!(why.to_lowercase().contains("gpu memory"), "{why}");
        for pod in ["whole", "half"] {
            site.remove(pod).await;
        }
        site.wait_empty().await;
        // Labels now report one device and its memory.
        let labels = json!({"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "16000"});
        site.world.patch("/api/v1/nodes/n1", &json!({"metadata": {"labels": labels}})).await;
        site.wait_running("memory").await;
        site.whole("late", "1").await;
        site.wait_waiting("late").await;
        site.remove("memory").await;
        site.wait_running("late").await;
        // It counts as the physical device. Which replica it has is unknown.
        site.share("after", &json!({"gpu-memory": "100"})).await;
        site.wait_waiting("after").await;
        let found = site.doctor();
        let sliced = found.iter().find(|finding| finding["check"] == "time-slicing");
        let message = sliced.expect("a warning")["message"].as_str().expect("a text");
        assert!(message.contains("the device plugin chooses the GPU"), "{message}");
    });
}
