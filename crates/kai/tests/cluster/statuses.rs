//! Conditions, sums and events on a real API server.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

/// A condition of a pod.
pub(crate) async fn condition(world: &World, pod: &str, kind: &str) -> Value {
    let pod = world.see_pod(pod).await.expect("the pod");
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

/// Messages of events of this reason about an object.
pub(crate) async fn event_messages(world: &World, name: &str, reason: &str) -> Vec<String> {
    let events = world.list("/api/v1", "events").await;
    let about =
        |event: &&Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
    let text = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
    events.iter().filter(about).map(text).collect()
}

async fn queue_status(world: &World, name: &str) -> Value {
    let path = format!("/apis/scheduling.run.ai/v2/queues/{}", world.queue_name(name));
    world.get(&path).await.expect("the queue")["status"].clone()
}

#[tokio::test]
async fn pod_over_the_limit_of_its_queue_reports_it_until_it_fits() {
    let Some(mut world) = World::new("statuses").await else { return };
    world.queue("q", json!({"quota": 0, "limit": 1000, "overQuotaWeight": 1}), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("a", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("a").await;
    world.create_pod(&world.pod("b", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world
        .wait("b is pending with a reason", async || {
            condition(&world, "b", "PodScheduled").await["reason"] == "Unschedulable"
        })
        .await;
    let limit = format!(
        "OverLimit: {queue} quota has reached the allowable limit of CPU cores. Limit is 1 cores, currently 1 cores allocated and workload requested 1 cores."
    );
    let message = condition(&world, "b", "PodScheduled").await["message"].clone();
    assert_eq!(message, limit);
    world
        .wait("an event reports it", async || {
            event_messages(&world, "b", "Unschedulable").await == [limit.clone()]
        })
        .await;
    world
        .wait("its group reports it", async || {
            let groups = world.pod_groups().await;
            let condition =
                groups.first().map(|group| group["status"]["schedulingConditions"][0].clone());
            condition.is_some_and(|condition| condition["message"] == limit.as_str())
        })
        .await;
    let group = world.pod_groups().await.remove(0);
    let condition = &group["status"]["schedulingConditions"][0];
    assert_eq!(condition["nodePool"], "statuses");
    let reason = &condition["reasons"][0];
    assert_eq!(reason["reason"], "OverLimit");
    assert_eq!(reason["details"]["queueDetails"]["name"], queue.as_str());
    assert_eq!(reason["details"]["queueDetails"]["queueResourceLimits"]["cpu"], "1");
    world
        .wait("the queue shows its sums", async || {
            let status = queue_status(&world, "q").await;
            status["allocated"]["cpu"] == "1" && status["requested"]["cpu"] == "2"
        })
        .await;
    let path = format!("/apis/scheduling.run.ai/v2/queues/{queue}");
    world.patch(&path, &json!({"spec": {"resources": {"cpu": {"limit": 2000}}}})).await;
    world.wait_bound("b").await;
    world
        .wait("b has no condition any more", async || {
            let group = world.pod_groups().await.remove(0);
            let settled =
                group["status"]["schedulingConditions"].as_array().is_none_or(Vec::is_empty);
            settled && group["status"]["resourcesStatus"]["allocated"]["cpu"] == "1"
        })
        .await;
    world
        .wait("the queue shows its sums", async || {
            queue_status(&world, "q").await["allocated"]["cpu"] == "2"
        })
        .await;
}

#[tokio::test]
async fn with_all_events_and_groups_everything_is_reported_as_by_kai() {
    let Some(mut world) = World::new("habit").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &["--events=all", "--pod-groups=always"]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("p").await;
    let scheduled =
        "Successfully assigned pod habit/p to node habit-n at node-pool habit".to_owned();
    world
        .wait("Scheduled", async || {
            event_messages(&world, "p", "Scheduled").await == [scheduled.clone()]
        })
        .await;
    let bound = "Pod bound successfully to node habit-n".to_owned();
    world
        .wait("Bound", async || event_messages(&world, "p", "Bound").await == [bound.clone()])
        .await;
    world
        .wait("PodBound", async || condition(&world, "p", "PodBound").await["status"] == "True")
        .await;
    world
        .wait("its group shows what it has", async || {
            let groups = world.pod_groups().await;
            groups.len() == 1 && groups[0]["status"]["resourcesStatus"]["allocated"]["cpu"] == "1"
        })
        .await;
}

#[tokio::test]
async fn the_controllers_of_sums_need_only_their_own_roles() {
    let Some(mut world) = World::new("sums").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    for function in ["scheduler", "pod-grouper", "podgroup-controller", "queue-controller"] {
        world.start_kai(function, &["--only", function]).await;
    }
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.create_pod(&world.pod("large", &[(QUEUE, &queue)], &json!({"cpu": "9"}))).await;
    world.wait_bound("p").await;
    world
        .wait("the queue shows its sums", async || {
            let status = queue_status(&world, "q").await;
            status["allocated"]["cpu"] == "1" && status["requested"]["cpu"] == "10"
        })
        .await;
    world
        .wait("groups show their sums", async || {
            let groups = world.pod_groups().await;
            let has = |amount: &str, field: &str| {
                groups
                    .iter()
                    .any(|group| group["status"]["resourcesStatus"][field]["cpu"] == amount)
            };
            has("1", "allocated") && has("9", "requested")
        })
        .await;
    world
        .wait("large is pending with a reason", async || {
            condition(&world, "large", "PodScheduled").await["reason"] == "Unschedulable"
        })
        .await;
}
