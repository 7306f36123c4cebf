//! Deployments, Services, webhooks and the daemon set: everything in one process, or each function alone under its own
//! account.

use kai_api::function::Function;
use kai_api::names::components::{ADMISSION, NUMA_PLACEMENT_EXPORTER, SCHEDULER};
use kai_api::names::defaults::{IMAGE_PULL_POLICY, WEBHOOK_PORT};
use kai_api::names::env;
use kai_api::names::node::MEMORY_NUMA;
use kai_api::names::objects::{APP, NAMESPACE, SCHEDULER_NAME};
use kai_settings::admission::AdmissionSettings;
use serde_json::{Value, json};

use kai_admission::registration;

use crate::{manifests, openshift};

/// How `kai run` is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One Deployment does everything but admission, which has its own.
    #[default]
    Process,
    /// One Deployment per function.
    Functions,
    /// It is started by hand.
    Nothing,
}

/// What is installed beside roles and definitions.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct Wanted<'a> {
    /// How `kai run` is installed.
    pub layout: Layout,
    /// Image of the Deployments.
    pub image: &'a str,
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: &'a str,
    /// Autoscalers are made to add nodes for pods that share devices.
    pub scale_adjuster: bool,
    /// Add the DaemonSet that reports the NUMA zones of pods.
    pub numa_agent: bool,
    /// Pods may request fractions of GPUs.
    pub gpu_sharing: bool,
    /// `OpenShift` assigns user ids: none is fixed, and every account has `SecurityContextConstraints`.
    pub openshift: bool,
    /// When images are pulled; reservation pods follow it too.
    pub pull_policy: &'a str,
    /// Replicas of each Deployment; one of them acts.
    pub replicas: u32,
    /// Service accounts need the verb `use` on queues and priority classes.
    pub queue_authorization: bool,
    /// Metrics are served over TLS to accounts that may get them.
    pub metrics_authentication: bool,
    /// MiB of each GPU that are never given out, until a reservation pod measured what the driver keeps.
    pub gpu_memory_reserve_mib: u32,
    /// Reservation pods see the processes of their nodes. None: where the cluster limits GPU memory.
    pub observe_processes: Option<bool>,
    /// How long disruption budgets may delay reclaim: a duration, or `forever`.
    pub disruption_budget_delay: &'a str,
}

/// Value of `--disruption-budget-delay` that is not written out.
const USUAL_BUDGET_DELAY: &str = "10m";

impl Wanted<'_> {
    /// `first`, and the flags that follow from the other settings for a process with these functions.
    fn arguments(&self, first: &[&str], functions: &[Function]) -> Vec<String> {
        let mut all: Vec<String> = first.iter().map(|text| (*text).to_owned()).collect();
        if self.scheduler_name != SCHEDULER_NAME {
            all.push(format!("--scheduler-name={}", self.scheduler_name));
        }
        let asks = [Function::PodGrouper, Function::Admission];
        if self.queue_authorization && asks.iter().any(|one| functions.contains(one)) {
            all.push("--queue-authorization".to_owned());
        }
        if self.metrics_authentication {
            all.push("--metrics-authentication".to_owned());
        }
        if functions.contains(&Function::Scheduler) {
            if self.disruption_budget_delay != USUAL_BUDGET_DELAY {
                all.push(format!("--disruption-budget-delay={}", self.disruption_budget_delay));
            }
            all.push("--upgrade-crds".to_owned());
            all.push(format!("--default-queues={QUEUES_FOLDER}/{QUEUES_FILE}"));
        }
        if functions.contains(&Function::Admission) {
            all.push(format!("--gpu-sharing-enabled={}", self.gpu_sharing));
            if self.gpu_sharing && self.pull_policy != IMAGE_PULL_POLICY {
                all.push(format!("--guard-pull-policy={}", self.pull_policy));
            }
        }
        if functions.contains(&Function::Binder) {
            all.push(format!("--resource-reservation-pull-policy={}", self.pull_policy));
            if self.openshift {
                let flag = "--resource-reservation-container-security-context";
                all.push(format!("{flag}={}", openshift::reservation_security()));
            }
        }
        all.extend(self.memory_arguments(functions));
        all
    }

    /// GPU memory flags that the scheduler and the binder share, and flags of the binder.
    fn memory_arguments(&self, functions: &[Function]) -> Vec<String> {
        let counts = [Function::Scheduler, Function::Binder];
        let reserve = (self.gpu_memory_reserve_mib > 0
            && counts.iter().any(|one| functions.contains(one)))
        .then(|| format!("--gpu-memory-reserve-mib={}", self.gpu_memory_reserve_mib));
        let observe = self.observe_processes.filter(|_| functions.contains(&Function::Binder));
        let observe =
            observe.map(|observe| format!("--resource-reservation-observe-processes={observe}"));
        reserve.into_iter().chain(observe).collect()
    }
}

