//! The zones of one node: what they have, what is free, and how many zones an amount needs at least.

use std::sync::Arc;

use crate::input::node::{NumaPolicy, NumaScope};
use crate::input::{NumaSpec, Text};
use crate::resources::{GPU, ResourceNames, ResourceVector};

/// Names under which zones report GPUs.
const GPU_RESOURCES: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];

/// Zones of one node.
#[derive(Clone, PartialEq, Debug)]
pub struct NumaState {
    pub(super) policy: NumaPolicy,
    pub(super) scope: NumaScope,
    /// Ids of the zones.
    pub(super) ids: Vec<Text>,
    /// Resources that some zone reports, with the name it uses.
    pub(super) reported: Vec<(usize, Text)>,
    allocatable: ZoneAmounts,
    reported_available: ZoneAmounts,
    available: ZoneAmounts,
    /// For each reported resource the most that one, two, … zones have together.
    most_of: Vec<Vec<i64>>,
}

/// Free amounts per zone.
pub type ZoneAmounts = Vec<ResourceVector>;

/// Where a pod's aligned amounts come from: per zone index. Every pod has one, and few are aligned: those that are not take no
/// memory for it, and copies of a placement share it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZonePlacement {
    zones: Option<Arc<Vec<(usize, ResourceVector)>>>,
}

impl ZonePlacement {
    /// `(zone index, amounts)`, zones ascending; empty for a pod that is not aligned.
    pub fn zones(&self) -> &[(usize, ResourceVector)] {
        self.zones.as_ref().map_or(&[], |zones| &zones[..])
    }

    /// Adds to what is taken of one zone.
    pub(super) fn add(&mut self, zone: usize, slot: usize, amount: i64) {
        let zones = Arc::make_mut(self.zones.get_or_insert_default());
        let at = zones.partition_point(|(other, _)| *other < zone);
        if zones.get(at).is_none_or(|(other, _)| *other != zone) {
            zones.insert(at, (zone, ResourceVector::zero()));
        }
        zones[at].1.add_at(slot, amount);
    }
}

/// The slot of a resource that zones and containers name; GPUs of all makers have one.
pub(super) fn slot_of(name: &str, names: &ResourceNames) -> Option<usize> {
    if GPU_RESOURCES.contains(&name) { Some(GPU) } else { names.find(name) }
}

impl NumaState {
    /// The zones as reported.
    pub fn new(spec: &NumaSpec, names: &mut ResourceNames) -> Self {
        let mut reported: Vec<(usize, Text)> = Vec::new();
        let mut vector = |amounts: &[(Text, i64)]| {
            let mut vector = ResourceVector::zero();
            for (name, amount) in amounts {
                let slot = slot_of(name, names).unwrap_or_else(|| names.slot(name));
                vector.add_at(slot, *amount);
                if !reported.iter().any(|(known, _)| *known == slot) {
                    reported.push((slot, name.clone()));
                }
            }
            vector
        };
        let allocatable: ZoneAmounts =
            spec.zones.iter().map(|zone| vector(&zone.allocatable)).collect();
        let available: ZoneAmounts =
            spec.zones.iter().map(|zone| vector(&zone.available)).collect();
        let most_of = reported.iter().map(|(slot, _)| most_together(&allocatable, *slot)).collect();
        Self {
            policy: spec.policy,
            scope: spec.scope,
            ids: spec.zones.iter().map(|zone| zone.id.clone()).collect(),
            reported,
            allocatable,
            reported_available: available.clone(),
            available,
            most_of,
        }
    }

    /// How many zones there are.
    pub fn zone_count(&self) -> usize {
        self.ids.len()
    }

    /// Free amounts per zone.
    pub fn available(&self) -> &ZoneAmounts {
        &self.available
    }

    /// How many zones are needed at least for an amount; none: all together have less.
    pub(super) fn least_zones(&self, slot: usize, amount: i64) -> Option<usize> {
        let at = self.reported.iter().position(|(reported, _)| *reported == slot)?;
        self.most_of[at].iter().position(|most| *most >= amount).map(|position| position + 1)
    }

    /// Without pods on the node all that zones have is free, or what they reported as free.
    pub(super) fn reset(&mut self, reconstruct: bool) {
        let source = if reconstruct { &self.allocatable } else { &self.reported_available };
        self.available.clone_from(source);
    }

    pub(super) fn draw(&mut self, placement: &ZonePlacement) {
        for (zone, amounts) in placement.zones() {
            if let Some(available) = self.available.get_mut(*zone) {
                available.sub(amounts);
            }
        }
    }

    pub(super) fn give_back(&mut self, placement: &ZonePlacement) {
        for (zone, amounts) in placement.zones() {
            if let Some(available) = self.available.get_mut(*zone) {
                available.add(amounts);
            }
        }
    }

    pub(crate) fn restore(&mut self, available: ZoneAmounts) {
        self.available = available;
    }
}

fn most_together(zones: &ZoneAmounts, slot: usize) -> Vec<i64> {
    let mut amounts: Vec<i64> = zones.iter().map(|zone| zone.get(slot)).collect();
    amounts.sort_by(|left, right| right.cmp(left));
    let mut sum = 0_i64;
    for amount in &mut amounts {
        sum = sum.saturating_add(*amount);
        *amount = sum;
    }
    amounts
}
