//! Training jobs of Kubeflow: their pods, made as the operator makes them, become one group and run.
//!
//! Changed throughout: no operator runs.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use super::integrations::{only_group, start};
use crate::foreign::{self, Kind, member};
use crate::objects::{capped, merge, pod, queue};
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
const LAUNCHER_AND_WORKERS: &[(&str, usize)] = &[("Launcher", 1), ("Worker", 2)];
const MASTER_AND_WORKERS: &[(&str, usize)] = &[("Master", 1), ("Worker", 2)];

pub(super) const CASES: &[(&str, Run)] = &[
    ("a JAXJob", |room| Box::pin(training(room, &JAX, "jax", &[("Worker", 2)]))),
    ("a TFJob", |room| Box::pin(training(room, &TENSORFLOW, "tf", &[("PS", 1), ("Worker", 2)]))),
    ("an XGBoostJob", |room| Box::pin(training(room, &XGBOOST, "xgb", MASTER_AND_WORKERS))),
    ("an MPIJob", |room| Box::pin(training(room, &MPI, "mpi", LAUNCHER_AND_WORKERS))),
    ("an MPIJob of version v2beta1", |room| {
        Box::pin(training(room, &MPI_V2, "mpi", LAUNCHER_AND_WORKERS))
    }),
    ("an MPIJob whose launcher comes later", |room| Box::pin(delayed_launcher(room))),
    ("a PyTorchJob", |room| Box::pin(training(room, &PYTORCH, "pytorch", MASTER_AND_WORKERS))),
    ("an elastic PyTorchJob with too few pods", |room| {
        Box::pin(pytorch_not_ready(room, json!({"elasticPolicy": {"minReplicas": 2}})))
    }),
    ("a PyTorchJob with too few pods for its policy", |room| {
        let policy = json!({"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}});
        Box::pin(pytorch_not_ready(room, policy))
    }),
    ("a PyTorchJob of which only the master fits", |room| Box::pin(pytorch_master_only(room))),
];

async fn make(room: &Room, kind: &Kind, spec: Value) -> anyhow::Result<Value> {
    foreign::make(room, kind, json!({"metadata": {"name": "w"}, "spec": spec})).await
}

fn specs(roles: &[(&str, usize)]) -> Value {
    let mut specs = json!({});
    for (role, replicas) in roles {
        specs[*role] = json!({"replicas": replicas});
    }
    specs
}

async fn members(room: &Room, owner: &Value, roles: &[(&str, usize)]) -> anyhow::Result<()> {
    for (role, replicas) in roles {
        for at in 0..*replicas {
            let role = role.to_lowercase();
            let named = pod(format!("w-{role}-{at}"), "q").cpu("100m").labelled(ROLE, &role);
            let named = named.labelled("training.kubeflow.org/job-name", "w");
            member(room, owner, &named.labelled("training.kubeflow.org/job-role", &role)).await?;
        }
    }
    Ok(())
}

async fn training(
    room: &Room,
    kind: &Kind,
    prefix: &str,
    roles: &[(&str, usize)],
) -> anyhow::Result<()> {
    start(room).await?;
    let spec = json!({format!("{prefix}ReplicaSpecs"): specs(roles)});
    let owner = make(room, kind, spec).await?;
    members(room, &owner, roles).await?;
    let total: usize = roles.iter().map(|(_, replicas)| replicas).sum();
    room.counts("w-", total, 0).await?;
    let group = only_group(room).await?;
    ensure!(group["spec"]["minMember"] == total, "{} of {total}", group["spec"]["minMember"]);
    Ok(())
}

async fn delayed_launcher(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let spec = json!({"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": specs(LAUNCHER_AND_WORKERS)});
    let owner = make(room, &MPI_V2, spec).await?;
    members(room, &owner, &[("Worker", 2)]).await?;
    room.counts("w-worker-", 2, 0).await?;
    members(room, &owner, &[("Launcher", 1)]).await?;
    room.ready(&["w-launcher-0"]).await?;
    let group = only_group(room).await?;
    let launcher = room.see_pod("w-launcher-0").await?.unwrap_or_default();
    let joined = &launcher["metadata"]["annotations"]["pod-group-name"];
    ensure!(*joined == group["metadata"]["name"], "{joined}");
    let complete = async || Ok(only_group(room).await?["spec"]["minMember"] == 3);
    room.until("the launcher counts", complete).await
}

async fn pytorch(room: &Room, more: Value) -> anyhow::Result<Value> {
    let mut spec =
        json!({"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}});
    merge(&mut spec, more);
    make(room, &PYTORCH, spec).await
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
