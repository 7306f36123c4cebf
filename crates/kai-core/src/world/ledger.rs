//! Writes of a running cycle. Each saves what it replaces in the undo log and keeps the indexes of nodes true;
//! the index of jobs follows when a decision is committed.

use std::collections::BTreeSet;

use crate::fairness::Amounts;
use crate::ids::{JobId, NodeId, QueueId, TaskId};
use crate::input::pod::PodRole;
use crate::plugins::dynamicresources::SharedDevices;
use crate::plugins::numa::ZonePlacement;
use crate::resources::GPU;
use crate::status::Status;
use crate::time::Timestamp;
use crate::world::World;
use crate::world::accounting;
use crate::world::index::{Fill, Indexed, JobKey};
use crate::world::node::{DeviceDemand, Groups, Resident};
use crate::world::undo::{Checkpoint, Moment, Undo};

/// Where a task is put.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node: NodeId,
    pub(crate) groups: Groups,
    pub(crate) zones: ZonePlacement,
}

/// What a pod does in the accounts of a node.
#[derive(Clone, Copy)]
enum Account {
    Enter,
    Leave,
}

impl World {
    /// A number that is equal for equal states of the world within one cycle.
    pub(crate) fn state_id(&self) -> u64 {
        self.log.state()
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        self.log.checkpoint()
    }

    /// Nodes whose accounts changed since `moment`, and all nodes of jobs of which a pod changed.
    pub(crate) fn nodes_concerned_since(&self, moment: Moment) -> BTreeSet<NodeId> {
        let mut nodes: BTreeSet<NodeId> = self.log.nodes_since(moment).collect();
        let tasks = self.log.tasks_since(moment);
        let jobs: BTreeSet<JobId> = tasks.filter_map(|task| self.task(task).job).collect();
        for job in jobs {
            nodes.extend(self.job(job).tasks().filter_map(|task| self.task(task).state.node));
        }
        nodes
    }

    /// Restores everything written since `checkpoint`.
    pub(crate) fn rollback(&mut self, checkpoint: Checkpoint) {
        while let Some(entry) = self.log.pop_after(checkpoint) {
            match entry {
                Undo::Task(task, state) => self.restore_task(task, state),
                Undo::Amounts(node, amounts) => {
                    self.nodes[node.index()].amounts = amounts;
                    self.index_node(node);
                }
                // The vectors saved with them come back next, and the index with those.
                Undo::Groups(node, groups) => self.nodes[node.index()].groups = groups,
                Undo::ResidentAdded(node) => {
                    if let Some(resident) = self.nodes[node.index()].residents.pop() {
                        let pod = &self.tasks[resident.task.index()].spec;
                        self.terms.leave(node, &pod.constraints);
                    }
                }
                Undo::ResidentChanged(node, at, resident) => {
                    self.nodes[node.index()].residents[at as usize] = resident;
                }
                Undo::Queue(queue, allocated, non_preemptible) => {
                    let shares = &mut self.tree.queues[queue.index()].shares;
                    shares.allocated = allocated;
                    shares.allocated_non_preemptible = non_preemptible;
                }
                Undo::GpuType(at, queue, allocated) => self.restore_gpu_type(at, queue, allocated),
                Undo::Zones(node, amounts) => {
                    if let Some(numa) = &mut self.nodes[node.index()].numa {
                        numa.restore(amounts);
                    }
                }
                Undo::Claim(claim, state) => self.claims.restore(claim, state),
                Undo::Core(job, core) => self.jobs[job.index()].core = core,
                Undo::LastStart(job, time) => self.jobs[job.index()].last_start = time,
            }
        }
    }

