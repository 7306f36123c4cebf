//! Gangs with pods that cannot be bound.

use serde_json::{Value, json};

use crate::statuses::{condition, event_messages};
use crate::world::World;
use crate::{QUEUE, open};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const POLICY_BINDINGS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const NO: &str = "this pod may not be bound";

/// From now on the API server denies binding pods of the namespace whose names begin with `refused`.
async fn deny_binds(world: &World) {
    let name = world.name;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]});
    let policy = json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "resourceRules": [rule],
        },
        "validations": [{"expression": "!request.name.startsWith('refused')", "message": NO}],
    }});
    world.create(POLICIES, &policy).await;
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    world.create(POLICY_BINDINGS, &binding).await;
    let mut probe = world.pod("refused-probe", &[], &json!({"cpu": "1"}));
    probe["spec"]["schedulerName"] = json!("none");
    world.create_pod(&probe).await;
    let path = format!("/api/v1/namespaces/{name}/pods/refused-probe/binding?dryRun=All");
    let bind =
        json!({"metadata": {"name": "refused-probe"}, "target": {"kind": "Node", "name": "n"}});
    world
        .wait("the policy is in force", async || {
            let ended = world.try_create(&path, &bind).await;
            matches!(ended, Err(kube::Error::Api(status)) if status.message.contains(NO))
        })
        .await;
}

fn member(world: &World, name: &str) -> Value {
    let mut pod = world.pod(name, &[(QUEUE, &world.queue_name("q"))], &json!({"cpu": "1"}));
    pod["metadata"]["annotations"] = json!({"pod-group-name": "gang"});
    pod
}

#[tokio::test]
async fn a_gang_that_stays_below_its_minimum_is_evicted_whole_with_the_reason() {
    let Some(mut world) = World::new("half-bound").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    deny_binds(&world).await;
    let groups = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", world.name);
    let labels = json!({"kai.scheduler/node-pool": world.pool});
    let group = json!({
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "gang", "labels": labels},
        "spec": {"minMember": 2, "queue": world.queue_name("q"), "stalenessGracePeriod": "3s"},
    });
    world.create(&groups, &group).await;
    world.create_pod(&member(&world, "taken")).await;
    world.create_pod(&member(&world, "refused")).await;
    world.start_kai("kai", &[]).await;
    world.wait_bound("taken").await;
    world
        .wait("the other has a reason why it is not bound", async || {
            let said = condition(&world, "refused", "PodScheduled").await;
            said["reason"] == "BindingError" && said["message"].to_string().contains(NO)
        })
        .await;
    world
        .wait("the rest of the gang is evicted", async || {
            let pod = world.see_pod("taken").await;
            pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
    let reason = "Workload doesn't meet the minimum required number of pods (2), evicting remaining pod: half-bound/taken";
    world
        .wait("its group has an event with the reason", async || {
            event_messages(&world, "gang", "Evict").await == [reason.to_owned()]
        })
        .await;
    let stale = event_messages(&world, "gang", "StaleJob").await;
    assert!(
        stale.contains(&"Job is stale. 1 pods are active, minMember is 2".to_owned()),
        "{stale:?}"
    );
    let group = world.get(&format!("{groups}/gang")).await.expect("the group");
    let annotations = &group["metadata"]["annotations"];
    assert!(annotations["kai.scheduler/stale-podgroup-timestamp"].is_string(), "{annotations}");
    assert!(annotations["kai.scheduler/last-eviction-timestamp"].is_string(), "{annotations}");
    assert_eq!(world.node_of("refused").await, None);
    for path in [POLICY_BINDINGS, POLICIES] {
        world.delete(&format!("{path}/{}", world.name), &json!({})).await;
    }
}
