//! Taking a cluster over from the KAI Scheduler and giving it back, by the commands of `docs/migrate-from-kai.md`, with real
//! Helm on a real API server. The charts beside this file stand for KAI's.

mod remains;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use kai_testenv::Audit;
use remains::{CURRENT, LEASES, Names, OLD, Progress, Remains};
use serde_json::{Value, json};

use crate::chart::{Release, WEBHOOKS};
use crate::sharing::{Answer, NodeAgents};

const NAMESPACE: &str = "kai-scheduler";
/// Release and scheduler name, KAI's and ours.
const RELEASE: &str = "kai-scheduler";
const PAGE: &str = include_str!("../../../../docs/migrate-from-kai.md");
const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/take_over");
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// The commands of a section of the page.
fn commands(section: &str) -> Vec<&'static str> {
    let mut sections = PAGE.split("\n## ");
    let text = sections.find(|text| text.starts_with(section)).expect("the section");
    let block = text.split_once("```sh\n").and_then(|(_, rest)| rest.split_once("```"));
    block.expect("a block of commands").0.lines().filter(|line| !line.is_empty()).collect()
}

/// Flags that the page gives for releases before 0.6.
fn old_flags() -> &'static str {
    let row =
        PAGE.lines().find(|line| line.starts_with("| 0.4 and 0.5: reservation")).expect("a row");
    row.split('`').find(|text| text.starts_with("--set")).expect("flags")
}

/// A cluster that KAI schedules.
struct Site {
    release: Release,
    names: Names,
    /// The chart that stands for KAI's.
    chart: &'static str,
    audit: Audit,
}

impl Site {
    async fn new(name: &'static str, names: Names, chart: &'static str) -> Option<Self> {
        let audit = Audit::new(&["system:serviceaccounts:kai-scheduler"]).expect("an audit log");
        let arguments = audit.arguments();
        let release = Release::with(name, &arguments.each_ref().map(String::as_str)).await?;
        let link = release.folder.join("deploy");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(Path::new(DEPLOY), &link).expect("a link");
        Some(Self { release, names, chart, audit })
    }

