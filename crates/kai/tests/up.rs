//! `kai up` with `kubectl` as the client.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kai_testenv::{Binaries, Build};

const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster that ends with the test.
struct Up {
    kai: Child,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Up {
    /// A new one; none where there is no `kubectl`.
    fn new(test: &str, arguments: &[&str]) -> Option<Self> {
        let binaries = match Binaries::ready().expect("a cache") {
            Build::Ready(binaries) => binaries,
            Build::Impossible(why) => {
                let line = format!("SKIPPED {test}: no kubectl: {why}\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                return None;
            }
        };
        let kubeconfig = std::env::temp_dir().join(format!("kai-up-{test}-{}", std::process::id()));
        let kai = Command::new(env!("CARGO_BIN_EXE_kai"))
            .args(["up", "--kubeconfig", kubeconfig.to_str().expect("a path")])
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("kai starts");
        let up = Self { kai, kubectl: binaries.path("kubectl"), kubeconfig };
        let begin = Instant::now();
        while !up.kubeconfig.exists() {
            assert!(begin.elapsed() < PATIENCE, "no kubeconfig");
            std::thread::yield_now();
        }
        Some(up)
    }

    /// What `kubectl` says; it must succeed.
    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let (succeeded, said) = self.try_kubectl(arguments, input);
        assert!(succeeded, "kubectl {arguments:?}: {said}");
        said
    }

    /// Waits until `kubectl` says something.
    fn says(&self, arguments: &[&str], wanted: &str) {
        let begin = Instant::now();
        loop {
            let said = self.kubectl(arguments, "");
            if said.contains(wanted) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{wanted:?} is missing in:\n{said}");
        }
    }

    fn try_kubectl(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut child = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.kubeconfig.with_extension("cache"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).expect("text"))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.kai.kill();
        let _ = self.kai.wait();
        let _ = fs::remove_file(&self.kubeconfig);
        let _ = fs::remove_dir_all(self.kubeconfig.with_extension("cache"));
    }
}

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kai.scheduler/queue: default-queue}}
spec:
  template:
    metadata: {annotations: {kai.scheduler/sim-duration: 1s}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
      - {name: main, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, kai.scheduler/queue: default-queue, priorityClassName: train}}
    spec:
      schedulerName: kai-scheduler
      containers:
      - {name: main, image: 'web:1', resources: {limits: {nvidia.com/gpu: 5}}}
";

const GANG: &str = "
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: llm, labels: {kai.scheduler/queue: default-queue}}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: &pod {spec: {schedulerName: kai-scheduler, containers: [{name: pytorch, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}]}}}
    Worker: {replicas: 2, template: *pod}
";

#[test]
fn kubectl_works_on_it() {
    let Some(up) = Up::new("kubectl", &["--nodes", "1", "--gpus", "8"]) else { return };
    let mode = fs::metadata(&up.kubeconfig).expect("the kubeconfig").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else may read the token");
    assert!(up.kubectl(&["get", "nodes"], "").contains("node-1   Ready"));
    assert!(up.kubectl(&["apply", "-f", "-"], JOB).contains("job.batch/train created"));
    up.kubectl(&["wait", "--for=condition=complete", "job/train", "--timeout=60s"], "");
    assert!(up.kubectl(&["get", "jobs"], "").contains("Complete   1/1"));
    up.kubectl(&["delete", "job", "train"], "");
    up.kubectl(&["create", "-f", "-"], GANG);
    up.kubectl(&["wait", "pytorchjob/llm", "--for=condition=Running", "--timeout=60s"], "");
    up.kubectl(&["delete", "pytorchjob", "llm"], "");
    up.kubectl(&["wait", "--for=delete", "pod", "--all", "--timeout=60s"], "");
    up.kubectl(&["apply", "-f", "-"], DEPLOYMENT);
    up.kubectl(
        &["wait", "--for=jsonpath={.status.readyReplicas}=1", "deployment/web", "--timeout=60s"],
        "",
    );
    let waits =
        "--for=jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].reason}=Unschedulable";
    up.kubectl(
        &[
            "wait",
            "pod",
            "-l",
            "app=web",
            "--field-selector",
            "spec.nodeName=",
            waits,
            "--timeout=60s",
        ],
        "",
    );
    let waiting = ["get", "pods", "-o", "name", "--field-selector", "spec.nodeName="];
    let waiting = up.kubectl(&waiting, "");
    up.says(&["describe", waiting.trim()], "didn't have enough resources: GPUs");
    up.says(&["events"], "Unschedulable");
    up.kubectl(&["scale", "deployment/web", "--replicas=1"], "");
    up.kubectl(&["label", "deployment", "web", "tier=front"], "");
    assert!(up.kubectl(&["get", "deployments", "-l", "tier=front"], "").contains("1/1"));
    up.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"], "");
    assert!(up.kubectl(&["get", "all"], "").contains("deployment.apps/web"));
    up.kubectl(&["create", "namespace", "x"], "");
    up.kubectl(&["delete", "namespace", "x"], "");
    assert!(up.kubectl(&["auth", "can-i", "create", "pods"], "").starts_with("yes"));
    assert!(up.kubectl(&["auth", "whoami"], "").contains("admin"));
    let (succeeded, said) =
        up.try_kubectl(&["create", "-f", "-"], &DEPLOYMENT.replace("image:", "imagee:"));
    assert!(
        !succeeded && said.contains("unknown field \"spec.template.spec.containers[0].imagee\""),
        "{said}"
    );
    let (succeeded, said) = up.try_kubectl(&["--token", "wrong", "get", "pods"], "");
    assert!(!succeeded && said.contains("Unauthorized"), "{said}");
}

