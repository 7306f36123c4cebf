//! What the API shows.

mod installation;
mod nodes;
mod objects;
mod reservations;
mod runtime;
mod take_over;
mod tegra;
mod webhooks;
mod workloads;

use std::collections::BTreeMap;

use kai_api::gpu_request::GpuAnnotations;
use kai_api::names::{gpu, legacy, objects as names};
use serde::Deserialize;
use serde_json::Value;

use crate::check::Check;
use crate::finding::{Finding, Findings, Severity};
use objects::{
    ClusterPolicy, Config, Deployment, EndpointSlice, Event, Named, Node, Pod, Role, RoleBinding,
    WebhookConfiguration,
};

/// Containers of reservation pods: ours and KAI's, and those of KAI before 0.6.
const RESERVATION_CONTAINERS: [&str; 2] =
    [names::RESERVATION_CONTAINER, legacy::RESERVATION_NAMESPACE];

/// Puts everything of ours into a cluster, or puts it right.
const INSTALL: &str = "kai manifests | kubectl apply --server-side -f -";

/// What one has to know of the installation.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: String,
    /// Label that names the queue of a workload.
    pub queue_label: String,
    /// Namespace of the installation.
    pub namespace: String,
    /// Where reservation pods are.
    pub reservation_namespace: String,
    /// What is installed, by kind: the objects that `kai manifests` prints.
    pub manifests: Vec<Value>,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            scheduler_name: "kai-scheduler".to_owned(),
            queue_label: "kai.scheduler/queue".to_owned(),
            namespace: "kai-scheduler".to_owned(),
            reservation_namespace: "kai-resource-reservation".to_owned(),
            manifests: Vec::new(),
        }
    }
}

/// A list of the API server that checks need: where it is, and the name of its part of [`ClusterFacts`].
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The name of the list among the facts.
    pub part: &'static str,
    /// The path of the list.
    pub path: &'static str,
    /// Clusters may not know the kind at all.
    pub optional: bool,
}

const fn always(part: &'static str, path: &'static str) -> Listing {
    Listing { part, path, optional: false }
}

const fn if_known(part: &'static str, path: &'static str) -> Listing {
    Listing { part, path, optional: true }
}

/// Every list that checks need.
pub const LISTINGS: [Listing; 19] = [
    always("nodes", "/api/v1/nodes"),
    always("pods", "/api/v1/pods"),
    always("namespaces", "/api/v1/namespaces"),
    always("accounts", "/api/v1/serviceaccounts"),
    always("events", "/api/v1/events"),
    always("runtimeClasses", "/apis/node.k8s.io/v1/runtimeclasses"),
    always("definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    always("clusterRoles", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    always("clusterRoleBindings", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    always("roles", "/apis/rbac.authorization.k8s.io/v1/roles"),
    always("roleBindings", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    always("mutating", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    always("validating", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
    always("deployments", "/apis/apps/v1/deployments"),
    always("endpointSlices", "/apis/discovery.k8s.io/v1/endpointslices"),
    if_known("queues", "/apis/scheduling.run.ai/v2/queues"),
    if_known("bindRequests", "/apis/scheduling.run.ai/v1alpha2/bindrequests"),
    if_known("configs", "/apis/kai.scheduler/v1/configs"),
    if_known("clusterPolicies", "/apis/nvidia.com/v1/clusterpolicies"),
];

/// What is known of a cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterFacts {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    namespaces: Vec<Named>,
    accounts: Vec<Named>,
    events: Vec<Event>,
    runtime_classes: Vec<Named>,
    definitions: Vec<Named>,
    cluster_roles: Vec<Role>,
    cluster_role_bindings: Vec<RoleBinding>,
    roles: Vec<Role>,
    role_bindings: Vec<RoleBinding>,
    mutating: Vec<WebhookConfiguration>,
    validating: Vec<WebhookConfiguration>,
    deployments: Vec<Deployment>,
    endpoint_slices: Vec<EndpointSlice>,
    queues: Vec<Named>,
    bind_requests: Vec<Value>,
    configs: Vec<Config>,
    cluster_policies: Vec<ClusterPolicy>,
    /// What reservation pods that name no device logged last, by `namespace/name`.
    logs: BTreeMap<String, String>,
    /// Paths of lists that could not be read, and why.
    unreadable: BTreeMap<String, String>,
}

impl ClusterFacts {
    /// Reads lists as the API server gives them, by the names of [`LISTINGS`].
    pub fn read(mut lists: Value) -> Result<Self, serde_json::Error> {
        drop_nulls(&mut lists);
        serde_json::from_value(lists)
    }

    /// Records the log of a reservation pod.
    pub fn add_log(&mut self, pod: String, log: String) {
        self.logs.insert(pod, log);
    }

    /// Records that a list could not be read.
    pub fn add_unreadable(&mut self, path: &str, why: String) {
        self.unreadable.insert(path.to_owned(), why);
    }

    /// Namespaces and names of reservation pods whose logs may explain why they name no device.
    pub fn silent_reservations(&self, expected: &Expectations) -> Vec<(String, String)> {
        let silent = self.reservations(expected).filter(|pod| device_of(pod).is_none());
        silent.map(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone())).collect()
    }

    fn reservations(&self, expected: &Expectations) -> impl Iterator<Item = &Pod> {
        let namespace = expected.reservation_namespace.clone();
        self.pods.iter().filter(move |pod| {
            pod.metadata.namespace == namespace
                && pod
                    .spec
                    .containers
                    .iter()
                    .any(|one| RESERVATION_CONTAINERS.contains(&&*one.name))
        })
    }

    /// Whether a list was read, by its name in [`LISTINGS`]. What is absent from a list that could not be read may well
    /// exist.
    fn was_read(&self, part: &str) -> bool {
        let mut listings = LISTINGS.iter().filter(|listing| listing.part == part);
        listings.all(|listing| !self.unreadable.contains_key(listing.path))
    }

    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.metadata.name == name)
    }
}

/// The API server writes null where there is nothing; to us it is not there.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The device that a reservation pod says it keeps.
fn device_of(pod: &Pod) -> Option<&str> {
    let device = pod.metadata.annotations.get(gpu::RESERVED_DEVICE)?;
    (!device.is_empty()).then_some(device.as_str())
}

/// Whether the pod requests a GPU share.
fn wants_share(pod: &Pod) -> bool {
    GpuAnnotations::of(&pod.metadata.annotations).request_share()
}

/// It has not ended.
fn is_live(pod: &Pod) -> bool {
    !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
}

/// Runs every check of the cluster; findings are sorted, errors first.
pub fn examine(facts: &ClusterFacts, expected: &Expectations) -> Findings {
    let mut all = Vec::new();
    all.extend(facts.unreadable.iter().map(|(path, why)| unreadable(path, why)));
    all.extend(nodes::findings(facts));
    all.extend(runtime::findings(facts, expected));
    all.extend(reservations::findings(facts, expected));
    all.extend(tegra::findings(facts, expected));
    all.extend(webhooks::findings(facts, expected));
    all.extend(installation::findings(facts, expected));
    all.extend(workloads::findings(facts, expected));
    all.extend(take_over::findings(facts, expected));
    Findings::of(all)
}

fn unreadable(path: &str, why: &str) -> Finding {
    Finding {
        check: Check::Unreadable,
        severity: Severity::Warning,
        object: path.to_owned(),
        message: format!("the list cannot be read, so checks that need it are skipped: {why}"),
        fix: "kai doctor --kubeconfig FILE  # with a user that may list it".to_owned(),
    }
}
