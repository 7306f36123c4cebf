//! Random pods and pod groups: every way to ask for GPUs, every status, trees of sub-groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_core::input::pod::{GpuRequest, PodConstraints, PodRequest, PodRole, Toleration};
use kai_core::input::pod_group::{GroupLeaf, GroupSet, Preemptibility, TopologyConstraint};
use kai_core::input::selectors::{LabelSelector, Labels};
use kai_core::input::{BindRequestSpec, BudgetSpec, PodGroupSpec, PodSpec, Text};
use kai_core::status::Status;
use kai_core::time::{Span, Timestamp};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::nodes::{MOST_NODES, node_name};
use super::queues::{MOST_QUEUES, queue_name};
use super::{moment, named, one_of};

/// Most pod groups of a cluster.
pub(crate) const MOST_GROUPS: usize = 8;
const MOST_PODS_OF_A_LEAF: usize = 4;

/// Pods of a cluster with their groups and bindings under way.
pub(crate) type Workloads = (Vec<PodGroupSpec>, Vec<PodSpec>, Vec<BindRequestSpec>);

/// Every way to ask for GPUs.
pub(crate) fn gpu_request() -> BoxedStrategy<GpuRequest> {
    let devices = || prop_oneof![6 => Just(1_i64), 2 => Just(2), 1 => Just(3)];
    let portion = one_of(vec![0.5, 0.5, 0.25, 0.3, 0.7, 1.0, 0.001, 0.55]);
    let mib = one_of(vec![8_192_i64, 16_384, 16_000, 40_000, 50, 8_190]);
    prop_oneof![
        2 => Just(GpuRequest::None),
        6 => one_of(vec![1_i64, 1, 2, 1, 2, 4, 0]).prop_map(|count| GpuRequest::Whole { count }),
        4 => (portion, devices())
            .prop_map(|(portion, devices)| GpuRequest::Fraction { portion, devices }),
        4 => (mib, devices()).prop_map(|(mib, devices)| GpuRequest::Memory { mib, devices }),
        1 => one_of(vec!["nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"])
            .prop_map(|profile| GpuRequest::Mig(vec![(profile.into(), 1)])),
    ]
    .boxed()
}

/// Other resources, in any order.
pub(crate) fn others(often: f64) -> BoxedStrategy<Vec<(Text, i64)>> {
    let names = vec!["example.com/a", "example.com/b", "example.com/c"];
    let some = proptest::sample::subsequence(names, 1..=3).prop_shuffle();
    let amounts =
        some.prop_map(|names| names.into_iter().map(|name| (name.into(), 1_000)).collect());
    option::weighted(often, amounts).prop_map(Option::unwrap_or_default).boxed()
}

fn request() -> BoxedStrategy<PodRequest> {
    (
        gpu_request(),
        one_of(vec![1_000_i64, 0, 2_500]),
        one_of(vec![1_000_000_000_i64, 0]),
        others(0.1),
    )
        .prop_map(|(gpu, cpu_milli, memory_bytes, other)| PodRequest {
            cpu_milli,
            memory_bytes,
            other,
            gpu,
            ..PodRequest::default()
        })
        .boxed()
}

fn constraints() -> BoxedStrategy<PodConstraints> {
    let selector = option::weighted(0.15, one_of(vec!["a", "b"]));
    let tolerates = prop_oneof![6 => Just(false), 1 => Just(true)];
    (selector, tolerates)
        .prop_map(|(zone, tolerates)| PodConstraints {
            node_selector: zone.map(|zone| ("zone".into(), zone.into())).into_iter().collect(),
            tolerations: tolerates
                .then(|| Toleration { key: Some("team".into()), value: None, effect: None })
                .into_iter()
                .collect(),
            ..PodConstraints::default()
        })
        .boxed()
}

/// Where a pod is in its life, and where in the cluster.
#[derive(Clone, Debug)]
struct Life {
    status: Status,
    node: usize,
    /// Which of the node's shared devices, where the pod names one.
    devices: Vec<usize>,
    created: u8,
    stuck_at: Option<Timestamp>,
}

