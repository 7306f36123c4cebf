//! What a node's GPUs really are: how many physical devices, how much memory each. Advertised devices may be
//! replicas of fewer physical ones; everything is accounted on physical devices.

use crate::compatibility::Compatibility;
use crate::input::NodeSpec;
use crate::input::node::WholeGpuPolicy;
use crate::world::node::GroupKind;
use crate::world::validate::MOST_DEVICE_MIB;

/// Overrides the number of physical devices, as annotation or label.
pub const GPU_COUNT_OVERRIDE: &str = "kai.scheduler/gpu-count";
/// Overrides the memory of each device in MiB, as annotation or label.
pub const GPU_MEMORY_OVERRIDE: &str = "kai.scheduler/gpu-memory-mib";
/// Overrides what of the memory of each device is never given out in MiB, as annotation or label; 0 is a value too.
pub const GPU_RESERVE_OVERRIDE: &str = "kai.scheduler/gpu-memory-reserve-mib";
const GPU_COUNT: &str = "nvidia.com/gpu.count";
const GPU_MEMORY: &str = "nvidia.com/gpu.memory";
const GPU_REPLICAS: &str = "nvidia.com/gpu.replicas";
pub(crate) const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
const GPU_SHARING: &str = "nvidia.com/gpu.sharing-strategy";

/// Memory in MiB of a device of unknown size: a fraction is rounded to hundredths.
pub const UNKNOWN_GPU_MEMORY_MIB: i64 = 100;
const SMALLEST_VALUE_IN_BYTES: i64 = 1 << 20;

/// Precision of fractions: billionths of a device.
const NANO: i64 = 1_000_000_000;

/// MiB of a device of `total_mib` that a fraction in (0, 1] amounts to, for everything that counts GPU memory. The product is
/// exact in billionths and rounded down once. A share of nothing would not show in the accounts of its device, so it is
/// never less than 1 MiB.
pub fn fraction_mib(portion: f64, total_mib: i64) -> i64 {
    let nano = (portion * NANO as f64 + 0.5) as i64;
    (nano.saturating_mul(total_mib) / NANO).max(1)
}

/// Facts about the GPUs of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuFacts {
    /// Devices the device plugin advertises.
    pub advertised: i64,
    /// Devices that exist; what is accounted.
    pub physical: i64,
    /// MiB of each device that may be given away.
    pub memory_mib: i64,
    /// False when no source reports the memory.
    pub memory_known: bool,
    /// Why shared placement is impossible here.
    pub sharing: Sharing,
    /// What a whole GPU means here. `Replica` only on time-sliced nodes.
    pub whole_gpu_policy: WholeGpuPolicy,
}

/// Whether devices can be shared by parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Pods can have fractions or memory of a device.
    Possible,
    /// The node is time-sliced and nothing reports how many physical devices it has.
    UnknownDeviceCount,
}

impl GpuFacts {
    /// Reads the facts off a node.
    pub fn of(
        node: &NodeSpec,
        compatibility: Compatibility,
        cluster_policy: WholeGpuPolicy,
        reserve_mib: i64,
    ) -> Self {
        let advertised = node.allocatable.gpus.max(0);
        let (physical, sharing) = physical_devices(node, advertised);
        let (memory_mib, memory_known) = device_memory(node, compatibility, reserve_mib);
        let sliced = physical > 0 && advertised > physical;
        let policy = if sliced {
            node.whole_gpu_policy.unwrap_or(cluster_policy)
        } else {
            WholeGpuPolicy::Physical
        };
        Self { advertised, physical, memory_mib, memory_known, sharing, whole_gpu_policy: policy }
    }

    /// True when the device plugin advertises more devices than exist.
    pub fn is_time_sliced(&self) -> bool {
        self.advertised > self.physical
    }

    /// Replicas of each device.
    pub fn replicas(&self) -> i64 {
        if self.physical > 0 { (self.advertised / self.physical).max(1) } else { 1 }
    }

    /// MiB that one replica of a device is charged.
    pub fn replica_mib(&self) -> i64 {
        (self.memory_mib / self.replicas()).max(1)
    }

    /// MiB of a device that may be given away: of one that holds replicas no more than its replicas are charged, for
    /// the device plugin has no more of them.
    #[inline]
    pub fn usable_mib(&self, kind: GroupKind) -> i64 {
        if kind == GroupKind::Replicas {
            self.memory_mib.min(self.replica_mib() * self.replicas())
        } else {
            self.memory_mib
        }
    }

    /// Hundredths of a device that `mib` of memory count as, rounded up as KAI rounds. Of a device that has no
    /// memory to give, by its label or for the reserve, anything is all of it.
    pub fn centi_of_memory(&self, mib: i64) -> i64 {
        if self.memory_mib <= 0 {
            return if mib > 0 { 100 } else { 0 };
        }
        (mib as f64 / self.memory_mib as f64 * 100.0).ceil() as i64
    }
}

