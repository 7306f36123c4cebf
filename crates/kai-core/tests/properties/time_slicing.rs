//! Time-sliced GPUs: what is advertised is not what exists. Cases (a) to (e) of the specification, and those of whole
//! GPUs under either policy.

use kai_core::check;
use kai_core::compatibility::Compatibility;
use kai_core::config::Config;
use kai_core::input::node::WholeGpuPolicy;
use kai_core::input::pod::{GpuRequest, PodRequest};
use kai_core::input::pod_group::{GroupLeaf, GroupSet};
use kai_core::input::{Delta, NodeSpec, Object, PodGroupSpec, PodSpec, QueueSpec, Text};
use kai_core::plan::{CyclePlan, StepKind, plan, plan_and_observe};
use kai_core::status::Status;
use kai_core::time::Timestamp;
use kai_core::world::World;
use proptest::prelude::*;

use crate::worlds::nodes::bare_node;
use crate::worlds::pods::bare_pod;
use crate::worlds::{named, now, show};

/// A node that advertises `advertised` GPUs.
fn node(advertised: i64, labels: &[(&str, &str)]) -> NodeSpec {
    let mut node = bare_node("node");
    node.allocatable.gpus = advertised;
    node.labels =
        labels.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect();
    node
}

/// A queue without bounds.
pub(crate) fn queue() -> QueueSpec {
    QueueSpec::unbounded("queue")
}

/// A group that needs `min` pods.
pub(crate) fn group(name: &str, min: u32) -> PodGroupSpec {
    let leaf = GroupLeaf { name: "default".into(), min_available: min, topology: None };
    let tree = GroupSet { leaves: vec![leaf], ..GroupSet::default() };
    PodGroupSpec::preemptible(named(name), "queue", tree)
}

/// A waiting pod of a group.
pub(crate) fn pod(name: &str, group: &str, gpu: GpuRequest) -> PodSpec {
    let request =
        PodRequest { cpu_milli: 100, memory_bytes: 1_000_000, gpu, ..PodRequest::default() };
    PodSpec { group: Some(group.into()), request, ..bare_pod(name) }
}

fn world_with(config: Config, node: NodeSpec) -> World {
    let mut world = World::new(config);
    set(&mut world, Object::Node(Box::new(node)));
    set(&mut world, Object::Queue(queue()));
    world
}

fn set(world: &mut World, object: Object) {
    let effect = world.apply(Delta::Set(object));
    assert_eq!(effect.problems, []);
}

/// Each pod in a group of its own, in the order in which they are to be served.
fn with_pods(world: &mut World, requests: &[GpuRequest]) {
    for (at, request) in requests.iter().enumerate() {
        let name = format!("pod-{at}");
        let mut group = group(&name, 1);
        group.created = Timestamp::from_seconds(at as f64);
        set(world, Object::PodGroup(Box::new(group)));
        set(world, Object::Pod(Box::new(pod(&name, &name, request.clone()))));
    }
}

fn bound(plan: &CyclePlan) -> Vec<&str> {
    let binds = plan.steps.iter().filter(|step| matches!(step.kind, StepKind::Bind { .. }));
    binds.map(|step| &*step.pod.name).collect()
}

fn groups_of<'p>(plan: &'p CyclePlan, pod: &str) -> &'p [Text] {
    let step = plan.steps.iter().find(|step| &*step.pod.name == pod).expect("it is decided");
    match &step.kind {
        StepKind::Bind { gpu_groups, .. } => gpu_groups,
        other => panic!("{other:?}"),
    }
}

/// Error messages of the job `job`.
fn reasons(plan: &CyclePlan, job: &str) -> String {
    let report = plan.waiting.iter().find(|report| &*report.job.name == job).expect("it waits");
    report.errors.iter().map(|error| error.message.to_string()).collect::<Vec<_>>().join("\n")
}

/// Makes the pods that were bound run.
fn carry_out(world: &mut World, plan: &CyclePlan) {
    for step in &plan.steps {
        if let StepKind::Bind { node, gpu_groups, .. } = &step.kind {
            let task = world.task_named(&step.pod).expect("it is there");
            let mut pod = (*world.task(task).spec).clone();
            pod.status = Status::Running;
            pod.node = Some(node.clone());
            pod.gpu_groups.clone_from(gpu_groups);
            set(world, Object::Pod(Box::new(pod)));
        }
    }
    assert_eq!(check::violations(world), []);
}

