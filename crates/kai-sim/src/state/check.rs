//! Names that refer to something must refer to something that exists, and names that distinguish things
//! must do so.

use std::collections::BTreeSet;

use super::cluster::{ClusterState, Job, Task};
use crate::format::{FormatError, SubGroup, TopologyConstraint};

/// Checks every name of the state. Jobs in queues with children are fine; schedulers ignore them.
pub(super) fn names(state: &ClusterState) -> Result<(), FormatError> {
    unique("cluster.topologies", state.topologies.iter().map(|topology| &topology.name))?;
    unique("cluster.nodes", state.nodes.iter().map(|node| &node.name))?;
    unique("cluster.queues", state.queues.iter().map(|queue| &queue.name))?;
    unique("cluster.jobs", state.jobs.iter().map(|job| &job.name))?;
    queues(state)?;
    for (position, slice) in state.resource_slices.iter().enumerate() {
        if let Some(node) = &slice.node {
            node_exists(state, node, || format!("cluster.resource_slices[{position}].node"))?;
        }
    }
    for (position, pod) in state.foreign_pods.iter().enumerate() {
        node_exists(state, &pod.node, || format!("cluster.foreign_pods[{position}].node"))?;
    }
    let mut known = BTreeSet::new();
    for (position, checked) in state.jobs.iter().enumerate() {
        job(state, checked, &format!("cluster.jobs[{position}]"))?;
        for (index, task) in checked.tasks.iter().enumerate() {
            if !known.insert(&task.name) {
                let path = format!("cluster.jobs[{position}].tasks[{index}].name");
                let message = format!("task `{}` exists already, expected another name", task.name);
                return Err(FormatError::new(path, message));
            }
        }
    }
    Ok(())
}

fn unique<'a>(path: &str, names: impl Iterator<Item = &'a String>) -> Result<(), FormatError> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            let message = format!("`{name}` exists twice, expected different names");
            return Err(FormatError::new(path, message));
        }
    }
    Ok(())
}

fn dangling(path: String, kind: &str, name: &str) -> FormatError {
    FormatError::new(path, format!("there is no {kind} `{name}`, expected one that exists"))
}

/// Every parent exists, and the parents of every queue end at a top queue.
pub(super) fn queues(state: &ClusterState) -> Result<(), FormatError> {
    for (position, queue) in state.queues.iter().enumerate() {
        let path = || format!("cluster.queues[{position}].parent");
        let mut above = queue.parent.as_deref();
        let mut steps = 0;
        while let Some(name) = above {
            let Some(parent) = state.queue(name) else {
                return Err(dangling(path(), "queue", name));
            };
            steps += 1;
            if steps > state.queues.len() {
                let message = format!("queue `{}` is above itself", queue.name);
                return Err(FormatError::new(path(), message));
            }
            above = parent.parent.as_deref();
        }
    }
    Ok(())
}

fn node_exists(
    state: &ClusterState,
    name: &str,
    path: impl FnOnce() -> String,
) -> Result<(), FormatError> {
    match state.node(name) {
        Some(_) => Ok(()),
        None => Err(dangling(path(), "node", name)),
    }
}

/// Checks the names one job uses; `path` is where it is written.
pub(super) fn job(state: &ClusterState, job: &Job, path: &str) -> Result<(), FormatError> {
    if state.queue(&job.queue).is_none() {
        return Err(dangling(format!("{path}.queue"), "queue", &job.queue));
    }
    sub_group(state, &job.sub_groups, &format!("{path}.sub_groups"))?;
    let pod_sets = job.sub_groups.all_pod_sets();
    unique(&format!("{path}.sub_groups"), pod_sets.iter().map(|pod_set| &pod_set.name))?;
    for (index, task) in job.tasks.iter().enumerate() {
        let path = format!("{path}.tasks[{index}]");
        if !pod_sets.iter().any(|pod_set| pod_set.name == task.sub_group) {
            return Err(dangling(format!("{path}.sub_group"), "sub-group", &task.sub_group));
        }
        task_names(state, job, task, &path)?;
    }
    Ok(())
}

fn task_names(state: &ClusterState, job: &Job, task: &Task, path: &str) -> Result<(), FormatError> {
    if let Some(node) = &task.node {
        node_exists(state, node, || format!("{path}.node"))?;
    }
    if let Some(request) = &task.bind_request {
        node_exists(state, &request.node, || format!("{path}.bind_request.node"))?;
    }
    if let Some(crate::format::GpuRequest::Claims(claims)) = &task.request.gpu {
        for (position, name) in claims.iter().enumerate() {
            let is_it = |claim: &crate::format::ResourceClaim| {
                claim.name == *name && claim.namespace == job.namespace
            };
            if !state.resource_claims.iter().any(is_it) {
                let kind = format!("claim in namespace `{}` called", job.namespace);
                let path = format!("{path}.request.gpu.claims[{position}]");
                return Err(dangling(path, &kind, name));
            }
        }
    }
    Ok(())
}

fn sub_group(state: &ClusterState, group: &SubGroup, path: &str) -> Result<(), FormatError> {
    topology(state, group.topology.as_ref(), path)?;
    for (position, pod_set) in group.pod_sets.iter().enumerate() {
        topology(state, pod_set.topology.as_ref(), &format!("{path}.pod_sets[{position}]"))?;
    }
    for (position, below) in group.groups.iter().enumerate() {
        sub_group(state, below, &format!("{path}.groups[{position}]"))?;
    }
    Ok(())
}

fn topology(
    state: &ClusterState,
    constraint: Option<&TopologyConstraint>,
    path: &str,
) -> Result<(), FormatError> {
    let Some(constraint) = constraint else { return Ok(()) };
    // A constraint that names no topology constrains nothing.
    let known = state.topologies.iter().any(|topology| topology.name == constraint.topology);
    if known || constraint.topology.is_empty() {
        return Ok(());
    }
    Err(dangling(format!("{path}.topology.topology"), "topology", &constraint.topology))
}
