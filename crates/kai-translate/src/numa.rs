//! NUMA zones: `topology.node.k8s.io/v1alpha2 NodeResourceTopology`.

use kai_api::quantity::RawQuantity;
use kai_api::view::ObjectMeta;
use kai_core::input::node::{NumaPolicy, NumaScope, NumaZone};
use kai_core::input::{NumaSpec, Text};
use serde::Deserialize;

use crate::amounts::{Amounts, ResourceList};
use crate::pod::amounts_by_name;
use crate::problem::{Complaints, Translated};
use crate::view::null_is_default;

/// The NUMA zones of a node; it has the node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourceTopology {
    pub metadata: ObjectMeta,
    /// Zones of every type.
    #[serde(deserialize_with = "null_is_default")]
    pub zones: Vec<Zone>,
    /// What the kubelet enforces, in the older form.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_policies: Vec<String>,
    /// What the kubelet enforces.
    #[serde(deserialize_with = "null_is_default")]
    pub attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Attribute {
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Zone {
    /// Name, `node-0`.
    pub name: String,
    /// `Node` for NUMA zones.
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Vec<ZoneResource>,
}

/// What a zone has of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ZoneResource {
    /// Name of the resource.
    pub name: String,
    /// What pods may use.
    pub allocatable: RawQuantity,
    pub available: RawQuantity,
}

/// The NUMA zones of a node.
pub fn translate(topology: &NodeResourceTopology) -> Translated<NumaSpec> {
    let node = topology.metadata.name.as_str();
    let mut complaints = Complaints::about(format!("NodeResourceTopology {node}"));
    let mut zones: Vec<(usize, &Zone)> =
        topology.zones.iter().enumerate().filter(|(_, zone)| zone.type_ == "Node").collect();
    zones.sort_by_key(|(_, zone)| zone_order(&zone.name));
    let (policy, scope) = policy(topology);
    let zones = zones.into_iter().map(|(at, zone)| NumaZone {
        id: zone.name.as_str().into(),
        allocatable: read(zone, at, "allocatable", &mut complaints, |one| &one.allocatable),
        available: read(zone, at, "available", &mut complaints, |one| &one.available),
    });
    let spec = NumaSpec { node: node.into(), policy, scope, zones: zones.collect() };
    complaints.with(spec)
}

/// Zones with a trailing number first, by it, then by name.
fn zone_order(name: &str) -> (bool, u64, String) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = name.get(name.len() - digits..).and_then(|digits| digits.parse::<u64>().ok());
    (number.is_none(), number.unwrap_or_default(), name.to_owned())
}

fn read(
    zone: &Zone,
    at: usize,
    field: &str,
    complaints: &mut Complaints,
    of: fn(&ZoneResource) -> &RawQuantity,
) -> Vec<(Text, i64)> {
    let list: ResourceList =
        zone.resources.iter().map(|one| (one.name.clone(), of(one).clone())).collect();
    amounts_by_name(Amounts::read(&list, format_args!("zones[{at}].{field}"), complaints))
}

/// Attributes, else the older form.
fn policy(topology: &NodeResourceTopology) -> (NumaPolicy, NumaScope) {
    let attribute = |name: &str| {
        let found = topology.attributes.iter().find(|attribute| attribute.name == name);
        found.map(|attribute| attribute.value.as_str())
    };
    if let Some(policy) = attribute("topologyManagerPolicy") {
        let policy = match policy {
            "best-effort" => NumaPolicy::BestEffort,
            "restricted" => NumaPolicy::Restricted,
            "single-numa-node" => NumaPolicy::SingleNumaNode,
            _ => NumaPolicy::None,
        };
        let pod = attribute("topologyManagerScope") == Some("pod");
        return (policy, if pod { NumaScope::Pod } else { NumaScope::Container });
    }
    match topology.topology_policies.first().map(String::as_str) {
        Some("SingleNUMANodePodLevel") => (NumaPolicy::SingleNumaNode, NumaScope::Pod),
        Some("SingleNUMANode" | "SingleNUMANodeContainerLevel") => {
            (NumaPolicy::SingleNumaNode, NumaScope::Container)
        }
        Some("RestrictedPodLevel") => (NumaPolicy::Restricted, NumaScope::Pod),
        Some("Restricted" | "RestrictedContainerLevel") => {
            (NumaPolicy::Restricted, NumaScope::Container)
        }
        Some("BestEffortPodLevel") => (NumaPolicy::BestEffort, NumaScope::Pod),
        Some("BestEffort" | "BestEffortContainerLevel") => {
            (NumaPolicy::BestEffort, NumaScope::Container)
        }
        _ => (NumaPolicy::None, NumaScope::Container),
    }
}