fn memory(mib: i64) -> GpuRequest {
    GpuRequest::Memory { mib, devices: 1 }
}

fn part(portion: f64) -> GpuRequest {
    GpuRequest::Fraction { portion, devices: 1 }
}

fn whole(count: i64) -> GpuRequest {
    GpuRequest::Whole { count }
}

const BOTH: [Compatibility; 2] = [Compatibility::Right, Compatibility::Kai];

fn configured(compatibility: Compatibility) -> Config {
    Config { compatibility, ..Config::default() }
}

#[test]
fn case_a_four_pods_fit_one_device_advertised_as_a_hundred() {
    for compatibility in BOTH {
        let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "32600")];
        let mut world = world_with(configured(compatibility), node(100, &labels));
        with_pods(&mut world, &[const { GpuRequest::Memory { mib: 8_000, devices: 1 } }; 5]);
        let first = plan(&mut world, now());
        assert_eq!(bound(&first), ["pod-0", "pod-1", "pod-2", "pod-3"]);
        let device = groups_of(&first, "pod-0").to_vec();
        assert!((1..4).all(|at| groups_of(&first, &format!("pod-{at}")) == device));
        carry_out(&mut world, &first);
        let second = plan(&mut world, now());
        assert_eq!(bound(&second), [""; 0]);
        if compatibility == Compatibility::Right {
            let message = reasons(&second, "pod-4");
            assert!(
                message.contains("32000 of 32600 MiB used by 4 pods, 8000 MiB requested"),
                "{message}"
            );
        }
    }
}

#[test]
fn case_b_two_devices_hold_two_large_parts() {
    for compatibility in BOTH {
        let labels = [("nvidia.com/gpu.count", "2"), ("nvidia.com/gpu.memory", "32600")];
        let mut world = world_with(configured(compatibility), node(20, &labels));
        with_pods(&mut world, &[part(0.6), part(0.6), part(0.6)]);
        let plan = plan(&mut world, now());
        assert_eq!(bound(&plan), ["pod-0", "pod-1"]);
        assert_ne!(groups_of(&plan, "pod-0"), groups_of(&plan, "pod-1"));
    }
}

#[test]
fn case_c_a_whole_gpu_takes_the_physical_device() {
    for compatibility in BOTH {
        let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "32600")];
        let mut world = world_with(configured(compatibility), node(10, &labels));
        with_pods(&mut world, &[whole(1), whole(1), part(0.1)]);
        let plan = plan(&mut world, now());
        assert_eq!(bound(&plan), ["pod-0"]);
        carry_out(&mut world, &plan);
        let again = kai_core::plan::plan(&mut world, now());
        assert_eq!(bound(&again), [""; 0]);
    }
}

#[test]
fn case_d_parts_join_and_a_whole_gpu_waits() {
    for compatibility in BOTH {
        let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "32600")];
        let mut world = world_with(configured(compatibility), node(10, &labels));
        with_pods(&mut world, &[part(0.5)]);
        let first = plan(&mut world, now());
        carry_out(&mut world, &first);
        with_pods(&mut world, &[part(0.5), part(0.5), whole(1)]);
        // Applying the first pod again made it pending again: it runs.
        carry_out(&mut world, &first);
        let second = plan(&mut world, now());
        assert_eq!(bound(&second), ["pod-1"]);
        assert_eq!(groups_of(&second, "pod-1"), groups_of(&first, "pod-0"));
    }
}

#[test]
fn case_e_without_a_label_what_is_advertised_counts() {
    for compatibility in BOTH {
        let mut world =
            world_with(configured(compatibility), node(2, &[("nvidia.com/gpu.memory", "32600")]));
        with_pods(&mut world, &[whole(1), whole(1), whole(1)]);
        assert_eq!(bound(&plan(&mut world, now())), ["pod-0", "pod-1"]);
    }
}

