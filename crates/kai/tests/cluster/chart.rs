//! The chart, by real Helm: the same objects as `kai manifests`, and the documented commands on a real API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kai_testenv::{ControlPlane, Process, free_port, helm};
use serde_json::{Value, json};

use crate::installation::KAI;
use crate::world::World;

pub(crate) const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart");
pub(crate) const NAMESPACE: &str = "kai-scheduler";
/// The command of the setup for Jetson, word for word; the archive follows.
const DOCUMENTED: &str = "helm upgrade -i kai-scheduler -n kai-scheduler --create-namespace \
    --set global.gpuSharing=true --set 'scheduler.additionalArgs[0]=--v=4' \
    --set crdupgrader.image.pullPolicy=Never";
pub(crate) const WEBHOOKS: [&str; 4] = [
    "mutatingwebhookconfigurations/mutating-kai-admission",
    "validatingwebhookconfigurations/validating-kai-admission",
    "validatingwebhookconfigurations/kai-queue-validation-v2",
    "validatingwebhookconfigurations/kai-podgroup-validation-v2alpha2",
];

/// Helm; none where it cannot be built, which is reported.
pub(crate) fn helm_for(test: &str) -> Option<PathBuf> {
    helm().expect("Helm builds").map_err(|why| why.skip(test)).ok()
}

/// Runs a command of a shell that finds `helm`, `kubectl` and `kai`; what it prints.
pub(crate) fn shell(helm: &Path, plane: Option<&ControlPlane>, command: &str) -> String {
    let folder = |program: &Path| program.parent().expect("a folder").display().to_string();
    let mut path = format!("{}:{}", folder(helm), folder(Path::new(KAI)));
    let mut shell = Command::new("sh");
    if let Some(plane) = plane {
        path = format!("{path}:{}", folder(&plane.program("kubectl")));
        shell.env("KUBECONFIG", plane.admin_kubeconfig());
    }
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("helm");
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        shell.env(variable, &home);
    }
    shell.env("PATH", format!("{path}:/usr/bin:/bin")).args(["-ec", command]);
    let ended = shell.output().expect("a shell");
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command}: {complaint}");
    String::from_utf8(ended.stdout).expect("text")
}

/// What both print, by kind, namespace and name, without what only one of them can have.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let mut found = BTreeMap::new();
    for mut object in all {
        let name = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (kind, place) = (object["kind"].as_str().unwrap_or_default().to_owned(), name("name"));
        // Helm installs definitions from a folder of their own, creates the namespace by a flag, and only the chart has
        // values for a shard.
        let is_apart = match kind.as_str() {
            "" | "CustomResourceDefinition" | "SchedulingShard" => true,
            "Namespace" => place == NAMESPACE,
            _ => false,
        };
        if is_apart {
            continue;
        }
        let key = format!("{kind} {}/{place}", name("namespace"));
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).expect("metadata");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            for outlives in ["helm.sh/resource-policy", "argocd.argoproj.io/sync-options"] {
                annotations.remove(outlives);
            }
        }
        if metadata.get("annotations") == Some(&json!({})) {
            metadata.remove("annotations");
        }
        if let Some(text) = object["data"]["queues.yaml"].as_str() {
            let queues: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
            object["data"] = json!({"queues.yaml": queues});
        }
        assert!(found.insert(key.clone(), object).is_none(), "{key} is there twice");
    }
    found
}

