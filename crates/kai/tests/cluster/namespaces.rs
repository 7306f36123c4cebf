//! Labels of namespaces on a real API server, read with the shipped role.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

const HOST: &str = "kubernetes.io/hostname";

#[tokio::test]
async fn a_pod_selects_namespaces_by_the_labels_they_have_now() {
    let Some(mut world) = World::new("choosy").await else { return };
    let namespace = "/api/v1/namespaces/choosy";
    let team = |team: &str| json!({"metadata": {"labels": {"team": team}}});
    world.patch(namespace, &team("red")).await;
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"})).await;
    world.patch("/api/v1/nodes/choosy-n", &json!({"metadata": {"labels": {HOST: "n"}}})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let database = world.pod("db", &[(QUEUE, &queue), ("app", "db")], &json!({"cpu": "1"}));
    world.create_pod(&database).await;
    world.wait_bound("db").await;
    let mut wary: Value = world.pod("wary", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    wary["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": HOST,
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "red"}},
    }]}});
    world.create_pod(&wary).await;
    world
        .wait("the pod is pending with a reason", async || {
            let pod = world.see_pod("wary").await.expect("the pod");
            let message = pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
            message.contains("node(s) didn't match pod anti-affinity rules")
        })
        .await;
    world.patch(namespace, &team("blue")).await;
    assert_eq!(world.wait_bound("wary").await, "choosy-n");
}