#[test]
fn sharing_waits_where_the_number_of_devices_is_unknown() {
    let labels =
        [("nvidia.com/gpu.memory", "32600"), ("nvidia.com/gpu.sharing-strategy", "time-slicing")];
    let mut world = world_with(Config::default(), node(4, &labels));
    with_pods(&mut world, &[part(0.5)]);
    let plan = plan(&mut world, now());
    assert_eq!(bound(&plan), [""; 0]);
    assert!(
        reasons(&plan, "pod-0").contains("nvidia.com/gpu.count"),
        "{}",
        reasons(&plan, "pod-0")
    );
}

/// One L4 advertised as four, and a gang of three pods that ask for a whole GPU each.
fn gang_on_an_l4(policy: WholeGpuPolicy) -> World {
    let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "23034")];
    let mut config = Config::default();
    config.params.whole_gpu_policy = policy;
    let mut world = world_with(config, node(4, &labels));
    set(&mut world, Object::PodGroup(Box::new(group("gang", 3))));
    for name in ["gang-0", "gang-1", "gang-2"] {
        set(&mut world, Object::Pod(Box::new(pod(name, "gang", whole(1)))));
    }
    world
}

#[test]
fn a_gang_on_one_l4_waits_under_physical_and_its_message_names_the_policy() {
    let plan = plan(&mut gang_on_an_l4(WholeGpuPolicy::Physical), now());
    assert_eq!(bound(&plan), [""; 0]);
    let message = reasons(&plan, "gang");
    assert!(
        message.contains(
            "Node node advertises 4 GPUs of which 1 exist: whole GPUs take physical devices there \
             (policy physical)."
        ),
        "{message}"
    );
}

#[test]
fn a_gang_on_one_l4_runs_under_replica() {
    let mut world = gang_on_an_l4(WholeGpuPolicy::Replica);
    let first = plan(&mut world, now());
    assert_eq!(bound(&first), ["gang-0", "gang-1", "gang-2"]);
    carry_out(&mut world, &first);
    with_pods(&mut world, &[whole(1), whole(1), part(0.1)]);
    let second = plan(&mut world, now());
    assert_eq!(bound(&second), ["pod-0"], "four replicas are all there are");
}

#[test]
fn the_policy_of_a_node_wins_over_that_of_the_cluster() {
    let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "23034")];
    let mut sliced = node(4, &labels);
    sliced.whole_gpu_policy = Some(WholeGpuPolicy::Replica);
    let mut world = world_with(Config::default(), sliced);
    with_pods(&mut world, &[whole(1), whole(1)]);
    assert_eq!(bound(&plan(&mut world, now())), ["pod-0", "pod-1"]);
}

#[test]
fn a_pod_never_gets_two_replicas_of_one_device() {
    let mut config = Config::default();
    config.params.whole_gpu_policy = WholeGpuPolicy::Replica;
    let labels = [("nvidia.com/gpu.count", "2"), ("nvidia.com/gpu.memory", "16384")];
    let mut world = world_with(config, node(8, &labels));
    with_pods(&mut world, &[whole(2), whole(3), whole(2)]);
    let first = plan(&mut world, now());
    assert_eq!(bound(&first), ["pod-0", "pod-2"], "three replicas would need three devices");
    let devices = groups_of(&first, "pod-0");
    assert_eq!(devices.len(), 2);
    assert_ne!(devices[0], devices[1]);
    carry_out(&mut world, &first);
}

#[test]
fn replicas_that_ran_in_any_order_leave_no_device_too_many() {
    let mut config = Config::default();
    config.params.whole_gpu_policy = WholeGpuPolicy::Replica;
    let labels = [("nvidia.com/gpu.count", "2"), ("nvidia.com/gpu.memory", "16384")];
    let mut world = world_with(config, node(4, &labels));
    with_pods(&mut world, &[whole(2)]);
    let first = plan(&mut world, now());
    carry_out(&mut world, &first);
    // By UID the single replicas come first; filling a device with them would leave one for the pair.
    for name in ["a", "b"] {
        set(&mut world, Object::PodGroup(Box::new(group(name, 1))));
        set(&mut world, Object::Pod(Box::new(pod(name, name, whole(1)))));
    }
    let second = plan(&mut world, now());
    assert_eq!(bound(&second), ["a", "b"]);
    carry_out(&mut world, &second);
}

