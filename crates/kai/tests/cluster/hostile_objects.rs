//! Objects by which a tenant attacks the controllers: names that look like queries, ConfigMaps of others, pod groups without end,
//! selectors that cost much. Each attack stays without effect, and a pod of another team is bound meanwhile.

use serde_json::{Value, json};

use crate::binder::{cluster, gpu_node};
use crate::sharing::{Answer, NodeAgents};
use crate::world::World;
use crate::{QUEUE, open};

impl World {
    /// A namespace of another team, beside ours.
    async fn bystanders(&self) -> String {
        let name = format!("{}-bystanders", self.name);
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        self.wait("the default account", async || self.get(&account).await.is_some()).await;
        name
    }

    /// A Job of the other team runs: its pod is grouped by its owner, and bound.
    async fn assert_job_is_bound(&self, namespace: &str, name: &str) {
        let queue = self.queue_name("q");
        let mut template = self.pod("template", &[(QUEUE, &queue)], &json!({"cpu": "100m"}));
        template["spec"]["restartPolicy"] = json!("Never");
        let labels = template["metadata"]["labels"].clone();
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": template["spec"]}},
        });
        self.create(&format!("/apis/batch/v1/namespaces/{namespace}/jobs"), &job).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.wait(&format!("the pod of {name} is bound"), async || {
            let list = self.get(&pods).await.expect("a list");
            list["items"].as_array().into_iter().flatten().any(|pod| {
                pod["metadata"]["ownerReferences"][0]["name"] == name
                    && pod["spec"]["nodeName"].is_string()
            })
        })
        .await;
    }

    /// An event of a pod says this.
    async fn wait_for_event(&self, pod: &str, reason: &str, text: &str) {
        self.wait(&format!("an event {reason} of {pod}"), async || {
            let events = self.list("/api/v1", "events").await;
            events.iter().any(|event| {
                event["involvedObject"]["name"] == pod
                    && event["reason"] == reason
                    && event["message"].as_str().is_some_and(|message| message.contains(text))
            })
        })
        .await;
    }
}

#[tokio::test]
async fn owners_named_like_queries_hold_no_job_of_others_up() {
    let Some(mut world) = World::new("queries").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "50"})).await;
    let queue = world.queue_name("q");
    // More than attempts that run at once. An owner of a kind that is not served stays unknown to the garbage collector too.
    for number in 0..48 {
        let (api_version, kind) =
            if number % 2 == 0 { ("v1", "Pod") } else { ("batch/v1?watch=true", "Job") };
        let mut pod = world.pod(&format!("x{number}"), &[(QUEUE, &queue)], &json!({"cpu": "100m"}));
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": api_version, "kind": kind, "name": "?watch=true", "uid": format!("uid-{number}"), "controller": true,
        }]);
        world.create_pod(&pod).await;
    }
    world.start_kai("kai", &[]).await;
    world.wait_for_event("x1", "PodGrouperWarning", "failed to find Job").await;
    let others = world.bystanders().await;
    for job in ["one", "two"] {
        world.assert_job_is_bound(&others, job).await;
    }
    assert_eq!(world.node_of("x1").await, None, "the attack is not grouped");
}

#[tokio::test]
async fn config_maps_of_others_stay_as_they_are() {
    let Some(mut world) = cluster("maps", 4).await else { return };
    let maps = format!("/api/v1/namespaces/{}/configmaps", world.name);
    let names = ["important", "important-0", "important-0-evar"];
    for name in names {
        let map = json!({"metadata": {"name": name}, "data": {"key": "value"}});
        world.create(&maps, &map).await;
    }
    let hostile = |name: &str, prefix: &str| {
        let mut pod =
            world.sharing_pod(name, &world.queue_name("q"), &json!({"gpu-fraction": "0.5"}));
        pod["metadata"]["annotations"]["runai/shared-gpu-configmap"] = json!(prefix);
        pod["spec"]["containers"][0]["env"] = json!([]);
        // A reference to a map whose name no map can have is denied by the API server.
        let is_name = !prefix.contains('?') && !prefix.contains('/');
        let referred = json!([{"configMapRef": {"name": format!("{prefix}-0-evar")}}]);
        pod["spec"]["containers"][0]["envFrom"] = if is_name { referred } else { json!([]) };
        pod
    };
    for (name, prefix) in
        [("plain", "important"), ("query", "important?x="), ("path", "../maps/important")]
    {
        world.create_pod(&hostile(name, prefix)).await;
    }
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.start_kai("kai", &[]).await;
    world
        .wait("the condition of the pod says why", async || {
            let pods = world.list("/api/v1", "pods").await;
            let failed =
                |pod: &Value| pod["status"]["conditions"].to_string().contains("config map");
            pods.iter().any(failed)
        })
        .await;
    let others = world.bystanders().await;
    world.assert_job_is_bound(&others, "job").await;
    let queue = world.queue_name("q");
    world.create_pod(&world.sharing_pod("half", &queue, &json!({"gpu-fraction": "0.5"}))).await;
    world.wait_bound("half").await;
    assert_eq!(world.node_of("plain").await, None, "maps of others are not its own");
    for name in names {
        let map = world.get(&format!("{maps}/{name}")).await.expect("the map is there");
        assert_eq!(map["data"], json!({"key": "value"}), "{name}");
        assert!(map["metadata"]["ownerReferences"].is_null(), "{name}");
    }
}

