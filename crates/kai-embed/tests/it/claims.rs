//! Cron jobs, volumes and claims: what their controllers make of them.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kai_embed::nodes::NodeProfile;
use kai_embed::{Cluster, Key};
use serde_json::{Value, json};

const CLAIMS: (&str, &str) = ("", "persistentvolumeclaims");
const VOLUMES: (&str, &str) = ("", "persistentvolumes");
const JOBS: (&str, &str) = ("batch", "jobs");
const DEVICE_CLAIMS: (&str, &str) = ("resource.k8s.io", "resourceclaims");

fn beginning() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(1, beginning());
    cluster.add_node(&NodeProfile::with_gpus("n", 0)).expect("a node");
    cluster
}

fn make(cluster: &mut Cluster, object: &Value) -> Value {
    let made = cluster.make(object).unwrap_or_else(|failure| panic!("{failure}: {object}"));
    Value::clone(&made)
}

fn see(cluster: &Cluster, resource: (&str, &str), namespace: &str, name: &str) -> Value {
    let found = cluster.get(resource, &Key::new(namespace, name));
    found.map_or(Value::Null, |object| Value::clone(object))
}

fn names(cluster: &Cluster, resource: (&str, &str)) -> Vec<String> {
    cluster.list(resource).map(|object| Key::of(object).name).collect()
}

fn replace(cluster: &mut Cluster, object: &Value) {
    cluster.replace(object).unwrap_or_else(|failure| panic!("{failure}: {object}"));
}

fn class(mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": mode.to_lowercase()}, "provisioner": "example.com/disk", "volumeBindingMode": mode})
}

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}},
    }})
}

fn volume(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "storageClassName": "by-hand", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": size}, "hostPath": {"path": "/x"},
    }})
}

fn pod(name: &str, more: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "nodeName": "n", "containers": [{"name": "c", "image": "i:1"}],
    }});
    for (key, value) in more.as_object().expect("fields") {
        pod["spec"][key] = value.clone();
    }
    pod
}

#[test]
fn a_cron_job_makes_a_job_each_time() {
    let mut cluster = cluster();
    let template = json!({"metadata": {"annotations": {"kai.scheduler/sim-duration": "10s"}}, "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}});
    make(
        &mut cluster,
        &json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "default"}, "spec": {
            "schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 2,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template}},
        }}),
    );
    assert_eq!(names(&cluster, JOBS), Vec::<String>::new());
    cluster.pass_time(beginning() + SignedDuration::from_mins(5));
    let minutes = beginning().as_second() / 60 + 5;
    let first = format!("nightly-{minutes}");
    assert_eq!(names(&cluster, JOBS), [first.as_str()]);
    let job = see(&cluster, JOBS, "default", &first);
    assert_eq!(job["metadata"]["labels"]["a"], "b");
    let cron = see(&cluster, ("batch", "cronjobs"), "default", "nightly");
    assert_eq!(cron["status"]["active"][0]["name"], first.as_str());
    cluster.pass_time(beginning() + SignedDuration::from_mins(16));
    assert_eq!(names(&cluster, JOBS).len(), 2, "older ones that succeeded are forgotten");
    let cron = see(&cluster, ("batch", "cronjobs"), "default", "nightly");
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T00:15:00Z");
    assert!(cron["status"]["lastSuccessfulTime"].is_string() && cron["status"]["active"].is_null());
}

#[test]
fn claims_get_the_smallest_volume_that_fits() {
    let mut cluster = cluster();
    for (name, size) in [("small", "1Gi"), ("large", "100Gi"), ("right", "10Gi")] {
        make(&mut cluster, &volume(name, size));
    }
    assert_eq!(see(&cluster, VOLUMES, "", "right")["status"]["phase"], "Available");
    make(&mut cluster, &claim("c", "by-hand"));
    let bound = see(&cluster, CLAIMS, "default", "c");
    assert_eq!(bound["spec"]["volumeName"], "right");
    assert_eq!(bound["status"]["phase"], "Bound");
    assert_eq!(bound["status"]["capacity"]["storage"], "10Gi");
    assert_eq!(see(&cluster, VOLUMES, "", "right")["status"]["phase"], "Bound");
    let gone = kai_embed::api::Request::send(
        "DELETE",
        "/api/v1/namespaces/default/persistentvolumeclaims/c",
        &Value::Null,
    );
    cluster.request(&gone, beginning());
    assert_eq!(see(&cluster, VOLUMES, "", "right")["status"]["phase"], "Released");
}

#[test]
fn volumes_are_made_when_their_class_says_so() {
    let mut cluster = cluster();
    make(&mut cluster, &class("Immediate"));
    make(&mut cluster, &class("WaitForFirstConsumer"));
    make(&mut cluster, &claim("now", "immediate"));
    assert_eq!(see(&cluster, CLAIMS, "default", "now")["status"]["phase"], "Bound");
    make(&mut cluster, &claim("later", "waitforfirstconsumer"));
    let mut later = see(&cluster, CLAIMS, "default", "later");
    assert_eq!(later["status"]["phase"], "Pending");
    make(
        &mut cluster,
        &pod(
            "p",
            &json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "later"}}]}),
        ),
    );
    cluster.pass_time(beginning() + SignedDuration::from_secs(5));
    assert_eq!(see(&cluster, ("", "pods"), "default", "p")["status"]["phase"], "Pending");
    later["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("n");
    later["metadata"].as_object_mut().expect("metadata").shift_remove("resourceVersion");
    replace(&mut cluster, &later);
    assert_eq!(see(&cluster, CLAIMS, "default", "later")["status"]["phase"], "Bound");
    cluster.pass_time(beginning() + SignedDuration::from_secs(10));
    assert_eq!(see(&cluster, ("", "pods"), "default", "p")["status"]["phase"], "Running");
}

#[test]
fn a_claim_of_devices_is_made_for_each_pod() {
    let mut cluster = cluster();
    make(
        &mut cluster,
        &pod(
            "p",
            &json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}),
        ),
    );
    assert_eq!(names(&cluster, DEVICE_CLAIMS), Vec::<String>::new());
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    make(
        &mut cluster,
        &json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one", "namespace": "default"}, "spec": {"spec": {"devices": {"requests": [request]}}}}),
    );
    let made = names(&cluster, DEVICE_CLAIMS);
    assert!(made.len() == 1 && made[0].starts_with("p-gpu-"), "{made:?}");
    let pod = see(&cluster, ("", "pods"), "default", "p");
    assert_eq!(
        pod["status"]["resourceClaimStatuses"],
        json!([{"name": "gpu", "resourceClaimName": made[0]}])
    );
    cluster.pass_time(beginning() + SignedDuration::from_secs(5));
    assert_eq!(see(&cluster, ("", "pods"), "default", "p")["status"]["phase"], "Pending");
    let mut claim = see(&cluster, DEVICE_CLAIMS, "default", &made[0]);
    let holder = json!({"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]});
    claim["status"] = json!({"allocation": {"devices": {"results": []}}, "reservedFor": [holder]});
    cluster.set_status(&claim).expect("an allocation");
    cluster.pass_time(beginning() + SignedDuration::from_secs(10));
    assert_eq!(see(&cluster, ("", "pods"), "default", "p")["status"]["phase"], "Running");
    let gone = json!({"gracePeriodSeconds": 0});
    let gone = kai_embed::api::Request::send("DELETE", "/api/v1/namespaces/default/pods/p", &gone);
    cluster.request(&gone, beginning() + SignedDuration::from_secs(11));
    assert_eq!(names(&cluster, DEVICE_CLAIMS), Vec::<String>::new());
}
