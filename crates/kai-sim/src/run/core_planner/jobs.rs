//! Jobs, tasks, bindings under way, foreign pods and disruption budgets in the core's words.

use std::sync::Arc;

use kai_core::input::pod::{
    Backoff, ComputeMode, GpuRequest, HostPort, NumaDemand, PodConstraints, PodRequest, PodRole,
    PodTerm, TermNamespaces, Toleration,
};
use kai_core::input::pod_group::{GroupLeaf, GroupSet, Preemptibility, TopologyConstraint};
use kai_core::input::{
    BindRequestSpec, BudgetSpec, Object, ObjectKey, ObjectName, PodGroupSpec, PodSpec,
};
use kai_core::status::Status;

use super::nodes::taint_effect;
use super::selectors::{counted, exact, labels, node_terms, other_resources, text, texts};
use super::{span, timestamp};
use crate::format::{self, Protocol, Qos, TolerationOperator};
use crate::state::{ClusterState, Job, Task};

/// Where NUMA placements are written down, the observed one first.
const NUMA_RECORDS: [&str; 2] =
    ["kai.scheduler/numa-placement-observed", "kai.scheduler/numa-placement-predicted"];

pub(super) fn translate(state: &ClusterState) -> Vec<(ObjectKey, Object)> {
    let mut objects = Vec::new();
    for job in &state.jobs {
        let name = name_of(job, &job.name);
        let group = Object::PodGroup(Box::new(pod_group(job)));
        objects.push((ObjectKey::PodGroup(name), group));
        for task in &job.tasks {
            let name = name_of(job, &task.name);
            let pod = Object::Pod(Box::new(pod(job, task)));
            objects.push((ObjectKey::Pod(name.clone()), pod));
            if let Some(request) = &task.bind_request {
                let request = Object::BindRequest(bind_request(name.clone(), request));
                objects.push((ObjectKey::BindRequest(name), request));
            }
        }
    }
    for foreign in &state.foreign_pods {
        let name = ObjectName::new(foreign.namespace.as_str(), foreign.name.as_str());
        let pod = Object::Pod(Box::new(foreign_pod(name.clone(), foreign)));
        objects.push((ObjectKey::Pod(name), pod));
    }
    for budget in &state.disruption_budgets {
        let name = ObjectName::new(budget.namespace.as_str(), budget.name.as_str());
        let selector = exact(&budget.match_labels);
        let spec = BudgetSpec { name: name.clone(), selector, allowed: budget.allowed };
        objects.push((ObjectKey::Budget(name), Object::Budget(spec)));
    }
    for config_map in &state.config_maps {
        let name = ObjectName::new(config_map.namespace.as_str(), config_map.name.as_str());
        objects.push((ObjectKey::ConfigMap(name.clone()), Object::ConfigMap(name)));
    }
    objects
}

/// An object in the namespace of `job`.
pub(super) fn name_of(job: &Job, name: &str) -> ObjectName {
    ObjectName::new(job.namespace.as_str(), name)
}

fn pod_group(job: &Job) -> PodGroupSpec {
    PodGroupSpec {
        name: name_of(job, &job.name),
        uid: text(&job.name),
        queue: text(&job.queue),
        priority: job.priority as i32,
        preemptibility: match job.preemptibility {
            format::Preemptibility::Preemptible => Preemptibility::Preemptible,
            format::Preemptibility::NonPreemptible => Preemptibility::NonPreemptible,
            format::Preemptibility::SemiPreemptible => Preemptibility::SemiPreemptible,
        },
        created: timestamp(job.created_at_s),
        last_start: job.started_at_s.map(timestamp),
        last_eviction: job.evicted_at_s.map(timestamp),
        stale_since: job.stale_since_s.map(timestamp),
        reclaim_delayed_since: job.reclaim_delayed_since_s.map(timestamp),
        staleness_grace: job.staleness_grace_s.map(span),
        preemption_delay: job.preemption_delay_s.map(span),
        schedulable: true,
        never_preempts: job.preemption_policy == format::PreemptionPolicy::Never,
        denied: None,
        half_bound: false,
        tree: group_set(&job.sub_groups).into(),
    }
}