/// Deployment of the one process: `kubectl logs -n kai-scheduler deployment/scheduler` shows its log.
const PROCESS: &str = SCHEDULER;
/// Account of the one process, which has the rights of every function but admission.
const PROCESS_ACCOUNT: &str = "kai";
/// Config map with the default queues, and where the scheduler finds it.
const QUEUES_MAP: &str = "default-queues";
const QUEUES_FILE: &str = "queues.yaml";
const QUEUES_FOLDER: &str = "/etc/kai";
/// Port of the metrics.
pub(crate) const METRICS: u16 = 8080;
/// Port of the liveness and readiness probes.
pub(crate) const PROBES: u16 = 8081;
/// User of containers, where the cluster assigns none; that of the image.
const USER: u32 = 10_000;
/// Where the kubelet says what it gave to containers.
const POD_RESOURCES: &str = "/var/lib/kubelet/pod-resources";
/// Where the node's `/sys` is for the agent.
const HOST_SYS: &str = "/host/sys";

/// CPU and memory that a process is given, and the memory it may not exceed.
struct Amounts {
    cpu: &'static str,
    memory: &'static str,
    most_memory: &'static str,
}

/// What follows the whole cluster holds it in memory.
const WORLD: Amounts = Amounts { cpu: "250m", memory: "512Mi", most_memory: "2Gi" };
const SMALL: Amounts = Amounts { cpu: "50m", memory: "64Mi", most_memory: "256Mi" };

/// What is installed beside roles and definitions.
pub fn objects(wanted: Wanted<'_>) -> Vec<Value> {
    let mut all = match wanted.layout {
        Layout::Nothing => Vec::new(),
        Layout::Process => process(wanted),
        Layout::Functions => functions(wanted),
    };
    if wanted.numa_agent {
        all.push(numa_agent(wanted));
    }
    if wanted.layout != Layout::Nothing {
        all.push(default_queues());
        all.extend(webhooks(wanted.scheduler_name));
    }
    if wanted.openshift {
        let observes = wanted.observe_processes == Some(true);
        all.extend(openshift::constraints(&accounts(&all), wanted.numa_agent, observes));
    }
    all
}

/// Accounts of the Deployments in `objects`.
fn accounts(objects: &[Value]) -> Vec<String> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let account = |object: &Value| object["spec"]["template"]["spec"]["serviceAccountName"].clone();
    let names = deployments.map(account);
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The default queues, which the scheduler creates once their kind is there.
fn default_queues() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": QUEUES_MAP, "namespace": NAMESPACE},
        "data": {QUEUES_FILE: manifests::DEFAULT_QUEUES},
    })
}

/// Everything in one process, but admission: bytes from the network and the rights of all functions stay apart.
fn process(wanted: Wanted<'_>) -> Vec<Value> {
    let mut arguments = wanted.arguments(&["run", "--leader-elect"], &Function::USUAL);
    if wanted.scale_adjuster {
        arguments.push("--node-scale-adjuster".to_owned());
    }
    let mut all = vec![
        deployment(wanted, PROCESS, PROCESS_ACCOUNT, &arguments, &WORLD),
        metrics_service(wanted, PROCESS),
    ];
    all.extend(function_alone(wanted, Function::Admission));
    all
}

fn functions(wanted: Wanted<'_>) -> Vec<Value> {
    let is_wanted =
        |function: &Function| *function != Function::NodeScaleAdjuster || wanted.scale_adjuster;
    let functions = Function::ALL.into_iter().filter(is_wanted);
    functions.flat_map(|function| function_alone(wanted, function)).collect()
}

/// Deployment and Service of one function under its own account.
fn function_alone(wanted: Wanted<'_>, function: Function) -> [Value; 2] {
    let name = function.name();
    let mut arguments = wanted.arguments(&["run", "--leader-elect", "--only", name], &[function]);
    if function == Function::Scheduler && wanted.scale_adjuster {
        arguments.push("--over-limit-reason=OverQueueLimit".to_owned());
    }
    let (amounts, service) = match function {
        Function::Admission => (&SMALL, admission_service(wanted)),
        _ => (&WORLD, metrics_service(wanted, name)),
    };
    [deployment(wanted, name, name, &arguments, amounts), service]
}

