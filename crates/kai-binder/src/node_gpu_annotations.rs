//! Annotations and conditions of nodes: which pod has how much of which device, what reservation pods are given there, and whether the
//! node's GPUs are understood. Written when it differs from what the node shows: a second after the first change, so that
//! the pods of one burst are written at once, and every ten seconds at most.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::node as names;
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_core::world::gpu_facts::GpuFacts;
use kai_translate::time::seconds;
use serde::{Deserialize, Serialize};

use super::conditions::{self, NodeCondition};
use super::facts::{Facts, Life, NodeFacts};
use super::writes::Order;
use super::{Binder, Item, delay};
use kai_client::failure::Failure;

/// A node is written at most this often.
const PAUSE: Span = seconds(10);
/// Changes of a node are gathered for this time.
const GATHER: Span = seconds(1);

/// What is remembered of what is written on a node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeUpdateState {
    busy: bool,
    not_before: Option<Timestamp>,
    failures: u32,
}

/// What is to be written on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeUpdate {
    /// Annotations that are set, or removed.
    pub(super) annotations: BTreeMap<&'static str, Option<String>>,
    pub(super) conditions: Vec<NodeCondition>,
}

/// A device that is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedDevice {
    /// Memory of the device in MiB.
    pub total_mib: i64,
    /// MiB of each pod on it.
    pub pods: BTreeMap<String, i64>,
}

impl Facts {
    /// The shared devices of a node by UUID.
    pub(super) fn shares(&self, node: &Text, gpus: &GpuFacts) -> BTreeMap<String, SharedDevice> {
        let reserved = self.devices_of_node(node).filter_map(|key| {
            let (_, one) = self.reservation(key)?;
            one.device.clone()
        });
        let devices: BTreeSet<Text> = reserved.collect();
        let total_mib = gpus.memory_mib;
        let shared = |device: Text| {
            let tenants = self.tenants(node, &device, total_mib);
            let pods = tenants.into_iter().map(|(name, mib)| (name.to_string(), mib)).collect();
            (device.to_string(), SharedDevice { total_mib, pods })
        };
        devices.into_iter().map(shared).collect()
    }
}

impl Binder {
    pub(super) fn look_at_node(&mut self, name: &Text, now: Timestamp) {
        if self.facts.node(name).is_none() {
            self.node_updates.remove(name);
            self.nvml_fallbacks.remove(name);
        }
        if self.nvml_fallbacks.contains_key(name) {
            self.fallbacks_of(name); // the node may be another one now
        }
        self.refresh_limits(name, now);
        self.compare_measured_memory(name, now);
        let Some(update) = self.node_update(name) else { return };
        let memory = self.node_updates.entry(name.clone()).or_default();
        if memory.busy {
            return;
        }
        let due = *memory.not_before.get_or_insert(now.plus(GATHER));
        if now < due {
            self.look_again_at(due, Item::Node(name.clone()));
            return;
        }
        memory.busy = true;
        self.orders.push(Order::UpdateNode { node: name.clone(), update, now });
    }

    /// What is to be written on the node; none: nothing.
    fn node_update(&self, name: &Text) -> Option<NodeUpdate> {
        let node = self.facts.node(name)?;
        let gpus = self.facts.gpus(name)?;
        let shares = self.facts.shares(name, &gpus);
        let shares = (!shares.is_empty()).then(|| serde_json::to_string(&shares).ok()).flatten();
        let shown = &node.view.metadata.annotations;
        let mut wanted = BTreeMap::new();
        let known = shown.get(names::GPU_SHARES);
        if shares.is_some() || known.is_some_and(|known| self.is_stale(name, known)) {
            wanted.insert(names::GPU_SHARES, shares);
        }
        let (fallbacks, allowed) = (self.nvml_fallbacks.get(name), self.allowed_rungs(node));
        if let Some(fallbacks) = fallbacks {
            wanted.insert(names::LADDER, Some(fallbacks.write(&allowed.rungs)));
        }
        if let Some(mib) = self.facts.reserved.probed(name).reserve_mib {
            wanted.insert(names::MEASURED_RESERVE_MIB, Some(mib.to_string()));
        }
        wanted.retain(|key, value| shown.get(*key) != value.as_ref());
        let conditions = conditions::changed(node, &gpus, fallbacks, allowed.runtime);
        let update = NodeUpdate { annotations: wanted, conditions };
        (update != NodeUpdate::default()).then_some(update)
    }

    /// None of the pods that the annotation names is on the node: it is not that of another binder.
    fn is_stale(&self, node: &Text, annotation: &str) -> bool {
        let devices: BTreeMap<String, SharedDevice> =
            serde_json::from_str(annotation).unwrap_or_default();
        let mut pods = devices.values().flat_map(|device| device.pods.keys());
        !pods.any(|pod| {
            let name =
                pod.split_once('/').map(|(namespace, name)| ObjectName::new(namespace, name));
            let known = name.and_then(|name| self.facts.pod(&name));
            known.is_some_and(|pod| pod.node.as_ref() == Some(node) && pod.life != Life::Ended)
        })
    }

    pub(super) fn node_updated(&mut self, name: &Text, ended: Result<(), Failure>, now: Timestamp) {
        let Some(memory) = self.node_updates.get_mut(name) else { return };
        memory.busy = false;
        memory.not_before = Some(now.plus(PAUSE));
        memory.failures = 0;
        if let Err(failure) = ended {
            memory.failures += 1;
            memory.not_before = Some(now.plus(PAUSE).plus(delay(memory.failures)));
            tracing::warn!(node = %name, reason = %failure, "what is known of a node's GPUs was not written on it");
        }
        self.due.insert(Item::Node(name.clone()));
    }

    /// Config maps of the node name devices in the notation of CDI.
    pub(super) fn uses_cdi(&self, node: &NodeFacts) -> bool {
        super::cdi::is_on(&node.view, self.settings.cdi, &self.facts.policies)
    }
}
