//! What is written for a plan: creation, changes, and nothing where nothing changed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kai_api::PodGroup;
use kai_api::view::Pod;
use kai_workloads::write::{
    GroupUpdate, GroupWrite, PodLink, WriteOptions, planned_group, pod_link, write_group,
};
use kai_workloads::{Decision, Facts, GrouperConfig, PodGroupPlan, group_pod};
use serde_json::{Value, json};

const OPTIONS: WriteOptions<'_> = WriteOptions { manager: "kai-pod-grouper", move_queue: false };

fn pod(labels: &Value, annotations: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "pu", "labels": labels, "annotations": annotations,
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "ju"}]},
        "spec": {"schedulerName": "kai-scheduler"},
    }))
    .expect("a pod")
}

fn plan(pod: &Pod, labels: &Value, annotations: &Value) -> PodGroupPlan {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "ju", "labels": labels, "annotations": annotations}});
    match group_pod(pod, &[job.into()], &Facts::default(), &GrouperConfig::default()) {
        Ok(Decision::Group(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

fn job_plan(labels: &Value, annotations: &Value) -> PodGroupPlan {
    plan(&pod(&json!({}), &json!({})), labels, annotations)
}

fn update(plan: &PodGroupPlan, existing: &PodGroup, options: WriteOptions<'_>) -> GroupUpdate {
    match write_group(plan, Some(existing), &GrouperConfig::default(), options) {
        GroupWrite::Update(update) => *update,
        other => panic!("{other:?}"),
    }
}

/// A group as the API server gives it back.
fn stored(plan: &PodGroupPlan) -> PodGroup {
    serde_json::from_value(serde_json::to_value(planned_group(plan)).expect("JSON"))
        .expect("a pod group")
}

#[test]
fn a_new_group_is_created_in_full() {
    let plan = job_plan(
        &json!({"kai.scheduler/queue": "q", "kai.scheduler/preemptibility": "preemptible"}),
        &json!({"kai.scheduler/batch-min-member": "2", "kai.scheduler/staleness-grace-period": "90s",
            "kai.scheduler/topology": "net", "kai.scheduler/topology-required-placement": "rack"}),
    );
    let GroupWrite::Create(group) = write_group(&plan, None, &GrouperConfig::default(), OPTIONS)
    else {
        panic!("it is created")
    };
    let group = serde_json::to_value(group).expect("JSON");
    assert_eq!(group["apiVersion"], "scheduling.run.ai/v2alpha2");
    assert_eq!(group["metadata"]["name"], "pg-j-ju");
    assert_eq!(
        group["metadata"]["ownerReferences"],
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "ju"}])
    );
    assert_eq!(
        group["spec"],
        json!({
            "minMember": 2,
            "queue": "q",
            "priorityClassName": "train",
            "preemptibility": "preemptible",
            "topologyConstraint": {"topology": "net", "requiredTopologyLevel": "rack"},
            "stalenessGracePeriod": "1m30s",
        })
    );
    assert!(group.get("status").is_none());
}

#[test]
fn what_equals_is_not_written() {
    let plan = job_plan(
        &json!({"kai.scheduler/queue": "q"}),
        &json!({"kai.scheduler/staleness-grace-period": "90s"}),
    );
    let mut existing = stored(&plan);
    let same = |existing: &PodGroup| {
        write_group(&plan, Some(existing), &GrouperConfig::default(), OPTIONS)
    };
    assert_eq!(same(&existing), GroupWrite::Nothing);
    // Written by others, or in other words.
    existing.spec.mark_unschedulable = Some(false);
    existing.spec.scheduling_backoff = Some(1);
    existing.spec.preemptibility = Some(String::new());
    existing.spec.topology_constraint = Some(kai_api::pod_group::TopologyConstraint::default());
    existing.spec.staleness_grace_period = Some(kai_api::duration::DurationText("90s".to_owned()));
    existing.metadata.labels.get_or_insert_default().insert("foreign".to_owned(), "x".to_owned());
    let annotations = existing.metadata.annotations.get_or_insert_default();
    annotations
        .insert("kai.scheduler/last-start-timestamp".to_owned(), "2026-01-01T00:00:00Z".to_owned());
    assert_eq!(same(&existing), GroupWrite::Nothing);
}

#[test]
fn a_change_keeps_what_others_own() {
    let old = job_plan(&json!({"kai.scheduler/queue": "old"}), &json!({}));
    let mut existing = stored(&old);
    existing.spec.mark_unschedulable = Some(false);
    existing.spec.scheduling_backoff = Some(1);
    existing
        .metadata
        .labels
        .get_or_insert_default()
        .insert("kai.scheduler/node-pool".to_owned(), "pool".to_owned());
    existing.metadata.labels.get_or_insert_default().insert("foreign".to_owned(), "x".to_owned());

    let new = job_plan(
        &json!({"kai.scheduler/queue": "new", "kai.scheduler/node-pool": "other", "team": "a"}),
        &json!({"kai.scheduler/batch-min-member": "3"}),
    );
    let update = update(&new, &existing, OPTIONS);
    let replaced = serde_json::to_value(&update.replace).expect("JSON");
    assert_eq!(replaced["spec"]["queue"], "old");
    assert_eq!(replaced["spec"]["minMember"], 3);
    assert_eq!(replaced["spec"]["markUnschedulable"], false);
    assert_eq!(replaced["spec"]["schedulingBackoff"], 1);
    assert_eq!(
        replaced["metadata"]["labels"],
        json!({"kai.scheduler/queue": "old", "kai.scheduler/node-pool": "pool", "team": "a", "foreign": "x"})
    );
    let applied = serde_json::to_value(&update.apply).expect("JSON");
    assert_eq!(applied["spec"]["queue"], "old");
    assert_eq!(applied["spec"].get("markUnschedulable"), None);
    assert_eq!(
        applied["metadata"]["labels"],
        json!({"kai.scheduler/queue": "old", "kai.scheduler/node-pool": "pool", "team": "a"})
    );
    let after = write_group(&new, Some(&update.replace), &GrouperConfig::default(), OPTIONS);
    assert_eq!(after, GroupWrite::Nothing);
}

