//! What tenants and our own accounts may not do: denied by the API server, or without effect where it is not.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::binder::{cluster, gpu_node, half};
use crate::open;
use crate::sharing::{Answer, NodeAgents};
use crate::world::{World, send};

const MERGE: &str = "application/merge-patch+json";
/// How long an attack is given to have an effect.
const WHILE: Duration = Duration::from_secs(5);

impl World {
    /// A client with the rights of a service account.
    pub(crate) async fn client_of(&self, namespace: &str, account: &str) -> Client {
        let kubeconfig = self.account_kubeconfig(namespace, account).await;
        kai_client::client::connect(Some(&kubeconfig)).await.expect("a client")
    }

    /// A client of a tenant that may edit everything in our namespace.
    pub(crate) async fn tenant(&self) -> Client {
        let api = "/apis/rbac.authorization.k8s.io/v1";
        let path = format!("{api}/namespaces/{}/rolebindings", self.name);
        let subject = json!({"kind": "ServiceAccount", "name": "tenant", "namespace": self.name});
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"});
        let binding =
            json!({"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [subject]});
        let account = json!({"metadata": {"name": "tenant"}});
        let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", self.name);
        self.create(&accounts, &account).await;
        self.create(&path, &binding).await;
        let client = self.client_of(self.name, "tenant").await;
        let pods = self.pod_path("");
        let may_read = async || get(&client, &pods).await.is_ok();
        self.wait("the tenant has its rights", may_read).await;
        client
    }

    fn pod_path(&self, name: &str) -> String {
        let pods = format!("/api/v1/namespaces/{}/pods", self.name);
        if name.is_empty() { pods } else { format!("{pods}/{name}") }
    }
}

/// What `kai manifests` prints with these flags.
fn kai_manifests(flags: &[&str]) -> String {
    let all = [&["manifests", "--deploy", "nothing"], flags].concat();
    let printed = std::process::Command::new(crate::installation::KAI).args(all).output();
    String::from_utf8(printed.expect("it runs").stdout).expect("text")
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    send(client, "GET", path, "application/json", &Value::Null).await
}

/// The request is denied, and the answer contains this.
async fn assert_denied(client: &Client, method: &str, path: &str, body: &Value, why: &str) {
    let kind = if method == "PATCH" { MERGE } else { "application/json" };
    match send(client, method, path, kind, body).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            assert!(status.message.contains(why), "{}", status.message);
        }
        other => panic!("{method} {path} {body}: {other:?}"),
    }
}

