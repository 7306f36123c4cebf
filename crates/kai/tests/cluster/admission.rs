//! Admission on a real API server, served by `kai run` as its own account.

use serde_json::{Value, json};

use crate::world::{World, send};
use crate::{QUEUE, open};

/// Why a write was denied; empty if it was admitted.
pub(crate) async fn denial_reason(world: &World, path: &str, object: &Value) -> String {
    match world.try_create(path, object).await {
        Ok(_) => String::new(),
        Err(kube::Error::Api(status)) => status.message,
        Err(error) => panic!("{error}"),
    }
}

fn pods(world: &World) -> String {
    format!("/api/v1/namespaces/{}/pods", world.name)
}

#[tokio::test]
async fn invalid_objects_are_denied_and_sharing_pods_are_completed() {
    let Some(mut world) = World::alone("admitted").await else { return };
    world
        .create(
            "/apis/node.k8s.io/v1/runtimeclasses",
            &json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"}),
        )
        .await;
    let sharing = ["--gpu-sharing-enabled", "--block-nvidia-visible-devices"];
    let all = [&sharing[..], &["--enable-quota-validation"]].concat();
    world.start_admitting("kai", &all).await;
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let queue = world.queue_name("q");
    let queues = "/apis/scheduling.run.ai/v2/queues";
    // The registration may take effect a moment after it is written.
    let nothing = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "nothing"}, "spec": {}});
    world
        .wait("a queue without resources is denied", async || {
            let denial = denial_reason(&world, queues, &nothing).await;
            if denial.is_empty() {
                world.delete(&format!("{queues}/nothing"), &json!({})).await;
            }
            denial.ends_with("denied the request: resources must be specified")
        })
        .await;
    let mut bad = world.pod("bad", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    bad["metadata"]["annotations"] = json!({"gpu-fraction": "1.5"});
    let denial = denial_reason(&world, &pods(&world), &bad).await;
    assert!(
        denial
            .ends_with("gpu-fraction annotation value must be a positive number smaller than 1.0"),
        "{denial}"
    );
    bad["spec"]["schedulerName"] = json!("default-scheduler");
    assert_eq!(
        denial_reason(&world, &pods(&world), &bad).await,
        "",
        "pods of others are none of our business"
    );
    let mut half = world.pod("half", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    half["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    half["spec"]["containers"]
        .as_array_mut()
        .expect("containers")
        .push(json!({"name": "side", "image": "none"}));
    world.create_pod(&half).await;
    let half = world.see_pod("half").await.expect("the pod");
    let prefix =
        half["metadata"]["annotations"]["runai/shared-gpu-configmap"].as_str().expect("a name");
    assert!(prefix.starts_with("half-") && prefix.ends_with("-shared-gpu"), "{prefix}");
    assert_eq!(half["spec"]["runtimeClassName"], "nvidia");
    let source = &half["spec"]["containers"][0]["env"][0]["valueFrom"]["configMapKeyRef"];
    assert_eq!(*source, json!({"name": format!("{prefix}-0"), "key": "NVIDIA_VISIBLE_DEVICES"}));
    assert_eq!(half["spec"]["containers"][1]["env"][0]["value"], "void");
    world.create_pod(&world.pod("plain", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    world.wait_bound("plain").await;
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"subGroups": [{"name": "a", "parent": "b", "minMember": 1}]}});
    let groups = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", world.name);
    let denial = denial_reason(&world, &groups, &group).await;
    assert!(denial.ends_with("parent b of a was not found"), "{denial}");
    let topology = json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack", "alias": "z"}]}});
    let denial = denial_reason(&world, "/apis/kai.scheduler/v1alpha1/topologies", &topology).await;
    assert!(
        denial.contains("aliases must be unique within the topology; duplicated: [z]"),
        "{denial}"
    );
    what_relatives_say(&world).await;
    new_pods_are_denied_without_webhooks(&mut world, &queue).await;
}

/// A queue is checked against its parent, a pod against its previous version.
async fn what_relatives_say(world: &World) {
    let queues = "/apis/scheduling.run.ai/v2/queues";
    let lost = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "lost"},
        "spec": {"parentQueue": "absent", "resources": {}}});
    let denial = denial_reason(world, queues, &lost).await;
    assert!(denial.ends_with("failed to get parent queue absent: not found"), "{denial}");
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": "admitted-n"});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "half"}, "target": target});
    let half = format!("{}/half", pods(world));
    world.create(&format!("{half}/binding"), &binding).await;
    let larger = json!({"metadata": {"annotations": {"gpu-fraction": "0.9"}}});
    let kind = "application/merge-patch+json";
    let denial = match send(&world.client, "PATCH", &half, kind, &larger).await {
        Err(kube::Error::Api(status)) => status.message,
        other => panic!("{other:?}"),
    };
    // The policy speaks before the webhook, which would deny it too.
    assert!(
        denial.contains("annotations gpu-fraction") && denial.contains("of a pod on a node"),
        "{denial}"
    );
    let harmless = json!({"metadata": {"annotations": {"a": "b"}}});
    world.patch(&half, &harmless).await;
}

/// New pods of our scheduler need the webhook; changed pods and pods of other schedulers do not.
async fn new_pods_are_denied_without_webhooks(world: &mut World, queue: &str) {
    world.kill_kai();
    let later = world.pod("later", &[(QUEUE, queue)], &json!({"cpu": "1"}));
    let denial = denial_reason(world, &pods(world), &later).await;
    assert!(denial.contains("failed calling webhook"), "{denial}");
    world
        .patch(&format!("{}/plain", pods(world)), &json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    let mut other = world.pod("other", &[], &json!({"cpu": "1"}));
    other["spec"]["schedulerName"] = json!("default-scheduler");
    world.create_pod(&other).await;
    // Alone, with no rights but its own, it takes over the certificate that is there.
    world.start_admitting("admission", &["--only", "admission"]).await;
    world
        .wait("new pods are let in again", async || {
            denial_reason(world, &pods(world), &later).await.is_empty()
        })
        .await;
}
