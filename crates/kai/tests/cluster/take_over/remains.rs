//! Objects as a running KAI leaves them: those of its chart, of its operator, of its scheduler and of its binder.

use kai_testenv::objects;
use serde_json::{Value, json};

use super::{NAMESPACE, RELEASE};
use crate::world::World;

/// Namespaced path of objects of the core group.
fn core(namespace: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";
/// Components that KAI's operator deploys for `Config`.
const OPERANDS: [&str; 5] =
    ["admission", "binder", "pod-grouper", "podgroup-controller", "queue-controller"];
/// Leases of KAI's components: scheduler, binder, pod grouper, pod group and queue controllers.
pub(super) const LEASES: [&str; 5] = [
    "kai-scheduler",
    "2ad35f9c.kai.scheduler",
    "54dff599.kai.scheduler",
    "o1x22tjj.kai.scheduler",
    "ov3xj497.kai.scheduler",
];

/// Names that differ between releases of KAI.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub(super) queue_label: &'static str,
    /// Namespace, account and app label of reservation pods.
    pub(super) reservations: &'static str,
    /// Container of reservation pods.
    container: &'static str,
    /// What follows the name of the pod in that of its bind request.
    request_suffix: &'static str,
}

/// From 0.6 on.
pub(super) const CURRENT: Names = Names {
    queue_label: "kai.scheduler/queue",
    reservations: "kai-resource-reservation",
    container: "resource-reservation",
    request_suffix: "",
};

/// Before 0.6.
pub(super) const OLD: Names = Names {
    queue_label: "runai/queue",
    reservations: "runai-reservation",
    container: "runai-reservation",
    request_suffix: "-x7k2m9qwzt",
};

/// How far KAI's binder came with a bind request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It did nothing yet.
    Pending,
    /// It failed for good.
    Failed,
}

/// What KAI leaves in the namespace of a world.
pub(super) struct Remains<'a> {
    pub(super) world: &'a World,
    pub(super) names: Names,
}

