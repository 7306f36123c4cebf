//! Semi-preemptible jobs: which of their pods are the core, and what the core costs the queue.
//!
//! Rule: the core is what the tree needs. Of a leaf these are as many placed pods as it needs, the first in task order. Of a set these
//! are the cores of its members; where more members are satisfied than it needs, of the first of those in sub-group order.
//! The core counts against the quota and is no victim; everything beyond it is like a preemptible job.

use crate::cycle::members::{Scope, Tasks};
use crate::fairness::Amounts;
use crate::ids::{JobId, QueueId};
use crate::world::World;
use crate::world::job::Member;
use crate::world::node::Accepted;

impl World {
    /// Placed pods of a semi-preemptible job that may not be preempted.
    pub(crate) fn core_tasks(&self, id: JobId) -> Tasks {
        let mut core = Tasks::new();
        self.collect_core(Scope::whole(id), Member::Set(0), &mut core);
        core
    }

    fn collect_core(&self, scope: Scope<'_>, member: Member, core: &mut Tasks) {
        let job = self.job(scope.job);
        match member {
            Member::Leaf(leaf) => {
                let needed = job.leaves[leaf].min_available as usize;
                core.extend(self.placed_of_leaf(scope, leaf).into_iter().take(needed));
            }
            Member::Set(set) => {
                let needed = job.threshold(set) as usize;
                let members = self.ordered_members(scope, set);
                let satisfied = members.iter().filter(|member| self.is_satisfied(scope, **member));
                if satisfied.clone().count() > needed {
                    satisfied.take(needed).for_each(|one| self.collect_core(scope, *one, core));
                } else {
                    members.iter().for_each(|one| self.collect_core(scope, *one, core));
                }
            }
        }
    }

    /// What the core of a job costs its queue.
    pub(crate) fn core_cost(&self, id: JobId) -> Accepted {
        let mut cost = Accepted::default();
        for task in self.core_tasks(id) {
            let state = &self.task(task).state;
            // What is only promised is charged when it is held.
            cost.add(&state.accepted);
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
            || (job.is_semi_preemptible()
                && !self.tasks_to_evict(Scope::whole(id)).tasks.is_empty())
    }

    /// The next pods of the job are asked for like those of a preemptible one: they need not fit the quota. Until a semi-preemptible
    /// job has its core, its next pods belong to it.
    pub(crate) fn asks_beyond_quota(&self, id: JobId) -> bool {
        let job = self.job(id);
        job.is_preemptible()
            || (job.is_semi_preemptible() && self.is_satisfied(Scope::whole(id), Member::Set(0)))
    }

    /// Every semi-preemptible job still has its core.
    pub(crate) fn keeps_core(&self, id: JobId) -> bool {
        !self.job(id).is_semi_preemptible() || self.is_satisfied(Scope::whole(id), Member::Set(0))
    }
}