fn group_set(group: &format::SubGroup) -> GroupSet {
    let leaf = |pod_set: &format::PodSet| GroupLeaf {
        name: text(&pod_set.name),
        min_available: pod_set.min_available,
        topology: topology(pod_set.topology.as_ref()),
    };
    GroupSet {
        name: text(group.name.as_deref().unwrap_or_default()),
        min_members: group.min_members,
        topology: topology(group.topology.as_ref()),
        leaves: group.pod_sets.iter().map(leaf).collect(),
        sets: group.groups.iter().map(group_set).collect(),
    }
}

/// A constraint that names no topology constrains nothing.
fn topology(constraint: Option<&format::TopologyConstraint>) -> Option<TopologyConstraint> {
    let constraint = constraint.filter(|constraint| !constraint.topology.is_empty())?;
    Some(TopologyConstraint {
        topology: text(&constraint.topology),
        required: constraint.required.as_deref().map(text),
        preferred: constraint.preferred.as_deref().map(text),
    })
}

fn pod(job: &Job, task: &Task) -> PodSpec {
    let live_request = task.bind_request.as_ref().is_some_and(|request| !request.has_failed());
    // The core sees by itself that a pod with a live bind request is being bound.
    let by_request = live_request && task.status == format::Status::Binding;
    let claims = match &task.request.gpu {
        Some(format::GpuRequest::Claims(claims)) => texts(claims),
        _ => Vec::new(),
    };
    PodSpec {
        name: name_of(job, &task.name),
        uid: text(&task.name),
        created: timestamp(job.created_at_s),
        group: Some(text(&job.name)),
        sub_group: Some(text(&task.sub_group)),
        role: PodRole::Workload,
        status: if by_request { Status::Pending } else { status(task.status) },
        node: task.node.as_deref().filter(|_| !by_request).map(text),
        stuck_at: None,
        labels: Arc::new(labels(&task.labels)),
        request: PodRequest {
            legacy_mig: task.legacy_mig,
            compute_mode: compute_mode(task.compute_mode),
            ..request(&task.request)
        },
        gpu_groups: texts(&task.gpu_groups),
        constraints: Arc::new(constraints(task)),
        claims,
        nominated_node: task.nominated_node.as_deref().map(text),
        backoff: Backoff::default(),
        numa: NumaDemand {
            guaranteed: task.qos == Qos::Guaranteed,
            containers: Vec::new(),
            recorded_zones: NUMA_RECORDS
                .iter()
                .find_map(|&record| task.annotations.get(record))
                .map(|zones| text(zones)),
        },
    }
}

fn foreign_pod(name: ObjectName, foreign: &format::ForeignPod) -> PodSpec {
    PodSpec {
        uid: text(&foreign.name),
        name,
        created: timestamp(0.0),
        group: None,
        sub_group: None,
        role: PodRole::Foreign,
        status: Status::Running,
        node: Some(text(&foreign.node)),
        stuck_at: None,
        labels: Arc::new(labels(&foreign.labels)),
        request: request(&foreign.request),
        gpu_groups: Vec::new(),
        constraints: Arc::new(PodConstraints {
            host_ports: foreign.host_ports.iter().map(host_port).collect(),
            pod_anti_affinity: foreign.pod_anti_affinity.iter().map(pod_term).collect(),
            ..PodConstraints::default()
        }),
        claims: Vec::new(),
        nominated_node: None,
        backoff: Backoff::default(),
        numa: NumaDemand::default(),
    }
}

fn bind_request(pod: ObjectName, request: &format::BindRequest) -> BindRequestSpec {
    BindRequestSpec {
        pod,
        node: text(&request.node),
        gpu_groups: texts(&request.gpu_groups),
        numa_zones: None,
        claim_allocations: Vec::new(),
        failed: request.has_failed(),
    }
}

