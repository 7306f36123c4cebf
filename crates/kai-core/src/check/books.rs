//! The books' rules: counts, sums and indexes say what a recount says.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{Rule, Severity, Violation};
use crate::ids::{JobId, NodeId, QueueId, TaskId};
use crate::input::pod::PodRole;
use crate::input::{ObjectName, Text};
use crate::status::Status;
use crate::world::World;
use crate::world::index::{FreeGpuIndex, JobKey};
use crate::world::job::StatusCounts;
use crate::world::queues::QueueSums;
use crate::world::totals::Totals;

pub(super) fn miscounts(world: &World) -> Vec<Violation> {
    let mut wrong: Vec<String> = Vec::new();
    check_statuses(world, &mut wrong);
    check_members(world, &mut wrong);
    check_ranks(world, &mut wrong);
    check_job_index(world, &mut wrong);
    if world.log.is_empty() {
        check_names(world, &mut wrong);
        check_queue_sums(world, &mut wrong);
        check_totals(world, &mut wrong);
        check_listings(world, &mut wrong);
        if world.rebuilt().fingerprint() != world.fingerprint() {
            wrong.push("the world differs from one built anew from its objects".to_owned());
        }
    }
    let violation = |object| Violation {
        severity: Severity::Books,
        rule: Rule::Recount,
        object,
        moment: None,
        found: 1.0,
        allowed: 0.0,
    };
    wrong.into_iter().map(violation).collect()
}

fn check_statuses(world: &World, wrong: &mut Vec<String>) {
    for (_, job) in world.jobs() {
        let mut of_job = StatusCounts::default();
        for leaf in &job.leaves {
            let mut of_leaf = StatusCounts::default();
            for task in &leaf.tasks {
                of_leaf.add(world.task(*task).state.status);
                of_job.add(world.task(*task).state.status);
            }
            if of_leaf != leaf.counts {
                wrong.push(format!(
                    "status counts of leaf {} of {}",
                    leaf.declared.name, job.spec.name
                ));
            }
        }
        if of_job != job.counts {
            wrong.push(format!("status counts of {}", job.spec.name));
        }
    }
}

/// Pods and jobs know each other, leaves are in task order.
fn check_members(world: &World, wrong: &mut Vec<String>) {
    for (id, job) in world.jobs() {
        for (at, leaf) in job.leaves.iter().enumerate() {
            let belongs = |task: &TaskId| {
                let task = world.task(*task);
                task.live && task.job == Some(id) && task.leaf == Some(at as u32)
            };
            if !leaf.tasks.iter().all(belongs) {
                wrong.push(format!("pods of leaf {} of {}", leaf.declared.name, job.spec.name));
            }
            let ordered = |pair: &[TaskId]| world.task_order(pair[0], pair[1]).is_le();
            if !leaf.tasks.windows(2).all(ordered) {
                wrong.push(format!("order of leaf {} of {}", leaf.declared.name, job.spec.name));
            }
        }
    }
    for (id, task) in world.tasks() {
        let group = task.spec.group.as_ref().map(|group| ObjectName {
            namespace: task.spec.name.namespace.clone(),
            name: group.clone(),
        });
        let job = group.as_ref().and_then(|group| world.job_named(group));
        let listed = job.is_none_or(|job| {
            let job = world.job(job);
            match task.leaf {
                Some(leaf) => job.leaves[leaf as usize].tasks.contains(&id),
                None => job.strays.contains(&id),
            }
        });
        if task.job != job || !listed {
            wrong.push(format!("job of pod {}", task.spec.name));
        }
    }
}

fn check_ranks(world: &World, wrong: &mut Vec<String>) {
    if world.ranks_are_stale {
        return;
    }
    let by_name: Vec<NodeId> = world.node_ids.values().copied().collect();
    let ranked = |(rank, id): (usize, &NodeId)| world.node(*id).rank as usize == rank;
    if world.nodes_by_rank != by_name || !by_name.iter().enumerate().all(ranked) {
        wrong.push("ranks of nodes".to_owned());
    }
    if !free_gpus_are_known(world) {
        wrong.push("index of free GPUs".to_owned());
    }
}

pub(super) fn free_gpus_are_known(world: &World) -> bool {
    let mut anew = FreeGpuIndex::with_len(world.nodes_by_rank.len());
    for (rank, id) in world.nodes_by_rank.iter().enumerate() {
        anew.set(rank, world.gpus_free_on(*id));
    }
    anew.says_the_same_as(&world.free_gpus)
}

