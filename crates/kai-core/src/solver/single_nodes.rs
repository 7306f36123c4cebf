//! Sets of victims of single nodes, found without collecting all victims that come before them.
//!
//! `NodeLocalGreedy` tries after each victim what was collected on its node. Where no victim may be lost and every pod
//! of the job wants d whole devices, most of those sets are ruled out by counting: a node that has c devices free
//! and would have c′ without its victims yields ⌊c′/d⌋ − ⌊c/d⌋ places, less one for each victim of d devices or more,
//! which needs such a place itself. More victims never yield less, so what a node yields with all of them bounds
//! every set of it. A set that yields fewer places than the job lacks cannot help.
//!
//! Nodes that yield anything are kept in the order in which victims are collected, for all jobs of a cycle, and what
//! a decision changes is looked at again. That order is known without collecting as long as it concerns one queue,
//! and a node is easy to judge as long as each of its victim jobs has one pod. Where that does not hold, or rules
//! beyond counting are in play, nothing is said and victims are collected.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::ids::{NodeId, QueueId, TaskId};
use crate::resources::GPU;
use crate::solver::bounds::counts_on_one_node;
use crate::solver::budget::Budget;
use crate::solver::ruled_out::asks_for_devices_only;
use crate::solver::simulate::Scenario;
use crate::solver::{Probe, ProbeResult, Rules, Search, may_skip_sets, try_set};
use crate::world::World;
use crate::world::index::JobKey;
use crate::world::node::Mig;
use crate::world::shape::GpuDemand;
use crate::world::undo::Moment;

/// The last in job order is collected first.
type VictimKey = Reverse<JobKey>;

/// A victim that is its job's only pod with a place.
struct Victim {
    key: VictimKey,
    task: TaskId,
    devices: i64,
}

/// What is known of one node.
struct NodeVictims {
    /// Whole devices free or becoming free, with those of victims of earlier successes.
    free: i64,
    /// In the order they are collected.
    victims: SmallVec<[Victim; 8]>,
    /// The queue of all of them; none where there are several, or some job has pods elsewhere.
    queue: Option<QueueId>,
    /// Counting whole devices decides nothing: some may be shared or divided, or a victim holds capacity of another node.
    defies_counting: bool,
}

impl NodeVictims {
    fn on(world: &World, id: NodeId) -> Self {
        Self::without(world, id, &FxHashSet::default())
    }

    /// Victims that are not recorded yet.
    fn without(world: &World, id: NodeId, recorded: &FxHashSet<TaskId>) -> Self {
        let node = world.node(id);
        let mut found = Self {
            free: node.available(GPU).max(0),
            victims: SmallVec::new(),
            queue: None,
            defies_counting: !node.groups.is_empty()
                || node.mig != Mig::Off
                || !node.spec.allocatable.mig.is_empty(),
        };
        let mut queues: SmallVec<[QueueId; 2]> = SmallVec::new();
        let mut is_tangled = false;
        let mut visited: SmallVec<[TaskId; 8]> = SmallVec::new();
        let here = |task: TaskId| {
            let state = &world.task(task).state;
            state.node == Some(id) && state.status.is_active_allocated()
        };
        for resident in node.residents.iter().filter(|resident| here(resident.task)) {
            let task = resident.task;
            let Some(job) = world.task(task).job else { continue };
            let entry = world.job(job);
            let Some(queue) = entry.queue.filter(|queue| world.is_live_leaf(*queue)) else {
                continue;
            };
            // Which pods of a semi-preemptible job may be evicted depends on its other pods.
            found.defies_counting |= entry.is_semi_preemptible();
            if !entry.is_preemptible() || visited.contains(&task) {
                continue;
            }
            visited.push(task);
            let devices = world.shape_of(task).request.get(GPU);
            if recorded.contains(&task) {
                found.free += devices;
                continue;
            }
            found.defies_counting |= !counts_on_one_node(world, task);
            is_tangled |= entry.counts.active_allocated() != 1;
            if !queues.contains(&queue) {
                queues.push(queue);
            }
            found.victims.push(Victim { key: Reverse(world.job_key(job)), task, devices });
        }
        found.victims.sort_unstable_by(|left, right| left.key.cmp(&right.key));
        found.queue = match queues[..] {
            [only] if !is_tangled => Some(only),
            _ => None,
        };
        found
    }

