//! Topologies.

use kai_api::topology::Topology;
use kai_core::input::{TopologyLevel, TopologySpec};

use crate::problem::Translated;
use crate::selectors::non_empty;

pub fn translate(topology: &Topology) -> Translated<TopologySpec> {
    let levels = topology.spec.levels.iter().map(|level| TopologyLevel {
        label: level.node_label.as_str().into(),
        alias: non_empty(level.alias.as_ref()),
    });
    let name = topology.metadata.name.as_deref().unwrap_or_default();
    TopologySpec { name: name.into(), levels: levels.collect() }.into()
}
