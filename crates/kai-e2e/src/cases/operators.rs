//! Workloads of other people's operators: their pods, made as the operators make them, become one group and run.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, capped, pod, queue};
use crate::room::Room;

const ROLE: &str = "training.kubeflow.org/replica-type";
const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

pub(super) const CASES: &[(&str, Run)] = &[
    ("a JAXJob", |room| Box::pin(training(room, "v1", "JAXJob", "jax", &[("Worker", 2)]))),
    ("a TFJob", |room| Box::pin(training(room, "v1", "TFJob", "tf", &[("PS", 1), ("Worker", 2)]))),
    ("an XGBoostJob", |room| {
        Box::pin(training(room, "v1", "XGBoostJob", "xgb", &[("Master", 1), ("Worker", 2)]))
    }),
    ("an MPIJob", |room| {
        Box::pin(training(room, "v1", "MPIJob", "mpi", &[("Launcher", 1), ("Worker", 2)]))
    }),
    ("an MPIJob of version v2beta1", |room| {
        Box::pin(training(room, "v2beta1", "MPIJob", "mpi", &[("Launcher", 1), ("Worker", 2)]))
    }),
    ("a PyTorchJob", |room| {
        Box::pin(training(room, "v1", "PyTorchJob", "pytorch", &[("Master", 1), ("Worker", 2)]))
    }),
    ("an elastic PyTorchJob with too few pods", |room| {
        Box::pin(pytorch_not_ready(room, json!({"elasticPolicy": {"minReplicas": 2}})))
    }),
    ("a PyTorchJob with too few pods for its policy", |room| {
        let policy = json!({"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}});
        Box::pin(pytorch_not_ready(room, policy))
    }),
    ("a PyTorchJob of which only the master fits", |room| Box::pin(pytorch_master_only(room))),
    ("a JobSet, one job after the other", |room| Box::pin(job_set(room, "InOrder", 1))),
    ("a JobSet in any order", |room| Box::pin(job_set(room, "AnyOrder", 2))),
    ("an owner of a kind that nobody knows", |room| Box::pin(unknown_kind(room))),
];

/// A kind that somebody else would install, without a schema.
async fn install(room: &Room, group: &str, version: &str, kind: &str) -> anyhow::Result<()> {
    let plural = format!("{}s", kind.to_lowercase());
    let names = json!({"kind": kind, "plural": plural, "singular": kind.to_lowercase()});
    let versions: Vec<Value> = ["v1", "v2beta1", "v1alpha2"]
        .iter()
        .filter(|one| **one == version || (group == "kubeflow.org" && **one != "v1alpha2"))
        .map(|one| {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let schema = json!({"openAPIV3Schema": schema});
            json!({"name": one, "served": true, "storage": *one != "v2beta1", "schema": schema})
        })
        .collect();
    let name = format!("{plural}.{group}");
    let spec = json!({"group": group, "scope": "Namespaced", "names": names, "versions": versions});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let own = format!("{path}/{name}");
    if room.see(&own).await?.is_none() {
        // Another case may be faster.
        let _ = room.create(path, &definition).await;
    }
    let established = async || {
        let seen = room.see(&own).await?;
        Ok(seen.is_some_and(|seen| crate::room::has_condition(&seen, "Established", "True")))
    };
    room.until(&format!("{name} is established"), established).await
}

/// A workload of a kind, in the queue `q`.
async fn owner(
    room: &Room,
    (group, version, kind): (&str, &str, &str),
    spec: Value,
) -> anyhow::Result<Value> {
    install(room, group, version, kind).await?;
    let labels = room.pod_object(&pod("x", "q"))["metadata"]["labels"].clone();
    let api = format!("{group}/{version}");
    let metadata = json!({"name": "w", "labels": labels});
    let object = json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec});
    let plural = format!("{}s", kind.to_lowercase());
    let path = format!("/apis/{api}/namespaces/{}/{plural}", room.name);
    let made = async || Ok(room.create(&path, &object).await.is_ok());
    // A new kind is served a moment after it is established.
    room.until(&format!("a {kind} can be made"), made).await?;
    room.see(&format!("{path}/w")).await?.context("it was made")
}

/// A pod of the owner.
async fn member(room: &Room, owner: &Value, member: &Pod) -> anyhow::Result<()> {
    let mut object = room.pod_object(member);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    room.create(&format!("/api/v1/namespaces/{}/pods", room.name), &object).await.map(|_| ())
}

