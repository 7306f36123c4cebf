//! Two devices, advertised ten times each, and pods that come and go. The kubelet hands out ids as it likes: which device a
//! reservation gets is chance.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::sandboxed;
use crate::site::{Gpus, Site, is_true};

const DEVICE_MIB: u64 = 16_000;
const STEPS: u32 = 100;
/// So many pods are there at most: more only wait.
const MOST: usize = 9;
/// Seed of the created and deleted pods.
const SEED: u64 = 7;

/// Numbers that look like chance and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().expect("a name")
}

/// It has a node, and its containers have not ended.
fn has_place(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
        && !["Succeeded", "Failed"].map(Value::from).contains(&pod["status"]["phase"])
}

/// Groups and MiB of pods that have a place, by device.
fn use_of_devices(pods: &[Value]) -> BTreeMap<String, (BTreeSet<String>, u64)> {
    let mut devices: BTreeMap<String, (BTreeSet<String>, u64)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| has_place(pod)) {
        let annotations = &pod["metadata"]["annotations"];
        let given = annotations["kai.scheduler/gpu-devices"].as_str().expect("a device");
        let (group, device) = given.split_once('=').expect("a group and its device");
        let mib: u64 = annotations["gpu-memory"].as_str().expect("MiB").parse().expect("a number");
        let (groups, used) = devices.entry(device.to_owned()).or_default();
        groups.insert(group.to_owned());
        *used += mib;
    }
    devices
}

/// A device has one group and no more pods than fill it. Gives how many pods have a place.
async fn assert_sound(site: &Site) -> usize {
    let pods = site.pods().await;
    for (device, (groups, used)) in use_of_devices(&pods) {
        assert_eq!(groups.len(), 1, "{device} is that of several groups");
        assert!(used <= DEVICE_MIB, "{device}: {used} MiB are given away");
    }
    pods.iter().filter(|pod| has_place(pod)).count()
}

#[test]
fn no_device_is_sold_twice_however_the_node_deals_them_out() {
    sandboxed(
        "device_assignment::no_device_is_sold_twice_however_the_node_deals_them_out",
        async || {
            let mut site = Site::with_runtime("crowd").await;
            let gpus = Gpus { count: 2, replicas: 10, mib: DEVICE_MIB as u32 };
            site.gpu_node("n1", gpus).await;
            site.start_kai(&[]).await;
            come_and_go(&site).await;
            every_pod_sees_its_device(&site).await;
            let pods = site.pods().await;
            for pod in pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
                site.remove(name(pod)).await;
            }
            site.wait_empty().await;
            both_devices_can_be_filled(&site).await;
        },
    );
}

/// A hundred arrivals and departures.
async fn come_and_go(site: &Site) {
    let mut chance = Chance(SEED);
    let mut there: Vec<String> = Vec::new();
    for step in 0..STEPS {
        let comes = there.is_empty() || (there.len() < MOST && chance.below(5) < 3);
        if comes {
            let pod = format!("p{step}");
            let mib = [2_000, 4_000, 6_000, 8_000, 12_000][chance.below(5)];
            site.share(&pod, &json!({"gpu-memory": mib.to_string()})).await;
            there.push(pod);
        } else {
            let pod = there.remove(chance.below(there.len()));
            site.remove(&pod).await;
        }
        // Some are placed while others come, some before.
        for _ in 0..=chance.below(6) {
            assert_sound(site).await;
        }
        if step % 10 == 9 && !there.is_empty() {
            let what = "a pod is bound";
            site.world.wait(what, async || assert_sound(site).await > 0).await;
        }
    }
}

/// The API and the variables of containers name the same devices.
async fn every_pod_sees_its_device(site: &Site) {
    let pods = site.pods().await;
    for pod in pods
        .iter()
        .filter(|pod| is_true(pod, "Ready") && pod["metadata"]["deletionTimestamp"].is_null())
    {
        let given = pod["metadata"]["annotations"]["kai.scheduler/gpu-devices"].as_str();
        let device = given.and_then(|given| given.split_once('=')).expect("a device").1;
        assert_eq!(site.devices(name(pod)), device);
    }
}

/// Nothing was lost on the way: pods that fill both devices run.
async fn both_devices_can_be_filled(site: &Site) {
    let pods = ["a", "b", "c", "d"];
    for pod in pods {
        site.share(pod, &json!({"gpu-memory": (DEVICE_MIB / 2).to_string()})).await;
    }
    for pod in pods {
        site.wait_running(pod).await;
    }
    assert_sound(site).await;
    assert_eq!(use_of_devices(&site.pods().await).len(), 2, "both devices are used");
}
