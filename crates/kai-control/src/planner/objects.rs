//! Objects other than pods into the world.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::CSIDriver;
use kai_api::{BindRequest, PodGroup, Queue};
use kai_client::kinds::Kind;
use kai_client::observed::{Malformed, Observed};
use kai_core::input::storage::StorageKey;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, StorageObject, Text};
use kai_core::time::Timestamp;
use kai_translate::{budget, numa, pod_group, queue, storage, topology};

use super::pods::PodEntry;
use super::{Planner, complain};
use crate::status::problems::summary;

impl Planner {
    pub(super) fn set_object(&mut self, name: ObjectName, object: Observed) {
        match object {
            Observed::Queue(queue) => self.set_queue(&name, &queue),
            Observed::PodGroup(group) => self.set_pod_group(name, *group),
            Observed::PriorityClass(class) => {
                if self.classes.set(&class) {
                    self.classes_changed();
                }
            }
            Observed::BindRequest(request) => self.set_bind_request(name, *request),
            Observed::ConfigMap => self.tell(Delta::Set(Object::ConfigMap(name))),
            Observed::Namespace(namespace) => self.set_namespace(*namespace),
            Observed::CsiDriver(driver) => self.set_driver(name.name, &driver),
            Observed::PersistentVolumeClaim(claim) => self.set_volume_claim(name, &claim),
            Observed::DeviceClass(class) => self.set_device_class(&name, *class),
            Observed::ResourceSlice(slice) => self.set_slice(&name, &slice),
            Observed::ResourceClaim(claim) => self.set_device_claim(name, *claim),
            other => self.set_independent(&name, &other),
        }
    }

    /// Objects that are translated one by one, without regard to others.
    fn set_independent(&mut self, name: &ObjectName, object: &Observed) {
        let (uid, translated) = match object {
            Observed::Topology(one) => {
                (&one.metadata.uid, topology::translate(one).map(Object::Topology))
            }
            Observed::PodDisruptionBudget(one) => {
                (&one.metadata.uid, budget::translate(one).map(Object::Budget))
            }
            Observed::PersistentVolume(one) => {
                let spec = storage::volume(one).map(StorageObject::Volume);
                (&one.metadata.uid, spec.map(Object::Storage))
            }
            Observed::StorageClass(one) => {
                let spec = storage::class(one).map(StorageObject::Class);
                (&one.metadata.uid, spec.map(Object::Storage))
            }
            Observed::CsiStorageCapacity(one) => {
                let spec = storage::capacity(one).map(StorageObject::Capacity);
                (&one.metadata.uid, spec.map(Object::Storage))
            }
            Observed::NodeResourceTopology(one) => (&None, numa::translate(one).map(Object::Numa)),
            _ => return, // other controllers read them
        };
        let kind = object.kind();
        match self.valid_part(kind, name, uid.as_deref(), translated) {
            Some(object) => self.tell(Delta::Set(object)),
            None => {
                if let Some(key) = key(kind, name.clone()) {
                    self.forget_object(key);
                }
            }
        }
    }

    /// An object that cannot be decoded. Objects that others refer to keep their last valid state; the rest is as if absent.
    pub(super) fn set_malformed(&mut self, malformed: Malformed) {
        let Malformed { kind, name, uid, problem } = malformed;
        complain(&problem);
        self.statuses.set_problem(kind, &name, &uid, summary(&[problem]));
        let is_independent = matches!(
            kind,
            Kind::Topology
                | Kind::PodDisruptionBudget
                | Kind::PersistentVolume
                | Kind::PersistentVolumeClaim
                | Kind::StorageClass
                | Kind::CsiStorageCapacity
                | Kind::NodeResourceTopology
        );
        if is_independent {
            self.remove_object(kind, name);
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

    fn set_queue(&mut self, name: &ObjectName, queue: &Queue) {
        let labels = queue.metadata.labels.clone().unwrap_or_default();
        self.metrics.see_queue(&name.name, &labels);
        let annotations = queue.metadata.annotations.clone().unwrap_or_default();
        let parent = queue.spec.parent_queue.as_deref().filter(|parent| !parent.is_empty());
        let parent = parent.map(Into::into);
        self.set_queue_access(name.name.clone(), parent, &annotations);
        let uid = queue.metadata.uid.as_deref();
        let spec = self.valid_part(Kind::Queue, name, uid, queue::translate(queue));
        match spec.filter(|_| self.settings.partition.holds(&labels)) {
            Some(spec) => self.tell(Delta::Set(Object::Queue(spec))),
            None => self.forget_object(ObjectKey::Queue(name.name.clone())),
        }
    }

    fn set_pod_group(&mut self, name: ObjectName, group: PodGroup) {
        let labels = group.metadata.labels.clone().unwrap_or_default();
        if !self.settings.partition.holds(&labels) {
            self.remove_object(Kind::PodGroup, name);
            return;
        }
        self.groups.insert(name.clone(), group);
        self.tell_group(&name);
        self.join_own_group(&name);
    }

    /// Tells the world of a group that is an object.
    pub(super) fn tell_group(&mut self, name: &ObjectName) {
        let Some(group) = self.groups.get(name) else { return };
        let spec = pod_group::translate(group, &self.classes, &self.settings.partition);
        let half_bound = self.has_failed_binds(name);
        let waits_since = self.pod_that_is(group).map(|pod| pod.base.created);
        let class = group.spec.priority_class_name.clone();
        let uid = group.metadata.uid.clone();
        if let Some(mut spec) = self.valid_part(Kind::PodGroup, name, uid.as_deref(), spec) {
            spec.denied = self.queue_denial(name, &spec.queue, class.as_deref());
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

    fn set_bind_request(&mut self, name: ObjectName, request: BindRequest) {
        let mut pod = name;
        // Earlier releases of KAI gave requests names of their own.
        if let Some(named) = request.spec.pod_name.as_deref().filter(|named| !named.is_empty()) {
            pod.name = named.into();
        }
        self.bind_requests.insert(pod.clone(), request);
        self.tell_bind_request(&pod);
    }

    fn set_volume_claim(&mut self, name: ObjectName, claim: &PersistentVolumeClaim) {
        self.filled_claims.remove(&name);
        let kind = Kind::PersistentVolumeClaim;
        let uid = claim.metadata.uid.as_deref();
        match self.valid_part(kind, &name, uid, storage::claim(claim)) {
            Some(spec) => {
                let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
                if spec.volume.is_some() && phase == Some("Bound") {
                    self.filled_claims.insert(name);
                }
                self.tell(Delta::Set(Object::Storage(StorageObject::Claim(spec))));
            }
            None => self.forget_object(ObjectKey::Storage(StorageKey::Claim(name))),
        }
    }

    fn set_driver(&mut self, name: Text, driver: &CSIDriver) {
        match storage::driver(driver) {
            Some(_) => self.tell(Delta::Set(Object::Storage(StorageObject::Driver(name)))),
            None => self.forget_object(ObjectKey::Storage(StorageKey::Driver(name))),
        }
    }
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
