//! Leader election on a real API server.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

async fn holder(world: &World, lease: &str) -> Option<String> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/{lease}");
    let lease: Value = world.get(&path).await?;
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

#[tokio::test]
async fn a_standby_takes_over_when_the_leader_dies() {
    let Some(mut world) = World::new("standby").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    // The leases of the other functions are those of the whole cluster: here only this scheduler's counts.
    let arguments = ["--leader-elect", "--only", "scheduler"];
    world.start_kai("scheduler", &arguments).await;
    let lease = "standby-standby"; // scheduler name and partition
    world.wait("somebody leads", async || holder(&world, lease).await.is_some()).await;
    let first = holder(&world, lease).await.expect("a leader");
    world.start_kai("scheduler", &arguments).await;
    world.start_kai("pod-grouper", &["--only", "pod-grouper"]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("a", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("a").await;
    assert_eq!(holder(&world, lease).await, Some(first.clone()));
    world.kill_first_kai();
    world.create_pod(&world.pod("b", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("b").await;
    assert_ne!(holder(&world, lease).await, Some(first));
}
