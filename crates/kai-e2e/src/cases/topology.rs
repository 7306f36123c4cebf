//! Pods together in a rack or zone, under the placement strategy that spreads, as in KAI's suite.
//!
//! Changed throughout: the pods belong to a pod group with the constraint, KAI's to a Job with annotations; KAI plays the cases of
//! four nodes three times.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, queue};
use crate::settings;
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("topology of 4 nodes: required rack", |space| {
        Box::pin(together(space, json!({"requiredTopologyLevel": "rack"}), 2, 4, "rack"))
    }),
    ("topology of 4 nodes: preferred rack", |space| {
        Box::pin(together(space, json!({"preferredTopologyLevel": "rack"}), 2, 4, "rack"))
    }),
    ("topology of 4 nodes: required rack, preferred node, half the GPUs", |space| {
        let both = json!({"requiredTopologyLevel": "rack", "preferredTopologyLevel": "kubernetes.io/hostname"});
        Box::pin(together(space, both, 2, 2, "kubernetes.io/hostname"))
    }),
    ("topology of 4 nodes: required rack, preferred node, full nodes", |space| {
        let both = json!({"requiredTopologyLevel": "rack", "preferredTopologyLevel": "kubernetes.io/hostname"});
        Box::pin(together(space, both, 2, 4, "rack"))
    }),
    ("topology of 8 nodes: required zone, preferred rack", |space| Box::pin(zone(space))),
    ("topology: a level named by its alias", |space| Box::pin(alias(space))),
];

async fn nodes(space: &TestSpace, zones: usize) -> anyhow::Result<()> {
    for at in 0..4 * zones {
        let labels = json!({
            "zone": format!("z{}", at / 4), "rack": format!("r{}", at / 2),
            "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "11441",
        });
        space.node(&format!("n{at}"), labels, json!({"nvidia.com/gpu": "4"})).await?;
    }
    space.queue(&queue("q")).await
}

async fn topology(space: &TestSpace) -> anyhow::Result<String> {
    let name = format!("{}-net", space.name);
    let levels = json!([{"nodeLabel": "zone"}, {"nodeLabel": "rack", "alias": "shelf"}, {"nodeLabel": "kubernetes.io/hostname"}]);
    let object = json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}});
    space.create("/apis/kai.scheduler/v1alpha1/topologies", &object).await?;
    Ok(name)
}

async fn gang(
    space: &TestSpace,
    constraint: Value,
    pods: usize,
    gpus: u32,
) -> anyhow::Result<Vec<String>> {
    let mut constraint = constraint;
    constraint["topology"] = json!(topology(space).await?);
    let spec = json!({"minMember": pods, "topologyConstraint": constraint});
    space.group("g", "q", spec).await?;
    let member = |at| pod(format!("p-{at}"), "q").of_group("g").gpus(gpus);
    let members: Vec<Pod> = (0..pods).map(member).collect();
    space.pods(&members).await?;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    space.scheduled(&names).await?;
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(space.node_of(name).await?);
    }
    Ok(nodes)
}

/// In how many domains of a level the nodes are.
fn domains(nodes: &[String], level: &str) -> usize {
    let domain = |node: &String| {
        let number: usize = node.trim_start_matches('n').parse().unwrap_or_default();
        match level {
            "zone" => number / 4,
            "rack" => number / 2,
            _ => number,
        }
    };
    nodes.iter().map(domain).collect::<BTreeSet<_>>().len()
}

async fn together(
    space: &TestSpace,
    constraint: Value,
    pods: usize,
    gpus: u32,
    level: &str,
) -> anyhow::Result<()> {
    nodes(space, 1).await?;
    space.start_as(&settings::spread(), &[]).await?;
    let nodes = gang(space, constraint, pods, gpus).await?;
    ensure!(domains(&nodes, level) == 1, "{nodes:?}");
    ensure!(level != "rack" || domains(&nodes, "node") > 1 || gpus < 4, "{nodes:?}");
    Ok(())
}

async fn zone(space: &TestSpace) -> anyhow::Result<()> {
    nodes(space, 2).await?;
    space.start_as(&settings::spread(), &[]).await?;
    let both = json!({"requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"});
    let nodes = gang(space, both, 4, 4).await?;
    ensure!(domains(&nodes, "zone") == 1 && domains(&nodes, "rack") == 2, "{nodes:?}");
    Ok(())
}

async fn alias(space: &TestSpace) -> anyhow::Result<()> {
    nodes(space, 1).await?;
    space.start_as(&settings::spread(), &[]).await?;
    let nodes = gang(space, json!({"requiredTopologyLevel": "shelf"}), 2, 4).await?;
    ensure!(domains(&nodes, "rack") == 1, "{nodes:?}");
    Ok(())
}
