//! A node and what it has left: vectors per resource, shared devices, the pods that sit on it.

use smallvec::SmallVec;

use crate::compatibility::Compatibility;
use crate::config::Params;
use crate::ids::{TaskId, define_id};
use crate::input::node::WholeGpuPolicy;
use crate::input::pod::{ComputeMode, PodRole};
use crate::input::{NodeSpec, Text};
use crate::plugins::numa::{NumaState, ZonePlacement};
use crate::resources::{CPU, FIXED_SLOTS, GPU, MEMORY, PODS, ResourceNames, ResourceVector};
use crate::status::Status;
use crate::world::gpu_facts::{GpuFacts, fraction_mib};
use crate::world::node_class::{ClassId, NodeClass, NodeClasses};
use crate::world::shape::{GpuDemand, Shape, mig_slices};
use crate::world::task::Task;

define_id!(
    /// A shared device, by the id that its pods carry.
    GroupId
);

/// The shared devices of one pod.
pub type Groups = SmallVec<[GroupId; 2]>;

/// A node of the cluster.
#[derive(Clone, Debug)]
pub struct Node {
    /// False for a slot whose node is gone.
    pub live: bool,
    /// Latest spec that was applied.
    pub spec: Box<NodeSpec>,
    /// Position among all nodes by name.
    pub rank: u32,
    /// Class of nodes with the same GPUs, for reports.
    pub class: ClassId,
    /// Number, memory and sharing of its GPUs.
    pub gpus: GpuFacts,
    /// Devices offered through claims.
    pub claimable_gpus: i64,
    /// How MIG devices are offered.
    pub mig: Mig,
    /// What pods may use; GPUs are physical devices.
    pub allocatable: ResourceVector,
    /// Why no pod may be placed on it.
    pub unusable: Option<Text>,
    /// Idle, releasing and used amounts.
    pub amounts: NodeAmounts,
    /// Shared devices; one without pods has no memory in use.
    pub groups: Vec<GpuGroup>,
    /// Pods that occupy it.
    pub residents: Vec<Resident>,
    /// Residents that asked for MIG by annotation.
    pub legacy_mig_residents: Vec<TaskId>,
    /// Its NUMA zones with what is free of each; none where no zones are known.
    pub numa: Option<Box<NumaState>>,
}

/// How MIG devices are offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mig {
    /// Not a MIG node.
    Off,
    /// MIG without a strategy that restricts pods.
    Plain,
    /// Instances are offered as whole GPUs.
    Single,
    /// Instances are offered by profile.
    Mixed,
}

/// The vectors of a node that change when pods are placed and evicted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeAmounts {
    /// Free now; negative where pods hold more than there is.
    pub idle: ResourceVector,
    /// Allocated to releasing pods, less what nominated pods will take; can be negative.
    pub releasing: ResourceVector,
    /// Allocated to pods on the node, or taken by nominated pods.
    pub used: ResourceVector,
}

/// A device that pods share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuGroup {
    /// Id that its pods carry.
    pub id: GroupId,
    /// MiB of running, releasing and nominated pods.
    pub used_mib: i64,
    /// MiB of releasing pods, less those of nominated pods; can be negative.
    pub releasing_mib: i64,
    /// MiB of running and releasing pods; nominated pods are not counted.
    pub allocated_mib: i64,
    /// Counted once in the node's releasing devices because all of it is releasing; under `kai` alone.
    pub counted_as_releasing: bool,
    /// Kind of pods that share the device.
    pub kind: GroupKind,
}

/// What a shared device holds. Pods of different kinds never share a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupKind {
    /// Parts of the device, of pods that use its processors in this way.
    Parts(ComputeMode),
    /// Replicas of whole GPUs, whose card the device plugin alone knows.
    Replicas,
}

impl Default for GroupKind {
    fn default() -> Self {
        Self::Parts(ComputeMode::default())
    }
}

/// A pod on a node, as the node accounts it. A pod that moves is on two nodes for a while.
#[derive(Clone, PartialEq, Debug)]
pub struct Resident {
    /// The pod, by slot.
    pub task: TaskId,
    /// The status it is accounted with.
    pub status: Status,
    /// Shared devices that it has on this node.
    pub groups: Groups,
    /// NUMA zones that it has on this node.
    pub zones: ZonePlacement,
}

/// What a shape wants of one node's devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceDemand {
    /// Nothing, or nothing that is shared: the vectors say it all.
    Vector,
    /// Memory of each of several distinct devices.
    Shared {
        /// MiB of each device.
        mib: i64,
        /// Number of distinct devices.
        devices: i64,
        /// Which devices it can join.
        kind: GroupKind,
    },
}

/// What a pod on a node costs its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accepted {
    /// Processor time, in millicores.
    pub cpu_milli: i64,
    /// Amount of memory, in bytes.
    pub memory_bytes: i64,
    /// Hundredths of a GPU.
    pub gpu_centi: i64,
    /// Of those, hundredths in MIG slices.
    pub mig_centi: i64,
}