fn check_job_index(world: &World, wrong: &mut Vec<String>) {
    let mut pending: BTreeMap<QueueId, BTreeSet<JobKey>> = BTreeMap::new();
    let mut running: BTreeMap<QueueId, BTreeSet<JobKey>> = BTreeMap::new();
    let mut fixed: BTreeMap<QueueId, BTreeSet<JobKey>> = BTreeMap::new();
    let mut sizes: BTreeMap<QueueId, BTreeMap<i64, u32>> = BTreeMap::new();
    let (mut suspects, mut homeless) = (BTreeSet::new(), BTreeSet::new());
    let mut waiting = BTreeSet::new();
    for (id, job) in world.jobs() {
        let waits = job.counts.of(Status::Pending) > 0;
        if job.spec.stale_since.is_some() || world.is_stale(id) {
            suspects.insert(id);
        }
        if world.has_waiting_pods(id) {
            waiting.insert(id);
        }
        let Some(queue) = job.queue else {
            if waits {
                homeless.insert(id);
            }
            continue;
        };
        if waits {
            pending.entry(queue).or_default().insert(world.job_key(id));
        }
        if job.counts.active_allocated() > 0 && !world.has_movable_pods(id) {
            fixed.entry(queue).or_default().insert(world.job_key(id));
        } else if job.counts.active_allocated() > 0 {
            running.entry(queue).or_default().insert(world.job_key(id));
            let placed = job.tasks().map(|task| world.task(task).placed_gpu_centi());
            let size = placed.fold(0, i64::wrapping_add);
            *sizes.entry(queue).or_default().entry(size).or_default() += 1;
        }
    }
    for at in 0..world.queue_specs.len() {
        let queue = QueueId::new(at);
        let index = world.job_index.of(queue);
        if index.pending != pending.remove(&queue).unwrap_or_default()
            || index.fixed != fixed.remove(&queue).unwrap_or_default()
            || index.running != running.remove(&queue).unwrap_or_default()
            || index.sizes != sizes.remove(&queue).unwrap_or_default()
        {
            wrong.push(format!("index of jobs of queue {}", world.queue_specs[at].name));
        }
    }
    if world.job_index.suspects != suspects {
        wrong.push("index of jobs that lack members".to_owned());
    }
    if world.job_index.waiting != waiting {
        wrong.push("index of jobs with pods that wait".to_owned());
    }
    if world.job_index.homeless != homeless {
        wrong.push("index of jobs without a queue".to_owned());
    }
}

/// Every live object is found by its name, and nothing else is.
fn check_names(world: &World, wrong: &mut Vec<String>) {
    let live_nodes = world.nodes.iter().filter(|node| node.live).count();
    let nodes = world.node_ids.iter().all(|(name, id)| world.node(*id).name() == name);
    let live_jobs = world.jobs().count();
    let jobs = world.jobs().all(|(id, job)| world.job_named(&job.spec.name) == Some(id));
    let live_tasks = world.tasks().count();
    let tasks = world.tasks().all(|(id, task)| world.task_named(&task.spec.name) == Some(id));
    let queue = |(name, id): (&Text, &QueueId)| world.queue_specs[id.index()].name == *name;
    let queues = world.queue_ids.iter().all(queue);
    let live_queues = world.tree.queues.iter().take(world.queue_specs.len());
    let ghosts = live_queues
        .enumerate()
        .any(|(at, node)| node.live && world.queue_ids.get(&node.name) != Some(&QueueId::new(at)));
    if !nodes || live_nodes != world.node_ids.len() {
        wrong.push("names of nodes".to_owned());
    }
    if !jobs || live_jobs != world.job_ids.len() {
        wrong.push("names of pod groups".to_owned());
    }
    if !tasks || live_tasks != world.task_ids.len() {
        wrong.push("names of pods".to_owned());
    }
    if !queues || ghosts {
        wrong.push("names of queues".to_owned());
    }
    for (_, job) in world.jobs() {
        if job.queue != world.queue_ids.get(&job.spec.queue).copied() {
            wrong.push(format!("queue of {}", job.spec.name));
        }
    }
}

