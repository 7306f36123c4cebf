//! Clusters whose free GPUs are scattered over nodes, so that jobs fit once others move together: the search that
//! counts must decide what the search that tries everything decides.

use kai_core::config::{ActionKind, Config};
use kai_core::input::pod::GpuRequest;
use kai_core::input::{NodeSpec, PodGroupSpec, PodSpec, QueueSpec, Text};
use kai_core::plan::plan;
use kai_core::status::Status;
use kai_core::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::repeatable::{same_plan, without_effort};
use crate::time_slicing::{group, pod, queue};
use crate::worlds::nodes::{bare_node, node_name};
use crate::worlds::{Cluster, compatibility, now, one_of};

/// One job: pods of `gpus` GPUs each, of which `spare` are not needed.
#[derive(Clone, Debug)]
struct Job {
    queue: usize,
    created: u8,
    gpus: i64,
    pods: u32,
    spare: u32,
    /// The node of its first pod; the others follow on the next nodes.
    node: usize,
}

fn job(gpus: Vec<i64>, pods: impl Strategy<Value = u32>) -> impl Strategy<Value = Job> {
    let queue = prop_oneof![12 => Just(0_usize), 1 => Just(1), 1 => Just(2)];
    let spare = prop_oneof![12 => Just(0_u32), 1 => Just(1)];
    (queue, 0..12_u8, one_of(gpus), pods, spare, 0..8_usize).prop_map(
        |(queue, created, gpus, pods, spare, node)| Job { queue, created, gpus, pods, spare, node },
    )
}

fn queue_name(at: usize) -> Text {
    format!("queue-{at}").into()
}

fn group_of(name: &str, job: &Job) -> PodGroupSpec {
    let mut group = group(name, job.pods.saturating_sub(job.spare).max(1));
    group.queue = queue_name(job.queue);
    group.created = Timestamp::from_seconds(f64::from(job.created));
    group
}

fn pods_of(name: &str, job: &Job) -> Vec<PodSpec> {
    let gpu = || GpuRequest::Whole { count: job.gpus };
    (0..job.pods).map(|at| pod(&format!("{name}-{at}"), name, gpu())).collect()
}

/// Places the pods of a job where it says; false when some pod does not fit its node.
fn place(pods: &mut [PodSpec], job: &Job, free: &mut [i64]) -> bool {
    let before = free.to_vec();
    for (at, pod) in pods.iter_mut().enumerate() {
        let node = (job.node + at) % free.len();
        free[node] -= job.gpus;
        pod.status = Status::Running;
        pod.node = Some(node_name(node));
    }
    let fits = free.iter().all(|free| *free >= 0);
    if !fits {
        free.copy_from_slice(&before);
    }
    fits
}

fn scattered() -> impl Strategy<Value = Cluster> {
    let nodes = vec(one_of(vec![8_i64, 8, 8, 4]), 2..=7);
    let one_pod = prop_oneof![20 => Just(1_u32), 1 => Just(2)];
    let running = vec(job(vec![1, 1, 2, 2, 3, 4, 8], one_pod), 0..=30);
    let waiting = vec(job(vec![8, 8, 4, 6, 2, 5], prop_oneof![1..=4_u32]), 1..=4);
    let actions = one_of(vec![vec![ActionKind::Consolidation], ActionKind::ALL.to_vec()]);
    (nodes, running, waiting, actions, compatibility()).prop_map(
        |(gpus, running, waiting, actions, compatibility)| {
            let mut config = Config { compatibility, actions, ..Config::default() };
            config.params.max_consolidation_preemptees = None;
            let node = |(at, gpus): (usize, &i64)| {
                let mut node = bare_node(&node_name(at));
                node.allocatable.gpus = *gpus;
                node
            };
            let nodes: Vec<NodeSpec> = gpus.iter().enumerate().map(node).collect();
            let queues = (0..3).map(|at| QueueSpec { name: queue_name(at), ..queue() }).collect();
            let mut free = gpus;
            let (mut groups, mut pods) = (Vec::new(), Vec::new());
            for (at, job) in running.iter().enumerate() {
                let name = format!("running-{at}");
                let mut placed = pods_of(&name, job);
                if place(&mut placed, job, &mut free) {
                    groups.push(group_of(&name, job));
                    pods.extend(placed);
                }
            }
            for (at, job) in waiting.iter().enumerate() {
                let name = format!("waiting-{at}");
                groups.push(group_of(&name, job));
                pods.extend(pods_of(&name, job));
            }
            Cluster {
                config,
                nodes,
                queues,
                usage: Vec::new(),
                topologies: Vec::new(),
                budgets: Vec::new(),
                groups,
                pods,
                binds: Vec::new(),
            }
        },
    )
}

proptest! {
    #![proptest_config(crate::cases(1_000))]

    #[test]
    fn counting_decides_what_trying_decides(cluster in scattered()) {
        let mut world = cluster.world();
        let fast = plan(&mut world, now());
        world.set_naive_search(true);
        let naive = plan(&mut world, now());
        same_plan(&without_effort(fast), &without_effort(naive))?;
    }
}
