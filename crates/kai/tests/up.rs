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
    assert_eq!(mode & 0o777, 0o600, "only the owner may read the token");
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
fn webhooks_and_crd_rules_are_enforced() {
    let Some(up) = Up::new("hooks", &[]) else { return };
    let (succeeded, said) = up.try_kubectl(&["apply", "-f", "-"], QUEUES);
    assert!(!succeeded, "{said}");
    assert!(said.contains("denied the request: resources must be specified"), "{said}");
    assert!(said.contains("spec.levels: Invalid value: nodeLabel must be unique"), "{said}");
    assert!(said.contains("queue.scheduling.run.ai/tight created"), "{said}");
    assert!(said.contains("Warning: spec.resources.gpu.limit is left out"), "{said}");
}

#[test]
fn rows_can_be_sorted_by_any_field() {
    let Some(up) = Up::new("sorts", &["--nodes", "3"]) else { return };
    let sorted = up.kubectl(&["get", "nodes", "--sort-by={.metadata.name}", "--no-headers"], "");
    assert_eq!(sorted.lines().count(), 3, "{sorted}");
    assert!(sorted.starts_with("node-1"), "{sorted}");
}

#[test]
fn custom_resources_are_explained_and_unknown_kinds_are_named() {
    let Some(up) = Up::new("explains", &[]) else { return };
    let explained = up.kubectl(&["explain", "queue.spec"], "");
    assert!(explained.contains("parentQueue"), "{explained}");
    let unknown = "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n";
    let (succeeded, answer) = up.try_kubectl(&["apply", "-f", "-"], unknown);
    assert!(!succeeded && answer.contains("no matches for kind \"Nothing\""), "{answer}");
}

#[test]
fn fields_of_built_in_kinds_are_explained() {
    let Some(up) = Up::new("fields", &[]) else { return };
    for (path, wanted) in [
        ("pod", "spec\t<PodSpec>"),
        ("pod.spec", "containers\t<[]Container>"),
        ("pod.spec.containers.resources", "limits\t<map[string]string>"),
        ("pod.spec.volumes", "emptyDir\t<EmptyDirVolumeSource>"),
        ("deployment.spec.replicas", "FIELD: replicas <integer>"),
        ("job.spec.template.spec.schedulerName", "FIELD: schedulerName <string>"),
        ("node.status", "allocatable\t<map[string]string>"),
    ] {
        let explained = up.kubectl(&["explain", path], "");
        assert!(explained.contains(wanted), "{path}:\n{explained}");
    }
    let everything = up.kubectl(&["explain", "deployment", "--recursive"], "");
    assert!(everything.contains("terminationGracePeriodSeconds"), "{everything}");
    let (succeeded, answer) = up.try_kubectl(&["explain", "pod.spec.nothing"], "");
    assert!(!succeeded && answer.contains("field \"nothing\" does not exist"), "{answer}");
}

/// Deployments are not preemptible: the default queues of an install, which guarantee nothing, would never run one.
#[test]
fn first_deployment_runs_in_the_default_queue() {
    let Some(up) = Up::new("first", &[]) else { return };
    let deployment = DEPLOYMENT.replace(", priorityClassName: train", "");
    up.kubectl(&["apply", "-f", "-"], &deployment.replace("replicas: 2", "replicas: 1"));
    up.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"], "");
}

#[test]
fn pods_are_reported_on_whether_they_start_or_not() {
    let Some(up) = Up::new("reports", &[]) else { return };
    up.kubectl(&["run", "ours", "--image=x", "--overrides", OURS], "");
    up.kubectl(&["wait", "--for=condition=Ready", "pod/ours", "--timeout=60s"], "");
    for reason in ["Scheduled", "Started"] {
        up.says(&["events", "--for", "pod/ours"], reason);
    }
    up.kubectl(&["run", "theirs", "--image=x"], "");
    up.says(&["describe", "pod", "theirs"], "no scheduler named \"default-scheduler\" runs");
}

const OURS: &str = r#"{"metadata": {"labels": {"kai.scheduler/queue": "default-queue"}}, "spec": {"schedulerName": "kai-scheduler"}}"#;

