//! Sets of jobs and groups, and unknown kinds.
//!
//! Changed throughout: no operator runs, the cases make what the operators make: Jobs of a `JobSet`, pods of a
//! `LeaderWorkerSet`. The `StatefulSets` between a `LeaderWorkerSet` and its pods are left out.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::{all_ready, groups_of_pods, job, only_group, start, start_with_gpus};
use crate::foreign::{self, Kind, dependent, member, owned_by, referring_to};
use crate::objects::pod;
use crate::test_space::TestSpace;

const JOB_SET: Kind = Kind::new("jobset.x-k8s.io", &["v1alpha2"], "JobSet");
const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
const LEADER_WORKER_SET: Kind = Kind::new("leaderworkerset.x-k8s.io", &["v1"], "LeaderWorkerSet");
const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
const CURIOSITY: Kind = Kind::new("example.com", &["v1"], "Curiosity");
const READABLE: Kind = Kind::new("example.com", &["v1"], "Rarity");
const CUSTOM_JOB: Kind = Kind::new("example.com", &["v1"], "CustomJob");
/// The label that says which component of a `CustomJob` a pod is.
const KARTA_ROLE: &str = "example.com/role";
const KARTA: Kind =
    Kind { group: "run.ai", versions: &["v1alpha1"], kind: "Karta", cluster_wide: true };

pub(super) const CASES: &[(&str, Run)] = &[
    ("a JobSet, one job after the other", |space| {
        Box::pin(job_set(space, Some("InOrder"), &[("job1", 1, 1), ("job2", 1, 1)], 1))
    }),
    ("a JobSet in any order", |space| {
        Box::pin(job_set(space, Some("AnyOrder"), &[("job1", 1, 1), ("job2", 1, 1)], 2))
    }),
    ("a JobSet: a replica needs its parallelism", |space| {
        Box::pin(job_set(space, None, &[("worker", 1, 8)], 1))
    }),
    ("a JobSet of several jobs and replicas", |space| {
        Box::pin(job_set(space, Some("AnyOrder"), &[("a", 1, 2), ("b", 2, 2), ("c", 1, 1)], 3))
    }),
    ("a LeaderWorkerSet of two groups", |space| Box::pin(leader_worker_set(space))),
    ("a LeaderWorkerSet whose leaders start first", |space| Box::pin(leader_first(space))),
    ("an owner of an unknown kind", |space| Box::pin(unknown_kind(space))),
    ("an owner of a kind that the pod grouper may read", |space| Box::pin(permitted_kind(space))),
    ("a kind that a Karta describes", |space| Box::pin(karta(space))),
];

