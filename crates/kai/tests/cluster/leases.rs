//! Leader election on a real API server.

use kai_core::time::Timestamp;
use kai_translate::time::parse;
use serde_json::{Value, json};

use crate::installation::print_past_harness;
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
    // Leases of the other functions belong to the whole cluster: here only the lease of this scheduler counts.
    let arguments = ["--leader-elect", "--only", "scheduler"];
    world.start_kai("scheduler", &arguments).await;
    let lease = "standby-standby"; // scheduler name and partition
    world.wait("a leader is elected", async || holder(&world, lease).await.is_some()).await;
    let first = holder(&world, lease).await.expect("a leader");
    world.start_kai("pod-grouper", &["--only", "pod-grouper"]).await;
    let file = std::env::temp_dir().join(format!("kai-standby-{}.log", std::process::id()));
    world.log_to(&file);
    world.start_kai("scheduler", &[&arguments[..], &["--log-json"]].concat()).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("a", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("a").await;
    assert_eq!(holder(&world, lease).await, Some(first.clone()));
    world.kill_first_kai();
    world.create_pod(&world.pod("b", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("b").await;
    assert_ne!(holder(&world, lease).await, Some(first));
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let bound = "\"message\":\"bound pod\"";
    world.wait("the log reports it", async || read().contains(bound)).await;
    let log = read();
    let [leads, bound] = ["\"leads\":true", bound].map(|what| moment(&log, what));
    let took = bound.since(leads).as_seconds();
    print_past_harness(&format!(
        "a standby bound a waiting pod {took:.3} s after it acquired the lease\n"
    ));
    let _ = std::fs::remove_file(&file);
}

/// When the log first says something.
fn moment(log: &str, what: &str) -> Timestamp {
    let line =
        log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {log}"));
    let line: Value = serde_json::from_str(line).expect("JSON");
    parse(line["timestamp"].as_str().expect("a time")).expect("a time")
}
