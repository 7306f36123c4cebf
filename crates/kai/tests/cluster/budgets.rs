//! Disruption budgets: they protect victims of preemption, and delay the reclaim of over-quota work.

use serde_json::json;

use crate::world::World;
use crate::{QUEUE, occupied, open};

/// A budget that does not let the pod `low` go; its path.
async fn protect_low(world: &World) -> String {
    let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", world.name);
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}});
    world.create(&budgets, &json!({"metadata": {"name": "keep"}, "spec": spec})).await;
    let path = format!("{budgets}/keep");
    world
        .wait("the controller has counted the budget's pods", async || {
            let budget = world.get(&path).await.expect("the budget");
            budget["status"]["currentHealthy"] == 1 && budget["status"]["disruptionsAllowed"] == 0
        })
        .await;
    path
}

#[tokio::test]
async fn a_disruption_budget_protects_a_victim() {
    let Some(mut world) = World::new("budget").await else { return };
    world.queue("q", open(), json!({"quota": 1, "limit": -1, "overQuotaWeight": 1})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    occupied(&world, &queue).await;
    let budget = protect_low(&world).await;
    let labels = [(QUEUE, queue.as_str()), ("priorityClassName", "build-preemptible")];
    world.create_pod(&world.pod("high", &labels, &json!({"nvidia.com/gpu": "1"}))).await;
    world.wait("high was planned", async || world.group_of("high").await.is_some()).await;
    let low = world.see_pod("low").await.expect("low");
    assert!(low["metadata"]["deletionTimestamp"].is_null(), "the budget was not respected");
    world.delete(&budget, &json!({})).await;
    world
        .wait("low is evicted", async || {
            world.see_pod("low").await.expect("low")["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
}

#[tokio::test]
async fn over_quota_work_is_reclaimed_although_its_tenant_protects_it() {
    let Some(mut world) = World::new("stubborn").await else { return };
    world.queue("greedy", open(), open()).await;
    world.queue("owed", open(), json!({"quota": 1, "limit": -1, "overQuotaWeight": 1})).await;
    world.start_kai("kai", &["--disruption-budget-delay=3s"]).await;
    let (greedy, owed) = (world.queue_name("greedy"), world.queue_name("owed"));
    occupied(&world, &greedy).await;
    protect_low(&world).await;
    world.create_pod(&world.pod("wants", &[(QUEUE, &owed)], &json!({"nvidia.com/gpu": "1"}))).await;
    world
        .wait(
            "the clock is on the reclaimer's group, and its condition names the budget",
            async || {
                let groups = world.pod_groups().await;
                let clock = |group: &serde_json::Value| {
                    group["metadata"]["annotations"]["kai.scheduler/reclaim-delayed-since"]
                        .is_string()
                };
                let pod = world.see_pod("wants").await.expect("the pod");
                groups.iter().any(clock) && pod["status"].to_string().contains("stubborn/keep")
            },
        )
        .await;
    world
        .wait("low ends", async || {
            world.see_pod("low").await.expect("low")["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    world
        .wait("an event names the budget", async || {
            let events = world.list("/api/v1", "events").await;
            events.iter().any(|event| {
                event["reason"] == "Evict"
                    && event["type"] == "Warning"
                    && event["message"].to_string().contains("Disruption budget stubborn/keep")
            })
        })
        .await;
    let path = format!("/api/v1/namespaces/{}/pods/low", world.name);
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(world.wait_bound("wants").await, "stubborn-n");
    world
        .wait("the clock is gone", async || {
            let groups = world.pod_groups().await;
            groups.iter().all(|group| {
                group["metadata"]["annotations"]["kai.scheduler/reclaim-delayed-since"].is_null()
            })
        })
        .await;
}
