//! The queue tree as deltas build it, and what jobs hold of each queue.

use crate::fairness::{Amounts, QueueNode, QueueShares, QueueTree, tolerance_of_bounds};
use crate::ids::QueueId;
use crate::input::QueueSpec;
use crate::resources::{CPU, MEMORY};
use crate::status::Status;
use crate::world::World;
use crate::world::node::{Accepted, Node};
use crate::world::shape::QueueCost;

/// What the pods of one leaf queue hold and ask for, in exact integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueSums {
    /// Charged for placed pods.
    pub(crate) allocated: Accepted,
    /// Charged for placed pods that may not be preempted; part of `allocated`.
    pub(crate) non_preemptible: Accepted,
    /// Requested by pending pods.
    pub(crate) pending: QueueCost,
}

impl QueueSums {
    fn add(&mut self, other: &Self) {
        self.allocated.add(&other.allocated);
        self.non_preemptible.add(&other.non_preemptible);
        self.pending.add(&other.pending);
    }
}

impl Accepted {
    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu_milli += other.cpu_milli;
        self.memory_bytes += other.memory_bytes;
        self.gpu_centi += other.gpu_centi;
        self.mig_centi += other.mig_centi;
    }

    pub(crate) fn sub(&mut self, other: &Self) {
        self.cpu_milli -= other.cpu_milli;
        self.memory_bytes -= other.memory_bytes;
        self.gpu_centi -= other.gpu_centi;
        self.mig_centi -= other.mig_centi;
    }

    /// As amounts of a queue.
    pub fn amounts(&self) -> Amounts {
        Amounts::new(self.cpu_milli as f64, self.memory_bytes as f64, self.gpu_centi as f64 / 100.0)
    }
}

impl QueueCost {
    /// As amounts of a queue where a device has `device_mib`; memory requests count nothing where it is unknown.
    pub fn amounts(&self, device_mib: Option<i64>) -> Amounts {
        let mut gpus = self.gpu_centi as f64 / 100.0;
        if let Some(mib) = device_mib
            && self.gpu_memory_mib > 0
        {
            gpus += self.gpu_memory_mib as f64 / mib as f64;
        }
        Amounts::new(self.cpu_milli as f64, self.memory_bytes as f64, gpus)
    }
}

impl World {
    /// Adds what `task` holds or asks for to its queue.
    pub(crate) fn charge(&mut self, task: crate::ids::TaskId) {
        self.change_charge(task, Accepted::add, QueueCost::add);
    }

    /// Takes it back; the task must look as it did when it was charged.
    pub(crate) fn uncharge(&mut self, task: crate::ids::TaskId) {
        self.change_charge(task, Accepted::sub, QueueCost::sub);
    }

    fn change_charge(
        &mut self,
        task: crate::ids::TaskId,
        accepted: fn(&mut Accepted, &Accepted),
        cost: fn(&mut QueueCost, &QueueCost),
    ) {
        let entry = &self.tasks[task.index()];
        let (Some(job), Some(_)) = (entry.job, entry.leaf) else { return };
        let job = &self.jobs[job.index()];
        let Some(queue) = job.queue else { return };
        let charged = self.is_charged(entry.state.status);
        let sums = &mut self.queue_sums[queue.index()];
        if charged {
            accepted(&mut sums.allocated, &entry.state.accepted);
            // What of a semi-preemptible job is fixed depends on all its pods: see `load_cores`.
            if !job.is_preemptible() && !job.is_semi_preemptible() {
                accepted(&mut sums.non_preemptible, &entry.state.accepted);
            }
        } else if entry.state.status == Status::Pending {
            cost(&mut sums.pending, &self.shapes[entry.shape].queue_cost());
        }
    }

    /// A pod of this status costs its queue what it has.
    pub(crate) fn is_charged(&self, status: Status) -> bool {
        status.is_allocated() || (status == Status::Unknown && !self.config.compatibility.is_kai())
    }

    /// A pod of this status holds capacity of its node. A pod of unknown status may still run, so it keeps its capacity
    /// until it is deleted; KAI gives the capacity to other pods (fault 24).
    pub(crate) fn holds_its_place(&self, status: Status) -> bool {
        status.is_active_used()
            || (status == Status::Unknown && !self.config.compatibility.is_kai())
    }

    /// The slot of the queue `name`, given now if it is new.
    pub(crate) fn queue_slot(&mut self, spec: &QueueSpec) -> QueueId {
        if let Some(id) = self.queue_ids.get(&spec.name) {
            self.queue_specs[id.index()] = spec.clone();
            return *id;
        }
        let id = if let Some(id) = self.free_queue_slots.pop() {
            self.queue_specs[id.index()] = spec.clone();
            id
        } else {
            self.queue_specs.push(spec.clone());
            self.queue_sums.push(QueueSums::default());
            QueueId::new(self.queue_specs.len() - 1)
        };
        self.queue_ids.insert(spec.name.clone(), id);
        id
    }

