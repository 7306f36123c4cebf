//! Shapes: what a pod asks for and where it may run, shared by all pods that ask the same. Questions about
//! placement are answered per shape, so that a thousand equal pods cost one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::define_id;
use crate::input::Text;
use crate::input::pod::{ComputeMode, GpuRequest, PodConstraints, PodRequest};
use crate::keyed_hash::KeyedMap;
use crate::resources::{CPU, GPU, MEMORY, PODS, ResourceNames, ResourceVector};

define_id!(
    /// A shape of pods.
    ShapeId
);

/// Fraction of one device, in (0, 1]. Compared bit by bit.
#[derive(Clone, Copy, Debug)]
pub struct Portion(pub f64);

impl PartialEq for Portion {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Portion {}

impl std::hash::Hash for Portion {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl Portion {
    /// Hundredths of a device, rounded as KAI rounds.
    pub fn centi(self) -> i64 {
        (self.0 * 100.0).round() as i64
    }
}

/// What a shape asks of GPUs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum GpuDemand {
    /// Nothing through the device plugin.
    None,
    /// Whole devices of one node.
    Whole {
        /// Number of devices, all of one node.
        count: i64,
    },
    /// A part of each of several devices.
    Portion {
        /// Fraction of each device.
        portion: Portion,
        /// Number of distinct devices, each of which must fit the portion.
        devices: i64,
    },
    /// Memory of each of several devices.
    Memory {
        /// MiB of one device.
        mib: i64,
        /// Number of distinct devices, each of which must fit the memory.
        devices: i64,
    },
    /// Instances of MIG profiles.
    Mig {
        /// Slot of each profile with the number of instances.
        instances: Vec<(usize, i64)>,
        /// Compute slices in all: what the request costs a queue.
        slices: i64,
    },
}

/// What all pods of a shape share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Amounts per slot; the GPU slot counts whole devices and claimed ones.
    pub request: ResourceVector,
    /// GPUs through the device plugin.
    pub gpu: GpuDemand,
    /// GPUs through resource claims.
    pub claimed_gpus: i64,
    /// Where it may run.
    pub constraints: Arc<PodConstraints>,
    /// Overhead within the request, for texts.
    pub overhead: ResourceVector,
    /// Asked for MIG by annotation: never placed.
    pub legacy_mig: bool,
    /// How it shares the processors of its devices.
    pub compute_mode: ComputeMode,
}

/// What a request costs a queue before a node is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCost {
    /// Processor time, in millicores.
    pub cpu_milli: i64,
    /// Amount of memory, in bytes.
    pub memory_bytes: i64,
    /// Hundredths of a GPU.
    pub gpu_centi: i64,
    /// MiB of GPU memory over all devices; converted with the memory of the cluster's GPUs.
    pub gpu_memory_mib: i64,
}

impl QueueCost {
    /// Adds `other` field by field, wrapping.
    pub fn add(&mut self, other: &Self) {
        self.cpu_milli = self.cpu_milli.wrapping_add(other.cpu_milli);
        self.memory_bytes = self.memory_bytes.wrapping_add(other.memory_bytes);
        self.gpu_centi = self.gpu_centi.wrapping_add(other.gpu_centi);
        self.gpu_memory_mib = self.gpu_memory_mib.wrapping_add(other.gpu_memory_mib);
    }

    /// Subtracts `other` field by field, wrapping: the exact inverse of [`Self::add`].
    pub fn sub(&mut self, other: &Self) {
        self.cpu_milli = self.cpu_milli.wrapping_sub(other.cpu_milli);
        self.memory_bytes = self.memory_bytes.wrapping_sub(other.memory_bytes);
        self.gpu_centi = self.gpu_centi.wrapping_sub(other.gpu_centi);
        self.gpu_memory_mib = self.gpu_memory_mib.wrapping_sub(other.gpu_memory_mib);
    }
}

impl Shape {
    /// The shape of a pod that asks for this, with `claimed_gpus` through claims.
    pub fn new(
        request: &PodRequest,
        claimed_gpus: i64,
        constraints: &Arc<PodConstraints>,
        names: &mut ResourceNames,
    ) -> Self {
        let mut vector = ResourceVector::zero();
        vector.set(CPU, request.cpu_milli);
        vector.set(MEMORY, request.memory_bytes);
        vector.set(PODS, 1);
        for (name, amount) in &request.other {
            let slot = names.slot(name);
            vector.add_at(slot, *amount);
        }
        let gpu = match &request.gpu {
            GpuRequest::None | GpuRequest::Whole { count: 0 } => GpuDemand::None,
            GpuRequest::Whole { count } => GpuDemand::Whole { count: *count },
            GpuRequest::Fraction { portion, devices } => {
                GpuDemand::Portion { portion: Portion(*portion), devices: *devices }
            }
            GpuRequest::Memory { mib, devices } => {
                GpuDemand::Memory { mib: *mib, devices: *devices }
            }
            GpuRequest::Mig(instances) => mig_demand(instances, &mut vector, names),
        };
        let whole = if let GpuDemand::Whole { count } = gpu { count } else { 0 };
        vector.set(GPU, whole + claimed_gpus);
        let mut overhead = ResourceVector::zero();
        for (name, amount) in &request.overhead {
            overhead.add_at(names.slot(name), *amount);
        }
        Self {
            request: vector,
            gpu,
            claimed_gpus,
            constraints: Arc::clone(constraints),
            overhead,
            legacy_mig: request.legacy_mig,
            compute_mode: request.compute_mode,
        }
    }

