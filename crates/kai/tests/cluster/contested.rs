//! Pods of another scheduler that are bound to the same node at the same time as ours.

use std::time::Duration;

use serde_json::{Value, json};

use crate::statuses::event_messages;
use crate::world::World;
use crate::{QUEUE, open};

/// A world with one GPU, and a group of single pods.
async fn one_gpu(name: &'static str) -> Option<World> {
    let mut world = World::new(name).await?;
    world.queue("q", open(), open()).await;
    world
        .node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "100", "nvidia.com/gpu": "1"}))
        .await;
    let groups = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{name}/podgroups");
    let labels = json!({"kai.scheduler/node-pool": world.pool});
    let group = json!({
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "group", "labels": labels},
        "spec": {"minMember": 1, "queue": world.queue_name("q")},
    });
    world.create(&groups, &group).await;
    world.start_kai("kai", &[]).await;
    Some(world)
}

/// A pod with a controller that asks for the GPU. The controller exists: the garbage collector removes pods whose owner does not,
/// which looks as if a bind had been reverted.
async fn ours(world: &World, name: &str) -> Value {
    let owners = format!("/api/v1/namespaces/{}/configmaps", world.name);
    let owner = format!("owner-of-{name}");
    let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": owner}});
    world.create(&owners, &made).await;
    let made = world.get(&format!("{owners}/{owner}")).await.expect("an owner");
    let gpu = json!({"cpu": "100m", "nvidia.com/gpu": "1"});
    let mut pod = world.pod(name, &[(QUEUE, &world.queue_name("q"))], &gpu);
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
    pod["metadata"]["annotations"] = json!({"pod-group-name": "group"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": owner, "uid": made["metadata"]["uid"], "controller": true}]);
    pod
}

/// Whether an event of our pod says that it gave way to the other one.
async fn gave_way(world: &World, name: &str, other: &str) -> bool {
    let cause = format!("pod {}/{other} of another scheduler", world.name);
    event_messages(world, name, "ContestedNode").await.iter().any(|text| text.contains(&cause))
}

/// A pod that another scheduler has bound to the node.
fn foreign(world: &World, name: &str) -> Value {
    let gpu = json!({"cpu": "100m", "nvidia.com/gpu": "1"});
    let mut pod = world.pod(name, &[], &gpu);
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
    pod["spec"]["schedulerName"] = json!("another-scheduler");
    pod["spec"]["nodeName"] = json!(format!("{}-n", world.name));
    pod
}

async fn holds_the_gpu(world: &World, name: &str) -> bool {
    let pod = world.see_pod(name).await;
    pod.is_some_and(|pod| {
        pod["spec"]["nodeName"].is_string() && pod["metadata"]["deletionTimestamp"].is_null()
    })
}

async fn remove(world: &World, name: &str) {
    let path = format!("/api/v1/namespaces/{}/pods/{name}", world.name);
    if world.see_pod(name).await.is_some() {
        world.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    }
}

#[tokio::test]
async fn a_pod_that_has_not_started_gives_way_to_a_pod_of_another_scheduler() {
    let Some(world) = one_gpu("contested").await else { return };
    let pod = ours(&world, "ours").await;
    world.create_pod(&pod).await;
    world.wait_bound("ours").await;
    // Nothing but the other pod makes it go.
    world
        .stays("it holds the GPU", Duration::from_secs(3), async || {
            holds_the_gpu(&world, "ours").await
        })
        .await;
    world.create_pod(&foreign(&world, "other")).await;
    world.wait("our bind is reverted", async || !holds_the_gpu(&world, "ours").await).await;
    world.wait("an event says why", async || gave_way(&world, "ours", "other").await).await;
}

/// So often in a row the GPU has one user before the race counts as decided.
const OBSERVATIONS: u32 = 10;

#[tokio::test]
async fn gpu_is_used_by_one_pod_whichever_bind_comes_first() {
    let Some(world) = one_gpu("raced").await else { return };
    let mut reverted = 0;
    for round in 0..12_u64 {
        let (mine, other) = (format!("ours-{round}"), format!("other-{round}"));
        let pod = ours(&world, &mine).await;
        let late = async {
            tokio::time::sleep(Duration::from_millis(round * 8)).await;
            world.create_pod(&foreign(&world, &other)).await;
        };
        tokio::join!(world.create_pod(&pod), late);
        // A bind that was in flight may still arrive, and is then reverted.
        world
            .wait("the other pod alone keeps the GPU", async || {
                for _ in 0..OBSERVATIONS {
                    let alone =
                        holds_the_gpu(&world, &other).await && !holds_the_gpu(&world, &mine).await;
                    if !alone {
                        return false;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                true
            })
            .await;
        reverted += u32::from(gave_way(&world, &mine, &other).await);
        remove(&world, &mine).await;
        remove(&world, &other).await;
    }
    assert!(reverted > 0, "no bind had to be reverted: nothing was raced");
}