    /// Places for pods of `size` devices that the first `count` victims yield.
    fn yield_of(&self, count: usize, size: i64) -> i64 {
        let gone = &self.victims[..count];
        let devices: i64 = gone.iter().map(|victim| victim.devices).sum();
        let return_to_one = gone.iter().filter(|victim| victim.devices >= size).count() as i64;
        (self.free + devices) / size - self.free / size - return_to_one
    }

    fn most(&self, size: i64) -> i64 {
        self.yield_of(self.victims.len(), size).max(0)
    }

    /// How many victims must be collected for `need` places.
    fn victims_for(&self, need: i64, size: i64) -> Option<usize> {
        (1..=self.victims.len()).find(|count| self.yield_of(*count, size) >= need)
    }
}

/// What a node yields with all its victims.
#[derive(Clone, Default)]
struct NodeYield {
    most: i64,
    /// Where its first set that yields a place comes, and of which queue its victims are.
    first: Option<(VictimKey, QueueId)>,
    /// It has victims, but they do not come in an order that is known.
    is_tangled: bool,
    defies_counting: bool,
}

/// What nodes yield for pods of one size.
struct Yields {
    size: i64,
    /// How much of the log of changes was looked at.
    examined_until: Moment,
    /// What each node yields, by node slot.
    nodes: Vec<NodeYield>,
    /// Nodes that yield something, in the order in which their first useful sets come.
    order: BTreeSet<(VictimKey, NodeId)>,
    /// How many of those yield each number of places.
    counts: BTreeMap<i64, u32>,
    /// How many of those have victims of each queue.
    queues: BTreeMap<QueueId, u32>,
    /// What all tangled nodes together yield.
    tangled: i64,
    /// How many nodes defy counting.
    uncountable: u32,
}

/// What nodes yield, by the size of pods, as far as it was computed.
#[derive(Default)]
pub(crate) struct NodeYields {
    by_size: BTreeMap<i64, Yields>,
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K) {
    *counts.entry(key).or_default() += 1;
}

fn discount<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Yields {
    fn new(world: &World, size: i64) -> Self {
        let mut yields = Self {
            size,
            examined_until: world.log.moment(),
            nodes: vec![NodeYield::default(); world.nodes.len()],
            order: BTreeSet::new(),
            counts: BTreeMap::new(),
            queues: BTreeMap::new(),
            tangled: 0,
            uncountable: 0,
        };
        for id in &world.nodes_by_rank {
            yields.look_at(world, *id);
        }
        yields
    }

    /// Looks again at the nodes that changed.
    fn catch_up(&mut self, world: &World) {
        for node in world.nodes_concerned_since(self.examined_until) {
            self.look_at(world, node);
        }
        self.examined_until = world.log.moment();
    }

    fn look_at(&mut self, world: &World, id: NodeId) {
        let victims = NodeVictims::on(world, id);
        let most = victims.most(self.size);
        let first = victims.queue.and_then(|queue| {
            let count = victims.victims_for(1, self.size)?;
            Some((victims.victims[count - 1].key.clone(), queue))
        });
        let is_tangled = victims.queue.is_none() && !victims.victims.is_empty();
        let now = NodeYield { most, first, is_tangled, defies_counting: victims.defies_counting };
        let before = std::mem::take(&mut self.nodes[id.index()]);
        self.tangled -= if before.is_tangled { before.most } else { 0 };
        self.uncountable -= u32::from(before.defies_counting);
        if let Some((key, queue)) = before.first {
            discount(&mut self.counts, &before.most);
            discount(&mut self.queues, &queue);
            self.order.remove(&(key, id));
        }
        self.tangled += if now.is_tangled { now.most } else { 0 };
        self.uncountable += u32::from(now.defies_counting);
        if let Some((key, queue)) = &now.first {
            count(&mut self.counts, now.most);
            count(&mut self.queues, *queue);
            self.order.insert((key.clone(), id));
        }
        self.nodes[id.index()] = now;
    }
}

