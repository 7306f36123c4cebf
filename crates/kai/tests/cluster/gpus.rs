//! Facts about GPUs and the pods that share them: time-slicing, CDI, what is written on nodes, and the agent itself.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::binder::gpu_node;
use crate::open;
use crate::served::{ask, free_port};
use crate::sharing::{Answer, NodeAgents};
use crate::world::World;

fn memory(world: &World, name: &str, mib: &str) -> Value {
    world.sharing_pod(name, &world.queue_name("q"), &json!({"gpu-memory": mib}))
}

/// A cluster with one node that has one GPU and advertises a hundred.
async fn sliced(world: &World) {
    world.queue("q", open(), open()).await;
    world.node("n", gpu_node(100)).await;
    let labels = json!({"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "32600"});
    let path = format!("/api/v1/nodes/{}-n", world.name);
    world.patch(&path, &json!({"metadata": {"labels": labels}})).await;
}

#[tokio::test]
async fn four_of_five_share_a_gpu_that_is_advertised_a_hundred_times_and_all_can_see_it() {
    let Some(mut world) = World::new("slices").await else { return };
    sliced(&world).await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    let metrics = free_port();
    world.start_kai("kai", &[&format!("--listen-address=127.0.0.1:{metrics}")]).await;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        world.create_pod(&memory(&world, name, "8000")).await;
    }
    let bound = async || {
        let pods = world.list("/api/v1", "pods").await;
        pods.into_iter().filter(|pod| pod["spec"]["nodeName"].is_string()).collect::<Vec<Value>>()
    };
    world.wait("four are bound", async || bound().await.len() == 4).await;
    // As it is in the documentation.
    let jsonpath = r"jsonpath={.metadata.annotations.kai\.scheduler/gpu-shares}";
    let shown = async || world.kubectl(&["get", "node", "slices-n", "-o", jsonpath]);
    world
        .wait("the node lists the pods and their memory", async || {
            let shares: Value = serde_json::from_str(&shown().await).unwrap_or_default();
            let device = &shares["slices-n-0"];
            device["total_mib"] == 32_600
                && device["pods"].as_object().is_some_and(|pods| pods.len() == 4)
        })
        .await;
    let (_, page) = ask(metrics, "GET", "/metrics", "").expect("an answer");
    let page = String::from_utf8(page).expect("text");
    for (what, number) in [("memory_mib", 32_600), ("memory_granted_mib", 32_000), ("pods", 4)] {
        let line =
            format!("kai_shared_gpu_{what}{{node=\"slices-n\",uuid=\"slices-n-0\"}} {number}\n");
        assert!(page.contains(&line), "{line} is not in {page}");
    }
    let table = world.kai("gpus", "kai", &["--resource-reservation-app-label", "slices"]).await;
    let row = table.lines().find(|line| line.starts_with("slices-n ")).expect("the node");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[1], cells[2], cells[4], cells[5]), ("100", "1", "slices-n-0", "32000/32600"));
    assert_eq!(cells.last(), Some(&"off"), "{table}");
    for pod in bound().await {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        assert!(row.contains(&format!("slices/{name} (8000)")), "{table}");
    }
}