#[tokio::test]
async fn a_pod_group_without_end_delays_no_pod_of_others() {
    let Some(mut world) = World::new("endless").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "50"})).await;
    let queue = world.queue_name("q");
    let sub_groups: Vec<Value> = (0..4000)
        .map(|level| {
            let mut one = json!({"name": format!("s{level}"), "minMember": 1});
            if level > 0 {
                one["parent"] = json!(format!("s{}", level - 1));
            }
            one
        })
        .collect();
    let labels = world.pod("any", &[], &json!({}))["metadata"]["labels"].clone();
    let groups = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", world.name);
    for number in 0..3 {
        let name = format!("deep-{number}");
        let group = json!({
            "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name, "labels": labels},
            "spec": {"minMember": 1, "queue": queue, "subGroups": sub_groups},
        });
        world.create(&groups, &group).await;
        let mut pod = world.pod(&name, &[(QUEUE, &queue)], &json!({"cpu": "100m"}));
        pod["metadata"]["annotations"] = json!({"pod-group-name": name});
        pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] = json!("s3999");
        world.create_pod(&pod).await;
    }
    world.start_kai("kai", &[]).await;
    let others = world.bystanders().await;
    world.assert_job_is_bound(&others, "job").await;
    // Every change of the group is rejected again.
    world.patch(&format!("{groups}/deep-0"), &json!({"spec": {"minMember": 2}})).await;
    world.assert_job_is_bound(&others, "next").await;
    for number in 0..3 {
        assert_eq!(world.node_of(&format!("deep-{number}")).await, None, "the group is rejected");
    }
}

const DEVICES: &str = "/apis/resource.k8s.io/v1";

fn device_object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// `levels` nested loops over ten numbers.
fn nested(levels: usize) -> String {
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    (0..levels).fold("1 > 0".to_owned(), |inner, level| format!("{list}.all(x{level}, {inner})"))
}

#[tokio::test]
async fn selectors_that_cost_much_delay_no_pod_of_others() {
    let Some(mut world) = World::new("selectors").await else { return };
    let driver = "selectors.example.com";
    let class = device_object("DeviceClass", driver, &json!({}));
    world.create(&format!("{DEVICES}/deviceclasses"), &class).await;
    let devices: Vec<Value> = (0..16).map(|at| json!({"name": format!("d{at}")})).collect();
    let pool = json!({"name": "selectors", "generation": 1, "resourceSliceCount": 1});
    let slice =
        json!({"driver": driver, "nodeName": "selectors-n", "pool": pool, "devices": devices});
    let slice = device_object("ResourceSlice", "selectors", &slice);
    world.create(&format!("{DEVICES}/resourceslices"), &slice).await;
    world.queue("q", open(), open()).await;
    world.node("n", gpu_node(1)).await;
    let claims = format!("{DEVICES}/namespaces/{}/resourceclaims", world.name);
    let claim = |name: &str, count: usize, levels: usize| {
        let selector =
            |at: usize| json!({"cel": {"expression": format!("{at} >= 0 && {}", nested(levels))}});
        let selectors: Vec<Value> = (0..count).map(selector).collect();
        let request =
            json!({"name": "one", "exactly": {"deviceClassName": driver, "selectors": selectors}});
        device_object("ResourceClaim", name, &json!({"devices": {"requests": [request]}}))
    };
    // The API server estimates what one expression costs, and knows no bound for all of them.
    let rejected = world.try_create(&claims, &claim("too-much", 1, 7)).await;
    assert!(rejected.is_err_and(|error| error.to_string().contains("too complex")), "estimated");
    let queue = world.queue_name("q");
    for number in 0..3 {
        let name = format!("hostile-{number}");
        world.create(&claims, &claim(&name, 32, 4)).await;
        let mut pod = world.pod(&name, &[(QUEUE, &queue)], &json!({"cpu": "100m"}));
        pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": name}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "device"}]);
        world.create_pod(&pod).await;
    }
    world.start_kai("kai", &[]).await;
    let others = world.bystanders().await;
    for job in ["one", "two", "three"] {
        world.assert_job_is_bound(&others, job).await;
    }
}