/// The registrations that `kai run` writes with its usual settings, without the certificate: applying them again keeps
/// what `kai run` added. Until it runs, new pods of our scheduler, queues, pod groups and topologies are denied, and no
/// other objects.
fn webhooks(scheduler_name: &str) -> impl Iterator<Item = Value> {
    let settings = AdmissionSettings {
        scheduler_name: scheduler_name.to_owned(),
        ..AdmissionSettings::default()
    };
    registration::configurations(&settings, None).into_iter().map(|(_, object)| object)
}

fn deployment(
    wanted: Wanted<'_>,
    name: &str,
    account: &str,
    arguments: &[String],
    amounts: &Amounts,
) -> Value {
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": "probes"}, "periodSeconds": 10});
    let mut container = json!({
        "name": name,
        "image": wanted.image,
        "imagePullPolicy": wanted.pull_policy,
        "args": arguments,
        // Image of reservation and scaling pods.
        "env": [{"name": env::IMAGE, "value": wanted.image}],
        "ports": ports(name),
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": {"cpu": amounts.cpu, "memory": amounts.memory},
            "limits": {"memory": amounts.most_memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let mut security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    if !wanted.openshift {
        merge(&mut security, json!({"runAsUser": USER}));
    }
    let mut volumes = json!({});
    if arguments.iter().any(|argument| argument.starts_with("--default-queues")) {
        let mount = json!({"name": QUEUES_MAP, "mountPath": QUEUES_FOLDER, "readOnly": true});
        merge(&mut container, json!({"volumeMounts": [mount]}));
        let volume = json!({"name": QUEUES_MAP, "configMap": {"name": QUEUES_MAP}});
        merge(&mut volumes, json!({"volumes": [volume]}));
    }
    let mut pod = json!({
        "serviceAccountName": account,
        "securityContext": security,
        "containers": [container],
    });
    merge(&mut pod, volumes);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {APP: name}},
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": {APP: name}},
            "template": {
                "metadata": {"labels": {APP: name}},
                "spec": pod,
            },
        },
    })
}

/// Ports of a Deployment's container.
fn ports(name: &str) -> Vec<Value> {
    let port = |name: &str, number: u16| json!({"name": name, "containerPort": number});
    let mut ports = vec![port("http-metrics", METRICS), port("probes", PROBES)];
    if name == ADMISSION {
        ports.push(port("webhook", WEBHOOK_PORT));
    }
    ports
}

/// Adds the fields of one object to another.
fn merge(to: &mut Value, from: Value) {
    if let (Some(to), Value::Object(from)) = (to.as_object_mut(), from) {
        to.extend(from);
    }
}

fn service(wanted: Wanted<'_>, name: &str, ports: &Value) -> Value {
    let mut annotations = json!({"prometheus.io/scrape": "true"});
    if wanted.metrics_authentication {
        merge(&mut annotations, json!({"prometheus.io/scheme": "https"}));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {APP: name},
            "annotations": annotations,
        },
        "spec": {"selector": {APP: name}, "ports": ports},
    })
}

fn metrics_service(wanted: Wanted<'_>, name: &str) -> Value {
    let port = json!([{"name": "http-metrics", "port": METRICS, "targetPort": METRICS}]);
    service(wanted, name, &port)
}