impl Node {
    /// The node with no pods on it.
    pub(crate) fn new(
        spec: Box<NodeSpec>,
        claimable_gpus: i64,
        numa: Option<Box<NumaState>>,
        params: &Params,
        compatibility: Compatibility,
        names: &mut ResourceNames,
        classes: &mut NodeClasses,
    ) -> Self {
        let gpus = GpuFacts::of(
            &spec,
            compatibility,
            params.whole_gpu_policy,
            params.gpu_memory_reserve_mib,
        );
        let mut allocatable = ResourceVector::zero();
        allocatable.set(CPU, spec.allocatable.cpu_milli);
        allocatable.set(MEMORY, spec.allocatable.memory_bytes);
        allocatable.set(GPU, gpus.physical + claimable_gpus);
        allocatable.set(PODS, spec.allocatable.pods);
        for (name, amount) in spec.allocatable.mig.iter().chain(&spec.allocatable.other) {
            allocatable.add_at(names.slot(name), *amount);
        }
        let mig = mig_of(&spec, params);
        let unusable = unusable(&spec);
        Self {
            live: true,
            rank: 0,
            class: classes.intern(NodeClass::of(&spec, &gpus, claimable_gpus)),
            gpus,
            claimable_gpus,
            mig,
            unusable,
            amounts: NodeAmounts {
                idle: allocatable.clone(),
                releasing: ResourceVector::zero(),
                used: ResourceVector::zero(),
            },
            allocatable,
            groups: Vec::new(),
            residents: Vec::new(),
            legacy_mig_residents: Vec::new(),
            numa,
            spec,
        }
    }

    /// Name of the node.
    pub fn name(&self) -> &Text {
        &self.spec.name
    }

    /// No GPU of any kind.
    pub fn is_cpu_only(&self) -> bool {
        self.mig == Mig::Off && self.allocatable.get(GPU) <= 0
    }

    /// Free or becoming free, per slot.
    #[inline]
    pub fn available(&self, slot: usize) -> i64 {
        self.amounts.idle.get(slot) + self.amounts.releasing.get(slot)
    }

    /// MiB a pod of `shape` takes of each device here; of a whole GPU all of it, of no GPU nothing.
    pub fn device_mib(&self, shape: &Shape, compatibility: Compatibility) -> i64 {
        match shape.gpu {
            GpuDemand::Memory { mib, .. } => mib,
            GpuDemand::Portion { portion, .. } => {
                if compatibility.is_kai() {
                    // KAI truncates the float product; 0.29 of 100 MiB is 28 MiB there.
                    return ((portion.0 * self.gpus.memory_mib as f64) as i64).max(1);
                }
                fraction_mib(portion.0, self.gpus.memory_mib)
            }
            GpuDemand::Whole { .. } => self.gpus.memory_mib,
            GpuDemand::None | GpuDemand::Mig { .. } => 0,
        }
    }

    /// What `shape` wants of this node's devices.
    #[inline]
    pub fn demand(&self, shape: &Shape, compatibility: Compatibility) -> DeviceDemand {
        match shape.gpu {
            GpuDemand::Portion { devices, .. } | GpuDemand::Memory { devices, .. } => {
                let mib = self.device_mib(shape, compatibility);
                DeviceDemand::Shared { mib, devices, kind: GroupKind::Parts(shape.compute_mode) }
            }
            GpuDemand::Whole { count } if self.gpus.whole_gpu_policy == WholeGpuPolicy::Replica => {
                let mib = self.gpus.replica_mib();
                DeviceDemand::Shared { mib, devices: count, kind: GroupKind::Replicas }
            }
            GpuDemand::None | GpuDemand::Whole { .. } | GpuDemand::Mig { .. } => {
                DeviceDemand::Vector
            }
        }
    }

    /// What `task` takes of this node's devices. A reservation takes nothing itself: it holds a device for the pods
    /// that share it, and those are counted.
    #[inline]
    pub fn demand_of(
        &self,
        task: &Task,
        shape: &Shape,
        compatibility: Compatibility,
    ) -> DeviceDemand {
        if task.spec.role == PodRole::Reservation {
            return DeviceDemand::Vector;
        }
        self.demand(shape, compatibility)
    }

    /// What a pod of `shape` costs its queue here.
    pub fn accepted(&self, shape: &Shape, compatibility: Compatibility) -> Accepted {
        let devices_centi = match self.demand(shape, compatibility) {
            DeviceDemand::Vector => shape.device_centi(),
            DeviceDemand::Shared { mib, devices, kind } => match shape.gpu {
                GpuDemand::Portion { .. } if kind != GroupKind::Replicas => shape.device_centi(),
                _ => self.gpus.centi_of_memory(mib) * devices,
            },
        };
        let mig_centi =
            if let GpuDemand::Mig { slices, .. } = shape.gpu { slices * 100 } else { 0 };
        Accepted {
            cpu_milli: shape.request.get(CPU),
            memory_bytes: shape.request.get(MEMORY),
            gpu_centi: (devices_centi + mig_centi)
                .saturating_add(shape.claimed_gpus.saturating_mul(100)),
            mig_centi,
        }
    }

