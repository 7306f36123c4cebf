//! Proofs that a set of victims cannot help, before it is tried on the model.
//!
//! *Devices on nodes.* A pod that asks for whole devices takes them from one node. Of the job's pods, those that ask
//! for at least d devices need as many times d devices on single nodes; a node with c devices free, becoming free or
//! freed by the victims fits ⌊c/d⌋ of them. If all nodes together fit fewer, some pod finds no node,
//! in whatever order jobs are placed: placing others first only takes devices away.
//!
//! *Devices in all, where no victim may be lost.* Consolidation places every victim again. Devices then suffice only if
//! those free before, plus those that sharing victims empty, are enough for the job: a whole device that a victim
//! gives up is taken again by the same victim. And the memory of all sharing pods must fit the devices that are left
//! for them.
//!
//! *Every victim is placed again, where none may be lost.* So victims must fit size by size just as the job does.
//! And a victim job has one attempt, in which it gets what it lacks to its minimum, or one pod beyond it: if more of
//! it were evicted, some stay evicted however much is free.
//!
//! *What may be taken.* Of a queue something may be taken only while it holds more than it is guaranteed. Where only
//! its GPUs are above that, all that is taken before the last piece is less than what is above, so less than that
//! plus the largest job can be taken in all. The job needs at least its GPUs less those free anywhere: whatever else
//! moves keeps its own.
//!
//! None says anything about claims or replicas; where those are in play nothing is proved.

use std::borrow::Cow;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::cycle::Cycle;
use crate::fairness::{Amounts, QueueResource, Reclaimer, TakeLimit, UNLIMITED, take_limit};
use crate::ids::{JobId, NodeId, QueueId, TaskId};
use crate::report::victims::NotEnough;
use crate::resources::GPU;
use crate::solver::{Probe, Rules, Search};
use crate::status::Status;
use crate::world::World;
use crate::world::job_tree::Member;
use crate::world::node::{DeviceDemand, GroupId};

/// What the victims of a set free.
#[derive(Default)]
struct Freed {
    /// Whole devices per node.
    whole: BTreeMap<NodeId, i64>,
    /// Of each pod with whole devices, how many.
    sizes: Vec<i64>,
    /// Memory per shared device.
    shared: BTreeMap<(NodeId, GroupId), i64>,
    /// Memory that sharing victims need again, largest single share and smallest.
    shared_mib: i64,
    smallest_share: i64,
}

/// Whether these victims provably do not help the pods of the probe.
pub(crate) fn cannot_help(
    cycle: &Cycle<'_>,
    search: &Search,
    probe: &Probe<'_>,
    victims: &[TaskId],
) -> bool {
    let world = &cycle.world;
    if world.has_replica_nodes() || uses_claims(world, probe.tasks) {
        return false;
    }
    let keeps_all_victims = matches!(search.rules, Rules::Consolidation);
    let victims = &*distinct(world, victims);
    let all_count_once = victims.iter().all(|victim| counts_on_one_node(world, *victim));
    let Some(freed) = Freed::by(world, victims) else { return false };
    let emptied = freed.emptied_devices(world);
    let mut sizes: Vec<i64> = probe.tasks.iter().map(|task| whole_devices(world, *task)).collect();
    if keeps_all_victims && all_count_once {
        sizes.extend(&freed.sizes);
    }
    if !all_fit(world, sizes, &freed, &emptied) {
        return true;
    }
    let emptied = emptied.values().sum();
    keeps_all_victims
        && (all_count_once && !suffices_for_all(world, probe, &freed, emptied)
            || !could_all_return(world, victims))
}

/// False for a pod that moved before: it has an entry on the node it left, too. KAI reverts its eviction when it is
/// placed there, and so keeps it where it was: it must fit one node and takes capacity of another.
pub(super) fn counts_on_one_node(world: &World, victim: TaskId) -> bool {
    !world.config.compatibility.is_kai() || world.task(victim).state.status != Status::Pipelined
}

