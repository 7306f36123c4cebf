//! `kai run` on a real API server, with the rights of its own service account and no others. Each test has a namespace, a node
//! pool and a scheduler name of its own. `KAI_TEST_LOG=1` shows what `kai` logs.

mod admission;
mod attacks;
mod binder;
mod budgets;
mod chart;
mod chart_values;
mod compaction;
mod config;
mod contested;
mod devices;
mod disruptions;
mod encrypted;
mod explained;
mod faults;
mod gangs;
mod gpus;
mod groups_first;
mod guard;
mod hostile_objects;
mod in_process;
mod installation;
mod kubernetes_groups;
mod leases;
mod logged;
mod metrics_access;
mod namespaces;
mod pods_of_every_kind;
mod queue_access;
mod registered;
mod resize;
mod scaling;
mod separate_processes;
mod served;
mod shards;
mod sharing;
mod statuses;
mod take_over;
mod tenants;
mod volumes_and_claims;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use world::World;

/// No bound and no quota, a share of what is left.
fn open() -> Value {
    json!({"quota": 0, "limit": -1, "overQuotaWeight": 1})
}

const QUEUE: &str = "kai.scheduler/queue";

#[tokio::test]
async fn a_pod_with_a_queue_label_is_bound_by_one_write() {
    let Some(mut world) = World::new("plain").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    assert_eq!(world.wait_bound("p").await, "plain-n");
    let pod = world.see_pod("p").await.expect("the pod");
    assert_eq!(pod["metadata"]["annotations"]["received-resource-type"], "Regular");
    assert_eq!(patches_of_ours(&pod), 0, "the binding is the only write");
    assert!(world.pod_groups().await.is_empty(), "a pod that is its own group has no object of it");
    assert!(world.list("/apis/scheduling.run.ai/v1alpha2", "bindrequests").await.is_empty());
}

/// How many field managers of the object are ours; the binding itself adds none.
fn patches_of_ours(object: &Value) -> usize {
    let writers = object["metadata"]["managedFields"].as_array().expect("writers");
    writers.iter().filter(|entry| entry["manager"] == "kai").count()
}

/// A `PyTorchJob` with one master and two workers, and its pods as its operator would make them.
async fn gang(world: &World, queue: &str) -> [&'static str; 3] {
    let template = json!({"spec": {"containers": []}});
    let mut labels = json!({QUEUE: queue});
    if let Some(pool) = world.pool {
        labels["kai.scheduler/node-pool"] = json!(pool);
    }
    let job = json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "job", "namespace": world.name, "labels": labels},
        "spec": {"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": template},
            "Worker": {"replicas": 2, "template": template},
        }},
    });
    let path = format!("/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs", world.name);
    let made = world.create(&path, &job).await;
    let members = ["job-master-0", "job-worker-0", "job-worker-1"];
    for name in members {
        let role = if name.contains("master") { "master" } else { "worker" };
        let labels = [
            ("training.kubeflow.org/job-name", "job"),
            ("training.kubeflow.org/replica-type", role),
            ("training.kubeflow.org/job-role", role),
        ];
        let mut pod = world.pod(name, &labels, &json!({"cpu": "2"}));
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "job", "uid": made["metadata"]["uid"], "controller": true,
        }]);
        world.create_pod(&pod).await;
    }
    members
}