    /// Whole GPUs of a vector, MIG instances counted by their compute slices.
    pub fn total_gpus(vector: &ResourceVector, names: &ResourceNames) -> i64 {
        let mut total = vector.get(GPU);
        for (slot, amount) in vector.non_zero() {
            if slot >= FIXED_SLOTS {
                total += mig_slices(names.name(slot)).unwrap_or(0) * amount;
            }
        }
        total
    }

    /// Hundredths of GPUs that are free, shared devices by what is left of them.
    pub fn idle_gpu_centi(&self, names: &ResourceNames) -> i64 {
        let whole = Self::total_gpus(&self.amounts.idle, names) * 100;
        let parts = self.groups.iter().filter(|group| group.allocated_mib > 0);
        whole + parts.map(|group| 100 - self.gpus.centi_of_memory(group.allocated_mib)).sum::<i64>()
    }

    /// Hundredths of GPUs that are releasing.
    pub fn releasing_gpu_centi(&self, names: &ResourceNames) -> i64 {
        let whole = Self::total_gpus(&self.amounts.releasing, names) * 100;
        let parts = self
            .groups
            .iter()
            .filter(|group| group.releasing_mib > 0 && group.releasing_mib != group.used_mib);
        whole + parts.map(|group| self.gpus.centi_of_memory(group.releasing_mib)).sum::<i64>()
    }

    /// MiB of GPU memory that are free or releasing.
    pub fn available_gpu_mib(&self, names: &ResourceNames) -> i64 {
        let memory = self.gpus.memory_mib;
        let whole = Self::total_gpus(&self.amounts.idle, names)
            + Self::total_gpus(&self.amounts.releasing, names);
        let mut sum = whole * memory;
        for group in &self.groups {
            if group.allocated_mib > 0 {
                sum += memory - group.allocated_mib;
            }
            if group.releasing_mib > 0 && group.releasing_mib != group.used_mib {
                sum += group.releasing_mib;
            }
        }
        sum
    }

    /// The group `id`, if this node has it.
    pub fn group(&self, id: GroupId) -> Option<&GpuGroup> {
        self.groups.iter().find(|group| group.id == id)
    }

    /// The resident entry of `task`; the latest where it moved between devices of the node.
    pub fn resident(&self, task: TaskId) -> Option<usize> {
        self.residents.iter().rposition(|resident| resident.task == task)
    }
}

fn mig_of(spec: &NodeSpec, params: &Params) -> Mig {
    let enabled = match spec.labels.get(&params.worker_labels.mig) {
        Some(value) => matches!(&**value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => spec.allocatable.mig.iter().any(|(_, count)| *count > 0),
    };
    if !enabled {
        return Mig::Off;
    }
    match spec.labels.get("nvidia.com/mig.strategy").map(|value| &**value) {
        Some("single") => Mig::Single,
        Some("mixed") => Mig::Mixed,
        _ => Mig::Plain,
    }
}

fn unusable(spec: &NodeSpec) -> Option<Text> {
    if spec.unschedulable {
        return Some("node is unschedulable".into());
    }
    spec.bad_conditions.first().map(|condition| format!("node has {condition} condition").into())
}

impl GpuGroup {
    /// Some pod holds a share of the device.
    pub(crate) fn is_in_use(&self) -> bool {
        self.allocated_mib > 0
    }

    /// Some pod holds a share of the device once releasing pods have ended and nominated pods have started.
    pub(crate) fn is_in_use_later(&self) -> bool {
        self.allocated_mib > self.releasing_mib
    }

    /// Counts `mib` more, or fewer, of a pod in `status`.
    pub(crate) fn change(&mut self, mib: i64, status: Status) {
        self.used_mib += mib;
        match status {
            Status::Releasing => {
                self.releasing_mib += mib;
                self.allocated_mib += mib;
            }
            Status::Pipelined => self.releasing_mib -= mib,
            _ => self.allocated_mib += mib,
        }
    }

    /// A pod that wants `mib` of a device fits: now, or when releasing pods have ended. A device that is
    /// releasing as a whole is a whole device becoming free, not one to join.
    #[inline]
    pub fn fits(&self, mib: i64, kind: GroupKind, gpus: &GpuFacts) -> bool {
        self.used_mib != 0
            && gpus.usable_mib(kind) - self.allocated_mib + self.releasing_mib - mib >= 0
            && self.allocated_mib != self.releasing_mib
            && self.kind == kind
    }

    /// A pod that wants `mib` of the device can start now. A device that only has nominated pods is still to be opened.
    #[inline]
    pub fn fits_now(&self, mib: i64, gpus: &GpuFacts) -> bool {
        self.allocated_mib > 0 && gpus.usable_mib(self.kind) - self.allocated_mib - mib >= 0
    }
}
