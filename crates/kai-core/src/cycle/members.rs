//! The tree of a job: which members are satisfied, which pods come next, which are evicted first.
//!
//! A leaf is satisfied when enough of its pods hold a place; a set when enough of its direct members are. While a
//! set is not, its members are served together; afterwards it grows by one pod, or one member, at a time. Pods
//! beyond the minimum are evicted one by one, last in task order first; then whole members beyond the minimum; then the rest
//! as one.

use std::cmp::Ordering;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::ids::{JobId, TaskId};
use crate::plugins::subgrouporder::{self, MemberState};
use crate::status::Status;
use crate::world::World;
use crate::world::job::{Job, StatusCounts};
use crate::world::job_tree::Member;

/// Tasks of one attempt.
pub(crate) type Tasks = SmallVec<[TaskId; 4]>;

/// A job, or a part of it: some tasks with the minimums they can reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) job: JobId,
    pub(crate) part: Option<&'a Part>,
}

/// A part of a job, as the search for victims grows it and victims shrink.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The tasks that belong to the part.
    pub(crate) tasks: FxHashSet<TaskId>,
    /// Minimum of each leaf, by position in the job; no more than the part can reach.
    pub(crate) leaf_min: Vec<u32>,
    /// Members that each set needs, by position in the job; no more than the part can reach.
    pub(crate) set_min: Vec<u32>,
}

impl<'a> Scope<'a> {
    pub(crate) fn whole(job: JobId) -> Self {
        Self { job, part: None }
    }

    pub(crate) fn of(job: JobId, part: &'a Part) -> Self {
        Self { job, part: Some(part) }
    }

    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.part.is_none_or(|part| part.tasks.contains(&task))
    }

    pub(crate) fn leaf_min(&self, job: &Job, leaf: usize) -> u32 {
        self.part.map_or(job.leaves[leaf].declared.min_available, |part| part.leaf_min[leaf])
    }

    fn threshold(&self, job: &Job, set: usize) -> u32 {
        self.part.map_or_else(|| job.threshold(set), |part| part.set_min[set])
    }
}

/// The next pods of a job to be evicted.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) tasks: Tasks,
    /// Pods that hold a place remain afterwards.
    pub(crate) more: bool,
}

impl World {
    /// Pods of a leaf that hold a place, within the scope.
    fn placed(&self, scope: Scope<'_>, leaf: usize) -> u32 {
        let leaf = &self.job(scope.job).leaves[leaf];
        match scope.part {
            None => leaf.counts.active_allocated(),
            Some(_) => leaf
                .tasks
                .iter()
                .filter(|task| {
                    scope.has(**task) && self.task(**task).state.status.is_active_allocated()
                })
                .count() as u32,
        }
    }

    fn member_state(&self, scope: Scope<'_>, member: Member) -> MemberState {
        let job = self.job(scope.job);
        match member {
            Member::Leaf(leaf) if self.is_left_out(scope, leaf) => {
                MemberState { have: 0, need: job.leaves[leaf].declared.min_available }
            }
            Member::Leaf(leaf) => {
                MemberState { have: self.placed(scope, leaf), need: scope.leaf_min(job, leaf) }
            }
            Member::Set(set) => {
                let have = self.satisfied_members(scope, set);
                MemberState { have, need: scope.threshold(job, set) }
            }
        }
    }

    /// No pod of the leaf is in the part. It must not pass for one that has all it needs, and so stand in for a sibling
    /// that has pods in the part. KAI lowers what it needs to nothing.
    fn is_left_out(&self, scope: Scope<'_>, leaf: usize) -> bool {
        scope.part.is_some()
            && !self.config.compatibility.is_kai()
            && !self.job(scope.job).leaves[leaf].tasks.iter().any(|task| scope.has(*task))
    }

    fn satisfied_members(&self, scope: Scope<'_>, set: usize) -> u32 {
        let members = &self.job(scope.job).tree.sets[set].members;
        members.iter().filter(|member| self.is_satisfied(scope, **member)).count() as u32
    }

    fn is_satisfied(&self, scope: Scope<'_>, member: Member) -> bool {
        let state = self.member_state(scope, member);
        state.have >= state.need
    }

    /// Members of a set in sub-group order, ties by name.
    pub(crate) fn ordered_members(&self, scope: Scope<'_>, set: usize) -> SmallVec<[Member; 2]> {
        let job = self.job(scope.job);
        let mut members: SmallVec<[Member; 2]> =
            job.tree.sets[set].members.iter().copied().collect();
        if members.len() > 1 {
            members.sort_by(|left, right| self.compare_members(scope, *left, *right));
        }
        members
    }