#[test]
fn memory_is_exact_unless_kai_is_to_be_reproduced() {
    let labels = [("nvidia.com/gpu.memory", "32768")];
    for (compatibility, fit) in [(Compatibility::Right, 4), (Compatibility::Kai, 3)] {
        let mut world = world_with(configured(compatibility), node(1, &labels));
        with_pods(&mut world, &[memory(8_192), memory(8_192), memory(8_192), memory(8_192)]);
        assert_eq!(bound(&plan(&mut world, now())).len(), fit, "{compatibility:?}");
    }
}

#[test]
fn a_reserve_is_never_given_away() {
    let mut config = Config::default();
    config.params.gpu_memory_reserve_mib = 1;
    let mut world = world_with(config, node(1, &[("nvidia.com/gpu.memory", "32768")]));
    with_pods(&mut world, &[memory(8_192), memory(8_192), memory(8_192), memory(8_192)]);
    assert_eq!(bound(&plan(&mut world, now())).len(), 3);
}

#[test]
fn a_pod_without_gpus_does_not_mind_that_others_hold_too_many() {
    for compatibility in BOTH {
        let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "16384")];
        let mut world = world_with(configured(compatibility), node(4, &labels));
        for name in ["a", "b"] {
            let mut foreign = pod(name, "", whole(1));
            foreign.group = None;
            foreign.role = kai_core::input::pod::PodRole::Foreign;
            foreign.status = Status::Running;
            foreign.node = Some("node".into());
            set(&mut world, Object::Pod(Box::new(foreign)));
        }
        with_pods(&mut world, &[GpuRequest::None, part(0.1)]);
        assert_eq!(bound(&plan(&mut world, now())), ["pod-0"]);
    }
}

#[test]
fn a_reservation_takes_no_replica() {
    let mut config = Config::default();
    config.params.whole_gpu_policy = WholeGpuPolicy::Replica;
    let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "16384")];
    let mut world = world_with(config, node(2, &labels));
    let mut reservation = pod("reservation", "", whole(1));
    reservation.group = None;
    reservation.role = kai_core::input::pod::PodRole::Reservation;
    reservation.status = Status::Running;
    reservation.node = Some("node".into());
    set(&mut world, Object::Pod(Box::new(reservation)));
    with_pods(&mut world, &[whole(1), whole(1)]);
    assert_eq!(bound(&plan(&mut world, now())), ["pod-0", "pod-1"]);
}

proptest! {
    #![proptest_config(crate::cases(500))]

    /// Whatever is asked for in whatever order, round after round: no device gives more memory than it has and no more
    /// devices are in use than exist.
    #[test]
    fn nothing_is_sold_twice(
        physical in 1..4_i64,
        replicas in 2..6_i64,
        memory in prop_oneof![Just(23_034_i64), Just(32_768), Just(150)],
        replica_policy in any::<bool>(),
        kai in any::<bool>(),
        rounds in proptest::collection::vec(
            proptest::collection::vec(crate::worlds::pods::gpu_request(), 1..6), 1..4
        ),
    ) {
        let compatibility = if kai { Compatibility::Kai } else { Compatibility::Right };
        let mut config = configured(compatibility);
        config.params.whole_gpu_policy =
            if replica_policy { WholeGpuPolicy::Replica } else { WholeGpuPolicy::Physical };
        let (count, mib) = (physical.to_string(), memory.to_string());
        let labels = [("nvidia.com/gpu.count", &*count), ("nvidia.com/gpu.memory", &*mib)];
        let mut world = world_with(config, node(physical * replicas, &labels));
        for (round, requests) in rounds.iter().enumerate() {
            for (at, request) in requests.iter().enumerate() {
                let name = format!("round-{round}-{at}");
                set(&mut world, Object::PodGroup(Box::new(group(&name, 1))));
                set(&mut world, Object::Pod(Box::new(pod(&name, &name, request.clone()))));
            }
            let mut found = Vec::new();
            let plan = plan_and_observe(&mut world, now(), |planned| found = check::violations(planned));
            show::none(&found, &show::steps(&plan))?;
            carry_out(&mut world, &plan);
        }
    }
}
