//! How pods come to nodes and jobs. A node's accounts are always the fold over its pods in one order
//! (reservations first, then by UID), so that any history of deltas ends in the same accounts.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{JobId, NodeId, TaskId};
use crate::input::pod::PodRole;
use crate::input::pod_group::{DEFAULT_LEAF, PodGroupSpec};
use crate::input::{ObjectName, PodSpec, Text};
use crate::keyed_hash::KeyedMap;
use crate::plugins::dynamicresources::TaskClaims;
use crate::resources::GPU;
use crate::status::Status;
use crate::world::accounting;
use crate::world::in_flight::Assumed;
use crate::world::index::{FreeGpuCapacity, FreeGpuIndex, FreeGpus};
use crate::world::job::Job;
use crate::world::node::{DeviceDemand, GroupKind, Groups, Resident};
use crate::world::shape::Shape;
use crate::world::task::{Task, TaskState};
use crate::world::{Effect, World};

/// Where a pod is, according to its objects and the decisions in flight.
struct Observed {
    status: Status,
    node: Option<Text>,
    groups: Vec<Text>,
}

/// Takes `id` out of the list of `key`; an empty list is removed.
fn unlist<K: std::hash::Hash + Eq, I: Ord + Copy>(
    lists: &mut KeyedMap<K, BTreeSet<I>>,
    key: &K,
    id: I,
) {
    if let Some(list) = lists.get_mut(key) {
        list.remove(&id);
        if list.is_empty() {
            lists.remove(key);
        }
    }
}

/// Up to this number of nodes, ranks are computed anew whenever a node is added or removed.
const FEW_NODES: usize = 64;

impl World {
    pub(crate) fn insert_pod(&mut self, mut spec: PodSpec) {
        let name = spec.name.clone();
        self.claims.know_pod(&spec);
        let sharing = self.assume_claims(&spec, spec.status);
        let claims = self.claims.of_pod(&spec);
        let shape = self.shape_for(&spec);
        // Pods of one shape have equal constraints, which take more memory than all else of a pod.
        spec.constraints = Arc::clone(&self.shapes[shape].constraints);
        let spec = Arc::new(spec);
        let task = Task {
            live: true,
            shape,
            job: None,
            leaf: None,
            claims,
            state: TaskState::nowhere(spec.status),
            spec,
        };
        let id = if let Some(id) = self.free_task_slots.pop() {
            self.tasks[id.index()] = task;
            id
        } else {
            self.tasks.push(task);
            TaskId::new(self.tasks.len() - 1)
        };
        self.task_ids.insert(name, id);
        if self.task(id).spec.backoff.protected_until.is_some() {
            self.protected_pods.insert(id);
        }
        self.attach(id);
        self.reattach_sharing(&sharing, id);
    }

    pub(crate) fn remove_pod(&mut self, name: &ObjectName) -> Effect {
        let Some(id) = self.task_ids.remove(name) else {
            return Effect::default();
        };
        self.detach(id);
        self.protected_pods.remove(&id);
        self.tasks[id.index()].live = false;
        self.free_task_slots.push(id);
        let spec = Arc::clone(&self.task(id).spec);
        self.claims.forget_pod(&spec);
        let sharing = self.claims.assume(name, Vec::new());
        self.reattach_sharing(&sharing, id);
        // Slots whose pods are gone share one spec: a burst of pods leaves many.
        let vacant = Arc::clone(self.vacant_pod.get_or_insert(spec));
        let slot = &mut self.tasks[id.index()];
        slot.spec = vacant;
        slot.claims = TaskClaims::default();
        Effect { changed: true, problems: Vec::new() }
    }

    /// Takes over what a bind under way decided for the claims of a pod, while the pod lives. Pods that share the
    /// claims must look anew.
    pub(crate) fn assume_claims(&mut self, pod: &PodSpec, status: Status) -> Vec<ObjectName> {
        let lives = !matches!(status, Status::Succeeded | Status::Failed);
        let bind = self.binds_under_way(pod).next().filter(|_| lives);
        let decided = bind.map(|bind| bind.claims.to_vec()).unwrap_or_default();
        self.claims.assume(&pod.name, decided)
    }

