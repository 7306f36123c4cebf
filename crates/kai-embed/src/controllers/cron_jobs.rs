//! Cron jobs: a job each time their schedule says so.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cron_schedule::CronSchedule;
use super::jobs;
use super::templates::{create, delete, write};
use crate::api::Part;
use crate::cluster::Cluster;
use crate::object::{
    self, Key, has_condition, is_terminating, moment, name, namespace, owner_reference,
    read_moment, text, uid,
};
use crate::store::ResourceId;

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// One that was asleep for long does not go through everything that it missed.
const MOST_MISSED: usize = 100;

pub(crate) fn resource() -> ResourceId {
    ResourceId::new("batch", "cronjobs")
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(cron) = cluster.store.get(&resource(), key).cloned() else { return };
    if is_terminating(&cron) {
        return;
    }
    forget_old_jobs(cluster, &cron);
    let mut new = Value::clone(&cron);
    let Ok(schedule) = CronSchedule::parse(text(&cron["spec"]["schedule"])) else { return };
    if cron["spec"]["suspend"] != true && cluster.may_run_again(&cron) {
        let (missed, next) = times(&cron, &schedule, cluster.now);
        if let Some(time) = missed {
            run(cluster, &mut new, time);
        }
        if let Some(next) = next.filter(|_| cluster.may_run_again(&cron)) {
            cluster.wake(&resource(), key, next);
        }
    }
    report(cluster, new);
}

impl Cluster {
    /// From now on a cron job runs so often and no more.
    pub fn limit_cron_jobs(&mut self, runs: u32) {
        self.cron_runs.limit = Some(runs);
    }

    fn may_run_again(&self, cron: &Value) -> bool {
        let runs = self.cron_runs.of.get(uid(cron)).copied().unwrap_or_default();
        self.cron_runs.limit.is_none_or(|limit| runs < limit)
    }
}

/// How often cron jobs ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct CronRuns {
    limit: Option<u32>,
    /// Number of runs by the UID of the cron job.
    of: std::collections::BTreeMap<String, u32>,
}

/// The latest time that was due and has not been served, and the next.
fn times(
    cron: &Value,
    schedule: &CronSchedule,
    now: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>) {
    let metadata = &cron["metadata"];
    let served = read_moment(&cron["status"]["lastScheduleTime"]);
    let mut last = served.or_else(|| read_moment(&metadata["creationTimestamp"])).unwrap_or(now);
    let mut missed = None;
    for _ in 0..MOST_MISSED {
        match schedule.next(last) {
            Some(time) if time <= now => (missed, last) = (Some(time), time),
            next => return (missed, next),
        }
    }
    (missed, schedule.next(now))
}

/// Makes the job of a time, unless it is too late or another still runs.
fn run(cluster: &mut Cluster, cron: &mut Value, time: Timestamp) {
    let deadline = cron["spec"]["startingDeadlineSeconds"].as_i64().map(SignedDuration::from_secs);
    if deadline.is_some_and(|deadline| time + deadline < cluster.now) {
        return;
    }
    let active: Vec<Arc<Value>> =
        jobs_of(cluster, cron).into_iter().filter(|job| !has_finished(job)).collect();
    match text(&cron["spec"]["concurrencyPolicy"]) {
        "Forbid" if !active.is_empty() => return,
        "Replace" => active.iter().for_each(|job| delete(cluster, &jobs::resource(), job)),
        _ => {}
    }
    let template = &cron["spec"]["jobTemplate"];
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": template["spec"]});
    for key in ["labels", "annotations"] {
        if let Some(marks) = template["metadata"].get(key) {
            object::set(&mut job, &["metadata", key], marks.clone());
        }
    }
    let own = format!("{}-{}", name(cron), time.as_second() / 60);
    object::set(&mut job, &["metadata", "name"], own.into());
    object::set(&mut job, &["metadata", "namespace"], namespace(cron).into());
    object::set(&mut job, &["metadata", "annotations", SCHEDULED_AT], moment(time));
    object::set(&mut job, &["metadata", "ownerReferences"], json!([owner_reference(cron)]));
    // A job that is rejected, or exists already, counts for this time.
    let _ = create(cluster, &jobs::resource(), job);
    *cluster.cron_runs.of.entry(uid(cron).to_owned()).or_default() += 1;
    object::set(cron, &["status", "lastScheduleTime"], moment(time));
}

fn jobs_of(cluster: &Cluster, cron: &Value) -> Vec<Arc<Value>> {
    let jobs = cluster.store.of_namespace(&jobs::resource(), namespace(cron));
    let ours = jobs.filter(|job| {
        object::controller(job).is_some_and(|controller| controller["uid"] == uid(cron))
    });
    ours.cloned().collect()
}

fn has_finished(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

/// Of the succeeded and of the failed jobs, only the latest few stay.
fn forget_old_jobs(cluster: &mut Cluster, cron: &Value) {
    let limits =
        [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)];
    for (condition, limit, usual) in limits {
        let mut ended: Vec<Arc<Value>> = jobs_of(cluster, cron)
            .into_iter()
            .filter(|job| has_condition(job, condition))
            .collect();
        ended.sort_by_key(|job| text(&job["status"]["startTime"]).to_owned());
        let kept = cron["spec"][limit].as_u64().unwrap_or(usual) as usize;
        let surplus = ended.len().saturating_sub(kept);
        for job in &ended[..surplus] {
            delete(cluster, &jobs::resource(), job);
        }
    }
}

fn report(cluster: &mut Cluster, mut cron: Value) {
    let jobs = jobs_of(cluster, &cron);
    let active: Vec<Value> = jobs
        .iter()
        .filter(|job| !has_finished(job))
        .map(|job| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "name": name(job), "namespace": namespace(job),
                "uid": uid(job), "resourceVersion": object::version(job),
            })
        })
        .collect();
    if active.is_empty() {
        object::remove(&mut cron, &["status", "active"]);
    } else {
        object::set(&mut cron, &["status", "active"], json!(active));
    }
    let ends = jobs.iter().filter(|job| has_condition(job, "Complete"));
    if let Some(end) = ends.filter_map(|job| job["status"]["completionTime"].as_str()).max() {
        object::set(&mut cron, &["status", "lastSuccessfulTime"], end.into());
    }
    write(cluster, &resource(), cron, Part::Status);
}
