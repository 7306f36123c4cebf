//! Workloads that make pods: defaults and rules.

use serde_json::{Value, json};

use super::pods;
use crate::controllers::CronSchedule;
use crate::failure::FieldFault;
use crate::object::{self, set_default};
use crate::selectors::LabelSelector;

pub(super) fn fill(group: &str, plural: &str, object: &mut Value) {
    match (group, plural) {
        ("apps", "deployments") => {
            set_default(object, &["spec", "replicas"], json!(1));
            set_default(object, &["spec", "revisionHistoryLimit"], json!(10));
            set_default(object, &["spec", "progressDeadlineSeconds"], json!(600));
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            set_default(object, &["spec", "strategy"], rolling);
            fill_template(object);
        }
        ("apps", "replicasets") => {
            set_default(object, &["spec", "replicas"], json!(1));
            fill_template(object);
        }
        ("apps", "statefulsets") => {
            set_default(object, &["spec", "replicas"], json!(1));
            set_default(object, &["spec", "podManagementPolicy"], json!("OrderedReady"));
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
            set_default(object, &["spec", "updateStrategy"], rolling);
            let kept = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
            set_default(object, &["spec", "persistentVolumeClaimRetentionPolicy"], kept);
            set_default(object, &["spec", "revisionHistoryLimit"], json!(10));
            fill_template(object);
        }
        ("batch", "jobs") => fill_job(object),
        ("batch", "cronjobs") => {
            set_default(object, &["spec", "concurrencyPolicy"], json!("Allow"));
            set_default(object, &["spec", "suspend"], json!(false));
            set_default(object, &["spec", "successfulJobsHistoryLimit"], json!(3));
            set_default(object, &["spec", "failedJobsHistoryLimit"], json!(1));
            set_default(object, &["spec", "jobTemplate", "metadata"], json!({}));
            fill_template(&mut object["spec"]["jobTemplate"]);
        }
        _ => {}
    }
}

/// The status that a new object has before its controller has reconciled it.
pub(super) fn first_status(plural: &str) -> Option<Value> {
    Some(match plural {
        "deployments" | "jobs" | "cronjobs" => json!({}),
        "replicasets" => json!({"replicas": 0}),
        "statefulsets" => json!({"replicas": 0, "availableReplicas": 0}),
        "poddisruptionbudgets" => {
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        }
        _ => return None,
    })
}

fn fill_template(object: &mut Value) {
    if object["spec"]["template"].is_object() {
        set_default(object, &["spec", "template", "metadata"], json!({}));
        object::map_at(object, &["spec", "template", "spec"]);
        pods::fill_spec(&mut object["spec"]["template"]["spec"]);
    }
}

fn fill_job(job: &mut Value) {
    if job["spec"]["completions"].is_null() && job["spec"]["parallelism"].is_null() {
        set_default(job, &["spec", "completions"], json!(1));
    }
    set_default(job, &["spec", "parallelism"], json!(1));
    set_default(job, &["spec", "backoffLimit"], json!(6));
    set_default(job, &["spec", "completionMode"], json!("NonIndexed"));
    set_default(job, &["spec", "suspend"], json!(false));
    set_default(job, &["spec", "manualSelector"], json!(false));
    set_default(job, &["spec", "podReplacementPolicy"], json!("TerminatingOrFailed"));
    let uid = object::uid(job).to_owned();
    let name = object::name(job).to_owned();
    if uid.is_empty() {
        return;
    }
    // The selector of a job names the job itself.
    set_default(
        job,
        &["spec", "selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
    let labels = ["spec", "template", "metadata", "labels"];
    let own = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    for (key, value) in own {
        object::map_at(job, &labels).entry(key).or_insert_with(|| json!(value));
    }
    fill_template(job);
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    set_default(job, &["metadata", "labels"], labels);
}

pub(super) fn check(plural: &str, old: Option<&Value>, new: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let spec = &new["spec"];
    if plural == "cronjobs"
        && let Err(why) = CronSchedule::parse(object::text(&spec["schedule"]))
    {
        faults.push(FieldFault::invalid("spec.schedule", &spec["schedule"], &why));
    }
    if !matches!(plural, "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "jobs") {
        return faults;
    }
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        faults.push(FieldFault::invalid(
            "spec.replicas",
            &spec["replicas"],
            "must be greater than or equal to 0",
        ));
    }
    if plural == "jobs" {
        if !matches!(
            object::text(&spec["template"]["spec"]["restartPolicy"]),
            "OnFailure" | "Never"
        ) {
            let field = "spec.template.spec.restartPolicy";
            faults.push(FieldFault::required(field, "valid values: \"OnFailure\", \"Never\""));
        }
    } else if !LabelSelector::of(&spec["selector"]).matches(&spec["template"]) {
        let why = "`selector` does not match template `labels`";
        let labels = &spec["template"]["metadata"]["labels"];
        let field = "spec.template.metadata.labels";
        faults.push(FieldFault::invalid(field, labels, why));
    }
    faults.extend(pods::check_spec("spec.template.spec", &spec["template"]["spec"]));
    if let Some(old) = old
        && old["spec"]["selector"] != spec["selector"]
    {
        let fault = FieldFault::invalid("spec.selector", &spec["selector"], "field is immutable");
        faults.push(fault);
    }
    faults
}
