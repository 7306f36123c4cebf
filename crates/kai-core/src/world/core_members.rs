//! Semi-preemptible jobs: which of their pods are the core, and what the core costs the queue.
//!
//! Rule: the core is what the tree needs. Of a leaf these are as many placed pods as it needs, the first in task order. Of a set these
//! are the cores of as many satisfied members as it needs, the first that are declared; while fewer are satisfied, of all members.
//! The core counts against the quota and is no victim; everything beyond it is like a preemptible job. Pods beyond the core are evicted
//! one by one, members beyond it as a whole, last first.

use crate::cycle::members::{Scope, Tasks};
use crate::fairness::Amounts;
use crate::ids::{JobId, QueueId, TaskId};
use crate::world::World;
use crate::world::job_tree::Member;
use crate::world::node::Accepted;

/// A part of a job's tree.
struct Split {
    is_satisfied: bool,
    /// Pods that the part needs.
    core: Tasks,
    /// The next pods beyond the core to be evicted; none if there are none.
    next: Tasks,
    /// All its placed pods.
    placed: Tasks,
}

impl World {
    /// Placed pods of a semi-preemptible job that may not be preempted.
    pub(crate) fn core_tasks(&self, id: JobId) -> Tasks {
        self.split(Scope::whole(id), Member::Set(0), &[]).core
    }

    /// The next pods of a semi-preemptible job that may be evicted.
    pub(crate) fn tasks_beyond_core(&self, scope: Scope<'_>) -> Tasks {
        self.split(scope, Member::Set(0), &[]).next
    }

    /// Divides a part of the tree, as if `extra` were placed too.
    fn split(&self, scope: Scope<'_>, member: Member, extra: &[TaskId]) -> Split {
        match member {
            Member::Leaf(leaf) => self.split_leaf(scope, leaf, extra),
            Member::Set(set) => self.split_set(scope, set, extra),
        }
    }

    fn split_leaf(&self, scope: Scope<'_>, leaf: usize, extra: &[TaskId]) -> Split {
        let leaf = &self.job(scope.job).leaves[leaf];
        let is_placed = |task: &TaskId| {
            scope.has(*task)
                && (self.task(*task).state.status.is_active_allocated() || extra.contains(task))
        };
        let placed: Tasks = leaf.tasks.iter().copied().filter(is_placed).collect();
        let needed = leaf.declared.min_available as usize;
        let core = placed.iter().copied().take(needed).collect();
        let next = placed.iter().copied().skip(needed).last().into_iter().collect();
        Split { is_satisfied: placed.len() >= needed, core, next, placed }
    }

    fn split_set(&self, scope: Scope<'_>, set: usize, extra: &[TaskId]) -> Split {
        let job = self.job(scope.job);
        let members = job.tree.sets[set].members.iter();
        let parts: Vec<Split> = members.map(|member| self.split(scope, *member, extra)).collect();
        let needed = job.threshold(set) as usize;
        let is_satisfied = parts.iter().filter(|part| part.is_satisfied).count() >= needed;
        let mut left = needed;
        let belongs: Vec<bool> = parts
            .iter()
            .map(|part| {
                let belongs = !is_satisfied || (part.is_satisfied && left > 0);
                left -= usize::from(is_satisfied && belongs);
                belongs
            })
            .collect();
        let core = parts.iter().zip(&belongs).filter(|(_, belongs)| **belongs);
        let core = core.flat_map(|(part, _)| part.core.iter().copied()).collect();
        let ends = parts.iter().zip(&belongs).rev().map(|(part, belongs)| {
            let whole = if *belongs { &part.next } else { &part.placed };
            if part.next.is_empty() { whole } else { &part.next }
        });
        let next = ends.into_iter().find(|tasks| !tasks.is_empty()).cloned().unwrap_or_default();
        let placed = parts.iter().flat_map(|part| part.placed.iter().copied()).collect();
        Split { is_satisfied, core, next, placed }
    }

    /// What the core of a job costs its queue.
    pub(crate) fn core_cost(&self, id: JobId) -> Accepted {
        let mut cost = Accepted::default();
        for task in self.core_tasks(id) {
            cost.add(&self.task(task).state.accepted);
        }
        cost
    }

    /// Notes what the core of a job costs now; by how much that changed.
    pub(crate) fn update_core(&mut self, id: JobId) -> Amounts {
        let now = self.core_cost(id);
        let entry = &mut self.jobs[id.index()];
        let before = std::mem::replace(&mut entry.core, now);
        if before != now {
            self.log.push(crate::world::undo::Undo::Core(id, before));
        }
        let (before, now) = (before.amounts(), now.amounts());
        let mut change = Amounts::ZERO;
        for resource in crate::fairness::QueueResource::ALL {
            change[resource] = now[resource] - before[resource];
        }
        change
    }

    /// Notes what the cores of all semi-preemptible jobs cost, for a new cycle.
    pub(crate) fn load_cores(&mut self) -> Vec<(QueueId, Accepted)> {
        let ids: Vec<JobId> = self.semi_preemptible.iter().copied().collect();
        let mut cores = Vec::with_capacity(ids.len());
        for id in ids {
            let core = self.core_cost(id);
            let entry = &mut self.jobs[id.index()];
            entry.core = core;
            cores.extend(entry.queue.map(|queue| (queue, core)));
        }
        cores
    }

    /// Pods of the job may be victims: all of them, or those beyond its core.
    pub(crate) fn has_movable_pods(&self, id: JobId) -> bool {
        let job = self.job(id);
        job.is_preemptible()
            || (job.is_semi_preemptible() && !self.tasks_beyond_core(Scope::whole(id)).is_empty())
    }

    /// `tasks` of the job are asked for like those of a preemptible one: they need not fit the quota. Of a semi-preemptible job none of
    /// them may become part of the core.
    pub(crate) fn asks_beyond_quota(&self, id: JobId, tasks: &[TaskId]) -> bool {
        let job = self.job(id);
        if !job.is_semi_preemptible() {
            return job.is_preemptible();
        }
        let split = self.split(Scope::whole(id), Member::Set(0), tasks);
        split.is_satisfied && !tasks.iter().any(|task| split.core.contains(task))
    }

    /// What the core of a semi-preemptible job costs more once `tasks` are placed. A task that completes a member
    /// can make the pods that the member already has part of the core.
    pub(crate) fn core_growth(
        &self,
        id: JobId,
        tasks: &[TaskId],
        device_mib: Option<i64>,
    ) -> Amounts {
        let mut growth = Amounts::ZERO;
        for task in self.split(Scope::whole(id), Member::Set(0), tasks).core {
            growth += if tasks.contains(&task) {
                self.shape_of(task).queue_cost().amounts(device_mib)
            } else {
                self.task(task).state.accepted.amounts()
            };
        }
        let before = self.job(id).core.amounts();
        for resource in crate::fairness::QueueResource::ALL {
            growth[resource] = (growth[resource] - before[resource]).max(0.0);
        }
        growth
    }

    /// A semi-preemptible job still has its core.
    pub(crate) fn keeps_core(&self, id: JobId) -> bool {
        !self.job(id).is_semi_preemptible()
            || self.split(Scope::whole(id), Member::Set(0), &[]).is_satisfied
    }
}
