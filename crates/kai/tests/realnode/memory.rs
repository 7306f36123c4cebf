//! One device, advertised a hundred times: what its memory allows runs, and no more.

use serde_json::{Value, json};

use crate::sandboxed;
use crate::site::{BUSYBOX, Gpus, Site, is_true};

const DEVICE: &str = "GPU-00000001-0000-4000-8000-000000000000";

/// The reported reproduction: five pods of 8,000 MiB, as users apply it, but for an image that is there and a scheduler that
/// is ours.
fn ubuntu_test(scheduler: &str) -> Value {
    let text = include_str!("../../../../docs/gpu-sharing/multiubuntu.yaml");
    let mut deployment: Value = serde_saphyr::from_str(text).expect("YAML");
    let spec = &mut deployment["spec"]["template"]["spec"];
    spec["schedulerName"] = json!(scheduler);
    spec["terminationGracePeriodSeconds"] = json!(5); // it ignores SIGTERM
    spec["containers"][0]["image"] = json!(BUSYBOX);
    deployment
}

fn names(pods: &[Value]) -> Vec<String> {
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn five_pods_want_a_device_that_four_fill() {
    sandboxed("memory::five_pods_want_a_device_that_four_fill", async || {
        let mut site = Site::with_runtime("memory").await;
        site.gpu_node("n1", Gpus { count: 1, replicas: 100, mib: 32_600 }).await;
        site.start_kai(&[]).await;
        let deployments = "/apis/apps/v1/namespaces/memory/deployments";
        site.world.create(deployments, &ubuntu_test("memory")).await;
        four_run(&site).await;
        fifth_pod_reports_why_it_is_pending(&site).await;
        let checks: Vec<Value> =
            site.doctor().into_iter().map(|finding| finding["check"].clone()).collect();
        assert_eq!(checks, ["time-slicing"], "nothing else is wrong with such a cluster");
        the_fifth_waits_for_the_old_container(&site).await;
        site.world.delete(&format!("{deployments}/ubuntu-test"), &json!({})).await;
        site.wait_empty().await;
    });
}

/// Four containers run, and each knows its device.
async fn four_run(site: &Site) {
    let running = async || {
        let mut pods = site.pods().await;
        pods.retain(|pod| is_true(pod, "Ready"));
        pods
    };
    site.world.wait("four pods run", async || running().await.len() == 4).await;
    for pod in names(&running().await) {
        assert_eq!(site.devices(&pod), DEVICE, "{pod}");
    }
    let reservations = site.reservations().await;
    assert_eq!(reservations.len(), 1, "one device, one reservation");
    let annotations = &reservations[0]["metadata"]["annotations"];
    assert_eq!(annotations["run.ai/reserve_for_gpu_index"], DEVICE);
    // Each pod and the reservation: the container, and the one that holds its namespaces.
    assert_eq!(site.nodes[0].running().expect("containers").len(), 10);
}

async fn fifth_pod_reports_why_it_is_pending(site: &Site) {
    site.world
        .wait("the fifth is pending with a reason", async || {
            let pods = site.pods().await;
            let reasons: Vec<&str> = pods.iter().filter_map(Site::waits_for).collect();
            matches!(reasons[..], [why] if why.contains("GPU"))
        })
        .await;
    assert_eq!(site.pods().await.iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count(), 1);
}

/// A pod that is evicted keeps its part until its container has ended.
async fn the_fifth_waits_for_the_old_container(site: &Site) {
    let pods = site.pods().await;
    let (running, waiting): (Vec<Value>, Vec<Value>) =
        pods.into_iter().partition(|pod| is_true(pod, "Ready"));
    let (old, fifth) = (names(&running).remove(0), names(&waiting).remove(0));
    let container = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["containerID"].as_str().map(str::to_owned)
    };
    let old_container = container(&running[0]).expect("a container");
    let old_container = old_container.trim_start_matches("containerd://").to_owned();
    site.world.delete(&format!("/api/v1/namespaces/memory/pods/{old}"), &json!({})).await;
    site.world
        .wait("the fifth is placed", async || {
            // Looked at in this order: what runs before the pod is placed may have ended since, not begun.
            let placed = site.world.node_of(&fifth).await.is_some();
            let old_runs = site.nodes[0].running().expect("containers").contains(&old_container);
            assert!(!(placed && old_runs), "{fifth} has the place of a container that runs");
            placed
        })
        .await;
    site.wait_running(&fifth).await;
}
