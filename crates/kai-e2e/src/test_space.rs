//! A part of a cluster that one case has for itself: a namespace, a node pool and a scheduler of one name.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use k8s_openapi::jiff::Timestamp;
use kai_testenv::objects;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;
// The clock of the runtime: on the embedded cluster it is a virtual one.
use tokio::time::Instant;

use crate::cluster::{Cluster, Running};
use crate::objects::{Pod, Queue, merge};

/// Longest wait for anything; on a busy machine everything takes many times longer than alone.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(60);
const POOL: &str = "kai.scheduler/node-pool";
const QUEUE: &str = "kai.scheduler/queue";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2";

/// A part of a cluster.
pub struct TestSpace {
    cluster: Arc<dyn Cluster>,
    client: Client,
    /// Namespace, node pool and scheduler name.
    pub name: String,
    kai: Mutex<Vec<Running>>,
    /// Admission is there once for the whole cluster: one test space has it at a time.
    pub(crate) admission_turn: Arc<Mutex<()>>,
    /// Pods of the test space are completed by admission.
    admitted: AtomicBool,
    files: std::sync::Mutex<Vec<PathBuf>>,
}

impl Drop for TestSpace {
    fn drop(&mut self) {
        for file in self.files.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Sends a body, none where it is null, and reads the answer.
pub async fn send(
    client: &Client,
    method: &str,
    path: &str,
    kind: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(body)
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

impl TestSpace {
    /// A new test space of a cluster whose test spaces share this lock.
    pub async fn open(
        cluster: Arc<dyn Cluster>,
        name: &str,
        admission_turn: Arc<Mutex<()>>,
    ) -> anyhow::Result<Self> {
        let client = cluster.client();
        let (name, kai) = (name.to_owned(), Mutex::default());
        let admitted = AtomicBool::new(false);
        let files = std::sync::Mutex::default();
        let space = Self { cluster, client, name, kai, admission_turn, admitted, files };
        space.create("/api/v1/namespaces", &json!({"metadata": {"name": space.name}})).await?;
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", space.name);
        space
            .until("the default account", async || Ok(space.see(&account).await?.is_some()))
            .await?;
        Ok(space)
    }

    /// Starts `kai run` for the test space, as KAI's own suites expect it: with all events and pod groups.
    pub async fn start(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let own = [
            ("--scheduler-name", self.name.as_str()),
            ("--partition-label-value", &self.name),
            ("--resource-reservation-app-label", &self.name),
            ("--events", "all"),
            ("--pod-groups", "always"),
        ];
        let own = own.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]);
        let all: Vec<String> = own.chain(arguments.iter().map(|text| (*text).to_owned())).collect();
        let running = self.cluster.start_kai(&all).await?;
        self.kai.lock().await.push(running);
        Ok(())
    }

    /// The same with a configuration file in KAI's format.
    pub async fn start_as(&self, file: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let path = self.new_file();
        std::fs::write(&path, file).with_context(|| format!("cannot write {}", path.display()))?;
        let path = path.to_string_lossy();
        self.start(&[&["--scheduler-conf", &path], arguments].concat()).await
    }

    /// A file that is removed with the test space. Test spaces of other clusters may have the same name: the file name is unique.
    fn new_file(&self) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kai-e2e-{}-{count}.yaml", std::process::id());
        let path = std::env::temp_dir().join(name);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        path
    }