fn labels(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

fn annotations(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

#[tokio::test]
async fn tenants_cannot_write_protected_metadata() {
    let Some(mut world) = cluster("protected", 1).await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.start_kai("kai", &[]).await;
    let tenant = world.tenant().await;
    let pod = half(&world, "p");
    send(&tenant, "POST", &world.pod_path(""), "application/json", &pod).await.expect("a pod");
    world.wait_bound("p").await;
    let path = world.pod_path("p");
    send(&tenant, "PATCH", &path, MERGE, &labels(&json!({"mine": "1"}))).await.expect("a label");
    let bound = "written when a pod is bound";
    let fixed = "create the pod anew";
    let patches = [
        (labels(&json!({"runai-gpu-group": null})), bound),
        (labels(&json!({"runai-gpu-group/x": "x"})), bound),
        (annotations(&json!({"kai.scheduler/gpu-devices": "g=FAKE"})), bound),
        (annotations(&json!({"kai.scheduler/placement": null})), bound),
        (annotations(&json!({"received-resource-type": "Regular"})), bound),
        (annotations(&json!({"gpu-fraction": "0.01"})), fixed),
        (annotations(&json!({"runai/shared-gpu-configmap": "other"})), fixed),
        (annotations(&json!({"pod-group-name": "other"})), fixed),
        (labels(&json!({"app": "kai-resource-reservation"})), "reservation"),
        (annotations(&json!({"kai.scheduler/gpu-count": "1"})), "reservation"),
        (annotations(&json!({"kai.scheduler/numa-placement-observed": "{}"})), "NUMA agent"),
    ];
    for (patch, why) in &patches {
        assert_denied(&tenant, "PATCH", &path, patch, why).await;
    }
    for (patch, why) in patches.iter().filter(|(_, why)| *why != fixed) {
        let is_removal = patch.to_string().contains("null");
        let mut pod = world.pod("new", &[], &json!({}));
        pod["spec"]["schedulerName"] = json!("default-scheduler");
        for part in ["labels", "annotations"] {
            for (key, value) in patch["metadata"][part].as_object().into_iter().flatten() {
                pod["metadata"][part][key] = value.clone();
            }
        }
        if !is_removal {
            assert_denied(&tenant, "POST", &world.pod_path(""), &pod, why).await;
        }
    }
}

#[tokio::test]
async fn own_accounts_cannot_change_what_runs() {
    let Some(world) = World::new("own-accounts").await else { return };
    world.node("n", gpu_node(1)).await;
    world.create_pod(&world.pod("p", &[], &json!({}))).await;
    let maps = format!("/api/v1/namespaces/{}/configmaps", world.name);
    world.create(&maps, &json!({"metadata": {"name": "theirs"}, "data": {"a": "b"}})).await;
    let (pod, node) = (world.pod_path("p"), "/api/v1/nodes/own-accounts-n");
    let map = format!("{maps}/theirs");
    let image = json!({"spec": {"containers": [{"name": "main", "image": "evil"}]}});
    let strategic = "application/strategic-merge-patch+json";
    own_accounts_delete_victims_only(&world).await;
    for account in ["kai", "binder", "pod-grouper", "numa-placement-exporter"] {
        let client = world.client_of("kai-scheduler", account).await;
        match send(&client, "PATCH", &pod, strategic, &image).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            other => panic!("{account}: {other:?}"),
        }
        let owner = json!({"metadata": {"labels": {"app": "other"}}});
        assert_denied(&client, "PATCH", &pod, &owner, "").await;
        assert_denied(&client, "PATCH", &pod, &annotations(&json!({"other": "x"})), "").await;
    }
    for account in ["kai", "binder"] {
        let client = world.client_of("kai-scheduler", account).await;
        let taints = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
        assert_denied(&client, "PATCH", node, &taints, "do not change the spec of nodes").await;
        let label = labels(&json!({"nvidia.com/gpu.memory": "1"}));
        assert_denied(&client, "PATCH", node, &label, "do not change labels of nodes").await;
        let count = annotations(&json!({"kai.scheduler/gpu-count": "1"}));
        assert_denied(&client, "PATCH", node, &count, "their own annotations").await;
        let amounts = json!({"status": {"allocatable": {"nvidia.com/gpu": "8"}}});
        let status = format!("{node}/status");
        assert_denied(&client, "PATCH", &status, &amounts, "do not change the amounts").await;
        assert_denied(&client, "PATCH", &map, &json!({"data": {"a": "c"}}), "that a pod owns")
            .await;
        assert_denied(&client, "DELETE", &map, &json!({}), "that a pod owns").await;
        let stolen = json!({"metadata": {"name": "theirs", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}, "data": {"a": "c"}});
        assert_denied(&client, "PATCH", &map, &stolen, "that a pod owns").await;
    }
}

#[tokio::test]
async fn own_accounts_take_no_volume_from_its_claim() {
    let Some(world) = World::new("own-volumes").await else { return };
    let claims = format!("/api/v1/namespaces/{}/persistentvolumeclaims", world.name);
    let size = json!({"storage": "1Gi"});
    let access = json!(["ReadWriteOnce"]);
    let spec =
        json!({"accessModes": access, "storageClassName": "none", "resources": {"requests": size}});
    world.create(&claims, &json!({"metadata": {"name": "c"}, "spec": spec})).await;
    let (volumes, claim) = ("/api/v1/persistentvolumes", format!("{claims}/c"));
    let volume = |name: &str, more: Value| {
        let mut spec = json!({"accessModes": access, "storageClassName": "none", "capacity": size, "hostPath": {"path": "/none"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let theirs = json!({"claimRef": {"namespace": "others", "name": "theirs", "uid": "u"}});
    world.create(volumes, &volume("own-volumes-used", theirs)).await;
    world.create(volumes, &volume("own-volumes-free", json!({}))).await;
    let stolen = json!({"spec": {"claimRef": {"namespace": world.name, "name": "c", "uid": null}}});
    for account in ["kai", "binder"] {
        let own = world.client_of("kai-scheduler", account).await;
        let (used, free) =
            (format!("{volumes}/own-volumes-used"), format!("{volumes}/own-volumes-free"));
        assert_denied(&own, "PATCH", &used, &stolen, "do not take a volume").await;
        let kept = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        assert_denied(&own, "PATCH", &free, &kept, "change the claim of volumes only").await;
        let label = labels(&json!({"topology.kubernetes.io/zone": "x"}));
        assert_denied(&own, "PATCH", &free, &label, "change the claim of volumes only").await;
        let only = "selected-node of volume claims only";
        assert_denied(&own, "PATCH", &claim, &annotations(&json!({"other": "x"})), only).await;
        assert_denied(&own, "PATCH", &claim, &labels(&json!({"app": "x"})), only).await;
        let node = annotations(&json!({"volume.kubernetes.io/selected-node": account}));
        send(&own, "PATCH", &claim, MERGE, &node).await.expect("the binder chooses the node");
    }
}

/// Pods of other schedulers stay; pods of ours, and pods that a binder bound, may be victims.
async fn own_accounts_delete_victims_only(world: &World) {
    let pod = |name: &str, scheduler: &str| {
        let mut pod = world.pod(name, &[], &json!({}));
        pod["spec"]["schedulerName"] = json!(scheduler);
        pod
    };
    for (name, scheduler) in [("default", "default-scheduler"), ("volcano", "volcano")] {
        world.create_pod(&pod(name, scheduler)).await;
    }
    world.create_pod(&pod("victim", "kai-scheduler")).await;
    let mut bound = pod("bound", "renamed");
    bound["metadata"]["annotations"] = json!({"received-resource-type": "Regular"});
    world.create_pod(&bound).await;
    let own = world.client_of("kai-scheduler", "kai").await;
    for name in ["default", "volcano"] {
        let (path, why) = (world.pod_path(name), "do not delete pods of other schedulers");
        assert_denied(&own, "DELETE", &path, &json!({}), why).await;
        // The mark of a bound pod cannot be added to a pod that is there.
        let mark = annotations(&json!({"received-resource-type": "Regular"}));
        assert_denied(&own, "PATCH", &path, &mark, "change annotations of grouping").await;
    }
    for name in ["victim", "bound"] {
        let path = world.pod_path(name);
        send(&own, "DELETE", &path, "application/json", &json!({})).await.expect("a victim");
    }
}

/// Where the API server lets forged metadata pass (older versions know no policies), it has no effect. The administrator
/// simulates such a server.
#[tokio::test]
async fn forged_devices_and_groups_evict_no_pod_and_reserve_nothing() {
    let Some(mut world) = cluster("forged-groups", 4).await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.start_kai("kai", &[]).await;
    world.create_pod(&half(&world, "a")).await;
    world.create_pod(&half(&world, "b")).await;
    world.wait_bound("a").await;
    world.wait_bound("b").await;
    let reservations = world.reservations().await;
    let group = &reservations[0]["metadata"]["labels"]["runai-gpu-group"];
    let group = group.as_str().expect("a group");
    let fake = json!({"kai.scheduler/gpu-devices": format!("{group}=FAKE")});
    world.patch(&world.pod_path("b"), &annotations(&fake)).await;
    let mut foreign = world.pod("foreign", &[("runai-gpu-group", group)], &json!({}));
    foreign["spec"]["schedulerName"] = json!("default-scheduler");
    foreign["spec"]["nodeName"] = json!("forged-groups-n");
    foreign["metadata"]["annotations"] = fake;
    world.create_pod(&foreign).await;
    let mut many = world.pod("many", &[], &json!({}));
    many["spec"]["nodeName"] = json!("forged-groups-n");
    many["metadata"]["annotations"] = json!({"gpu-fraction": "0.1"});
    for number in 0..200 {
        many["metadata"]["labels"][format!("runai-gpu-group/{number}")] = json!(number.to_string());
    }
    world.create_pod(&many).await;
    world
        .stays("a and b run, nothing else is reserved", WHILE, async || {
            let a = world.see_pod("a").await;
            let b = world.see_pod("b").await;
            let stays = |pod: Option<Value>| {
                pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            };
            stays(a) && stays(b) && world.reservations().await.len() == reservations.len()
        })
        .await;
    // The node's other devices are free for whole pods.
    let queue = world.queue_name("q");
    let whole = json!({"nvidia.com/gpu": "3"});
    world.create_pod(&world.pod("whole", &[(crate::QUEUE, &queue)], &whole)).await;
    world.wait_bound("whole").await;
}

#[tokio::test]
async fn bound_pod_is_charged_as_bound_although_it_was_relabelled() {
    let Some(mut world) = cluster("relabelled", 1).await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    let gpu = json!({"quota": 1, "limit": 1, "overQuotaWeight": 1});
    world.queue("other", open(), gpu).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let big = world.sharing_pod("big", &queue, &json!({"gpu-fraction": "0.9"}));
    world.create_pod(&big).await;
    world.wait_bound("big").await;
    let group = world.see_pod("big").await.expect("a pod")["metadata"]["labels"].clone();
    assert!(group["runai-gpu-group"].is_string());
    world.kill_kai();
    // Only the administrator may.
    let forged = json!({"metadata": {
        "labels": {"runai-gpu-group": null, crate::QUEUE: world.queue_name("other")},
        "annotations": {"kai.scheduler/placement": world.see_pod("big").await.expect("a pod")["metadata"]["annotations"]["kai.scheduler/placement"]},
    }});
    world.patch(&world.pod_path("big"), &forged).await;
    world.start_kai("kai", &[]).await;
    world.create_pod(&half(&world, "half")).await;
    world.stays("the device is full", WHILE, async || world.node_of("half").await.is_none()).await;
    let path = format!("/apis/scheduling.run.ai/v2/queues/{queue}");
    world
        .wait("the queue is charged for what was bound", async || {
            let queue = world.get(&path).await.expect("the queue");
            queue["status"]["allocated"]["nvidia.com/gpu"]
                .as_str()
                .is_some_and(|text| text.starts_with("900m") || text.starts_with("0.9"))
        })
        .await;
}

#[tokio::test]
async fn pod_that_calls_itself_a_reservation_is_counted() {
    let Some(mut world) = cluster("pretender", 8).await else { return };
    let mut pretender =
        world.pod("pretender", &[("app", world.name)], &json!({"nvidia.com/gpu": "8"}));
    pretender["spec"]["nodeName"] = json!("pretender-n");
    pretender["metadata"]["annotations"] = json!({"kai.scheduler/gpu-count": "1"});
    world.create_pod(&pretender).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let whole = json!({"nvidia.com/gpu": "1"});
    world.create_pod(&world.pod("whole", &[(crate::QUEUE, &queue)], &whole)).await;
    world
        .stays("the GPUs are in use", WHILE, async || world.node_of("whole").await.is_none())
        .await;
    world.delete(&world.pod_path("pretender"), &json!({"gracePeriodSeconds": 0})).await;
    world.wait_bound("whole").await;
}

/// The pod pretends that the map is the one that the binder writes.
fn own_map(mut pod: Value) -> Value {
    pod["metadata"]["annotations"] = json!({"runai/shared-gpu-configmap": "m"});
    pod
}

/// The pod has a device claim too.
fn claiming(mut pod: Value) -> Value {
    pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": "c"}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "device"}]);
    pod
}

#[tokio::test]
async fn tenants_cannot_choose_devices() {
    let Some(world) = World::alone("chooser").await else { return };
    let policy = kai_manifests(&["--block-nvidia-visible-devices"]);
    let policy =
        policy.split("---\n").filter(|one| one.contains("kai-block-nvidia-visible-devices"));
    for document in policy {
        let object: Value = serde_saphyr::from_str(document).expect("YAML");
        let plural = match object["kind"].as_str() {
            Some("ValidatingAdmissionPolicy") => "validatingadmissionpolicies",
            _ => "validatingadmissionpolicybindings",
        };
        world.create(&format!("/apis/admissionregistration.k8s.io/v1/{plural}"), &object).await;
    }
    let tenant = world.tenant().await;
    let chosen = |env: Value, from: Value| {
        let mut pod = world.pod("chooser", &[], &json!({}));
        pod["spec"]["schedulerName"] = json!("default-scheduler");
        pod["spec"]["containers"][0]["env"] = env;
        pod["spec"]["containers"][0]["envFrom"] = from;
        pod
    };
    let name = "NVIDIA_VISIBLE_DEVICES";
    let reference = json!({"configMapKeyRef": {"name": "m", "key": "k"}});
    let denied = [
        chosen(json!([{"name": name, "value": "all"}]), json!([])),
        chosen(json!([{"name": name, "valueFrom": reference}]), json!([])),
        chosen(json!([]), json!([{"prefix": "NVIDIA_", "configMapRef": {"name": "m"}}])),
        own_map(chosen(json!([{"name": name, "valueFrom": reference}]), json!([]))),
        claiming(chosen(json!([{"name": name, "value": "all"}]), json!([]))),
    ];
    let pods = world.pod_path("");
    let is_in_effect = async || {
        let body = serde_json::to_value(&denied[0]).expect("a pod");
        let path = format!("{pods}?dryRun=All");
        send(&tenant, "POST", &path, "application/json", &body).await.is_err()
    };
    world.wait("the policy is in effect", is_in_effect).await;
    for pod in &denied {
        assert_denied(&tenant, "POST", &pods, pod, name).await;
    }
    let maps = format!("/api/v1/namespaces/{}/configmaps", world.name);
    let map = json!({"metadata": {"name": "m"}, "data": {name: "all"}});
    assert_denied(&tenant, "POST", &maps, &map, name).await;
    let secret = json!({"metadata": {"name": "m"}, "stringData": {name: "all"}});
    let secrets = format!("/api/v1/namespaces/{}/secrets", world.name);
    assert_denied(&tenant, "POST", &secrets, &secret, name).await;
    let mut allowed = chosen(json!([{"name": name, "value": "void"}]), json!([]));
    allowed["spec"]["volumes"] = json!([{"name": "kai-guard-lib", "emptyDir": {}}]);
    send(&tenant, "POST", &pods, "application/json", &allowed).await.expect("a pod");
    ephemeral_containers_cannot_choose_devices(&world, &tenant).await;
    // A map whose owner does not exist would be collected.
    let uid = world.see_pod("chooser").await.expect("the pod")["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "chooser", "uid": uid});
    let config_map = json!({"metadata": {"name": "chooser-shared-gpu-0", "ownerReferences": [owner]}, "data": {"GPU_PORTION": "0.5"}});
    world.create(&maps, &config_map).await;
    let path = format!("{maps}/chooser-shared-gpu-0");
    assert_denied(
        &tenant,
        "PATCH",
        &path,
        &json!({"data": {"GPU_PORTION": "1"}}),
        "only the binder",
    )
    .await;
}

/// A container that a tenant adds to its running pod, where an administrator lets it.
async fn ephemeral_containers_cannot_choose_devices(world: &World, tenant: &Client) {
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", world.name);
    let rules =
        json!([{"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]}]);
    world
        .create(&format!("{rbac}/roles"), &json!({"metadata": {"name": "debug"}, "rules": rules}))
        .await;
    let binding = json!({
        "metadata": {"name": "debug"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "debug"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": world.name}],
    });
    world.create(&format!("{rbac}/rolebindings"), &binding).await;
    let path = format!("{}/ephemeralcontainers", world.pod_path("chooser"));
    let added = |name: &str, more: &Value| {
        let mut container = json!({"name": name, "image": "none"});
        for (key, value) in more.as_object().into_iter().flatten() {
            container[key] = value.clone();
        }
        json!({"spec": {"ephemeralContainers": [container]}})
    };
    let fine =
        added("fine", &json!({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}));
    let is_allowed = async || send(tenant, "PATCH", &path, MERGE, &fine).await.is_ok();
    world.wait("the tenant adds a container", is_allowed).await;
    let chosen = json!({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]});
    let taken = json!({"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "m"}}]});
    let library = json!({"volumeMounts": [{"name": "kai-guard-lib", "mountPath": "/lib2"}]});
    let attacks = [
        (chosen, "NVIDIA_VISIBLE_DEVICES"),
        (taken, "NVIDIA_VISIBLE_DEVICES"),
        (library, "limits GPU memory"),
    ];
    let strategic = "application/strategic-merge-patch+json";
    for (attack, why) in attacks {
        match send(tenant, "PATCH", &path, strategic, &added("attack", &attack)).await {
            Err(kube::Error::Api(status)) if status.message.contains(why) => {}
            other => panic!("{attack}: {other:?}"),
        }
    }
}