/// A set that could help: on which node, and how many of its victims.
struct NodeVictimSet {
    key: VictimKey,
    node: NodeId,
    count: usize,
}

/// Sets that could help, in the order in which they come.
struct SetsInOrder<'a> {
    yields: &'a Yields,
    need: i64,
    /// Nodes of victims of earlier successes, without those.
    changed: BTreeMap<NodeId, NodeVictims>,
    /// The last node that was taken from the order of all.
    passed: Option<(VictimKey, NodeId)>,
    /// Sets that come from elsewhere, by where they come.
    open: BTreeMap<VictimKey, (NodeId, usize)>,
}

impl<'a> SetsInOrder<'a> {
    fn new(
        world: &World,
        yields: &'a Yields,
        need: i64,
        changed: BTreeMap<NodeId, NodeVictims>,
    ) -> Self {
        let mut sets = Self { yields, need, changed, passed: None, open: BTreeMap::new() };
        let mut open = Vec::new();
        for (node, victims) in &sets.changed {
            open.push((*node, victims.victims_for(need, yields.size)));
        }
        if need > 1 {
            // The order is that of first places; where more are needed sets come later.
            let enough = |(_, node): &&(VictimKey, NodeId)| {
                yields.nodes[node.index()].most >= need && !sets.changed.contains_key(node)
            };
            for (_, node) in yields.order.iter().filter(enough) {
                let victims = NodeVictims::on(world, *node);
                open.push((*node, victims.victims_for(need, yields.size)));
            }
        }
        for (node, count) in open {
            if let Some(count) = count {
                sets.open(world, node, count);
            }
        }
        sets
    }

    fn victims_on(&self, world: &World, node: NodeId) -> SmallVec<[(VictimKey, TaskId); 8]> {
        let known = self.changed.get(&node);
        let looked_up = known.is_none().then(|| NodeVictims::on(world, node));
        let victims = known.or(looked_up.as_ref()).map(|found| &found.victims[..]);
        let pair = |victim: &Victim| (victim.key.clone(), victim.task);
        victims.into_iter().flatten().map(pair).collect()
    }

    /// Puts the set of the first `count` victims of a node where it comes.
    fn open(&mut self, world: &World, node: NodeId, count: usize) {
        if let Some((key, _)) = self.victims_on(world, node).get(count - 1) {
            self.open.insert(key.clone(), (node, count));
        }
    }

    /// The next node in the order of all.
    fn next_in_order(&self) -> Option<&'a (VictimKey, NodeId)> {
        if self.need > 1 {
            return None;
        }
        let from = self.passed.as_ref().map_or(Unbounded, Excluded);
        let mut nodes = self.yields.order.range((from, Unbounded));
        nodes.find(|(_, node)| !self.changed.contains_key(node))
    }

    fn next(&mut self, world: &World) -> Option<NodeVictimSet> {
        let ordered = self.next_in_order();
        let is_open = match (self.open.first_key_value(), ordered) {
            (Some((key, _)), Some((ordered, _))) => key < ordered,
            (open, None) => open.is_some(),
            (None, Some(_)) => false,
        };
        if is_open {
            let (key, (node, count)) = self.open.pop_first()?;
            return Some(NodeVictimSet { key, node, count });
        }
        let (key, node) = ordered?;
        self.passed = Some((key.clone(), *node));
        let victims = NodeVictims::on(world, *node);
        let count = victims.victims_for(self.need, self.yields.size)?;
        Some(NodeVictimSet { key: key.clone(), node: *node, count })
    }

    fn scenario(&self, world: &World, set: &NodeVictimSet) -> Scenario {
        let victims = self.victims_on(world, set.node);
        debug_assert_eq!(victims[set.count - 1].0, set.key);
        let potential = victims[..set.count].iter().map(|(_, task)| *task).collect();
        // Each of these victims is the only pod of its job.
        Scenario { potential, batch_ends: (1..=set.count).collect() }
    }
}

