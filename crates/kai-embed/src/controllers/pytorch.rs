//! `PyTorchJob`: a master and workers, as Kubeflow's operator makes them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods_of;
use super::templates::{count, create_pod, delete, has_ended, is_active, pod, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PODS, id};
use crate::object::{self, Key, has_condition, is_terminating, moment, name, text};
use crate::store::ResourceId;

fn resource() -> ResourceId {
    ResourceId::new("kubeflow.org", "pytorchjobs")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(job) = cluster.store.get(&resource(), key).cloned() else { return };
    let over = has_condition(&job, "Succeeded") || has_condition(&job, "Failed");
    if is_terminating(&job) || over {
        return;
    }
    let suspended = job["spec"]["runPolicy"]["suspend"] == true;
    let pods = pods_of(cluster, &job);
    let members = if suspended { Vec::new() } else { members(&job) };
    for pod in &pods {
        let is_member = members.iter().any(|(member, ..)| member == name(pod));
        if !is_member && !has_ended(pod) && !is_terminating(pod) {
            delete(cluster, &id(PODS), pod);
        }
    }
    for (member, kind, index) in &members {
        if !pods.iter().any(|pod| name(pod) == member) {
            create_pod(cluster, made(&job, member, kind, *index));
        }
    }
    report(cluster, &job, members.len());
}

/// Names, kinds and indices of the pods that are wanted.
fn members(job: &Value) -> Vec<(String, String, i64)> {
    let kinds = job["spec"]["pytorchReplicaSpecs"].as_object().into_iter().flatten();
    kinds
        .flat_map(|(kind, spec)| {
            let kind = kind.to_lowercase();
            (0..spec["replicas"].as_i64().unwrap_or(1))
                .map(move |index| (format!("{}-{kind}-{index}", name(job)), kind.clone(), index))
        })
        .collect()
}

fn made(job: &Value, member: &str, kind: &str, index: i64) -> Value {
    let specs = job["spec"]["pytorchReplicaSpecs"].as_object().into_iter().flatten();
    let spec = specs.into_iter().find(|(name, _)| name.to_lowercase() == kind);
    let spec = spec.map_or(&Value::Null, |(_, spec)| spec);
    let mut pod = pod(job, &spec["template"]);
    object::set(&mut pod, &["metadata", "name"], member.into());
    let labels = [
        ("training.kubeflow.org/job-name", name(job).to_owned()),
        ("training.kubeflow.org/operator-name", "pytorchjob-controller".to_owned()),
        ("training.kubeflow.org/replica-type", kind.to_owned()),
        ("training.kubeflow.org/replica-index", index.to_string()),
    ];
    for (key, value) in labels {
        object::set(&mut pod, &["metadata", "labels", key], value.into());
    }
    if kind == "master" {
        object::set(
            &mut pod,
            &["metadata", "labels", "training.kubeflow.org/job-role"],
            "master".into(),
        );
    }
    let policy = spec["restartPolicy"].as_str().unwrap_or("Never");
    object::set(&mut pod, &["spec", "restartPolicy"], policy.into());
    pod
}

fn report(cluster: &mut Cluster, job: &Value, wanted: usize) {
    let pods = pods_of(cluster, job);
    let now = cluster.now;
    let mut new = job.clone();
    let message = format!("PyTorchJob {} is created.", name(job));
    if !has_condition(&new, "Created") {
        object::set_condition(&mut new, "Created", true, "PyTorchJobCreated", &message, now);
        object::set(&mut new, &["status", "startTime"], moment(now));
    }
    object::set(&mut new, &["status", "replicaStatuses"], statuses(job, &pods));
    let running = count(&pods, "Running");
    let done = done(&pods);
    if done {
        let message = format!("PyTorchJob {} is successfully completed.", name(job));
        object::set_condition(&mut new, "Running", false, "PyTorchJobSucceeded", &message, now);
        object::set_condition(&mut new, "Succeeded", true, "PyTorchJobSucceeded", &message, now);
        object::set(&mut new, &["status", "completionTime"], moment(now));
    } else if count(&pods, "Failed") > 0 {
        let message = format!("PyTorchJob {} is failed because a replica failed.", name(job));
        object::set_condition(&mut new, "Running", false, "PyTorchJobFailed", &message, now);
        object::set_condition(&mut new, "Failed", true, "PyTorchJobFailed", &message, now);
    } else if wanted > 0 && running == wanted {
        let message = format!("PyTorchJob {} is running.", name(job));
        object::set_condition(&mut new, "Running", true, "PyTorchJobRunning", &message, now);
    } else if has_condition(&new, "Running") {
        let message = format!("PyTorchJob {} is restarting.", name(job));
        object::set_condition(&mut new, "Running", false, "PyTorchJobRestarting", &message, now);
    }
    write(cluster, &resource(), new, Part::Status);
}

/// A job is over when its master is, or all workers where it has none.
fn done(pods: &[Arc<Value>]) -> bool {
    let is_master = |pod: &&Arc<Value>| {
        pod["metadata"]["labels"]["training.kubeflow.org/replica-type"] == "master"
    };
    match pods.iter().find(is_master) {
        Some(master) => text(&master["status"]["phase"]) == "Succeeded",
        None => !pods.is_empty() && count(pods, "Succeeded") == pods.len(),
    }
}

fn statuses(job: &Value, pods: &[Arc<Value>]) -> Value {
    let kinds = job["spec"]["pytorchReplicaSpecs"].as_object().into_iter().flatten();
    let statuses = kinds.map(|(kind, _)| {
        let ours: Vec<Arc<Value>> = pods
            .iter()
            .filter(|pod| {
                let label = &pod["metadata"]["labels"]["training.kubeflow.org/replica-type"];
                text(label) == kind.to_lowercase()
            })
            .cloned()
            .collect();
        let active = ours.iter().filter(|pod| is_active(pod)).count();
        let status = json!({"active": active, "succeeded": count(&ours, "Succeeded"), "failed": count(&ours, "Failed")});
        (kind.clone(), status)
    });
    Value::Object(statuses.collect())
}
