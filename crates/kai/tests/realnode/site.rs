//! A cluster with real nodes: real containers are started, stopped and looked into.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use kai_testenv::{ControlPlane, Image, Node, NodePlan, NvidiaRuntime};
use serde_json::{Value, json};

use crate::installation::{KAI, install};
use crate::world::World;

/// The image that pods of these tests run.
pub(crate) const BUSYBOX: &str = "kai.test/busybox:1";
/// Our own image, which reservation pods run.
pub(crate) const KAI_IMAGE: &str = "kai.test/kai:1";

/// A cluster with real nodes.
pub(crate) struct Site {
    // Ended in this order.
    pub(crate) nodes: Vec<Node>,
    pub(crate) world: World,
    plane: Arc<ControlPlane>,
    folder: PathBuf,
}

impl Site {
    /// A cluster with everything of ours installed, and no node.
    pub(crate) async fn new(name: &'static str) -> Self {
        let plane = Arc::new(ControlPlane::start_for_nodes().await.expect("a control plane"));
        install(&plane);
        let folder = std::env::temp_dir();
        let world = World::on(Arc::clone(&plane), name, None).await.expect("a cluster");
        Self { nodes: Vec::new(), world, plane, folder }
    }

    /// Adds a node and waits until it is ready.
    pub(crate) async fn node(&mut self, name: &str, plan: impl FnOnce(&mut NodePlan<'_>)) {
        let images = [self.busybox(), self.kai_image()];
        let libraries = self.libraries();
        let mut planned = NodePlan {
            name,
            number: u8::try_from(self.nodes.len() + 1).expect("few nodes"),
            labels: &[],
            images: &images,
            runtime: NvidiaRuntime::MountsLibraries(libraries),
            own_libraries: None,
        };
        plan(&mut planned);
        let node = Node::start(&self.plane, &planned).expect("a node starts");
        self.nodes.push(node);
        let path = format!("/api/v1/nodes/{name}");
        self.world
            .wait("the node is ready", async || {
                self.world
                    .get(&path)
                    .await
                    .is_some_and(|node| node["spec"]["taints"].is_null() && is_true(&node, "Ready"))
            })
            .await;
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

    /// Runs a command in a container of a pod and gives what it prints.
    pub(crate) fn exec(&self, pod: &str, command: &[&str]) -> String {
        let mut kubectl = Command::new(self.plane.program("kubectl"));
        kubectl.arg("--kubeconfig").arg(self.plane.admin_kubeconfig());
        kubectl.args(["-n", self.world.name, "exec", pod, "--"]).args(command);
        let told = kubectl.output().expect("kubectl runs");
        assert!(told.status.success(), "{kubectl:?}: {}", String::from_utf8_lossy(&told.stderr));
        String::from_utf8(told.stdout).expect("text")
    }

    /// Where the node finds the stub of NVML.
    pub(crate) fn libraries(&self) -> PathBuf {
        let folder = self.folder.join("libraries");
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn busybox(&self) -> PathBuf {
        Image::busybox(BUSYBOX, &["sleep", "infinity"]).write(&self.folder).expect("an image")
    }

    /// Our binary with the libraries it needs, without what only debuggers read.
    fn kai_image(&self) -> PathBuf {
        let stripped = self.folder.join("kai");
        let status = Command::new("strip").arg("-o").arg(&stripped).arg(KAI).status();
        assert!(status.expect("strip runs").success());
        let image = Image::program(KAI_IMAGE, &stripped, "/bin/kai").expect("libraries");
        image.write(&self.folder).expect("an image")
    }
}

/// Whether a condition of an object holds.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter().any(|one| one["type"] == condition && one["status"] == "True")
    })
}