#[test]
fn chart_renders_the_objects_that_kai_manifests_prints() {
    let Some(helm) = helm_for("chart_renders_the_objects_that_kai_manifests_prints") else {
        return;
    };
    let settings = [
        ("", ""),
        (
            "--set global.gpuSharing=true --set operator.replicaCount=1",
            "--gpu-sharing --replicas 1",
        ),
        (
            "--set global.gpuSharing=true --set crdupgrader.image.pullPolicy=Never",
            "--gpu-sharing --pull-policy Never",
        ),
        ("--set global.registry=r.example/team --set global.tag=2", "--image r.example/team/kai:2"),
        ("--set global.clusterAutoscaling=true", "--node-scale-adjuster"),
        ("--set openshift=true", "--openshift"),
        (
            "--set global.gpuMemoryReserveMib=450 --set global.resourceReservation.observeProcesses=true",
            "--gpu-memory-reserve-mib 450 --observe-processes",
        ),
        (
            "--set openshift=true --set global.resourceReservation.observeProcesses=true",
            "--openshift --observe-processes",
        ),
        ("--set global.resourceReservation.observeProcesses=false", "--observe-processes=false"),
        (
            "--set global.queueAuthorization=true --set prometheus.authenticateMetrics=true",
            "--queue-authorization --metrics-authentication",
        ),
        (
            "--set openshift=true --set numaPlacementExporter.enabled=true",
            "--openshift --numa-agent",
        ),
    ];
    for (values, flags) in settings {
        let chart =
            format!("helm template kai-scheduler {CHART} -n {NAMESPACE} {values} 2>/dev/null");
        let rendered = objects(&shell(&helm, None, &chart));
        let printed = objects(&shell(&helm, None, &format!("kai manifests {flags}")));
        assert_eq!(
            rendered.keys().collect::<Vec<_>>(),
            printed.keys().collect::<Vec<_>>(),
            "{values}"
        );
        for (key, object) in &printed {
            assert_eq!(rendered.get(key), Some(object), "{key} with {values}");
        }
    }
}

/// A server with the chart's archive, and the processes that its Deployments describe.
pub(crate) struct Release {
    // Ended first.
    pub(crate) kai: Vec<Process>,
    pub(crate) world: World,
    plane: Arc<ControlPlane>,
    helm: PathBuf,
    pub(crate) archive: String,
    pub(crate) folder: PathBuf,
}

impl Release {
    pub(crate) async fn new(name: &'static str) -> Option<Self> {
        Self::with(name, &[]).await
    }

    /// One whose API server has these further arguments.
    pub(crate) async fn with(name: &'static str, arguments: &[&str]) -> Option<Self> {
        let helm = helm_for(name)?;
        let plane = ControlPlane::start_with(arguments).await.expect("a control plane");
        let plane = Arc::new(plane.map_err(|why| why.skip(name)).ok()?);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        shell(&helm, None, &format!("helm package {CHART} -d {}", folder.display()));
        let archive = folder.join("kai-scheduler-0.1.0.tgz").display().to_string();
        let world = World::on(Arc::clone(&plane), name, None).await;
        Some(Self { kai: Vec::new(), world, plane, helm, archive, folder })
    }

    pub(crate) fn shell(&self, command: &str) -> String {
        shell(&self.helm, Some(&self.plane), command)
    }

