//! Indexes over the world: jobs by queue in job order, nodes by free GPUs in name order. They answer what a
//! full scan would, without the scan.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{JobId, QueueId};
use crate::input::Text;
use crate::time::Timestamp;

/// Job order within a queue: higher priority, fewer pods than needed, older, smaller UID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JobKey {
    /// Priority, negated; zero when priorities have no influence.
    pub priority: std::cmp::Reverse<i32>,
    /// Below, exactly at or above its minimum; constant when elasticity has no influence.
    pub fill: Fill,
    /// When the pod group was created; the older comes first.
    pub created: Timestamp,
    /// UID of the pod group; breaks ties of age.
    pub uid: Text,
    /// Slot of the job; part of the key so that jobs with equal UIDs stay apart.
    pub job: JobId,
}

/// How many pods a job has of those it needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fill {
    /// Some leaf has fewer than it needs.
    Below,
    /// Every leaf has exactly what it needs.
    Exact,
    /// No leaf has fewer, some have more.
    Above,
}

/// Jobs of one queue.
#[derive(Clone, Debug, Default)]
pub struct QueueJobs {
    /// Jobs with a pending pod.
    pub pending: BTreeSet<JobKey>,
    /// Preemptible jobs with a pod that holds a place.
    pub running: BTreeSet<JobKey>,
    /// The same for jobs that may not be preempted.
    pub fixed: BTreeSet<JobKey>,
    /// Hundredths of GPUs those jobs hold, with how many hold each.
    pub sizes: BTreeMap<i64, u32>,
}

impl QueueJobs {
    pub(crate) fn add_size(&mut self, gpu_centi: i64) {
        *self.sizes.entry(gpu_centi).or_default() += 1;
    }

    pub(crate) fn remove_size(&mut self, gpu_centi: i64) {
        if let Some(jobs) = self.sizes.get_mut(&gpu_centi) {
            *jobs -= 1;
            if *jobs == 0 {
                self.sizes.remove(&gpu_centi);
            }
        }
    }
}

/// Where a job was put in the index.
#[derive(Clone, Debug)]
pub(crate) struct Indexed {
    pub(crate) queue: QueueId,
    /// The part of its key that can change while its spec does not.
    pub(crate) fill: Fill,
    /// Hundredths of GPUs that it holds; none when it cannot be a victim.
    pub(crate) size: Option<i64>,
}

/// Jobs by queue slot.
#[derive(Clone, Debug, Default)]
pub struct JobIndex {
    queues: Vec<QueueJobs>,
    none: QueueJobs,
    /// Where each job was put.
    places: Vec<Option<Indexed>>,
    /// Jobs with a pod that waits, for a node or for its gates.
    pub(crate) waiting: BTreeSet<JobId>,
    /// Jobs that lack members, or did.
    pub(crate) suspects: BTreeSet<JobId>,
    /// Jobs with waiting pods whose queue does not exist.
    pub(crate) homeless: BTreeSet<JobId>,
}

impl JobIndex {
    /// Jobs of the queue in slot `queue`.
    pub fn of(&self, queue: QueueId) -> &QueueJobs {
        self.queues.get(queue.index()).unwrap_or(&self.none)
    }

    pub(crate) fn of_mut(&mut self, queue: QueueId) -> &mut QueueJobs {
        if self.queues.len() <= queue.index() {
            self.queues.resize_with(queue.index() + 1, QueueJobs::default);
        }
        &mut self.queues[queue.index()]
    }

    pub(crate) fn remember(&mut self, job: JobId, place: Indexed) {
        if self.places.len() <= job.index() {
            self.places.resize_with(job.index() + 1, || None);
        }
        self.places[job.index()] = Some(place);
    }

    pub(crate) fn recall(&mut self, job: JobId) -> Option<Indexed> {
        self.places.get_mut(job.index())?.take()
    }
}

const WORD: usize = 64;

