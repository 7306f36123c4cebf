//! What is wrong with an object, before it is taken over. What passes here can be added up and indexed without
//! overflow: amounts are bounded far above what clusters have.

use crate::fairness::{QueueResource, UNLIMITED};
use crate::input::node::NumaZone;
use crate::input::pod::GpuRequest;
use crate::input::pod_group::GroupSet;
use crate::input::{NodeSpec, NumaSpec, Object, PodGroupSpec, PodSpec, QueueSpec, Text, UsageSpec};

/// Something wrong with an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputProblem {
    /// The object, as kind and name.
    pub object: String,
    /// Field or annotation that is wrong, as its API calls it.
    pub field: &'static str,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl std::fmt::Display for InputProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.field, self.message)
    }
}

/// Most of any resource that one object may name: 1 PiB where it is bytes.
pub const MOST_AMOUNT: i64 = 1 << 50;
/// Most devices that one object may name.
pub const MOST_DEVICES: i64 = 10_000;
/// Most MiB of one device: 1 PiB.
pub const MOST_DEVICE_MIB: i64 = 1 << 30;
/// Most levels of sets in a pod group.
pub const MOST_LEVELS: usize = 32;

/// Problems of one object, as they are found.
struct Problems<'a> {
    kind: &'static str,
    name: &'a dyn std::fmt::Display,
    found: Vec<InputProblem>,
}

impl<'a> Problems<'a> {
    fn of(kind: &'static str, name: &'a dyn std::fmt::Display) -> Self {
        Self { kind, name, found: Vec::new() }
    }

    fn note(&mut self, field: &'static str, message: String) {
        let object = format!("{} {}", self.kind, self.name);
        self.found.push(InputProblem { object, field, message });
    }

    fn amount(&mut self, field: &'static str, amount: i64, most: i64) {
        if amount < 0 {
            self.note(field, format!("must not be negative, is {amount}"));
        } else if amount > most {
            self.note(field, format!("must be at most {most}, is {amount}"));
        }
    }

    fn amounts(&mut self, field: &'static str, amounts: &[(Text, i64)], most: i64) {
        for (resource, amount) in amounts {
            if *amount < 0 {
                self.note(field, format!("{resource} must not be negative, is {amount}"));
            } else if *amount > most {
                self.note(field, format!("{resource} must be at most {most}, is {amount}"));
            }
        }
    }

    fn name(&mut self, name: &Text) {
        if name.is_empty() {
            self.note("metadata.name", "must not be empty".to_owned());
        }
    }
}

/// Everything that is wrong with `object`.
pub(super) fn problems(object: &Object) -> Vec<InputProblem> {
    match object {
        Object::Node(spec) => node_problems(spec),
        Object::Numa(spec) => numa_problems(spec),
        Object::Queue(spec) => queue_problems(spec),
        Object::Usage(spec) => usage_problems(spec),
        Object::PodGroup(spec) => pod_group_problems(spec),
        Object::Pod(spec) => pod_problems(spec),
        Object::BindRequest(_)
        | Object::Topology(_)
        | Object::DeviceClass(_)
        | Object::Slice(_)
        | Object::Claim(_)
        | Object::Storage(_)
        | Object::ConfigMap(_)
        | Object::Budget(_)
        | Object::Namespace(_) => Vec::new(),
    }
}

fn node_problems(spec: &NodeSpec) -> Vec<InputProblem> {
    let mut problems = Problems::of("Node", &spec.name);
    let offered = &spec.allocatable;
    problems.name(&spec.name);
    problems.amount("allocatable.cpu", offered.cpu_milli, MOST_AMOUNT);
    problems.amount("allocatable.memory", offered.memory_bytes, MOST_AMOUNT);
    problems.amount("allocatable.pods", offered.pods, MOST_AMOUNT);
    problems.amount("allocatable.gpus", offered.gpus, MOST_DEVICES);
    problems.amounts("allocatable.mig", &offered.mig, MOST_DEVICES);
    problems.amounts("allocatable.other", &offered.other, MOST_AMOUNT);
    problems.found
}