/// The size of every pod of a probe, where counting whole devices says all that is asked before a set is tried.
fn size_by_count(cycle: &Cycle<'_>, search: &Search, probe: &Probe<'_>) -> Option<i64> {
    let world = &cycle.world;
    let GpuDemand::Whole { count: size } = world.shape_of(*probe.tasks.first()?).gpu else {
        return None;
    };
    let is_plain = |task: &TaskId| {
        world.shape_of(*task).gpu == GpuDemand::Whole { count: size }
            && asks_for_devices_only(world, search, *task)
    };
    let candidates = &search.candidates;
    let suits = size > 0
        && matches!(search.rules, Rules::Consolidation)
        && may_skip_sets(world)
        && candidates.most_jobs.is_empty()
        && candidates.below_priority.is_none()
        && search.spares_only_idle_jobs(world)
        && probe.tasks.iter().all(is_plain)
        && !world.has_replica_nodes()
        && !world.claims_are_in_play();
    suits.then_some(size)
}

/// The probe for `NodeLocalGreedy`; none where victims must be collected.
pub(super) fn probe(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    probe: &Probe<'_>,
    budget: &mut Budget,
) -> Option<ProbeResult> {
    let size = size_by_count(cycle, search, probe)?;
    let mut yields = std::mem::take(&mut cycle.yields);
    let of_size = yields.by_size.entry(size).or_insert_with(|| Yields::new(cycle.world, size));
    of_size.catch_up(cycle.world);
    let result = probe_with(cycle, search, probe, budget, of_size);
    cycle.yields = yields;
    result
}

fn probe_with(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    probe: &Probe<'_>,
    budget: &mut Budget,
    yields: &Yields,
) -> Option<ProbeResult> {
    if yields.uncountable > 0 {
        return None;
    }
    let world = &*cycle.world;
    let size = yields.size;
    let recorded: FxHashSet<TaskId> = probe.recorded.tasks.iter().copied().collect();
    let mut changed: BTreeMap<NodeId, NodeVictims> = BTreeMap::new();
    let mut need = probe.tasks.len() as i64 - world.free_gpus.slots_of(size);
    for task in probe.recorded.distinct() {
        need += i64::from(world.shape_of(task).request.get(GPU) >= size);
        let Some(node) = world.task(task).state.node else { continue };
        changed.entry(node).or_insert_with(|| NodeVictims::without(world, node, &recorded));
    }
    for (node, victims) in &changed {
        need -= victims.free / size - world.node(*node).available(GPU).max(0) / size;
    }
    if need <= 0 {
        return try_recorded(cycle, search, probe, budget);
    }
    if yields.tangled >= need || changed.keys().any(|node| yields.nodes[node.index()].is_tangled) {
        return None;
    }
    let most = yields.counts.last_key_value().map_or(0, |(most, _)| *most);
    let most_changed = changed.values().map(|victims| victims.most(size)).max().unwrap_or(0);
    if most.max(most_changed) < need {
        return Some(ProbeResult::Unsolved);
    }
    let mut queues: BTreeSet<QueueId> = yields.queues.keys().copied().collect();
    queues.extend(changed.values().filter_map(|victims| victims.queue));
    if queues.len() > 1 {
        return None;
    }
    let mut sets = SetsInOrder::new(world, yields, need, changed);
    while let Some(set) = sets.next(cycle.world) {
        let scenario = sets.scenario(cycle.world, &set);
        match try_set(cycle, search, probe, &scenario, budget) {
            ProbeResult::Unsolved => {
                sets.open(cycle.world, set.node, set.count + 1);
            }
            other => return Some(other),
        }
    }
    Some(ProbeResult::Unsolved)
}

/// Victims of earlier successes may do; if not, any set is as good as another and victims are collected.
fn try_recorded(
    cycle: &mut Cycle<'_>,
    search: &mut Search,
    probe: &Probe<'_>,
    budget: &mut Budget,
) -> Option<ProbeResult> {
    if probe.recorded.is_empty() {
        return None;
    }
    let scenario = Scenario::default();
    match try_set(cycle, search, probe, &scenario, budget) {
        ProbeResult::Unsolved => None,
        other => Some(other),
    }
}
