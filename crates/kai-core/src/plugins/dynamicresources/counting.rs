//! GPUs that claims stand for. Rule: a class or driver is about GPUs when its name says so. An allocated claim
//! counts the GPUs it was given; another counts what its requests ask for, a request for all devices by the most
//! that any node has of them, a choice by the first alternative that any node can give. Looking at devices costs
//! nothing. KAI counts by the requests alone: all devices as one, choices not at all. A node offers as many GPUs as can
//! be given at once: a device and its partitions are not counted together. KAI counts all of them.

use crate::compatibility::Compatibility;
use crate::input::devices::{
    DeviceAccess, DeviceAlternative, DeviceCount, DeviceRef, DeviceRequest, DeviceSpec,
};
use crate::input::pod::tolerate_all;
use crate::input::{PodSpec, SliceSpec, Text};
use crate::plugins::dynamicresources::store::Claims;
use crate::plugins::dynamicresources::{TaskClaims, is_gpu_name, shares};

/// More GPUs than any cluster has: larger requests count as this, so that sums over many pods stay exact.
const MOST_GPUS: i64 = 1 << 40;

impl Claims {
    /// GPUs a pod asks for through claims.
    pub(crate) fn gpus_of_pod(&self, pod: &PodSpec, compatibility: Compatibility) -> i64 {
        let TaskClaims { mut claims } = self.of_pod(pod);
        let named = self.claims_of(&pod.name);
        claims.extend(named.into_iter().filter(|at| !claims.contains(at)).collect::<Vec<_>>());
        let counts = claims.iter().map(|at| self.gpus_of(*at, compatibility));
        counts.fold(0, i64::saturating_add).min(MOST_GPUS)
    }

    /// GPUs offered on a node through slices of its own.
    pub(crate) fn gpus_on(&self, node: &Text) -> i64 {
        let gpus = self.slices_of(node).filter(|slice| is_gpu_name(&slice.driver));
        let own: Vec<(&SliceSpec, &DeviceSpec)> = gpus
            .flat_map(|slice| slice.devices.iter().map(move |device| (slice, device)))
            .filter(|(slice, device)| {
                matches!(slice.access_to(device), DeviceAccess::Node(of) if of == node)
            })
            .collect();
        if self.compatibility.is_kai() { own.len() as i64 } else { self.at_once(&own) }
    }

    /// Whether what a claim counts depends on what devices there are.
    pub(super) fn counts_by_supply(&self, at: usize) -> bool {
        !self.compatibility.is_kai()
            && self.entries[at].spec.requests.iter().any(|request| {
                request.alternatives.len() > 1
                    || request.alternatives.iter().any(|one| one.count == DeviceCount::All)
            })
    }

    /// GPUs among the devices a claim was given, looks at devices left out. The class that was asked for decides,
    /// so that a claim costs the same before and after it is allocated; the driver where no request is known, and
    /// always for KAI.
    pub(super) fn allocated_gpus(&self, at: usize) -> i64 {
        let claim = &self.entries[at];
        let results = claim.state.allocation.iter().flat_map(|given| &given.results);
        let gpus = results.filter(|result| {
            let name = result.request.split('/').next().unwrap_or_default();
            let asked = claim.spec.requests.iter().find(|request| &*request.name == name);
            match asked.filter(|_| !self.compatibility.is_kai()) {
                Some(request) => request.alternatives.iter().any(|one| is_gpu_name(&one.class)),
                None => is_gpu_name(&result.device.driver),
            }
        });
        gpus.filter(|result| self.takes(at, result)).count() as i64
    }

    fn gpus_of(&self, at: usize, compatibility: Compatibility) -> i64 {
        let claim = &self.entries[at];
        if claim.spec.for_extended_resource {
            // The pod's own request counts it.
            return 0;
        }
        if !compatibility.is_kai() && claim.state.allocation.is_some() {
            return self.allocated_gpus(at);
        }
        let requests = claim.spec.requests.iter();
        let counts = requests.map(|request| match compatibility {
            Compatibility::Kai => gpus_as_kai(request),
            Compatibility::Right => self.gpus_of_request(request),
        });
        counts.fold(0, i64::saturating_add)
    }

    fn gpus_of_request(&self, request: &DeviceRequest) -> i64 {
        let possible = request.alternatives.iter().find(|alternative| {
            request.alternatives.len() == 1
                || self.most_on_a_node(alternative) >= least_of(alternative.count)
        });
        let Some(alternative) = possible.or_else(|| request.alternatives.first()) else { return 0 };
        if alternative.admin_access || !is_gpu_name(&alternative.class) {
            return 0;
        }
        match alternative.count {
            DeviceCount::Exactly(count) => count.max(1),
            DeviceCount::All => self.most_on_a_node(alternative).max(1),
        }
    }

    /// The most devices for an alternative that any node can use.
    fn most_on_a_node(&self, alternative: &DeviceAlternative) -> i64 {
        let count = |node: &str| -> i64 {
            let slices = self.slices_of(node);
            slices
                .map(|slice| {
                    let eligible = slice.devices.iter().filter(|device| {
                        let elsewhere = |of: &Text| &**of != node;
                        let access = slice.access_to(device);
                        !matches!(access, DeviceAccess::Node(of) if elsewhere(of))
                            && self.suits(alternative, slice, device)
                    });
                    eligible.count() as i64
                })
                .sum()
        };
        // No node has the empty name: what is left are slices that several nodes can use.
        let wide = count("");
        self.nodes_with_slices().map(|node| count(node)).fold(wide, i64::max)
    }

    /// Whether a device is of the class, passes the selectors of an alternative and has no taint that it does not tolerate.
    pub(super) fn suits(
        &self,
        alternative: &DeviceAlternative,
        slice: &SliceSpec,
        device: &DeviceSpec,
    ) -> bool {
        let listed = |devices: &Option<Vec<DeviceRef>>| {
            devices
                .as_ref()
                .is_none_or(|devices| devices.binary_search(&slice.device(device)).is_ok())
        };
        self.classes.get(&alternative.class).is_some_and(|class| listed(&class.devices))
            && listed(&alternative.devices)
            && tolerate_all(&alternative.tolerations, &device.taints)
            && shares::consumption(&alternative.capacity, slice, device).is_some()
    }
}

/// How many devices satisfy a count at least.
fn least_of(count: DeviceCount) -> i64 {
    match count {
        DeviceCount::Exactly(count) => count.max(1),
        DeviceCount::All => 1,
    }
}

fn gpus_as_kai(request: &DeviceRequest) -> i64 {
    match request.alternatives.as_slice() {
        [only] if is_gpu_name(&only.class) => match only.count {
            DeviceCount::Exactly(count) => count.max(1),
            DeviceCount::All => 1,
        },
        _ => 0,
    }
}
