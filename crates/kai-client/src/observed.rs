//! Objects of watches, decoded once into what is read of them. An object that cannot be decoded is a value too: it names
//! object and field, and the watch goes on with the next.

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kai_api::view::ObjectMeta;
use kai_api::{BindRequest, Config, PodGroup, Queue, SchedulingShard, Topology};
use kai_core::input::{ObjectName, Text};
use kai_translate::Problem;
use kai_translate::decode::decode;
use kai_translate::device_versions::into_v1;
use kai_translate::namespace::Namespace;
use kai_translate::numa::NodeResourceTopology;
use kai_translate::view::{
    CsiDriver, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, PodDisruptionBudget,
    PriorityClass, StorageClass,
};
use serde::Deserialize;
use serde_json::Value;

use crate::kinds::Kind;
use crate::watch::Change;

/// Annotation that repeats a whole object as text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object other than a pod or a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Observed {
    Queue(Box<Queue>),
    PodGroup(Box<PodGroup>),
    BindRequest(Box<BindRequest>),
    Topology(Box<Topology>),
    PriorityClass(Box<PriorityClass>),
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    /// A config map, of which only the name is read.
    ConfigMap,
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    PersistentVolume(Box<PersistentVolume>),
    StorageClass(Box<StorageClass>),
    CsiDriver(Box<CsiDriver>),
    /// Free storage of a class.
    CsiStorageCapacity(Box<CsiStorageCapacity>),
    /// A class of devices.
    DeviceClass(Box<DeviceClass>),
    /// Devices of a driver, in the current version of the API.
    ResourceSlice(Box<ResourceSlice>),
    /// A claim of devices, in the current version of the API.
    ResourceClaim(Box<ResourceClaim>),
    /// NUMA zones of a node.
    NodeResourceTopology(Box<NodeResourceTopology>),
    Namespace(Box<Namespace>),
    RuntimeClass(RuntimeClass),
    /// Settings of NVIDIA's GPU operator.
    ClusterPolicy(Box<ClusterPolicy>),
    /// Settings of the installation.
    Config(Box<Config>),
    /// A part of the cluster.
    SchedulingShard(Box<SchedulingShard>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RuntimeClass {
    /// Name of the container runtime's handler.
    pub handler: String,
}

/// Settings of NVIDIA's GPU operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterPolicy {
    /// The labels hold the version of the operator.
    pub metadata: ObjectMeta,
    /// What the operator sets up.
    pub spec: ClusterPolicySpec,
}

/// What NVIDIA's GPU operator sets up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterPolicySpec {
    /// The container device interface.
    pub cdi: Option<CdiSpec>,
}

/// How NVIDIA's GPU operator sets up the container device interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CdiSpec {
    /// It is set up.
    pub enabled: Option<bool>,
    /// Containers use it without asking.
    pub default: Option<bool>,
}

/// An object that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object.
    pub name: ObjectName,
    /// UID of the object; empty where it has none.
    pub uid: Text,
    /// Field and cause.
    pub problem: Problem,
}

impl Malformed {
    pub fn log(&self) {
        let Problem { object, field, message } = &self.problem;
        tracing::warn!(object, field, "{message}");
    }
}

impl Observed {
    /// Kind of the object.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Queue(_) => Kind::Queue,
            Self::PodGroup(_) => Kind::PodGroup,
            Self::BindRequest(_) => Kind::BindRequest,
            Self::Topology(_) => Kind::Topology,
            Self::PriorityClass(_) => Kind::PriorityClass,
            Self::PodDisruptionBudget(_) => Kind::PodDisruptionBudget,
            Self::ConfigMap => Kind::ConfigMap,
            Self::PersistentVolumeClaim(_) => Kind::PersistentVolumeClaim,
            Self::PersistentVolume(_) => Kind::PersistentVolume,
            Self::StorageClass(_) => Kind::StorageClass,
            Self::CsiDriver(_) => Kind::CsiDriver,
            Self::CsiStorageCapacity(_) => Kind::CsiStorageCapacity,
            Self::DeviceClass(_) => Kind::DeviceClass,
            Self::ResourceSlice(_) => Kind::ResourceSlice,
            Self::ResourceClaim(_) => Kind::ResourceClaim,
            Self::NodeResourceTopology(_) => Kind::NodeResourceTopology,
            Self::Namespace(_) => Kind::Namespace,
            Self::RuntimeClass(_) => Kind::RuntimeClass,
            Self::ClusterPolicy(_) => Kind::ClusterPolicy,
            Self::Config(_) => Kind::Config,
            Self::SchedulingShard(_) => Kind::SchedulingShard,
        }
    }
}