/// How the API server reaches admission.
fn admission_service(wanted: Wanted<'_>) -> Value {
    let webhook = json!({"name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT});
    let metrics = json!({"name": "http-metrics", "port": METRICS, "targetPort": METRICS});
    service(wanted, ADMISSION, &json!([webhook, metrics]))
}

/// `kai agent numa` on every node with zones. The kubelet answers to root only.
fn numa_agent(wanted: Wanted<'_>) -> Value {
    let name = NUMA_PLACEMENT_EXPORTER;
    let folder = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path, "type": "Directory"}});
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let container = json!({
        "name": name,
        "image": wanted.image,
        "imagePullPolicy": wanted.pull_policy,
        "args": ["agent", "numa", format!("--podresources-socket={POD_RESOURCES}/kubelet.sock"), format!("--sysfs-root={HOST_SYS}")],
        "env": [{"name": env::NODE_NAME, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [mount("pod-resources", POD_RESOURCES), mount("sys", HOST_SYS)],
        "resources": {
            "requests": {"cpu": SMALL.cpu, "memory": SMALL.memory},
            "limits": {"memory": SMALL.most_memory},
        },
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {APP: name}},
        "spec": {
            "selector": {"matchLabels": {APP: name}},
            "template": {
                "metadata": {"labels": {APP: name}},
                "spec": {
                    "serviceAccountName": name,
                    "nodeSelector": {MEMORY_NUMA: "true"},
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [container],
                    "volumes": [folder("pod-resources", POD_RESOURCES), folder("sys", "/sys")],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::manifests;

    fn names<'a>(objects: &'a [Value], kind: &str) -> BTreeSet<&'a str> {
        let of_kind = objects.iter().filter(|object| object["kind"] == kind);
        of_kind.map(|object| object["metadata"]["name"].as_str().expect("a name")).collect()
    }

    /// Nothing but `kai run` itself.
    fn usual(layout: Layout) -> Wanted<'static> {
        Wanted {
            layout,
            image: "kai:1",
            scheduler_name: SCHEDULER_NAME,
            disruption_budget_delay: "10m",
            queue_authorization: false,
            metrics_authentication: false,
            scale_adjuster: false,
            gpu_memory_reserve_mib: 0,
            observe_processes: None,
            numa_agent: false,
            gpu_sharing: false,
            openshift: false,
            pull_policy: "IfNotPresent",
            replicas: 1,
        }
    }

    fn made(layout: Layout) -> Vec<Value> {
        objects(Wanted { scale_adjuster: true, numa_agent: true, ..usual(layout) })
    }

    #[test]
    fn whatever_runs_has_an_account_that_is_installed() {
        let installed: Vec<Value> = serde_saphyr::from_multiple(&manifests::all()).expect("YAML");
        let accounts = names(&installed, "ServiceAccount");
        for layout in [Layout::Process, Layout::Functions] {
            let made = made(layout);
            for kind in ["Deployment", "DaemonSet"] {
                let running = made.iter().filter(|object| object["kind"] == kind);
                let used: BTreeSet<&str> = running
                    .filter_map(|one| {
                        one["spec"]["template"]["spec"]["serviceAccountName"].as_str()
                    })
                    .collect();
                assert!(!used.is_empty() && used.is_subset(&accounts), "{used:?}");
            }
            assert!(names(&made, "Service").contains("admission"));
        }
        assert_eq!(objects(usual(Layout::Nothing)), Vec::<Value>::new());
    }

    #[test]
    fn admission_has_a_process_and_an_account_of_its_own() {
        let all = made(Layout::Process);
        assert_eq!(names(&all, "Deployment"), BTreeSet::from(["admission", "scheduler"]));
        let deployment = |name: &str| {
            let found = all.iter().find(|object| {
                object["kind"] == "Deployment" && object["metadata"]["name"] == name
            });
            found.expect("a Deployment")["spec"]["template"]["spec"].clone()
        };
        assert_eq!(deployment("admission")["serviceAccountName"], "admission");
        let scheduler = deployment("scheduler");
        let arguments = scheduler["containers"][0]["args"].to_string();
        assert!(
            !arguments.contains("webhook") && !arguments.contains("gpu-sharing"),
            "{arguments}"
        );
        assert!(!scheduler["containers"][0]["ports"].to_string().contains("webhook"));
        let installed: Vec<Value> = serde_saphyr::from_multiple(&manifests::all()).expect("YAML");
        let bound = |object: &&Value| {
            let role = object["roleRef"]["name"].as_str().unwrap_or_default();
            ["kai-admission", "kai-certificate"].contains(&role)
        };
        for binding in installed.iter().filter(bound) {
            let subjects = binding["subjects"].as_array().expect("subjects");
            assert_eq!((subjects.len(), &subjects[0]["name"]), (1, &json!("admission")));
        }
    }

    #[test]
    fn functions_alone_are_all_functions() {
        let all = made(Layout::Functions);
        let wanted: BTreeSet<&str> = Function::ALL.into_iter().map(Function::name).collect();
        assert_eq!(names(&all, "Deployment"), wanted);
        for deployment in all.iter().filter(|object| object["kind"] == "Deployment") {
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["args"][3], deployment["metadata"]["name"]);
            assert_eq!(container["image"], "kai:1");
            assert_eq!(container["env"][0], json!({"name": "KAI_IMAGE", "value": "kai:1"}));
        }
        let usual = objects(usual(Layout::Functions));
        assert!(!names(&usual, "Deployment").contains("node-scale-adjuster"), "it is optional");
        assert!(names(&usual, "DaemonSet").is_empty());
    }

    #[test]
    fn webhooks_equal_the_registrations_of_kai_run_without_the_certificate() {
        let made = made(Layout::Process);
        let validating = names(&made, "ValidatingWebhookConfiguration");
        let wanted = [
            "kai-podgroup-validation-v2alpha2",
            "kai-queue-validation-v2",
            "validating-kai-admission",
        ];
        assert_eq!(validating, wanted.into());
        assert_eq!(names(&made, "MutatingWebhookConfiguration"), ["mutating-kai-admission"].into());
        for hook in
            made.iter().flat_map(|object| object["webhooks"].as_array().into_iter().flatten())
        {
            let client = hook["clientConfig"].as_object().expect("a client");
            assert_eq!(client.keys().collect::<Vec<_>>(), ["service"], "{hook}");
            let of_pods = hook["rules"][0]["resources"][0] == json!("pods");
            assert_eq!(hook["matchConditions"].is_array(), of_pods, "{hook}");
        }
    }

    #[test]
    fn scheduler_name_reaches_every_deployment() {
        let made = objects(Wanted { scheduler_name: "mine", ..usual(Layout::Process) });
        let container = &made[0]["spec"]["template"]["spec"]["containers"][0];
        let argument = json!("--scheduler-name=mine");
        assert!(
            container["args"].as_array().expect("arguments").contains(&argument),
            "{container}"
        );
        let expression = "object.spec.schedulerName == 'mine'";
        let hooks = made.iter().filter(|object| object["kind"] == "MutatingWebhookConfiguration");
        for object in hooks {
            assert_eq!(object["webhooks"][0]["matchConditions"][0]["expression"], expression);
        }
    }

    #[test]
    fn on_openshift_no_pod_has_a_fixed_user_and_every_account_has_constraints() {
        for layout in [Layout::Process, Layout::Functions] {
            let made = objects(Wanted {
                openshift: true,
                scale_adjuster: true,
                numa_agent: true,
                ..usual(layout)
            });
            let constraints: Vec<&Value> = made
                .iter()
                .filter(|object| object["kind"] == "SecurityContextConstraints")
                .collect();
            let users: BTreeSet<&str> = constraints
                .iter()
                .flat_map(|object| object["users"].as_array().into_iter().flatten())
                .filter_map(Value::as_str)
                .collect();
            let running = made.iter().filter(|object| object["spec"]["template"].is_object());
            for object in running {
                let spec = &object["spec"]["template"]["spec"];
                let account = spec["serviceAccountName"].as_str().expect("an account");
                let user = format!("system:serviceaccount:kai-scheduler:{account}");
                assert!(users.contains(user.as_str()), "{user} has no constraints");
                assert!(spec["securityContext"]["runAsUser"].is_null(), "{object}");
            }
            let reservation =
                "system:serviceaccount:kai-resource-reservation:kai-resource-reservation";
            assert!(users.contains(reservation));
        }
        let observing =
            Wanted { openshift: true, observe_processes: Some(true), ..usual(Layout::Process) };
        for (wanted, observes) in
            [(Wanted { openshift: true, ..usual(Layout::Process) }, false), (observing, true)]
        {
            let made = objects(wanted);
            let mut constraints =
                made.iter().filter(|one| one["kind"] == "SecurityContextConstraints");
            let reservation =
                constraints.find(|one| one["metadata"]["name"] == "kai-resource-reservation");
            assert_eq!(reservation.expect("constraints")["allowHostPID"], observes);
        }
        let binder = objects(Wanted { openshift: true, ..usual(Layout::Process) });
        let arguments = &binder[0]["spec"]["template"]["spec"]["containers"][0]["args"];
        let flag = "--resource-reservation-container-security-context=";
        let mut given = arguments.as_array().expect("arguments").iter().filter_map(Value::as_str);
        let security = given.find_map(|one| one.strip_prefix(flag)).expect("the flag");
        assert!(security.contains("runAsNonRoot") && !security.contains("runAsUser"), "{security}");
    }

    #[test]
    fn services_find_their_pods() {
        for layout in [Layout::Process, Layout::Functions] {
            let made = made(layout);
            let deployments = names(&made, "Deployment");
            for service in made.iter().filter(|object| object["kind"] == "Service") {
                let selected = service["spec"]["selector"][APP].as_str().expect("a label");
                assert!(deployments.contains(selected), "{service}");
            }
        }
    }
}
