//! Gangs that are declared in Kubernetes' own scheduling API.

use std::time::Duration;

use serde_json::{Value, json};

use crate::installation::plane_with;
use crate::world::World;
use crate::{QUEUE, open};

/// The API is an alpha feature of Kubernetes 1.36.
const SERVED: [&str; 2] = ["--feature-gates=GenericWorkload=true", "--runtime-config=api/all=true"];
const API: &str = "/apis/scheduling.k8s.io/v1alpha2";

fn member(world: &World, name: &str) -> Value {
    let mut pod = world.pod(name, &[(QUEUE, &world.queue_name("q"))], &json!({"cpu": "1"}));
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "workers"});
    pod
}

/// Creates an object with strict field validation.
async fn create_strictly(world: &World, collection: &str, object: &Value) {
    let path = format!("{API}/namespaces/{}/{collection}?fieldValidation=Strict", world.name);
    world.create(&path, object).await;
}

#[tokio::test]
async fn a_gang_declared_as_a_kubernetes_pod_group_is_bound_whole_or_not_at_all() {
    let name = "kubernetes-groups";
    let Ok(plane) = plane_with(&SERVED).await.map_err(|why| why.skip(name)) else { return };
    let mut world = World::on(plane, name, Some(name)).await;
    world.queue("q", open(), open()).await;
    world.node("small", json!({"cpu": "2", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let policy = json!({"gang": {"minCount": 3}});
    let workload = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": "training"},
        "spec": {"podGroupTemplates": [{"name": "workers", "schedulingPolicy": policy}]},
    });
    create_strictly(&world, "workloads", &workload).await;
    for pod in ["w-0", "w-1", "w-2"] {
        world.create_pod(&member(&world, pod)).await;
    }
    let template = json!({"workloadName": "training", "podGroupTemplateName": "workers"});
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "workers"},
        "spec": {"podGroupTemplateRef": {"workload": template}, "schedulingPolicy": policy},
    });
    create_strictly(&world, "podgroups", &group).await;
    world.wait("its group is written", async || world.pod_groups().await.len() == 1).await;
    let ours = &world.pod_groups().await[0];
    assert_eq!(ours["spec"]["minMember"], 3, "{ours:#}");
    let owner = &ours["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("PodGroup"), &json!("workers")));
    assert_eq!(owner["apiVersion"], "scheduling.k8s.io/v1alpha2");
    world
        .stays("two of three pods fit and none is bound", Duration::from_secs(2), async || {
            crate::bound(&world).await.is_empty()
        })
        .await;
    world.node("large", json!({"cpu": "4", "memory": "8Gi", "pods": "10"})).await;
    for pod in ["w-0", "w-1", "w-2"] {
        world.wait_bound(pod).await;
    }
}
