//! Topology constraints from annotations.

use kai_api::names::workload;
use kai_api::pod_group::TopologyConstraint;
use kai_api::view::Pod;
use serde_json::Value;

use crate::object::{Object, template_annotation};

/// Whatever is given, as it is given.
pub(crate) fn constraint<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> TopologyConstraint {
    let get = |key| annotation(key).filter(|value| !value.is_empty()).map(str::to_owned);
    TopologyConstraint {
        topology: get(workload::TOPOLOGY),
        required_topology_level: get(workload::TOPOLOGY_REQUIRED),
        preferred_topology_level: get(workload::TOPOLOGY_PREFERRED),
    }
}

/// A constraint that says something: a topology and at least one level.
pub(crate) fn effective(constraint: TopologyConstraint) -> Option<TopologyConstraint> {
    (constraint.topology.is_some() && has_level(&constraint)).then_some(constraint)
}

/// Is a level given?
pub(crate) fn has_level(constraint: &TopologyConstraint) -> bool {
    constraint.required_topology_level.is_some() || constraint.preferred_topology_level.is_some()
}

/// The constraint of each segment of workers: the topology from pod, template or workload; the levels from pod or template.
pub(crate) fn segment(
    pod: &Pod,
    template: &Value,
    workload: Object<'_>,
) -> Option<TopologyConstraint> {
    let near = |key| {
        let on_pod = pod.annotation(key).filter(|value| !value.is_empty());
        on_pod.or_else(|| template_annotation(template, key)).map(str::to_owned)
    };
    let from_workload = || {
        workload.annotation(workload::TOPOLOGY).filter(|value| !value.is_empty()).map(str::to_owned)
    };
    effective(TopologyConstraint {
        topology: near(workload::TOPOLOGY).or_else(from_workload),
        required_topology_level: near(workload::SEGMENT_TOPOLOGY_REQUIRED),
        preferred_topology_level: near(workload::SEGMENT_TOPOLOGY_PREFERRED),
    })
}