fn request(request: &format::Request) -> PodRequest {
    let gpu = match &request.gpu {
        None | Some(format::GpuRequest::Claims(_)) => GpuRequest::None,
        Some(format::GpuRequest::Count(count)) => GpuRequest::Whole { count: *count },
        Some(format::GpuRequest::Fraction { fraction, devices }) => {
            GpuRequest::Fraction { portion: *fraction, devices: *devices }
        }
        Some(format::GpuRequest::Memory { mib, devices }) => {
            GpuRequest::Memory { mib: *mib, devices: *devices }
        }
        Some(format::GpuRequest::Mig(profiles)) => GpuRequest::Mig(counted(profiles)),
    };
    PodRequest {
        cpu_milli: request.cpu_milli,
        memory_bytes: request.memory_bytes,
        other: other_resources(&request.extended),
        gpu,
        overhead: Vec::new(),
        legacy_mig: false,
        compute_mode: ComputeMode::default(),
    }
}

fn compute_mode(mode: format::ComputeMode) -> ComputeMode {
    match mode {
        format::ComputeMode::TimeSlicing => ComputeMode::TimeSlicing,
        format::ComputeMode::SmSharing => ComputeMode::SmSharing,
    }
}

fn constraints(task: &Task) -> PodConstraints {
    let selector = task.node_selector.iter();
    PodConstraints {
        node_selector: selector.map(|(key, value)| (text(key), text(value))).collect(),
        node_terms: node_terms(&task.node_affinity),
        avoided_nodes: Vec::new(),
        tolerations: task.tolerations.iter().map(toleration).collect(),
        host_ports: task.host_ports.iter().map(host_port).collect(),
        pod_affinity: task.pod_affinity.iter().map(pod_term).collect(),
        pod_anti_affinity: task.pod_anti_affinity.iter().map(pod_term).collect(),
        preferred_pod_terms: Vec::new(),
        volume_claims: texts(&task.pvcs),
        config_maps: texts(&task.config_maps),
        priority_class: None,
    }
}

fn toleration(toleration: &format::Toleration) -> Toleration {
    let value = match toleration.operator {
        TolerationOperator::Equal => Some(text(&toleration.value)),
        TolerationOperator::Exists => None,
    };
    Toleration {
        key: Some(toleration.key.as_str()).filter(|key| !key.is_empty()).map(text),
        value,
        effect: toleration.effect.map(taint_effect),
    }
}

fn host_port(port: &format::HostPort) -> HostPort {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    };
    HostPort { port: port.port, protocol: text(protocol), ip: text(&port.ip) }
}

fn pod_term(term: &format::PodTerm) -> PodTerm {
    let named = texts(&term.namespaces);
    PodTerm {
        topology_key: text(&term.topology_key),
        selector: exact(&term.match_labels),
        namespaces: if named.is_empty() {
            TermNamespaces::Own
        } else {
            TermNamespaces::Chosen { named, selector: None }
        },
    }
}

fn status(status: format::Status) -> Status {
    match status {
        format::Status::Pending => Status::Pending,
        format::Status::Gated => Status::Gated,
        format::Status::Allocated => Status::Allocated,
        format::Status::Pipelined => Status::Pipelined,
        format::Status::Binding => Status::Binding,
        format::Status::Bound => Status::Bound,
        format::Status::Running => Status::Running,
        format::Status::Releasing => Status::Releasing,
        format::Status::Succeeded => Status::Succeeded,
        format::Status::Failed => Status::Failed,
        format::Status::Unknown => Status::Unknown,
        format::Status::Deleted => Status::Deleted,
        format::Status::StuckInReleasing => Status::StuckInReleasing,
    }
}

/// The other way round.
pub(super) fn status_back(status: Status) -> format::Status {
    match status {
        Status::Pending => format::Status::Pending,
        // The format has no attempts that fail.
        Status::Gated | Status::BackingOff => format::Status::Gated,
        Status::Allocated => format::Status::Allocated,
        Status::Pipelined => format::Status::Pipelined,
        Status::Binding => format::Status::Binding,
        Status::Bound => format::Status::Bound,
        Status::Running => format::Status::Running,
        Status::Releasing => format::Status::Releasing,
        Status::Succeeded => format::Status::Succeeded,
        Status::Failed => format::Status::Failed,
        Status::Unknown => format::Status::Unknown,
        Status::Deleted => format::Status::Deleted,
        Status::StuckInReleasing => format::Status::StuckInReleasing,
    }
}