async fn start(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// The one group of the room.
async fn only_group(room: &Room) -> anyhow::Result<Value> {
    let groups = room.groups().await?;
    ensure!(groups.len() == 1, "{} groups", groups.len());
    Ok(groups[0].clone())
}

async fn training(
    room: &Room,
    version: &str,
    kind: &str,
    prefix: &str,
    roles: &[(&str, usize)],
) -> anyhow::Result<()> {
    start(room).await?;
    let mut specs = json!({});
    for (role, replicas) in roles {
        specs[*role] = json!({"replicas": replicas});
    }
    let spec = json!({format!("{prefix}ReplicaSpecs"): specs});
    let owner = owner(room, ("kubeflow.org", version, kind), spec).await?;
    let total: usize = roles.iter().map(|(_, replicas)| replicas).sum();
    for (role, replicas) in roles {
        for at in 0..*replicas {
            let role = role.to_lowercase();
            let named = pod(format!("w-{role}-{at}"), "q").cpu("100m").labelled(ROLE, &role);
            member(room, &owner, &named).await?;
        }
    }
    room.counts("w-", total, 0).await?;
    let group = only_group(room).await?;
    let needed = &group["spec"]["minMember"];
    ensure!(needed.is_null() || *needed == total, "{needed} of {total}");
    Ok(())
}

async fn pytorch(room: &Room, more: Value) -> anyhow::Result<Value> {
    let mut spec =
        json!({"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}});
    crate::objects::merge(&mut spec, more);
    owner(room, ("kubeflow.org", "v1", "PyTorchJob"), spec).await
}

async fn pytorch_not_ready(room: &Room, more: Value) -> anyhow::Result<()> {
    start(room).await?;
    let owner = pytorch(room, more).await?;
    let only = pod("w-worker-0", "q").cpu("100m").labelled(ROLE, "worker");
    member(room, &owner, &only).await?;
    room.event("pg-w", "NotReady").await.map(|_| ())
}

async fn pytorch_master_only(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q").cpu(capped(2000.0))).await?;
    room.start(&[]).await?;
    let policy = json!({"runPolicy": {"schedulingPolicy": {"minAvailable": 1}}});
    let owner = pytorch(room, policy).await?;
    for role in ["master", "worker"] {
        let named = pod(format!("w-{role}-0"), "q").cpu("1500m").labelled(ROLE, role);
        member(room, &owner, &named).await?;
    }
    room.counts("w-", 1, 1).await?;
    room.scheduled(&["w-master-0"]).await
}

async fn job_set(room: &Room, order: &str, needed: i32) -> anyhow::Result<()> {
    start(room).await?;
    let job = |name: &str, pods: i32| {
        let inner = json!({"spec": {"parallelism": pods, "completions": pods}});
        json!({"name": name, "replicas": 1, "template": inner})
    };
    let spec = json!({
        "startupPolicy": {"startupPolicyOrder": order},
        "replicatedJobs": [job("leader", 1), job("worker", 2)],
    });
    let owner = owner(room, ("jobset.x-k8s.io", "v1alpha2", "JobSet"), spec).await?;
    for (job, pods) in [("leader", 1), ("worker", 2)] {
        for at in 0..pods {
            let named = pod(format!("w-{job}-0-{at}"), "q").cpu("100m");
            let named = named.labelled(REPLICATED_JOB, job).labelled(JOB_INDEX, "0");
            member(room, &owner, &named).await?;
        }
    }
    room.counts("w-", 3, 0).await?;
    let group = only_group(room).await?;
    ensure!(group["spec"]["minSubGroup"] == needed, "{}", group["spec"]);
    let leaves = group["spec"]["subGroups"].as_array().cloned().unwrap_or_default();
    let workers = leaves.iter().find(|leaf| leaf["name"] == "worker-replica-0");
    ensure!(workers.is_some_and(|leaf| leaf["minMember"] == 2), "{leaves:?}");
    Ok(())
}

async fn unknown_kind(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let owner = owner(room, ("jobset.x-k8s.io", "v1", "Curiosity"), json!({})).await?;
    for at in 0..2 {
        member(room, &owner, &pod(format!("w-{at}"), "q").cpu("100m")).await?;
    }
    room.counts("w-", 2, 0).await
}
