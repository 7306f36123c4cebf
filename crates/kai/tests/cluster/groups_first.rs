//! With `--pod-groups=always`, a pod has its PodGroup and its annotation before it has a node. Revisions of the store say
//! what came first; no clock is read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2";
const PODS: usize = 60;

/// Every change of a kind in the namespace since a revision, in order.
async fn changes(world: &World, api: &str, plural: &str, since: &str) -> Vec<Value> {
    let path = format!(
        "{api}/namespaces/{}/{plural}?watch=1&resourceVersion={since}&timeoutSeconds=2",
        world.name
    );
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    let text = world.client.request_text(request).await.expect("the changes");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("one")
}

#[tokio::test]
async fn pods_of_a_burst_are_bound_after_their_group_and_annotation_exist() {
    let Some(mut world) = World::new("group-first").await else { return };
    world.node("n", json!({"cpu": "64", "memory": "64Gi", "pods": "110"})).await;
    world.queue("q", open(), open()).await;
    world.start_kai("kai", &["--pod-groups=always"]).await;
    let namespace = world.get(&format!("/api/v1/namespaces/{}", world.name)).await;
    let since = namespace.expect("the namespace")["metadata"]["resourceVersion"].clone();
    let since = since.as_str().expect("a revision");
    let queue = world.queue_name("q");
    for at in 0..PODS {
        let pod = world.pod(&format!("p-{at}"), &[(QUEUE, &queue)], &json!({"cpu": "10m"}));
        world.create_pod(&pod).await;
    }
    for at in 0..PODS {
        world.wait_bound(&format!("p-{at}")).await;
    }
    let mut made: BTreeMap<String, u64> = BTreeMap::new();
    for change in changes(&world, GROUPS, "podgroups", since).await {
        let object = &change["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        made.entry(name).or_insert_with(|| revision(object));
    }
    let mut bound: BTreeMap<String, Value> = BTreeMap::new();
    for change in changes(&world, "/api/v1", "pods", since).await {
        let pod = change["object"].clone();
        if pod["spec"]["nodeName"].is_string() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            bound.entry(name).or_insert(pod);
        }
    }
    assert_eq!(bound.len(), PODS);
    for (name, pod) in bound {
        let group = pod["metadata"]["annotations"]["pod-group-name"].as_str();
        let group = group.unwrap_or_else(|| panic!("{name} was bound without an annotation"));
        let made = made.get(group).unwrap_or_else(|| panic!("{group} was never made"));
        assert!(*made < revision(&pod), "{name} was bound before {group} existed");
    }
}
