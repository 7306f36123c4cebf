//! Objects as users write them, and the input of the planner that follows from them. `tests/golden/<kind>.yaml` holds a list of cases:
//! `object`, the fields of the result in `expect` (in Rust's debug notation), and every problem in `problems`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kai_core::input::{NodeSpec, PodGroupSpec, PodSpec, QueueSpec};
use kai_translate::decode::decode;
use kai_translate::device_judge::CelJudge;
use kai_translate::gpus::Probed;
use kai_translate::partition::Partition;
use kai_translate::pod::PodRules;
use kai_translate::priority::PriorityClasses;
use kai_translate::{Translated, bind_request, budget, device_slice, devices, namespace, node};
use kai_translate::{numa, pod, pod_group, queue, storage, topology};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    object: Value,
    #[serde(default)]
    expect: BTreeMap<String, String>,
    #[serde(default)]
    left_out: bool,
    #[serde(default)]
    problems: Vec<String>,
}

type Fields = BTreeMap<&'static str, String>;

macro_rules! fields {
    ($object:expr; $($name:literal => $value:expr),* $(,)?) => {
        Fields::from([$(($name, show(&$value))),*])
    };
}

fn show(value: &impl Debug) -> String {
    format!("{value:?}")
}

fn judge(text: &str, translate: impl Fn(&Value) -> Translated<Fields>) {
    let options = serde_saphyr::options! { strict_booleans: true };
    let cases: Vec<Case> = serde_saphyr::from_str_with_options(text, options).expect("cases");
    assert!(!cases.is_empty());
    let mut failures = Vec::new();
    for case in cases {
        let result = translate(&case.object);
        let problems: Vec<String> = result.problems.iter().map(ToString::to_string).collect();
        if problems != case.problems {
            failures.push(format!("{}: problems {problems:#?}", case.name));
        }
        let Some(fields) = result.object else {
            if !case.left_out {
                failures.push(format!("{}: was left out", case.name));
            }
            continue;
        };
        if case.left_out || case.expect.is_empty() {
            failures.push(format!("{}: expects nothing of a result", case.name));
        }
        for (field, wanted) in &case.expect {
            let found = fields.get(field.as_str()).unwrap_or_else(|| panic!("no field {field}"));
            if found != wanted {
                failures
                    .push(format!("{}: {field}:\n  is     {found}\n  wanted {wanted}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn pod_fields(spec: &PodSpec) -> Fields {
    fields! { spec;
        "name" => spec.name.to_string(), "uid" => spec.uid, "created" => spec.created.nanos, "group" => spec.group,
        "sub_group" => spec.sub_group, "role" => spec.role, "status" => spec.status, "node" => spec.node,
        "stuck_at" => spec.stuck_at.map(|at| at.nanos / 1_000_000_000), "cpu_milli" => spec.request.cpu_milli,
        "memory_bytes" => spec.request.memory_bytes, "other" => spec.request.other, "gpu" => spec.request.gpu,
        "overhead" => spec.request.overhead, "legacy_mig" => spec.request.legacy_mig,
        "compute_mode" => spec.request.compute_mode,
        "gpu_groups" => spec.gpu_groups, "node_selector" => spec.constraints.node_selector,
        "node_terms" => spec.constraints.node_terms, "tolerations" => spec.constraints.tolerations,
        "host_ports" => spec.constraints.host_ports, "pod_affinity" => spec.constraints.pod_affinity,
        "pod_anti_affinity" => spec.constraints.pod_anti_affinity,
        "preferred_pod_terms" => spec.constraints.preferred_pod_terms,
        "volume_claims" => spec.constraints.volume_claims, "config_maps" => spec.constraints.config_maps,
        "priority_class" => spec.constraints.priority_class, "claims" => spec.claims,
        "nominated_node" => spec.nominated_node, "guaranteed" => spec.numa.guaranteed,
        "numa_containers" => spec.numa.containers, "recorded_zones" => spec.numa.recorded_zones,
    }
}

fn decoded<T: serde::de::DeserializeOwned, U>(
    kind: &str,
    object: &Value,
    translate: impl FnOnce(T) -> Translated<U>,
) -> Translated<U> {
    match decode(kind, object) {
        Ok(decoded) => translate(decoded),
        Err(problem) => Translated { object: None, problems: vec![problem] },
    }
}

#[test]
fn pods() {
    judge(include_str!("golden/pod.yaml"), |object| {
        decoded("Pod", object, |view| {
            pod::translate(&view, &PodRules::default()).map(|spec| pod_fields(&spec))
        })
    });
}

#[test]
fn nodes() {
    let of = |spec: NodeSpec| {
        fields! { spec;
            "name" => spec.name, "labels" => spec.labels, "annotations" => spec.annotations,
            "cpu_milli" => spec.allocatable.cpu_milli, "memory_bytes" => spec.allocatable.memory_bytes,
            "pods" => spec.allocatable.pods, "gpus" => spec.allocatable.gpus, "mig" => spec.allocatable.mig,
            "other" => spec.allocatable.other, "taints" => spec.taints, "unschedulable" => spec.unschedulable,
            "bad_conditions" => spec.bad_conditions, "seen" => spec.observed_gpu_uuids, "whole_gpu_policy" => spec.whole_gpu_policy,
        }
    };
    judge(include_str!("golden/node.yaml"), |object| {
        let seen = Probed { uuids: vec!["GPU-1".to_owned()], ..Probed::default() };
        decoded("Node", object, |view| node::translate(&view, &seen).map(of))
    });
}

#[test]
fn queues() {
    let of = |spec: QueueSpec| {
        fields! { spec;
            "name" => spec.name, "display_name" => spec.display_name, "parent" => spec.parent,
            "priority" => spec.priority, "created" => spec.created.nanos, "quota" => spec.quota, "limit" => spec.limit,
            "over_quota_weight" => spec.over_quota_weight, "lending_limit" => spec.lending_limit, "gpu_types" => spec.gpu_types, "preempt_min_runtime" => spec.preempt_min_runtime,
            "reclaim_min_runtime" => spec.reclaim_min_runtime,
        }
    };
    judge(include_str!("golden/queue.yaml"), |object| {
        decoded("Queue", object, |typed| queue::translate(&typed).map(of))
    });
}

#[test]
fn pod_groups() {
    let mut classes = PriorityClasses::default();
    classes.set(
        &decode("PriorityClass", &serde_json::json!({"metadata": {"name": "build"}, "value": 100}))
            .unwrap(),
    );
    let pool = Partition { key: "kai.scheduler/node-pool".into(), value: "fast".into() };
    let of = |spec: PodGroupSpec| {
        fields! { spec;
            "name" => spec.name.to_string(), "uid" => spec.uid, "queue" => spec.queue, "priority" => spec.priority,
            "preemptibility" => spec.preemptibility, "last_start" => spec.last_start.map(|at| at.nanos / 1_000_000_000),
            "stale_since" => spec.stale_since.map(|at| at.nanos / 1_000_000_000), "staleness_grace" => spec.staleness_grace,
            "preemption_delay" => spec.preemption_delay, "schedulable" => spec.schedulable, "tree" => spec.tree,
        }
    };
    judge(include_str!("golden/pod_group.yaml"), |object| {
        decoded("PodGroup", object, |typed| pod_group::translate(&typed, &classes, &pool).map(of))
    });
}

#[test]
fn other_objects() {
    judge(include_str!("golden/other.yaml"), |object| {
        let kind = object["kind"].as_str().expect("a kind");
        match kind {
            "BindRequest" => decoded(kind, object, |typed| {
                let claim = |name: &str| (name == "gpus").then(|| "pod-gpus-x7".to_owned());
                bind_request::translate(&typed, claim).map(whole)
            }),
            "PodDisruptionBudget" => {
                decoded(kind, object, |typed| budget::translate(&typed).map(whole))
            }
            "Namespace" => decoded(kind, object, |typed| namespace::translate(&typed).map(whole)),
            "Topology" => decoded(kind, object, |typed| topology::translate(&typed).map(whole)),
            "DeviceClass" => decoded(kind, object, |typed| {
                devices::class(&typed, &mut CelJudge::default()).map(whole)
            }),
            "ResourceSlice" => {
                decoded(kind, object, |typed| device_slice::slice(&typed).map(whole))
            }
            "ResourceClaim" => decoded(kind, object, |typed| {
                devices::claim(&typed, &mut CelJudge::default()).map(whole)
            }),
            "PersistentVolumeClaim" => {
                decoded(kind, object, |typed| storage::claim(&typed).map(whole))
            }
            "PersistentVolume" => decoded(kind, object, |typed| storage::volume(&typed).map(whole)),
            "StorageClass" => decoded(kind, object, |typed| storage::class(&typed).map(whole)),
            "CSIStorageCapacity" => {
                decoded(kind, object, |typed| storage::capacity(&typed).map(whole))
            }
            "NodeResourceTopology" => {
                decoded(kind, object, |typed| numa::translate(&typed).map(whole))
            }
            other => panic!("no translation of {other}"),
        }
    });
}

/// The whole object under one name.
fn whole(object: impl Debug) -> Fields {
    Fields::from([("all", show(&object))])
}
