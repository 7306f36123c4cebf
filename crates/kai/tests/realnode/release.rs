//! A release of the chart on a real node, with our own image: Helm installs it, and a kubelet runs its Deployments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use kai_testenv::{Image, helm};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::installation::{KAI, print_past_harness};
use crate::sandboxed;
use crate::site::{Gpus, Site, is_true};
use crate::world::send;

/// The version that the chart has.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The same program and chart under a later version.
pub(crate) const NEXT: &str = "99.0.0";
/// Folder of the chart.
pub(crate) const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart");
/// Namespace of the release.
pub(crate) const NAMESPACE: &str = "kai-scheduler";
const DEPLOYMENTS: [&str; 2] = ["scheduler", "admission"];
const KEEP: &str = "helm.sh/resource-policy";
const ONE: Gpus = Gpus { count: 1, replicas: 10, mib: 16_000 };
const NODE: &str = "n1";
const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.run.ai";
/// Where the schema of the definition has the fields of `spec`.
const FIELDS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
/// A field of queues that definitions of an earlier version may lack.
const LATE_FIELD: &str = "displayName";

/// Runs a test inside a sandbox, with Helm; it is built outside, where Go's modules can be reached.
pub(crate) fn with_helm<F: Future<Output = ()>>(
    test: &'static str,
    run: impl FnOnce(PathBuf) -> F,
) {
    match helm().expect("Helm builds") {
        Ok(helm) => sandboxed(test, || run(helm)),
        Err(why) => why.skip(test),
    }
}

/// A site with a node that has our image, and Helm.
pub(crate) struct Release {
    binder: JoinHandle<()>,
    pub(crate) site: Site,
    helm: PathBuf,
}

impl Drop for Release {
    fn drop(&mut self) {
        self.binder.abort();
        if std::thread::panicking() {
            for deployment in DEPLOYMENTS {
                eprintln!("-- {deployment}\n{}", self.log(deployment));
            }
        }
    }
}

