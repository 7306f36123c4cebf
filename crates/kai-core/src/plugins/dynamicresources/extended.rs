//! Extended resources that a device class stands behind. Rule: on a node whose device plugin does not offer the
//! resource, each container that asks for it has a request of its own, `container-<i>-request-<j>`. An init
//! container that ends before others start uses the devices of containers behind it and adds only what it lacks.

use std::collections::BTreeMap;

use crate::input::devices::{
    AllocatedDevice, Allocation, DeviceAlternative, DeviceCount, DeviceRequest,
};
use crate::input::pod::{ContainerKind, GpuRequest};
use crate::input::{ObjectName, PodSpec, Text};
use crate::plugins::dynamicresources::store::Claims;
use crate::resources::ResourceNames;
use crate::world::World;
use crate::world::node::Node;
use crate::world::shape::Shape;

/// Name of the claim that stands for the extended resources of a pod, in allocations and bind requests.
pub const EXTENDED_CLAIM: &str = "<extended-resources>";

/// Names under which GPUs are asked for as an extended resource.
const GPU_RESOURCES: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];
/// Extended resources are counted in thousandths.
const MILLI: i64 = 1000;

/// What one container asks of one resource.
struct Ask {
    name: Text,
    container: usize,
    resource: Text,
    class: Text,
    count: i64,
    kind: ContainerKind,
}

/// What one container asks of an extended resource that devices stand behind, for the claim that is made for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContainerAsk {
    /// Position of the container: init containers first.
    pub container: usize,
    /// Name of the extended resource.
    pub resource: Text,
    /// Name of its request.
    pub request: Text,
    /// The class behind the resource.
    pub class: Text,
    /// Devices that its request adds to those of others; none: it needs no request.
    pub own: i64,
}

/// Requests for the extended resources of a pod on one node, and which devices init containers share.
pub(super) struct ExtendedRequests {
    /// What must be allocated.
    pub(super) requests: Vec<DeviceRequest>,
    asks: Vec<Ask>,
}

impl ExtendedRequests {
    /// What `pod` asks of `node` through classes; none: nothing.
    pub(super) fn of(
        claims: &Claims,
        names: &ResourceNames,
        pod: &PodSpec,
        node: &Node,
    ) -> Option<Self> {
        let served: Vec<(&str, &Text)> = claims
            .classes
            .values()
            .filter_map(|class| Some((class.extended_resource.as_deref()?, &class.name)))
            .filter(|(resource, _)| !offers(node, names, resource))
            .collect();
        if served.is_empty() {
            return None;
        }
        let asks = asks_of(pod, &served);
        if asks.is_empty() {
            return None;
        }
        let mut requests = Vec::new();
        for (at, ask) in asks.iter().enumerate() {
            let lacking = ask.count - reusable(&asks, &requests, at);
            if lacking > 0 {
                requests.push(request(ask, lacking));
            }
        }
        Some(Self { requests, asks })
    }

    /// Adds to an allocation the results of init containers that use the devices of others.
    pub(super) fn complete(&self, mut allocation: Allocation) -> Allocation {
        let own = allocation.results.clone();
        for (at, ask) in self.asks.iter().enumerate().filter(|(_, ask)| is_init(ask)) {
            let has = own.iter().filter(|result| result.request == ask.name).count() as i64;
            let of_others = own.iter().filter(|result| {
                let position = self.asks.iter().position(|other| other.name == result.request);
                position.is_some_and(|other| {
                    other != at
                        && self.asks[other].class == ask.class
                        && (other > at || is_init(&self.asks[other]))
                })
            });
            let lacking = usize::try_from(ask.count - has).unwrap_or_default();
            let shared = of_others.take(lacking).map(|result| AllocatedDevice {
                request: ask.name.clone(),
                device: result.device.clone(),
                share: None,
            });
            allocation.results.extend(shared);
        }
        allocation
    }
}

fn is_init(ask: &Ask) -> bool {
    ask.kind == ContainerKind::Init
}

/// Devices that an init container can use because a container behind it, or an init container before it, has
/// them anyway.
fn reusable(asks: &[Ask], requested: &[DeviceRequest], at: usize) -> i64 {
    let ask = &asks[at];
    if !is_init(ask) {
        return 0;
    }
    let behind = asks[at + 1..].iter().filter(|other| !is_init(other) && other.class == ask.class);
    let before = asks[..at].iter().filter(|other| is_init(other) && other.class == ask.class);
    let extra = before.map(|other| {
        let mine = requested.iter().filter(|request| request.name == other.name);
        mine.map(|request| match request.alternatives[0].count {
            DeviceCount::Exactly(count) => count,
            DeviceCount::All => 0,
        })
        .sum::<i64>()
    });
    behind.map(|other| other.count).sum::<i64>() + extra.sum::<i64>()
}