/// A set of node ranks that finds its next member fast: one bit per rank, one bit per word of those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSet {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl RankSet {
    /// An empty set of ranks below `len`.
    pub fn with_len(len: usize) -> Self {
        let words = len.div_ceil(WORD);
        Self { words: vec![0; words], summary: vec![0; words.div_ceil(WORD)] }
    }

    /// Adds `rank`; panics where it is not below the length of the set.
    #[inline]
    pub fn insert(&mut self, rank: usize) {
        let word = rank / WORD;
        self.words[word] |= 1 << (rank % WORD);
        self.summary[word / WORD] |= 1 << (word % WORD);
    }

    /// Removes `rank`; a rank below the length that is not in the set is ignored.
    #[inline]
    pub fn remove(&mut self, rank: usize) {
        let word = rank / WORD;
        self.words[word] &= !(1 << (rank % WORD));
        if self.words[word] == 0 {
            self.summary[word / WORD] &= !(1 << (word % WORD));
        }
    }

    /// Whether `rank` is in.
    #[inline]
    pub fn contains(&self, rank: usize) -> bool {
        self.words.get(rank / WORD).is_some_and(|word| word & (1 << (rank % WORD)) != 0)
    }

    /// The smallest member that is at least `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let first = from / WORD;
        let word = *self.words.get(first)? & (u64::MAX << (from % WORD));
        if word != 0 {
            return Some(first * WORD + word.trailing_zeros() as usize);
        }
        let mut block = (first + 1) / WORD;
        let mut mask = *self.summary.get(block)? & (u64::MAX << ((first + 1) % WORD));
        while mask == 0 {
            block += 1;
            mask = *self.summary.get(block)?;
        }
        let at = block * WORD + mask.trailing_zeros() as usize;
        Some(at * WORD + self.words[at].trailing_zeros() as usize)
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next(from)?;
            from = found + 1;
            Some(found)
        })
    }

    /// Whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.summary.iter().all(|word| *word == 0)
    }
}

/// Nodes by the number of whole GPUs that are free or becoming free.
#[derive(Clone, Debug, Default)]
pub struct FreeGpuIndex {
    /// One set per number of free devices; the first also holds nodes with none or fewer.
    buckets: Vec<RankSet>,
    /// The bucket of each rank.
    bucket_of: Vec<u32>,
    /// Nodes on which some GPU, or a fraction of one, is free or releasing.
    partly_free: RankSet,
    /// How many nodes have each number of devices free now.
    idle_counts: Vec<u32>,
    /// Devices free now at each rank.
    idle_of: Vec<u32>,
    /// What is free or becoming free at each rank, where pods may be placed.
    free_of: Vec<FreeGpuCapacity>,
    /// Sum of `free_of` over all ranks.
    total_free: FreeGpuCapacity,
    /// How many nodes are in each bucket.
    bucket_counts: Vec<u32>,
    /// Nodes with shared devices.
    sharing: RankSet,
}

/// GPUs that are free or becoming free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeGpuCapacity {
    /// Hundredths of devices, whole and shared.
    pub centi: i64,
    /// MiB of device memory.
    pub mib: i64,
}

/// What is free on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FreeGpus {
    /// Whole devices that are free now.
    pub(crate) idle: i64,
    /// Devices free now or becoming free.
    pub(crate) later: i64,
    /// A device, or a fraction of one, is free or releasing.
    pub(crate) any: bool,
    /// Free or releasing capacity; zero on a node where no pods may be placed.
    pub(crate) capacity: FreeGpuCapacity,
    /// Some devices are shared.
    pub(crate) shares: bool,
}

impl FreeGpuIndex {
    /// An index of `len` nodes, all in the first bucket until they are updated.
    pub(crate) fn with_len(len: usize) -> Self {
        let mut first = RankSet::with_len(len);
        (0..len).for_each(|rank| first.insert(rank));
        Self {
            buckets: vec![first],
            bucket_of: vec![0; len],
            partly_free: RankSet::with_len(len),
            idle_counts: vec![len as u32],
            idle_of: vec![0; len],
            free_of: vec![FreeGpuCapacity::default(); len],
            total_free: FreeGpuCapacity::default(),
            bucket_counts: vec![len as u32],
            sharing: RankSet::with_len(len),
        }
    }

    /// Notes what is free at `rank`.
    #[inline]
    pub(crate) fn set(&mut self, rank: usize, free: FreeGpus) {
        self.update(rank, free.idle, free.later, free.any);
        self.update_sharing(rank, free.shares);
        self.update_free(rank, free.capacity);
    }

