//! Trees of sub-groups: how many of them, and how many pods of each, must run together.

use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, capped, pod, queue};
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("min sub-groups: met", |space| Box::pin(four_leaves(space, 3, None, (8, 0)))),
    ("min sub-groups: constrained", |space| Box::pin(four_leaves(space, 3, Some("200m"), (6, 2)))),
    ("min sub-groups: unsatisfiable", |space| {
        Box::pin(four_leaves(space, 4, Some("500m"), (0, 8)))
    }),
    ("min sub-groups of two levels: all met", |space| Box::pin(two_levels(space, None, (10, 0)))),
    ("min sub-groups of two levels: a child cannot be met", |space| {
        Box::pin(two_levels(space, Some("700m"), (0, 10)))
    }),
    ("min sub-groups of two levels: the middle is elastic", |space| {
        Box::pin(elastic_middle(space))
    }),
    ("without min sub-groups: two of each", |space| Box::pin(members_only(space, 2, (6, 0)))),
    ("without min sub-groups: one sub-group fails", |space| Box::pin(one_fails(space))),
    ("without min sub-groups: only members count", |space| Box::pin(only_members(space))),
    ("an optional subtree runs where capacity is free", |space| {
        Box::pin(optional_subtree(space, None, (2, 0)))
    }),
    ("an optional subtree waits where there is none", |space| {
        Box::pin(optional_subtree(space, Some("200m"), (0, 2)))
    }),
    ("sub-groups: a part is allocated", |space| Box::pin(partial(space))),
    ("sub-groups: two jobs are balanced", |space| Box::pin(balanced(space))),
    ("sub-groups: a gang that is not satisfied waits", |space| Box::pin(unsatisfied(space))),
];

/// A queue of so many thousandths of a core, some of it taken.
async fn start(space: &TestSpace, milli: f64, filler: Option<&str>) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q").cpu(capped(milli))).await?;
    space.start(&[]).await?;
    if let Some(cpu) = filler {
        space.pod(&pod("filler", "q").cpu(cpu)).await?;
        space.scheduled(&["filler"]).await?;
    }
    Ok(())
}

fn leaf(name: &str, parent: Option<&str>, members: i32) -> Value {
    let mut leaf = json!({"name": name, "minMember": members});
    if let Some(parent) = parent {
        leaf["parent"] = json!(parent);
    }
    leaf
}

fn branch(name: &str, needed: i32) -> Value {
    json!({"name": name, "minSubGroup": needed})
}

fn members(group: &str, leaf: &str, count: usize) -> Vec<Pod> {
    let member = |at| {
        pod(format!("p-{group}-{leaf}-{at}"), "q").of_group(group).of_sub_group(leaf).cpu("100m")
    };
    (0..count).map(member).collect()
}

async fn four_leaves(
    space: &TestSpace,
    needed: i32,
    filler: Option<&str>,
    (placed, waiting): (usize, usize),
) -> anyhow::Result<()> {
    start(space, 800.0, filler).await?;
    let leaves: Vec<Value> = (0..4).map(|at| leaf(&format!("l{at}"), None, 2)).collect();
    for at in 0..4 {
        space.pods(&members("g", &format!("l{at}"), 2)).await?;
    }
    space.group("g", "q", json!({"minSubGroup": needed, "subGroups": leaves})).await?;
    space.counts("p-", placed, waiting).await
}

async fn two_levels(
    space: &TestSpace,
    filler: Option<&str>,
    (placed, waiting): (usize, usize),
) -> anyhow::Result<()> {
    start(space, 1000.0, filler).await?;
    let mut tree = Vec::new();
    for half in ["decode", "prefill"] {
        tree.push(branch(half, 2));
        tree.push(leaf(&format!("{half}-leaders"), Some(half), 1));
        tree.push(leaf(&format!("{half}-workers"), Some(half), 4));
    }
    for half in ["decode", "prefill"] {
        space.pods(&members("g", &format!("{half}-leaders"), 1)).await?;
        space.pods(&members("g", &format!("{half}-workers"), 4)).await?;
    }
    space.group("g", "q", json!({"minSubGroup": 2, "subGroups": tree})).await?;
    space.counts("p-", placed, waiting).await
}

async fn elastic_middle(space: &TestSpace) -> anyhow::Result<()> {
    start(space, 1000.0, Some("400m")).await?;
    let mut tree = Vec::new();
    for at in 0..3 {
        let name = format!("replica{at}");
        tree.push(branch(&name, 2));
        tree.push(leaf(&format!("{name}-leader"), Some(&name), 1));
        tree.push(leaf(&format!("{name}-worker"), Some(&name), 2));
    }
    for at in 0..3 {
        space.pods(&members("g", &format!("replica{at}-leader"), 1)).await?;
        space.pods(&members("g", &format!("replica{at}-worker"), 2)).await?;
    }
    space.group("g", "q", json!({"minSubGroup": 2, "subGroups": tree})).await?;
    space.counts("p-", 6, 3).await
}

