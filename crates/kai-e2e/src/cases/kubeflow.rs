//! Training jobs of Kubeflow: their pods, made as the operator makes them, become one group and run.
//!
//! Changed throughout: no operator runs.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::{all_ready, job, only_group, start, start_with_gpus};
use crate::foreign::{self, Kind, member, owned_by};
use crate::objects::{Pod, capped, merge, pod, queue};
use crate::test_space::TestSpace;

const ROLE: &str = "training.kubeflow.org/replica-type";
const GROUP: &str = "kubeflow.org";
const BOTH: &[&str] = &["v1", "v2beta1"];
const JAX: Kind = Kind::new(GROUP, &["v1"], "JAXJob");
const TENSORFLOW: Kind = Kind::new(GROUP, &["v1"], "TFJob");
const XGBOOST: Kind = Kind::new(GROUP, &["v1"], "XGBoostJob");
const PYTORCH: Kind = Kind::new(GROUP, &["v1"], "PyTorchJob");
const MPI: Kind = Kind::new(GROUP, BOTH, "MPIJob");
const MPI_V2: Kind = Kind::new(GROUP, &["v2beta1", "v1"], "MPIJob");
const LAUNCHER_AND_WORKERS: Roles = &[("Launcher", 1), ("Worker", 2)];
const MASTER_AND_WORKERS: Roles = &[("Master", 1), ("Worker", 2)];

/// Roles of a training job, and how many pods each has.
type Roles = &'static [(&'static str, usize)];