fn request(ask: &Ask, count: i64) -> DeviceRequest {
    DeviceRequest {
        name: ask.name.clone(),
        alternatives: vec![DeviceAlternative {
            name: None,
            class: ask.class.clone(),
            count: DeviceCount::Exactly(count),
            devices: None,
            capacity: BTreeMap::new(),
            admin_access: false,
            tolerations: Vec::new(),
        }],
    }
}

/// Whether the device plugin of a node offers a resource.
fn offers(node: &Node, names: &ResourceNames, resource: &str) -> bool {
    if GPU_RESOURCES.contains(&resource) {
        return node.spec.allocatable.gpus > 0;
    }
    names.find(resource).is_some_and(|slot| node.allocatable.get(slot) > 0)
}

fn asks_of(pod: &PodSpec, served: &[(&str, &Text)]) -> Vec<Ask> {
    let class_of = |resource: &str| {
        served.iter().find(|(served, _)| *served == resource).map(|(_, class)| (*class).clone())
    };
    let mut asks = Vec::new();
    let mut add = |container: usize, kind, amounts: &[(Text, i64)]| {
        let mut next = 0;
        for (resource, amount) in amounts {
            let Some(class) = class_of(resource) else { continue };
            let is_gpu = GPU_RESOURCES.contains(&&**resource);
            let count =
                if is_gpu { *amount } else { amount / MILLI + i64::from(amount % MILLI > 0) };
            if count > 0 {
                let name = format!("container-{container}-request-{next}").into();
                let resource = resource.clone();
                asks.push(Ask { name, container, resource, class, count, kind });
                next += 1;
            }
        }
    };
    if pod.numa.containers.is_empty() {
        let mut amounts = pod.request.other.clone();
        if let GpuRequest::Whole { count } = pod.request.gpu {
            let gpu = GPU_RESOURCES.iter().find(|resource| class_of(resource).is_some());
            amounts.extend(gpu.map(|resource| (Text::from(*resource), count)));
        }
        add(0, ContainerKind::App, &amounts);
    } else {
        for (at, container) in pod.numa.containers.iter().enumerate() {
            add(at, container.kind, &container.amounts);
        }
    }
    asks
}

impl World {
    /// What the containers of a pod ask through device classes on a node of this name.
    pub fn container_asks(&self, pod: &ObjectName, node: &Text) -> Vec<ContainerAsk> {
        let (Some(task), Some(node)) = (self.task_named(pod), self.node_named(node)) else {
            return Vec::new();
        };
        let spec = &self.task(task).spec;
        let extended = ExtendedRequests::of(&self.claims, &self.names, spec, self.node(node));
        let Some(ExtendedRequests { requests, asks }) = extended else { return Vec::new() };
        let own = |name: &Text| {
            let request = requests.iter().find(|request| request.name == *name);
            match request.map(|request| request.alternatives[0].count) {
                Some(DeviceCount::Exactly(count)) => count,
                Some(DeviceCount::All) | None => 0,
            }
        };
        let asks = asks.into_iter().map(|ask| ContainerAsk {
            own: own(&ask.name),
            container: ask.container,
            resource: ask.resource,
            request: ask.name,
            class: ask.class,
        });
        asks.collect()
    }

    /// Whether devices of a class stand behind requests for GPUs.
    pub(crate) fn gpus_are_served_by_devices(&self) -> bool {
        self.config.params.dynamic_resources
            && GPU_RESOURCES.iter().any(|resource| self.claims.backs(resource))
    }

    /// Whether the amount of `slot` that a pod of `shape` asks for is left to the allocation of devices on this
    /// node instead of being compared with the node's amounts. KAI does so for pods that share GPUs only.
    pub(crate) fn is_left_to_devices(&self, shape: &Shape, node: &Node, slot: usize) -> bool {
        node.allocatable.get(slot) == 0 && self.may_be_left_to_devices(shape, slot)
    }

    /// The same where no node offers the resource itself (fault 33).
    pub(crate) fn may_be_left_to_devices(&self, shape: &Shape, slot: usize) -> bool {
        (shape.is_shared() || !self.config.compatibility.is_kai())
            && slot >= crate::resources::FIXED_SLOTS
            && self.config.params.dynamic_resources
            && self.claims.backs(self.names.name(slot))
    }
}

impl Claims {
    /// Whether a class stands behind an extended resource.
    pub(crate) fn backs(&self, resource: &str) -> bool {
        self.classes.values().any(|class| class.extended_resource.as_deref() == Some(resource))
    }
}