/// Every victim once: as in KAI a set may name one twice (fault 11).
fn distinct<'a>(world: &World, victims: &'a [TaskId]) -> Cow<'a, [TaskId]> {
    if !world.config.compatibility.is_kai() {
        return Cow::Borrowed(victims);
    }
    let mut victims = victims.to_vec();
    victims.sort_unstable();
    victims.dedup();
    Cow::Owned(victims)
}

fn whole_devices(world: &World, task: TaskId) -> i64 {
    world.shape_of(task).request.get(GPU)
}

/// Every victim is among the pods that the one attempt of its job is for.
fn could_all_return(world: &World, victims: &[TaskId]) -> bool {
    let of_job = |task: &TaskId| world.task(*task).job.map(|job| (job, *task));
    let mut by_job: Vec<(JobId, TaskId)> = victims.iter().filter_map(of_job).collect();
    by_job.sort_unstable();
    by_job.dedup();
    by_job.chunk_by(|left, right| left.0 == right.0).all(|of_job| could_return(world, of_job))
}

/// Says nothing of jobs with several sub-groups: which of them are served depends on how far the others are.
fn could_return(world: &World, victims: &[(JobId, TaskId)]) -> bool {
    let job = world.job(victims[0].0);
    let [Member::Leaf(leaf)] = job.tree.sets[0].members[..] else { return true };
    let leaf = &job.leaves[leaf];
    let status = |task: TaskId| world.task(task).state.status;
    let leaving = victims.iter().filter(|(_, task)| status(*task).is_active_allocated()).count();
    let staying = leaf.counts.active_allocated().saturating_sub(leaving as u32);
    let served = leaf.declared.min_available.saturating_sub(staying).max(1) as usize;
    if victims.len() == 1 && leaf.tasks.len() == 1 {
        return true;
    }
    let is_victim = |task: TaskId| victims.binary_search(&(victims[0].0, task)).is_ok();
    let waiting = leaf.tasks.iter().copied();
    let waiting = waiting.filter(|task| is_victim(*task) || world.task(*task).may_be_placed(true));
    waiting.take(served).filter(|task| is_victim(*task)).count() == victims.len()
}

fn uses_claims(world: &World, tasks: &[TaskId]) -> bool {
    tasks.iter().any(|task| !world.task(*task).claims.is_empty())
}

impl Freed {
    /// None where claims are in play.
    fn by(world: &World, victims: &[TaskId]) -> Option<Self> {
        let mut freed = Self { smallest_share: i64::MAX, ..Self::default() };
        for task in victims {
            let entry = world.task(*task);
            if !entry.claims.is_empty() {
                return None;
            }
            let Some(node) = entry.state.node else { continue };
            let shape = world.shape_of(*task);
            match world.node(node).demand(shape, world.config.compatibility) {
                DeviceDemand::Vector => {
                    let devices = shape.request.get(GPU);
                    if devices > 0 {
                        *freed.whole.entry(node).or_default() += devices;
                        freed.sizes.push(devices);
                    }
                }
                DeviceDemand::Shared { mib, devices, .. } => {
                    for group in &entry.state.groups {
                        *freed.shared.entry((node, *group)).or_default() += mib;
                    }
                    // It may need less elsewhere: a GPU fraction is least memory on the smallest device.
                    freed.add_share(mib.min(world.least_share(shape)), devices);
                }
            }
        }
        Some(freed)
    }

    fn add_share(&mut self, mib: i64, devices: i64) {
        self.shared_mib += mib * devices;
        self.smallest_share = self.smallest_share.min(mib);
    }

    /// Shared devices per node on which only victims are left.
    fn emptied_devices(&self, world: &World) -> BTreeMap<NodeId, i64> {
        let mut emptied: BTreeMap<NodeId, i64> = BTreeMap::new();
        for ((node, group), mib) in &self.shared {
            let device = world.node(*node).group(*group);
            if device.is_some_and(|device| device.allocated_mib - device.releasing_mib <= *mib) {
                *emptied.entry(*node).or_default() += 1;
            }
        }
        emptied
    }
}