fn life(usual: Status) -> BoxedStrategy<Life> {
    let status = prop_oneof![
        20 => Just(usual),
        1 => Just(Status::Running),
        1 => Just(Status::Pending),
        1 => one_of(Status::ALL.to_vec()),
        1 => Just(Status::Releasing),
    ];
    (
        status,
        0..MOST_NODES,
        option::weighted(0.9, proptest::sample::subsequence(vec![0_usize, 1, 2, 3], 3)),
        0..4_u8,
        option::weighted(0.5, moment()),
    )
        .prop_map(|(status, node, devices, created, stuck_at)| Life {
            status,
            node,
            devices: devices.unwrap_or_default(),
            created,
            stuck_at,
        })
        .boxed()
}

/// A waiting pod that asks for nothing, in no group.
pub(crate) fn bare_pod(name: &str) -> PodSpec {
    let spec = PodSpec::pending(named(name), PodRequest::default());
    PodSpec { uid: format!("uid-{name}").into(), ..spec }
}

fn enliven(pod: &mut PodSpec, life: &Life) {
    pod.status = life.status;
    pod.created = Timestamp::from_seconds(f64::from(life.created));
    let has_node = life.status.is_active_used() || life.status == Status::Unknown;
    if !has_node {
        return;
    }
    pod.node = Some(node_name(life.node));
    if life.status == Status::Releasing {
        pod.stuck_at = life.stuck_at;
    }
    let wanted = match pod.request.gpu {
        GpuRequest::Fraction { devices, .. } | GpuRequest::Memory { devices, .. } => devices,
        _ => 0,
    };
    let device = |at: &usize| Text::from(format!("gpu-{}-{at}", life.node));
    pod.gpu_groups = life.devices.iter().take(wanted as usize).map(device).collect();
}

/// Pods of one kind.
#[derive(Clone, Debug)]
struct LeafPods {
    request: PodRequest,
    constraints: PodConstraints,
    min: u32,
    lives: Vec<Life>,
}

fn leaf_pods(usual: Status) -> BoxedStrategy<LeafPods> {
    let lives =
        prop_oneof![6 => vec(life(usual), 1..=3), 1 => vec(life(usual), 0..=MOST_PODS_OF_A_LEAF)];
    (request(), constraints(), lives, 0..=2_u32)
        .prop_map(|(request, constraints, lives, below)| {
            let min = (lives.len() as u32).saturating_sub(below);
            LeafPods { request, constraints, min, lives }
        })
        .boxed()
}

#[derive(Clone, Debug)]
struct GroupParts {
    leaves: Vec<LeafPods>,
    tree: usize,
    required: Option<TopologyConstraint>,
    min_members: Option<u32>,
}

fn constraint() -> impl Strategy<Value = TopologyConstraint> {
    (one_of(vec!["zone", "host"]), any::<bool>()).prop_map(|(level, required)| TopologyConstraint {
        topology: "net".into(),
        required: required.then(|| level.into()),
        preferred: (!required).then(|| level.into()),
    })
}

fn parts() -> BoxedStrategy<GroupParts> {
    let usual = prop_oneof![3 => Just(Status::Running), 3 => Just(Status::Pending)];
    let leaves = usual.prop_flat_map(
        |usual| prop_oneof![5 => vec(leaf_pods(usual), 1), 2 => vec(leaf_pods(usual), 2..=3)],
    );
    (leaves, 0..3_usize, option::weighted(0.1, constraint()), option::weighted(0.3, 1..=2_u32))
        .prop_map(|(leaves, tree, required, min_members)| GroupParts {
            leaves,
            tree,
            required,
            min_members,
        })
        .boxed()
}

fn leaf_name(at: usize, of: usize) -> Text {
    if of == 1 { "default".into() } else { format!("leaf-{at}").into() }
}