    /// The pods of a Deployment.
    async fn pod_spec(&self, deployment: &str) -> Value {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}");
        let deployment = self.world.get(&path).await.expect("the Deployment");
        deployment["spec"]["template"]["spec"].clone()
    }

    /// Starts what a Deployment describes as its account, at addresses of this machine.
    async fn start_deployment(&mut self, name: &str, own: &[String]) {
        let queues = self.folder.join("queues.yaml");
        let here = |argument: &str| match argument {
            "--default-queues=/etc/kai/queues.yaml" => {
                format!("--default-queues={}", queues.display())
            }
            other => other.to_owned(),
        };
        let pod = self.pod_spec(name).await;
        let account = pod["serviceAccountName"].as_str().expect("an account");
        let kubeconfig = self.plane.account_kubeconfig(NAMESPACE, account).await.expect("a token");
        let arguments = pod["containers"][0]["args"].as_array().expect("arguments").iter();
        let mut all: Vec<String> = arguments.filter_map(Value::as_str).map(here).collect();
        all.extend(own.iter().cloned());
        all.push(format!("--kubeconfig={}", kubeconfig.display()));
        for flag in ["--listen-address", "--health-probe-bind-address", "--plugin-server-port"] {
            all.push(format!("{flag}=0"));
        }
        let quiet = std::env::var_os("KAI_TEST_LOG").is_none().then_some(Path::new("/dev/null"));
        self.kai.push(Process::start(Path::new(KAI), &all, quiet, None).expect("kai starts"));
    }

    /// Starts scheduler and admission as their Deployments describe them.
    pub(crate) async fn start_kai(&mut self) {
        self.kai.clear();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/default-queues");
        let map = self.world.get(&path).await.expect("the config map");
        let queues = map["data"]["queues.yaml"].as_str().expect("queues");
        std::fs::write(self.folder.join("queues.yaml"), queues).expect("a file");
        let port = free_port().expect("a port");
        let webhooks =
            [format!("--webhook-addr={port}"), format!("--webhook-url=https://127.0.0.1:{port}")];
        self.start_deployment("admission", &webhooks).await;
        self.start_deployment("scheduler", &[]).await;
        let here = format!("127.0.0.1:{port}");
        for webhook in WEBHOOKS {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{webhook}");
            let registered = async || {
                let object = self.world.get(&path).await.unwrap_or_default();
                object["webhooks"].to_string().contains(&here)
            };
            self.world.wait("admission is registered", registered).await;
        }
    }

    /// Ends the scheduler, and removes the webhooks it registered under an address of this machine: Helm would add the
    /// Service to the address. In a cluster both name the Service.
    fn stop_kai(&mut self) {
        self.kai.clear();
        for webhook in WEBHOOKS {
            self.shell(&format!("kubectl delete {}", webhook.replace('/', " ")));
        }
    }

    /// Creates a pod with half a GPU once admission answers; why it is denied.
    async fn half_gpu_pod(&self, name: &str) -> Result<(), String> {
        let pod = json!({
            "metadata": {"name": name, "namespace": self.world.name, "annotations": {"gpu-fraction": "0.5"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "none"}]},
        });
        let path = format!("/api/v1/namespaces/{}/pods", self.world.name);
        let mut answer = Ok(());
        self.world
            .wait("admission answers", async || {
                answer = match self.world.try_create(&path, &pod).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                };
                !matches!(&answer, Err(why) if why.contains("failed calling webhook"))
            })
            .await;
        answer
    }

    async fn exists(&self, path: &str) -> bool {
        self.world.get(path).await.is_some()
    }

    async fn wait_for_default_queue(&self) {
        let path = "/apis/scheduling.run.ai/v2/queues/default-queue";
        self.world.wait("the default queue exists", async || self.exists(path).await).await;
    }
}

