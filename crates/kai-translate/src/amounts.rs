//! Amounts of resources in the planner's units.

use std::collections::BTreeMap;
use std::fmt::Display;

use kai_api::names::{gpu, resources};
use kai_api::quantity::RawQuantity;
use kai_core::input::Text;

use crate::problem::Complaints;

/// A list of resources as it stands in an object.
pub(crate) type ResourceList = BTreeMap<String, RawQuantity>;

/// Amounts by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// Millicores.
    pub(crate) cpu_milli: i64,
    pub(crate) memory_bytes: i64,
    /// Pod slots.
    pub(crate) pods: i64,
    /// Whole devices of every vendor.
    pub(crate) gpus: i64,
    /// MIG profiles.
    pub(crate) mig: BTreeMap<Text, i64>,
    /// Everything else; extended resources in thousandths.
    pub(crate) other: BTreeMap<Text, i64>,
}

impl Amounts {
    /// Reads a list; an amount that cannot be read is left out and complained about. The path of the list is written only then.
    pub(crate) fn read(
        list: &ResourceList,
        path: impl Display,
        complaints: &mut Complaints,
    ) -> Self {
        let mut amounts = Self::default();
        for (name, raw) in list {
            let field = || format!("{path}[{name}]");
            let read = raw.parse().map_err(|error| format!("{error}, is {:?}", raw.0));
            let Some(quantity) = complaints.check(field, read) else { continue };
            match name.as_str() {
                resources::CPU => amounts.cpu_milli = quantity.milli(),
                resources::MEMORY => amounts.memory_bytes = quantity.value(),
                resources::PODS => amounts.pods = quantity.value(),
                gpu::NVIDIA | gpu::AMD => {
                    amounts.gpus = amounts.gpus.saturating_add(quantity.value());
                }
                mig if mig.starts_with(gpu::MIG_PREFIX) => {
                    amounts.mig.insert(mig.into(), quantity.value());
                }
                resources::EPHEMERAL_STORAGE | "storage" => {
                    amounts.other.insert(name.as_str().into(), quantity.value());
                }
                scalar if is_scalar(scalar) => {
                    amounts.other.insert(scalar.into(), quantity.milli());
                }
                _ => {}
            }
        }
        amounts
    }

    /// Adds `other` to this.
    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    /// Takes the larger of each.
    pub(crate) fn raise_to(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, rule: impl Fn(i64, i64) -> i64) {
        self.cpu_milli = rule(self.cpu_milli, other.cpu_milli);
        self.memory_bytes = rule(self.memory_bytes, other.memory_bytes);
        self.pods = rule(self.pods, other.pods);
        self.gpus = rule(self.gpus, other.gpus);
        for (mine, theirs) in [(&mut self.mig, &other.mig), (&mut self.other, &other.other)] {
            for (name, amount) in theirs {
                let entry = mine.entry(name.clone()).or_default();
                *entry = rule(*entry, *amount);
            }
        }
    }
}

/// Extended resources, huge pages, attachable volumes, and native resources with a prefix.
fn is_scalar(name: &str) -> bool {
    name.contains('/')
        || name.starts_with(resources::HUGE_PAGES_PREFIX)
        || name.starts_with(resources::ATTACHABLE_VOLUMES_PREFIX)
}