    /// Requests GPU fractions or GPU memory of shared devices.
    pub fn is_shared(&self) -> bool {
        matches!(self.gpu, GpuDemand::Portion { .. } | GpuDemand::Memory { .. })
    }

    /// Asks for MIG instances.
    pub fn is_mig(&self) -> bool {
        matches!(self.gpu, GpuDemand::Mig { .. })
    }

    /// Asks for no GPU in any way.
    pub fn is_cpu_only(&self) -> bool {
        self.gpu == GpuDemand::None && self.claimed_gpus == 0
    }

    /// Devices a shared request wants.
    pub fn shared_devices(&self) -> i64 {
        match self.gpu {
            GpuDemand::Portion { devices, .. } | GpuDemand::Memory { devices, .. } => devices,
            GpuDemand::None | GpuDemand::Whole { .. } | GpuDemand::Mig { .. } => 0,
        }
    }

    /// Hundredths of devices asked for through the device plugin as devices or parts of them.
    pub fn device_centi(&self) -> i64 {
        match self.gpu {
            GpuDemand::Whole { count } => count * 100,
            GpuDemand::Portion { portion, devices } => portion.centi() * devices,
            GpuDemand::None | GpuDemand::Memory { .. } | GpuDemand::Mig { .. } => 0,
        }
    }

    /// Hundredths of GPUs the request counts as: devices, parts, MIG slices and claims. Memory counts nothing.
    pub fn quota_centi(&self) -> i64 {
        let slices = if let GpuDemand::Mig { slices, .. } = self.gpu { slices } else { 0 };
        self.device_centi()
            .saturating_add(slices.saturating_add(self.claimed_gpus).saturating_mul(100))
    }

    /// What the request costs a queue before a node is known.
    pub fn queue_cost(&self) -> QueueCost {
        let gpu_memory_mib =
            if let GpuDemand::Memory { mib, devices } = self.gpu { mib * devices } else { 0 };
        QueueCost {
            cpu_milli: self.request.get(CPU),
            memory_bytes: self.request.get(MEMORY),
            gpu_centi: self.quota_centi(),
            gpu_memory_mib,
        }
    }
}

fn mig_demand(
    instances: &[(crate::input::Text, i64)],
    vector: &mut ResourceVector,
    names: &mut ResourceNames,
) -> GpuDemand {
    let mut slots = Vec::with_capacity(instances.len());
    let mut slices = 0;
    for (name, count) in instances {
        let slot = names.slot(name);
        vector.add_at(slot, *count);
        slots.push((slot, *count));
        slices += mig_slices(name).unwrap_or(0) * count;
    }
    GpuDemand::Mig { instances: slots, slices }
}

/// The largest number that a MIG profile is believed to have.
const MOST_OF_A_PROFILE: i64 = 10_000;

/// Compute slices of a MIG profile: `nvidia.com/mig-<g>g.<m>gb` gives g. Profiles with a suffix
/// (`.me`) have the slices their name says.
pub fn mig_slices(resource: &str) -> Option<i64> {
    mig_profile(resource).map(|(slices, _)| slices)
}

/// GB of a MIG profile.
pub fn mig_gigabytes(resource: &str) -> Option<i64> {
    mig_profile(resource).map(|(_, gigabytes)| gigabytes)
}

fn mig_profile(resource: &str) -> Option<(i64, i64)> {
    let profile = resource.strip_prefix("nvidia.com/mig-")?;
    let (slices, rest) = profile.split_once("g.")?;
    let number = |text: &str| -> Option<i64> {
        text.parse().ok().filter(|number| (0..=MOST_OF_A_PROFILE).contains(number))
    };
    Some((number(slices)?, number(rest.split_once("gb")?.0)?))
}

/// All shapes met so far.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    /// Some shape has required anti-affinity to other pods.
    some_repel: bool,
    /// Config maps without which pods of some shape are not placed.
    config_maps: BTreeSet<Text>,
    met: Vec<Shape>,
    ids: KeyedMap<Shape, ShapeId>,
}

impl Shapes {
    /// The id of `shape`, given now if it is new.
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        if let Some(id) = self.ids.get(&shape) {
            return *id;
        }
        let id = ShapeId::new(self.met.len());
        self.some_repel |= !shape.constraints.pod_anti_affinity.is_empty();
        self.config_maps.extend(shape.constraints.config_maps.iter().cloned());
        self.ids.insert(shape.clone(), id);
        self.met.push(shape);
        id
    }

    /// Some shape has required anti-affinity to other pods.
    pub fn some_repel(&self) -> bool {
        self.some_repel
    }

    /// Pods of some shape are not placed without a config map of this name.
    pub(crate) fn some_require_config_map(&self, name: &Text) -> bool {
        self.config_maps.contains(name)
    }

    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.met.len()
    }

    /// True before the first pod.
    pub fn is_empty(&self) -> bool {
        self.met.is_empty()
    }
}

impl std::ops::Index<ShapeId> for Shapes {
    type Output = Shape;

    fn index(&self, id: ShapeId) -> &Shape {
        &self.met[id.index()]
    }
}
