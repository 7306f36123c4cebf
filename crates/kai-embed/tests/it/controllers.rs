//! Workloads come to pods, and their statuses say so.

use kai_embed::controllers::workload_definitions;
use serde_json::{Value, json};

use crate::world::{World, play};

/// The spec of a pod that runs so long.
fn pod_spec() -> Value {
    json!({"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [
        {"name": "c", "image": "i:1", "resources": {"limits": {"nvidia.com/gpu": 1}}},
    ]})
}

fn template(seconds: Option<u32>) -> Value {
    let mut template = json!({"metadata": {"labels": {"app": "x", "kai.scheduler/queue": "q"}}, "spec": pod_spec()});
    if let Some(seconds) = seconds {
        template["metadata"]["annotations"] =
            json!({"kai.scheduler/sim-duration": format!("{seconds}s")});
    }
    template
}

/// A cluster with enough capacity, and this object in it.
async fn with(world: &World, object: Value) {
    for definition in workload_definitions() {
        world.make(&definition);
    }
    world.node("n", 8);
    world.queue("q", 8, -1);
    let mut object = object;
    object["metadata"] =
        json!({"name": "w", "namespace": "default", "labels": {"kai.scheduler/queue": "q"}});
    world.make(&object);
    world.seconds(10).await;
}

fn status(world: &World, group: &str, plural: &str) -> Value {
    let key = kai_embed::Key::new("default", "w");
    let found = world.cluster.with(|cluster, _| cluster.get((group, plural), &key).cloned());
    found.expect("the workload")["status"].clone()
}

fn pods(world: &World) -> Vec<String> {
    world.cluster.with(|cluster, _| {
        cluster.list(("", "pods")).map(|pod| kai_embed::Key::of(pod).name).collect()
    })
}

fn conditions(status: &Value) -> Vec<&str> {
    let all = status["conditions"].as_array().expect("conditions").iter();
    all.filter(|one| one["status"] == "True")
        .map(|one| one["type"].as_str().expect("a type"))
        .collect()
}

#[test]
fn a_stateful_set_numbers_its_pods() {
    play(async |world: World| {
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {
            "replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": template(None)["metadata"], "spec": {"schedulerName": "kai-scheduler", "containers": pod_spec()["containers"]}},
        }});
        with(&world, set).await;
        assert_eq!(pods(&world), ["w-0", "w-1", "w-2"]);
        assert_eq!(status(&world, "apps", "statefulsets")["readyReplicas"], 3);
    });
}

#[test]
fn a_job_set_completes_with_its_jobs() {
    play(async |world: World| {
        let job = |name: &str| json!({"name": name, "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template(Some(20))}}});
        with(&world, json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [job("a"), job("b")]}})).await;
        assert_eq!(pods(&world).len(), 4);
        let running = status(&world, "jobset.x-k8s.io", "jobsets");
        assert_eq!(running["replicatedJobsStatus"][0]["ready"], 1, "{running:#}");
        world.seconds(30).await;
        assert_eq!(conditions(&status(&world, "jobset.x-k8s.io", "jobsets")), ["Completed"]);
    });
}

#[test]
fn a_ray_cluster_has_a_head_and_workers() {
    play(async |world: World| {
        let ray = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {
            "headGroupSpec": {"template": template(None)},
            "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "minReplicas": 1, "maxReplicas": 3, "template": template(None)}],
        }});
        with(&world, ray).await;
        assert_eq!(pods(&world).len(), 3);
        let status = status(&world, "ray.io", "rayclusters");
        assert_eq!(
            (&status["state"], &status["readyWorkerReplicas"]),
            (&json!("ready"), &json!(2))
        );
    });
}

#[test]
fn a_pytorch_job_runs_and_succeeds_with_its_master() {
    play(async |world: World| {
        let spec = json!({"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": template(Some(20))},
            "Worker": {"replicas": 2, "template": template(None)},
        }});
        with(&world, json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec}))
            .await;
        assert_eq!(pods(&world), ["w-master-0", "w-worker-0", "w-worker-1"]);
        assert_eq!(
            conditions(&status(&world, "kubeflow.org", "pytorchjobs")),
            ["Created", "Running"]
        );
        world.seconds(30).await;
        assert_eq!(
            conditions(&status(&world, "kubeflow.org", "pytorchjobs")),
            ["Created", "Succeeded"]
        );
    });
}