    fn compare_members(&self, scope: Scope<'_>, left: Member, right: Member) -> Ordering {
        let job = self.job(scope.job);
        let by_state = if self.policy.orders_sub_groups {
            subgrouporder::compare(self.member_state(scope, left), self.member_state(scope, right))
        } else {
            Ordering::Equal
        };
        let name = |member: Member| match member {
            Member::Leaf(leaf) => &job.leaves[leaf].declared.name,
            Member::Set(set) => &job.tree.sets[set].name,
        };
        by_state.then_with(|| name(left).cmp(name(right)))
    }

    /// The pods an attempt places next.
    pub(crate) fn tasks_to_allocate(&self, scope: Scope<'_>, simulated: bool) -> Tasks {
        let mut tasks = Tasks::new();
        self.collect_next(scope, 0, simulated, &mut tasks);
        tasks
    }

    fn collect_next(&self, scope: Scope<'_>, set: usize, simulated: bool, tasks: &mut Tasks) {
        let job = self.job(scope.job);
        if job.tree.sets[set].members.len() == 1
            && let Member::Leaf(leaf) = job.tree.sets[set].members[0]
        {
            let wanted = self.wanted_of_leaf(scope, leaf);
            self.collect_leaf(scope, leaf, wanted, simulated, tasks);
            return;
        }
        let members = self.ordered_members(scope, set);
        let threshold = scope.threshold(job, set);
        let satisfied = self.satisfied_members(scope, set);
        if satisfied < threshold {
            self.collect_gang(scope, &members, threshold, satisfied, simulated, tasks);
            return;
        }
        for member in members {
            if !self.may_be_served(scope, member, simulated) {
                continue;
            }
            match member {
                Member::Set(set) => self.collect_next(scope, set, simulated, tasks),
                Member::Leaf(leaf) => {
                    let wanted = self.wanted_of_leaf(scope, leaf);
                    self.collect_leaf(scope, leaf, wanted, simulated, tasks);
                }
            }
            if !tasks.is_empty() {
                return;
            }
        }
    }

    /// A member without enough pods for its minimum is passed over where others can take its place. KAI places what
    /// there is of it, short of any minimum.
    fn may_be_served(&self, scope: Scope<'_>, member: Member, simulated: bool) -> bool {
        self.config.compatibility.is_kai() || self.can_be_satisfied(scope, member, simulated)
    }

    fn can_be_satisfied(&self, scope: Scope<'_>, member: Member, simulated: bool) -> bool {
        let job = self.job(scope.job);
        match member {
            Member::Leaf(leaf) => {
                let waiting = self.waiting(scope, leaf, simulated).count() as u32;
                self.placed(scope, leaf) + waiting >= scope.leaf_min(job, leaf)
            }
            Member::Set(set) => {
                let members = job.tree.sets[set].members.iter();
                let able = members
                    .filter(|member| self.can_be_satisfied(scope, **member, simulated))
                    .count() as u32;
                able >= scope.threshold(job, set)
            }
        }
    }

    /// While a set is unsatisfied its members are served together. KAI takes the first `threshold` members even if
    /// some members behind them are satisfied already, and so demands more than needed (fault 5).
    fn collect_gang(
        &self,
        scope: Scope<'_>,
        members: &[Member],
        threshold: u32,
        satisfied: u32,
        simulated: bool,
        tasks: &mut Tasks,
    ) {
        let as_kai = self.config.compatibility.is_kai();
        let needed = if as_kai { threshold } else { threshold - satisfied };
        let served = members.iter().filter(|member| {
            as_kai
                || !self.is_satisfied(scope, **member)
                    && self.can_be_satisfied(scope, **member, simulated)
        });
        for member in served.take(needed as usize) {
            if self.is_satisfied(scope, *member) {
                continue;
            }
            match *member {
                Member::Set(set) => self.collect_next(scope, set, simulated, tasks),
                Member::Leaf(leaf) => {
                    let wanted = self.wanted_of_leaf(scope, leaf);
                    self.collect_leaf(scope, leaf, wanted, simulated, tasks);
                }
            }
        }
    }

    /// What is missing to the minimum, or one more beyond it.
    fn wanted_of_leaf(&self, scope: Scope<'_>, leaf: usize) -> u32 {
        let missing =
            scope.leaf_min(self.job(scope.job), leaf).saturating_sub(self.placed(scope, leaf));
        missing.max(1)
    }