#[test]
fn a_rolling_update_keeps_pods_available() {
    let Some(up) = Up::new("rolls", &["--nodes", "4"]) else { return };
    let web = DEPLOYMENT.replace("replicas: 2", "replicas: 4").replace("gpu: 5", "gpu: 1");
    up.kubectl(&["apply", "-f", "-"], &web);
    up.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"], "");
    up.kubectl(&["set", "image", "deployment/web", "main=web:2"], "");
    let sets = ["get", "replicasets", "-o", "jsonpath={.items[*].status.readyReplicas}"];
    let ready =
        |text: &str| text.split_whitespace().filter_map(|one| one.parse::<u32>().ok()).sum();
    let begin = Instant::now();
    loop {
        let available: u32 = ready(&up.kubectl(&sets, ""));
        assert!(available >= 3, "only {available} of 4 are ready during the update");
        let (done, _) =
            up.try_kubectl(&["rollout", "status", "deployment/web", "--watch=false"], "");
        let images = ["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"];
        if done && !up.kubectl(&images, "").contains("web:1") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "the update does not end");
    }
}

/// What another command of `kai` says about the cluster.
fn kai(up: &Up, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kai"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&up.kubeconfig)
        .output()
        .expect("kai runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).expect("text"))
}

#[test]
fn a_healthy_cluster_has_no_findings() {
    let Some(up) = Up::new("healthy", &[]) else { return };
    up.kubectl(&["apply", "-f", "-"], JOB);
    up.kubectl(&["wait", "--for=condition=complete", "job/train", "--timeout=60s"], "");
    assert_eq!(kai(&up, &["doctor"]), (Some(0), "Nothing is wrong.\n".to_owned()));
    let text = fs::read_to_string(&up.kubeconfig).expect("the kubeconfig");
    let start = text.find("token: ").expect("a token") + "token: ".len();
    let with_wrong_token = text[..start].to_owned()
        + "wrong"
        + &text[text[start..].find('\n').map_or(text.len(), |end| start + end)..];
    fs::write(&up.kubeconfig, with_wrong_token).expect("written");
    let (code, said) = kai(&up, &["doctor"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("rejected the credentials") && !said.contains("not installed"), "{said}");
}

#[test]
fn whole_gpus_are_in_use_and_workloads_are_explained() {
    let Some(up) = Up::new("gpus", &[]) else { return };
    up.kubectl(&["apply", "-f", "-"], DEPLOYMENT);
    up.kubectl(
        &["wait", "--for=jsonpath={.status.readyReplicas}=1", "deployment/web", "--timeout=60s"],
        "",
    );
    let (_, said) = kai(&up, &["gpus"]);
    assert!(said.contains("5 whole") && said.contains("(5 GPUs)"), "{said}");
    let (code, said) = kai(&up, &["explain", "deployment/web"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("1 of 2 pods of deployment web are pending."), "{said}");
    assert!(said.contains("Resources were not found") || said.contains("GPUs"), "{said}");
}

const CYCLE: &str = "
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: top}
spec: {resources: {cpu: {limit: -1}, memory: {limit: -1}, gpu: {limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: below}
spec: {parentQueue: top, resources: {cpu: {limit: -1}, memory: {limit: -1}, gpu: {limit: -1}}}
";

#[test]
fn cycles_of_queues_are_denied_and_parents_can_be_deleted() {
    let Some(up) = Up::new("cycles", &[]) else { return };
    up.kubectl(&["apply", "-f", "-"], CYCLE);
    let patch =
        ["patch", "queue", "top", "--type=merge", "-p", r#"{"spec":{"parentQueue":"below"}}"#];
    let (succeeded, said) = up.try_kubectl(&patch, "");
    assert!(!succeeded && said.contains("the parent queues form a cycle: top -> below"), "{said}");
    up.says(&["get", "queue", "top", "-o", "jsonpath={.status.childQueues}"], "below");
    let said = up.kubectl(&["delete", "queue", "top"], "");
    assert!(said.contains("Warning: queue top has child queues [below]"), "{said}");
    up.says(&["get", "queue", "below", "-o", "jsonpath={.status.conditions[*].type}"], "Orphan");
    up.kubectl(&["delete", "queue", "below"], "");
}
