//! Tegra: the library is in a folder of its own, and NVIDIA's runtime mounts nothing.

use kai_testenv::NvidiaRuntime;
use serde_json::{Value, json};

use crate::sandboxed;
use crate::site::{Gpus, Site};

const FOLDER: &str = "/usr/lib/aarch64-linux-gnu/nvidia";

/// A node like a Jetson, on which the profile is turned off, and an ordinary one.
async fn nodes(site: &mut Site) {
    let labels = [
        ("nvidia.com/gpu.count", "1"),
        ("nvidia.com/gpu.memory", "131072"),
        ("kai.scheduler/tegra", "off"),
    ];
    let mut jetson = site.plan("jetson", &labels);
    jetson.runtime = NvidiaRuntime::MountsNothing;
    jetson.own_libraries = Some((site.libraries(), "aarch64-linux-gnu/nvidia".to_owned()));
    site.node(&jetson).await;
    let one = Gpus { count: 1, replicas: 1, mib: 131_072 };
    site.advertise("jetson", one).await;
    site.gpu_node("server", one).await;
}

/// A pod that wants half a device of this node.
async fn half_on(site: &Site, pod: &str, node: &str) {
    let mut object = site.pod(pod, &json!({"gpu-fraction": "0.5"}), &json!({}));
    object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    site.world.create_pod(&object).await;
}

/// The container of the node's reservation pod, and the pod.
async fn reservation(site: &Site, node: &str) -> (Value, Value) {
    let pods = site.reservations().await;
    let pod = pods.into_iter().find(|pod| pod["spec"]["nodeName"] == node).expect("a reservation");
    (pod["spec"]["containers"][0].clone(), pod)
}

#[test]
fn only_tegra_nodes_get_the_tegra_profile() {
    sandboxed("tegra::only_tegra_nodes_get_the_tegra_profile", async || {
        let mut site = Site::with_runtime("tegra").await;
        nodes(&mut site).await;
        site.start_kai(&[]).await;
        half_on(&site, "edge", "jetson").await;
        half_on(&site, "centre", "server").await;
        site.wait_running("centre").await;
        profile_is_off(&site).await;
        site.wait_running("edge").await;
        let (container, pod) = reservation(&site, "jetson").await;
        assert_eq!(container["securityContext"]["privileged"], true);
        let path = variable(&container, "LD_LIBRARY_PATH");
        assert_eq!(path.as_deref(), Some(FOLDER), "{container}");
        assert_eq!(variable(&container, "NVIDIA_DRIVER_CAPABILITIES").as_deref(), Some("utility"));
        let volumes = pod["spec"]["volumes"].to_string();
        assert!(volumes.contains(&format!("{{\"path\":\"{FOLDER}\"")), "{volumes}");
        assert!(volumes.contains("{\"path\":\"/dev\""), "{volumes}");
        let (container, pod) = reservation(&site, "server").await;
        assert_ne!(container["securityContext"]["privileged"], true);
        assert_eq!(variable(&container, "LD_LIBRARY_PATH"), None);
        assert!(!pod["spec"]["volumes"].to_string().contains("hostPath"), "{pod}");
    });
}

fn variable(container: &Value, name: &str) -> Option<String> {
    let variables = container["env"].as_array()?;
    let found = variables.iter().find(|variable| variable["name"] == name)?;
    found["value"].as_str().map(str::to_owned)
}

/// The pod reports the error of its reservation pod, `kai doctor` prints the fix, and the test applies it.
async fn profile_is_off(site: &Site) {
    site.wait_bind_failure("edge", "ERROR_LIBRARY_NOT_FOUND").await;
    site.world
        .wait("the reservation's log says so", async || {
            let pods = site.reservations().await;
            let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
            names
                .map(|name| site.log_of_reservation(name))
                .any(|log| log.contains("unable to initialize NVML: ERROR_LIBRARY_NOT_FOUND"))
        })
        .await;
    let cure = || {
        let mut found = site.doctor().into_iter();
        found.find(|finding| finding["check"] == "nvml-library-not-found")
    };
    site.world.wait("doctor finds it", async || cure().is_some()).await;
    let cure = cure().expect("a finding");
    assert_eq!(cure["fix"], "kubectl label node jetson kai.scheduler/tegra=on --overwrite");
    site.obey(&cure);
}