#[test]
fn it_ends_cleanly_and_takes_its_kubeconfig_along() {
    let Some(mut up) = Up::new("ends", &[]) else { return };
    let kill = Command::new("kill").args(["-INT", &up.kai.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    assert!(up.kai.wait().expect("it ends").success());
    assert!(!Path::new(&up.kubeconfig).exists());
}

/// Commands of `kubectl` with which it makes objects itself, and what it then says of them.
const MADE: &[(&[&str], &[&str], &str)] = &[
    (
        &["create", "deployment", "shop", "--image=shop:1", "--replicas=0", "--port=80"],
        &["get", "deployment", "shop"],
        "0/0",
    ),
    (
        &["create", "cronjob", "nightly", "--image=train:1", "--schedule=0 3 * * *", "--", "train"],
        &["get", "cronjob", "nightly"],
        "0 3 * * *",
    ),
    (
        &["create", "job", "now", "--from=cronjob/nightly"],
        &["get", "job", "now", "-o", "jsonpath={.spec.template.spec.containers[0].command}"],
        "[\"train\"]",
    ),
    (
        &["create", "secret", "generic", "key", "--from-literal=a=b"],
        &["get", "secret", "key", "-o", "jsonpath={.data.a}"],
        "Yg==",
    ),
    (
        &["create", "configmap", "map", "--from-literal=a=b"],
        &["get", "configmap", "map", "-o", "jsonpath={.data.a}"],
        "b",
    ),
    (
        &["create", "quota", "few", "--hard=pods=3,requests.nvidia.com/gpu=2"],
        &["get", "quota", "few", "-o", "jsonpath={.spec.hard}"],
        "\"requests.nvidia.com/gpu\":\"2\"",
    ),
    (
        &["create", "priorityclass", "high", "--value=1000"],
        &["get", "priorityclass", "high"],
        "1000",
    ),
    (
        &["create", "poddisruptionbudget", "half", "--selector=app=shop", "--min-available=50%"],
        &["get", "pdb", "half"],
        "50%",
    ),
    (
        &["create", "role", "reader", "--verb=get,list", "--resource=pods"],
        &["get", "role", "reader", "-o", "jsonpath={.rules[0].verbs}"],
        "[\"get\",\"list\"]",
    ),
    (
        &["create", "rolebinding", "readers", "--role=reader", "--serviceaccount=default:default"],
        &["get", "rolebinding", "readers"],
        "Role/reader",
    ),
    (
        &["create", "service", "clusterip", "shop", "--tcp=80:8080"],
        &["get", "service", "shop", "-o", "jsonpath={.spec.ports[0].targetPort}"],
        "8080",
    ),
    (
        &["run", "single", "--image=train:1", "--restart=Never"],
        &["get", "pod", "single", "-o", "jsonpath={.spec.restartPolicy}"],
        "Never",
    ),
];

#[test]
fn kubectl_makes_objects_by_itself() {
    let Some(up) = Up::new("makes", &[]) else { return };
    for (make, look, wanted) in MADE {
        up.kubectl(make, "");
        let said = up.kubectl(look, "");
        assert!(said.contains(wanted), "{make:?} gave {said}");
    }
    up.kubectl(&["annotate", "node", "node-1", "by=hand"], "");
    up.kubectl(&["taint", "node", "node-1", "kept=free:NoSchedule"], "");
    assert!(up.kubectl(&["describe", "node", "node-1"], "").contains("kept=free:NoSchedule"));
    up.kubectl(&["cordon", "node-1"], "");
    assert!(up.kubectl(&["get", "nodes"], "").contains("SchedulingDisabled"));
    up.kubectl(&["set", "image", "deployment/shop", "shop=shop:2"], "");
    assert!(up.kubectl(&["describe", "deployment", "shop"], "").contains("shop:2"));
    up.kubectl(&["delete", "cronjob", "nightly"], "");
    assert!(up.kubectl(&["auth", "can-i", "--list"], "").contains("*.*"));
    assert!(up.kubectl(&["api-resources"], "").contains("podgroups"));
    assert!(up.kubectl(&["version"], "").contains("Server Version: v1.36"));
}

const QUEUES: &str = "
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: bare}
spec: {}
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: twice}
spec: {levels: [{nodeLabel: zone}, {nodeLabel: zone}]}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: tight}
spec: {resources: {gpu: {quota: 1}}}
";

#[test]
fn our_webhooks_and_rules_are_heard() {
    let Some(up) = Up::new("hooks", &[]) else { return };
    let (succeeded, said) = up.try_kubectl(&["apply", "-f", "-"], QUEUES);
    assert!(!succeeded, "{said}");
    assert!(said.contains("denied the request: resources must be specified"), "{said}");
    assert!(said.contains("spec.levels: Invalid value: nodeLabel must be unique"), "{said}");
    assert!(said.contains("queue.scheduling.run.ai/tight created"), "{said}");
    assert!(said.contains("Warning: spec.resources.gpu.limit is left out"), "{said}");
}