pub(super) const CASES: &[(&str, Run)] = &[
    ("a JAXJob", |space| Box::pin(training_on_gpus(space, &JAX, "jax", &[("Worker", 3)]))),
    ("a TFJob", |space| {
        // Roles that the operator does not know, as KAI's case has them.
        Box::pin(training_on_gpus(space, &TENSORFLOW, "tf", &[("Cheifs", 2), ("Workers", 3)]))
    }),
    ("an XGBoostJob", |space| {
        Box::pin(training_on_gpus(space, &XGBOOST, "xgb", &[("Master", 1), ("Worker", 3)]))
    }),
    ("an MPIJob", |space| Box::pin(training(space, &MPI, "mpi", LAUNCHER_AND_WORKERS))),
    ("an MPIJob of version v2beta1", |space| Box::pin(mpi_with_launcher_job(space))),
    ("an MPIJob whose launcher comes later", |space| Box::pin(delayed_launcher(space))),
    ("a PyTorchJob", |space| Box::pin(training(space, &PYTORCH, "pytorch", MASTER_AND_WORKERS))),
    ("an elastic PyTorchJob with too few pods", |space| {
        Box::pin(pytorch_not_ready(space, json!({})))
    }),
    ("a PyTorchJob with too few pods for its policy", |space| {
        let policy = json!({"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}});
        Box::pin(pytorch_not_ready(space, policy))
    }),
    ("a PyTorchJob of which only the master fits", |space| Box::pin(pytorch_master_only(space))),
];

/// A job that names no queue: its pods do.
async fn make(space: &TestSpace, kind: &Kind, spec: Value) -> anyhow::Result<Value> {
    foreign::make_unlabelled(space, kind, json!({"metadata": {"name": "w"}, "spec": spec})).await
}

fn specs(roles: Roles) -> Value {
    let mut specs = json!({});
    for (role, replicas) in roles {
        specs[*role] = json!({"replicas": replicas});
    }
    specs
}

fn member_pod(name: impl Into<String>, role: &str) -> Pod {
    let named = pod(name, "q").labelled(ROLE, role);
    let named = named.labelled("training.kubeflow.org/job-name", "w");
    named.labelled("training.kubeflow.org/job-role", role)
}

async fn members(space: &TestSpace, owner: &Value, roles: Roles, gpus: u32) -> anyhow::Result<()> {
    for (role, replicas) in roles {
        for at in 0..*replicas {
            let role = role.to_lowercase();
            let named = member_pod(format!("w-{role}-{at}"), &role);
            let named = if gpus == 0 { named } else { named.gpus(gpus) };
            member(space, owner, &named).await?;
        }
    }
    Ok(())
}

/// All pods run, in one group that needs all of them.
async fn grouped(space: &TestSpace, total: usize) -> anyhow::Result<()> {
    space.counts("w-", total, 0).await?;
    let group = only_group(space).await?;
    ensure!(group["spec"]["minMember"] == total, "{} of {total}", group["spec"]["minMember"]);
    Ok(())
}

fn total(roles: Roles) -> usize {
    roles.iter().map(|(_, replicas)| replicas).sum()
}

/// Pods that ask for nothing.
async fn training(
    space: &TestSpace,
    kind: &Kind,
    prefix: &str,
    roles: Roles,
) -> anyhow::Result<()> {
    start(space).await?;
    let owner = make(space, kind, json!({format!("{prefix}ReplicaSpecs"): specs(roles)})).await?;
    members(space, &owner, roles, 0).await?;
    grouped(space, total(roles)).await
}

/// Pods with a GPU each become ready; the job names the queue too.
async fn training_on_gpus(
    space: &TestSpace,
    kind: &Kind,
    prefix: &str,
    roles: Roles,
) -> anyhow::Result<()> {
    start_with_gpus(space).await?;
    let spec = json!({format!("{prefix}ReplicaSpecs"): specs(roles)});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let owner = foreign::make(space, kind, object).await?;
    members(space, &owner, roles, 1).await?;
    grouped(space, total(roles)).await?;
    all_ready(space, "w-", total(roles)).await
}

/// The launcher of an `MPIJob` of version v2beta1 is a Job, as its operator makes it.
async fn launcher_job(space: &TestSpace, owner: &Value) -> anyhow::Result<()> {
    let mut launcher = job(space, "w-launcher", &member_pod("x", "launcher"));
    launcher["metadata"]["ownerReferences"] = owned_by(owner);
    let path = format!("/apis/batch/v1/namespaces/{}/jobs", space.name);
    space.create(&path, &launcher).await.map(|_| ())
}

async fn mpi_with_launcher_job(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let spec = json!({"mpiReplicaSpecs": specs(LAUNCHER_AND_WORKERS)});
    let owner = make(space, &MPI_V2, spec).await?;
    launcher_job(space, &owner).await?;
    members(space, &owner, &[("Worker", 2)], 0).await?;
    grouped(space, total(LAUNCHER_AND_WORKERS)).await
}

async fn delayed_launcher(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let spec = json!({"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": specs(LAUNCHER_AND_WORKERS)});
    let owner = make(space, &MPI_V2, spec).await?;
    members(space, &owner, &[("Worker", 2)], 0).await?;
    space.counts("w-worker-", 2, 0).await?;
    launcher_job(space, &owner).await?;
    all_ready(space, "w-launcher-", 1).await?;
    let group = only_group(space).await?;
    let launcher = &space.pods_named("w-launcher-").await?[0];
    let joined = &launcher["metadata"]["annotations"]["pod-group-name"];
    ensure!(*joined == group["metadata"]["name"], "{joined}");
    let complete = async || Ok(only_group(space).await?["spec"]["minMember"] == 3);
    space.until("the launcher counts", complete).await
}

/// One worker of a job without a master that needs two.
async fn pytorch_not_ready(space: &TestSpace, more: Value) -> anyhow::Result<()> {
    start(space).await?;
    let elastic = json!({"rdzvBackend": "c10d", "minReplicas": 2});
    let workers = json!({"Worker": {"replicas": 1}});
    let mut spec = json!({"pytorchReplicaSpecs": workers, "elasticPolicy": elastic});
    merge(&mut spec, more);
    let owner = make(space, &PYTORCH, spec).await?;
    member(space, &owner, &member_pod("w-worker-0", "worker")).await?;
    space.not_ready_event("pg-w").await
}

/// The queue has cores for one of the two pods, both of which exist before the scheduler starts: the worker is older, the
/// master runs.
async fn pytorch_master_only(space: &TestSpace) -> anyhow::Result<()> {
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q").cpu(capped(2000.0))).await?;
    let replicas = json!({"Master": {"replicas": 1}, "Worker": {"replicas": 1}});
    let policy = json!({"schedulingPolicy": {"minAvailable": 1}});
    let spec = json!({"pytorchReplicaSpecs": replicas, "runPolicy": policy});
    let owner = make(space, &PYTORCH, spec).await?;
    for role in ["worker", "master"] {
        let named = pod(format!("w-{role}-0"), "q").cpu("2").labelled(ROLE, role);
        member(space, &owner, &named).await?;
    }
    space.start(&[]).await?;
    space.scheduled(&["w-master-0"]).await?;
    space.unschedulable(&["w-worker-0"]).await
}