#[tokio::test]
async fn a_gang_waits_until_all_of_it_fits() {
    let Some(mut world) = World::new("gang").await else { return };
    world.queue("q", open(), open()).await;
    world.node("small", json!({"cpu": "5", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let members = gang(&world, &queue).await;
    world.wait("the gang has a group", async || world.pod_groups().await.len() == 1).await;
    let group = world.pod_groups().await.remove(0);
    assert_eq!(group["spec"]["queue"], queue, "the label of the job counts");
    world
        .wait("every member is linked", async || {
            let pods = world.list("/api/v1", "pods").await;
            pods.iter().all(|pod| {
                pod["metadata"]["annotations"]["pod-group-name"] == group["metadata"]["name"]
            })
        })
        .await;
    let member = world.see_pod(members[0]).await.expect("a member");
    assert_eq!(patches_of_ours(&member), 1, "it was linked by a patch");
    // A group that is deleted is created again.
    let name = group["metadata"]["name"].as_str().expect("a name");
    let path =
        format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups/{name}", world.name);
    world.delete(&path, &json!({})).await;
    world
        .wait("the group is written again", async || {
            world
                .get(&path)
                .await
                .is_some_and(|new| new["metadata"]["uid"] != group["metadata"]["uid"])
        })
        .await;
    // Two of three would fit: the scheduler works, but not for a part of a gang.
    world.create_pod(&world.pod("other", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("other").await;
    world
        .stays("no member is bound", Duration::from_secs(2), async || {
            world
                .list("/api/v1", "pods")
                .await
                .iter()
                .all(|pod| pod["metadata"]["name"] == "other" || pod["spec"]["nodeName"].is_null())
        })
        .await;
    world.node("more", json!({"cpu": "2", "memory": "8Gi", "pods": "10"})).await;
    for member in members {
        world.wait_bound(member).await;
    }
}

#[tokio::test]
async fn a_queue_does_not_exceed_its_limit() {
    let Some(mut world) = World::new("limit").await else { return };
    world.queue("q", json!({"quota": 0, "limit": 1000, "overQuotaWeight": 1}), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    for name in ["a", "b"] {
        world.create_pod(&world.pod(name, &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
        if name == "a" {
            world.wait_bound("a").await;
        }
    }
    // The one that waits gets an object of its group after a while.
    world.wait("the waiting pod has a group", async || world.group_of("b").await.is_some()).await;
    assert_eq!(world.node_of("b").await, None);
    let group = world.group_of("b").await.expect("its group");
    assert_eq!(group["metadata"]["ownerReferences"][0]["name"], "b");
    let path = format!("/apis/scheduling.run.ai/v2/queues/{queue}");
    world.patch(&path, &json!({"spec": {"resources": {"cpu": {"limit": 2000}}}})).await;
    world.wait_bound("b").await;
}

/// One GPU, used by a pod of low priority that runs.
async fn occupied(world: &World, queue: &str) {
    world
        .node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"}))
        .await;
    let labels = [(QUEUE, queue), ("priorityClassName", "train"), ("app", "low")];
    world.create_pod(&world.pod("low", &labels, &json!({"nvidia.com/gpu": "1"}))).await;
    world.wait_bound("low").await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    world.patch(&format!("/api/v1/namespaces/{}/pods/low/status", world.name), &status).await;
}

#[tokio::test]
async fn a_higher_priority_preempts_through_the_eviction_api() {
    let Some(mut world) = World::new("preempt").await else { return };
    world.queue("q", open(), json!({"quota": 1, "limit": -1, "overQuotaWeight": 1})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    occupied(&world, &queue).await;
    let labels = [(QUEUE, queue.as_str()), ("priorityClassName", "build-preemptible")];
    world.create_pod(&world.pod("high", &labels, &json!({"nvidia.com/gpu": "1"}))).await;
    world
        .wait("low is evicted", async || {
            let low = world.see_pod("low").await.expect("only the node removes it");
            low["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    assert_eq!(world.node_of("high").await, None, "its place is not free yet");
    let path = format!("/api/v1/namespaces/{}/pods/low", world.name);
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(world.wait_bound("high").await, "preempt-n");
}

#[tokio::test]
async fn nothing_is_lost_when_kai_dies_between_plan_and_bind() {
    let Some(mut world) = World::new("restart").await else { return };
    world.queue("q", open(), open()).await;
    for name in ["n1", "n2", "n3"] {
        world.node(name, json!({"cpu": "8", "memory": "8Gi", "pods": "20"})).await;
    }
    // This account may group pods and read everything, but every bind is denied: plans are made and not executed.
    world.start_kai("pod-grouper", &[]).await;
    let queue = world.queue_name("q");
    let members = gang(&world, &queue).await;
    let pods: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    for pod in &pods[..10] {
        world.create_pod(&world.pod(pod, &[(QUEUE, &queue)], &json!({"cpu": "500m"}))).await;
    }
    world.wait("the gang has a group", async || world.group_of("job").await.is_some()).await;
    world
        .stays("nothing is bound", Duration::from_secs(1), async || bound(&world).await.is_empty())
        .await;
    world.kill_kai();
    for pod in &pods[10..] {
        world.create_pod(&world.pod(pod, &[(QUEUE, &queue)], &json!({"cpu": "500m"}))).await;
    }
    world.start_kai("kai", &[]).await;
    world.wait("some are bound", async || bound(&world).await.len() >= 3).await;
    world.kill_kai(); // in the midst of binding, or at its end
    world.start_kai("kai", &[]).await;
    world.wait("all are bound", async || bound(&world).await.len() == 23).await;
    let places = bound(&world).await;
    assert!(members.iter().all(|member| places.contains_key(*member)));
    let mut used: BTreeMap<&str, u32> = BTreeMap::new();
    for (pod, node) in &places {
        *used.entry(node).or_default() += if pod.starts_with("job") { 2000 } else { 500 };
    }
    assert!(used.values().all(|milli| *milli <= 8000), "a node is over-committed: {used:?}");
}

/// Pods with a node, by name.
async fn bound(world: &World) -> BTreeMap<String, String> {
    let pods = world.list("/api/v1", "pods").await;
    let placed = pods.iter().filter_map(|pod| {
        let node = pod["spec"]["nodeName"].as_str()?;
        Some((pod["metadata"]["name"].as_str()?.to_owned(), node.to_owned()))
    });
    placed.collect()
}

#[tokio::test]
async fn each_function_alone_has_the_rights_it_needs() {
    let Some(mut world) = World::new("alone").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("scheduler", &["--only", "scheduler"]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    let members = gang(&world, &queue).await;
    world
        .stays("no pod grouper runs, so nothing is bound", Duration::from_secs(2), async || {
            bound(&world).await.is_empty() && world.pod_groups().await.is_empty()
        })
        .await;
    world.start_kai("pod-grouper", &["--only", "pod-grouper"]).await;
    for pod in members.into_iter().chain(["p"]) {
        world.wait_bound(pod).await;
    }
    // One process groups; the other observes the groups as objects only.
    assert_eq!(world.pod_groups().await.len(), 2);
}