    fn remains(&self) -> Remains<'_> {
        Remains { world: &self.release.world, names: self.names }
    }

    /// Runs a command in a folder that holds `deploy`, as the root of the repository does.
    fn shell(&self, command: &str) -> String {
        self.release.shell(&format!("cd {} && {command}", self.release.folder.display()))
    }

    /// Installs definitions and the chart that stands for KAI's.
    fn install_kai(&self, definitions: &str, values: &str) {
        self.shell(&format!("kubectl apply --server-side {definitions}"));
        let served =
            |group: &str| format!("until kubectl get --raw /apis/{group}; do sleep 1; done");
        self.shell(&served("scheduling.run.ai/v2"));
        if self.names.reservations == CURRENT.reservations {
            self.shell(&served("kai.scheduler/v1"));
        }
        self.shell(&format!(
            "helm upgrade -i {RELEASE} -n {NAMESPACE} --create-namespace {values} {CHARTS}/{}",
            self.chart
        ));
    }

    /// Runs a section of the page, without what needs kubelets.
    fn run(&self, section: &str) {
        let is_old = self.names.reservations == OLD.reservations;
        for command in commands(section) {
            let needs_kubelet = command.contains("rollout status");
            let is_left_out = is_old && command.contains("kai-operator");
            if needs_kubelet || is_left_out || command.starts_with("kai doctor") {
                continue;
            }
            let flags =
                if is_old && command.ends_with("./deploy/chart") { old_flags() } else { "" };
            let command = command.replace("helm upgrade ", &format!("helm upgrade {flags} "));
            self.shell(&format!("export KAI_CHART={CHARTS}/{} && {command}", self.chart));
        }
    }

    /// Names and objects of what `kai doctor --from-kai` finds.
    fn doctor(&self) -> BTreeSet<(String, String)> {
        assert!(commands("Before").contains(&"kai doctor --from-kai"));
        let report = self.shell("kai doctor --from-kai --json || true");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let text =
            |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let findings = report["findings"].as_array().expect("findings").iter();
        findings.map(|one| (text(one, "check"), text(one, "object"))).collect()
    }

    /// UIDs of all pods of workloads and reservations.
    async fn uids(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for namespace in [self.release.world.name, self.names.reservations] {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let list = self.release.world.get(&path).await.expect("a list");
            for pod in list["items"].as_array().expect("items") {
                assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
                let name = pod["metadata"]["name"].as_str().expect("a name");
                all.insert(format!("{namespace}/{name}"), pod["metadata"]["uid"].clone());
            }
        }
        all
    }

    /// Every pod is the one that it was, and new pods are only those that were expected.
    async fn assert_kept(&self, before: &BTreeMap<String, Value>) {
        let after = self.uids().await;
        for (name, uid) in before {
            assert_eq!(after.get(name), Some(uid), "{name} was created anew");
        }
    }

    /// Nothing of KAI runs, and only our two accounts wrote.
    async fn assert_only_ours_write(&self) {
        let requests = self.audit.requests().expect("the audit log");
        let reads = ["get", "list", "watch"];
        let writes = requests.iter().filter(|one| !reads.contains(&one.verb.as_str()));
        let ours = [NAMESPACE.to_owned() + ":kai", NAMESPACE.to_owned() + ":admission"];
        for write in writes.clone() {
            let user = write.user.strip_prefix("system:serviceaccount:").unwrap_or_default();
            assert!(ours.iter().any(|one| one == user), "{write:?}");
        }
        assert!(writes.clone().any(|one| one.resource == "pods/binding"), "{requests:?}");
        let ends_pods = |verb: &str, resource: &str| {
            (verb == "delete" && resource == "pods") || resource == "pods/eviction"
        };
        let mut ended = writes
            .filter(|one| one.namespace == self.release.world.name)
            .filter(|one| ends_pods(&one.verb, &one.resource));
        assert_eq!(ended.next(), None, "a pod was ended");
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        let list = self.release.world.get(&path).await.expect("a list");
        for one in list["items"].as_array().expect("items") {
            let is_ours =
                ["scheduler", "admission"].map(Value::from).contains(&one["metadata"]["name"]);
            assert!(is_ours || one["spec"]["replicas"] == 0, "{one}");
        }
    }

    /// Waits until the pod is bound; its node without the name of the world.
    async fn bound(&self, pod: &str) -> String {
        let node = self.release.world.wait_bound(pod).await;
        node.strip_prefix(&format!("{}-", self.release.world.name)).expect("our node").to_owned()
    }

    /// The pod stays pending for a while.
    async fn waits(&self, pod: &str) {
        let world = &self.release.world;
        world
            .stays("it is pending", Duration::from_secs(2), async || {
                world.node_of(pod).await.is_none()
            })
            .await;
    }

    /// Creates a pod once our admission answers; on a node of this name, where one is given.
    async fn submit(&self, name: &str, asks: &Value, node: Option<&str>) {
        let mut pod = self.remains().pod(name, &json!({}));
        pod["metadata"]["annotations"] = asks.clone();
        if let Some(node) = node {
            pod["spec"]["nodeSelector"] = json!({"disk": node});
        }
        let world = &self.release.world;
        let path = format!("/api/v1/namespaces/{}/pods", world.name);
        let mut answer = Ok(Value::Null);
        world
            .wait("admission answers", async || {
                answer = world.try_create(&path, &pod).await;
                !matches!(&answer, Err(why) if why.to_string().contains("failed calling webhook"))
            })
            .await;
        answer.expect("the pod is admitted");
    }

    /// Webhooks, policies and Deployments of ours are gone, and nothing else.
    async fn assert_given_back(&self, config: Option<&Value>) {
        let world = &self.release.world;
        for webhook in WEBHOOKS {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{webhook}");
            assert!(world.get(&path).await.is_none(), "{webhook} stays behind");
        }
        let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let policies = world.get(policies).await.expect("a list");
        assert_eq!(policies["items"], json!([]), "policies would deny what KAI's binder writes");
        let admission = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/admission");
        assert!(world.get(&admission).await.is_none(), "our Deployment stays behind");
        if let Some(before) = config {
            let now = world.get(CONFIG).await.expect("Config is kept");
            assert_eq!(
                (&now["spec"], &now["metadata"]["uid"]),
                (&before["spec"], &before["metadata"]["uid"])
            );
        }
    }

    /// KAI's programs can be started again: a Deployment gets its pods.
    async fn assert_starts(&self, deployment: &str) {
        self.shell(&format!("kubectl scale deployment -n {NAMESPACE} --replicas=1 {deployment}"));
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3D{deployment}");
        let world = &self.release.world;
        world
            .wait("KAI's pod is made", async || {
                let list = world.get(&pods).await.expect("a list");
                list["items"].as_array().is_some_and(|items| !items.is_empty())
            })
            .await;
    }
}

const CONFIG: &str = "/apis/kai.scheduler/v1/configs/kai-config";

fn half() -> Value {
    json!({"gpu-fraction": "0.5"})
}