#[test]
fn a_node_pool_comes_only_with_the_group() {
    let plan =
        plan(&pod(&json!({"kai.scheduler/node-pool": "pool"}), &json!({})), &json!({}), &json!({}));
    assert_eq!(plan.labels["kai.scheduler/node-pool"], "pool");
    let mut existing = stored(&plan);
    existing.metadata.labels.get_or_insert_default().clear();
    assert_eq!(
        write_group(&plan, Some(&existing), &GrouperConfig::default(), OPTIONS),
        GroupWrite::Nothing
    );
}

#[test]
fn the_queue_moves_only_where_allowed() {
    let existing = stored(&job_plan(&json!({"kai.scheduler/queue": "old"}), &json!({})));
    let plan = job_plan(&json!({"kai.scheduler/queue": "new"}), &json!({}));
    assert_eq!(
        write_group(&plan, Some(&existing), &GrouperConfig::default(), OPTIONS),
        GroupWrite::Nothing
    );
    let moved = update(&plan, &existing, WriteOptions { move_queue: true, ..OPTIONS });
    assert_eq!(moved.replace.spec.queue.as_deref(), Some("new"));
    assert_eq!(moved.replace.metadata.labels.unwrap_or_default()["kai.scheduler/queue"], "new");
}

#[test]
fn a_topology_stays_where_the_workload_names_none() {
    let mut existing = stored(&job_plan(&json!({}), &json!({})));
    existing.spec.topology_constraint =
        serde_json::from_value(json!({"topology": "net", "requiredTopologyLevel": "rack"}))
            .expect("a constraint");
    let same = job_plan(&json!({}), &json!({}));
    assert_eq!(
        write_group(&same, Some(&existing), &GrouperConfig::default(), OPTIONS),
        GroupWrite::Nothing
    );
    let other = job_plan(&json!({}), &json!({"kai.scheduler/topology": "net2"}));
    let update = update(&other, &existing, OPTIONS);
    let constraint = update.replace.spec.topology_constraint.expect("a constraint");
    assert_eq!(
        (constraint.topology.as_deref(), constraint.required_topology_level),
        (Some("net2"), None)
    );
}

#[test]
fn keys_that_we_wrote_and_no_longer_want_go() {
    let old = job_plan(&json!({"team": "a"}), &json!({"note": "x"}));
    let mut existing = stored(&old);
    existing.metadata.labels.get_or_insert_default().insert("foreign".to_owned(), "x".to_owned());
    let fields =
        json!({"f:metadata": {"f:labels": {"f:team": {}}, "f:annotations": {"f:note": {}}}});
    existing.metadata.managed_fields = Some(vec![ManagedFieldsEntry {
        manager: Some("kai-pod-grouper".to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        ..ManagedFieldsEntry::default()
    }]);
    let new = job_plan(&json!({}), &json!({}));
    let update = update(&new, &existing, OPTIONS);
    let labels = update.replace.metadata.labels.unwrap_or_default();
    assert!(!labels.contains_key("team") && labels.contains_key("foreign"), "{labels:?}");
    assert!(!update.replace.metadata.annotations.unwrap_or_default().contains_key("note"));
}

#[test]
fn pods_are_patched_only_where_they_differ() {
    let unlinked = pod(&json!({}), &json!({}));
    let mut plan = plan(&unlinked, &json!({}), &json!({}));
    let link = |labels: &[(&'static str, Option<&str>)],
                annotations: &[(&'static str, Option<&str>)]| {
        let texts = |texts: &[(&'static str, Option<&str>)]| {
            texts.iter().map(|(key, text)| ((*key).into(), text.map(str::to_owned))).collect()
        };
        Some(PodLink { labels: texts(labels), annotations: texts(annotations) })
    };
    assert_eq!(pod_link(&unlinked, &plan), link(&[], &[("pod-group-name", Some("pg-j-ju"))]));
    let linked = pod(&json!({}), &json!({"pod-group-name": "pg-j-ju"}));
    assert_eq!(pod_link(&linked, &plan), None);
    let stale =
        pod(&json!({"kai.scheduler/subgroup-name": "old"}), &json!({"pod-group-name": "pg-j-ju"}));
    assert_eq!(pod_link(&stale, &plan), link(&[("kai.scheduler/subgroup-name", None)], &[]));
    plan.pod_sub_group = Some("worker".to_owned());
    assert_eq!(
        pod_link(&linked, &plan),
        link(&[("kai.scheduler/subgroup-name", Some("worker"))], &[])
    );
}