    /// Pods that share claims with `id` look anew.
    pub(crate) fn reattach_sharing(&mut self, pods: &[ObjectName], id: TaskId) {
        for pod in pods {
            if let Some(other) = self.task_ids.get(pod).copied().filter(|other| *other != id) {
                self.reattach(other);
            }
        }
    }

    pub(crate) fn reattach(&mut self, id: TaskId) {
        self.detach(id);
        let spec = Arc::clone(&self.task(id).spec);
        let claims = self.claims.of_pod(&spec);
        let shape = self.shape_for(&spec);
        let task = &mut self.tasks[id.index()];
        task.claims = claims;
        task.shape = shape;
        self.attach(id);
    }

    fn shape_for(&mut self, spec: &PodSpec) -> crate::world::shape::ShapeId {
        let claimed = if self.config.params.dynamic_resources {
            self.claims.gpus_of_pod(spec, self.config.compatibility)
        } else {
            0
        };
        let shape = Shape::new(&spec.request, claimed, &spec.constraints, &mut self.names);
        self.shapes.intern(shape)
    }

    fn group_of(&self, id: TaskId) -> Option<ObjectName> {
        let spec = &self.task(id).spec;
        let group = spec.group.as_ref()?;
        Some(ObjectName { namespace: spec.name.namespace.clone(), name: group.clone() })
    }

    /// Joins the pod to its node and its job.
    fn attach(&mut self, id: TaskId) {
        let observed = self.observe(id);
        self.tasks[id.index()].state = TaskState::nowhere(observed.status);
        let groups: Groups = observed.groups.iter().map(|name| self.groups.intern(name)).collect();
        self.tasks[id.index()].state.groups = groups;
        if let Some(name) = observed.node
            && self.holds_its_place(observed.status)
        {
            self.pods_of_node.entry(name.clone()).or_default().insert(id);
            if let Some(node) = self.node_ids.get(&name).copied() {
                self.tasks[id.index()].state.node = Some(node);
                self.account_arrival(id, node);
            }
        }
        if let Some(group) = self.group_of(id) {
            match self.job_ids.get(&group).copied() {
                Some(job) => self.join_job(id, job),
                None => self.list_without_job(id),
            }
        }
        if let (Some(moment), Status::Releasing) = (self.task(id).spec.stuck_at, observed.status) {
            self.releasing.insert((moment, id));
        }
    }

    /// Takes the pod off its node and out of its job.
    fn detach(&mut self, id: TaskId) {
        if let Some(moment) = self.task(id).spec.stuck_at {
            self.releasing.remove(&(moment, id));
        }
        if let Some(job) = self.task(id).job {
            self.leave_job(id, job);
        } else if let Some(group) = self.group_of(id) {
            unlist(&mut self.pods_without_job, &group, id);
        }
        let listed: Option<Text> = self.listed_node(id);
        if let Some(name) = listed {
            unlist(&mut self.pods_of_node, &name, id);
            if let Some(node) = self.task(id).state.node {
                self.account_departure(id, node);
            }
        }
        self.tasks[id.index()].state.node = None;
    }

    /// The node name under which the pod is listed.
    fn listed_node(&self, id: TaskId) -> Option<Text> {
        if let Some(node) = self.task(id).state.node {
            return Some(self.node(node).name().clone());
        }
        let named = self.task(id).spec.node.clone();
        let bound = self.bind_requests.get(&self.task(id).spec.name).map(|bind| bind.node.clone());
        let in_flight = self.assumed.get(&self.task(id).spec.name);
        let assumed = in_flight.and_then(Assumed::node).cloned();
        [named, bound, assumed]
            .into_iter()
            .flatten()
            .find(|name| self.pods_of_node.get(name).is_some_and(|pods| pods.contains(&id)))
    }

    /// The pod's own word, then a live bind request, then a decision in flight.
    fn observe(&self, id: TaskId) -> Observed {
        let spec = &self.task(id).spec;
        let in_flight = self.assumed.get(&spec.name);
        let mut observed = Observed {
            status: spec.status,
            node: spec.node.clone(),
            groups: spec.gpu_groups.clone(),
        };
        if spec.status == Status::Pending
            && spec.node.is_none()
            && let Some(bind) =
                self.binds_under_way(spec).find(|bind| self.node_ids.contains_key(bind.node))
        {
            observed.status = Status::Binding;
            observed.node = Some(bind.node.clone());
            observed.groups = bind.gpu_groups.to_vec();
        }
        if observed.status == Status::Pending && spec.backoff.retry_after.is_some() {
            observed.status = Status::BackingOff;
        }
        let evicted = in_flight.is_some_and(|assumed| assumed.evicts(&spec.uid));
        if evicted && observed.status.is_alive() {
            observed.status = Status::Releasing;
        }
        observed
    }