fn check_queue_sums(world: &World, wrong: &mut Vec<String>) {
    let mut sums = vec![QueueSums::default(); world.queue_sums.len()];
    for (id, task) in world.tasks() {
        let (Some(job), Some(_)) = (task.job, task.leaf) else { continue };
        let job = world.job(job);
        let Some(queue) = job.queue else { continue };
        let sum = &mut sums[queue.index()];
        if world.is_charged(task.state.status) {
            sum.allocated.add(&task.state.accepted);
            if !job.is_preemptible() && !job.is_semi_preemptible() {
                sum.non_preemptible.add(&task.state.accepted);
            }
        } else if task.state.status == Status::Pending {
            sum.pending.add(&world.shape_of(id).queue_cost());
        }
        let accepted = task
            .state
            .node
            .map(|node| world.node(node).accepted(world.shape_of(id), world.config.compatibility));
        if accepted.unwrap_or_default() != task.state.accepted {
            wrong.push(format!("cost of pod {}", task.spec.name));
        }
    }
    for (at, sum) in sums.iter().enumerate() {
        if world.queue_sums[at] != *sum {
            wrong.push(format!("sums of queue {}", world.queue_specs[at].name));
        }
    }
}

fn check_totals(world: &World, wrong: &mut Vec<String>) {
    let mut anew = Totals::default();
    for (id, node) in world.nodes() {
        anew.add(node, world.gpus_count(id));
        for resident in &node.residents {
            let task = world.task(resident.task);
            if task.spec.role == PodRole::Foreign && node.unusable.is_none() {
                anew.add_foreign(&world.shape_of(resident.task).request);
            }
        }
    }
    let slots = world.names.len();
    let same_amounts = (0..slots).all(|slot| {
        anew.available().get(slot) == world.totals.available().get(slot)
            && anew.most_of(slot) == world.totals.most_of(slot)
    });
    let extremes = |totals: &Totals| {
        let counts = (totals.replica_nodes(), totals.unmeasured_nodes());
        (totals.smallest_gpu_mib(), totals.largest_gpu_mib(), counts)
    };
    if !same_amounts || extremes(&anew) != extremes(&world.totals) {
        wrong.push("totals of nodes".to_owned());
    }
}

/// Which pods are on a node, without a job or releasing, and which jobs are in a queue.
fn check_listings(world: &World, wrong: &mut Vec<String>) {
    let mut of_node: BTreeMap<Text, BTreeSet<TaskId>> = BTreeMap::new();
    let mut without_job: BTreeMap<ObjectName, BTreeSet<TaskId>> = BTreeMap::new();
    let mut of_queue: BTreeMap<Text, BTreeSet<JobId>> = BTreeMap::new();
    let mut releasing = BTreeSet::new();
    for (id, task) in world.tasks() {
        if let Some(group) = &task.spec.group {
            let namespace = task.spec.name.namespace.clone();
            let name = ObjectName { namespace, name: group.clone() };
            if !world.job_ids.contains_key(&name) {
                without_job.entry(name).or_default().insert(id);
            }
        }
        if let (Some(moment), Status::Releasing) = (task.spec.stuck_at, task.state.status) {
            releasing.insert((moment, id));
        }
        let node = task.state.node.map(|node| world.node(node).name().clone());
        let named = task.spec.node.clone().filter(|_| world.holds_its_place(task.state.status));
        if let Some(node) = node.or(named) {
            of_node.entry(node).or_default().insert(id);
        }
    }
    for (id, job) in world.jobs() {
        of_queue.entry(job.spec.queue.clone()).or_default().insert(id);
    }
    if !says_the_same(&world.pods_of_node, &of_node) {
        wrong.push("pods of nodes".to_owned());
    }
    if !says_the_same(&world.pods_without_job, &without_job) {
        wrong.push("pods without a job".to_owned());
    }
    if !says_the_same(&world.jobs_of_queue, &of_queue) {
        wrong.push("jobs of queues".to_owned());
    }
    if world.releasing != releasing {
        wrong.push("releasing pods".to_owned());
    }
}

/// Equal, and without entries that list nothing: those would pile up over a cluster's life.
fn says_the_same<K: std::hash::Hash + Ord, V: PartialEq>(
    kept: &crate::keyed_hash::KeyedMap<K, V>,
    anew: &BTreeMap<K, V>,
) -> bool {
    kept.len() == anew.len() && anew.iter().all(|(key, value)| kept.get(key) == Some(value))
}
