//! How many scaling pods are needed, and on whose behalf. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::defaults::SCALE_ADJUST_PARTS;
use kai_core::input::pod::{GpuRequest, Toleration};
use kai_core::input::selectors::NodeTerm;
use kai_core::input::{ObjectName, Text};
use kai_core::time::Timestamp;

/// Pods that may go to the same nodes: only they can share what a scaling pod brings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) pool: Option<String>,
    pub(super) node_selector: Vec<(Text, Text)>,
    pub(super) node_terms: Vec<NodeTerm>,
    pub(super) tolerations: Vec<Toleration>,
}

/// A pod that shares devices and finds none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) pod: &'a ObjectName,
    pub(super) class: &'a Class,
    /// Hundredths of devices in all.
    pub(super) parts: i64,
    /// Number of devices that the pod shares.
    pub(super) devices: i64,
    /// Since when it has found none.
    pub(super) since: Timestamp,
}

/// A scaling pod that is there or on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestedDevices<'a> {
    pub(super) class: &'a Class,
    pub(super) devices: i64,
}

/// What a pod asks of shared devices: hundredths in all, and on how many of them; none where it shares none.
pub(super) fn parts(request: &GpuRequest, memory_ratio: f64) -> Option<(i64, i64)> {
    let (portion, devices) = match request {
        GpuRequest::Fraction { portion, devices } => (*portion, *devices),
        GpuRequest::Memory { devices, .. } => (memory_ratio, *devices),
        GpuRequest::None | GpuRequest::Whole { .. } | GpuRequest::Mig(_) => return None,
    };
    let of_each = (portion * SCALE_ADJUST_PARTS as f64).round() as i64;
    // However little it wants, it wants a device.
    Some((of_each.max(1).saturating_mul(devices), devices))
}

/// The pods that get a scaling pod: until as many devices are requested for as all of their class share, and one scaling pod is
/// as large as the largest of them. Large ones come first, since small ones fit beside them; then those who waited longest.
pub(super) fn to_be_made<'a>(
    candidates: &[Candidate<'a>],
    passed_over: &BTreeSet<&ObjectName>,
    requested: &[RequestedDevices<'_>],
) -> Vec<&'a ObjectName> {
    let mut classes: BTreeMap<&Class, Vec<Candidate<'a>>> = BTreeMap::new();
    for candidate in candidates {
        classes.entry(candidate.class).or_default().push(*candidate);
    }
    let mut made = Vec::new();
    for (class, mut members) in classes {
        let parts = members.iter().fold(0_i64, |sum, one| sum.saturating_add(one.parts));
        let needed = parts.saturating_add(SCALE_ADJUST_PARTS - 1) / SCALE_ADJUST_PARTS;
        let own = requested.iter().filter(|one| one.class == class);
        let (mut sum, mut largest) = own
            .fold((0_i64, 0), |(sum, largest), one| (sum + one.devices, largest.max(one.devices)));
        members.sort_by_key(|one| (-one.devices, one.since, one.pod));
        for member in members.iter().filter(|one| !passed_over.contains(one.pod)) {
            if needed > sum || member.devices > largest {
                made.push(member.pod);
                sum += member.devices;
                largest = largest.max(member.devices);
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME_TIME: Timestamp = Timestamp { nanos: 0 };

    struct Case {
        pods: Vec<(ObjectName, Class, i64, i64)>,
    }

    impl Case {
        fn new(pods: &[(&str, &str, f64, i64)]) -> Self {
            let pods = pods.iter().map(|(name, pool, portion, devices)| {
                let class = Class { pool: Some((*pool).to_owned()), ..Class::default() };
                let request = GpuRequest::Fraction { portion: *portion, devices: *devices };
                let (parts, devices) = parts(&request, 0.1).expect("it shares");
                (ObjectName::new("a", *name), class, parts, devices)
            });
            Self { pods: pods.collect() }
        }

        /// Those who get a scaling pod where these are requested for: pool, devices.
        fn made(&self, served: &[&str], requested: &[(&str, i64)]) -> Vec<&str> {
            let candidates: Vec<Candidate<'_>> = self
                .pods
                .iter()
                .map(|(pod, class, parts, devices)| Candidate {
                    pod,
                    class,
                    parts: *parts,
                    devices: *devices,
                    since: SOME_TIME,
                })
                .collect();
            let served: Vec<ObjectName> =
                served.iter().map(|name| ObjectName::new("a", *name)).collect();
            let pools: Vec<(Class, i64)> = requested
                .iter()
                .map(|(pool, devices)| {
                    (Class { pool: Some((*pool).to_owned()), ..Class::default() }, *devices)
                })
                .collect();
            let requested: Vec<RequestedDevices<'_>> = pools
                .iter()
                .map(|(class, devices)| RequestedDevices { class, devices: *devices })
                .collect();
            let made = to_be_made(&candidates, &served.iter().collect(), &requested);
            made.into_iter().map(|pod| &*pod.name).collect()
        }
    }

    #[test]
    fn two_halves_need_one_device_and_three_need_two() {
        let two = Case::new(&[("p", "", 0.5, 1), ("q", "", 0.5, 1)]);
        assert_eq!(two.made(&[], &[]), ["p"]);
        assert!(two.made(&["p"], &[("", 1)]).is_empty());
        let three = Case::new(&[("p", "", 0.5, 1), ("q", "", 0.5, 1), ("r", "", 0.5, 1)]);
        assert_eq!(three.made(&[], &[]), ["p", "q"]);
        assert_eq!(three.made(&["p"], &[("", 1)]), ["q"]);
    }

    #[test]
    fn fractions_are_rounded_to_hundredths() {
        let thirds = Case::new(&[("p", "", 0.333, 1), ("q", "", 0.333, 1), ("r", "", 0.333, 1)]);
        assert_eq!(thirds.made(&[], &[]), ["p"]);
        let tiny = Case::new(&[("p", "", 0.001, 1)]);
        assert_eq!(tiny.made(&[], &[]), ["p"], "it wants a device all the same");
    }

    #[test]
    fn memory_counts_as_a_part_of_a_device() {
        let memory = GpuRequest::Memory { mib: 8000, devices: 2 };
        assert_eq!(parts(&memory, 0.1), Some((20, 2)));
        assert_eq!(parts(&GpuRequest::Whole { count: 1 }, 0.1), None);
    }

    #[test]
    fn the_largest_comes_first_and_small_ones_fit_beside_it() {
        let mixed = Case::new(&[("small", "", 0.5, 1), ("wide", "", 0.5, 4)]);
        assert_eq!(mixed.made(&[], &[]), ["wide"]);
        // Devices of several nodes are no help to a pod that needs them on one.
        assert_eq!(mixed.made(&["small"], &[("", 1), ("", 1), ("", 1)]), ["wide"]);
    }

    #[test]
    fn pods_for_different_nodes_do_not_count_together() {
        let apart = Case::new(&[("p", "x", 0.5, 1), ("q", "y", 0.5, 1)]);
        assert_eq!(apart.made(&[], &[]), ["p", "q"]);
        assert_eq!(apart.made(&["p"], &[("x", 1)]), ["q"]);
    }
}