async fn members_only(
    space: &TestSpace,
    each: i32,
    (placed, waiting): (usize, usize),
) -> anyhow::Result<()> {
    start(space, 600.0, None).await?;
    let leaves = [leaf("sub-1", None, each), leaf("sub-2", None, each)];
    space.pods(&members("g", "sub-1", 3)).await?;
    space.pods(&members("g", "sub-2", 3)).await?;
    space.group("g", "q", json!({"minMember": 2 * each, "subGroups": leaves})).await?;
    space.counts("p-", placed, waiting).await
}

async fn one_fails(space: &TestSpace) -> anyhow::Result<()> {
    start(space, 600.0, None).await?;
    let leaves = [leaf("sub-1", None, 2), leaf("sub-2", None, 5)];
    space.pods(&members("g", "sub-1", 3)).await?;
    space.pods(&members("g", "sub-2", 3)).await?;
    space.group("g", "q", json!({"minMember": 7, "subGroups": leaves})).await?;
    space.not_ready_event("g").await?;
    let pods = space.pods_named("p-").await?;
    anyhow::ensure!(pods.iter().all(|pod| pod["spec"]["nodeName"].is_null()));
    Ok(())
}

async fn only_members(space: &TestSpace) -> anyhow::Result<()> {
    start(space, 600.0, None).await?;
    space.group("g", "q", json!({"minMember": 2})).await?;
    let member = |at: usize| pod(format!("p-{at}"), "q").of_group("g").cpu("100m");
    space.pods(&(0..3).map(member).collect::<Vec<_>>()).await?;
    space.counts("p-", 3, 0).await
}

async fn optional_subtree(
    space: &TestSpace,
    filler: Option<&str>,
    (placed, waiting): (usize, usize),
) -> anyhow::Result<()> {
    start(space, 400.0, filler).await?;
    let tree = [
        branch("required", 2),
        leaf("required-1", Some("required"), 1),
        leaf("required-2", Some("required"), 1),
        branch("optional", 0),
        leaf("optional-1", Some("optional"), 1),
        leaf("optional-2", Some("optional"), 1),
    ];
    for leaf in ["required-1", "required-2", "optional-1", "optional-2"] {
        space.pods(&members("g", leaf, 1)).await?;
    }
    space.group("g", "q", json!({"minSubGroup": 2, "subGroups": tree})).await?;
    space.counts("p-g-required", 2, 0).await?;
    space.counts("p-g-optional", placed, waiting).await
}

async fn partial(space: &TestSpace) -> anyhow::Result<()> {
    start(space, 600.0, None).await?;
    let leaves = [leaf("sub-1", None, 3), leaf("sub-2", None, 3)];
    space.pods(&members("g", "sub-1", 5)).await?;
    space.pods(&members("g", "sub-2", 5)).await?;
    space.group("g", "q", json!({"minMember": 6, "subGroups": leaves})).await?;
    space.counts("p-g-sub-1", 3, 2).await?;
    space.counts("p-g-sub-2", 3, 2).await
}

async fn balanced(space: &TestSpace) -> anyhow::Result<()> {
    start(space, 0.0, None).await?;
    for group in ["g", "h"] {
        let leaves = [leaf("sub-1", None, 1), leaf("sub-2", None, 1)];
        space.group(group, "q", json!({"minMember": 2, "subGroups": leaves})).await?;
        space.pods(&members(group, "sub-1", 3)).await?;
        space.pods(&members(group, "sub-2", 3)).await?;
    }
    space.counts("p-", 0, 12).await?;
    let cpu = json!({"quota": 600, "limit": 600});
    space.change_queue("q", json!({"resources": {"cpu": cpu}})).await?;
    for group in ["g", "h"] {
        space.counts(&format!("p-{group}-"), 3, 3).await?;
        for leaf in ["sub-1", "sub-2"] {
            let pods = space.pods_named(&format!("p-{group}-{leaf}")).await?;
            anyhow::ensure!(pods.iter().any(|pod| !pod["spec"]["nodeName"].is_null()), "{leaf}");
        }
    }
    Ok(())
}

async fn unsatisfied(space: &TestSpace) -> anyhow::Result<()> {
    start(space, 600.0, None).await?;
    for (group, counts) in [("g", (6, 0)), ("h", (0, 6))] {
        let leaves = [leaf("sub-1", None, 2), leaf("sub-2", None, 2)];
        space.pods(&members(group, "sub-1", 3)).await?;
        space.pods(&members(group, "sub-2", 3)).await?;
        space.group(group, "q", json!({"minMember": 4, "subGroups": leaves})).await?;
        space.counts(&format!("p-{group}-"), counts.0, counts.1).await?;
    }
    Ok(())
}