    fn collect_leaf(
        &self,
        scope: Scope<'_>,
        leaf: usize,
        wanted: u32,
        simulated: bool,
        tasks: &mut Tasks,
    ) {
        tasks.extend(self.waiting(scope, leaf, simulated).take(wanted as usize));
    }

    /// Pods of a leaf that may be placed, in task order.
    fn waiting<'w>(
        &'w self,
        scope: Scope<'w>,
        leaf: usize,
        simulated: bool,
    ) -> impl Iterator<Item = TaskId> + 'w {
        let candidates = self.job(scope.job).leaves[leaf].tasks.iter().copied();
        candidates.filter(move |task| scope.has(*task) && self.task(*task).may_be_placed(simulated))
    }

    /// The pods of a job that are evicted next.
    pub(crate) fn tasks_to_evict(&self, scope: Scope<'_>) -> Batch {
        let job = self.job(scope.job);
        if job.is_semi_preemptible() {
            let tasks = self.tasks_beyond_core(scope);
            return Batch { more: !tasks.is_empty(), tasks };
        }
        let mut tasks = self.surplus_of_set(scope, 0);
        if tasks.is_empty() {
            tasks = self.placed_below(scope, 0);
        }
        let placed: u32 = (0..job.leaves.len()).map(|leaf| self.placed(scope, leaf)).sum();
        Batch { more: placed > tasks.len() as u32, tasks }
    }

    fn surplus_of_set(&self, scope: Scope<'_>, set: usize) -> Tasks {
        let satisfied = self.satisfied_members(scope, set);
        if satisfied == 0 {
            return Tasks::new();
        }
        let mut members = self.ordered_members(scope, set);
        members.reverse();
        for member in &members {
            let found = match *member {
                Member::Set(set) => self.surplus_of_set(scope, set),
                Member::Leaf(leaf) => self.surplus_of_leaf(scope, leaf),
            };
            if !found.is_empty() {
                return found;
            }
        }
        if satisfied <= scope.threshold(self.job(scope.job), set) {
            return Tasks::new();
        }
        let all = members.iter().map(|member| match *member {
            Member::Set(set) => self.placed_below(scope, set),
            Member::Leaf(leaf) => self.placed_of_leaf(scope, leaf),
        });
        all.into_iter().find(|tasks| !tasks.is_empty()).unwrap_or_default()
    }

    /// One pod beyond the minimum, the last in task order.
    fn surplus_of_leaf(&self, scope: Scope<'_>, leaf: usize) -> Tasks {
        if self.placed(scope, leaf) <= scope.leaf_min(self.job(scope.job), leaf) {
            return Tasks::new();
        }
        self.placed_of_leaf(scope, leaf).last().copied().into_iter().collect()
    }

    fn placed_of_leaf(&self, scope: Scope<'_>, leaf: usize) -> Tasks {
        let tasks = self.job(scope.job).leaves[leaf].tasks.iter().copied();
        tasks
            .filter(|task| scope.has(*task) && self.task(*task).state.status.is_active_allocated())
            .collect()
    }

    fn placed_below(&self, scope: Scope<'_>, set: usize) -> Tasks {
        let leaves = self.job(scope.job).leaves_below(set);
        leaves.into_iter().flat_map(|leaf| self.placed_of_leaf(scope, leaf)).collect()
    }

    /// Enough pods exist for the job to be tried.
    pub(crate) fn is_ready(&self, id: JobId) -> bool {
        let job = self.job(id);
        let ready = |counts: &StatusCounts, need: u32| {
            counts.count(Status::is_alive) - counts.count(Status::is_held_back) >= need
        };
        Self::set_holds(job, 0, &|leaf| {
            ready(&job.leaves[leaf].counts, job.leaves[leaf].declared.min_available)
        })
    }

    /// The minimum of the whole tree holds where `leaf_holds` says which leaves have theirs.
    fn set_holds(job: &Job, set: usize, leaf_holds: &dyn Fn(usize) -> bool) -> bool {
        let members = &job.tree.sets[set].members;
        let satisfied = members
            .iter()
            .filter(|member| match **member {
                Member::Leaf(leaf) => leaf_holds(leaf),
                Member::Set(set) => Self::set_holds(job, set, leaf_holds),
            })
            .count();
        satisfied as u32 >= job.threshold(set)
    }

    /// Enough pods occupy a node. KAI asks it of every leaf, whatever the tree says (fault 3).
    pub(crate) fn is_gang_satisfied(&self, id: JobId) -> bool {
        let job = self.job(id);
        let occupied = |leaf: usize| {
            job.leaves[leaf].counts.active_used() >= job.leaves[leaf].declared.min_available
        };
        if self.config.compatibility.is_kai() {
            (0..job.leaves.len()).all(occupied)
        } else {
            Self::set_holds(job, 0, &occupied)
        }
    }

    /// As many pods hold a place as the tree asks for, or none does.
    pub(crate) fn is_whole_or_absent(&self, id: JobId) -> bool {
        self.job(id).counts.active_allocated() == 0
            || self.is_satisfied(Scope::whole(id), Member::Set(0))
    }

    /// Some pods were nominated that were not before.
    pub(crate) fn has_newcomers(&self, id: JobId) -> bool {
        let job = self.job(id);
        job.counts.of(Status::Pipelined) > 0 && job.tasks().any(|task| self.is_newcomer(task))
    }

    fn is_newcomer(&self, task: TaskId) -> bool {
        let task = self.task(task);
        task.state.status == Status::Pipelined && task.spec.status == Status::Pending
    }

    /// As [`Self::is_whole_or_absent`], but pods that are only nominated do not make up for others.
    pub(crate) fn is_whole_or_absent_without_newcomers(&self, id: JobId) -> bool {
        let job = self.job(id);
        let members = |leaf: usize| {
            let holds = |task: &&TaskId| {
                self.task(**task).state.status.is_active_allocated() && !self.is_newcomer(**task)
            };
            job.leaves[leaf].tasks.iter().filter(holds).count() as u32
        };
        (0..job.leaves.len()).all(|leaf| members(leaf) == 0)
            || Self::set_holds(job, 0, &|leaf| {
                members(leaf) >= job.leaves[leaf].declared.min_available
            })
    }

    /// Some pods run, none has ended well, and the gang is not whole.
    pub(crate) fn is_stale(&self, id: JobId) -> bool {
        let counts = &self.job(id).counts;
        counts.of(Status::Succeeded) == 0 && counts.active_used() > 0 && !self.is_gang_satisfied(id)
    }

    /// A plan placed several of its pods, and only some could be bound.
    pub(crate) fn is_half_bound(&self, id: JobId) -> bool {
        let job = self.job(id);
        job.spec.half_bound && job.counts.active_allocated() > 0
    }

    /// Some leaf has more pods than it needs.
    pub(crate) fn is_elastic(&self, id: JobId) -> bool {
        self.job(id).leaves.iter().any(|leaf| leaf.declared.min_available < leaf.tasks.len() as u32)
    }

    /// Some leaf has nominated pods and not enough pods that can start now: the whole job waits.
    pub(crate) fn must_wait_whole(&self, id: JobId) -> bool {
        self.job(id).leaves.iter().any(|leaf| {
            let nominated = leaf.counts.of(Status::Pipelined);
            nominated > 0
                && leaf.counts.active_allocated() - nominated < leaf.declared.min_available
        })
    }

    /// The part of a job that is placed already, plus `next`.
    pub(crate) fn part_with(&self, id: JobId, next: &[TaskId]) -> Part {
        let job = self.job(id);
        let placed = job.tasks().filter(|task| self.task(*task).state.status.is_active_allocated());
        self.part_of(id, placed.chain(next.iter().copied()).collect(), true)
    }

    /// The part of a job with just these tasks; `cap` lowers minimums to what the part can reach.
    pub(crate) fn part_of(&self, id: JobId, tasks: FxHashSet<TaskId>, cap: bool) -> Part {
        let job = self.job(id);
        let count = |leaf: usize| {
            job.leaves[leaf].tasks.iter().filter(|task| tasks.contains(*task)).count() as u32
        };
        let counts: Vec<u32> = (0..job.leaves.len()).map(count).collect();
        let leaf_min = (0..job.leaves.len()).map(|leaf| {
            let need = job.leaves[leaf].declared.min_available;
            if cap { need.min(counts[leaf]) } else { need }
        });
        let set_min = (0..job.tree.sets.len()).map(|set| {
            let members = &job.tree.sets[set].members;
            let filled = members.iter().filter(|member| match **member {
                Member::Leaf(leaf) => counts[leaf] > 0,
                Member::Set(set) => job.leaves_below(set).iter().any(|leaf| counts[*leaf] > 0),
            });
            match (job.tree.sets[set].min_members, cap) {
                (Some(need), true) => need.min(filled.count() as u32),
                (Some(need), false) => need,
                (None, _) => members.len() as u32,
            }
        });
        Part { leaf_min: leaf_min.collect(), set_min: set_min.collect(), tasks }
    }
}
