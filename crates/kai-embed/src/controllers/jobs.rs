//! Jobs: pods that run until enough of them have succeeded.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pods_of;
use super::templates::{count, create_batch, delete, is_active, pod, wanted, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::kinds::{PODS, id};
use crate::object::{self, Key, at, has_condition, is_terminating, moment, text};
use crate::store::ResourceId;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn resource() -> ResourceId {
    ResourceId::new("batch", "jobs")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(job) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&job) || has_condition(&job, "Complete") || has_condition(&job, "Failed") {
        return;
    }
    let pods = pods_of(cluster, &job);
    let counts = Counts::of(&pods);
    let suspended = *at(&job, &["spec", "suspend"]) == true;
    let parallelism = wanted(&job, "parallelism", 1);
    let completions = at(&job, &["spec", "completions"]).as_i64();
    let succeeded = counts.succeeded as i64;
    let left =
        completions.map_or(if succeeded > 0 { 0 } else { parallelism }, |all| all - succeeded);
    let target = if suspended { 0 } else { parallelism.min(left).max(0) } as usize;
    let failed_for_good = counts.failed as i64 > wanted(&job, "backoffLimit", 6);
    let is_over = left <= 0 && (completions.is_some() || succeeded > 0) && counts.active == 0;
    if failed_for_good || is_over {
        conclude(cluster, &job, &pods, failed_for_good);
        return;
    }
    let surplus = counts.active.saturating_sub(target);
    if surplus > 0 {
        for pod in pods.iter().rev().filter(|pod| is_active(pod)).take(surplus) {
            delete(cluster, &id(PODS), pod);
        }
        let left = pods_of(cluster, &job);
        report(cluster, &job, &Counts::of(&left));
        return;
    }
    let mut free = free_indices(&job, &pods);
    let missing = target - counts.active;
    let created =
        create_batch(cluster, &resource(), key, pods.len(), missing, || member(&job, free.next()));
    report(cluster, &job, &Counts { active: counts.active + created, ..counts });
}

/// Pods of a job by what they count for.
#[derive(Clone, Copy, Default)]
struct Counts {
    active: usize,
    ready: usize,
    succeeded: usize,
    failed: usize,
}

impl Counts {
    fn of(pods: &[Arc<Value>]) -> Self {
        let mut counts = Self::default();
        for pod in pods {
            match text(at(pod, &["status", "phase"])) {
                "Succeeded" => counts.succeeded += 1,
                "Failed" => counts.failed += 1,
                _ if is_terminating(pod) => {}
                _ => {
                    counts.active += 1;
                    counts.ready += usize::from(has_condition(pod, "Ready"));
                }
            }
        }
        counts
    }
}

/// Indices that no pod has completed or is completing.
fn free_indices(job: &Value, pods: &[Arc<Value>]) -> impl Iterator<Item = i64> + use<> {
    let indexed = *at(job, &["spec", "completionMode"]) == "Indexed";
    let taken: BTreeSet<i64> = pods
        .iter()
        .filter(|_| indexed)
        .filter(|pod| is_active(pod) || text(at(pod, &["status", "phase"])) == "Succeeded")
        .filter_map(|pod| object::annotation(pod, INDEX)?.parse().ok())
        .collect();
    let all = if indexed { wanted(job, "completions", 0) } else { 0 };
    (0..all).filter(move |index| !taken.contains(index))
}

fn member(job: &Value, index: Option<i64>) -> Value {
    let mut pod = pod(job, at(job, &["spec", "template"]));
    let name = object::name(job);
    let prefix = match index {
        Some(index) => {
            let text = index.to_string();
            object::set(&mut pod, &["metadata", "annotations", INDEX], text.as_str().into());
            object::set(&mut pod, &["metadata", "labels", INDEX], text.as_str().into());
            object::set(&mut pod, &["spec", "hostname"], format!("{name}-{index}").into());
            format!("{name}-{index}-")
        }
        None => format!("{name}-"),
    };
    object::set(&mut pod, &["metadata", "generateName"], prefix.into());
    pod
}

fn report(cluster: &mut Cluster, job: &Value, counts: &Counts) {
    let mut new = job.clone();
    let status = object::map_at(&mut new, &["status"]);
    for (field, number) in [
        ("active", counts.active),
        ("ready", counts.ready),
        ("succeeded", counts.succeeded),
        ("failed", counts.failed),
    ] {
        if number > 0 || field == "ready" {
            status.insert(field.to_owned(), json!(number));
        } else {
            status.shift_remove(field);
        }
    }
    let now = cluster.now;
    if *at(job, &["spec", "suspend"]) == true {
        object::set_condition(&mut new, "Suspended", true, "JobSuspended", "Job suspended", now);
    } else {
        object::set_default(&mut new, &["status", "startTime"], moment(now));
        if has_condition(&new, "Suspended") {
            object::set_condition(&mut new, "Suspended", false, "JobResumed", "Job resumed", now);
        }
    }
    write(cluster, &resource(), new, Part::Status);
}

fn conclude(cluster: &mut Cluster, job: &Value, pods: &[Arc<Value>], failed: bool) {
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        delete(cluster, &id(PODS), pod);
    }
    let now = cluster.now;
    let mut new = job.clone();
    object::set(&mut new, &["status", "succeeded"], json!(count(pods, "Succeeded")));
    for field in ["active", "ready"] {
        object::remove(&mut new, &["status", field]);
    }
    if failed {
        let message = "Job has reached the specified backoff limit";
        object::set(&mut new, &["status", "failed"], json!(count(pods, "Failed")));
        object::set_condition(
            &mut new,
            "FailureTarget",
            true,
            "BackoffLimitExceeded",
            message,
            now,
        );
        object::set_condition(&mut new, "Failed", true, "BackoffLimitExceeded", message, now);
    } else {
        let message = "Reached expected number of succeeded pods";
        object::set_condition(
            &mut new,
            "SuccessCriteriaMet",
            true,
            "CompletionsReached",
            message,
            now,
        );
        object::set_condition(&mut new, "Complete", true, "CompletionsReached", message, now);
        object::set(&mut new, &["status", "completionTime"], moment(now));
    }
    write(cluster, &resource(), new, Part::Status);
}
