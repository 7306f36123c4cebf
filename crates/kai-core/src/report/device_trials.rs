//! What every device had left when a pod was tried, and which it got: facts for a log, noted only on request.

use crate::cycle::Cycle;
use crate::ids::{NodeId, TaskId};
use crate::input::{ObjectName, Text};
use crate::placement::node_set::NodeSet;
use crate::resources::GPU;
use crate::world::World;
use crate::world::node::{DeviceDemand, GroupKind, Node};
use crate::world::shape::GpuDemand;

/// A pod that asks for GPUs, as it was tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTrial {
    /// Pod that was tried.
    pub pod: ObjectName,
    /// Nodes with GPUs that were looked at, by name.
    pub nodes: Vec<NodeDevices>,
    /// What it got; none: nothing.
    pub choice: Option<DeviceChoice>,
}

/// The devices of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeDevices {
    /// Name of the node.
    pub node: Text,
    /// Number of devices without pods.
    pub idle: i64,
    /// Number of devices that are releasing, less those that nominated pods will take.
    pub releasing: i64,
    /// MiB that the pod wants of each device; none: whole devices.
    pub requested_mib: Option<i64>,
    /// Devices that are shared.
    pub devices: Vec<DeviceUsage>,
}

/// Memory of a shared device when a pod was tried on its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceUsage {
    /// GPU group of the device.
    pub device: Text,
    /// MiB of running, releasing and nominated pods.
    pub used_mib: i64,
    /// MiB of running and releasing pods; nominated pods are not counted.
    pub allocated_mib: i64,
    /// MiB of releasing pods, less those of nominated pods.
    pub releasing_mib: i64,
    /// Memory of the device that may be given to pods, in MiB.
    pub total_mib: i64,
    /// Whether the requested memory fits, now or when releasing pods have ended.
    pub fits: bool,
}

/// What a pod got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceChoice {
    /// Name of the node that was chosen.
    pub node: Text,
    /// GPU groups of its shared devices; empty for whole devices.
    pub devices: Vec<Text>,
}

impl NodeDevices {
    fn of(world: &World, task: TaskId, node: &Node) -> Self {
        let demand = node.demand(world.shape_of(task), world.config.compatibility);
        let (mib, kind) = match demand {
            DeviceDemand::Shared { mib, kind, .. } => (Some(mib), kind),
            DeviceDemand::Vector => (None, GroupKind::default()),
        };
        let devices =
            node.groups.iter().filter(|group| group.used_mib > 0).map(|group| DeviceUsage {
                device: world.group_name(group.id).clone(),
                used_mib: group.used_mib,
                allocated_mib: group.allocated_mib,
                releasing_mib: group.releasing_mib,
                total_mib: node.gpus.memory_mib,
                fits: mib.is_some_and(|mib| group.fits(mib, kind, &node.gpus)),
            });
        Self {
            node: node.name().clone(),
            idle: node.amounts.idle.get(GPU),
            releasing: node.amounts.releasing.get(GPU),
            requested_mib: mib,
            devices: devices.collect(),
        }
    }
}

impl Cycle<'_> {
    /// Notes what devices have left before a pod is tried on `nodes`.
    pub(crate) fn note_trial(&mut self, task: TaskId, nodes: &NodeSet) {
        let world = &*self.world;
        let asks = !matches!(world.shape_of(task).gpu, GpuDemand::None | GpuDemand::Mig { .. });
        if self.trials.is_none() || !asks {
            return;
        }
        let looked_at = nodes.iter(world.nodes_by_rank.len()).map(|rank| world.nodes_by_rank[rank]);
        let with_gpus =
            looked_at.map(|id| world.node(id)).filter(|node| node.allocatable.get(GPU) > 0);
        let nodes = with_gpus.map(|node| NodeDevices::of(world, task, node)).collect();
        let trial = DeviceTrial { pod: world.task(task).spec.name.clone(), nodes, choice: None };
        self.trials.get_or_insert_default().push(trial);
    }

    /// Notes what the pod that was tried last got.
    pub(crate) fn note_choice(&mut self, task: TaskId, node: NodeId) {
        let world = &*self.world;
        let entry = world.task(task);
        let groups = &entry.state.groups;
        let devices = groups.iter().map(|group| world.group_name(*group).clone()).collect();
        let choice = DeviceChoice { node: world.node(node).name().clone(), devices };
        let latest = self.trials.as_mut().and_then(|trials| trials.last_mut());
        if let Some(trial) = latest.filter(|trial| trial.pod == entry.spec.name) {
            trial.choice = Some(choice);
        }
    }
}