    /// Builds the tree anew: parents by name, orphans and their subtrees dead.
    pub(crate) fn rebuild_queue_tree(&mut self) {
        let flat = !self.config.params.full_hierarchy_fairness;
        let tolerance = tolerance_of_bounds(self.config.compatibility);
        let queues = Vec::with_capacity(self.queue_specs.len());
        let mut tree = QueueTree { queues, ..QueueTree::default() };
        let lends_all = self.config.compatibility.is_kai();
        for (at, spec) in self.queue_specs.iter().enumerate() {
            let exists = self.queue_ids.get(&spec.name) == Some(&QueueId::new(at));
            let parent = spec.parent.as_ref().and_then(|name| self.queue_ids.get(name)).copied();
            let orphan = spec.parent.is_some() && parent.is_none();
            tree.queues.push(QueueNode {
                name: spec.name.clone(),
                display_name: spec.display_name.clone().unwrap_or_else(|| spec.name.clone()),
                parent,
                children: Vec::new(),
                shares: QueueShares {
                    tolerance,
                    lending_limit: spec.lending_limit.filter(|_| !lends_all),
                    ..shares_of(spec)
                },
                live: exists && !orphan,
            });
        }
        bury_orphans(&mut tree);
        if flat {
            flatten(&mut tree, tolerance);
        }
        let mut links: Vec<(QueueId, QueueId)> = Vec::new();
        for (at, node) in tree.queues.iter().enumerate() {
            if let (true, Some(parent)) = (node.live, node.parent) {
                links.push((parent, QueueId::new(at)));
            }
        }
        links.sort_by(|left, right| tree.compare_names(left.1, right.1));
        for (parent, child) in links {
            tree.queues[parent.index()].children.push(child);
        }
        self.tree = tree;
        self.reports.clear();
    }

    /// Whether jobs of `queue` may run: it exists, is connected to a top and has no queues below.
    pub(crate) fn is_live_leaf(&self, queue: QueueId) -> bool {
        let node = self.tree.node(queue);
        node.live && node.children.is_empty()
    }

    /// Sets what every queue holds and asks for from the exact sums of its jobs. Sums are of integers up to the top:
    /// the order of queues must not show in the last bit.
    pub(crate) fn load_shares(&mut self) {
        let device_mib = self.smallest_gpu_mib();
        self.tree.total = self.cluster_amounts();
        for node in &mut self.tree.queues {
            node.shares.usage =
                self.usage.get(&node.name).map_or(Amounts::ZERO, |usage| usage.usage);
        }
        let mut sums = vec![QueueSums::default(); self.tree.queues.len()];
        for (queue, core) in self.load_cores() {
            for above in self.tree.chain(queue) {
                sums[above.index()].non_preemptible.add(&core);
            }
        }
        for (at, own) in self.queue_sums.iter().enumerate() {
            if *own == QueueSums::default() {
                continue;
            }
            for queue in self.tree.chain(QueueId::new(at)) {
                sums[queue.index()].add(own);
            }
        }
        for (node, sum) in self.tree.queues.iter_mut().zip(&sums) {
            node.shares.allocated = sum.allocated.amounts();
            node.shares.allocated_non_preemptible = sum.non_preemptible.amounts();
            node.shares.request = node.shares.allocated + sum.pending.amounts(device_mib);
        }
        self.load_gpu_types();
    }

    /// What our pods may use of the cluster, as queues divide it.
    pub fn cluster_amounts(&self) -> Amounts {
        let available = self.totals.available();
        let gpus = Node::total_gpus(&available, &self.names);
        Amounts::new(available.get(CPU) as f64, available.get(MEMORY) as f64, gpus as f64)
    }

    /// Memory of the smallest device, for requests by memory. KAI's tables take the placeholder where nothing is
    /// known; so do we, since a request by memory must not look free of charge.
    pub(crate) fn smallest_gpu_mib(&self) -> Option<i64> {
        self.totals.smallest_gpu_mib().or(Some(crate::world::gpu_facts::UNKNOWN_GPU_MEMORY_MIB))
    }

    /// Memory of the largest device.
    pub(crate) fn largest_gpu_mib(&self) -> Option<i64> {
        self.totals.largest_gpu_mib().or(Some(crate::world::gpu_facts::UNKNOWN_GPU_MEMORY_MIB))
    }
}

fn shares_of(spec: &QueueSpec) -> QueueShares {
    QueueShares {
        deserved: spec.quota,
        max_allowed: spec.limit,
        over_quota_weight: spec.over_quota_weight,
        priority: spec.priority,
        created: spec.created,
        ..QueueShares::default()
    }
}

/// A queue whose parent is dead is dead; so is one in a cycle, which reaches no top.
fn bury_orphans(tree: &mut QueueTree) {
    let len = tree.queues.len();
    for at in 0..len {
        let mut next = tree.queues[at].parent;
        let mut steps = 0;
        while let Some(parent) = next {
            steps += 1;
            if !tree.queues[parent.index()].live || steps > len {
                tree.queues[at].live = false;
                break;
            }
            next = tree.queues[parent.index()].parent;
        }
    }
}

/// All queues that have a parent hang under one unlimited root; those without are dropped.
fn flatten(tree: &mut QueueTree, tolerance: f64) {
    let root = QueueId::new(tree.queues.len());
    for node in &mut tree.queues {
        node.live = node.live && node.parent.is_some();
        node.parent = Some(root);
    }
    let unlimited = Amounts::UNBOUNDED;
    tree.queues.push(QueueNode {
        name: "default".into(),
        display_name: "default".into(),
        parent: None,
        children: Vec::new(),
        shares: QueueShares {
            deserved: unlimited,
            max_allowed: unlimited,
            over_quota_weight: Amounts::new(1.0, 1.0, 1.0),
            priority: 100,
            tolerance,
            ..QueueShares::default()
        },
        live: true,
    });
}