impl Release {
    /// A site on which nothing is installed yet.
    pub(crate) async fn new(name: &'static str, helm: PathBuf) -> Self {
        let mut site = Site::bare(name).await;
        let class = json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"});
        site.world.create("/apis/node.k8s.io/v1/runtimeclasses", &class).await;
        let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "16000")];
        let mut plan = site.plan(NODE, &labels);
        plan.images.push(image(&site, VERSION));
        site.node(&plan).await;
        site.advertise(NODE, ONE).await;
        let binder = tokio::spawn(bind_own_pods(site.world.client.clone()));
        Self { binder, site, helm }
    }

    /// The node gets the image of a version.
    pub(crate) fn import(&self, version: &str) {
        self.site.nodes[0].import(&image(&self.site, version)).expect("it is imported");
    }

    /// What Helm prints.
    pub(crate) fn helm(&self, arguments: &str) -> String {
        self.shell(&format!("{} {arguments}", self.helm.display()))
    }

    /// What `kubectl` prints.
    pub(crate) fn kubectl(&self, arguments: &str) -> String {
        self.shell(&format!("{} {arguments}", self.site.plane.program("kubectl").display()))
    }

    /// The files of a `kai bundle`, with their contents.
    pub(crate) fn bundle(&self) -> BTreeMap<String, String> {
        let archive = self.site.folder.join("bundle.tar").display().to_string();
        self.shell(&format!("{KAI} bundle -o {archive}"));
        let names = self.shell(&format!("tar -tf {archive}"));
        let files = names.lines().filter(|name| !name.ends_with('/'));
        let read = |name: &str| self.shell(&format!("tar -xOf {archive} {name}"));
        files.map(|name| (name.to_owned(), read(name))).collect()
    }

    fn shell(&self, command: &str) -> String {
        let mut shell = Command::new("sh");
        let home = self.site.folder.join("helm");
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            shell.env(variable, &home);
        }
        shell.env("KUBECONFIG", self.site.plane.admin_kubeconfig());
        let ended = shell.args(["-ec", command]).output().expect("a shell");
        assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).expect("text")
    }

    /// The archive of the chart under a version, which its image has too.
    pub(crate) fn archive(&self, version: &str) -> String {
        let folder = self.site.folder.display();
        self.helm(&format!(
            "package {CHART} --version {version} --app-version {version} -d {folder}"
        ));
        format!("{folder}/kai-scheduler-{version}.tgz")
    }

    /// Installs a version and waits until the roll-out is over.
    pub(crate) async fn install(&self, version: &str, values: &str) {
        self.roll_out(&format!(
            "upgrade -i kai-scheduler -n {NAMESPACE} --create-namespace --set global.gpuSharing=true {values} {}",
            self.archive(version)
        ))
        .await;
    }

    /// Upgrades to a version as documented, with the values of before and these, and waits until the roll-out is over.
    pub(crate) async fn upgrade(&self, version: &str, values: &str) {
        self.roll_out(&format!(
            "upgrade kai-scheduler -n {NAMESPACE} --reset-then-reuse-values {values} {}",
            self.archive(version)
        ))
        .await;
    }

    /// Runs Helm and waits until the roll-out is over. What is printed, and how long it took, is in the log of the test.
    pub(crate) async fn roll_out(&self, arguments: &str) {
        let started = Instant::now();
        print_past_harness(&self.helm(arguments));
        self.wait_ready().await;
        for deployment in DEPLOYMENTS {
            print_past_harness(
                &self.kubectl(&format!("-n {NAMESPACE} rollout status deployment/{deployment}")),
            );
        }
        print_past_harness(&format!(
            "{:.1} s: helm {arguments}\n",
            started.elapsed().as_secs_f64()
        ));
    }

    /// Pods of the release.
    pub(crate) async fn own_pods(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let list = self.site.world.get(&path).await.unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the roll-out of both Deployments is over, and pods of earlier ones have ended.
    pub(crate) async fn wait_ready(&self) {
        let is_ready = async || {
            let mut replicas = 0;
            for name in DEPLOYMENTS {
                let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}");
                let deployment = self.site.world.get(&path).await.unwrap_or_default();
                let (status, wanted) = (&deployment["status"], &deployment["spec"]["replicas"]);
                let is = |field: &str| wanted.is_u64() && status[field] == *wanted;
                if status["observedGeneration"] != deployment["metadata"]["generation"]
                    || !["replicas", "updatedReplicas", "readyReplicas"].into_iter().all(is)
                {
                    return false;
                }
                replicas += wanted.as_u64().unwrap_or_default();
            }
            self.own_pods().await.len() as u64 == replicas
        };
        self.site.world.wait("the roll-out is over", is_ready).await;
    }

    /// Creates a pod with a fifth of the GPU.
    pub(crate) async fn create_sharing(&self, name: &str, queue: &str) {
        let mut pod = self.site.pod(name, &json!({"gpu-fraction": "0.2"}), &json!({}));
        pod["spec"]["schedulerName"] = json!("kai-scheduler");
        pod["metadata"]["labels"] = json!({"kai.scheduler/queue": queue});
        let path = format!("/api/v1/namespaces/{}/pods", self.site.world.name);
        // A replica that has just ended may still be among the endpoints of the webhook.
        let is_admitted = async || self.site.world.try_create(&path, &pod).await.is_ok();
        self.site.world.wait("the pod is admitted", is_admitted).await;
    }

    /// The same in the default queue; waits until it runs.
    pub(crate) async fn share(&self, name: &str) {
        self.create_sharing(name, "default-queue").await;
        self.site.wait_running(name).await;
    }

    /// What must not change while the scheduler comes and goes: pods, their restarts, and the reservation.
    pub(crate) async fn workload(&self, names: &[&str]) -> Value {
        let identity = |pod: &Value| {
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            json!([pod["metadata"]["uid"], restarts])
        };
        let mut pods = Vec::new();
        for name in names {
            let pod = self.site.world.see_pod(name).await.expect("the pod");
            assert!(is_true(&pod, "Ready"), "{pod}");
            pods.push(json!([identity(&pod), self.site.devices(name)]));
        }
        let reservations = self.site.reservations().await;
        assert!(reservations.iter().all(|pod| is_true(pod, "Ready")), "{reservations:?}");
        let reservations: Vec<Value> = reservations.iter().map(identity).collect();
        json!({"pods": pods, "reservations": reservations})
    }

    /// The images that containers of the release run.
    pub(crate) async fn images(&self) -> Vec<String> {
        let pods = self.own_pods().await;
        let images = pods.iter().filter_map(|pod| pod["spec"]["containers"][0]["image"].as_str());
        let mut images: Vec<String> = images.map(str::to_owned).collect();
        images.sort();
        images.dedup();
        images
    }

    /// Creates a queue below the default parent; it has what the user sets.
    pub(crate) async fn create_queue(&self, name: &str) {
        let all = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        let resources = json!({"cpu": all, "gpu": all, "memory": all});
        let queue = json!({
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"parentQueue": "default-parent-queue", "resources": resources},
        });
        self.site.world.create(QUEUES, &queue).await;
    }

    /// Changes a default queue as a user would.
    pub(crate) async fn edit_default_queue(&self) {
        let edit = json!({"spec": {"resources": {"gpu": {"quota": 1}}}});
        self.site.world.patch(&format!("{QUEUES}/default-queue"), &edit).await;
    }

    /// The specifications of queues, by name.
    pub(crate) async fn queues(&self) -> Vec<Value> {
        let list = self.site.world.get(QUEUES).await.expect("queues");
        let queues = list["items"].as_array().expect("items");
        queues.iter().map(|queue| json!([queue["metadata"]["name"], queue["spec"]])).collect()
    }

    /// Replaces the definition of queues by one that lacks a field, as an earlier version may have it.
    pub(crate) async fn age_definition(&self) {
        let mut definition = self.site.world.get(DEFINITION).await.expect("the definition");
        let fields = definition.pointer_mut(FIELDS).and_then(Value::as_object_mut).expect("fields");
        fields.remove(LATE_FIELD).expect("the field");
        let versions = definition["spec"]["versions"].clone();
        self.site.world.patch(DEFINITION, &json!({"spec": {"versions": versions}})).await;
        assert!(
            !self.definition_is_current().await,
            "the definition is that of an earlier version"
        );
    }

    /// Whether the definition of queues has the field.
    pub(crate) async fn definition_is_current(&self) -> bool {
        let definition = self.site.world.get(DEFINITION).await.expect("the definition");
        definition.pointer(FIELDS).expect("fields").get(LATE_FIELD).is_some()
    }

    /// Uninstalls, and waits until nothing is left.
    pub(crate) async fn uninstall(&self) {
        let manifest = self.helm(&format!("get manifest kai-scheduler -n {NAMESPACE}"));
        print_past_harness(&self.helm(&format!("uninstall kai-scheduler -n {NAMESPACE}")));
        self.wait_removed(&manifest).await;
        print_past_harness(&self.kubectl("get namespaces,queues,priorityclasses,schedulingshards"));
    }

    /// Waits until nothing is left of a release but what outlives it, definitions included. Webhooks and Jobs do not.
    pub(crate) async fn wait_removed(&self, manifest: &str) {
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("YAML");
        let objects = objects.iter().filter(|object| object["kind"].is_string());
        let (kept, removed): (Vec<&Value>, Vec<&Value>) = objects.partition(|object| {
            object["metadata"]["annotations"][KEEP] == "keep"
                || object["kind"] == "CustomResourceDefinition"
        });
        let [kept, removed] = [("kept", kept), ("removed", removed)].map(|(name, objects)| {
            assert!(!objects.is_empty(), "objects that are {name}");
            self.write_list(name, &objects)
        });
        let world = &self.site.world;
        world.wait("the scheduler is gone", async || self.own_pods().await.is_empty()).await;
        let left = || {
            let file = removed.display();
            self.kubectl(&format!("get -f {file} --ignore-not-found -o name"))
        };
        world.wait("the release is gone", async || left().is_empty()).await;
        self.kubectl(&format!("get -f {}", kept.display()));
        for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
            let left = self.kubectl(&format!("get {kind} -o name"));
            assert_eq!(left, "", "{kind} stay behind");
        }
        assert_eq!(self.kubectl("get jobs --all-namespaces -o name"), "", "no Job stays behind");
    }

    /// Waits until Config and shard say that they are healthy, as clients of KAI do.
    pub(crate) async fn wait_healthy(&self) {
        for path in ["configs/kai-config", "schedulingshards/default"] {
            let path = format!("/apis/kai.scheduler/v1/{path}");
            let is_healthy = async || {
                let object = self.site.world.get(&path).await.unwrap_or_default();
                ["Deployed", "Available", "Ready"].into_iter().all(|one| is_true(&object, one))
            };
            self.site.world.wait("Config and shard are healthy", is_healthy).await;
        }
    }

    fn write_list(&self, name: &str, objects: &[&Value]) -> PathBuf {
        let file = self.site.folder.join(format!("{name}.json"));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string()).expect("a file");
        file
    }

    /// What a Deployment logged last.
    pub(crate) fn log(&self, deployment: &str) -> String {
        let mut kubectl = Command::new(self.site.plane.program("kubectl"));
        kubectl.arg("--kubeconfig").arg(self.site.plane.admin_kubeconfig());
        kubectl.args(["-n", NAMESPACE, "logs", "--tail=20", "--prefix", "--all-containers"]);
        let printed = kubectl.args(["-l", &format!("app={deployment}")]).output();
        let printed = printed.map(|printed| printed.stdout).unwrap_or_default();
        String::from_utf8_lossy(&printed).into_owned()
    }
}

/// The image of a version, as it is shipped.
fn image(site: &Site, version: &str) -> PathBuf {
    let name = format!("localhost/kai-scheduler/kai:{version}");
    let folder = site.folder.join(version);
    std::fs::create_dir_all(&folder).expect("a folder");
    Image::write_product(&name, &site.stripped_kai(), &folder).expect("an image")
}

/// Binds pods of the release: the cluster has no other scheduler.
async fn bind_own_pods(client: kube::Client) {
    const EVERY: Duration = Duration::from_millis(100);
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pending = format!("{path}?fieldSelector=spec.nodeName%3D");
    loop {
        let list = send(&client, "GET", &pending, "application/json", &Value::Null).await;
        let list = list.unwrap_or_default();
        for pod in list["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let binding = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            });
            let path = format!("{path}/{name}/binding");
            let _ = send(&client, "POST", &path, "application/json", &binding).await;
        }
        tokio::time::sleep(EVERY).await;
    }
}