/// Pods that are created from now on get their device in CDI notation, or not.
async fn next_pod_reports(world: &World, cdi: bool, what: &str) {
    for _ in 0..60 {
        world.create_pod(&memory(world, "next", "100")).await;
        world.wait_bound("next").await;
        let config = world.shared_gpu_config("next").await.expect("a config map");
        let devices = config["NVIDIA_VISIBLE_DEVICES"].as_str().expect("devices").to_owned();
        world.remove_pod("next").await;
        world.wait("it is gone", async || world.see_pod("next").await.is_none()).await;
        if devices.starts_with("k8s.device-plugin.nvidia.com/gpu=") == cdi {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    }
    panic!("{what}");
}

#[tokio::test]
async fn the_operator_decides_about_cdi_without_a_restart() {
    let Some(mut world) = World::alone("cdi").await else { return };
    sliced(&world).await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world.start_kai("kai", &[]).await;
    world.create_pod(&memory(&world, "stays", "100")).await; // and keeps the device
    world.wait_bound("stays").await;
    next_pod_reports(&world, false, "without the operator").await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": {
            "group": "nvidia.com", "scope": "Cluster",
            "names": {"plural": "clusterpolicies", "singular": "clusterpolicy", "kind": "ClusterPolicy", "listKind": "ClusterPolicyList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let policies = "/apis/nvidia.com/v1/clusterpolicies";
    let policy = json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "labels": {"app.kubernetes.io/version": "v25.10.0"}},
        "spec": {"cdi": {"enabled": true}},
    });
    world
        .wait("the kind is served", async || world.try_create(policies, &policy).await.is_ok())
        .await;
    next_pod_reports(&world, true, "the operator came").await;
    let path = format!("{policies}/cluster-policy");
    world.patch(&path, &json!({"spec": {"cdi": {"enabled": false}}})).await;
    next_pod_reports(&world, false, "it was turned off").await;
    world.patch(&path, &json!({"spec": {"cdi": {"enabled": true}}})).await;
    next_pod_reports(&world, true, "it was turned on").await;
    // The binder without the right to look does without.
    world.kill_kai();
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kai-binder";
    let mut rules = world.get(role).await.expect("the role")["rules"].clone();
    rules.as_array_mut().expect("rules").retain(|rule| rule["apiGroups"][0] != "nvidia.com");
    world.patch(role, &json!({"rules": rules})).await;
    world.start_kai("kai", &[]).await;
    next_pod_reports(&world, false, "without the right to look").await;
}

/// The agent in a reservation pod, with the rights that such pods have.
struct Agent(Child);

impl Agent {
    fn start(kubeconfig: &Path, stub: &Path, log: &Path) -> Self {
        let file = std::fs::File::create(log).expect("a file");
        let agent = Command::new(env!("CARGO_BIN_EXE_kai"))
            .args(["agent", "reserve", "--kubeconfig"])
            .arg(kubeconfig)
            .env("POD_NAMESPACE", "kai-resource-reservation")
            .env("POD_NAME", "gpu-reservation-by-agent")
            .env("NVML_LIBRARY_PATHS", stub)
            .env("NVIDIA_VISIBLE_DEVICES", "GPU-b")
            .env("STUB_NVML_DEVICES", "GPU-a:1000,GPU-b:32600")
            .stderr(file)
            .spawn();
        Self(agent.expect("it starts"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_agent_writes_its_device_on_its_pod_with_the_rights_of_reservation_pods() {
    let Some(world) = World::new("agent").await else { return };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (stub, log) = (folder.join("agent-stub"), folder.join("agent.log"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kai-node/tests/stub-nvml/build.sh");
    let built = Command::new("sh").arg(script).arg(&stub).status().expect("a shell");
    assert!(built.success(), "a C compiler is needed");
    let pods = "/api/v1/namespaces/kai-resource-reservation/pods";
    let pod = json!({
        "metadata": {"name": "gpu-reservation-by-agent"},
        "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "x"}]},
    });
    world.create(pods, &pod).await;
    let path = format!("{pods}/gpu-reservation-by-agent");
    let account = "kai-resource-reservation";
    let kubeconfig = world.account_kubeconfig(account, account).await;
    let agent = Agent::start(&kubeconfig, &stub, &log);
    world
        .wait("the device is reported", async || {
            let annotations =
                world.get(&path).await.expect("the pod")["metadata"]["annotations"].clone();
            annotations["run.ai/reserve_for_gpu_index"] == "GPU-b"
                && annotations["kai.scheduler/gpu-memory-mib"] == "32600"
                && annotations["kai.scheduler/gpu-driver-version"] == "570.00.stub"
        })
        .await;
    let said = async || std::fs::read_to_string(&log).expect("a log");
    world
        .wait("all was said", async || {
            said().await.contains("Pod was updated with GPU device UUID")
        })
        .await;
    let text = said().await;
    for line in [
        "Looking for GPU device id for pod",
        "Found 1 GPU devices",
        "Found GPU device deviceId=\"GPU-b\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    drop(agent);
    // Started again it finds that all is done.
    let _agent = Agent::start(&kubeconfig, &stub, &log);
    world
        .stays("it does not look again", std::time::Duration::from_secs(2), async || {
            !said().await.contains("Looking for")
        })
        .await;
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await;
}