    /// Puts a task on a node it is not on: allocated, or nominated.
    pub(crate) fn put(&mut self, task: TaskId, place: &Place, status: Status) {
        let accepted = {
            let node = &self.nodes[place.node.index()];
            node.accepted(self.shape_of(task), self.config.compatibility)
        };
        self.change_task(task, |state| {
            state.status = status;
            state.tentative = true;
            state.node = Some(place.node);
            state.groups.clone_from(&place.groups);
            state.zones.clone_from(&place.zones);
            state.accepted = accepted;
        });
        self.save_node(place.node, task);
        self.account(task, place.node, &place.groups, status, Account::Enter);
        let resident =
            Resident { task, status, groups: place.groups.clone(), zones: place.zones.clone() };
        self.nodes[place.node.index()].residents.push(resident);
        self.terms.arrive(place.node, &self.tasks[task.index()].spec.constraints);
        self.log.push(Undo::ResidentAdded(place.node));
        self.index_node(place.node);
        self.hold(task, place.node);
    }

    /// Gives the entry of a task on its node another status, keeping its place.
    pub(crate) fn turn(&mut self, task: TaskId, status: Status, tentative: bool) {
        self.change_task(task, |state| {
            state.status = status;
            state.tentative = tentative;
        });
        let Some(node) = self.task(task).state.node else { return };
        let Some(at) = self.node(node).resident(task) else { return };
        let old = self.node(node).residents[at].clone();
        self.save_node(node, task);
        self.account(task, node, &old.groups, old.status, Account::Leave);
        self.account(task, node, &old.groups, status, Account::Enter);
        self.nodes[node.index()].residents[at].status = status;
        self.log.push(Undo::ResidentChanged(node, at as u32, old));
        self.index_node(node);
    }

    /// Evicts a task: it holds its place while it is releasing and no longer counts in its queue.
    pub(crate) fn evict(&mut self, task: TaskId) {
        let node = self.task(task).state.node;
        self.turn(task, Status::Releasing, true);
        if let Some(node) = node {
            self.release(task, node);
        }
    }

    /// Takes an eviction back: the task is what it was, where it was.
    pub(crate) fn unevict(&mut self, task: TaskId, status: Status, tentative: bool) {
        self.turn(task, status, tentative);
        if let Some(node) = self.task(task).state.node {
            self.hold(task, node);
        }
    }

    /// Turns a placement of this cycle into a nomination to the same node.
    pub(crate) fn turn_into_nomination(&mut self, task: TaskId) {
        self.turn(task, Status::Pipelined, true);
    }

    /// Nominates an evicted task to its own node again, with other NUMA zones.
    pub(crate) fn realign(&mut self, task: TaskId, place: &Place) {
        self.turn(task, Status::Pipelined, true);
        self.change_task(task, |state| state.zones.clone_from(&place.zones));
        if let Some(at) = self.node(place.node).resident(task) {
            let old = self.node(place.node).residents[at].clone();
            self.nodes[place.node.index()].residents[at].zones.clone_from(&place.zones);
            self.log.push(Undo::ResidentChanged(place.node, at as u32, old));
        }
        self.hold(task, place.node);
    }

    /// Marks a placed task as being bound; accounts are the same.
    pub(crate) fn mark_binding(&mut self, task: TaskId) {
        self.turn(task, Status::Binding, false);
    }

    /// Notes that the status of a task is decided.
    pub(crate) fn mark_decided(&mut self, task: TaskId) {
        self.change_task(task, |state| state.tentative = false);
    }

    /// Notes when a job started.
    pub(crate) fn set_last_start(&mut self, job: JobId, time: Timestamp) {
        let entry = &mut self.jobs[job.index()];
        self.log.push(Undo::LastStart(job, entry.last_start));
        entry.last_start = Some(time);
    }

    fn change_task(
        &mut self,
        task: TaskId,
        change: impl FnOnce(&mut crate::world::task::TaskState),
    ) {
        let entry = &mut self.tasks[task.index()];
        self.log.push(Undo::Task(task, entry.state.clone()));
        let before = (entry.state.status, entry.placed_gpu_centi());
        change(&mut entry.state);
        self.recount(task, before);
    }

    fn restore_task(&mut self, task: TaskId, state: crate::world::task::TaskState) {
        let entry = &mut self.tasks[task.index()];
        let before = (entry.state.status, entry.placed_gpu_centi());
        entry.state = state;
        self.recount(task, before);
    }

