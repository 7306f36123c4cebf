//! Objects other than pods into the world.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass};
use kai_api::{BindRequest, PodGroup, Queue, Topology};
use kai_client::kinds::Kind;
use kai_core::input::storage::StorageKey;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, StorageObject};
use kai_core::time::Timestamp;
use kai_translate::decode::decode;
use kai_translate::numa::NodeResourceTopology;
use kai_translate::{Translated, budget, numa, pod_group, queue, storage, topology};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pods::PodEntry;
use super::{Planner, complain};

impl Planner {
    pub(super) fn set_object(&mut self, kind: Kind, object: &Value) {
        match kind {
            Kind::Pod | Kind::Node => {} // these come decoded
            Kind::Queue => self.set_queue(object),
            Kind::PodGroup => self.set_pod_group(object),
            Kind::PriorityClass => self.set_class(object),
            Kind::BindRequest => self.set_bind_request(object),
            Kind::ConfigMap => {
                let name = object_name(object);
                self.tell(Delta::Set(Object::ConfigMap(name)));
            }
            Kind::Namespace => self.set_namespace(object),
            Kind::CsiDriver => self.set_driver(object),
            Kind::PersistentVolumeClaim => self.set_volume_claim(object),
            Kind::DeviceClass => self.set_device_class(object),
            Kind::ResourceSlice => self.set_slice(object),
            Kind::ResourceClaim => self.set_device_claim(object),
            _ => {
                if let Some(object) = translated(kind, object) {
                    self.tell(Delta::Set(object));
                } else if let Some(key) = key(kind, object_name(object)) {
                    self.forget_object(key);
                }
            }
        }
    }

    pub(super) fn remove_object(&mut self, kind: Kind, name: ObjectName) {
        match kind {
            Kind::PriorityClass => {
                if self.classes.remove(&name.name) {
                    self.classes_changed();
                }
            }
            Kind::PodGroup => {
                self.groups.remove(&name);
                self.metrics.forget_group(&name);
                self.forget_object(ObjectKey::PodGroup(name.clone()));
                if let Some(pod) = self.own_groups.get(&name).cloned() {
                    self.tell_own_group(&pod);
                }
                self.group_anew(&name);
            }
            Kind::BindRequest => self.bind_request_gone(&name),
            _ => {
                if kind == Kind::PersistentVolumeClaim {
                    self.filled_claims.remove(&name);
                }
                if kind == Kind::Node {
                    self.lose_node(&name.name);
                }
                if kind == Kind::Namespace {
                    self.namespaces.remove(&name.name);
                }
                if kind == Kind::Queue {
                    self.lose_queue_access(&name.name);
                }
                self.lose_device_object(kind, &name);
                if let Some(key) = key(kind, name) {
                    self.forget_object(key);
                }
            }
        }
    }

    fn set_queue(&mut self, object: &Value) {
        let Some(typed) = decoded::<Queue>(Kind::Queue, object) else { return };
        let labels = typed.metadata.labels.clone().unwrap_or_default();
        self.metrics.see_queue(&object_name(object).name, &labels);
        let annotations = typed.metadata.annotations.clone().unwrap_or_default();
        let parent = typed.spec.parent_queue.as_deref().filter(|parent| !parent.is_empty());
        let parent = parent.map(Into::into);
        self.set_queue_access(object_name(object).name, parent, &annotations);
        let spec = Self::heard(queue::translate(&typed));
        match spec.filter(|_| self.settings.partition.holds(&labels)) {
            Some(spec) => self.tell(Delta::Set(Object::Queue(spec))),
            None => self.forget_object(ObjectKey::Queue(object_name(object).name)),
        }
    }

