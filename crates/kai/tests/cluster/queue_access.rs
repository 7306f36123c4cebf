//! A tenant that asks for the queue of another team: by a label of a pod, by a label of a Job, by a pod group
//! of its own, with and without RBAC.

use kube::Client;
use serde_json::{Value, json};

use crate::world::{World, send};
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

const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2";

/// A tenant that an administrator lets write pod groups.
async fn tenant_with_groups(world: &World) -> Client {
    let tenant = world.tenant().await;
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", world.name);
    let rules = json!([{"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups"], "verbs": ["get", "list", "create", "patch"]}]);
    let role = json!({"metadata": {"name": "groups"}, "rules": rules});
    world.create(&format!("{rbac}/roles"), &role).await;
    let binding = json!({
        "metadata": {"name": "groups"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "groups"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": world.name}],
    });
    world.create(&format!("{rbac}/rolebindings"), &binding).await;
    let list = format!("{GROUPS}/namespaces/{}/podgroups", world.name);
    let may_read = async || send(&tenant, "GET", &list, "", &Value::Null).await.is_ok();
    world.wait("the tenant may write pod groups", may_read).await;
    tenant
}

fn tenants_group(world: &World, queue: &str) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "tenants", "namespace": world.name}, "spec": {"minMember": 1, "queue": queue}})
}

/// Why a request is denied; none: it is not.
async fn denial_to(client: &Client, method: &str, path: &str, body: &Value) -> Option<String> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    match send(client, method, path, kind, body).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code == 403 => Some(status.message.clone()),
        Err(error) => panic!("{error}"),
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
            let denial = world.denial_of(&pod("p")).await;
            denial.is_some_and(|why| {
                why.contains("service account intruder/default may not use queue")
            })
        })
        .await;
    let tenant = tenant_with_groups(&world).await;
    let group = tenants_group(&world, &queue);
    let groups = format!("{GROUPS}/namespaces/{}/podgroups", world.name);
    let denial = denial_to(&tenant, "POST", &groups, &group).await.expect("it is denied");
    assert!(denial.contains("service account intruder/tenant may not use queue"), "{denial}");
    let own = tenants_group(&world, "");
    assert_eq!(denial_to(&tenant, "POST", &groups, &own).await, None, "it names no queue");
    let path = format!("{groups}/tenants");
    let moved = json!({"spec": {"queue": queue}});
    let denial = denial_to(&tenant, "PATCH", &path, &moved).await.expect("it is denied");
    assert!(denial.contains("may not use queue"), "{denial}");
    let larger = json!({"spec": {"minMember": 2}});
    assert_eq!(denial_to(&tenant, "PATCH", &path, &larger).await, None, "the queue stays");
    world.delete(&path, &json!({})).await;
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
    let denial = denial_to(&tenant, "POST", &groups, &group).await;
    assert_eq!(denial, None, "the tenant may use the queue now");
}