/// Name, replicas and parallelism.
type ReplicatedJob = (&'static str, usize, usize);

/// Makes a `JobSet` and its Jobs; in order, each Job comes when the one before it runs.
async fn job_set(
    space: &TestSpace,
    order: Option<&str>,
    jobs: &[ReplicatedJob],
    needed: usize,
) -> anyhow::Result<()> {
    start(space).await?;
    let replicated: Vec<Value> = jobs
        .iter()
        .map(|(name, replicas, pods)| {
            let inner = json!({"spec": {"parallelism": pods, "completions": pods}});
            json!({"name": name, "replicas": replicas, "template": inner})
        })
        .collect();
    let mut spec = json!({"replicatedJobs": replicated});
    if let Some(order) = order {
        spec["startupPolicy"] = json!({"startupPolicyOrder": order});
    }
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let owner = foreign::make(space, &JOB_SET, object).await?;
    let mut tree = Vec::new();
    for (name, replicas, pods) in jobs {
        tree.push(json!({"name": name, "minSubGroup": replicas}));
        for replica in 0..*replicas {
            let leaf = format!("{name}-replica-{replica}");
            tree.push(json!({"name": leaf, "parent": name, "minMember": pods}));
            replicated_job(space, &owner, name, replica, *pods).await?;
        }
        if order == Some("InOrder") {
            space.counts(&format!("w-{name}-"), replicas * pods, 0).await?;
        }
    }
    space.counts("w-", jobs.iter().map(|(_, replicas, pods)| replicas * pods).sum(), 0).await?;
    let group = only_group(space).await?;
    let uid = owner["metadata"]["uid"].as_str().unwrap_or_default();
    ensure!(group["metadata"]["name"] == format!("pg-w-{uid}"), "{}", group["metadata"]["name"]);
    ensure!(group["spec"]["minSubGroup"] == needed, "{}", group["spec"]);
    has_tree(&group, &tree)
}

/// A Job of a `JobSet`, with the labels that its operator gives to pods.
async fn replicated_job(
    space: &TestSpace,
    owner: &Value,
    name: &str,
    replica: usize,
    pods: usize,
) -> anyhow::Result<()> {
    let member = pod("x", "q").labelled("jobset.sigs.k8s.io/jobset-name", "w");
    let member = member.labelled(REPLICATED_JOB, name).labelled(JOB_INDEX, &replica.to_string());
    let mut object = job(space, &format!("w-{name}-{replica}"), &member);
    object["metadata"]["ownerReferences"] = owned_by(owner);
    object["spec"]["parallelism"] = json!(pods);
    object["spec"]["completions"] = json!(pods);
    let path = format!("/apis/batch/v1/namespaces/{}/jobs", space.name);
    space.create(&path, &object).await.map(|_| ())
}

/// The group has no minimum of members at its root, and exactly these sub-groups.
fn has_tree(group: &Value, tree: &[Value]) -> anyhow::Result<()> {
    ensure!(group["spec"]["minMember"].is_null(), "{}", group["spec"]);
    let known = group["spec"]["subGroups"].as_array().cloned().unwrap_or_default();
    ensure!(known.len() == tree.len(), "{known:?}");
    for wanted in tree {
        let found = known.iter().find(|one| one["name"] == wanted["name"]);
        let same = |found: &Value| {
            ["parent", "minMember", "minSubGroup"].iter().all(|key| found[*key] == wanted[*key])
        };
        ensure!(found.is_some_and(same), "{wanted}: {known:?}");
    }
    Ok(())
}

/// Makes the leader of a group, then its workers: the leader owns them.
async fn leader(space: &TestSpace, set: &Value, group: usize) -> anyhow::Result<Value> {
    let name = format!("w-{group}");
    let named = pod(name.as_str(), "q").gpus(1).labelled(GROUP_INDEX, &group.to_string());
    member(space, set, &named.labelled(WORKER_INDEX, "0")).await?;
    let mut made = space.see_pod(&name).await?.unwrap_or_default();
    (made["apiVersion"], made["kind"]) = (json!("v1"), json!("Pod"));
    Ok(made)
}

async fn workers(space: &TestSpace, leader: &Value, group: usize) -> anyhow::Result<()> {
    for worker in 1..3 {
        let named = pod(format!("w-{group}-{worker}"), "q").gpus(1);
        let named = named.labelled(GROUP_INDEX, &group.to_string());
        member(space, leader, &named.labelled(WORKER_INDEX, &worker.to_string())).await?;
    }
    Ok(())
}

async fn two_groups(space: &TestSpace, policy: &str) -> anyhow::Result<Value> {
    start_with_gpus(space).await?;
    let spec = json!({"startupPolicy": policy, "replicas": 2, "leaderWorkerTemplate": {"size": 3}});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    foreign::make(space, &LEADER_WORKER_SET, object).await
}

/// Six pods are ready, in two groups of three.
async fn two_groups_of_three(space: &TestSpace) -> anyhow::Result<()> {
    all_ready(space, "w-", 6).await?;
    let whole = async || {
        let groups = space.groups().await?;
        Ok(groups.len() == 2 && groups.iter().all(|group| group["spec"]["minMember"] == 3))
    };
    space.until("both groups need all their pods", whole).await
}

async fn leader_worker_set(space: &TestSpace) -> anyhow::Result<()> {
    let set = two_groups(space, "LeaderCreated").await?;
    for group in 0..2 {
        let leader = leader(space, &set, group).await?;
        workers(space, &leader, group).await?;
    }
    two_groups_of_three(space).await
}

async fn leader_first(space: &TestSpace) -> anyhow::Result<()> {
    let set = two_groups(space, "LeaderReady").await?;
    let leaders = [leader(space, &set, 0).await?, leader(space, &set, 1).await?];
    space.ready(&["w-0", "w-1"]).await?;
    for (group, leader) in leaders.iter().enumerate() {
        workers(space, leader, group).await?;
    }
    two_groups_of_three(space).await
}

/// The pod grouper has no right to read the owner.
async fn unknown_kind(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let owner =
        foreign::make_unlabelled(space, &CURIOSITY, json!({"metadata": {"name": "w"}})).await?;
    dependent(space, &owner, &pod("w-0", "q")).await?;
    all_ready(space, "w-", 1).await?;
    space.until("the pod has a group", async || Ok(groups_of_pods(space, "w-").await? == 1)).await
}

async fn permitted_kind(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    foreign::permit(space, &READABLE).await?;
    let owner = foreign::make(space, &READABLE, json!({"metadata": {"name": "w"}})).await?;
    for at in 0..2 {
        member(space, &owner, &pod(format!("w-{at}"), "q").cpu("100m")).await?;
    }
    space.counts("w-", 2, 0).await?;
    let one = async || Ok(groups_of_pods(space, "w-").await? == 1);
    space.until("its pods have one group", one).await
}

async fn karta(space: &TestSpace) -> anyhow::Result<()> {
    let component = |name: &str| {
        json!({
            "name": name, "ownerRef": "customjob",
            "specDefinition": {"podTemplateSpecPath": format!(".spec.{name}.template")},
            "scaleDefinition": {"replicasPath": format!(".spec.{name}.replicas")},
            "podSelector": {"componentTypeSelector": {"keyPath": format!(".metadata.labels[\"{KARTA_ROLE}\"]"), "value": name}},
        })
    };
    let names = ["coordinator", "worker"];
    let kind = json!({"group": "example.com", "version": "v1", "kind": "CustomJob"});
    let structure = json!({
        "rootComponent": {"name": "customjob", "kind": kind, "statusDefinition": {"statusMappings": {}}},
        "childComponents": names.map(component),
    });
    let parts = names.map(|name| json!({"componentName": name}));
    let gang = json!({"gangScheduling": {"podGroup": {"name": "customjob", "subGroups": parts}}});
    let labels = json!({"run.ai/karta-group": "example.com", "run.ai/karta-version": "v1", "run.ai/karta-kind": "CustomJob"});
    let spec = json!({"structureDefinition": structure, "optimizationInstructions": gang});
    let description = json!({"metadata": {"name": "custom-job", "labels": labels}, "spec": spec});
    foreign::install(space, &KARTA).await?;
    foreign::install(space, &CUSTOM_JOB).await?;
    foreign::permit(space, &CUSTOM_JOB).await?;
    start(space).await?;
    foreign::make(space, &KARTA, description).await?;
    let empty = json!({"spec": {}});
    let spec = json!({"coordinator": {"replicas": 1, "template": empty}, "worker": {"replicas": 2, "template": empty}});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let owner = foreign::make(space, &CUSTOM_JOB, object).await?;
    for (role, count) in [("coordinator", 1), ("worker", 2)] {
        for at in 0..count {
            let named = pod(format!("w-{role}-{at}"), "q").labelled(KARTA_ROLE, role);
            dependent(space, &owner, &named).await?;
        }
    }
    space.counts("w-", 3, 0).await?;
    let group = only_group(space).await?;
    let name = format!("pg-{}-customjob", owner["metadata"]["uid"].as_str().unwrap_or_default());
    ensure!(group["metadata"]["name"] == name.as_str(), "{}", group["metadata"]["name"]);
    ensure!(group["metadata"]["ownerReferences"] == referring_to(&owner), "{}", group["metadata"]);
    ensure!(group["spec"]["minSubGroup"] == 2, "{}", group["spec"]);
    ensure!(group["spec"]["queue"] == space.queue_name("q"), "{}", group["spec"]);
    let leaf = |name: &str, members: usize| json!({"name": name, "minMember": members});
    has_tree(&group, &[leaf("coordinator", 1), leaf("worker", 2)])?;
    for pod in space.pods_named("w-").await? {
        let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
        ensure!(annotations["pod-group-name"] == name.as_str(), "{annotations}");
        ensure!(labels["kai.scheduler/subgroup-name"] == labels[KARTA_ROLE], "{labels}");
    }
    Ok(())
}
