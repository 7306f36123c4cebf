//! A cluster with real nodes: real containers are started, stopped and looked into.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use kai_testenv::{ControlPlane, Image, Node, NodePlan, NvidiaRuntime};
use serde_json::{Value, json};

use crate::installation::{KAI, install};
use crate::world::{World, send};

/// The image that pods of these tests run.
pub(crate) const BUSYBOX: &str = "kai.test/busybox:1";
/// Our own image, which reservation pods run.
pub(crate) const KAI_IMAGE: &str = "kai.test/kai:1";

/// Characters of each log that are printed when a test fails.
const LAST_LINES: usize = 15;

/// GPUs of a node.
#[derive(Clone, Copy)]
pub(crate) struct Gpus {
    pub(crate) count: u32,
    /// How often each is advertised.
    pub(crate) replicas: u32,
    /// Memory of each GPU in MiB.
    pub(crate) mib: u32,
}

/// A cluster with real nodes.
pub(crate) struct Site {
    // Ended in this order.
    pub(crate) nodes: Vec<Node>,
    pub(crate) world: World,
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) folder: PathBuf,
}

impl Site {
    /// A cluster with everything of ours installed, and no node.
    pub(crate) async fn new(name: &'static str) -> Self {
        let site = Self::bare(name).await;
        install(&site.plane);
        site
    }

    /// A cluster with nothing of ours, and no node.
    pub(crate) async fn bare(name: &'static str) -> Self {
        let plane = Arc::new(ControlPlane::start_for_nodes().await.expect("a control plane"));
        let folder = std::env::temp_dir();
        let world = World::on(Arc::clone(&plane), name, None).await;
        Self { nodes: Vec::new(), world, plane, folder }
    }

    /// Starts `kai` with everything in it, webhooks too.
    pub(crate) async fn start_kai(&mut self, arguments: &[&str]) {
        let all = ["--gpu-sharing-enabled", "--resource-reservation-pod-image", KAI_IMAGE];
        self.world.start_admitting("kai", &[&all, arguments].concat()).await;
    }

    /// A cluster whose pods find NVIDIA's runtime, with the queues of the quick start.
    pub(crate) async fn with_runtime(name: &'static str) -> Self {
        let site = Self::new(name).await;
        let class = json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"});
        site.world.create("/apis/node.k8s.io/v1/runtimeclasses", &class).await;
        site.queues().await;
        site
    }

    /// Makes the queues of the quick start; `test` is one of them.
    pub(crate) async fn queues(&self) {
        let text = include_str!("../../../../docs/quickstart/queues.yaml");
        let queues: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
        for queue in &queues {
            self.world.create("/apis/scheduling.run.ai/v2/queues", queue).await;
        }
    }

    /// A pod of queue `test` that does nothing and ends at once on SIGTERM.
    pub(crate) fn pod(&self, name: &str, annotations: &Value, limits: &Value) -> Value {
        const IDLE: &str = "trap 'exit 0' TERM; sleep infinity & wait";
        json!({
            "metadata": {"name": name, "labels": {"kai.scheduler/queue": "test"}, "annotations": annotations},
            "spec": {
                "schedulerName": self.world.name,
                "terminationGracePeriodSeconds": 5,
                "containers": [{
                    "name": "main",
                    "image": BUSYBOX,
                    "command": ["sh", "-c", IDLE],
                    "resources": {"limits": limits},
                }],
            },
        })
    }

    /// Creates a pod with these annotations.
    pub(crate) async fn share(&self, name: &str, annotations: &Value) {
        self.world.create_pod(&self.pod(name, annotations, &json!({}))).await;
    }

    /// Creates a pod with this many whole GPUs.
    pub(crate) async fn whole(&self, name: &str, gpus: &str) {
        self.world.create_pod(&self.pod(name, &json!({}), &json!({"nvidia.com/gpu": gpus}))).await;
    }

    /// Waits until the container of a pod runs.
    pub(crate) async fn wait_running(&self, pod: &str) {
        self.world
            .wait(&format!("{pod} runs"), async || {
                self.world.see_pod(pod).await.is_some_and(|pod| is_true(&pod, "Ready"))
            })
            .await;
    }

    /// Waits until a pending pod has a reason, and returns it.
    pub(crate) async fn wait_waiting(&self, pod: &str) -> String {
        let reason = async || Self::waits_for(&self.world.see_pod(pod).await?).map(str::to_owned);
        self.world
            .wait(&format!("{pod} is pending with a reason"), async || reason().await.is_some())
            .await;
        assert_eq!(self.world.node_of(pod).await, None, "{pod} has a node");
        reason().await.expect("a reason")
    }

