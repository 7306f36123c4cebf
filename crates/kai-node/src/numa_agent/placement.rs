//! What stands on a pod: how much of each zone its containers have. Pure.

use std::collections::BTreeMap;

use kai_api::names::resources::CPU;
use serde_json::{Map, Value, json};

use super::zones::Zones;
use crate::kubelet::pod_resources::PodResources;

/// The annotation of a pod; none where nothing of it is aligned.
///
/// What lies in several zones, or in none, belongs to no zone.
pub fn annotation(pod: &PodResources, zones: &Zones) -> Option<String> {
    let mut amounts: BTreeMap<i64, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut add = |zone: i64, resource, amount: u64| {
        let sum = amounts.entry(zone).or_default().entry(resource).or_default();
        *sum = sum.saturating_add(amount);
    };
    for container in &pod.containers {
        for devices in &container.devices {
            if let [zone] = devices.zones[..] {
                add(zone, &devices.resource, devices.ids.len() as u64);
            }
        }
        for zone in container.cores.iter().filter_map(|core| zones.of(*core)) {
            add(zone, CPU, 1);
        }
        for memory in container.memory.iter().filter(|memory| memory.bytes > 0) {
            if let [zone] = memory.zones[..] {
                add(zone, &memory.kind, memory.bytes);
            }
        }
    }
    let mut named: Vec<(String, Value)> = amounts
        .into_iter()
        .map(|(zone, amounts)| {
            let amounts: Map<String, Value> = amounts
                .into_iter()
                .map(|(resource, amount)| (resource.to_owned(), json!(quantity(amount))))
                .collect();
            let zone = format!("node-{zone}");
            (zone.clone(), json!({"zone": zone, "amount": amounts}))
        })
        .collect();
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    let shown: Vec<Value> = named.into_iter().map(|(_, shown)| shown).collect();
    (!shown.is_empty()).then(|| Value::from(shown).to_string())
}

/// An amount as Kubernetes writes it, with decimal suffixes.
fn quantity(mut amount: u64) -> String {
    let mut suffix = "";
    for larger in ["k", "M", "G", "T", "P", "E"] {
        if amount == 0 || !amount.is_multiple_of(1000) {
            break;
        }
        (amount, suffix) = (amount / 1000, larger);
    }
    format!("{amount}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::pod_resources::{ContainerResources, Devices, Memory};

    /// Two zones of four cores.
    fn zones() -> Zones {
        (0..8).map(|core| (core, core / 4)).collect()
    }

    fn devices(resource: &str, count: usize, zones: &[i64]) -> Devices {
        let ids = vec!["id".to_owned(); count];
        Devices { resource: resource.to_owned(), ids, zones: zones.to_vec() }
    }

    fn memory(kind: &str, bytes: u64, zones: &[i64]) -> Memory {
        Memory { kind: kind.to_owned(), bytes, zones: zones.to_vec() }
    }

    #[test]
    fn containers_are_added_up_by_zone() {
        let first = ContainerResources {
            devices: vec![devices("nvidia.com/gpu", 2, &[1]), devices("a.com/nic", 1, &[0, 1])],
            cores: vec![4, 5, 99],
            memory: vec![memory("memory", 2_000_000, &[1]), memory("memory", 0, &[0])],
        };
        let second = ContainerResources {
            devices: vec![devices("nvidia.com/gpu", 1, &[1]), devices("a.com/nic", 1, &[])],
            cores: vec![0],
            memory: vec![memory("hugepages-2Mi", 2_097_152, &[0])],
        };
        let pod = PodResources { containers: vec![first, second], ..PodResources::default() };
        assert_eq!(
            annotation(&pod, &zones()).expect("zones"),
            r#"[{"zone":"node-0","amount":{"cpu":"1","hugepages-2Mi":"2097152"}},{"zone":"node-1","amount":{"cpu":"2","memory":"2M","nvidia.com/gpu":"3"}}]"#
        );
    }

    #[test]
    fn a_pod_without_anything_of_its_own_says_nothing() {
        let shared = ContainerResources { cores: vec![99], ..ContainerResources::default() };
        let pod = PodResources { containers: vec![shared], ..PodResources::default() };
        assert_eq!(annotation(&pod, &zones()), None);
    }
}
