//! Admission on a real API server, served by `kai run` as its own account.

use serde_json::{Value, json};

use crate::world::{World, send};
use crate::{QUEUE, open};

/// Why a write was refused.
pub(crate) async fn refusal(world: &World, path: &str, object: &Value) -> String {
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
async fn what_makes_no_sense_is_refused_and_shares_are_completed() {
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
        .wait("a queue without resources is refused", async || {
            let told = refusal(&world, queues, &nothing).await;
            if told.is_empty() {
                world.delete(&format!("{queues}/nothing"), &json!({})).await;
            }
            told.ends_with("denied the request: resources must be specified")
        })
        .await;
    let mut bad = world.pod("bad", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    bad["metadata"]["annotations"] = json!({"gpu-fraction": "1.5"});
    let told = refusal(&world, &pods(&world), &bad).await;
    assert!(
        told.ends_with("gpu-fraction annotation value must be a positive number smaller than 1.0"),
        "{told}"
    );
    bad["spec"]["schedulerName"] = json!("default-scheduler");
    assert_eq!(
        refusal(&world, &pods(&world), &bad).await,
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
    let told = refusal(&world, &groups, &group).await;
    assert!(told.ends_with("parent b of a was not found"), "{told}");
    let topology = json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack", "alias": "z"}]}});
    let told = refusal(&world, "/apis/kai.scheduler/v1alpha1/topologies", &topology).await;
    assert!(told.contains("aliases must be unique within the topology; duplicated: [z]"), "{told}");
    what_relatives_say(&world).await;
    nobody_answers(&mut world, &queue).await;
}

/// A queue is seen beside its parent, a pod beside what it was.
async fn what_relatives_say(world: &World) {
    let queues = "/apis/scheduling.run.ai/v2/queues";
    let lost = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "lost"},
        "spec": {"parentQueue": "nobody", "resources": {}}});
    let told = refusal(world, queues, &lost).await;
    assert!(told.ends_with("failed to get parent queue nobody: not found"), "{told}");
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": "admitted-n"});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "half"}, "target": target});
    let half = format!("{}/half", pods(world));
    world.create(&format!("{half}/binding"), &binding).await;
    let larger = json!({"metadata": {"annotations": {"gpu-fraction": "0.9"}}});
    let kind = "application/merge-patch+json";
    let told = match send(&world.client, "PATCH", &half, kind, &larger).await {
        Err(kube::Error::Api(status)) => status.message,
        other => panic!("{other:?}"),
    };
    // The policy speaks before the webhook, which would deny it too.
    assert!(
        told.contains("annotations gpu-fraction") && told.contains("of a pod on a node"),
        "{told}"
    );
    let harmless = json!({"metadata": {"annotations": {"a": "b"}}});
    world.patch(&half, &harmless).await;
}

/// New pods of ours wait for us; changed ones and those of others do not.
async fn nobody_answers(world: &mut World, queue: &str) {
    world.kill_kai();
    let later = world.pod("later", &[(QUEUE, queue)], &json!({"cpu": "1"}));
    let told = refusal(world, &pods(world), &later).await;
    assert!(told.contains("failed calling webhook"), "{told}");
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
            refusal(world, &pods(world), &later).await.is_empty()
        })
        .await;
}