impl Change {
    /// An object of a kind that exists and looks like this.
    pub fn decode(kind: Kind, mut object: Value) -> Self {
        remove_unread(&mut object);
        if kind.is_about_devices() {
            into_v1(&mut object);
        }
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let name = ObjectName::new(text("namespace"), text("name"));
        decoded(kind, name.clone(), &object).unwrap_or_else(|problem| {
            Self::Malformed(Box::new(Malformed { kind, name, uid: text("uid").into(), problem }))
        })
    }

    /// Kind and name of the object that exists.
    pub fn object(&self) -> Option<(Kind, ObjectName)> {
        match self {
            Self::Pod(pod) => Some((Kind::Pod, kai_translate::pod::name(pod))),
            Self::Node(node) => {
                Some((Kind::Node, ObjectName::new("", node.metadata.name.as_str())))
            }
            Self::Object(name, object) => Some((object.kind(), name.clone())),
            Self::Malformed(malformed) => Some((malformed.kind, malformed.name.clone())),
            Self::Gone(..) | Self::Listed(_) | Self::Absent(_) => None,
        }
    }
}

/// What no rule reads and some objects are full of.
fn remove_unread(object: &mut Value) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    metadata.remove("managedFields");
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(LAST_APPLIED);
    }
}

fn decoded(kind: Kind, name: ObjectName, object: &Value) -> Result<Change, Problem> {
    let text = kind.name();
    let observed = match kind {
        Kind::Pod => return Ok(Change::Pod(decode(text, object)?)),
        Kind::Node => return Ok(Change::Node(decode(text, object)?)),
        Kind::Queue => Observed::Queue(decode(text, object)?),
        Kind::PodGroup => Observed::PodGroup(decode(text, object)?),
        Kind::BindRequest => Observed::BindRequest(decode(text, object)?),
        Kind::Topology => Observed::Topology(decode(text, object)?),
        Kind::PriorityClass => Observed::PriorityClass(decode(text, object)?),
        Kind::PodDisruptionBudget => Observed::PodDisruptionBudget(decode(text, object)?),
        Kind::ConfigMap => Observed::ConfigMap,
        Kind::PersistentVolumeClaim => Observed::PersistentVolumeClaim(decode(text, object)?),
        Kind::PersistentVolume => Observed::PersistentVolume(decode(text, object)?),
        Kind::StorageClass => Observed::StorageClass(decode(text, object)?),
        Kind::CsiDriver => Observed::CsiDriver(decode(text, object)?),
        Kind::CsiStorageCapacity => Observed::CsiStorageCapacity(decode(text, object)?),
        Kind::DeviceClass => Observed::DeviceClass(decode(text, object)?),
        Kind::ResourceSlice => Observed::ResourceSlice(decode(text, object)?),
        Kind::ResourceClaim => Observed::ResourceClaim(decode(text, object)?),
        Kind::NodeResourceTopology => Observed::NodeResourceTopology(decode(text, object)?),
        Kind::Namespace => Observed::Namespace(decode(text, object)?),
        Kind::RuntimeClass => Observed::RuntimeClass(decode(text, object)?),
        Kind::ClusterPolicy => Observed::ClusterPolicy(decode(text, object)?),
        Kind::Config => Observed::Config(decode(text, object)?),
        Kind::SchedulingShard => Observed::SchedulingShard(decode(text, object)?),
    };
    Ok(Change::Object(name, observed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_object_names_itself_and_the_field() {
        let object = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": {"name": "team", "uid": "u"}, "spec": {"resources": {"gpu": {"quota": "many"}}}});
        let Change::Malformed(malformed) = Change::decode(Kind::Queue, object) else {
            panic!("decoded")
        };
        assert_eq!(
            (malformed.kind, &*malformed.name.name, &*malformed.uid),
            (Kind::Queue, "team", "u")
        );
        assert_eq!(malformed.problem.object, "Queue team");
        assert_eq!(malformed.problem.field, "spec.resources.gpu.quota");
    }

    #[test]
    fn what_nothing_reads_is_not_kept() {
        let object = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "a", "managedFields": [{"manager": "kubectl"}],
                "annotations": {LAST_APPLIED: "{}", "kept": "yes"}},
            "spec": {"queue": "q"}});
        let Change::Object(name, Observed::PodGroup(group)) =
            Change::decode(Kind::PodGroup, object)
        else {
            panic!("not decoded")
        };
        assert_eq!(name, ObjectName::new("a", "g"));
        assert_eq!(group.metadata.managed_fields, None);
        let annotations = group.metadata.annotations.expect("annotations");
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["kept"]);
    }

    #[test]
    fn every_kind_keeps_kind_and_name() {
        let all = Kind::ALL.into_iter().chain([
            Kind::RuntimeClass,
            Kind::ClusterPolicy,
            Kind::Config,
            Kind::SchedulingShard,
        ]);
        for kind in all {
            let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {"name": "o"}, "spec": {}});
            let name = Change::decode(kind, object).object();
            assert_eq!(name, Some((kind, ObjectName::new("", "o"))), "{}", kind.name());
        }
    }
}