    fn account_arrival(&mut self, id: TaskId, node: NodeId) {
        self.refold_node(node);
        self.count_foreign(id, node, true);
    }

    fn account_departure(&mut self, id: TaskId, node: NodeId) {
        self.count_foreign(id, node, false);
        self.refold_node(node);
    }

    /// Requests of other schedulers' pods on ready nodes are not ours to divide.
    fn count_foreign(&mut self, id: TaskId, node: NodeId, arrives: bool) {
        let task = self.task(id);
        if task.spec.role != PodRole::Foreign || self.node(node).unusable.is_some() {
            return;
        }
        let request = self.shapes[task.shape].request.clone();
        if arrives {
            self.totals.add_foreign(&request);
        } else {
            self.totals.remove_foreign(&request);
        }
    }

    /// Accounts of `node` from its pods alone.
    fn refold_node(&mut self, id: NodeId) {
        let name = self.node(id).name().clone();
        let mut pods: Vec<TaskId> = self
            .pods_of_node
            .get(&name)
            .map(|pods| pods.iter().copied().collect())
            .unwrap_or_default();
        pods.sort_by(|left, right| {
            let key = |task: TaskId| {
                let spec = &self.task(task).spec;
                (spec.role != PodRole::Reservation, &spec.uid, &spec.name)
            };
            key(*left).cmp(&key(*right))
        });
        let node = &mut self.nodes[id.index()];
        node.amounts.idle.clone_from(&node.allocatable);
        node.amounts.releasing = crate::resources::ResourceVector::zero();
        node.amounts.used = crate::resources::ResourceVector::zero();
        node.groups.clear();
        node.residents.clear();
        node.legacy_mig_residents.clear();
        self.terms.forget(id);
        let replica_devices = self.replica_devices(id, &pods);
        for task in pods {
            self.fold_in(task, id, replica_devices);
        }
        self.reset_zones(id);
        self.index_node(id);
    }

    /// Accounts one pod on a node whose accounts are being folded. `replica_devices` is how many devices hold replicas
    /// once all are.
    fn fold_in(&mut self, id: TaskId, node: NodeId, replica_devices: usize) {
        self.uncharge(id);
        let task = &self.tasks[id.index()];
        let shape = &self.shapes[task.shape];
        let compatibility = self.config.compatibility;
        let target = &self.nodes[node.index()];
        let demand = target.demand_of(task, shape, compatibility);
        let holds_gpus = task.spec.role != PodRole::Reservation;
        let groups = match demand {
            DeviceDemand::Vector => task.state.groups.clone(),
            DeviceDemand::Shared { devices, kind: GroupKind::Parts(_), .. } => {
                self.devices_of_part(id, devices)
            }
            DeviceDemand::Shared { devices, kind: GroupKind::Replicas, .. } => {
                self.devices_of_replicas(id, node, devices, replica_devices)
            }
        };
        let task = &self.tasks[id.index()];
        let shape = &self.shapes[task.shape];
        let target = &self.nodes[node.index()];
        let mut vector = accounting::tracked(target, shape, holds_gpus, compatibility);
        let shared = self.shared_devices(id, node, task.state.status);
        vector.add_at(GPU, -shared.gpus.min(vector.get(GPU)));
        let accepted = target.accepted(shape, compatibility);
        let legacy = shape.legacy_mig;
        let status = task.state.status;
        let target = &mut self.nodes[node.index()];
        accounting::add(target, &vector, demand, &groups, status, compatibility);
        shared.account(&mut target.amounts, 1);
        if legacy {
            target.legacy_mig_residents.push(id);
        }
        self.terms.arrive(node, &self.tasks[id.index()].spec.constraints);
        let zones = self.recorded_zones(id, node);
        self.nodes[node.index()].residents.push(Resident {
            task: id,
            status,
            groups: groups.clone(),
            zones: zones.clone(),
        });
        let task = &mut self.tasks[id.index()];
        let before = task.placed_gpu_centi();
        task.state.groups = groups;
        task.state.zones = zones;
        task.state.accepted = accepted;
        self.recount_gpus(id, before);
        self.charge(id);
    }

