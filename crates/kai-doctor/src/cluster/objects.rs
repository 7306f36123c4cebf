//! The fields of objects that checks read.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Labels, annotations, amounts.
pub(crate) type Texts = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: Texts,
    pub(crate) annotations: Texts,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) owner_references: Vec<Owner>,
}

/// The object that another one goes with.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: String,
}

impl Metadata {
    /// `namespace/name`.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// An object that is read by name only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) metadata: Metadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: Metadata,
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeStatus {
    pub(crate) allocatable: Texts,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeInfo {
    pub(crate) architecture: String,
    pub(crate) kernel_version: String,
    pub(crate) kubelet_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) scheduler_name: String,
    pub(crate) node_name: String,
    pub(crate) containers: Vec<Container>,
    pub(crate) volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deployment {
    pub(crate) metadata: Metadata,
    pub(crate) spec: DeploymentSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i64>,
    pub(crate) template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    pub(crate) spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) image_pull_policy: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<Variable>,
    pub(crate) security_context: Security,
    pub(crate) volume_mounts: Vec<VolumeMount>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Security {
    pub(crate) privileged: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeMount {
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) host_path: Option<HostPath>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HostPath {
    pub(crate) path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) state: ContainerState,
    pub(crate) last_state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) waiting: Option<StateReason>,
    pub(crate) terminated: Option<StateReason>,
}

/// Reason and message of a container state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StateReason {
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Event {
    pub(crate) involved_object: InvolvedObject,
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InvolvedObject {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WebhookConfiguration {
    pub(crate) metadata: Metadata,
    pub(crate) webhooks: Vec<Webhook>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Webhook {
    pub(crate) client_config: ClientConfig,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    pub(crate) ca_bundle: String,
    pub(crate) service: Option<ServiceRef>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceRef {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointSlice {
    pub(crate) metadata: Metadata,
    pub(crate) endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endpoint {
    pub(crate) conditions: EndpointConditions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointConditions {
    pub(crate) ready: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Role {
    pub(crate) metadata: Metadata,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) verbs: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RoleBinding {
    pub(crate) metadata: Metadata,
    pub(crate) role_ref: RoleRef,
    pub(crate) subjects: Vec<Subject>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct RoleRef {
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

/// The GPU operator's policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterPolicy {
    pub(crate) metadata: Metadata,
    pub(crate) spec: ClusterPolicySpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterPolicySpec {
    pub(crate) cdi: Cdi,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cdi {
    pub(crate) enabled: bool,
    pub(crate) default: bool,
}

/// The `Config` of the installation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) metadata: Metadata,
    pub(crate) spec: ConfigSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigSpec {
    pub(crate) binder: ConfigBinder,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConfigBinder {
    pub(crate) cdi_enabled: Option<bool>,
    pub(crate) resource_reservation: ConfigReservation,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConfigReservation {
    pub(crate) kubelet_pod_resources: String,
}
