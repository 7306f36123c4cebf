//! Where a pod may run.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Affinity, PodAffinityTerm};
use kai_api::names::gpu;
use kai_core::input::Text;
use kai_core::input::pod::{HostPort, PodConstraints, PodTerm, TermNamespaces};
use kai_core::input::selectors::NodeTerm;

use crate::selectors::{self, non_empty};
use crate::{tolerations, view};

/// Every address of the host.
const ANY_ADDRESS: &str = "0.0.0.0";

pub(super) fn constraints(pod: &view::Pod) -> PodConstraints {
    let spec = &pod.spec;
    let selector = spec.node_selector.iter();
    let affinity = spec.affinity.as_deref();
    let (pod_affinity, pod_anti_affinity, preferred_pod_terms) = pod_terms(affinity);
    PodConstraints {
        node_selector: selector
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect(),
        node_terms: affinity.map(required_nodes).unwrap_or_default(),
        avoided_nodes: Vec::new(),
        tolerations: spec.tolerations.iter().filter_map(tolerations::of_pod).collect(),
        host_ports: host_ports(pod),
        pod_affinity,
        pod_anti_affinity,
        preferred_pod_terms,
        volume_claims: volume_claims(pod),
        config_maps: config_maps(pod),
        priority_class: non_empty(spec.priority_class_name.as_ref()),
    }
}

/// The required terms; a selector without terms matches no node.
fn required_nodes(affinity: &Affinity) -> Vec<NodeTerm> {
    let node = affinity.node_affinity.as_ref();
    let Some(required) =
        node.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref())
    else {
        return Vec::new();
    };
    let terms = selectors::node_terms(required);
    if terms.is_empty() { vec![NodeTerm::default()] } else { terms }
}

fn host_ports(pod: &view::Pod) -> Vec<HostPort> {
    let sidecars =
        pod.spec.init_containers.iter().filter(|container| super::request::is_sidecar(container));
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    ports
        .filter_map(|port| {
            Some(HostPort {
                port: port.host_port.filter(|port| *port > 0)?,
                protocol: port.protocol.as_deref().unwrap_or("TCP").into(),
                ip: non_empty(port.host_ip.as_ref()).unwrap_or_else(|| ANY_ADDRESS.into()),
            })
        })
        .collect()
}

type PodTerms = (Vec<PodTerm>, Vec<PodTerm>, Vec<(i64, PodTerm)>);

fn pod_terms(affinity: Option<&Affinity>) -> PodTerms {
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let read = |terms: Option<&Vec<PodAffinityTerm>>| -> Vec<PodTerm> {
        terms.into_iter().flatten().map(pod_term).collect()
    };
    let pod_affinity = read(
        near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref()),
    );
    let pod_anti_affinity =
        read(far.and_then(|far| far.required_during_scheduling_ignored_during_execution.as_ref()));
    let wanted =
        near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref());
    let unwanted =
        far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_ref());
    let mut weighted = Vec::new();
    for (terms, sign) in [(wanted, 1), (unwanted, -1)] {
        for term in terms.into_iter().flatten() {
            weighted.push((sign * i64::from(term.weight), pod_term(&term.pod_affinity_term)));
        }
    }
    (pod_affinity, pod_anti_affinity, weighted)
}

fn pod_term(term: &PodAffinityTerm) -> PodTerm {
    PodTerm {
        topology_key: term.topology_key.as_str().into(),
        selector: selectors::label_selector(term.label_selector.as_ref()),
        namespaces: namespaces(term),
    }
}

/// An empty selector means every namespace; neither names nor a selector, that of the pod.
fn namespaces(term: &PodAffinityTerm) -> TermNamespaces {
    let named: Vec<Text> =
        term.namespaces.iter().flatten().map(|name| name.as_str().into()).collect();
    let selector = term.namespace_selector.as_ref();
    let selector = selector.map(|selector| selectors::label_selector(Some(selector)));
    match selector {
        None if named.is_empty() => TermNamespaces::Own,
        Some(selector) if selector.requirements.is_empty() => TermNamespaces::All,
        selector => TermNamespaces::Chosen { named, selector },
    }
}

/// Volume claims by name and those that are made for the pod.
pub fn volume_claims(pod: &view::Pod) -> Vec<Text> {
    let claims = pod.spec.volumes.iter().filter_map(|volume| {
        match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.as_str().into()),
            (None, Some(_)) => Some(format!("{}-{}", pod.metadata.name, volume.name).into()),
            (None, None) => None,
        }
    });
    claims.collect()
}

/// Config maps without which no container starts, but not those we make ourselves at binding.
fn config_maps(pod: &view::Pod) -> Vec<Text> {
    let containers = || pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let mounted: BTreeSet<&str> = containers()
        .flat_map(|container| &container.volume_mounts)
        .map(|mount| mount.name.as_str())
        .collect();
    let volumes = pod.spec.volumes.iter().filter(|volume| mounted.contains(volume.name.as_str()));
    let from_volumes = volumes.flat_map(|volume| {
        let projected = volume.projected.iter().flat_map(|projected| &projected.sources);
        volume.config_map.iter().chain(projected.filter_map(|source| source.config_map.as_ref()))
    });
    let from_environment = containers().flat_map(|container| {
        let each = container.env.iter().filter_map(|variable| variable.value_from.as_ref());
        let each = each.filter_map(|source| source.config_map_key_ref.as_ref());
        each.chain(container.env_from.iter().filter_map(|source| source.config_map_ref.as_ref()))
    });
    let ours = pod.metadata.annotations.get(gpu::SHARED_CONFIG_MAP).filter(|own| !own.is_empty());
    let needed: BTreeSet<&str> = from_volumes
        .chain(from_environment)
        .filter(|source| source.optional != Some(true) && !source.name.is_empty())
        .filter(|source| ours.is_none_or(|ours| !source.name.starts_with(ours.as_str())))
        .map(|source| source.name.as_str())
        .collect();
    needed.into_iter().map(Text::from).collect()
}