    /// Counts the pod in its job as it is now; before, it had this status and these GPUs.
    fn recount(&mut self, task: TaskId, (before, gpu_centi): (Status, i64)) {
        self.recount_gpus(task, gpu_centi);
        let entry = &self.tasks[task.index()];
        let after = entry.state.status;
        if before == after {
            return;
        }
        let (Some(job), Some(leaf)) = (entry.job, entry.leaf) else { return };
        let job = &mut self.jobs[job.index()];
        job.counts.remove(before);
        job.counts.add(after);
        let leaf = &mut job.leaves[leaf as usize];
        leaf.counts.remove(before);
        leaf.counts.add(after);
    }

    /// Counts the GPUs of the pod in its job as they are now; before, there were so many hundredths.
    pub(crate) fn recount_gpus(&mut self, task: TaskId, before: i64) {
        let entry = &self.tasks[task.index()];
        if let Some(job) = entry.job {
            let job = &mut self.jobs[job.index()];
            let others = job.placed_gpu_centi.wrapping_sub(before);
            job.placed_gpu_centi = others.wrapping_add(entry.placed_gpu_centi());
        }
    }

    fn save_node(&mut self, id: NodeId, task: TaskId) {
        let node = &self.nodes[id.index()];
        self.log.push(Undo::Amounts(id, node.amounts.clone()));
        if node.demand(self.shape_of(task), self.config.compatibility) != DeviceDemand::Vector {
            self.log.push(Undo::Groups(id, self.nodes[id.index()].groups.clone()));
        }
    }

    fn account(
        &mut self,
        task: TaskId,
        id: NodeId,
        groups: &Groups,
        status: Status,
        account: Account,
    ) {
        let shared = if self.task(task).claims.is_empty() {
            SharedDevices::default()
        } else {
            self.shared_devices(task, id, status)
        };
        let entry = &self.tasks[task.index()];
        let shape = &self.shapes[entry.shape];
        let node = &mut self.nodes[id.index()];
        let compatibility = self.config.compatibility;
        let demand = node.demand_of(entry, shape, compatibility);
        let holds_gpus = entry.spec.role != PodRole::Reservation;
        let mut vector = accounting::tracked(node, shape, holds_gpus, compatibility);
        vector.add_at(GPU, -shared.gpus.min(vector.get(GPU)));
        match account {
            Account::Enter => {
                accounting::add(node, &vector, demand, groups, status, compatibility);
                shared.account(&mut node.amounts, 1);
            }
            Account::Leave => {
                accounting::remove(node, &vector, demand, groups, status, compatibility);
                shared.account(&mut node.amounts, -1);
            }
        }
    }

    /// The task counts in its queue, its zones and its claims.
    fn hold(&mut self, task: TaskId, node: NodeId) {
        if self.policy.charges_queues() {
            self.charge_chain(task, 1.0);
            self.charge_gpu_type(task, node, 1);
        }
        self.draw_zones(task, node);
        self.reserve_claims(task, node);
    }

    /// The task no longer counts in its queue, its zones and its claims.
    fn release(&mut self, task: TaskId, node: NodeId) {
        if self.policy.charges_queues() {
            self.charge_chain(task, -1.0);
            self.charge_gpu_type(task, node, -1);
        }
        self.return_zones(task, node);
        self.free_claims(task);
    }

    fn charge_chain(&mut self, task: TaskId, sign: f64) {
        let entry = &self.tasks[task.index()];
        let Some(id) = entry.job else { return };
        let job = &self.jobs[id.index()];
        let Some(queue) = job.queue else { return };
        let amounts = entry.state.accepted.amounts();
        let mut fixed = Amounts::ZERO;
        if job.is_semi_preemptible() {
            fixed = self.update_core(id);
        } else if !job.is_preemptible() {
            for resource in crate::fairness::QueueResource::ALL {
                fixed[resource] = sign * amounts[resource];
            }
        }
        let compatibility = self.config.compatibility;
        let mut next: Option<QueueId> = Some(queue);
        while let Some(queue) = next {
            let node = &mut self.tree.queues[queue.index()];
            let shares = &mut node.shares;
            self.log.push(Undo::Queue(queue, shares.allocated, shares.allocated_non_preemptible));
            shares.allocated.charge(&amounts, sign, compatibility);
            shares.allocated_non_preemptible.charge(&fixed, 1.0, compatibility);
            next = node.parent;
        }
    }