/// Each pod that asks for whole devices fits some node, counted size by size.
fn all_fit(world: &World, sizes: Vec<i64>, freed: &Freed, emptied: &BTreeMap<NodeId, i64>) -> bool {
    let demands = demands_by_size(sizes);
    demands.iter().all(|(size, pods)| slots_of(world, *size, freed, emptied) >= *pods)
}

/// Each size of pods that ask for whole devices, with how many pods ask for at least that much.
fn demands_by_size(mut sizes: Vec<i64>) -> SmallVec<[(i64, i64); 2]> {
    sizes.retain(|size| *size > 0);
    sizes.sort_unstable_by(|left, right| right.cmp(left));
    let mut pods = 0;
    let of_size = |equal: &[i64]| {
        pods += equal.len() as i64;
        (equal[0], pods)
    };
    sizes.chunk_by(|left, right| left == right).map(of_size).collect()
}

/// How many pods of `size` devices fit all nodes together once `freed` and `emptied` devices are free.
fn slots_of(world: &World, size: i64, freed: &Freed, emptied: &BTreeMap<NodeId, i64>) -> i64 {
    let mut slots = world.free_gpus.slots_of(size);
    for (node, devices) in &freed.whole {
        let more = devices + emptied.get(node).copied().unwrap_or(0);
        slots += more_slots(world, *node, more, size);
    }
    let only_emptied = emptied.iter().filter(|(node, _)| !freed.whole.contains_key(node));
    for (node, devices) in only_emptied {
        slots += more_slots(world, *node, *devices, size);
    }
    slots
}

/// What the victims of earlier successes give a probe; the same for all sets of the probe.
pub(crate) struct RecordedSlots {
    /// Sizes of the pods, with how many ask for at least that much and how many of them fit.
    by_size: SmallVec<[(i64, i64, i64); 2]>,
}

impl RecordedSlots {
    /// None where nothing is proved.
    pub(crate) fn of(world: &World, probe: &Probe<'_>) -> Option<Self> {
        if world.has_replica_nodes() || uses_claims(world, probe.tasks) {
            return None;
        }
        let freed = Freed::by(world, &distinct(world, &probe.recorded.tasks))?;
        let emptied = freed.emptied_devices(world);
        let sizes = probe.tasks.iter().map(|task| whole_devices(world, *task)).collect();
        let with_slots = |(size, pods)| (size, pods, slots_of(world, size, &freed, &emptied));
        Some(Self { by_size: demands_by_size(sizes).into_iter().map(with_slots).collect() })
    }

    /// Whether `potential` victims provably add too little: what [`cannot_help`] would find by counting all victims. Of
    /// D more devices on a node at most D / size + 1 more pods can use.
    pub(crate) fn stay_too_few(&self, world: &World, potential: &[TaskId]) -> bool {
        if uses_claims(world, potential) {
            return false;
        }
        let devices = |task: &TaskId| {
            let shared = world.task(*task).state.groups.len() as i64;
            whole_devices(world, *task).max(0) + shared
        };
        let devices: i64 = potential.iter().map(devices).sum();
        let nodes = potential.len() as i64;
        self.by_size.iter().any(|(size, pods, slots)| slots + devices / size + nodes < *pods)
    }
}

fn more_slots(world: &World, node: NodeId, devices: i64, size: i64) -> i64 {
    let available = world.node(node).available(GPU).max(0);
    (available + devices) / size - available / size
}

/// Devices and their memory suffice for the job and for every victim.
fn suffices_for_all(world: &World, probe: &Probe<'_>, freed: &Freed, emptied: i64) -> bool {
    let mut wanted = 0;
    let mut sharing = (freed.shared_mib, freed.smallest_share);
    let mut largest_device = 0;
    for task in probe.tasks {
        let shape = world.shape_of(*task);
        wanted += shape.request.get(GPU);
        if shape.is_shared() {
            let mib = world.least_share(shape);
            sharing.0 += mib * shape.shared_devices();
            sharing.1 = sharing.1.min(mib);
        }
    }
    let spare = world.free_gpus.total_whole() + emptied - wanted;
    if spare < 0 {
        return false;
    }
    let (shared_mib, smallest_share) = sharing;
    if shared_mib == 0 {
        return true;
    }
    let mut left = 0;
    for rank in world.free_gpus.sharing().iter() {
        let id = world.nodes_by_rank[rank];
        let node = world.node(id);
        largest_device = largest_device.max(node.gpus.memory_mib);
        for group in &node.groups {
            let given_up = freed.shared.get(&(id, group.id)).copied().unwrap_or(0);
            let free_mib =
                node.gpus.memory_mib - group.allocated_mib + group.releasing_mib + given_up;
            let is_emptied = group.allocated_mib - group.releasing_mib <= given_up;
            if free_mib >= smallest_share && !is_emptied {
                left += free_mib;
            }
        }
    }
    let largest_device = largest_device.max(world.largest_gpu_mib().unwrap_or(0));
    shared_mib <= left + spare.saturating_mul(largest_device)
}

