//! Several shards in one process, on a real API server.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

const POOL: &str = "kai.scheduler/node-pool";
const SHARDS: &str = "/apis/kai.scheduler/v1/schedulingshards";

async fn ready(world: &World, shard: &str) -> Value {
    condition(world, shard, "Ready").await
}

async fn condition(world: &World, shard: &str, kind: &str) -> Value {
    let shard = world.get(&format!("{SHARDS}/{shard}")).await.expect("the shard");
    let conditions = shard["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

async fn label(world: &World, path: &str) {
    world.patch(path, &json!({"metadata": {"labels": {POOL: "gpu"}}})).await;
}

#[tokio::test]
async fn each_shard_schedules_its_part_and_is_read_live() {
    let Some(mut world) = World::alone("sharded").await else { return };
    for (name, spec) in [
        ("default", json!({})),
        ("gpu", json!({"partitionLabelValue": "gpu", "args": {"typo": "1"}})),
    ] {
        let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": name}, "spec": spec});
        world.create(SHARDS, &shard).await;
    }
    for name in ["n", "g"] {
        world.node(name, json!({"cpu": "4", "memory": "8Gi", "pods": "10"})).await;
        world.queue(name, open(), open()).await;
    }
    label(&world, "/api/v1/nodes/sharded-g").await;
    label(&world, &format!("/apis/scheduling.run.ai/v2/queues/{}", world.queue_name("g"))).await;
    world.start_kai("kai", &[]).await;
    for name in ["n", "g"] {
        let queue = world.queue_name(name);
        let mut labels = vec![(QUEUE, queue.as_str())];
        if name == "g" {
            labels.push((POOL, "gpu"));
        }
        world.create_pod(&world.pod(name, &labels, &json!({"cpu": "1"}))).await;
    }
    assert_eq!(world.wait_bound("n").await, "sharded-n");
    assert_eq!(world.wait_bound("g").await, "sharded-g");
    for name in ["n", "g"] {
        let path = format!("/apis/scheduling.run.ai/v2/queues/{}", world.queue_name(name));
        world
            .wait("queues of all shards show their sums", async || {
                world.get(&path).await.expect("the queue")["status"]["allocated"]["cpu"] == "1"
            })
            .await;
    }
    // Clients of KAI wait for this condition.
    for shard in ["default", "gpu"] {
        world
            .wait("the dependencies of the shard are fulfilled", async || {
                condition(&world, shard, "DependenciesFulfilled").await["status"] == "True"
            })
            .await;
    }
    world
        .wait("the bad flag is reported", async || {
            ready(&world, "gpu").await["message"] == "unknown flag: --typo"
        })
        .await;
    assert_eq!(ready(&world, "default").await["status"], "True");
    // Settings are read live, and scheduling continues.
    world.patch(&format!("{SHARDS}/gpu"), &json!({"spec": {"args": {"typo": null}}})).await;
    world.wait("the shard is well", async || ready(&world, "gpu").await["status"] == "True").await;
    let queue = world.queue_name("g");
    world
        .create_pod(&world.pod("later", &[(QUEUE, &queue), (POOL, "gpu")], &json!({"cpu": "1"})))
        .await;
    assert_eq!(world.wait_bound("later").await, "sharded-g");
    // What is explained is what the shard would decide, without a word on the command line.
    world.kill_kai();
    let strict = json!({"spec": {"args": {"restrict-node-scheduling": "true"}}});
    world.patch(&format!("{SHARDS}/gpu"), &strict).await;
    let explanation = world.explain("kai", &["pod", "later"]).await;
    assert!(explanation.ends_with("Planned as shard gpu plans\n"), "{explanation}");
    world.kill_kai(); // it may not have observed the change yet, and would bind the pod
    world
        .create_pod(&world.pod("refused", &[(QUEUE, &queue), (POOL, "gpu")], &json!({"cpu": "1"})))
        .await;
    let explanation = world.explain("kai", &["pod", "refused"]).await;
    assert!(explanation.contains("can't run on non cpu nodes"), "{explanation}");
}