/// Override, label, advertised ÷ replicas, what was counted, UUIDs observed, advertised; never more than advertised.
fn physical_devices(node: &NodeSpec, advertised: i64) -> (i64, Sharing) {
    let stated = positive_override(node, GPU_COUNT_OVERRIDE).or_else(|| label(node, GPU_COUNT));
    if let Some(count) = stated {
        return (count.min(advertised), Sharing::Possible);
    }
    let replicas = label(node, GPU_REPLICAS).unwrap_or(1);
    if replicas > 1 && advertised % replicas == 0 {
        return (advertised / replicas, Sharing::Possible);
    }
    let uuids = node.observed_gpu_uuids.len() as i64;
    let observed = node.observed_gpus.count.unwrap_or(uuids);
    if observed > 0 {
        return (observed.min(advertised), Sharing::Possible);
    }
    let shared_product =
        node.labels.get(GPU_PRODUCT).is_some_and(|product| product.ends_with("-SHARED"));
    let shared_strategy =
        node.labels.get(GPU_SHARING).is_some_and(|strategy| !matches!(&**strategy, "" | "none"));
    let unknown = advertised > 0 && (shared_product || shared_strategy || replicas > 1);
    (advertised, if unknown { Sharing::UnknownDeviceCount } else { Sharing::Possible })
}

fn device_memory(node: &NodeSpec, compatibility: Compatibility, reserve_mib: i64) -> (i64, bool) {
    let stated = positive_override(node, GPU_MEMORY_OVERRIDE)
        .or_else(|| label(node, GPU_MEMORY))
        .or_else(|| node.observed_gpus.memory_mib.filter(|mib| *mib > 0));
    let readable = stated.filter(|value| *value / SMALLEST_VALUE_IN_BYTES <= MOST_DEVICE_MIB);
    let Some(value) = readable else {
        return (UNKNOWN_GPU_MEMORY_MIB, node.gpu_memory_known.unwrap_or(false));
    };
    let mib =
        if value >= SMALLEST_VALUE_IN_BYTES { value / SMALLEST_VALUE_IN_BYTES } else { value };
    let mib = if compatibility.is_kai() { mib - mib % 100 } else { mib };
    let reserve_mib = if compatibility.is_kai() {
        reserve_mib
    } else {
        stated_reserve(node).or(node.observed_gpus.reserve_mib).unwrap_or(reserve_mib)
    };
    ((mib - reserve_mib).max(0), node.gpu_memory_known.unwrap_or(true))
}

/// What is said on the node; a text that is negative or no number counts as missing.
fn stated_reserve(node: &NodeSpec) -> Option<i64> {
    let annotation = node.annotations.get(GPU_RESERVE_OVERRIDE);
    let text = annotation.or_else(|| node.labels.get(GPU_RESERVE_OVERRIDE))?;
    text.parse().ok().filter(|mib| *mib >= 0)
}

fn positive_override(node: &NodeSpec, key: &str) -> Option<i64> {
    positive(node.annotations.get(key).or_else(|| node.labels.get(key)))
}

fn label(node: &NodeSpec, key: &str) -> Option<i64> {
    positive(node.labels.get(key))
}

/// A label that is zero, negative or no number counts as missing.
fn positive(value: Option<&crate::input::Text>) -> Option<i64> {
    value.and_then(|text| text.parse::<i64>().ok()).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_rounded_down_from_the_decimal_number() {
        for (portion, total_mib, mib) in [
            (0.29, 100, 29),
            (0.07, 100, 7),
            (0.57, 100, 57),
            (0.5, 81_559, 40_779),
            (0.333_333_333, 81_920, 27_306),
            (0.999_999_999, 81_920, 81_919),
            (1.0, 81_920, 81_920),
            (0.001, 100, 1),
            (0.7, MOST_DEVICE_MIB, 751_619_276),
            (1.0, i64::MAX, i64::MAX / NANO),
        ] {
            assert_eq!(fraction_mib(portion, total_mib), mib, "{portion} of {total_mib}");
        }
    }

    #[test]
    fn hundredths_that_add_up_to_a_device_fill_it_exactly() {
        for total_mib in [100, 16_384, 24_564, 32_600, 46_068, 81_559, 81_920, 143_771] {
            for percent in 1..100 {
                let portion = f64::from(percent) / 100.0;
                let exact = i64::from(percent) * total_mib / 100;
                assert_eq!(
                    fraction_mib(portion, total_mib),
                    exact.max(1),
                    "{portion} of {total_mib}"
                );
            }
        }
    }
}
