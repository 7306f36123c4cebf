//! `kai explain` on a real API server.

use serde_json::json;

use crate::world::World;
use crate::{QUEUE, open};

#[tokio::test]
async fn a_waiting_pod_and_its_queues_are_explained() {
    let Some(mut world) = World::new("explained").await else { return };
    world.queue("q", json!({"quota": 0, "limit": 1000, "overQuotaWeight": 1}), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("a", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("a").await;
    world.create_pod(&world.pod("b", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world
        .wait("b is pending with a reason", async || {
            let pod = world.see_pod("b").await.expect("the pod");
            pod["status"]["conditions"][0]["reason"] == "Unschedulable"
        })
        .await;
    let explanation = world.explain("kai", &["pod", "b"]).await;
    let limit = format!("{queue} quota has reached the allowable limit of CPU cores.");
    assert!(explanation.starts_with("Pod explained/b of group explained/pg-b-"), "{explanation}");
    assert!(
        explanation.contains(&format!("its condition says: OverLimit: {limit}")),
        "{explanation}"
    );
    assert!(explanation.contains(&format!("Queue {queue} has a limit of 1 CPU")), "{explanation}");
    let row: Vec<&str> = explanation
        .lines()
        .find(|line| line.starts_with(&queue))
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row, [queue.as_str(), "CPU", "(cores)", "0", "1", "1", "1"], "{explanation}");
    let explanation = world.explain("kai", &["pod", "a"]).await;
    assert!(explanation.contains("has node explained-n"), "{explanation}");
    let explanation = world.explain("kai", &["queue", &queue]).await;
    assert!(explanation.contains("Groups that wait: explained/pg-b-"), "{explanation}");
    let explanation = world.explain("kai", &["pod", "absent"]).await;
    assert!(explanation.contains("there is no pod explained/absent here"), "{explanation}");
}
