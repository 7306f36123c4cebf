//! Nodes on which NVML cannot be used at all: the kubelet reports the device, if allowed.

use kai_testenv::NvidiaRuntime;
use serde_json::{Value, json};

use crate::sandboxed;
use crate::site::{Gpus, Site};

const FOLDER: &str = "/var/lib/kubelet/pod-resources";

#[test]
fn without_nvml_the_kubelet_reports_the_reserved_device() {
    let test = "kubelet::without_nvml_the_kubelet_reports_the_reserved_device";
    sandboxed(test, async || {
        let mut site = Site::new("kubelet").await;
        site.queues().await;
        let labels = [("nvidia.com/gpu.count", "2"), ("nvidia.com/gpu.memory", "16000")];
        let mut plan = site.plan("n1", &labels);
        plan.runtime = NvidiaRuntime::Absent;
        site.node(&plan).await;
        site.advertise("n1", Gpus { count: 2, replicas: 3, mib: 16_000 }).await;
        site.start_kai(&["--resource-reservation-kubelet-pod-resources", FOLDER]).await;
        for pod in ["a", "b"] {
            site.share(pod, &json!({"gpu-memory": "9000"})).await;
        }
        for pod in ["a", "b"] {
            site.wait_running(pod).await;
            let device = site.devices(pod);
            assert!(device.starts_with("GPU-00000001-") && !device.contains("::"), "{device}");
        }
        assert_ne!(site.devices("a"), site.devices("b"), "two do not fit on one device");
        for reservation in site.reservations().await {
            asks_the_kubelet_and_may_do_nothing_else(&reservation);
        }
        site.world
            .wait("the node says what works", async || {
                let node = site.world.get("/api/v1/nodes/n1").await.expect("the node");
                let ladder = &node["metadata"]["annotations"]["kai.scheduler/reservation-ladder"];
                ladder.as_str().is_some_and(|text| text.contains(r#""works":"kubelet""#))
            })
            .await;
        for pod in ["a", "b"] {
            site.remove(pod).await;
        }
        site.wait_empty().await;
    });
}

fn asks_the_kubelet_and_may_do_nothing_else(reservation: &Value) {
    let container = &reservation["spec"]["containers"][0];
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": false, "runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(container["securityContext"], security);
    let volumes = reservation["spec"]["volumes"].as_array().expect("volumes");
    let paths: Vec<&Value> =
        volumes.iter().filter_map(|volume| volume.get("hostPath")?.get("path")).collect();
    assert_eq!(paths, [FOLDER]);
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let socket = mounts.iter().find(|mount| mount["mountPath"] == FOLDER).expect("the socket");
    assert_eq!(socket["readOnly"], true);
}