    /// Takes the pods of a node off it, before the node changes or is removed.
    pub(crate) fn empty_node(&mut self, id: NodeId) {
        let pods: Vec<TaskId> =
            self.node(id).residents.iter().map(|resident| resident.task).collect();
        for task in pods {
            self.count_foreign(task, id, false);
            self.uncharge(task);
            let entry = &mut self.tasks[task.index()];
            let before = entry.placed_gpu_centi();
            entry.state.node = None;
            entry.state.accepted = crate::world::node::Accepted::default();
            self.recount_gpus(task, before);
            self.charge(task);
        }
        self.nodes[id.index()].residents.clear();
        self.terms.forget(id);
    }

    /// After a node changed or came: the pods that name it are on it.
    pub(crate) fn refill_node(&mut self, id: NodeId) {
        self.reattach_pods_of(&self.node(id).name().clone());
        self.refold_node(id);
    }

    /// Pods that name the node look where they are anew.
    pub(crate) fn reattach_pods_of(&mut self, name: &Text) {
        let mut pods: Vec<TaskId> = self
            .pods_of_node
            .get(name)
            .map(|pods| pods.iter().copied().collect())
            .unwrap_or_default();
        let waiting = self.bind_requests.values().filter(|bind| bind.node == *name);
        pods.extend(waiting.filter_map(|bind| self.task_ids.get(&bind.pod)).copied());
        let in_flight = self.assumed.iter().filter(|(_, assumed)| assumed.node() == Some(name));
        pods.extend(in_flight.filter_map(|(pod, _)| self.task_ids.get(pod)).copied());
        pods.sort();
        pods.dedup();
        for task in pods {
            self.reattach(task);
        }
    }

    /// Whether some node gives replicas for whole GPUs.
    pub(crate) fn has_replica_nodes(&self) -> bool {
        self.totals.replica_nodes() > 0
    }

    pub(crate) fn count_node(&mut self, id: NodeId) {
        let counts = self.gpus_count(id);
        self.totals.add(&self.nodes[id.index()], counts);
    }

    pub(crate) fn uncount_node(&mut self, id: NodeId) {
        let counts = self.gpus_count(id);
        self.totals.remove(&self.nodes[id.index()], counts);
    }

    /// Under restricted scheduling only GPU workers' GPUs can be used.
    pub(crate) fn gpus_count(&self, id: NodeId) -> bool {
        let params = &self.config.params;
        !params.restrict_node_scheduling
            || self.node(id).spec.labels.contains_key(&params.worker_labels.gpu)
    }

    /// Ranks few nodes at once. Many are ranked when a cycle begins: ranking them for each node that comes would take
    /// time with the square of their number.
    pub(crate) fn nodes_came_or_went(&mut self) {
        self.trees.invalidate();
        if self.node_ids.len() <= FEW_NODES {
            self.rank_nodes();
        } else {
            self.ranks_are_stale = true;
        }
    }

    /// Ranks nodes if some came or went since they were ranked.
    pub(crate) fn settle_ranks(&mut self) {
        if self.ranks_are_stale {
            self.rank_nodes();
        }
    }

    /// Ranks by name, and the indexes that are kept by rank.
    fn rank_nodes(&mut self) {
        self.ranks_are_stale = false;
        self.nodes_by_rank = self.node_ids.values().copied().collect();
        self.free_gpus = FreeGpuIndex::with_len(self.nodes_by_rank.len());
        self.refusal_tables.restart(self.nodes_by_rank.len());
        for rank in 0..self.nodes_by_rank.len() {
            let id = self.nodes_by_rank[rank];
            self.nodes[id.index()].rank = rank as u32;
            self.index_node(id);
        }
        self.trees.invalidate();
    }

    /// Brings the index of free GPUs up to date for one node.
    #[inline]
    pub(crate) fn index_node(&mut self, id: NodeId) {
        if self.ranks_are_stale {
            return;
        }
        let rank = self.nodes[id.index()].rank as usize;
        let free = self.gpus_free_on(id);
        self.free_gpus.set(rank, free);
        self.refusal_tables.note_change(rank);
    }