fn tree(parts: &GroupParts) -> GroupSet {
    let count = parts.leaves.len();
    let leaf = |(at, leaf): (usize, &LeafPods)| GroupLeaf {
        name: leaf_name(at, count),
        min_available: leaf.min,
        topology: None,
    };
    let mut leaves: Vec<GroupLeaf> = parts.leaves.iter().enumerate().map(leaf).collect();
    let min_members = parts.min_members;
    let topology = parts.required.clone();
    if count > 1 && parts.tree > 0 {
        let inner = leaves.split_off(1);
        let set = GroupSet {
            name: "inner".into(),
            min_members: (parts.tree == 2).then_some(1),
            leaves: inner,
            ..GroupSet::default()
        };
        let min_members = min_members.map(|least| least.min(2));
        return GroupSet { min_members, topology, leaves, sets: vec![set], ..GroupSet::default() };
    }
    let min_members = min_members.map(|least| least.min(count as u32));
    GroupSet { min_members, topology, leaves, ..GroupSet::default() }
}

#[derive(Clone, Debug)]
struct GroupTimes {
    created: u8,
    last_start: Option<Timestamp>,
    last_eviction: Option<Timestamp>,
    stale_since: Option<Timestamp>,
    reclaim_delayed_since: Option<Timestamp>,
    grace: Option<f64>,
    delay: Option<f64>,
}

fn times() -> BoxedStrategy<GroupTimes> {
    let sometimes = || option::weighted(0.2, moment());
    (
        0..4_u8,
        option::of(moment()),
        sometimes(),
        (sometimes(), sometimes()),
        option::weighted(0.3, one_of(vec![0.0, 30.0, -1.0])),
        option::weighted(0.1, one_of(vec![5.0, 500.0, 2_000.0])),
    )
        .prop_map(|(created, last_start, last_eviction, since, grace, delay)| GroupTimes {
            created,
            last_start,
            last_eviction,
            stale_since: since.0,
            reclaim_delayed_since: since.1,
            grace,
            delay,
        })
        .boxed()
}

fn group() -> BoxedStrategy<(PodGroupSpec, GroupParts)> {
    let priority = one_of(vec![50, 50, 75, 25, 100, 125]);
    let preemptible = prop_oneof![4 => Just(true), 1 => Just(false)];
    let schedulable = prop_oneof![15 => Just(true), 1 => Just(false)];
    let half_bound = prop_oneof![15 => Just(false), 1 => Just(true)];
    let never_preempts = prop_oneof![15 => Just(false), 1 => Just(true)];
    let flags = (preemptible, schedulable, half_bound, never_preempts);
    (parts(), 0..MOST_QUEUES + 1, priority, flags, times())
        .prop_map(|(parts, queue, priority, flags, times)| {
            let (preemptible, schedulable, half_bound, never_preempts) = flags;
            let queue = queue_name(queue % MOST_QUEUES);
            let spec = PodGroupSpec {
                priority,
                preemptibility: if preemptible {
                    Preemptibility::Preemptible
                } else {
                    Preemptibility::NonPreemptible
                },
                created: Timestamp::from_seconds(f64::from(times.created)),
                last_start: times.last_start,
                last_eviction: times.last_eviction,
                stale_since: times.stale_since,
                reclaim_delayed_since: times.reclaim_delayed_since,
                staleness_grace: times.grace.map(Span::from_seconds),
                preemption_delay: times.delay.map(Span::from_seconds),
                schedulable,
                never_preempts,
                half_bound,
                ..PodGroupSpec::preemptible(named(""), queue, tree(&parts))
            };
            (spec, parts)
        })
        .boxed()
}

fn pods_of(group: &PodGroupSpec, parts: &GroupParts) -> Vec<PodSpec> {
    let mut pods = Vec::new();
    for (at, leaf) in parts.leaves.iter().enumerate() {
        for (number, life) in leaf.lives.iter().enumerate() {
            let mut pod = bare_pod(&format!("{}-{at}-{number}", group.name.name));
            pod.group = Some(group.name.name.clone());
            if parts.leaves.len() > 1 {
                pod.sub_group = Some(leaf_name(at, parts.leaves.len()));
            }
            pod.labels = Arc::new(Labels::from([("group".into(), group.name.name.clone())]));
            pod.request = leaf.request.clone();
            pod.constraints = Arc::new(leaf.constraints.clone());
            enliven(&mut pod, life);
            pods.push(pod);
        }
    }
    pods
}