impl Remains<'_> {
    /// Queues as administrators make them where the chart does not.
    pub(super) async fn queues(&self) {
        let open = json!({"quota": 0, "limit": -1, "overQuotaWeight": 1});
        let resources = json!({"gpu": open, "cpu": open, "memory": open});
        for (name, parent) in [("default", None), ("default-queue", Some("default"))] {
            let queue = json!({
                "apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
                "metadata": {"name": name}, "spec": {"parentQueue": parent, "resources": resources},
            });
            self.world.create("/apis/scheduling.run.ai/v2/queues", &queue).await;
        }
    }

    /// A node that advertises GPUs, with the labels of NVIDIA's feature discovery.
    pub(super) async fn node(&self, name: &str, advertised: u32, physical: u32) {
        let amounts = json!({"cpu": "16", "memory": "32Gi", "pods": "50", "nvidia.com/gpu": advertised.to_string()});
        self.world.node(name, amounts).await;
        let labels = json!({"nvidia.com/gpu.count": physical.to_string(), "nvidia.com/gpu.memory": "40000", "disk": name});
        let path = format!("/api/v1/nodes/{}", self.node_name(name));
        self.world.patch(&path, &json!({"metadata": {"labels": labels}})).await;
    }

    pub(super) fn node_name(&self, name: &str) -> String {
        format!("{}-{name}", self.world.name)
    }

    /// A reservation pod that keeps a device of a node for a group.
    pub(super) async fn reservation(&self, node: &str, group: &str, device: u32) {
        let Names { reservations, container, .. } = self.names;
        let device = format!("{}-{device}", self.node_name(node));
        let gpu = json!({"nvidia.com/gpu": "1"});
        let pod = json!({
            "metadata": {
                "name": format!("gpu-reservation-{group}"),
                "labels": {"app": reservations, "runai-gpu-group": group},
                "annotations": {"karpenter.sh/do-not-disrupt": "true", "run.ai/reserve_for_gpu_index": device},
            },
            "spec": {
                "nodeName": self.node_name(node),
                "serviceAccountName": reservations,
                "containers": [{"name": container, "image": "registry.example/kai/resource-reservation:v0.17.0",
                    "resources": {"requests": gpu, "limits": gpu}}],
            },
        });
        let path = core(reservations, "pods");
        self.world.create(&path, &pod).await;
        self.runs(&format!("{path}/gpu-reservation-{group}")).await;
    }

    /// A pod of KAI's scheduler, as its admission and its grouper leave it.
    pub(super) fn pod(&self, name: &str, annotations: &Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {self.names.queue_label: "default-queue"}, "annotations": annotations},
            "spec": {"schedulerName": RELEASE,
                "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}}]},
        });
        if annotations["gpu-fraction"].is_string() || annotations["gpu-memory"].is_string() {
            objects::add_share_references(&mut pod);
        }
        pod
    }

    /// Creates a pod and the pod group that KAI's grouper makes for it.
    pub(super) async fn create(&self, pod: &Value) -> Value {
        let made = self.world.create(&core(self.world.name, "pods"), pod).await;
        let (name, uid) = (&made["metadata"]["name"], &made["metadata"]["uid"]);
        let group =
            format!("pg-{}-{}", name.as_str().expect("a name"), uid.as_str().expect("a UID"));
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        let object = json!({
            "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": group, "ownerReferences": [owner], "labels": made["metadata"]["labels"]},
            "spec": {"queue": "default-queue", "minMember": 1, "priorityClassName": made["metadata"]["labels"]["priorityClassName"]},
        });
        let groups =
            format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", self.world.name);
        self.world.create(&groups, &object).await;
        let path = format!("{}/{}", core(self.world.name, "pods"), name.as_str().expect("a name"));
        let annotations = json!({"metadata": {"annotations": {"pod-group-name": group}}});
        self.world.patch(&path, &annotations).await
    }

    /// A pod that KAI bound: it runs on a node, and what it was given is on it.
    pub(super) async fn running(&self, name: &str, node: &str, group: Option<&str>, asks: &Value) {
        let mut pod = self.pod(name, asks);
        pod["spec"]["nodeName"] = json!(self.node_name(node));
        // Of a pod that may be evicted, consolidation would free a device.
        pod["metadata"]["labels"]["priorityClassName"] = json!("build");
        let received = if group.is_some() { "Fraction" } else { "Regular" };
        pod["metadata"]["annotations"]["received-resource-type"] = json!(received);
        if let Some(group) = group {
            pod["metadata"]["labels"]["runai-gpu-group"] = json!(group);
        } else {
            let gpu = json!({"nvidia.com/gpu": "1"});
            pod["spec"]["containers"][0]["resources"] = json!({"requests": gpu, "limits": gpu});
        }
        self.create(&pod).await;
        self.runs(&format!("{}/{name}", core(self.world.name, "pods"))).await;
    }

    async fn runs(&self, path: &str) {
        let main = json!({"name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
        let status = json!({"phase": "Running", "containerStatuses": [main],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]});
        self.world.patch(&format!("{path}/status"), &json!({"status": status})).await;
    }

    /// A bind request of KAI's scheduler for a pod that may exist. KAI before 0.18 lists groups as texts.
    pub(super) async fn request(
        &self,
        pod: &str,
        node: &str,
        group: Option<&str>,
        progress: Progress,
    ) {
        let path = format!("{}/{pod}", core(self.world.name, "pods"));
        let made = self.world.get(&path).await.unwrap_or_default();
        let uid =
            made["metadata"]["uid"].as_str().unwrap_or("0d7c9e7e-0000-4000-8000-000000000000");
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}]);
        let node = self.node_name(node);
        let (kind, gpu) = match group {
            Some(_) => ("Fraction", json!({"count": 1, "portion": "0.50"})),
            None => ("Regular", json!({"count": 0, "portion": "0.00"})),
        };
        let name = format!("{pod}{}", self.names.request_suffix);
        let request = json!({
            "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
            "metadata": {"name": name, "labels": {"selected-node": node, "pod-name": pod}, "ownerReferences": owner},
            "spec": {"podName": pod, "selectedNode": node, "receivedResourceType": kind, "receivedGPU": gpu,
                "selectedGPUGroups": group.map(|group| vec![group])},
        });
        let requests = self.requests_path();
        self.world.create(&requests, &request).await;
        if progress == Progress::Failed {
            let status = json!({"phase": "Failed", "reason": "failed waiting for GPU reservation pod to allocate"});
            self.world
                .patch(&format!("{requests}/{name}/status"), &json!({"status": status}))
                .await;
        }
    }

    /// A bind request as KAI 0.18 writes it.
    pub(super) async fn request_of_groups(&self, pod: &str, node: &str, groups: &Value) {
        let node = self.node_name(node);
        let request = json!({
            "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
            "metadata": {"name": pod, "labels": {"selected-node": node}},
            "spec": {"podName": pod, "selectedNode": node, "receivedResourceType": "Fraction",
                "receivedGPU": {"count": 1, "portion": "0.50"}, "selectedFractionalGpuGroups": groups},
        });
        self.world.create(&self.requests_path(), &request).await;
    }

    pub(super) fn requests_path(&self) -> String {
        format!("/apis/scheduling.run.ai/v1alpha2/namespaces/{}/bindrequests", self.world.name)
    }

    /// What KAI's operator makes for `Config` and the default shard, the webhooks last: they deny pods from then on.
    pub(super) async fn operator(&self, config: &Value) {
        let configs = "/apis/kai.scheduler/v1/configs";
        let config = self.world.create(configs, config).await;
        let shards = "/apis/kai.scheduler/v1/schedulingshards/default";
        let shard = self.world.get(shards).await.expect("the shard of the chart");
        let of = |kind: &str, owner: &Value, name: &str| {
            json!({"name": name, "labels": {"app": name, "app.kubernetes.io/managed-by": "kai-operator"},
                "ownerReferences": [{"apiVersion": "kai.scheduler/v1", "kind": kind, "controller": true, "blockOwnerDeletion": true,
                    "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]})
        };
        let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        for name in OPERANDS {
            let metadata = of("Config", &config, name);
            self.world
                .create(&core(NAMESPACE, "serviceaccounts"), &json!({"metadata": metadata}))
                .await;
            self.world.create(&deployments, &deployment(&metadata, name, name)).await;
            let ports = json!([{"name": "webhook", "port": 443, "targetPort": 9443}]);
            let service =
                json!({"metadata": metadata, "spec": {"selector": {"app": name}, "ports": ports}});
            self.world.create(&core(NAMESPACE, "services"), &service).await;
        }
        let account = of("Config", &config, "scheduler");
        self.world.create(&core(NAMESPACE, "serviceaccounts"), &json!({"metadata": account})).await;
        let scheduler = of("SchedulingShard", &shard, "kai-scheduler-default");
        self.world
            .create(&deployments, &deployment(&scheduler, "kai-scheduler-default", "scheduler"))
            .await;
        for name in [
            "kai-admission-webhook-tls-secret",
            "queue-webhook-tls-secret",
            "podgroup-webhook-tls-secret",
        ] {
            let data = json!({"tls.crt": "UEVN", "tls.key": "UEVN"});
            let secret = json!({"metadata": of("Config", &config, name), "data": data});
            self.world.create(&core(NAMESPACE, "secrets"), &secret).await;
        }
        for (plural, name, hooks) in webhooks() {
            let object = json!({"metadata": of("Config", &config, name), "webhooks": hooks});
            self.world.create(&format!("{HOOKS}/{plural}"), &object).await;
        }
    }

    /// Leases that KAI's replicas held until they were stopped: KAI does not release them.
    pub(super) async fn leases(&self) {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        for name in LEASES {
            let spec = json!({"holderIdentity": "kai-abc_0d7c", "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 3});
            self.world.create(&path, &json!({"metadata": {"name": name}, "spec": spec})).await;
        }
    }
}

fn deployment(metadata: &Value, name: &str, account: &str) -> Value {
    let container = json!({"name": name, "image": format!("registry.example/kai/{name}:v0.17.0"), "args": ["--scheduler-name=kai-scheduler"]});
    json!({
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"serviceAccountName": account, "containers": [container]}},
        },
    })
}

/// KAI's registrations: plural, name, hooks.
fn webhooks() -> Vec<(&'static str, &'static str, Value)> {
    let hook = |name: &str, service: &str, path: &str, rule: Value| {
        json!([{
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"caBundle": "UEVN", "service": {"namespace": NAMESPACE, "name": service, "path": path}},
            "rules": [rule],
        }])
    };
    let pods = |operations: &[&str]| json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"], "scope": "Namespaced"});
    let of_ours = |mut hooks: Value| {
        let names = json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}]);
        hooks[0]["namespaceSelector"] = json!({"matchExpressions": names});
        hooks[0]["matchConditions"] = json!([{"name": "scheduler-name-match", "expression": "object.spec.schedulerName == 'kai-scheduler'"}]);
        hooks
    };
    let kinds = |version: &str, plural: &str| json!({"apiGroups": ["scheduling.run.ai"], "apiVersions": [version], "operations": ["CREATE", "UPDATE"], "resources": [plural]});
    let service = "admission.kai-scheduler.svc";
    let validating = "validatingwebhookconfigurations";
    vec![
        (
            "mutatingwebhookconfigurations",
            "mutating-kai-admission",
            of_ours(hook(service, "admission", "/mutate--v1-pod", pods(&["CREATE"]))),
        ),
        (
            validating,
            "validating-kai-admission",
            of_ours(hook(service, "admission", "/validate--v1-pod", pods(&["CREATE", "UPDATE"]))),
        ),
        (
            validating,
            "kai-queue-validation-v2",
            hook(
                "queue-validation.kai.scheduler",
                "queue-controller",
                "/validate-scheduling-run-ai-v2-queue",
                kinds("v2", "queues"),
            ),
        ),
        (
            validating,
            "kai-podgroup-validation-v2alpha2",
            hook(
                "podgroup-validation.kai.scheduler",
                "podgroup-controller",
                "/validate-scheduling-run-ai-v2alpha2-podgroup",
                kinds("v2alpha2", "podgroups"),
            ),
        ),
    ]
}
