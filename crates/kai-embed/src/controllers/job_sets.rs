//! `JobSet`: jobs from templates, as its operator makes them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::jobs;
use super::templates::{create, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::object::{
    self, Key, has_condition, is_terminating, items, name, namespace, owner_reference, text,
};
use crate::store::ResourceId;

fn resource() -> ResourceId {
    ResourceId::new("jobset.x-k8s.io", "jobsets")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(set) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&set) || has_condition(&set, "Completed") || has_condition(&set, "Failed") {
        return;
    }
    let known = jobs_of(cluster, &set);
    for replicated in items(&set["spec"]["replicatedJobs"]) {
        for index in 0..replicated["replicas"].as_i64().unwrap_or(1) {
            let job = job(&set, replicated, index);
            if !known.iter().any(|one| name(one) == name(&job)) {
                // It is created again when the set is next reconciled.
                let _ = create(cluster, &jobs::resource(), job);
            }
        }
    }
    report(cluster, &set);
}

fn jobs_of(cluster: &Cluster, set: &Value) -> Vec<Arc<Value>> {
    let jobs = cluster.store.of_namespace(&jobs::resource(), namespace(set));
    let ours = jobs.filter(|job| {
        object::controller(job).is_some_and(|owner| owner["uid"] == object::uid(set))
    });
    ours.cloned().collect()
}

fn job(set: &Value, replicated: &Value, index: i64) -> Value {
    let kind = text(&replicated["name"]);
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job"});
    for marks in ["labels", "annotations"] {
        if let Some(given) = replicated["template"]["metadata"].get(marks) {
            object::set(&mut job, &["metadata", marks], given.clone());
        }
    }
    job["spec"] = replicated["template"]["spec"].clone();
    if set["spec"]["suspend"] == true {
        object::set(&mut job, &["spec", "suspend"], json!(true));
    }
    let own = [
        ("jobset.sigs.k8s.io/jobset-name", name(set).to_owned()),
        ("jobset.sigs.k8s.io/replicatedjob-name", kind.to_owned()),
        (
            "jobset.sigs.k8s.io/replicatedjob-replicas",
            replicated["replicas"].as_i64().unwrap_or(1).to_string(),
        ),
        ("jobset.sigs.k8s.io/job-index", index.to_string()),
    ];
    for (key, value) in own {
        for path in [
            ["metadata", "labels", key].as_slice(),
            &["metadata", "annotations", key],
            &["spec", "template", "metadata", "labels", key],
            &["spec", "template", "metadata", "annotations", key],
        ] {
            object::set(&mut job, path, value.as_str().into());
        }
    }
    object::set(&mut job, &["metadata", "name"], format!("{}-{kind}-{index}", name(set)).into());
    object::set(&mut job, &["metadata", "namespace"], namespace(set).into());
    object::set(&mut job, &["metadata", "ownerReferences"], json!([owner_reference(set)]));
    job
}

fn report(cluster: &mut Cluster, set: &Value) {
    let jobs = jobs_of(cluster, set);
    let of_kind = |kind: &str| -> Vec<Arc<Value>> {
        let label = "jobset.sigs.k8s.io/replicatedjob-name";
        jobs.iter().filter(|job| job["metadata"]["labels"][label] == kind).cloned().collect()
    };
    let number = |job: &Value, field: &str| job["status"][field].as_i64().unwrap_or_default();
    let statuses: Vec<Value> = items(&set["spec"]["replicatedJobs"])
        .map(|replicated| {
            let kind = text(&replicated["name"]);
            let ours = of_kind(kind);
            let count = |is: &dyn Fn(&Value) -> bool| ours.iter().filter(|job| is(job)).count();
            json!({
                "name": kind,
                "active": count(&|job| number(job, "active") > 0),
                "ready": count(&|job| number(job, "ready") >= job["spec"]["parallelism"].as_i64().unwrap_or(1)),
                "succeeded": count(&|job| has_condition(job, "Complete")),
                "failed": count(&|job| has_condition(job, "Failed")),
                "suspended": count(&|job| has_condition(job, "Suspended")),
            })
        })
        .collect();
    let mut new = set.clone();
    object::set(&mut new, &["status", "replicatedJobsStatus"], json!(statuses));
    let now = cluster.now;
    if jobs.iter().any(|job| has_condition(job, "Failed")) {
        object::set_condition(
            &mut new,
            "Failed",
            true,
            "FailedJobs",
            "jobset failed due to one or more job failures",
            now,
        );
        object::set(&mut new, &["status", "terminalState"], json!("Failed"));
    } else if !jobs.is_empty() && jobs.iter().all(|job| has_condition(job, "Complete")) {
        object::set_condition(
            &mut new,
            "Completed",
            true,
            "AllJobsCompleted",
            "jobset completed successfully",
            now,
        );
        object::set(&mut new, &["status", "terminalState"], json!("Completed"));
    }
    write(cluster, &resource(), new, Part::Status);
}