fn numa_problems(spec: &NumaSpec) -> Vec<InputProblem> {
    let mut problems = Problems::of("NodeResourceTopology", &spec.node);
    for NumaZone { allocatable, available, .. } in &spec.zones {
        problems.amounts("zones.allocatable", allocatable, MOST_AMOUNT);
        problems.amounts("zones.available", available, MOST_AMOUNT);
    }
    problems.found
}

fn queue_problems(spec: &QueueSpec) -> Vec<InputProblem> {
    let mut problems = Problems::of("Queue", &spec.name);
    problems.name(&spec.name);
    for (field, amounts) in [("quota", spec.quota), ("limit", spec.limit)] {
        for resource in QueueResource::ALL {
            let amount = amounts[resource];
            if !amount.is_finite() || (amount < 0.0 && amount != UNLIMITED) {
                let wanted = "must be -1 (unlimited) or at least 0";
                problems.note(field, format!("{resource:?} {wanted}, is {amount}"));
            }
        }
    }
    for resource in QueueResource::ALL {
        let weight = spec.over_quota_weight[resource];
        if !weight.is_finite() {
            let message = format!("{resource:?} must be a number, is {weight}");
            problems.note("overQuotaWeight", message);
        }
    }
    if spec.parent.as_ref() == Some(&spec.name) {
        problems.note("parentQueue", "must not be the queue itself".to_owned());
    }
    problems.found
}

fn usage_problems(spec: &UsageSpec) -> Vec<InputProblem> {
    let mut problems = Problems::of("Usage of queue", &spec.queue);
    for resource in QueueResource::ALL {
        let used = spec.usage[resource];
        if !used.is_finite() || used < 0.0 {
            problems.note("usage", format!("{resource:?} must be at least 0, is {used}"));
        }
    }
    problems.found
}

fn pod_group_problems(spec: &PodGroupSpec) -> Vec<InputProblem> {
    let mut problems = Problems::of("PodGroup", &spec.name);
    problems.name(&spec.name.name);
    if !is_at_most_deep(&spec.tree, MOST_LEVELS) {
        let message = format!("must have at most {MOST_LEVELS} levels");
        problems.note("subGroups", message);
    }
    problems.found
}

fn is_at_most_deep(set: &GroupSet, levels: usize) -> bool {
    levels > 0 && set.sets.iter().all(|set| is_at_most_deep(set, levels - 1))
}

fn pod_problems(spec: &PodSpec) -> Vec<InputProblem> {
    let mut problems = Problems::of("Pod", &spec.name);
    let request = &spec.request;
    problems.name(&spec.name.name);
    problems.amount("requests.cpu", request.cpu_milli, MOST_AMOUNT);
    problems.amount("requests.memory", request.memory_bytes, MOST_AMOUNT);
    problems.amounts("requests.other", &request.other, MOST_AMOUNT);
    problems.amounts("overhead", &request.overhead, MOST_AMOUNT);
    match &request.gpu {
        GpuRequest::None => {}
        GpuRequest::Whole { count } => problems.amount("nvidia.com/gpu", *count, MOST_DEVICES),
        GpuRequest::Fraction { portion, devices } => {
            if !(*portion > 0.0 && *portion <= 1.0) {
                let message = format!("must be above 0 and at most 1, is {portion}");
                problems.note("gpu-fraction", message);
            }
            device_problems(&mut problems, *devices);
        }
        GpuRequest::Memory { mib, devices } => {
            if *mib <= 0 || *mib > MOST_DEVICE_MIB {
                let message = format!("must be above 0 and at most {MOST_DEVICE_MIB}, is {mib}");
                problems.note("gpu-memory", message);
            }
            device_problems(&mut problems, *devices);
        }
        GpuRequest::Mig(instances) => problems.amounts("nvidia.com/mig", instances, MOST_DEVICES),
    }
    problems.found
}

fn device_problems(problems: &mut Problems<'_>, devices: i64) {
    if devices <= 0 || devices > MOST_DEVICES {
        let message = format!("must be above 0 and at most {MOST_DEVICES}, is {devices}");
        problems.note("gpu-fraction-num-devices", message);
    }
}
