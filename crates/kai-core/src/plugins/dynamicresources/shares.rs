//! Capacities of devices. Rule: a request may ask for amounts of a device's capacities. A device that is given whole
//! must have them. A device that may be shared gives what is asked for, rounded up as its policy says, and the default
//! or all of a capacity that is not asked for.

use crate::input::devices::{
    CapacityPolicy, CapacityRange, DeviceCapacity, DeviceRef, DeviceShare, DeviceSpec, NamedAmounts,
};
use crate::input::{SliceSpec, Text};

/// What a request that asks for `asked` takes of the capacities of a device: nothing of one that it gets whole; none
/// where the device cannot serve it.
pub(super) fn consumption(
    asked: &NamedAmounts,
    slice: &SliceSpec,
    device: &DeviceSpec,
) -> Option<NamedAmounts> {
    if asked.keys().any(|name| capacity_named(name, slice, device).is_none()) {
        return None;
    }
    let mut consumed = NamedAmounts::new();
    for (name, capacity) in &device.capacity {
        let wanted = asked.iter().find(|(asked, _)| is_same_name(asked, name, slice));
        let wanted = wanted.map(|(_, amount)| *amount);
        if !device.is_shareable {
            if wanted.is_some_and(|wanted| wanted > capacity.value) {
                return None;
            }
            continue;
        }
        let amount = capacity.share(wanted).filter(|amount| *amount <= capacity.value)?;
        consumed.insert(name.clone(), amount);
    }
    Some(consumed)
}

fn capacity_named<'a>(
    name: &Text,
    slice: &SliceSpec,
    device: &'a DeviceSpec,
) -> Option<&'a DeviceCapacity> {
    let found = device.capacity.iter().find(|(known, _)| is_same_name(name, known, slice));
    found.map(|(_, capacity)| capacity)
}

/// A name without a domain is the driver's.
fn is_same_name(left: &str, right: &str, slice: &SliceSpec) -> bool {
    let qualified = |name: &str| {
        let (domain, name) = name.split_once('/').unwrap_or((&slice.driver, name));
        (domain.to_owned(), name.to_owned())
    };
    left == right || qualified(left) == qualified(right)
}

/// Shares of a device without a smallest share that count as GPUs of its node: as many as a GPU has hundredths.
const UNBOUNDED_SHARES: i64 = 100;

/// How many claims can have shares of a device at once, by the smallest shares that its policies allow. Where no policy
/// bounds them, only the capacity of the device does.
pub(super) fn most_shares(device: &DeviceSpec) -> i64 {
    if !device.is_shareable {
        return 1;
    }
    let shares = device.capacity.values().filter_map(|capacity| {
        let smallest = capacity.policy.as_ref()?.smallest()?;
        (smallest > 0).then(|| capacity.value / smallest)
    });
    shares.min().unwrap_or(UNBOUNDED_SHARES).max(1)
}

impl DeviceCapacity {
    /// The share that `wanted` stands for; none where the policy has none so large.
    fn share(&self, wanted: Option<i64>) -> Option<i64> {
        let Some(wanted) = wanted else {
            let default = self.policy.as_ref().and_then(|policy| policy.default);
            return Some(default.unwrap_or(self.value));
        };
        match &self.policy {
            None => Some(wanted),
            Some(policy) => policy.round_up(wanted),
        }
    }
}

impl CapacityPolicy {
    fn smallest(&self) -> Option<i64> {
        self.valid_values.first().copied().or(self.valid_range.map(|range| range.min))
    }

    fn round_up(&self, wanted: i64) -> Option<i64> {
        if !self.valid_values.is_empty() {
            return self.valid_values.iter().copied().find(|value| *value >= wanted);
        }
        match self.valid_range {
            None => Some(wanted),
            Some(range) => range.round_up(wanted),
        }
    }
}

impl CapacityRange {
    fn round_up(self, wanted: i64) -> Option<i64> {
        let above = wanted.saturating_sub(self.min).max(0);
        let above = match self.step.filter(|step| *step > 0) {
            None => above,
            Some(step) => (above / step + i64::from(above % step > 0)).saturating_mul(step),
        };
        let rounded = self.min.saturating_add(above);
        self.max.is_none_or(|max| rounded <= max).then_some(rounded)
    }
}

/// The share of a request of `claim` of a device. Its id depends on the names alone, so that equal worlds give equal
/// plans.
pub(super) fn share(
    claim: &str,
    request: &str,
    device: &DeviceRef,
    consumed: NamedAmounts,
) -> DeviceShare {
    let names = [claim, request, &*device.driver, &*device.pool, &*device.device];
    DeviceShare { id: uuid_of(&names).into(), consumed }
}

/// A UUID of version 8 made of a 128-bit FNV-1a hash of the names.
fn uuid_of(names: &[&str]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in names.iter().flat_map(|name| name.bytes().chain([0])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    }
    let hash = hash & !(0xf << 76) & !(0x3 << 62) | (0x8 << 76) | (0x2 << 62);
    let text = format!("{hash:032x}");
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up_as_the_policy_says() {
        let range = |max, step| CapacityPolicy {
            valid_range: Some(CapacityRange { min: 10, max, step }),
            ..CapacityPolicy::default()
        };
        let values = CapacityPolicy { valid_values: vec![10, 20, 40], ..CapacityPolicy::default() };
        assert_eq!(range(None, None).round_up(3), Some(10));
        assert_eq!(range(None, Some(5)).round_up(16), Some(20));
        assert_eq!(range(Some(19), Some(5)).round_up(16), None);
        assert_eq!(values.round_up(11), Some(20));
        assert_eq!(values.round_up(41), None);
    }

    #[test]
    fn share_ids_are_uuids_that_differ_by_claim() {
        let device = DeviceRef { driver: "d".into(), pool: "p".into(), device: "0".into() };
        let id = |claim| share(claim, "r", &device, NamedAmounts::new()).id.to_string();
        assert_eq!(id("ns/a").len(), 36);
        assert_eq!(&id("ns/a")[14..15], "8");
        assert!("89ab".contains(&id("ns/a")[19..20]));
        assert_ne!(id("ns/a"), id("ns/b"));
    }
}