    fn set_pod_group(&mut self, object: &Value) {
        let name = object_name(object);
        let Some(typed) = decoded::<PodGroup>(Kind::PodGroup, object) else { return };
        let labels = typed.metadata.labels.clone().unwrap_or_default();
        if !self.settings.partition.holds(&labels) {
            self.remove_object(Kind::PodGroup, name);
            return;
        }
        self.groups.insert(name.clone(), typed);
        self.tell_group(&name);
        self.join_own_group(&name);
    }

    /// Tells the world of a group that is an object.
    pub(super) fn tell_group(&mut self, name: &ObjectName) {
        let Some(group) = self.groups.get(name) else { return };
        let spec = pod_group::translate(group, &self.classes, &self.settings.partition);
        let half_bound = self.has_failed_binds(name);
        let waits_since = self.pod_that_is(group).map(|pod| pod.base.created);
        if let Some(mut spec) = Self::heard(spec) {
            let class = group.spec.priority_class_name.as_deref();
            spec.denied = self.queue_denial(name, &spec.queue, class);
            spec.created = waits_since.map_or(spec.created, |since| since.min(spec.created));
            // A group may be written after its pods were bound: nobody marked when it started.
            spec.last_start = spec.last_start.or_else(|| self.latest_start(name));
            spec.half_bound = half_bound;
            self.tell(Delta::Set(Object::PodGroup(Box::new(spec))));
        }
    }

    /// When the last member of a group started.
    fn latest_start(&self, group: &ObjectName) -> Option<Timestamp> {
        let members = self.members.get(group).into_iter().flatten();
        let members = members.chain(self.own_groups.get(group));
        members.filter_map(|pod| self.pods.get(pod)?.started()).max()
    }

    /// The pod that is the whole group, where there is one. The object of such a group is written when the pod has waited
    /// for a while; its place in the line is that of the pod.
    pub(super) fn pod_that_is(&self, group: &PodGroup) -> Option<&PodEntry> {
        let metadata = &group.metadata;
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.kind == "Pod" && owner.api_version == "v1")?;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let pod = self.pods.get(&ObjectName::new(namespace, owner.name.as_str()))?;
        (*pod.base.uid == *owner.uid).then_some(pod)
    }

    fn set_class(&mut self, object: &Value) {
        let Some(class) = decoded::<PriorityClass>(Kind::PriorityClass, object) else { return };
        if self.classes.set(&class) {
            self.classes_changed();
        }
    }

    /// Priorities are read anew.
    fn classes_changed(&mut self) {
        self.facts.priority_classes = self.classes.names().cloned().collect();
        self.tell_all_groups();
    }

    /// Tells the world of every group anew.
    pub(super) fn tell_all_groups(&mut self) {
        let groups: Vec<ObjectName> = self.groups.keys().cloned().collect();
        for group in groups {
            self.tell_group(&group);
        }
        let pods: Vec<ObjectName> = self.pods.keys().cloned().collect();
        for pod in pods {
            self.tell_own_group(&pod);
        }
    }

    fn set_bind_request(&mut self, object: &Value) {
        let Some(typed) = decoded::<BindRequest>(Kind::BindRequest, object) else { return };
        let mut pod = object_name(object);
        // Earlier releases of KAI gave requests names of their own.
        if let Some(named) = typed.spec.pod_name.as_deref().filter(|named| !named.is_empty()) {
            pod.name = named.into();
        }
        self.bind_requests.insert(pod.clone(), typed);
        self.tell_bind_request(&pod);
    }

    fn set_volume_claim(&mut self, object: &Value) {
        let kind = Kind::PersistentVolumeClaim;
        let name = object_name(object);
        self.filled_claims.remove(&name);
        match plain::<PersistentVolumeClaim, _>(kind, object, storage::claim) {
            Some(spec) => {
                if spec.volume.is_some() && object["status"]["phase"] == "Bound" {
                    self.filled_claims.insert(name);
                }
                self.tell(Delta::Set(Object::Storage(StorageObject::Claim(spec))));
            }
            None => self.forget_object(ObjectKey::Storage(StorageKey::Claim(name))),
        }
    }

    fn set_driver(&mut self, object: &Value) {
        let Some(typed) = decoded::<CSIDriver>(Kind::CsiDriver, object) else { return };
        let name = object_name(object).name;
        match storage::driver(&typed) {
            Some(_) => self.tell(Delta::Set(Object::Storage(StorageObject::Driver(name)))),
            None => self.forget_object(ObjectKey::Storage(StorageKey::Driver(name))),
        }
    }
}