    /// Whether the other index answers every question as this one does.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        let ranks = |index: &Self, free: usize| -> Vec<usize> {
            index.with_free(free).map(|ranks| ranks.iter().collect()).unwrap_or_default()
        };
        let most = self.most_free().max(other.most_free());
        let idle = self.idle_counts.len().max(other.idle_counts.len());
        (0..=most).all(|free| ranks(self, free) == ranks(other, free))
            && (0..=idle).all(|idle| self.some_idle(idle) == other.some_idle(idle))
            && self.partly_free.iter().eq(other.partly_free.iter())
            && self.sharing.iter().eq(other.sharing.iter())
            && self.total_whole() == other.total_whole()
            && self.free_of == other.free_of
            && self.total_free == other.total_free
    }

    /// Notes that the node at `rank` has `idle` devices free now, `free` with those that are releasing, and whether it
    /// has a fraction of one free.
    #[inline]
    fn update(&mut self, rank: usize, idle: i64, free: i64, any: bool) {
        self.update_idle(rank, idle);
        let bucket = usize::try_from(free).unwrap_or(0);
        let old = self.bucket_of[rank] as usize;
        if old != bucket {
            if self.buckets.len() <= bucket {
                let len = self.bucket_of.len();
                self.buckets.resize_with(bucket + 1, || RankSet::with_len(len));
                self.bucket_counts.resize(bucket + 1, 0);
            }
            self.bucket_counts[old] -= 1;
            self.bucket_counts[bucket] += 1;
            self.buckets[old].remove(rank);
            self.buckets[bucket].insert(rank);
            self.bucket_of[rank] = bucket as u32;
        }
        if any {
            self.partly_free.insert(rank);
        } else {
            self.partly_free.remove(rank);
        }
    }

    #[inline]
    fn update_idle(&mut self, rank: usize, idle: i64) {
        let idle = usize::try_from(idle).unwrap_or(0);
        let old = self.idle_of[rank] as usize;
        if old != idle {
            if self.idle_counts.len() <= idle {
                self.idle_counts.resize(idle + 1, 0);
            }
            self.idle_counts[old] -= 1;
            self.idle_counts[idle] += 1;
            self.idle_of[rank] = idle as u32;
        }
    }

    /// Notes what is free or becoming free at `rank`.
    #[inline]
    fn update_free(&mut self, rank: usize, free: FreeGpuCapacity) {
        let old = std::mem::replace(&mut self.free_of[rank], free);
        self.total_free.centi += free.centi - old.centi;
        self.total_free.mib += free.mib - old.mib;
    }

    /// Notes whether the node at `rank` has shared devices.
    #[inline]
    fn update_sharing(&mut self, rank: usize, shares: bool) {
        if shares {
            self.sharing.insert(rank);
        } else {
            self.sharing.remove(rank);
        }
    }

    /// Nodes with shared devices.
    pub fn sharing(&self) -> &RankSet {
        &self.sharing
    }

    /// Devices free or becoming free on all nodes.
    pub fn total_whole(&self) -> i64 {
        let counted = self.bucket_counts.iter().enumerate();
        counted.map(|(free, nodes)| free as i64 * i64::from(*nodes)).sum()
    }

    /// How many pods of `size` devices each fit on all nodes together, each pod on one node.
    pub fn slots_of(&self, size: i64) -> i64 {
        let counted = self.bucket_counts.iter().enumerate();
        counted.map(|(free, nodes)| free as i64 / size * i64::from(*nodes)).sum()
    }

    /// What is free or becoming free on all nodes where pods may be placed.
    pub fn total_free(&self) -> FreeGpuCapacity {
        self.total_free
    }

    /// Whether some node has at least `wanted` devices free now.
    pub fn some_idle(&self, wanted: usize) -> bool {
        self.idle_counts.iter().skip(wanted).any(|nodes| *nodes > 0)
    }

    /// Nodes with exactly `free` devices; `free` 0 means none or fewer.
    pub fn with_free(&self, free: usize) -> Option<&RankSet> {
        self.buckets.get(free)
    }

    /// The most free devices any bucket stands for.
    pub fn most_free(&self) -> usize {
        self.buckets.len().saturating_sub(1)
    }

    /// Nodes on which some GPU, or a fraction of one, is free or releasing.
    pub fn partly_free(&self) -> &RankSet {
        &self.partly_free
    }
}
