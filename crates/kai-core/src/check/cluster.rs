//! The cluster's rules, counted from the pods alone: none of the sums that placement relies on is believed.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{Moment, NOISE, Rule, Severity, Violation};
use crate::fairness::{Amounts, QueueResource, UNLIMITED};
use crate::ids::{NodeId, QueueId};
use crate::input::ObjectName;
use crate::input::pod::PodRole;
use crate::resources::{GPU, ResourceVector};
use crate::status::Status;
use crate::world::World;
use crate::world::accounting;
use crate::world::job::Job;
use crate::world::job_tree::Member;
use crate::world::node::{Accepted, DeviceDemand, GroupId, Node, Resident};

pub(super) fn violations(world: &World) -> Vec<Violation> {
    let mut found = Vec::new();
    for (_, node) in world.nodes() {
        for moment in [Moment::Now, Moment::Later] {
            check_node(world, node, moment, &BTreeSet::new(), &mut found);
        }
        check_distinct_devices(world, node, &mut found);
    }
    check_queues(world, &mut found);
    for (_, job) in world.jobs() {
        check_gang(job, &mut found);
    }
    found
}

pub(super) fn node_violations(
    world: &World,
    node: NodeId,
    without: &BTreeSet<ObjectName>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    check_node(world, world.node(node), Moment::Now, without, &mut found);
    found
}

fn violation(rule: Rule, object: String, found: f64, allowed: f64) -> Violation {
    Violation { severity: Severity::Cluster, rule, object, moment: None, found, allowed }
}

impl Violation {
    /// The pod group has some of the members it needs and not all.
    pub fn of_gang(group: &ObjectName) -> Self {
        violation(Rule::Gang, format!("pod group {group}"), 1.0, 0.0)
    }
}

fn counts(resident: &Resident, moment: Moment) -> bool {
    match moment {
        Moment::Now => resident.status != Status::Pipelined,
        Moment::Later => resident.status != Status::Releasing,
    }
}

fn check_node(
    world: &World,
    node: &Node,
    moment: Moment,
    without: &BTreeSet<ObjectName>,
    found: &mut Vec<Violation>,
) {
    let mut sum = ResourceVector::zero();
    let mut memory: BTreeMap<GroupId, i64> = BTreeMap::new();
    for resident in node.residents.iter().filter(|resident| counts(resident, moment)) {
        let task = world.task(resident.task);
        if without.contains(&task.spec.name) {
            continue;
        }
        let shape = world.shape_of(resident.task);
        let holds_gpus = task.spec.role != PodRole::Reservation;
        let compatibility = world.config.compatibility;
        let mut vector = accounting::tracked(node, shape, holds_gpus, compatibility);
        if !task.claims.is_empty() {
            // Devices of a claim that several pods share are counted once, by the plugin that knows them.
            vector.set(GPU, 0);
        }
        sum.add(&vector);
        if let DeviceDemand::Shared { mib, .. } = node.demand_of(task, shape, compatibility) {
            for group in &resident.groups {
                *memory.entry(*group).or_default() += mib;
            }
        }
    }
    let mut note = |rule: Rule, object: String, found_amount: i64, allowed: i64| {
        if found_amount > allowed {
            let violation = violation(rule, object, found_amount as f64, allowed as f64);
            found.push(Violation { moment: Some(moment), ..violation });
        }
    };
    for (slot, amount) in sum.amounts().filter(|(slot, _)| *slot != GPU) {
        let object = format!("{} of node {}", world.resource_names().name(slot), node.name());
        note(Rule::NodeAmount, object, amount, node.allocatable.get(slot));
    }
    for (group, mib) in &memory {
        let object = format!("device {} of node {}", world.group_name(*group), node.name());
        note(Rule::DeviceMemory, object, *mib, node.gpus.memory_mib);
    }
    let shared = memory.values().filter(|mib| **mib > 0).count() as i64;
    let object = format!("GPUs of node {}", node.name());
    note(Rule::DeviceCount, object, sum.get(GPU) + shared, node.allocatable.get(GPU));
}

fn check_distinct_devices(world: &World, node: &Node, found: &mut Vec<Violation>) {
    for resident in &node.residents {
        let mut groups = resident.groups.to_vec();
        groups.sort_unstable();
        groups.dedup();
        if groups.len() < resident.groups.len() {
            let pod = &world.task(resident.task).spec.name;
            let object = format!("pod {pod} on node {}", node.name());
            let (asked, got) = (resident.groups.len(), groups.len());
            found.push(violation(Rule::DistinctDevices, object, asked as f64, got as f64));
        }
    }
}

/// What the pods of each queue hold, nominated ones included; all of it, and by pods that may not be preempted.
fn charged_to_queues(world: &World) -> BTreeMap<QueueId, (Accepted, Accepted)> {
    let mut sums: BTreeMap<QueueId, (Accepted, Accepted)> = BTreeMap::new();
    for (task_id, task) in world.tasks() {
        let (Some(id), Some(_)) = (task.job, task.leaf) else { continue };
        let job = world.job(id);
        let Some(queue) = job.queue else { continue };
        let status = task.state.status;
        if !status.is_active_allocated() && !world.is_charged(status) {
            continue;
        }
        for above in world.queue_tree().chain(queue) {
            let (all, non_preemptible) = sums.entry(above).or_default();
            all.add(&task.state.accepted);
            let is_core = || world.core_tasks(id).contains(&task_id);
            if (!job.is_preemptible() && !job.is_semi_preemptible())
                || (job.is_semi_preemptible() && is_core())
            {
                non_preemptible.add(&task.state.accepted);
            }
        }
    }
    sums
}

fn check_queues(world: &World, found: &mut Vec<Violation>) {
    for (queue, (all, non_preemptible)) in charged_to_queues(world) {
        let node = world.queue_tree().node(queue);
        let shares = &node.shares;
        let mut note = |rule: Rule, charged: Amounts, bounds: Amounts| {
            for resource in QueueResource::ALL {
                let (charged, bound) = (charged[resource], bounds[resource]);
                if bound != UNLIMITED && charged > bound + NOISE {
                    let object = format!("{resource:?} of queue {}", node.name);
                    found.push(violation(rule, object, charged, bound));
                }
            }
        };
        note(Rule::QueueLimit, all.amounts(), shares.max_allowed);
        note(Rule::NonPreemptibleQuota, non_preemptible.amounts(), shares.deserved);
    }
}

fn check_gang(job: &Job, found: &mut Vec<Violation>) {
    let members = job.counts.active_allocated();
    if members > 0 && !is_whole(job, 0) {
        found.push(Violation::of_gang(&job.spec.name));
    }
}

fn is_whole(job: &Job, set: usize) -> bool {
    let whole = job.tree.sets[set].members.iter().filter(|member| match **member {
        Member::Leaf(leaf) => {
            job.leaves[leaf].counts.active_allocated() >= job.leaves[leaf].declared.min_available
        }
        Member::Set(set) => is_whole(job, set),
    });
    whole.count() as u32 >= job.threshold(set)
}
