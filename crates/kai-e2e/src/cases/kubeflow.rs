//! Training jobs of Kubeflow: their pods, made as the operator makes them, become one group and run.
//!
//! Changed throughout: no operator runs.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::{all_ready, job, only_group, start, start_with_gpus};
use crate::foreign::{self, Kind, member, owned_by};
use crate::objects::{Pod, capped, merge, pod, queue};
use crate::room::Room;

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
    ("a JAXJob", |room| Box::pin(training_on_gpus(room, &JAX, "jax", &[("Worker", 3)]))),
    ("a TFJob", |room| {
        // Roles that the operator does not know, as KAI's case has them.
        Box::pin(training_on_gpus(room, &TENSORFLOW, "tf", &[("Cheifs", 2), ("Workers", 3)]))
    }),
    ("an XGBoostJob", |room| {
        Box::pin(training_on_gpus(room, &XGBOOST, "xgb", &[("Master", 1), ("Worker", 3)]))
    }),
    ("an MPIJob", |room| Box::pin(training(room, &MPI, "mpi", LAUNCHER_AND_WORKERS))),
    ("an MPIJob of version v2beta1", |room| Box::pin(mpi_with_launcher_job(room))),
    ("an MPIJob whose launcher comes later", |room| Box::pin(delayed_launcher(room))),
    ("a PyTorchJob", |room| Box::pin(training(room, &PYTORCH, "pytorch", MASTER_AND_WORKERS))),
    ("an elastic PyTorchJob with too few pods", |room| {
        Box::pin(pytorch_not_ready(room, json!({})))
    }),
    ("a PyTorchJob with too few pods for its policy", |room| {
        let policy = json!({"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}});
        Box::pin(pytorch_not_ready(room, policy))
    }),
    ("a PyTorchJob of which only the master fits", |room| Box::pin(pytorch_master_only(room))),
];

/// A job that names no queue: its pods do.
async fn make(room: &Room, kind: &Kind, spec: Value) -> anyhow::Result<Value> {
    foreign::make_unlabelled(room, kind, json!({"metadata": {"name": "w"}, "spec": spec})).await
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

async fn members(room: &Room, owner: &Value, roles: Roles, gpus: u32) -> anyhow::Result<()> {
    for (role, replicas) in roles {
        for at in 0..*replicas {
            let role = role.to_lowercase();
            let named = member_pod(format!("w-{role}-{at}"), &role);
            let named = if gpus == 0 { named } else { named.gpus(gpus) };
            member(room, owner, &named).await?;
        }
    }
    Ok(())
}

/// All pods run, in one group that needs all of them.
async fn grouped(room: &Room, total: usize) -> anyhow::Result<()> {
    room.counts("w-", total, 0).await?;
    let group = only_group(room).await?;
    ensure!(group["spec"]["minMember"] == total, "{} of {total}", group["spec"]["minMember"]);
    Ok(())
}

fn total(roles: Roles) -> usize {
    roles.iter().map(|(_, replicas)| replicas).sum()
}

/// Pods that ask for nothing.
async fn training(room: &Room, kind: &Kind, prefix: &str, roles: Roles) -> anyhow::Result<()> {
    start(room).await?;
    let owner = make(room, kind, json!({format!("{prefix}ReplicaSpecs"): specs(roles)})).await?;
    members(room, &owner, roles, 0).await?;
    grouped(room, total(roles)).await
}

/// Pods with a GPU each become ready; the job names the queue too.
async fn training_on_gpus(
    room: &Room,
    kind: &Kind,
    prefix: &str,
    roles: Roles,
) -> anyhow::Result<()> {
    start_with_gpus(room).await?;
    let spec = json!({format!("{prefix}ReplicaSpecs"): specs(roles)});
    let object = json!({"metadata": {"name": "w"}, "spec": spec});
    let owner = foreign::make(room, kind, object).await?;
    members(room, &owner, roles, 1).await?;
    grouped(room, total(roles)).await?;
    all_ready(room, "w-", total(roles)).await
}

/// The launcher of an `MPIJob` of version v2beta1 is a Job, as its operator makes it.
async fn launcher_job(room: &Room, owner: &Value) -> anyhow::Result<()> {
    let mut launcher = job(room, "w-launcher", &member_pod("x", "launcher"));
    launcher["metadata"]["ownerReferences"] = owned_by(owner);
    let path = format!("/apis/batch/v1/namespaces/{}/jobs", room.name);
    room.create(&path, &launcher).await.map(|_| ())
}

async fn mpi_with_launcher_job(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let spec = json!({"mpiReplicaSpecs": specs(LAUNCHER_AND_WORKERS)});
    let owner = make(room, &MPI_V2, spec).await?;
    launcher_job(room, &owner).await?;
    members(room, &owner, &[("Worker", 2)], 0).await?;
    grouped(room, total(LAUNCHER_AND_WORKERS)).await
}

async fn delayed_launcher(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let spec = json!({"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": specs(LAUNCHER_AND_WORKERS)});
    let owner = make(room, &MPI_V2, spec).await?;
    members(room, &owner, &[("Worker", 2)], 0).await?;
    room.counts("w-worker-", 2, 0).await?;
    launcher_job(room, &owner).await?;
    all_ready(room, "w-launcher-", 1).await?;
    let group = only_group(room).await?;
    let launcher = &room.pods_named("w-launcher-").await?[0];
    let joined = &launcher["metadata"]["annotations"]["pod-group-name"];
    ensure!(*joined == group["metadata"]["name"], "{joined}");
    let complete = async || Ok(only_group(room).await?["spec"]["minMember"] == 3);
    room.until("the launcher counts", complete).await
}

/// One worker of a job without a master that needs two.
async fn pytorch_not_ready(room: &Room, more: Value) -> anyhow::Result<()> {
    start(room).await?;
    let elastic = json!({"rdzvBackend": "c10d", "minReplicas": 2});
    let workers = json!({"Worker": {"replicas": 1}});
    let mut spec = json!({"pytorchReplicaSpecs": workers, "elasticPolicy": elastic});
    merge(&mut spec, more);
    let owner = make(room, &PYTORCH, spec).await?;
    member(room, &owner, &member_pod("w-worker-0", "worker")).await?;
    room.not_ready_event("pg-w").await
}

/// The queue has cores for one of the two pods, both of which exist before the scheduler starts: the worker is older, the
/// master runs.
async fn pytorch_master_only(room: &Room) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q").cpu(capped(2000.0))).await?;
    let replicas = json!({"Master": {"replicas": 1}, "Worker": {"replicas": 1}});
    let policy = json!({"schedulingPolicy": {"minAvailable": 1}});
    let spec = json!({"pytorchReplicaSpecs": replicas, "runPolicy": policy});
    let owner = make(room, &PYTORCH, spec).await?;
    for role in ["worker", "master"] {
        let named = pod(format!("w-{role}-0"), "q").cpu("2").labelled(ROLE, role);
        member(room, &owner, &named).await?;
    }
    room.start(&[]).await?;
    room.scheduled(&["w-master-0"]).await?;
    room.unschedulable(&["w-worker-0"]).await
}