/// A node whose one GPU was sold five times, each half to a pod and in a group of its own, as KAI does where a device plugin
/// advertises one GPU several times; and a node with three GPUs, one shared, one whole, one free.
async fn workloads(remains: &Remains<'_>, asks: &Value) {
    remains.node("sold", 8, 1).await;
    remains.node("free", 3, 3).await;
    for number in 1..=5 {
        let name = format!("sold-{number}");
        remains.reservation("sold", &name, 0).await;
        remains.running(&name, "sold", Some(&name), asks).await;
    }
    remains.reservation("free", "shared", 0).await;
    remains.running("shares", "free", Some("shared"), asks).await;
    remains.running("whole", "free", None, &json!({})).await;
}

/// Bind requests that KAI's binder did not start, did half, failed, and one whose pod is gone.
async fn requests(remains: &Remains<'_>) {
    remains.create(&remains.pod("pending", &json!({}))).await;
    remains.request("pending", "free", None, Progress::Pending).await;
    let mut prepared = remains.pod("half-done", &half());
    prepared["metadata"]["labels"]["runai-gpu-group"] = json!("shared");
    let uid = remains.create(&prepared).await["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "half-done", "uid": uid});
    let map = json!({"metadata": {"name": "half-done-shared-gpu-0", "ownerReferences": [owner]}, "data": {}});
    remains
        .world
        .create(&format!("/api/v1/namespaces/{}/configmaps", remains.world.name), &map)
        .await;
    remains.request("half-done", "free", Some("shared"), Progress::Pending).await;
    remains.create(&remains.pod("failed", &half())).await;
    remains.request("failed", "free", Some("lost"), Progress::Failed).await;
    remains.request("gone", "free", Some("ghost"), Progress::Pending).await;
}

/// Every bind request in flight comes to an end.
async fn assert_requests_end(site: &Site) {
    for pod in ["pending", "half-done", "failed"] {
        assert_eq!(site.bound(pod).await, "free", "{pod}");
    }
    let path = site.remains().requests_path();
    let world = &site.release.world;
    world
        .wait("no request is in flight", async || {
            let list = world.get(&path).await.expect("a list");
            let all = list["items"].as_array().expect("items");
            all.iter().all(|one| {
                one["spec"]["podName"] != "gone" && one["status"]["phase"] == "Succeeded"
            })
        })
        .await;
    let done = world.see_pod("half-done").await.expect("the pod");
    assert_eq!(done["metadata"]["labels"]["runai-gpu-group"], "shared", "the group is kept");
    let devices =
        world.shared_gpu_config("half-done").await.expect("a config map")["NVIDIA_VISIBLE_DEVICES"]
            .clone();
    assert_eq!(devices, json!(format!("{}-free-0", world.name)));
}

/// The device that was sold five times takes nothing until all but one of its pods have ended.
async fn assert_oversold_device_waits(site: &Site, asks: &Value) {
    site.submit("next", asks, None).await;
    assert_eq!(site.bound("next").await, "free");
    site.submit("late", asks, Some("sold")).await;
    site.waits("late").await;
    for number in 1..=3 {
        site.release.world.remove_pod(&format!("sold-{number}")).await;
    }
    let reservation =
        format!("/api/v1/namespaces/{}/pods/gpu-reservation-sold-1", site.names.reservations);
    let world = &site.release.world;
    world
        .wait("its reservation is released", async || world.get(&reservation).await.is_none())
        .await;
    site.waits("late").await;
    site.release.world.remove_pod("sold-4").await;
    assert_eq!(site.bound("late").await, "sold");
}

#[tokio::test]
async fn cluster_of_kai_0_17_is_taken_over_and_given_back() {
    let Some(mut site) = Site::new("take-over-17", CURRENT, "kai-0.17").await else { return };
    site.install_kai(
        "-f deploy/crds",
        "--set global.gpuSharing=true --set operator.replicaCount=2",
    );
    let remains = site.remains();
    workloads(&remains, &half()).await;
    requests(&remains).await;
    let spec = json!({"namespace": NAMESPACE, "global": {"replicaCount": 2}, "admission": {"gpuSharing": true}});
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": spec});
    remains.operator(&config).await;
    remains.leases().await;
    let (before, config) =
        (site.uids().await, site.release.world.get(CONFIG).await.expect("Config"));

    site.run("Before");
    let found = site.doctor();
    for name in ["kai-operator", "kai-scheduler-default", "admission", "binder", "queue-controller"]
    {
        let running = ("kai-running".to_owned(), format!("Deployment {NAMESPACE}/{name}"));
        assert!(found.contains(&running), "{name}: {found:?}");
    }
    let clash = ("reservation-clash".to_owned(), "Node take-over-17-sold".to_owned());
    assert!(found.contains(&clash), "{found:?}");
    site.run("Stop KAI");
    let found = site.doctor();
    assert!(found.iter().all(|(check, _)| check != "kai-running"), "{found:?}");
    site.run("Install");
    let _agents = NodeAgents::of(
        &site.release.world,
        site.names.reservations,
        site.names.reservations,
        Answer::OwnDevice,
    );
    site.release.start_kai().await;

    assert_requests_end(&site).await;
    site.assert_kept(&before).await;
    assert_oversold_device_waits(&site, &half()).await;
    site.assert_only_ours_write().await;
    for lease in LEASES {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}");
        let lease = site.release.world.get(&path).await.expect("the lease");
        assert_ne!(lease["spec"]["holderIdentity"], "kai-abc_0d7c", "{lease}");
    }

    let running = site.uids().await;
    site.release.kai.clear();
    site.run("Back to KAI");
    site.assert_given_back(Some(&config)).await;
    site.assert_starts("kai-operator").await;
    for deployment in ["binder", "kai-scheduler-default"] {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{deployment}");
        let found = site.release.world.get(&path).await.expect("the operator scales it up");
        assert_eq!(found["spec"]["replicas"], 0);
    }
    assert_eq!(site.uids().await, running, "no pod ends on the way back");
}

