//! `kai demo` and `kai simulate`, as a person runs them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn kai(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kai")).args(arguments).output().expect("kai runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A folder of manifests that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("kai-simulate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        for (file, content) in files {
            fs::write(path.join(file), content).expect("a file");
        }
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn walk_throughs_show_every_decision() {
    let output = kai(&["demo"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe");
    for expected in [
        "1. Queues and fair share",
        "2. A gang: all or nothing",
        "3. Preemption within a queue",
        "✗ train was evicted from node-1",
        "✓ build was placed on node-1",
        "✓ llm-worker-2 was placed on node-",
        "node-1 gpu 0 [aaaaaaaaaaaaaaaaaaaaaaaa]  81920 of 81920 MiB  train",
    ] {
        assert!(shown.contains(expected), "{expected:?} is missing in:\n{shown}");
    }
    let left = shown.lines().filter(|line| line.contains("✗ vision-")).count();
    assert_eq!(left, 4, "half of the borrowed devices are reclaimed");
    let gang = shown.split("none starts").nth(1).and_then(|rest| rest.split("A third node").next());
    assert!(!gang.expect("the step").contains('✓'), "no part of a gang starts");
}

#[test]
fn one_walk_through_alone_and_none_that_is_not_there() {
    let shown = text(&kai(&["demo", "--only", "3"]).stdout);
    assert!(shown.contains("3. Preemption") && !shown.contains("1. Queues"));
    let wrong = kai(&["demo", "--only", "99"]);
    assert_eq!(wrong.status.code(), Some(2));
}

const QUEUE: &str = "
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  resources:
    gpu: {quota: 1, limit: 2, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1}
    memory: {quota: -1, limit: -1}
";

fn pod(name: &str, extra: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: somewhere
  labels: {{kai.scheduler/queue: team}}
  {extra}
spec:
  schedulerName: kai-scheduler
  serviceAccountName: trainer
  containers:
  - name: main
    image: train:1
    resources: {{limits: {{nvidia.com/gpu: 1}}}}
"
    )
}

#[test]
fn pods_end_where_the_scheduler_would_put_them() {
    let pods = [pod("a", ""), pod("b", ""), pod("c", "")].concat();
    let folder = Folder::new(
        "limit",
        &[("queue.yaml", QUEUE), ("pods.yaml", &pods), ("note.txt", "no: manifest: [")],
    );
    let output = kai(&["simulate", "-f", folder.path(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let phases: Vec<&str> = outcome["pods"]
        .as_array()
        .expect("pods")
        .iter()
        .map(|pod| pod["phase"].as_str().expect("a phase"))
        .collect();
    assert_eq!(phases.iter().filter(|phase| **phase == "Running").count(), 2, "{outcome:#}");
    assert_eq!(phases.iter().filter(|phase| **phase == "Pending").count(), 1);
    let running = outcome["pods"]
        .as_array()
        .expect("pods")
        .iter()
        .find(|pod| pod["phase"] == "Running")
        .expect("one");
    assert_eq!((&running["node"], &running["gpus"][0]["mib"]), (&"node-1".into(), &81_920.into()));
    assert!(running["gpus"][0]["uuid"].as_str().expect("an id").starts_with("GPU-"));
    assert_eq!(outcome["nodes"][0]["gpus"].as_array().map(Vec::len), Some(8));
    assert_eq!(
        kai(&["simulate", "-f", folder.path(), "--json"]).stdout,
        output.stdout,
        "the same again"
    );
}

#[test]
fn pods_that_end_free_their_gpus() {
    let ends = "annotations: {kai.scheduler/sim-duration: 1h}";
    let pods = [pod("a", ends), pod("b", ends), pod("c", ends)].concat();
    let folder = Folder::new("ends", &[("all.yaml", &format!("{QUEUE}{pods}"))]);
    let output = kai(&["simulate", "-f", folder.path(), "--json"]);
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        outcome["pods"].as_array().expect("pods").iter().all(|pod| pod["phase"] == "Succeeded"),
        "{outcome:#}"
    );
}

#[test]
fn nodes_may_come_with_the_manifests() {
    let node = "---
apiVersion: v1
kind: Node
metadata: {name: small, labels: {nvidia.com/gpu.count: '1', nvidia.com/gpu.memory: '32600'}}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10', nvidia.com/gpu: '1'}}
";
    let folder = Folder::new("nodes", &[("all.yaml", &format!("{QUEUE}{node}{}", pod("a", "")))]);
    let output = kai(&["simulate", "-f", folder.path(), "--json"]);
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(outcome["nodes"].as_array().map(Vec::len), Some(1), "{outcome:#}");
    assert_eq!(outcome["pods"][0]["node"], "small");
    assert_eq!(outcome["pods"][0]["gpus"][0]["mib"], 32_600);
}

#[test]
fn a_bad_manifest_is_shown_by_file_line_and_field() {
    let bad = QUEUE.replace("quota: 1,", "quota: many,");
    let odd = pod("a", "").replace("image: train:1", "imagee: train:1");
    let folder = Folder::new("bad", &[("queue.yaml", &bad), ("pod.yaml", &odd)]);
    let output = kai(&["simulate", "-f", folder.path()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("queue.yaml:7: spec.resources.gpu.quota: "), "{said}");
    assert!(said.contains("pod.yaml:14: spec.containers[0].imagee: unknown field"), "{said}");
    let torn = Folder::new("torn", &[("x.yaml", "kind: Pod\nmetadata: [\n")]);
    let output = kai(&["simulate", "-f", torn.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("x.yaml:"), "{}", text(&output.stderr));
}

/// What a walk-through says, in one line.
fn demo_output(walk_through: &str) -> String {
    let output = kai(&["demo", "--only", walk_through]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn parts_of_a_gpu_share_it_until_it_is_full() {
    let shown = demo_output("4");
    assert!(shown.contains("60960 of 81920 MiB half, memory"), "{shown}");
    assert!(shown.contains("60960 of 81920 MiB used by 2 pods, 40960 MiB requested."), "{shown}");
}

#[test]
fn the_memory_of_a_time_sliced_gpu_is_given_away_once() {
    let shown = demo_output("5");
    assert_eq!(shown.matches(" was placed on node-1").count(), 4, "{shown}");
    assert!(shown.contains("32000 of 32600 MiB used by 4 pods, 8000 MiB requested."), "{shown}");
}

#[test]
fn a_bind_that_never_succeeds_does_not_keep_a_simulation_going() {
    let pod = "
apiVersion: v1
kind: Pod
metadata: {name: half, labels: {kai.scheduler/queue: default-queue}, annotations: {gpu-fraction: '0.5', runai/shared-gpu-configmap: half}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: x}]
";
    let folder = Folder::new("half", &[("half.yaml", pod)]);
    let path = folder.0.to_str().expect("a path");
    let output = kai(&["simulate", "-f", path, "--gpus", "1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("half"), "{}", text(&output.stdout));
}

/// What `kai simulate` says of shipped manifests on one GPU of 32,600 MiB that is advertised as a hundred.
fn simulated(manifests: &[&str]) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let paths: Vec<String> = manifests.iter().map(|path| format!("{root}{path}")).collect();
    let named = paths.iter().flat_map(|path| ["-f", path.as_str()]);
    let node = ["--gpus", "1", "--gpu-memory", "32600", "--time-slicing", "100"];
    let output = kai(&["simulate"].into_iter().chain(named).chain(node).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_shipped_manifests_of_the_quick_start_run() {
    let half = simulated(&["quickstart/queues.yaml", "gpu-sharing/gpu-sharing.yaml"]);
    assert!(half.contains("16300 MiB  32600 MiB  default/gpu-sharing"), "{half}");
    let five = simulated(&["quickstart/queues.yaml", "gpu-sharing/multiubuntu.yaml"]);
    assert_eq!(five.matches("Running  node-1  0").count(), 4, "{five}");
    assert!(five.contains("32000 of 32600 MiB used by 4 pods, 8000 MiB requested."), "{five}");
    let gang = simulated(&["quickstart/queues.yaml", "batch/pytorch-job.yaml"]);
    assert_eq!(gang.matches("Pending").count(), 2, "a gang of two on one device: {gang}");
    let both = simulated(&["quickstart/queues.yaml", "priority/example/train-priority-pod.yaml"]);
    assert!(both.contains("train-pod  Running"), "{both}");
}

#[test]
fn without_labels_a_clear_message_names_the_missing_one() {
    let shown = demo_output("6");
    assert!(shown.contains("whole was placed on node-1"), "{shown}");
    assert!(
        shown.contains("node: <node-1>: label it nvidia.com/gpu.memory=<MiB of each GPU>"),
        "{shown}"
    );
    assert!(shown.contains("memory was placed on node-1"), "{shown}");
}

#[test]
fn the_story_is_a_page_that_needs_nothing_else() {
    let folder = Folder::new("page", &[]);
    let path = format!("{}/kai.html", folder.path());
    let output = kai(&["demo", "--only", "4,5", "--html", &path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(&path).expect("the page");
    assert!(page.contains("<h2><b>5</b> Memory of a time-sliced GPU</h2>"));
    assert!(page.contains("32000 / 32600 MiB") && page.contains("aria-label=\"timeline\""));
    for outside in ["http", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

const REJECTED_JOB: &str = "---
apiVersion: batch/v1
kind: Job
metadata: {name: greedy, labels: {kai.scheduler/queue: team}}
spec:
  template:
    metadata: {annotations: {gpu-fraction: '2'}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: main, image: 'x:1'}]
";

#[test]
fn rejected_and_doubtful_manifests_are_reported() {
    let tight = QUEUE.replace(", limit: 2", "").replace(", limit: -1", "");
    let folder = Folder::new("rejected", &[("all.yaml", &format!("{tight}{REJECTED_JOB}"))]);
    let output = kai(&["simulate", "-f", folder.path(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("all.yaml:2: warning: spec.resources."), "{said}");
    assert!(said.contains("default: Job greedy: Error creating: admission webhook"), "{said}");
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(outcome["pods"], Value::Array(Vec::new()), "{outcome:#}");
}

#[test]
fn a_duration_that_is_none_is_shown_by_line_wherever_it_stands() {
    let bad = REJECTED_JOB.replace("gpu-fraction: '2'", "kai.scheduler/sim-duration: soon");
    let folder = Folder::new("soon", &[("job.yaml", &bad)]);
    let output = kai(&["simulate", "-f", folder.path()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let field = "spec.template.metadata.annotations.kai.scheduler/sim-duration";
    assert!(said.contains(&format!("job.yaml:7: {field}: \"soon\" is no duration")), "{said}");
}

#[test]
fn cron_jobs_run_once_and_volumes_are_bound() {
    let manifests = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: example.com/disk
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedule: '0 3 * * *'
  jobTemplate:
    spec:
      template:
        metadata: {labels: {kai.scheduler/queue: default-queue}}
        spec:
          schedulerName: kai-scheduler
          restartPolicy: Never
          containers: [{name: main, image: 'x:1', resources: {limits: {nvidia.com/gpu: 1}}}]
          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";
    let folder = Folder::new("cron", &[("all.yaml", manifests)]);
    let output = kai(&["simulate", "-f", folder.path(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pods = outcome["pods"].as_array().expect("pods");
    assert_eq!(pods.len(), 1, "{outcome:#}");
    assert_eq!((&pods[0]["phase"], &pods[0]["node"]), (&"Running".into(), &"node-1".into()));
}

const STORAGE_AND_CLAIMS: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: near}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: near, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: with-volume, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: 'x:1'}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: claimers, labels: {kai.scheduler/queue: default-queue}}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {annotations: {kai.scheduler/sim-duration: 1h}, labels: {kai.scheduler/queue: default-queue}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: main, image: 'x:1', resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
";

#[test]
fn volumes_wait_for_their_pod_and_devices_are_claimed_one_after_the_other() {
    let folder = Folder::new("claims", &[("all.yaml", STORAGE_AND_CLAIMS)]);
    let output = kai(&["simulate", "-f", folder.path(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pods = outcome["pods"].as_array().expect("pods");
    let phase = |pod: &Value| pod["phase"].as_str().unwrap_or_default().to_owned();
    let jobs: Vec<String> =
        pods.iter().filter(|pod| pod["name"] != "with-volume").map(phase).collect();
    assert_eq!(jobs, ["Succeeded", "Succeeded"], "{outcome:#}");
    let other = pods.iter().find(|pod| pod["name"] == "with-volume").map(phase);
    assert_eq!(other.as_deref(), Some("Running"), "{outcome:#}");
}

#[test]
fn the_reservation_pod_of_a_jetson_has_what_that_of_a_server_needs_not() {
    let shown = demo_output("7");
    let pods = shown.split_once("the reservation pod on server").expect("one").1;
    let (server, thor) = pods.split_once("the reservation pod on thor").expect("the other");
    for mark in ["privileged: true", "hostPath", "NVIDIA_DRIVER_CAPABILITIES"] {
        assert!(!server.contains(mark) && thor.contains(mark), "{mark}: {shown}");
    }
}
