//! A tenant that asks for the queue of another team: by a label of a pod, by a label of a Job, with and without RBAC.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

impl World {
    /// Why the pod is denied; none: it is created.
    async fn denial_of(&self, pod: &Value) -> Option<String> {
        let path = format!("/api/v1/namespaces/{}/pods", self.name);
        match self.try_create(&path, pod).await {
            Ok(_) => None,
            Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }

    /// A Job whose label names the queue; its pods have no such label.
    async fn labelled_job(&self, queue: &str) {
        let container =
            json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}});
        let spec = json!({"schedulerName": self.name, "restartPolicy": "Never", "containers": [container]});
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job", "labels": {QUEUE: queue}},
            "spec": {"template": {"spec": spec}},
        });
        self.create(&format!("/apis/batch/v1/namespaces/{}/jobs", self.name), &job).await;
    }
}

#[tokio::test]
async fn a_tenant_cannot_use_the_queue_of_another_team() {
    let Some(mut world) = World::alone("intruder").await else { return };
    world.queue("theirs", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let queue = world.queue_name("theirs");
    let path = format!("/apis/scheduling.run.ai/v2/queues/{queue}");
    let annotated = |value: Value| json!({"metadata": {"annotations": {"kai.scheduler/allowed-namespaces": value}}});
    world.patch(&path, &annotated(json!("elsewhere"))).await;
    let rights = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/queue-authorization.yaml");
    world.kubectl(&["apply", "-f", rights]);
    world.start_admitting("kai", &["--queue-authorization"]).await;
    let pod = |name: &str| world.pod(name, &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    world
        .wait("the annotation of the queue denies", async || {
            let dry = world.denial_of(&pod("early")).await;
            dry.is_some_and(|why| why.contains("denies namespace intruder"))
        })
        .await;
    world.patch(&path, &annotated(Value::Null)).await;
    world
        .wait("RBAC denies", async || {
            let told = world.denial_of(&pod("p")).await;
            told.is_some_and(|why| {
                why.contains("service account intruder/default may not use queue")
            })
        })
        .await;
    // The label of an owner is the grouper's to check.
    world.labelled_job(&queue).await;
    world
        .wait("an event names the denial", async || {
            let events = world.list("/api/v1", "events").await;
            events.iter().any(|event| event["message"].to_string().contains("may not use queue"))
        })
        .await;
    let pods = world.list("/api/v1", "pods").await;
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"].is_null()), "{pods:?}");
    // Once the namespace's accounts may use queue and classes, the Job's pod is bound.
    let rules = json!([
        {"apiGroups": ["scheduling.run.ai"], "resources": ["queues"], "resourceNames": [queue], "verbs": ["use"]},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["use"]},
    ]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "use-theirs"}, "rules": rules});
    world.create(&format!("{rbac}/clusterroles"), &role).await;
    let binding = json!({
        "metadata": {"name": "use-theirs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "use-theirs"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:intruder"}],
    });
    world.create(&format!("{rbac}/namespaces/{}/rolebindings", world.name), &binding).await;
    world
        .wait("the Job's pod is bound", async || {
            let pods = world.list("/api/v1", "pods").await;
            pods.iter().any(|pod| pod["spec"]["nodeName"].is_string())
        })
        .await;
    world.wait("pods are admitted", async || world.denial_of(&pod("p")).await.is_none()).await;
}