    /// What is free on one node, as the index keeps it.
    #[inline]
    pub(crate) fn gpus_free_on(&self, id: NodeId) -> FreeGpus {
        let node = &self.nodes[id.index()];
        let (idle, releasing) = (node.amounts.idle.get(GPU), node.amounts.releasing.get(GPU));
        let later = idle + releasing;
        let plain = node.groups.is_empty() && node.mig == crate::world::node::Mig::Off;
        let (any, capacity) = if plain {
            let capacity =
                FreeGpuCapacity { centi: later * 100, mib: later * node.gpus.memory_mib };
            (idle > 0 || releasing > 0, capacity)
        } else {
            let idle_centi = node.idle_gpu_centi(&self.names);
            let releasing_centi = node.releasing_gpu_centi(&self.names);
            let centi = idle_centi + releasing_centi;
            let capacity = FreeGpuCapacity { centi, mib: node.available_gpu_mib(&self.names) };
            (idle_centi > 0 || releasing_centi > 0, capacity)
        };
        let capacity = if node.unusable.is_none() { capacity } else { FreeGpuCapacity::default() };
        FreeGpus { idle, later, any, capacity, shares: !node.groups.is_empty() }
    }

    /// GPUs free or becoming free on nodes where pods may be placed: hundredths of devices, and MiB.
    pub(crate) fn available_on_ready_nodes(&self) -> (i64, i64) {
        let free = self.free_gpus.total_free();
        (free.centi, free.mib)
    }

    /// The least memory that the GPU fraction of `shape` can be on any node, in MiB.
    pub(crate) fn least_share(&self, shape: &Shape) -> i64 {
        match shape.gpu {
            crate::world::shape::GpuDemand::Memory { mib, .. } => mib,
            crate::world::shape::GpuDemand::Portion { portion, .. } => {
                let measured = self.totals.unmeasured_nodes() == 0;
                let smallest = self.totals.smallest_gpu_mib().filter(|_| measured).unwrap_or(0);
                (portion.0 * smallest as f64) as i64
            }
            _ => 0,
        }
    }

    /// Jobs that lack members, or did.
    pub(crate) fn jobs_to_check_for_staleness(&self) -> Vec<JobId> {
        self.job_index.suspects.iter().copied().collect()
    }

    /// Jobs with waiting pods whose queue does not exist.
    pub(crate) fn jobs_without_queue(&self) -> Vec<JobId> {
        self.job_index.homeless.iter().copied().collect()
    }

    /// Releasing pods, with the moment from which they count as stuck.
    pub(crate) fn releasing_pods(&self) -> Vec<(crate::time::Timestamp, TaskId)> {
        self.releasing.iter().copied().collect()
    }

    /// Some pod keeps others away from where it is.
    pub(crate) fn some_pod_repels(&self) -> bool {
        self.shapes.some_repel()
    }

    /// Fills slot `id`, vacant or the next of the arena, with a pod group and the pods that name it.
    pub(crate) fn form_job(&mut self, id: JobId, mut spec: Box<PodGroupSpec>) {
        let queue_name = spec.queue.clone();
        let name = spec.name.clone();
        let queue = self.queue_ids.get(&queue_name).copied();
        let tree = self.job_trees.share(&mut spec.tree);
        let mut job = Job::new(spec, queue, tree);
        if let Some(slot) = self.jobs.get_mut(id.index()) {
            job.is_listed_as_changed = slot.is_listed_as_changed;
            *slot = job;
        } else {
            self.jobs.push(job);
        }
        self.forget_class(id);
        if self.job(id).is_semi_preemptible() {
            self.semi_preemptible.insert(id);
        }
        self.jobs_of_queue.entry(queue_name).or_default().insert(id);
        for task in self.pods_without_job.remove(&name).unwrap_or_default() {
            self.join_job(task, id);
        }
        // Each pod that joined put the job in the index already.
        self.reindex_job(id);
    }

    pub(crate) fn dissolve_job(&mut self, id: JobId) {
        let mut pods: Vec<TaskId> = self.job(id).tasks().collect();
        pods.extend(&self.job(id).strays);
        for task in pods {
            self.leave_job(task, id);
            self.list_without_job(task);
        }
        self.unindex_job(id);
        self.semi_preemptible.remove(&id);
        let queue = self.job(id).spec.queue.clone();
        unlist(&mut self.jobs_of_queue, &queue, id);
    }