/// A pod that is not ours to place: of another scheduler, a reservation, one without a group or of no known leaf.
fn odd_pod() -> BoxedStrategy<PodSpec> {
    let role = one_of(vec![PodRole::Foreign, PodRole::Reservation, PodRole::Workload]);
    (role, request(), life(Status::Running), 0..6_usize, any::<bool>())
        .prop_map(|(role, mut request, life, number, stray)| {
            let mut pod = bare_pod(&format!("odd-{number}"));
            pod.role = role;
            if role == PodRole::Reservation {
                request.gpu = GpuRequest::Whole { count: 1 };
            }
            pod.request = request;
            if stray && role == PodRole::Workload {
                pod.group = Some("group-0".into());
                pod.sub_group = Some("missing".into());
            }
            enliven(&mut pod, &life);
            pod
        })
        .boxed()
}

fn bind() -> impl Strategy<Value = (usize, usize, Option<usize>, bool)> {
    let failed = prop_oneof![5 => Just(false), 1 => Just(true)];
    (0..64_usize, 0..MOST_NODES, option::of(0..4_usize), failed)
}

/// Pod groups, their pods and some pods beside them.
pub(crate) fn workloads() -> BoxedStrategy<Workloads> {
    let odd = vec(odd_pod(), 0..=3);
    (
        prop_oneof![1 => vec(group(), 1..=3), 3 => vec(group(), 4..=MOST_GROUPS)],
        odd,
        vec(bind(), 0..=2),
    )
        .prop_map(|(groups, odd, binds)| {
            let mut specs = Vec::new();
            let mut pods: BTreeMap<Text, PodSpec> = BTreeMap::new();
            for (at, (mut group, parts)) in groups.into_iter().enumerate() {
                group.name = named(&format!("group-{at}"));
                group.uid = format!("uid-{}", MOST_GROUPS - at).into();
                pods.extend(
                    pods_of(&group, &parts).into_iter().map(|pod| (pod.name.name.clone(), pod)),
                );
                specs.push(group);
            }
            pods.extend(odd.into_iter().map(|pod| (pod.name.name.clone(), pod)));
            let pods: Vec<PodSpec> = pods.into_values().collect();
            let binds = binds_of(&pods, binds);
            (specs, pods, binds)
        })
        .boxed()
}

fn binds_of(
    pods: &[PodSpec],
    binds: Vec<(usize, usize, Option<usize>, bool)>,
) -> Vec<BindRequestSpec> {
    let mut found: BTreeMap<Text, BindRequestSpec> = BTreeMap::new();
    for (pod, node, device, failed) in binds {
        let Some(pod) = pods.get(pod % pods.len().max(1)) else { continue };
        let shares =
            matches!(pod.request.gpu, GpuRequest::Fraction { .. } | GpuRequest::Memory { .. });
        let device = device.filter(|_| shares).map(|at| Text::from(format!("gpu-{node}-{at}")));
        let bind = BindRequestSpec {
            pod: pod.name.clone(),
            node: node_name(node),
            gpu_groups: Vec::from_iter(device),
            numa_zones: None,
            claim_allocations: Vec::new(),
            failed,
        };
        found.insert(pod.name.name.clone(), bind);
    }
    found.into_values().collect()
}

/// A budget over the pods of one group.
pub(crate) fn budget() -> BoxedStrategy<BudgetSpec> {
    (0..MOST_GROUPS, 0..2_u32)
        .prop_map(|(group, allowed)| {
            let labels = Labels::from([("group".into(), format!("group-{group}").into())]);
            BudgetSpec { name: named("budget"), selector: LabelSelector::exact(&labels), allowed }
        })
        .boxed()
}

/// The pod on another node, on devices of that node.
pub(crate) fn moved(pod: &PodSpec, node: usize) -> PodSpec {
    let mut moved = pod.clone();
    moved.node = Some(node_name(node));
    let device = |at: usize| Text::from(format!("gpu-{node}-{at}"));
    moved.gpu_groups = (0..pod.gpu_groups.len()).map(device).collect();
    moved
}
