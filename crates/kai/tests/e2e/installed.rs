//! An installation as it is shipped, on a cluster of its own: one elected process for the whole cluster, the node scale adjuster
//! with its account, and the program of a reservation pod with its account. The list of cases plays these three.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kai_testenv::{Process, objects};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::OnceCell;

use crate::installation::KAI;
use crate::kubelet_socket::{self, Answer, field, serve};
use crate::rights::Act;
use crate::sharing::device_of;
use crate::world::World;
use crate::{Site, there};

const QUEUE: &str = "kai.scheduler/queue";
const SCALING: &str = "/api/v1/namespaces/kai-scale-adjust/pods";
const CONFIG: &str = "/apis/kai.scheduler/v1/configs";
const SHARDS: &str = "/apis/kai.scheduler/v1/schedulingshards";
const RESERVATIONS: &str = "kai-resource-reservation";
const NOW: &str = r#"{"gracePeriodSeconds": 0}"#;

static PLAYED: OnceCell<Option<BTreeSet<Act>>> = OnceCell::const_new();

/// Plays it once, whichever test asks first; what our accounts did.
pub(crate) async fn played() -> Option<&'static BTreeSet<Act>> {
    PLAYED.get_or_init(play).await.as_ref()
}

#[tokio::test]
async fn an_installation_works_with_the_rights_of_its_accounts() {
    played().await;
}

async fn play() -> Option<BTreeSet<Act>> {
    let site = there(Site::new(&[]).await, "an installation as it is shipped")?;
    let mut world = World::on(std::sync::Arc::clone(&site.plane), "installed", None).await;
    let gpu = json!({"quota": 1, "limit": -1, "overQuotaWeight": 1});
    world.queue("q", json!({"quota": 0, "limit": -1, "overQuotaWeight": 1}), gpu).await;
    let node = json!({"cpu": "8", "memory": "8Gi", "pods": "20", "nvidia.com/gpu": "1"});
    world.node("n", node).await;
    // The first process that starts fills the key of placements.
    start_adjusters(&mut world).await;
    let queues = start_kai(&mut world).await;
    world
        .wait("the installation reports its condition", async || {
            let reported = async |path: &str| {
                let object = world.get(path).await.unwrap_or_default();
                object["status"]["conditions"].is_array()
            };
            reported(&format!("{CONFIG}/kai-config")).await
                && reported(&format!("{SHARDS}/default")).await
        })
        .await;
    let queue = "/apis/scheduling.run.ai/v2/queues/installed-default";
    world.wait("the default queue is created", async || world.get(queue).await.is_some()).await;
    let _ = std::fs::remove_file(queues);
    delete_a_victim(&world).await;
    let _agent = share_a_device(&world).await;
    scale_for(&world, "first").await;
    // The one process does the same where the Config enables it.
    world.kill_first_kai();
    world.kill_first_kai();
    let args = json!({"unschedulableGracePeriod": 0});
    let enabled =
        json!({"spec": {"nodeScaleAdjuster": {"service": {"enabled": true}, "args": args}}});
    world.patch(&format!("{CONFIG}/kai-config"), &enabled).await;
    scale_for(&world, "second").await;
    Some(site.acts())
}

/// Two replicas of the node scale adjuster with its account; the standby reads lists in pages.
async fn start_adjusters(world: &mut World) {
    let usual =
        ["--only", "node-scale-adjuster", "--leader-elect", "--unschedulable-grace-period=1s"];
    world.start_kai("node-scale-adjuster", &usual).await;
    let key = "/api/v1/namespaces/kai-scheduler/secrets/kai-placement-key";
    world
        .wait("the key of placements is there", async || {
            world.get(key).await.expect("the Secret")["data"].is_object()
        })
        .await;
    let standby = [&usual[..], &["--watch-list=false"]].concat();
    world.start_kai("node-scale-adjuster", &standby).await;
}

/// `kai run` for the whole cluster; the file of its default queues.
async fn start_kai(world: &mut World) -> PathBuf {
    let global = json!({"schedulerName": world.name});
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": {"global": global}});
    world.create(CONFIG, &config).await;
    let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "default"}, "spec": {}});
    world.create(SHARDS, &shard).await;
    let kinds = r#"[{"typeName": "Pod", "priorityName": "build-preemptible"}]"#;
    let kinds = json!({"metadata": {"name": "kinds"}, "data": {"types": kinds}});
    world.create("/api/v1/namespaces/kai-scheduler/configmaps", &kinds).await;
    let queue = objects::queue("installed-default", &objects::unbounded());
    let file = std::env::temp_dir().join(format!("kai-installed-{}.yaml", std::process::id()));
    std::fs::write(&file, queue.to_string()).expect("a file");
    let path = file.to_string_lossy().into_owned();
    let arguments = [
        "--leader-elect",
        "--upgrade-crds",
        "--image=kai",
        "--default-queues",
        &path,
        "--watch-list=false",
        "--eviction=delete",
        "--pod-groups=always",
        "--bind-requests=always",
        "--default-priorities-configmap-name=kinds",
        "--default-priorities-configmap-namespace=kai-scheduler",
    ];
    world.start_kai("kai", &arguments).await;
    file
}