    /// Waits until a pod reports the error of the node that prevented its bind.
    pub(crate) async fn wait_bind_failure(&self, pod: &str, why: &str) {
        self.world
            .wait(&format!("{pod} reports {why}"), async || {
                let pod = self.world.see_pod(pod).await.expect("the pod");
                assert!(pod["spec"]["nodeName"].is_null(), "it has a node");
                pod["status"]["conditions"].to_string().contains(why)
            })
            .await;
    }

    /// Deletes a pod. It may be gone already: `kai` evicts pods to consolidate, and these have no controller.
    pub(crate) async fn remove(&self, pod: &str) {
        let path = format!("/api/v1/namespaces/{}/pods/{pod}", self.world.name);
        match send(&self.world.client, "DELETE", &path, "application/json", &json!({})).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            ended => drop(ended.expect("it is deleted")),
        }
    }

    /// Waits until nothing is left of pods that shared devices: no reservation, no container, no config map.
    pub(crate) async fn wait_empty(&self) {
        self.world
            .wait("every reservation is gone", async || self.reservations().await.is_empty())
            .await;
        self.world
            .wait("no container is left", async || {
                self.nodes.iter().all(|node| node.running().expect("containers").is_empty())
            })
            .await;
        let shared = |map: &Value| map["metadata"]["name"].to_string().contains("-shared-gpu");
        self.world
            .wait("no config map is left", async || {
                !self.world.list("/api/v1", "configmaps").await.iter().any(shared)
            })
            .await;
    }

    /// The devices that the container of a pod really sees.
    pub(crate) fn devices(&self, pod: &str) -> String {
        let variables = self.exec(pod, &["env"]);
        let devices =
            variables.lines().find_map(|line| line.strip_prefix("NVIDIA_VISIBLE_DEVICES="));
        devices.unwrap_or_default().to_owned()
    }

    pub(crate) async fn reservations(&self) -> Vec<Value> {
        let path = "/api/v1/namespaces/kai-resource-reservation/pods";
        let list = self.world.get(path).await.expect("a list");
        list["items"].as_array().cloned().expect("items")
    }

    /// Pods of the test.
    pub(crate) async fn pods(&self) -> Vec<Value> {
        self.world.list("/api/v1", "pods").await
    }

    /// What a node is like by default: it has our images, NVIDIA's runtime and these labels.
    pub(crate) fn plan(&self, name: &str, labels: &[(&str, &str)]) -> NodePlan {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        NodePlan {
            name: name.to_owned(),
            number: u8::try_from(self.nodes.len() + 1).expect("few nodes"),
            labels: labels.iter().map(owned).collect(),
            images: vec![self.busybox(), self.kai_image()],
            runtime: NvidiaRuntime::MountsLibraries(self.libraries()),
            own_libraries: None,
        }
    }

    /// Adds a node and waits until it is ready.
    pub(crate) async fn node(&mut self, plan: &NodePlan) {
        self.nodes.push(Node::start(&self.plane, plan).expect("a node starts"));
        let path = format!("/api/v1/nodes/{}", plan.name);
        self.world
            .wait("the node is ready", async || {
                self.world
                    .get(&path)
                    .await
                    .is_some_and(|node| node["spec"]["taints"].is_null() && is_true(&node, "Ready"))
            })
            .await;
    }

    /// Adds a node with so many GPUs that are advertised so many times each, with the labels of the GPU operator, and waits until
    /// it offers them.
    pub(crate) async fn gpu_node(&mut self, name: &str, gpus: Gpus) {
        let (count, memory) = (gpus.count.to_string(), gpus.mib.to_string());
        let labels = [("nvidia.com/gpu.count", count.as_str()), ("nvidia.com/gpu.memory", &memory)];
        let plan = self.plan(name, &labels);
        self.node(&plan).await;
        self.advertise(name, gpus).await;
    }

    /// The latest node offers GPUs from now on.
    pub(crate) async fn advertise(&mut self, name: &str, gpus: Gpus) {
        let prefix = format!("{:08}", self.nodes.len());
        let node = self.nodes.last_mut().expect("the node");
        node.advertise(&prefix, gpus.count, gpus.replicas).expect("a device plugin");
        self.wait_gpus(name, gpus.count * gpus.replicas).await;
    }

    /// Waits until the node has so many GPUs to give.
    pub(crate) async fn wait_gpus(&self, node: &str, count: u32) {
        let path = format!("/api/v1/nodes/{node}");
        let what = format!("{node} has {count} GPUs");
        self.world
            .wait(&what, async || {
                let node = self.world.get(&path).await.expect("the node");
                node["status"]["allocatable"]["nvidia.com/gpu"] == json!(count.to_string())
            })
            .await;
    }

    /// How the driver of every node fails from now on; none: it works.
    pub(crate) fn set_driver_fault(&self, fault: Option<&str>) {
        let file = self.libraries().with_extension("fault");
        match fault {
            Some(fault) => std::fs::write(file, fault).expect("a file"),
            None => std::fs::remove_file(file).expect("it failed"),
        }
    }

    /// What a reservation pod logged, if it is there.
    pub(crate) fn log_of_reservation(&self, pod: &str) -> String {
        let mut kubectl = Command::new(self.plane.program("kubectl"));
        kubectl.arg("--kubeconfig").arg(self.plane.admin_kubeconfig());
        kubectl.args(["-n", "kai-resource-reservation", "logs", pod]);
        let output = kubectl.output().expect("kubectl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What `kai doctor` finds.
    pub(crate) fn doctor(&self) -> Vec<Value> {
        let mut doctor = Command::new(KAI);
        doctor.args(["doctor", "--json", "--scheduler-name", self.world.name]);
        doctor.arg("--kubeconfig").arg(self.plane.admin_kubeconfig());
        let output = doctor.output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["findings"].as_array().cloned().expect("findings")
    }

    /// Does what a finding says.
    pub(crate) fn obey(&self, finding: &Value) {
        let programs = self.plane.program("kubectl");
        let path = format!("{}:/usr/bin:/bin", programs.parent().expect("a folder").display());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(finding["fix"].as_str().expect("a command"));
        shell.env("PATH", path).env("KUBECONFIG", self.plane.admin_kubeconfig());
        let output = shell.output().expect("a shell");
        assert!(output.status.success(), "{finding}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a command in a container of a pod and gives what it prints.
    pub(crate) fn exec(&self, pod: &str, command: &[&str]) -> String {
        let mut kubectl = Command::new(self.plane.program("kubectl"));
        kubectl.arg("--kubeconfig").arg(self.plane.admin_kubeconfig());
        kubectl.args(["-n", self.world.name, "exec", pod, "--"]).args(command);
        let output = kubectl.output().expect("kubectl runs");
        assert!(
            output.status.success(),
            "{kubectl:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Where the node finds the stub of NVML.
    pub(crate) fn libraries(&self) -> PathBuf {
        let folder = self.folder.join("libraries");
        if !folder.exists() {
            let build =
                concat!(env!("CARGO_MANIFEST_DIR"), "/../kai-node/tests/stub-nvml/build.sh");
            let status = Command::new("sh").arg(build).arg(&folder).status();
            assert!(status.expect("a compiler runs").success());
        }
        folder
    }

    /// What a pod waits for, in the words of the scheduler; none: it does not say.
    pub(crate) fn waits_for(pod: &Value) -> Option<&str> {
        let conditions = pod["status"]["conditions"].as_array()?;
        let waits = conditions.iter().find(|one| {
            one["type"] == "PodScheduled"
                && one["status"] == "False"
                && one["reason"] == "Unschedulable"
        })?;
        waits["message"].as_str()
    }

    fn busybox(&self) -> PathBuf {
        Image::busybox(BUSYBOX, &["sleep", "infinity"]).write(&self.folder).expect("an image")
    }

    /// Our binary without what only debuggers read.
    pub(crate) fn stripped_kai(&self) -> PathBuf {
        let stripped = self.folder.join("kai");
        let status = Command::new("strip").arg("-o").arg(&stripped).arg(KAI).status();
        assert!(status.expect("strip runs").success());
        stripped
    }

    /// Our binary with the libraries it needs.
    pub(crate) fn kai_image(&self) -> PathBuf {
        let stripped = self.stripped_kai();
        let image = Image::program(KAI_IMAGE, &stripped, "/bin/kai").expect("libraries");
        image.write(&self.folder).expect("an image")
    }
}

/// A test that fails leaves nothing behind; the last state is printed.
impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut kubectl = Command::new(self.plane.program("kubectl"));
            kubectl.arg("--kubeconfig").arg(self.plane.admin_kubeconfig());
            let shown = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.metadata.annotations} {.status}{\"\\n\"}{end}";
            let output = kubectl.args(["get", "pods", "--all-namespaces", "-o", shown]).output();
            let pods = output.map(|output| output.stdout).unwrap_or_default();
            eprintln!("{}", String::from_utf8_lossy(&pods));
            for node in &self.nodes {
                for program in ["init", "containerd", "kubelet", "device-plugin"] {
                    let log = node.log(program);
                    let tail: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
                    let tail: Vec<&str> = tail.into_iter().rev().collect();
                    eprintln!("-- {program}\n{}", tail.join("\n"));
                }
            }
        }
    }
}

/// Whether a condition of an object holds.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter().any(|one| one["type"] == condition && one["status"] == "True")
    })
}