    /// The job's place in job order, as things stand.
    pub(crate) fn job_key(&self, id: JobId) -> JobKey {
        self.job_key_with(id, if self.policy.orders_by_fill { self.fill(id) } else { Fill::Below })
    }

    /// The place that the job has, or had, with this fill.
    fn job_key_with(&self, id: JobId, fill: Fill) -> JobKey {
        let job = self.job(id);
        JobKey {
            priority: std::cmp::Reverse(if self.policy.orders_by_priority {
                job.spec.priority
            } else {
                0
            }),
            fill,
            created: job.spec.created,
            uid: job.spec.uid.clone(),
            job: id,
        }
    }

    /// How many pods the job has of those it needs.
    pub(crate) fn fill(&self, id: JobId) -> Fill {
        fill_of(
            self.job(id)
                .leaves
                .iter()
                .map(|leaf| (leaf.counts.active_allocated(), leaf.declared.min_available)),
        )
    }

    /// Puts the job where it belongs in the index of its queue.
    pub(crate) fn index_job(&mut self, id: JobId) {
        let job = self.job(id);
        if job.spec.stale_since.is_some() || self.is_stale(id) {
            self.job_index.suspects.insert(id);
        }
        if self.has_waiting_pods(id) {
            self.job_index.waiting.insert(id);
        }
        let job = self.job(id);
        let pending = job.counts.of(Status::Pending) > 0;
        let Some(queue) = job.queue else {
            if pending {
                self.job_index.homeless.insert(id);
            }
            return;
        };
        let holds = job.counts.active_allocated() > 0;
        if !pending && !holds {
            return;
        }
        let movable = holds && self.has_movable_pods(id);
        let key = self.job_key(id);
        let size = movable.then_some(job.placed_gpu_centi);
        let jobs = self.job_index.of_mut(queue);
        let fill = key.fill;
        if pending && holds {
            jobs.pending.insert(key.clone());
        }
        let place = match size {
            Some(size) => {
                jobs.add_size(size);
                &mut jobs.running
            }
            None if holds => &mut jobs.fixed,
            None => &mut jobs.pending,
        };
        place.insert(key);
        self.job_index.remember(id, Indexed { queue, fill, size });
    }

    pub(crate) fn has_waiting_pods(&self, id: JobId) -> bool {
        let job = self.job(id);
        job.counts.count(Status::is_waiting) > 0
            || job.strays.iter().any(|task| self.task(*task).state.status.is_waiting())
    }

    /// Takes the job out of the index, wherever it was put.
    pub(crate) fn unindex_job(&mut self, id: JobId) {
        self.job_index.waiting.remove(&id);
        self.job_index.suspects.remove(&id);
        self.job_index.homeless.remove(&id);
        if let Some(Indexed { queue, fill, size }) = self.job_index.recall(id) {
            let key = self.job_key_with(id, fill);
            let jobs = self.job_index.of_mut(queue);
            jobs.pending.remove(&key);
            jobs.fixed.remove(&key);
            if let Some(size) = size {
                jobs.running.remove(&key);
                jobs.remove_size(size);
            }
        }
    }

    /// Brings the index of jobs up to date after pods of `id` changed.
    pub(crate) fn reindex_job(&mut self, id: JobId) {
        self.unindex_job(id);
        self.index_job(id);
    }
}

/// Below if some leaf has fewer than it needs, exact if all have just that, above otherwise.
pub(crate) fn fill_of(leaves: impl Iterator<Item = (u32, u32)>) -> Fill {
    let mut fill = Fill::Exact;
    for (have, need) in leaves {
        if have < need {
            return Fill::Below;
        }
        if have > need {
            fill = Fill::Above;
        }
    }
    fill
}
