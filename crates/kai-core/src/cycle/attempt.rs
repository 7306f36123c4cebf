//! One attempt to place a job: all the pods it needs next, or none.

use std::sync::Arc;

use crate::cycle::Cycle;
use crate::cycle::members::{Scope, Tasks};
use crate::cycle::refusals::{has_shareable_refusals, kept_refusals, names_the_pod, refusals};
use crate::cycle::statement::Statement;
use crate::fairness::{Amounts, check_capacity, check_non_preemptible_quota};
use crate::ids::{JobId, NodeId, TaskId};
use crate::placement::choose::NodeSearch;
use crate::placement::fit::When;
use crate::placement::node_set::NodeSet;
use crate::plugins::topology::{self, SubGroupRequest};
use crate::plugins::{Filter, dynamicresources, numa, predicates};
use crate::report::job_fit::{JobError, Progress};
use crate::report::refusal::TaskRefusal;
use crate::report::task_fit::TaskFit;
use crate::world::job_tree::Member;
use crate::world::ledger::Place;
use crate::world::node::{DeviceDemand, Groups};

/// Whether an attempt counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Pods may start; failures are reported.
    Real,
    /// Pods are nominated on a model with victims evicted; failures are not reported.
    Simulated,
}

impl Cycle<'_> {
    /// Places the next pods of a job, all or none. On failure the statement is as it was.
    pub(crate) fn attempt(
        &mut self,
        statement: &mut Statement,
        scope: Scope<'_>,
        nodes: &NodeSet,
        mode: Mode,
    ) -> bool {
        self.topology.clear();
        self.world.attempted = Some(scope.job);
        let tasks = self.world.tasks_to_allocate(scope, mode == Mode::Simulated);
        if tasks.is_empty() {
            return false;
        }
        if let Err(violation) = self.within_capacity(scope, &tasks) {
            if mode == Mode::Real {
                self.note(scope.job, JobError::Capacity(violation));
            }
            return false;
        }
        let attempt = Attempt { scope, mode };
        attempt.place_set(self, statement, 0, &tasks, nodes)
    }

    fn within_capacity(
        &self,
        scope: Scope<'_>,
        tasks: &[TaskId],
    ) -> Result<(), crate::fairness::CapacityViolation> {
        let job = self.world.job(scope.job);
        let (Some(_), Some(queue)) = (self.world.policy.proportion, job.queue) else {
            return Ok(());
        };
        let device_mib = self.world.largest_gpu_mib();
        let requested = self.requested(tasks, device_mib);
        let beyond_quota = self.world.asks_beyond_quota(scope.job, tasks);
        check_capacity(&self.world.tree, queue, &requested, beyond_quota)?;
        if job.is_semi_preemptible() && !beyond_quota {
            let growth = self.world.core_growth(scope.job, tasks, device_mib);
            check_non_preemptible_quota(&self.world.tree, queue, &growth)?;
        }
        Ok(())
    }

    /// What tasks ask of their queue; memory of GPUs in devices of `device_mib`.
    pub(crate) fn requested(&self, tasks: &[TaskId], device_mib: Option<i64>) -> Amounts {
        let mut sum = Amounts::ZERO;
        for task in tasks {
            sum += self.world.shape_of(*task).queue_cost().amounts(device_mib);
        }
        sum
    }
}

impl Cycle<'_> {
    /// Records why a pod found no node, adding to the refusals of earlier attempts of the cycle.
    pub(crate) fn record_refusals(&mut self, job: JobId, task: TaskId, fit: Arc<TaskFit>) {
        let fits = self.fits.entry(job).or_default();
        fits.set_pod(task, fit, |known, fit| Arc::make_mut(known).merge(&fit));
    }

    /// Notes an attempt that failed because a pod, whose refusals are recorded, found no node.
    pub(crate) fn note_no_node(&mut self, job: JobId, task: TaskId, progress: Progress) {
        let fits = self.fits.entry(job).or_default();
        let fit = fits.of_pod(task).cloned().unwrap_or_default();
        fits.add_error(JobError::NoNode { task, progress, fit });
    }
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    scope: Scope<'a>,
    mode: Mode,
}