/// What a reclaimer needs is more than may be taken from all queues together.
pub(crate) fn not_enough_to_take(
    cycle: &Cycle<'_>,
    queues: &[QueueId],
    reclaimer: &Reclaimer,
    tasks: &[TaskId],
) -> Option<NotEnough> {
    let world = &cycle.world;
    let whole_only = tasks.iter().all(|task| !world.shape_of(*task).is_shared());
    if world.naive
        || !whole_only
        || world.has_replica_nodes()
        || !world.free_gpus.sharing().is_empty()
        || uses_claims(world, tasks)
        || world.claims_are_in_play()
    {
        return None;
    }
    let wanted: i64 = tasks.iter().map(|task| world.shape_of(*task).request.get(GPU)).sum();
    let needed = (wanted - world.free_gpus.total_whole()) as f64;
    let mut levels: BTreeMap<QueueId, (TakeLimit, Sizes)> = BTreeMap::new();
    for queue in queues {
        let limit = take_limit(&world.tree, reclaimer, *queue);
        let sizes = Sizes::of(world, *queue);
        let (_, known) = levels.entry(limit.victim_level).or_insert((limit, Sizes::default()));
        known.add(sizes);
    }
    let mut below = 0.0;
    let mut takeable = 0.0;
    for (limit, sizes) in levels.values() {
        let above = gpus_above(limit)?;
        below += above + sizes.largest;
        takeable += sizes.most(above);
    }
    (needed >= below && needed > 0.0).then(|| NotEnough {
        needed: Amounts::new(0.0, 0.0, needed),
        takeable: Amounts::new(0.0, 0.0, takeable),
    })
}

/// GPUs a queue holds above what it is guaranteed; none where another resource is above too, so that more may be
/// taken for its sake.
fn gpus_above(limit: &TakeLimit) -> Option<f64> {
    let above = |resource: QueueResource| {
        let bound = limit.protected[resource];
        if bound == UNLIMITED { 0.0 } else { (limit.allocated[resource] - bound).max(0.0) }
    };
    let others = above(QueueResource::Cpu) > 0.0 || above(QueueResource::Memory) > 0.0;
    (!others).then(|| above(QueueResource::Gpu))
}

/// Largest and smallest number of GPUs of the jobs that may be evicted.
#[derive(Clone, Copy, Default)]
struct Sizes {
    largest: f64,
    smallest: f64,
}

impl Sizes {
    fn of(world: &World, queue: QueueId) -> Self {
        let sizes = &world.job_index.of(queue).sizes;
        let size =
            |entry: Option<(&i64, &u32)>| entry.map_or(0.0, |(centi, _)| *centi as f64 / 100.0);
        Self { largest: size(sizes.last_key_value()), smallest: size(sizes.first_key_value()) }
    }

    fn add(&mut self, other: Self) {
        self.smallest =
            if self.largest == 0.0 { other.smallest } else { self.smallest.min(other.smallest) };
        self.largest = self.largest.max(other.largest);
    }

    /// The most that can be taken: whole pieces where all are equal, a bound otherwise.
    fn most(&self, above: f64) -> f64 {
        if above <= 0.0 {
            0.0
        } else if self.largest == self.smallest && self.largest > 0.0 {
            (above / self.largest).ceil() * self.largest
        } else {
            above + self.largest
        }
    }
}