/// The object as its type; what is wrong with it is said.
pub(super) fn decoded<T: DeserializeOwned>(kind: Kind, object: &Value) -> Option<T> {
    decode(kind.name(), object).map_err(|problem| complain(&problem)).ok()
}

/// Objects that are translated one by one, without regard to others.
fn translated(kind: Kind, object: &Value) -> Option<Object> {
    match kind {
        Kind::Topology => {
            plain::<Topology, _>(kind, object, topology::translate).map(Object::Topology)
        }
        Kind::PodDisruptionBudget => {
            plain::<PodDisruptionBudget, _>(kind, object, budget::translate).map(Object::Budget)
        }
        Kind::PersistentVolume => plain::<PersistentVolume, _>(kind, object, storage::volume)
            .map(|spec| Object::Storage(StorageObject::Volume(spec))),
        Kind::StorageClass => plain::<StorageClass, _>(kind, object, storage::class)
            .map(|spec| Object::Storage(StorageObject::Class(spec))),
        Kind::CsiStorageCapacity => plain::<CSIStorageCapacity, _>(kind, object, storage::capacity)
            .map(|spec| Object::Storage(StorageObject::Capacity(spec))),
        Kind::NodeResourceTopology => {
            plain::<NodeResourceTopology, _>(kind, object, numa::translate).map(Object::Numa)
        }
        _ => None,
    }
}

fn plain<T: DeserializeOwned, U>(
    kind: Kind,
    object: &Value,
    translate: impl FnOnce(&T) -> Translated<U>,
) -> Option<U> {
    Planner::heard(translate(&decoded::<T>(kind, object)?))
}

/// The planner's name of an object; none for kinds it does not keep under a name.
fn key(kind: Kind, name: ObjectName) -> Option<ObjectKey> {
    Some(match kind {
        Kind::Node => ObjectKey::Node(name.name),
        Kind::Queue => ObjectKey::Queue(name.name),
        Kind::BindRequest => ObjectKey::BindRequest(name),
        Kind::Topology => ObjectKey::Topology(name.name),
        Kind::PodDisruptionBudget => ObjectKey::Budget(name),
        Kind::ConfigMap => ObjectKey::ConfigMap(name),
        Kind::Namespace => ObjectKey::Namespace(name.name),
        Kind::PersistentVolumeClaim => ObjectKey::Storage(StorageKey::Claim(name)),
        Kind::PersistentVolume => ObjectKey::Storage(StorageKey::Volume(name.name)),
        Kind::StorageClass => ObjectKey::Storage(StorageKey::Class(name.name)),
        Kind::CsiDriver => ObjectKey::Storage(StorageKey::Driver(name.name)),
        Kind::CsiStorageCapacity => ObjectKey::Storage(StorageKey::Capacity(name)),
        Kind::DeviceClass => ObjectKey::DeviceClass(name.name),
        Kind::ResourceSlice => ObjectKey::Slice(name.name),
        Kind::ResourceClaim => ObjectKey::Claim(name),
        Kind::NodeResourceTopology => ObjectKey::Numa(name.name),
        Kind::Pod
        | Kind::PodGroup
        | Kind::PriorityClass
        | Kind::RuntimeClass
        | Kind::ClusterPolicy
        | Kind::Config
        | Kind::SchedulingShard => return None,
    })
}

pub(super) fn object_name(object: &Value) -> ObjectName {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    ObjectName::new(text("namespace"), text("name"))
}