    /// The pod waits for the pod group that it names.
    fn list_without_job(&mut self, task: TaskId) {
        if let Some(group) = self.group_of(task) {
            self.pods_without_job.entry(group).or_default().insert(task);
        }
    }

    fn join_job(&mut self, task: TaskId, job: JobId) {
        self.forget_class(job);
        self.unindex_job(job);
        let name = self.task(task).spec.sub_group.clone().unwrap_or_else(|| DEFAULT_LEAF.into());
        let leaf = self.job(job).leaf_named(&name);
        self.tasks[task.index()].job = Some(job);
        self.tasks[task.index()].leaf = leaf.map(|leaf| leaf as u32);
        self.recount_gpus(task, 0);
        let status = self.task(task).state.status;
        if let Some(leaf) = leaf {
            let place = self.jobs[job.index()].leaves[leaf]
                .tasks
                .partition_point(|other| self.task_order(*other, task).is_lt());
            let job = &mut self.jobs[job.index()];
            job.leaves[leaf].tasks.insert(place, task);
            job.leaves[leaf].counts.add(status);
            job.counts.add(status);
        } else {
            let strays = &self.jobs[job.index()].strays;
            let place = strays
                .partition_point(|other| self.task(*other).spec.name < self.task(task).spec.name);
            self.jobs[job.index()].strays.insert(place, task);
        }
        self.charge(task);
        self.index_job(job);
    }

    fn leave_job(&mut self, task: TaskId, job: JobId) {
        self.forget_class(job);
        self.unindex_job(job);
        self.uncharge(task);
        let status = self.task(task).state.status;
        let entry = &mut self.jobs[job.index()];
        if let Some(leaf) = self.tasks[task.index()].leaf {
            let leaf = &mut entry.leaves[leaf as usize];
            if let Some(place) = leaf.tasks.iter().position(|other| *other == task) {
                leaf.tasks.remove(place);
            }
            leaf.counts.remove(status);
            entry.counts.remove(status);
        } else {
            entry.strays.retain(|other| *other != task);
        }
        let placed_gpu_centi = self.tasks[task.index()].placed_gpu_centi();
        self.tasks[task.index()].leaf = None;
        self.recount_gpus(task, placed_gpu_centi);
        self.tasks[task.index()].job = None;
        self.index_job(job);
    }

    /// A queue came: its jobs join it.
    pub(crate) fn rejoin_jobs_of_queue(&mut self, name: &Text) {
        self.move_jobs_of_queue(name, self.queue_ids.get(name).copied());
    }

    /// Removes a queue: its jobs have no queue.
    pub(crate) fn leave_jobs_of_queue(&mut self, name: &Text) {
        self.move_jobs_of_queue(name, None);
    }

    fn move_jobs_of_queue(&mut self, name: &Text, queue: Option<crate::ids::QueueId>) {
        let jobs: Vec<JobId> = self
            .jobs_of_queue
            .get(name)
            .map(|jobs| jobs.iter().copied().collect())
            .unwrap_or_default();
        for job in jobs {
            self.forget_class(job);
            self.unindex_job(job);
            let tasks: Vec<TaskId> = self.job(job).tasks().collect();
            for task in &tasks {
                self.uncharge(*task);
            }
            self.jobs[job.index()].queue = queue;
            for task in &tasks {
                self.charge(*task);
            }
            self.index_job(job);
        }
    }

    /// Devices, classes or claims changed: nodes and pods that depend on them look anew.
    pub(crate) fn change_devices(
        &mut self,
        change: impl FnOnce(
            &mut crate::plugins::dynamicresources::Claims,
        ) -> crate::plugins::dynamicresources::Touched,
    ) -> Effect {
        let touched = change(&mut self.claims);
        self.refusal_tables.clear();
        for node in &touched.nodes {
            if let Some(id) = self.node_ids.get(node).copied() {
                let spec = self.node(id).spec.clone();
                self.renew_node(id, spec);
            }
        }
        for pod in &touched.pods {
            if let Some(id) = self.task_ids.get(pod).copied() {
                self.reattach(id);
            }
        }
        Effect { changed: touched.changed, problems: Vec::new() }
    }
}
