//! How pods come to nodes and jobs. A node's accounts are always the fold over its pods in one order
//! (reservations first, then by UID), so that any history of deltas ends in the same accounts.

use std::sync::Arc;

use crate::ids::{JobId, NodeId, TaskId};
use crate::input::pod::PodRole;
use crate::input::pod_group::{DEFAULT_LEAF, PodGroupSpec};
use crate::input::{ObjectName, PodSpec, Text};
use crate::resources::GPU;
use crate::status::Status;
use crate::world::accounting;
use crate::world::index::{FreeGpuIndex, GpuRoom};
use crate::world::job::Job;
use crate::world::node::{DeviceDemand, Groups, Resident};
use crate::world::shape::Shape;
use crate::world::task::{Task, TaskState};
use crate::world::{Assumed, Effect, World};

/// Where a pod is, as objects and decisions in flight tell.
struct Observed {
    status: Status,
    node: Option<Text>,
    groups: Vec<Text>,
}

impl World {
    pub(crate) fn insert_pod(&mut self, spec: PodSpec) {
        let name = spec.name.clone();
        let spec = Arc::new(spec);
        self.claims.know_pod(&spec);
        let sharing = self.assume_claims(&name, Some(spec.status));
        let claims = self.claims.of_pod(&spec);
        let shape = self.shape_for(&spec);
        let task = Task {
            live: true,
            shape,
            job: None,
            leaf: None,
            claims,
            state: TaskState::nowhere(spec.status),
            spec,
        };
        let id = match self.free_task_slots.pop() {
            Some(id) => {
                self.tasks[id.index()] = task;
                id
            }
            None => {
                self.tasks.push(task);
                TaskId::new(self.tasks.len() - 1)
            }
        };
        self.task_ids.insert(name, id);
        if let Some(group) = self.group_of(id) {
            self.pods_of_group.entry(group).or_default().insert(id);
        }
        self.attach(id);
        self.reattach_sharing(&sharing, id);
    }

    pub(crate) fn remove_pod(&mut self, name: &ObjectName) -> Effect {
        let Some(id) = self.task_ids.remove(name) else {
            return Effect::default();
        };
        self.detach(id);
        if let Some(group) = self.group_of(id)
            && let Some(pods) = self.pods_of_group.get_mut(&group)
        {
            pods.remove(&id);
        }
        self.tasks[id.index()].live = false;
        self.free_task_slots.push(id);
        let spec = Arc::clone(&self.task(id).spec);
        self.claims.forget_pod(&spec);
        let sharing = self.assume_claims(name, None);
        self.reattach_sharing(&sharing, id);
        Effect { changed: true, problems: Vec::new() }
    }