/// A pod of high priority takes the device of another, which is deleted.
async fn delete_a_victim(world: &World) {
    let queue = world.queue_name("q");
    let labels = [(QUEUE, queue.as_str()), ("priorityClassName", "train")];
    let device = json!({"nvidia.com/gpu": "1"});
    world.create_pod(&world.pod("low", &labels, &device)).await;
    world.wait_bound("low").await;
    // Its priority is the default of its kind.
    world.create_pod(&world.pod("high", &[(QUEUE, &queue)], &device)).await;
    let is_deleted = async || {
        world.see_pod("low").await.expect("low")["metadata"]["deletionTimestamp"].is_string()
    };
    world.wait("low is deleted", is_deleted).await;
    let groups = world.pod_groups().await;
    let classes: Vec<&Value> =
        groups.iter().map(|group| &group["spec"]["priorityClassName"]).collect();
    assert!(classes.contains(&&json!("build-preemptible")), "{classes:?}");
    remove(world, "low").await;
    world.wait_bound("high").await;
    remove(world, "high").await;
}

async fn remove(world: &World, pod: &str) {
    let options: Value = serde_json::from_str(NOW).expect("JSON");
    world.delete(&format!("/api/v1/namespaces/{}/pods/{pod}", world.name), &options).await;
}

/// A pod that shares a device is bound after the program of its reservation pod has named the device.
async fn share_a_device(world: &World) -> Process {
    let queue = world.queue_name("q");
    world.create_pod(&world.sharing_pod("half", &queue, &json!({"gpu-fraction": "0.5"}))).await;
    world.wait("a device is reserved", async || world.reservations().await.len() == 1).await;
    let reservation = world.reservations().await.remove(0);
    let name = reservation["metadata"]["name"].as_str().expect("a name");
    let socket = std::env::temp_dir().join(format!("kai-installed-{}", std::process::id()));
    let gpu = [field(1, b"nvidia.com/gpu"), field(2, b"GPU-a")].concat();
    let message = Answer::default();
    *message.lock().expect("it") = kubelet_socket::pod(RESERVATIONS, name, &field(2, &gpu));
    let kubelet =
        tokio::spawn(serve(UnixListener::bind(&socket).expect("a socket"), message.clone()));
    let agent = start_agent(world, name, &socket).await;
    world.wait_bound("half").await;
    let device = device_of(&world.reservations().await[0]);
    let has_library = Path::new("/dev/nvidiactl").exists();
    assert!(has_library || device.as_deref() == Some("GPU-a"), "{device:?}");
    kubelet.abort();
    let _ = std::fs::remove_file(socket);
    agent
}

/// The program of a reservation pod, with the account of the pod.
async fn start_agent(world: &World, pod: &str, socket: &Path) -> Process {
    let kubeconfig = world.account_kubeconfig(RESERVATIONS, RESERVATIONS).await;
    let (kubeconfig, socket) = (kubeconfig.to_string_lossy(), socket.to_string_lossy());
    let (namespace, pod) = (format!("POD_NAMESPACE={RESERVATIONS}"), format!("POD_NAME={pod}"));
    let flags = ["--kubeconfig", &kubeconfig, "--podresources-socket", &socket];
    let all = [&[&*namespace, &*pod, KAI, "agent", "reserve"], &flags[..]].concat();
    let quiet = std::env::var_os("KAI_TEST_LOG").is_none();
    let log = quiet.then_some(Path::new("/dev/null"));
    Process::start(Path::new("env"), &all, log, None).expect("kai starts")
}

/// A pod that finds no device gets a scaling pod, although a pod of another owner has its name; both go together.
async fn scale_for(world: &World, name: &str) {
    let taken = format!("{}-{name}", world.name);
    let containers = json!([{"name": "main", "image": "none"}]);
    let foreign = json!({"metadata": {"name": taken}, "spec": {"containers": containers}});
    world.create(SCALING, &foreign).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.sharing_pod(name, &queue, &json!({"gpu-fraction": "0.9"}))).await;
    let selector = format!("labelSelector=shared-gpu-pod-name%3D{name}");
    let scaling = async || {
        let list = world.get(&format!("{SCALING}?{selector}")).await.expect("a list");
        list["items"].as_array().cloned().expect("items")
    };
    world
        .wait("autoscalers see a scaling pod", async || {
            let pods = scaling().await;
            pods.iter().any(|pod| pod["status"].to_string().contains("Unschedulable"))
        })
        .await;
    remove(world, name).await;
    world.wait("the scaling pod is removed", async || scaling().await.is_empty()).await;
}