    /// Starts only admission, for the pods of the test space; from now on it completes them.
    pub(crate) async fn start_admission(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let own = ["--only", "admission", "--scheduler-name", &self.name];
        let all: Vec<String> = own.iter().chain(arguments).map(|&text| text.to_owned()).collect();
        let running = self.cluster.start_kai(&all).await?;
        self.kai.lock().await.push(running);
        self.admitted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends every `kai run` of the test space.
    pub async fn stop(&self) {
        self.kai.lock().await.clear();
    }

    /// Stops `kai` and deletes workloads and pods, so that they do not affect other test spaces.
    pub async fn close(&self) {
        self.stop().await;
        let now = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let owners =
            ["deployments", "replicasets", "statefulsets"].map(|kind| ("/apis/apps/v1", kind));
        let all = owners.into_iter().chain([("/apis/batch/v1", "jobs"), ("/api/v1", "pods")]);
        for (api, plural) in all {
            let path = format!("{api}/namespaces/{}/{plural}", self.name);
            let _ = send(&self.client, "DELETE", &path, "application/json", &now).await;
        }
    }

    /// A node of the test space: `<space>-<name>`.
    pub async fn node(&self, name: &str, labels: Value, allocatable: Value) -> anyhow::Result<()> {
        let name = self.node_name(name);
        let mut all = json!({POOL: self.name, "kubernetes.io/hostname": name});
        merge(&mut all, labels);
        self.create("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": all}})).await?;
        let path = format!("/api/v1/nodes/{name}");
        let mut amounts =
            json!({"cpu": "32", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
        merge(&mut amounts, allocatable);
        let status = json!({"status": objects::ready_node_status(&amounts)});
        self.patch(&format!("{path}/status"), &status).await?;
        self.patch(&path, &json!({"spec": {"taints": null}})).await?;
        Ok(())
    }

    /// A node with GPUs of 11,441 MiB.
    pub async fn gpu_node(&self, name: &str, gpus: u32) -> anyhow::Result<()> {
        let labels = json!({"nvidia.com/gpu.count": gpus.to_string(), "nvidia.com/gpu.memory": "11441", "nvidia.com/gpu.present": "true"});
        self.node(name, labels, json!({"nvidia.com/gpu": gpus.to_string()})).await
    }

    /// The full name of a node.
    pub fn node_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// The full name of a queue: queues are in no namespace.
    pub fn queue_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Creates a queue whose name begins with that of the test space.
    pub async fn queue(&self, queue: &Queue) -> anyhow::Result<()> {
        let mut spec = queue.spec();
        if let Some(parent) = &queue.parent {
            spec["parentQueue"] = json!(self.queue_name(parent));
        }
        let metadata = json!({"name": self.queue_name(&queue.name), "labels": {POOL: self.name}});
        let object = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec});
        self.create("/apis/scheduling.run.ai/v2/queues", &object).await.map(|_| ())
    }

    /// Patches `spec` of a queue.
    pub async fn change_queue(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let path = format!("/apis/scheduling.run.ai/v2/queues/{}", self.queue_name(name));
        self.patch(&path, &json!({"spec": spec})).await.map(|_| ())
    }

    /// The object of a pod.
    pub fn pod_object(&self, pod: &Pod) -> Value {
        let mut labels = pod.labels.clone();
        labels.insert(POOL.to_owned(), json!(self.name));
        if let Some(queue) = &pod.queue {
            labels.insert(QUEUE.to_owned(), json!(self.queue_name(queue)));
        }
        let container = json!({"name": "main", "image": "none", "resources": {"requests": pod.requests, "limits": pod.requests}});
        let mut spec = json!({"schedulerName": self.name, "containers": [container], "terminationGracePeriodSeconds": 0});
        merge(&mut spec, pod.spec.clone());
        let metadata = json!({"name": pod.name, "namespace": self.name, "labels": labels, "annotations": pod.annotations});
        let mut object = json!({"metadata": metadata, "spec": spec});
        let shares = ["gpu-fraction", "gpu-memory"];
        let shares = shares.iter().any(|key| pod.annotations.contains_key(*key));
        if shares && !self.admitted.load(Ordering::Relaxed) {
            objects::add_share_references(&mut object);
        }
        object
    }

    /// Creates a pod in the namespace of the test space.
    pub async fn pod(&self, pod: &Pod) -> anyhow::Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods", self.name);
        self.create(&path, &self.pod_object(pod)).await.map(|_| ())
    }

    /// Creates pods, one after the other.
    pub async fn pods(&self, pods: &[Pod]) -> anyhow::Result<()> {
        for pod in pods {
            self.pod(pod).await?;
        }
        Ok(())
    }

    /// Makes a pod group of a queue; `spec` holds the rest.
    pub async fn group(&self, name: &str, queue: &str, spec: Value) -> anyhow::Result<Value> {
        let queue = self.queue_name(queue);
        let mut all = json!({"queue": queue});
        merge(&mut all, spec);
        let metadata = json!({"name": name, "namespace": self.name, "labels": {POOL: self.name, QUEUE: queue}});
        let object = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": all});
        self.create(&format!("{GROUPS}/namespaces/{}/podgroups", self.name), &object).await
    }

    /// Changes a pod group.
    pub async fn change_group(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let path = format!("{GROUPS}/namespaces/{}/podgroups/{name}", self.name);
        self.patch(&path, &json!({"spec": spec})).await.map(|_| ())
    }

    /// How long ago the pod was made, by the clock of the API server.
    pub async fn seconds_since_creation(&self, name: &str) -> anyhow::Result<i64> {
        let made = |object: &Value| {
            let text = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
            let made: Timestamp = text.parse().with_context(|| format!("a time: {text:?}"))?;
            anyhow::Ok(made.as_second())
        };
        let pod = self.see_pod(name).await?.with_context(|| format!("pod {name} is gone"))?;
        // What is made now carries the time of now.
        let probe = json!({"metadata": {"generateName": "clock-"}});
        let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", self.name);
        Ok(made(&self.create(&path, &probe).await?)? - made(&pod)?)
    }

    /// The pod as it is now.
    pub async fn see_pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        self.see(&format!("/api/v1/namespaces/{}/pods/{name}", self.name)).await
    }

    /// The node of a pod, without the name of the test space; fails where it has none.
    pub async fn node_of(&self, name: &str) -> anyhow::Result<String> {
        let pod = self.see_pod(name).await?.with_context(|| format!("pod {name} is gone"))?;
        let node =
            pod["spec"]["nodeName"].as_str().with_context(|| format!("{name} has no node"))?;
        Ok(node.trim_start_matches(&format!("{}-", self.name)).to_owned())
    }

    /// Objects of the test space of one kind.
    pub async fn list(&self, api: &str, plural: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("{api}/namespaces/{}/{plural}", self.name);
        let list = self.see(&path).await?.with_context(|| format!("no {plural}"))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Pods of the test space.
    pub async fn all_pods(&self) -> anyhow::Result<Vec<Value>> {
        self.list("/api/v1", "pods").await
    }

    /// Pod groups of the test space.
    pub async fn groups(&self) -> anyhow::Result<Vec<Value>> {
        self.list(GROUPS, "podgroups").await
    }

    /// Waits until all these pods have a node, and the condition that says so.
    pub async fn scheduled(&self, names: &[&str]) -> anyhow::Result<()> {
        self.pods_are(names, "scheduled", is_scheduled).await
    }

    /// Waits until all these pods are ready.
    pub async fn ready(&self, names: &[&str]) -> anyhow::Result<()> {
        self.pods_are(names, "ready", |pod| has_condition(pod, "Ready", "True")).await
    }

    /// Waits until all these pods have the condition that they cannot be scheduled with KAI's reason, and have no node.
    pub async fn unschedulable(&self, names: &[&str]) -> anyhow::Result<()> {
        self.pods_are(names, "unschedulable", is_unschedulable).await
    }

    async fn pods_are(
        &self,
        names: &[&str],
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        for name in names {
            let is_met = async || Ok(self.see_pod(name).await?.is_some_and(|pod| is_so(&pod)));
            self.until(&format!("pod {name} is {what}"), is_met).await?;
        }
        Ok(())
    }

    /// Waits until just this many of the pods whose names begin so have a node, and all others have a reason why not.
    pub async fn counts(&self, prefix: &str, placed: usize, waiting: usize) -> anyhow::Result<()> {
        let what = format!("{placed} of {prefix}* scheduled and {waiting} unschedulable");
        let is_met = async || {
            let pods = self.pods_named(prefix).await?;
            let scheduled = pods.iter().filter(|pod| is_scheduled(pod)).count();
            let unschedulable = pods.iter().filter(|pod| is_unschedulable(pod)).count();
            Ok((scheduled, unschedulable) == (placed, waiting))
        };
        self.until(&what, is_met).await
    }

    /// Pods whose names begin so and that are not terminating.
    pub async fn pods_named(&self, prefix: &str) -> anyhow::Result<Vec<Value>> {
        let mut pods = self.all_pods().await?;
        let named = |pod: &Value| {
            pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix))
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        pods.retain(named);
        Ok(pods)
    }

    /// Waits until this many pods whose names begin so are left.
    pub async fn left(&self, prefix: &str, count: usize) -> anyhow::Result<()> {
        let is_met = async || Ok(self.pods_named(prefix).await?.len() == count);
        self.until(&format!("{count} of {prefix}* are left"), is_met).await
    }

    /// Waits until an event with this reason is about an object whose name begins so.
    pub async fn event(&self, prefix: &str, reason: &str) -> anyhow::Result<Value> {
        let mut found = Value::Null;
        let is_met = async || {
            let events = self.list("/api/v1", "events").await?;
            let about = |event: &&Value| {
                let name = event["involvedObject"]["name"].as_str().unwrap_or_default();
                event["reason"] == reason && name.starts_with(prefix)
            };
            if let Some(event) = events.iter().find(about) {
                found = event.clone();
            }
            Ok(!found.is_null())
        };
        self.until(&format!("an event {reason} about {prefix}*"), is_met).await?;
        Ok(found)
    }

    /// Waits until a group has the event that it lacks pods, in KAI's words.
    pub async fn not_ready_event(&self, group: &str) -> anyhow::Result<()> {
        let event = self.event(group, "NotReady").await?;
        let text = event["message"].as_str().unwrap_or_default();
        let rest = text.strip_prefix("Job is not ready for scheduling. Waiting for ");
        let is_kais = rest.is_some_and(|rest| {
            rest.contains(" pods") && rest.contains(", currently ") && rest.contains(" exist, ")
        });
        ensure!(event["type"] == "Normal" && is_kais, "{event}");
        Ok(())
    }

    /// The device that the containers of a sharing pod see, as its config map says.
    pub async fn visible_device(&self, name: &str) -> anyhow::Result<String> {
        let pod = self.see_pod(name).await?.with_context(|| format!("pod {name} is gone"))?;
        let variables = pod["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
        let variable = variables.iter().find(|one| one["name"] == "NVIDIA_VISIBLE_DEVICES");
        let variable = variable.with_context(|| format!("{name} has no NVIDIA_VISIBLE_DEVICES"))?;
        let reference = &variable["valueFrom"]["configMapKeyRef"];
        let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
        let path = format!("/api/v1/namespaces/{}/configmaps/{}", self.name, text("name"));
        let map = self.see(&path).await?.with_context(|| format!("{path} does not exist"))?;
        let device = map["data"][text("key").as_str()].as_str();
        Ok(device.with_context(|| format!("{path} names no device"))?.to_owned())
    }

    /// Deletes a pod, as its owner would.
    pub async fn delete_pod(&self, name: &str) -> anyhow::Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.name);
        self.delete(&path).await
    }

    /// Waits until something is so.
    pub async fn until(
        &self,
        what: &str,
        mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            // A busy API server may fail once; the last failure is reported.
            let is_met = is_so().await;
            if matches!(is_met, Ok(true)) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                let why = is_met.err().map(|error| format!(": {error:#}")).unwrap_or_default();
                bail!("still waiting: {what}{why}\n{}", self.state().await);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Watches for a while that something stays so.
    pub async fn stays(
        &self,
        what: &str,
        span: Duration,
        mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        while started.elapsed() < span {
            ensure!(is_so().await?, "no longer: {what}\n{}", self.state().await);
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// The pods of the test space, for the report of a failed case.
    async fn state(&self) -> String {
        let Ok(pods) = self.all_pods().await else { return String::new() };
        let line = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let scheduled = conditions.iter().find(|one| one["type"] == "PodScheduled");
            let message = scheduled.and_then(|one| one["message"].as_str()).unwrap_or_default();
            format!("  {} on {}: {message}", pod["metadata"]["name"], pod["spec"]["nodeName"])
        };
        pods.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Creates an object; returns it as the API server stored it.
    pub async fn create(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        let sent = send(&self.client, "POST", path, "application/json", object).await;
        sent.with_context(|| format!("POST {path}: {}", object["metadata"]["name"]))
    }

    /// Makes an object; what its author is warned of.
    pub async fn create_with_warnings(
        &self,
        path: &str,
        object: &Value,
    ) -> anyhow::Result<Vec<String>> {
        let body = kube::client::Body::from(object.to_string().into_bytes());
        let request = http::Request::post(path).header("content-type", "application/json");
        let answer = self.client.send(request.body(body)?).await?;
        ensure!(answer.status().is_success(), "POST {path}: {}", answer.status());
        let warnings = answer.headers().get_all("warning").iter().filter_map(|warning| {
            // 299 - "text"
            let text = warning.to_str().ok()?.split_once('"')?.1.strip_suffix('"')?;
            Some(text.replace("\\\"", "\""))
        });
        Ok(warnings.collect())
    }

    /// Creates an object that must be denied; returns the reason.
    pub async fn denied(&self, path: &str, object: &Value) -> anyhow::Result<String> {
        match send(&self.client, "POST", path, "application/json", object).await {
            Err(kube::Error::Api(status)) => Ok(status.message.clone()),
            Err(error) => Err(error.into()),
            Ok(_) => bail!("{path}: it was accepted: {object}"),
        }
    }

    /// Changes an object with a merge patch.
    pub async fn patch(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        let kind = "application/merge-patch+json";
        let sent = send(&self.client, "PATCH", path, kind, patch).await;
        sent.with_context(|| format!("PATCH {path}"))
    }

    /// Deletes an object; what it owns follows.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let options = json!({"propagationPolicy": "Background"});
        let sent = send(&self.client, "DELETE", path, "application/json", &options).await;
        sent.with_context(|| format!("DELETE {path}")).map(|_| ())
    }

    /// An object as it is now; none where there is none.
    pub async fn see(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match send(&self.client, "GET", path, "application/json", &Value::Null).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("GET {path}")),
        }
    }
}

fn is_scheduled(pod: &Value) -> bool {
    !pod["spec"]["nodeName"].is_null() && has_condition(pod, "PodScheduled", "True")
}

fn is_unschedulable(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let says_so = |one: &Value| {
        one["type"] == "PodScheduled"
            && one["status"] == "False"
            && one["reason"] == "Unschedulable"
    };
    pod["spec"]["nodeName"].is_null() && conditions.into_iter().flatten().any(says_so)
}

/// Whether an object has a condition.
pub fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == status)
}