    /// Takes over what the bind request of a pod decided for its claims, while the pod lives. Pods that share the
    /// claims and must look anew.
    pub(crate) fn assume_claims(
        &mut self,
        pod: &ObjectName,
        status: Option<Status>,
    ) -> Vec<ObjectName> {
        let lives = !matches!(status, None | Some(Status::Succeeded | Status::Failed));
        let request = self.bind_requests.get(pod).filter(|bind| lives && !bind.failed);
        let decided = request.map(|bind| bind.claim_allocations.clone()).unwrap_or_default();
        self.claims.assume(pod, decided)
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

    fn shape_for(&mut self, spec: &Arc<PodSpec>) -> crate::world::shape::ShapeId {
        let claimed = if self.config.params.dynamic_resources {
            self.claims.gpus_of_pod(spec, self.config.compatibility)
        } else {
            0
        };
        let constraints = Arc::new(spec.constraints.clone());
        let shape = Shape::new(&spec.request, claimed, &constraints, &mut self.names);
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
            && observed.status.is_active_used()
        {
            self.pods_of_node.entry(name.clone()).or_default().insert(id);
            if let Some(node) = self.node_ids.get(&name).copied() {
                self.tasks[id.index()].state.node = Some(node);
                self.account_arrival(id, node);
            }
        }
        if let Some(job) = self.group_of(id).and_then(|group| self.job_ids.get(&group)).copied() {
            self.join_job(id, job);
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
        }
        let listed: Option<Text> = self.listed_node(id);
        if let Some(name) = listed {
            if let Some(pods) = self.pods_of_node.get_mut(&name) {
                pods.remove(&id);
            }
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
        let assumed = match self.assumed.get(&self.task(id).spec.name) {
            Some(Assumed::Bind { node, .. }) => Some(node.clone()),
            _ => None,
        };
        [named, bound, assumed]
            .into_iter()
            .flatten()
            .find(|name| self.pods_of_node.get(name).is_some_and(|pods| pods.contains(&id)))
    }

    /// The pod's own word, then a live bind request, then a decision in flight.
    fn observe(&self, id: TaskId) -> Observed {
        let spec = &self.task(id).spec;
        let mut observed = Observed {
            status: spec.status,
            node: spec.node.clone(),
            groups: spec.gpu_groups.clone(),
        };
        if spec.status == Status::Pending && spec.node.is_none() {
            if let Some(bind) = self.bind_requests.get(&spec.name)
                && !bind.failed
                && self.node_ids.contains_key(&bind.node)
            {
                observed.status = Status::Binding;
                observed.node = Some(bind.node.clone());
                observed.groups.clone_from(&bind.gpu_groups);
            } else if let Some(Assumed::Bind { uid, node, groups }) = self.assumed.get(&spec.name)
                && *uid == spec.uid
                && self.node_ids.contains_key(node)
            {
                observed.status = Status::Binding;
                observed.node = Some(node.clone());
                observed.groups.clone_from(groups);
            }
        }
        if let Some(Assumed::Eviction { uid }) = self.assumed.get(&spec.name)
            && *uid == spec.uid
            && spec.status.is_active_allocated()
        {
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
        for task in pods {
            self.fold_in(task, id);
        }
        self.reset_zones(id);
        self.index_node(id);
    }

    /// Accounts one pod on a node whose accounts are being folded.
    fn fold_in(&mut self, id: TaskId, node: NodeId) {
        self.uncharge(id);
        let task = &self.tasks[id.index()];
        let shape = &self.shapes[task.shape];
        let compatibility = self.config.compatibility;
        let target = &self.nodes[node.index()];
        let demand = target.demand(shape, compatibility);
        let holds_gpus = task.spec.role != PodRole::Reservation;
        let mut groups = task.state.groups.clone();
        if let DeviceDemand::Shared { mib, devices, replica } = demand
            && (replica || groups.len() < devices as usize)
        {
            if replica {
                // Only the device plugin knows the card: every fold packs replicas anew, in one order.
                groups.clear();
            }
            groups = self.own_devices(id, node, mib, devices, replica, groups);
        }
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
        accounting::add(target, &vector, demand, &groups, status);
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
        task.state.groups = groups;
        task.state.zones = zones;
        task.state.accepted = accepted;
        self.charge(id);
    }

    /// Devices for a sharing pod that does not say which: replicas join each other where memory allows,
    /// a part of a device without an id has a device of its own.
    fn own_devices(
        &mut self,
        id: TaskId,
        node: NodeId,
        mib: i64,
        devices: i64,
        replica: bool,
        mut groups: Groups,
    ) -> Groups {
        let memory = self.node(node).gpus.memory_mib;
        let mut next = 0;
        while groups.len() < devices as usize {
            let open = self.nodes[node.index()].groups.iter().find(|group| {
                replica
                    && group.of_replicas
                    && group.allocated_mib + mib <= memory
                    && !groups.contains(&group.id)
            });
            let chosen = if let Some(group) = open {
                group.id
            } else {
                let name = format!("{}#{next}", self.task(id).spec.uid);
                next += 1;
                self.groups.intern(&name)
            };
            groups.push(chosen);
        }
        groups
    }

    /// Before a node changes or goes: its pods are nowhere.
    pub(crate) fn empty_node(&mut self, id: NodeId) {
        let pods: Vec<TaskId> =
            self.node(id).residents.iter().map(|resident| resident.task).collect();
        for task in pods {
            self.count_foreign(task, id, false);
            self.uncharge(task);
            let state = &mut self.tasks[task.index()].state;
            state.node = None;
            state.accepted = crate::world::node::Accepted::default();
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
        let in_flight = self
            .assumed
            .iter()
            .filter(|(_, assumed)| matches!(assumed, Assumed::Bind { node, .. } if node == name));
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
    fn gpus_count(&self, id: NodeId) -> bool {
        let params = &self.config.params;
        !params.restrict_node_scheduling
            || self.node(id).spec.labels.contains_key(&params.worker_labels.gpu)
    }

    /// Ranks by name, and the indexes that are kept by rank.
    pub(crate) fn rank_nodes(&mut self) {
        self.nodes_by_rank = self.node_ids.values().copied().collect();
        self.free_gpus = FreeGpuIndex::with_len(self.nodes_by_rank.len());
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
        let node = &self.nodes[id.index()];
        let rank = node.rank as usize;
        let (idle, releasing) = (node.amounts.idle.get(GPU), node.amounts.releasing.get(GPU));
        let free = idle + releasing;
        let plain = node.groups.is_empty() && node.mig == crate::world::node::Mig::Off;
        let (has_room, room) = if plain {
            let room = GpuRoom { centi: free * 100, mib: free * node.gpus.memory_mib };
            (idle > 0 || releasing > 0, room)
        } else {
            let idle_centi = node.idle_gpu_centi(&self.names);
            let releasing_centi = node.releasing_gpu_centi(&self.names);
            let centi = idle_centi + releasing_centi;
            let room = GpuRoom { centi, mib: node.available_gpu_mib(&self.names) };
            (idle_centi > 0 || releasing_centi > 0, room)
        };
        let usable = node.unusable.is_none();
        self.free_gpus.update(rank, idle, free, has_room);
        self.free_gpus.update_room(rank, if usable { room } else { GpuRoom::default() });
    }

    /// GPUs free or becoming free on nodes where pods may be placed: hundredths of devices, and MiB.
    pub(crate) fn available_on_ready_nodes(&self) -> (i64, i64) {
        let room = self.free_gpus.total_room();
        (room.centi, room.mib)
    }

    /// Jobs that lack members, or did.
    pub(crate) fn jobs_to_check_for_staleness(&self) -> Vec<JobId> {
        self.job_index.suspects.iter().copied().collect()
    }

    /// Jobs with waiting pods whose queue does not exist.
    pub(crate) fn jobs_without_queue(&self) -> Vec<JobId> {
        self.job_index.homeless.iter().copied().collect()
    }

    /// Pods on their way out, with when they start to count as stuck.
    pub(crate) fn releasing_pods(&self) -> Vec<(crate::time::Timestamp, TaskId)> {
        self.releasing.iter().copied().collect()
    }

    /// Some queue has a limit, or a quota that binds pods which may not be preempted.
    pub(crate) fn some_queue_is_limited(&self) -> bool {
        let unlimited = crate::fairness::Amounts::UNBOUNDED;
        self.tree.queues.iter().any(|queue| {
            queue.live
                && (queue.shares.max_allowed != unlimited || queue.shares.deserved != unlimited)
        })
    }

    /// Some pod keeps others away from where it is.
    pub(crate) fn some_pod_repels(&self) -> bool {
        self.shapes.some_repel()
    }

    pub(crate) fn form_job(&mut self, id: JobId, spec: Box<PodGroupSpec>) {
        let queue_name = spec.queue.clone();
        let name = spec.name.clone();
        let queue = self.queue_ids.get(&queue_name).copied();
        self.jobs[id.index()] = Job::new(spec, queue);
        self.jobs_of_queue.entry(queue_name).or_default().insert(id);
        let pods: Vec<TaskId> = self
            .pods_of_group
            .get(&name)
            .map(|pods| pods.iter().copied().collect())
            .unwrap_or_default();
        for task in pods {
            self.join_job(task, id);
        }
        self.index_job(id);
    }

    pub(crate) fn dissolve_job(&mut self, id: JobId) {
        let mut pods: Vec<TaskId> = self.job(id).tasks().collect();
        pods.extend(&self.job(id).strays);
        for task in pods {
            self.leave_job(task, id);
        }
        self.unindex_job(id);
        let queue = self.job(id).spec.queue.clone();
        if let Some(jobs) = self.jobs_of_queue.get_mut(&queue) {
            jobs.remove(&id);
        }
    }

    fn join_job(&mut self, task: TaskId, job: JobId) {
        self.unindex_job(job);
        let name = self.task(task).spec.sub_group.clone().unwrap_or_else(|| DEFAULT_LEAF.into());
        let leaf = self.job(job).leaf_named(&name);
        self.tasks[task.index()].job = Some(job);
        self.tasks[task.index()].leaf = leaf.map(|leaf| leaf as u32);
        let status = self.task(task).state.status;
        match leaf {
            Some(leaf) => {
                let place = self.jobs[job.index()].leaves[leaf]
                    .tasks
                    .partition_point(|other| self.task_order(*other, task).is_lt());
                let job = &mut self.jobs[job.index()];
                job.leaves[leaf].tasks.insert(place, task);
                job.leaves[leaf].counts.add(status);
                job.counts.add(status);
            }
            None => self.jobs[job.index()].strays.push(task),
        }
        self.charge(task);
        self.index_job(job);
    }

    fn leave_job(&mut self, task: TaskId, job: JobId) {
        self.unindex_job(job);
        self.uncharge(task);
        let status = self.task(task).state.status;
        let entry = &mut self.jobs[job.index()];
        if let Some(leaf) = self.tasks[task.index()].leaf {
            let leaf = &mut entry.leaves[leaf as usize];
            leaf.tasks.retain(|other| *other != task);
            leaf.counts.remove(status);
            entry.counts.remove(status);
        } else {
            entry.strays.retain(|other| *other != task);
        }
        self.tasks[task.index()].job = None;
        self.tasks[task.index()].leaf = None;
        self.index_job(job);
    }

    /// A queue came: its jobs join it.
    pub(crate) fn rejoin_jobs_of_queue(&mut self, name: &Text) {
        self.move_jobs_of_queue(name, self.queue_ids.get(name).copied());
    }

    /// A queue goes: its jobs have none.
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
            self.unindex_job(job);
            let tasks: Vec<TaskId> = self.job(job).tasks().collect();
            tasks.iter().for_each(|task| self.uncharge(*task));
            self.jobs[job.index()].queue = queue;
            tasks.iter().for_each(|task| self.charge(*task));
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
