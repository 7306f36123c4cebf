//! Sets of jobs and groups, and kinds that nobody knows.
//!
//! Changed throughout: no operator runs, the cases make the pods as the operators make them.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::{groups_of_pods, only_group, start};
use crate::foreign::{self, Kind, member};
use crate::objects::pod;
use crate::room::Room;

const JOB_SET: Kind = Kind::new("jobset.x-k8s.io", &["v1alpha2"], "JobSet");
const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
const LEADER_WORKER_SET: Kind = Kind::new("leaderworkerset.x-k8s.io", &["v1"], "LeaderWorkerSet");
const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
const CURIOSITY: Kind = Kind::new("example.com", &["v1"], "Curiosity");
const CUSTOM_JOB: Kind = Kind::new("example.com", &["v1"], "CustomJob");
const KARTA: Kind =
    Kind { group: "run.ai", versions: &["v1alpha1"], kind: "Karta", cluster_wide: true };

pub(super) const CASES: &[(&str, Run)] = &[
    ("a JobSet, one job after the other", |room| {
        Box::pin(job_set(room, "InOrder", &[("leader", 1, 1), ("worker", 1, 2)], 1))
    }),
    ("a JobSet in any order", |room| {
        Box::pin(job_set(room, "AnyOrder", &[("leader", 1, 1), ("worker", 1, 2)], 2))
    }),
    ("a JobSet: a replica needs its parallelism", |room| {
        Box::pin(job_set(room, "AnyOrder", &[("worker", 1, 3)], 1))
    }),
    ("a JobSet of several jobs and replicas", |room| {
        Box::pin(job_set(room, "AnyOrder", &[("a", 1, 1), ("b", 2, 2), ("c", 1, 1)], 3))
    }),
    ("a LeaderWorkerSet of two groups", |room| Box::pin(leader_worker_set(room))),
    ("a LeaderWorkerSet whose leaders start first", |room| Box::pin(leader_first(room))),
    ("an owner of a kind that nobody knows", |room| Box::pin(unknown_kind(room))),
    ("a kind that a Karta describes", |room| Box::pin(karta(room))),
];

