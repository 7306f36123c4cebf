//! Jobs that wait without having been tried, and why.

use crate::cycle::Cycle;
use crate::ids::JobId;
use crate::report::held_back::HeldBack;
use crate::status::Status;
use crate::world::job::{Job, Leaf};

impl Cycle<'_> {
    /// Jobs with pods that wait, whether they were tried or not.
    pub(crate) fn waiting_jobs(&self) -> Vec<JobId> {
        self.world.job_index.waiting.iter().copied().collect()
    }

    /// Why the job was not tried; nothing where it was.
    pub(crate) fn held_back(&self, id: JobId) -> Vec<HeldBack> {
        let job = self.world.job(id);
        let mut found: Vec<HeldBack> = self.strays(job).into_iter().collect();
        let tried = self.fits.get(&id).is_some_and(|fit| !fit.says_nothing());
        if tried || job.counts.count(Status::is_waiting) == 0 {
            return found;
        }
        let Some(queue) = job.queue else { return found };
        let node = self.world.tree.node(queue);
        if !node.live {
            let name = node.name.clone();
            found.push(if self.world.tree.has_cycle_above(queue) {
                HeldBack::QueueInCycle(name)
            } else {
                HeldBack::QueueWithoutParent(name)
            });
        } else if !node.children.is_empty() {
            found.push(HeldBack::QueueHasChildren(node.name.clone()));
        } else if let Some(why) = &job.spec.denied {
            found.push(HeldBack::Denied(why.clone()));
        } else if !job.spec.schedulable {
            found.push(HeldBack::GivenUp);
        } else if !self.world.is_ready(id) || job.counts.of(Status::Pending) == 0 {
            found.push(lacking(job));
        } else {
            found.push(self.passed_over());
        }
        found
    }

    fn strays(&self, job: &Job) -> Option<HeldBack> {
        let first = job.strays.first()?;
        let named = self.world.task(*first).spec.sub_group.clone();
        let sub_group = named.unwrap_or_else(|| crate::input::pod_group::DEFAULT_LEAF.into());
        Some(HeldBack::UnknownSubGroup { sub_group, pods: job.strays.len() as u32 })
    }

    fn passed_over(&self) -> HeldBack {
        let depths = &self.world.config.queue_depth;
        let listed = self.world.config.actions.iter();
        let depths: Vec<_> =
            listed.filter_map(|action| depths.get(action).map(|depth| (*action, *depth))).collect();
        if depths.is_empty() { HeldBack::NotReached } else { HeldBack::BeyondQueueDepth(depths) }
    }
}

/// The first leaf that lacks pods; the first of all where none does and every pod is held back.
fn lacking(job: &Job) -> HeldBack {
    let alive = |leaf: &Leaf| leaf.counts.count(Status::is_alive);
    let held_back = |leaf: &Leaf| leaf.counts.count(Status::is_held_back);
    let lacks = |leaf: &&Leaf| alive(leaf) - held_back(leaf) < leaf.declared.min_available;
    let found = job
        .leaves
        .iter()
        .find(lacks)
        .or_else(|| job.leaves.iter().find(|leaf| held_back(leaf) > 0));
    let Some(leaf) = found else { return HeldBack::NotReached };
    let only =
        job.leaves.len() == 1 && &*leaf.declared.name == crate::input::pod_group::DEFAULT_LEAF;
    HeldBack::NotReady {
        sub_group: (!only).then(|| leaf.declared.name.clone()),
        needed: leaf.declared.min_available,
        exist: alive(leaf),
        gated: leaf.counts.of(Status::Gated),
        backing_off: leaf.counts.of(Status::BackingOff),
    }
}
