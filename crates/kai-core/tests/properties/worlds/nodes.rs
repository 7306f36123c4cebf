//! Random nodes: GPUs of every kind, with and without labels that describe them.

use kai_core::input::node::{Allocatable, Taint, TaintEffect, WholeGpuPolicy};
use kai_core::input::{NodeSpec, Text, TopologyLevel, TopologySpec};
use proptest::option;
use proptest::prelude::*;

use super::one_of;
use super::pods::others;

/// Most nodes of a cluster.
pub(crate) const MOST_NODES: usize = 8;

/// The name of a node; some names have no node.
pub(crate) fn node_name(at: usize) -> Text {
    format!("node-{at}").into()
}

/// The topology of the cluster: zones, then hosts.
pub(crate) fn topology() -> TopologySpec {
    let level = |label: &str| TopologyLevel { label: label.into(), alias: None };
    TopologySpec { name: "net".into(), levels: vec![level("zone"), level("host")] }
}

/// What GPUs a node has.
#[derive(Clone, Debug)]
enum Gpus {
    None,
    Plain {
        count: i64,
    },
    /// Fewer exist than are advertised, and some label says so.
    Sliced {
        physical: i64,
        replicas: i64,
        reported_by: &'static str,
    },
    /// Some devices are unhealthy: fewer advertised than the label says.
    Unhealthy {
        advertised: i64,
        label: i64,
    },
    Mig {
        profiles: Vec<(&'static str, i64)>,
        strategy: Option<&'static str>,
    },
}

fn gpus() -> BoxedStrategy<Gpus> {
    let reported_by = one_of(vec!["count", "replicas", "both", "override", "uuids", "nothing"]);
    prop_oneof![
        1 => Just(Gpus::None),
        8 => (1..=4_i64).prop_map(|count| Gpus::Plain { count }),
        4 => (1..=3_i64, 2..=5_i64, reported_by)
            .prop_map(|(physical, replicas, reported_by)| Gpus::Sliced { physical, replicas, reported_by }),
        1 => (1..=3_i64, 4..=5_i64)
            .prop_map(|(advertised, label)| Gpus::Unhealthy { advertised, label }),
        1 => (1..=4_i64, 0..=2_i64, option::of(one_of(vec!["single", "mixed"]))).prop_map(
            |(small, large, strategy)| Gpus::Mig {
                profiles: vec![("nvidia.com/mig-1g.5gb", small), ("nvidia.com/mig-3g.20gb", large)],
                strategy,
            }
        ),
    ]
    .boxed()
}

fn taints() -> BoxedStrategy<Vec<Taint>> {
    let effect = one_of(vec![
        TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute,
    ]);
    let taint = effect.prop_map(|effect| Taint { key: "team".into(), value: "red".into(), effect });
    option::weighted(0.1, taint).prop_map(Vec::from_iter).boxed()
}

/// A healthy node without GPUs.
pub(crate) fn bare_node(name: &str) -> NodeSpec {
    let allocatable = Allocatable {
        cpu_milli: 64_000,
        memory_bytes: 256_000_000_000,
        pods: 110,
        ..Allocatable::default()
    };
    NodeSpec::healthy(name, allocatable)
}

fn node() -> BoxedStrategy<NodeSpec> {
    let memory = prop_oneof![
        12 => one_of(vec![Some("32768"), Some("32768"), Some("16384"), Some("81559")]),
        2 => one_of(vec![None, Some("40"), Some("0"), Some("-5"), Some("many")]),
        1 => Just(Some("34359738368")),
    ];
    let amounts = (
        prop_oneof![6 => Just(64_000_i64), 1 => one_of(vec![8_000, 3_000])],
        prop_oneof![6 => Just(256_000_000_000_i64), 1 => Just(4_000_000_000)],
        prop_oneof![8 => Just(110_i64), 1 => one_of(vec![6, 2])],
    );
    let policy =
        option::weighted(0.4, one_of(vec![WholeGpuPolicy::Physical, WholeGpuPolicy::Replica]));
    let health = (
        prop_oneof![15 => Just(false), 1 => Just(true)],
        option::weighted(0.05, Just(Text::from("MemoryPressure"))),
    );
    let zone = option::weighted(0.7, one_of(vec!["a", "b"]));
    let worker = option::weighted(0.5, Just(()));
    (gpus(), memory, amounts, policy, taints(), health, zone, (worker, others(0.3)))
        .prop_map(|(gpus, memory, amounts, policy, taints, health, zone, (worker, other))| {
            let allocatable = Allocatable {
                cpu_milli: amounts.0,
                memory_bytes: amounts.1,
                pods: amounts.2,
                other,
                ..Allocatable::default()
            };
            let mut spec = NodeSpec {
                allocatable,
                taints,
                unschedulable: health.0,
                bad_conditions: Vec::from_iter(health.1),
                whole_gpu_policy: policy,
                ..bare_node("")
            };
            let labels = [("nvidia.com/gpu.memory", memory), ("zone", zone)];
            for (key, value) in labels {
                spec.labels.extend(value.map(|value| (Text::from(key), Text::from(value))));
            }
            if worker.is_some() {
                let key = if matches!(gpus, Gpus::None) { "cpu" } else { "gpu" };
                let key = format!("node-role.kubernetes.io/{key}-worker");
                spec.labels.insert(key.into(), "".into());
            }
            equip(&mut spec, gpus);
            spec
        })
        .boxed()
}

fn equip(spec: &mut NodeSpec, gpus: Gpus) {
    let label = |spec: &mut NodeSpec, key: &str, value: String| {
        spec.labels.insert(key.into(), value.into());
    };
    match gpus {
        Gpus::None => {}
        Gpus::Plain { count } => spec.allocatable.gpus = count,
        Gpus::Sliced { physical, replicas, reported_by } => {
            spec.allocatable.gpus = physical * replicas;
            if matches!(reported_by, "count" | "both") {
                label(spec, "nvidia.com/gpu.count", physical.to_string());
            }
            if matches!(reported_by, "replicas" | "both") {
                label(spec, "nvidia.com/gpu.replicas", replicas.to_string());
            }
            match reported_by {
                "override" => {
                    let key = kai_core::world::gpu_facts::GPU_COUNT_OVERRIDE;
                    spec.annotations.insert(key.into(), physical.to_string().into());
                }
                "uuids" => {
                    let uuid = |at: i64| Text::from(format!("GPU-{at}"));
                    spec.observed_gpu_uuids = (0..physical).map(uuid).collect();
                }
                "nothing" => label(spec, "nvidia.com/gpu.product", "NVIDIA-L4-SHARED".to_owned()),
                _ => {}
            }
        }
        Gpus::Unhealthy { advertised, label: count } => {
            spec.allocatable.gpus = advertised;
            label(spec, "nvidia.com/gpu.count", count.to_string());
        }
        Gpus::Mig { profiles, strategy } => {
            let profiles = profiles.into_iter().filter(|(_, count)| *count > 0);
            spec.allocatable.mig =
                profiles.map(|(name, count)| (Text::from(name), count)).collect();
            if let Some(strategy) = strategy {
                label(spec, "nvidia.com/mig.strategy", strategy.to_owned());
            }
            if strategy == Some("single") {
                spec.allocatable.gpus = 3;
            }
        }
    }
}

/// Nodes of a cluster.
pub(crate) fn nodes() -> BoxedStrategy<Vec<NodeSpec>> {
    let count = prop_oneof![3 => 1..=3_usize, 1 => 1..=MOST_NODES];
    count
        .prop_flat_map(|count| proptest::collection::vec(node(), count))
        .prop_map(|mut nodes| {
            for (at, node) in nodes.iter_mut().enumerate() {
                node.name = node_name(at);
                node.labels.insert("host".into(), node_name(at));
            }
            nodes
        })
        .boxed()
}