#[tokio::test]
async fn documented_helm_command_installs_upgrades_and_uninstalls() {
    let Some(mut release) = Release::new("documented-helm").await else { return };
    let documented = format!("{DOCUMENTED} {}", release.archive);
    release.shell(&documented);
    let container = release.pod_spec("scheduler").await["containers"][0].clone();
    assert_eq!(container["imagePullPolicy"], "Never");
    let arguments = container["args"].to_string();
    for argument in ["--v=4", "--resource-reservation-pull-policy=Never"] {
        assert!(arguments.contains(argument), "{arguments}");
    }
    let dry_run = format!(
        "helm lint {archive} && helm template kai-scheduler {archive} -n {NAMESPACE} | kubectl apply --server-side --force-conflicts --dry-run=server -f -",
        archive = release.archive
    );
    assert!(release.shell(&dry_run).contains("deployment.apps/scheduler serverside-applied"));

    release.start_kai().await;
    release.wait_for_default_queue().await;
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.run.ai";
    let definition = release.world.get(definition).await.expect("the definition");
    let managers = definition["metadata"]["managedFields"].to_string();
    assert!(managers.contains("\"manager\":\"kubectl\""), "kai upgrades definitions: {managers}");
    release.half_gpu_pod("shared").await.expect("sharing is on");

    // Without new values Helm keeps those of the release.
    let off =
        format!("helm upgrade kai-scheduler -n {NAMESPACE} --reset-values {}", release.archive);
    release.stop_kai();
    release.shell(&off);
    release.start_kai().await;
    let why = release.half_gpu_pod("refused").await.expect_err("sharing is off");
    assert!(why.contains("global.gpuSharing=true"), "{why}");
    release.stop_kai();
    release.shell(&documented);
    release.start_kai().await;
    release.half_gpu_pod("again").await.expect("sharing is on again");

    release.kai.clear();
    release.shell(&format!("helm uninstall kai-scheduler -n {NAMESPACE}"));
    for webhook in WEBHOOKS {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{webhook}");
        assert!(!release.exists(&path).await, "{webhook} stays behind");
    }
    let jobs = release.world.get("/apis/batch/v1/jobs").await.expect("a list");
    assert_eq!(jobs["items"], json!([]), "no Job stays behind");
    for kept in [
        "/apis/scheduling.run.ai/v2/queues/default-queue",
        "/api/v1/namespaces/kai-resource-reservation",
        "/api/v1/namespaces/kai-resource-reservation/serviceaccounts/kai-resource-reservation",
    ] {
        assert!(release.exists(kept).await, "{kept} is gone");
    }
    release.shell(&documented);
    release.start_kai().await;
    release.half_gpu_pod("after").await.expect("the second installation works");
}

#[tokio::test]
async fn openshift_is_recognized_and_assigns_the_user_ids() {
    let Some(release) = Release::new("openshift").await else { return };
    let stub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/openshift.yaml");
    release.shell(&format!(
        "kubectl apply -f {stub} && kubectl wait --for=condition=Established crd --all"
    ));
    release.shell(&format!("{DOCUMENTED} {}", release.archive));
    let pod = release.pod_spec("scheduler").await;
    assert!(pod["securityContext"]["runAsUser"].is_null(), "{pod}");
    let arguments = pod["containers"][0]["args"].to_string();
    assert!(arguments.contains("--resource-reservation-container-security-context"), "{arguments}");
    assert!(!arguments.contains("runAsUser"), "{arguments}");
    let list = "/apis/security.openshift.io/v1/securitycontextconstraints";
    let constraints = release.world.get(list).await.expect("a list");
    let constraints = constraints["items"].as_array().expect("items");
    let users: Vec<&Value> = constraints.iter().map(|one| &one["users"][0]).collect();
    let user = "system:serviceaccount:kai-resource-reservation:kai-resource-reservation";
    assert!(users.contains(&&json!(user)), "{users:?}");
    for account in ["kai", "admission"] {
        let user = format!("system:serviceaccount:kai-scheduler:{account}");
        assert!(users.contains(&&json!(user)), "{users:?}");
    }
    for one in constraints {
        assert_eq!(one["allowPrivilegedContainer"], false, "{one}");
        assert_eq!(one["runAsUser"]["type"], "MustRunAsRange", "{one}");
    }
}

#[test]
fn kubectl_runs_kai_as_a_plugin() {
    let test = "kubectl_runs_kai_as_a_plugin";
    let binaries = match kai_testenv::Binaries::ready().expect("binaries") {
        kai_testenv::Build::Ready(binaries) => binaries,
        kai_testenv::Build::Impossible(why) => {
            crate::installation::print_past_harness(&format!("SKIPPED {test}: {why}\n"));
            return;
        }
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plugin");
    std::fs::create_dir_all(&folder).expect("a folder");
    let link = folder.join("kubectl-kai");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(KAI, &link).expect("a link");
    let mut kubectl = Command::new(binaries.path("kubectl"));
    kubectl.args(["kai", "--version"]).env("PATH", &folder);
    let ended = kubectl.output().expect("kubectl runs");
    assert!(String::from_utf8_lossy(&ended.stdout).starts_with("kai "), "{ended:?}");
}