impl Attempt<'_> {
    fn place_set(
        self,
        cycle: &mut Cycle<'_>,
        statement: &mut Statement,
        set: usize,
        tasks: &[TaskId],
        nodes: &NodeSet,
    ) -> bool {
        let Some(node_sets) = self.subsets(cycle, Member::Set(set), tasks, nodes) else {
            return false;
        };
        for node_set in &node_sets {
            let mark = statement.mark(cycle.world);
            if self.place_members(cycle, statement, set, tasks, node_set) {
                return true;
            }
            statement.rollback(cycle.world, mark);
        }
        false
    }

    fn place_members(
        self,
        cycle: &mut Cycle<'_>,
        statement: &mut Statement,
        set: usize,
        tasks: &[TaskId],
        nodes: &NodeSet,
    ) -> bool {
        if let [Member::Leaf(leaf)] = cycle.world.job(self.scope.job).tree.sets[set].members[..] {
            return self.place_leaf(cycle, statement, leaf, tasks, nodes);
        }
        for member in cycle.world.ordered_members(self.scope, set) {
            let below = self.tasks_below(cycle, member, tasks);
            if below.is_empty() {
                continue;
            }
            let placed = match member {
                Member::Set(set) => self.place_set(cycle, statement, set, &below, nodes),
                Member::Leaf(leaf) => self.place_leaf(cycle, statement, leaf, &below, nodes),
            };
            if !placed {
                return false;
            }
        }
        true
    }

    fn tasks_below(self, cycle: &Cycle<'_>, member: Member, tasks: &[TaskId]) -> Tasks {
        let job = cycle.world.job(self.scope.job);
        let leaves = match member {
            Member::Leaf(leaf) => vec![leaf],
            Member::Set(set) => job.leaves_below(set),
        };
        let in_leaves = |task: &TaskId| {
            let leaf = cycle.world.task(*task).leaf;
            leaf.is_some_and(|leaf| leaves.contains(&(leaf as usize)))
        };
        tasks.iter().copied().filter(in_leaves).collect()
    }

    fn place_leaf(
        self,
        cycle: &mut Cycle<'_>,
        statement: &mut Statement,
        leaf: usize,
        tasks: &[TaskId],
        nodes: &NodeSet,
    ) -> bool {
        let Some(node_sets) = self.subsets(cycle, Member::Leaf(leaf), tasks, nodes) else {
            return false;
        };
        for node_set in &node_sets {
            let mark = statement.mark(cycle.world);
            let failed =
                tasks.iter().position(|task| !self.place_task(cycle, statement, *task, node_set));
            let Some(found) = failed else { return true };
            if self.mode == Mode::Real {
                self.report(cycle, leaf, tasks[found], found as u32);
            }
            statement.rollback(cycle.world, mark);
        }
        false
    }

    /// Node sets to try in turn; none when the topology cannot be satisfied.
    fn subsets(
        self,
        cycle: &mut Cycle<'_>,
        member: Member,
        tasks: &[TaskId],
        nodes: &NodeSet,
    ) -> Option<Vec<NodeSet>> {
        let job = cycle.world.job(self.scope.job);
        let constraint = match member {
            Member::Set(set) => &job.tree.sets[set].topology,
            Member::Leaf(leaf) => &job.leaves[leaf].declared.topology,
        };
        if !cycle.world.policy.topology || constraint.is_none() {
            return Some(vec![nodes.clone()]);
        }
        let constraint = constraint.clone();
        let mut leaves: Vec<usize> = tasks
            .iter()
            .filter_map(|task| cycle.world.task(*task).leaf)
            .map(|leaf| leaf as usize)
            .collect();
        leaves.sort_unstable();
        leaves.dedup();
        let request = SubGroupRequest {
            job: self.scope.job,
            member,
            constraint: constraint.as_ref(),
            leaves: &leaves,
            tasks,
        };
        match topology::subsets(cycle.world, &mut cycle.topology, &request, nodes) {
            Ok(sets) => Some(sets),
            Err(refusals) => {
                if self.mode == Mode::Real {
                    for refusal in refusals {
                        cycle.note(self.scope.job, JobError::Topology(Box::new(refusal)));
                    }
                }
                None
            }
        }
    }

    fn place_task(
        self,
        cycle: &mut Cycle<'_>,
        statement: &mut Statement,
        task: TaskId,
        nodes: &NodeSet,
    ) -> bool {
        predicates::note_skips(cycle.world, task);
        if let Err(refusal) = check_before_nodes(cycle, task) {
            if self.mode == Mode::Real {
                let fit = TaskFit { before_nodes: Some(refusal.text), ..TaskFit::default() };
                let fits = cycle.fits.entry(self.scope.job).or_default();
                fits.set_pod(task, Arc::new(fit), |known, fit| *known = fit);
            }
            return false;
        }
        let shape = cycle.world.task(task).shape;
        if self.mode == Mode::Real {
            cycle.note_trial(task, nodes);
        }
        if self.mode == Mode::Real
            && nodes.is_all()
            && !cycle.is_asked_about(Some(self.scope.job))
            && let Some(fit) = cycle.known_refusals(shape)
        {
            cycle.record_refusals(self.scope.job, task, fit);
            return false;
        }
        let topology = std::mem::take(&mut cycle.topology);
        let mut search =
            NodeSearch { task, nodes, topology: &topology, failed: Vec::new(), tried: 0 };
        let mut placed = false;
        while let Some(node) = search.best(cycle.world) {
            if self.put(cycle, statement, task, node) {
                if self.mode == Mode::Real {
                    cycle.note_choice(task, node);
                }
                placed = true;
                break;
            }
            search.failed.push(node);
        }
        let tried = search.tried;
        if !placed && self.mode == Mode::Real {
            let shareable = nodes.is_all()
                && topology.is_empty()
                && has_shareable_refusals(cycle, task)
                && !cycle.is_asked_about(Some(self.scope.job));
            let kept = if shareable { kept_refusals(cycle, task) } else { None };
            let fit = kept.unwrap_or_else(|| Arc::new(refusals(cycle, &search)));
            if shareable && !names_the_pod(&fit) {
                cycle.remember_refusals(shape, &fit);
            }
            cycle.record_refusals(self.scope.job, task, fit);
        }
        cycle.tried += tried;
        cycle.topology = topology;
        placed
    }

    fn put(
        self,
        cycle: &mut Cycle<'_>,
        statement: &mut Statement,
        task: TaskId,
        node: NodeId,
    ) -> bool {
        let nominate_only = self.mode == Mode::Simulated;
        let world = &mut *cycle.world;
        let zones = if world.policy.numa.is_some() {
            numa::place(world, task, node)
        } else {
            numa::ZonePlacement::default()
        };
        let demand = world.node(node).demand(world.shape_of(task), world.config.compatibility);
        let mut place = Place { node, groups: Groups::new(), zones };
        if demand == DeviceDemand::Vector {
            let target = world.node(node);
            let starts = !nominate_only
                && world.fits(task, target, When::Now)
                && world.has_slots_now(target, 0);
            if starts {
                statement.allocate(world, task, &place);
            } else {
                statement.nominate(world, task, &place, !nominate_only);
            }
            return true;
        }
        let Some(chosen) = world.choose_devices(task, node, nominate_only) else { return false };
        place.groups = chosen.groups;
        if chosen.must_wait {
            statement.nominate(world, task, &place, false);
        } else {
            statement.allocate(world, task, &place);
        }
        true
    }

    fn report(self, cycle: &mut Cycle<'_>, leaf: usize, task: TaskId, found: u32) {
        let job = cycle.world.job(self.scope.job);
        let is_gang = job.leaves.iter().any(|leaf| leaf.declared.min_available > 1);
        let entry = &job.leaves[leaf];
        let progress = if !is_gang || entry.counts.active_used() >= entry.declared.min_available {
            Progress::Alone
        } else if job.leaves.len() == 1
            && &*entry.declared.name == crate::input::pod_group::DEFAULT_LEAF
        {
            Progress::Gang { found, needed: entry.declared.min_available }
        } else {
            Progress::SubGroup {
                found,
                name: entry.declared.name.clone(),
                needed: entry.declared.min_available,
            }
        };
        cycle.note_no_node(self.scope.job, task, progress);
    }
}

/// What can be said of a pod before any node is looked at.
pub(crate) fn check_before_nodes(cycle: &Cycle<'_>, task: TaskId) -> Result<(), TaskRefusal> {
    for rule in &cycle.world.policy.filters {
        match rule {
            Filter::Predicates => predicates::check_task(cycle.world, task)?,
            Filter::Claims => dynamicresources::check_task(cycle.world, task)?,
            Filter::Numa => {}
        }
    }
    Ok(())
}