/// Name, replicas and parallelism.
type ReplicatedJob = (&'static str, usize, usize);

async fn job_set(
    room: &Room,
    order: &str,
    jobs: &[ReplicatedJob],
    needed: usize,
) -> anyhow::Result<()> {
    start(room).await?;
    let replicated: Vec<Value> = jobs
        .iter()
        .map(|(name, replicas, pods)| {
            let inner = json!({"spec": {"parallelism": pods, "completions": pods}});
            json!({"name": name, "replicas": replicas, "template": inner})
        })
        .collect();
    let spec =
        json!({"startupPolicy": {"startupPolicyOrder": order}, "replicatedJobs": replicated});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let owner = foreign::make(room, &JOB_SET, object).await?;
    let mut leaves = Vec::new();
    for (job, replicas, pods) in jobs {
        for replica in 0..*replicas {
            leaves.push((format!("{job}-replica-{replica}"), *pods));
            for at in 0..*pods {
                let named = pod(format!("w-{job}-{replica}-{at}"), "q").cpu("100m");
                let named = named.labelled(REPLICATED_JOB, job);
                member(room, &owner, &named.labelled(JOB_INDEX, &replica.to_string())).await?;
            }
        }
    }
    room.counts("w-", leaves.iter().map(|(_, pods)| pods).sum(), 0).await?;
    let group = only_group(room).await?;
    ensure!(group["spec"]["minSubGroup"] == needed, "{}", group["spec"]);
    ensure_leaves(&group, &leaves)
}

/// The group has these leaves of these sizes.
fn ensure_leaves(group: &Value, leaves: &[(String, usize)]) -> anyhow::Result<()> {
    let known = group["spec"]["subGroups"].as_array().cloned().unwrap_or_default();
    for (name, pods) in leaves {
        let leaf = known.iter().find(|leaf| leaf["name"] == name.as_str());
        ensure!(leaf.is_some_and(|leaf| leaf["minMember"] == *pods), "{name}: {known:?}");
    }
    Ok(())
}

/// Makes the leader of a group, then its workers: the leader owns them.
async fn leader(room: &Room, set: &Value, group: usize) -> anyhow::Result<Value> {
    let name = format!("w-{group}");
    let named = pod(name.as_str(), "q").cpu("100m").labelled(GROUP_INDEX, &group.to_string());
    member(room, set, &named.labelled(WORKER_INDEX, "0")).await?;
    let mut made = room.see_pod(&name).await?.unwrap_or_default();
    (made["apiVersion"], made["kind"]) = (json!("v1"), json!("Pod"));
    Ok(made)
}

async fn workers(room: &Room, leader: &Value, group: usize) -> anyhow::Result<()> {
    for worker in 1..3 {
        let named = pod(format!("w-{group}-{worker}"), "q").cpu("100m");
        let named = named.labelled(GROUP_INDEX, &group.to_string());
        member(room, leader, &named.labelled(WORKER_INDEX, &worker.to_string())).await?;
    }
    Ok(())
}

async fn leader_worker_set(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let spec = json!({"replicas": 2, "leaderWorkerTemplate": {"size": 3}});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let set = foreign::make(room, &LEADER_WORKER_SET, object).await?;
    for group in 0..2 {
        let leader = leader(room, &set, group).await?;
        workers(room, &leader, group).await?;
    }
    room.counts("w-", 6, 0).await?;
    let groups = room.groups().await?;
    ensure!(groups.len() == 2, "{} groups", groups.len());
    ensure!(groups.iter().all(|group| group["spec"]["minMember"] == 3), "{groups:?}");
    Ok(())
}

async fn leader_first(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let spec =
        json!({"startupPolicy": "LeaderReady", "replicas": 1, "leaderWorkerTemplate": {"size": 3}});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let set = foreign::make(room, &LEADER_WORKER_SET, object).await?;
    let leader = leader(room, &set, 0).await?;
    room.ready(&["w-0"]).await?;
    workers(room, &leader, 0).await?;
    room.counts("w-", 3, 0).await?;
    let whole = async || Ok(only_group(room).await?["spec"]["minMember"] == 3);
    room.until("the group needs all", whole).await
}

async fn unknown_kind(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    foreign::permit(room, &CURIOSITY).await?;
    let owner = foreign::make(room, &CURIOSITY, json!({"metadata": {"name": "w"}})).await?;
    for at in 0..2 {
        member(room, &owner, &pod(format!("w-{at}"), "q").cpu("100m")).await?;
    }
    room.counts("w-", 2, 0).await?;
    let one = async || Ok(groups_of_pods(room, "w-").await? == 1);
    room.until("its pods have one group", one).await
}

async fn karta(room: &Room) -> anyhow::Result<()> {
    let component = |name: &str| {
        json!({
            "name": name, "ownerRef": "customjob",
            "scaleDefinition": {"replicasPath": format!(".spec.{name}.replicas")},
            "podSelector": {"componentTypeSelector": {"keyPath": ".metadata.labels[\"example.com/role\"]", "value": name}},
        })
    };
    let names = ["coordinator", "worker"];
    let kind = json!({"group": "example.com", "version": "v1", "kind": "CustomJob"});
    let structure = json!({
        "rootComponent": {"name": "customjob", "kind": kind, "statusDefinition": {}},
        "childComponents": names.map(component),
    });
    let parts = names.map(|name| json!({"componentName": name}));
    let gang = json!({"gangScheduling": {"podGroup": {"name": "customjob", "subGroups": parts}}});
    let labels = json!({"run.ai/karta-group": "example.com", "run.ai/karta-version": "v1", "run.ai/karta-kind": "CustomJob"});
    let spec = json!({"structureDefinition": structure, "optimizationInstructions": gang});
    let description = json!({"metadata": {"name": "custom-job", "labels": labels}, "spec": spec});
    foreign::make(room, &KARTA, description).await?;
    foreign::permit(room, &CUSTOM_JOB).await?;
    start(room).await?;
    let spec = json!({"coordinator": {"replicas": 1}, "worker": {"replicas": 2}});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let owner = foreign::make(room, &CUSTOM_JOB, object).await?;
    for (role, count) in [("coordinator", 1), ("worker", 2)] {
        for at in 0..count {
            let named = pod(format!("w-{role}-{at}"), "q").cpu("100m");
            member(room, &owner, &named.labelled("example.com/role", role)).await?;
        }
    }
    room.counts("w-", 3, 0).await?;
    let group = only_group(room).await?;
    let name = format!("pg-{}-customjob", owner["metadata"]["uid"].as_str().unwrap_or_default());
    ensure!(group["metadata"]["name"] == name.as_str(), "{}", group["metadata"]["name"]);
    ensure!(group["spec"]["minSubGroup"] == 2, "{}", group["spec"]);
    ensure_leaves(&group, &[("coordinator".to_owned(), 1), ("worker".to_owned(), 2)])
}