/// KAI 0.18: the sharing mode is a value, groups in bind requests are objects, and a container asks for memory.
#[tokio::test]
async fn cluster_of_kai_0_18_is_taken_over() {
    let Some(mut site) = Site::new("take-over-18", CURRENT, "kai-0.17").await else { return };
    site.install_kai("-f deploy/crds", "--set global.gpuSharingMode=NonMemoryEnforced");
    let remains = site.remains();
    let asks = json!({"nvidia.com/container.main.gpu-memory.request": "20000Mi"});
    workloads(&remains, &asks).await;
    remains.create(&remains.pod("pending", &half())).await;
    let groups = json!([{"id": "lone", "computeSharingMode": "time-slicing"}]);
    remains.request_of_groups("pending", "free", &groups).await;
    let spec = json!({"namespace": NAMESPACE, "global": {"gpuSharingMode": "NonMemoryEnforced"}});
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": spec});
    remains.operator(&config).await;
    let before = site.uids().await;
    for section in ["Before", "Stop KAI", "Install"] {
        site.run(section);
    }
    let _agents = NodeAgents::of(
        &site.release.world,
        site.names.reservations,
        site.names.reservations,
        Answer::OwnDevice,
    );
    site.release.start_kai().await;
    assert_eq!(site.bound("pending").await, "free");
    let pending = site.release.world.see_pod("pending").await.expect("the pod");
    assert_eq!(pending["metadata"]["labels"]["runai-gpu-group"], "lone", "KAI's group is kept");
    site.assert_kept(&before).await;
    assert_oversold_device_waits(&site, &asks).await;
    site.assert_only_ours_write().await;
}

/// KAI 0.4.3: no operator, reservations in `runai-reservation`, queues by the label `runai/queue`.
#[tokio::test]
async fn cluster_of_kai_0_4_is_taken_over_and_given_back() {
    let Some(mut site) = Site::new("take-over-04", OLD, "kai-0.4").await else { return };
    let kinds = ["queues", "podgroups", "bindrequests"];
    let definitions = kinds.map(|kind| format!("-f deploy/crds/scheduling.run.ai_{kind}.yaml"));
    let values = "--set global.gpuSharing=true";
    site.install_kai(&definitions.join(" "), values);
    let remains = site.remains();
    remains.queues().await;
    workloads(&remains, &half()).await;
    requests(&remains).await;
    site.install_kai(&definitions.join(" "), values); // now with its webhooks
    let before = site.uids().await;
    site.run("Before");
    let found: BTreeSet<String> = site.doctor().into_iter().map(|(check, _)| check).collect();
    for check in ["kai-running", "legacy-reservations", "crd-missing"] {
        assert!(found.contains(check), "{check}: {found:?}");
    }
    site.run("Stop KAI");
    site.run("Install");
    let _agents = NodeAgents::of(
        &site.release.world,
        site.names.reservations,
        site.names.reservations,
        Answer::OwnDevice,
    );
    site.release.start_kai().await;
    assert_requests_end(&site).await;
    site.assert_kept(&before).await;
    assert_oversold_device_waits(&site, &half()).await;
    site.assert_only_ours_write().await;
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kai-binder";
    assert!(site.release.world.get(hooks).await.is_none(), "KAI's webhooks would deny every pod");

    let running = site.uids().await;
    site.release.kai.clear();
    site.run("Back to KAI");
    site.assert_given_back(None).await;
    for deployment in ["scheduler", "binder", "podgrouper"] {
        site.assert_starts(deployment).await;
    }
    assert_eq!(site.uids().await, running, "no pod ends on the way back");
}
