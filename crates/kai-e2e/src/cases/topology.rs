//! Pods together in a rack or zone, under the placement strategy that spreads, as in KAI's suite.
//!
//! Changed throughout: the pods belong to a pod group with the constraint, KAI's to a Job with annotations; KAI plays the cases of
//! four nodes three times.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, queue};
use crate::room::Room;
use crate::settings;

pub(super) const CASES: &[(&str, Run)] = &[
    ("topology of 4 nodes: required rack", |room| {
        Box::pin(together(room, json!({"requiredTopologyLevel": "rack"}), 2, 4, "rack"))
    }),
    ("topology of 4 nodes: preferred rack", |room| {
        Box::pin(together(room, json!({"preferredTopologyLevel": "rack"}), 2, 4, "rack"))
    }),
    ("topology of 4 nodes: required rack, preferred node, half the GPUs", |room| {
        let both = json!({"requiredTopologyLevel": "rack", "preferredTopologyLevel": "kubernetes.io/hostname"});
        Box::pin(together(room, both, 2, 2, "kubernetes.io/hostname"))
    }),
    ("topology of 4 nodes: required rack, preferred node, full nodes", |room| {
        let both = json!({"requiredTopologyLevel": "rack", "preferredTopologyLevel": "kubernetes.io/hostname"});
        Box::pin(together(room, both, 2, 4, "rack"))
    }),
    ("topology of 8 nodes: required zone, preferred rack", |room| Box::pin(zone(room))),
    ("topology: a level named by its alias", |room| Box::pin(alias(room))),
];

async fn nodes(room: &Room, zones: usize) -> anyhow::Result<()> {
    for at in 0..4 * zones {
        let labels = json!({
            "zone": format!("z{}", at / 4), "rack": format!("r{}", at / 2),
            "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "11441",
        });
        room.node(&format!("n{at}"), labels, json!({"nvidia.com/gpu": "4"})).await?;
    }
    room.queue(&queue("q")).await
}

async fn topology(room: &Room) -> anyhow::Result<String> {
    let name = format!("{}-net", room.name);
    let levels = json!([{"nodeLabel": "zone"}, {"nodeLabel": "rack", "alias": "shelf"}, {"nodeLabel": "kubernetes.io/hostname"}]);
    let object = json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}});
    room.create("/apis/kai.scheduler/v1alpha1/topologies", &object).await?;
    Ok(name)
}

async fn gang(
    room: &Room,
    constraint: Value,
    pods: usize,
    gpus: u32,
) -> anyhow::Result<Vec<String>> {
    let mut constraint = constraint;
    constraint["topology"] = json!(topology(room).await?);
    let spec = json!({"minMember": pods, "topologyConstraint": constraint});
    room.group("g", "q", spec).await?;
    let member = |at| pod(format!("p-{at}"), "q").of_group("g").gpus(gpus);
    let members: Vec<Pod> = (0..pods).map(member).collect();
    room.pods(&members).await?;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    room.scheduled(&names).await?;
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(room.node_of(name).await?);
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
    room: &Room,
    constraint: Value,
    pods: usize,
    gpus: u32,
    level: &str,
) -> anyhow::Result<()> {
    nodes(room, 1).await?;
    room.start_as(&settings::spread(), &[]).await?;
    let nodes = gang(room, constraint, pods, gpus).await?;
    ensure!(domains(&nodes, level) == 1, "{nodes:?}");
    ensure!(level != "rack" || domains(&nodes, "node") > 1 || gpus < 4, "{nodes:?}");
    Ok(())
}

async fn zone(room: &Room) -> anyhow::Result<()> {
    nodes(room, 2).await?;
    room.start_as(&settings::spread(), &[]).await?;
    let both = json!({"requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"});
    let nodes = gang(room, both, 4, 4).await?;
    ensure!(domains(&nodes, "zone") == 1 && domains(&nodes, "rack") == 2, "{nodes:?}");
    Ok(())
}

async fn alias(room: &Room) -> anyhow::Result<()> {
    nodes(room, 1).await?;
    room.start_as(&settings::spread(), &[]).await?;
    let nodes = gang(room, json!({"requiredTopologyLevel": "shelf"}), 2, 4).await?;
    ensure!(domains(&nodes, "rack") == 1, "{nodes:?}");
    Ok(())
}
