//! Observed objects other than pods into the parts and the world.

use kai_api::{BindRequest, PodGroup, Queue};
use kai_client::kinds::Kind;
use kai_client::observed::{Malformed, Observed};
use kai_core::input::storage::StorageKey;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName, StorageObject, Text};
use kai_translate::namespace::{self, Namespace};
use kai_translate::{budget, numa, queue, storage, topology, view};

use super::devices::DeviceUpdate;
use super::{Planner, log_problem, log_problems};
use crate::orders::Order;
use crate::status::problems::summary;

impl Planner {
    pub(super) fn set_object(&mut self, name: ObjectName, object: Observed) {
        match object {
            Observed::Queue(queue) => self.set_queue(&name, &queue),
            Observed::PodGroup(group) => self.set_pod_group(name, *group),
            Observed::PriorityClass(class) => {
                if self.workloads.set_class(&class) {
                    self.apply_all_groups();
                }
            }
            Observed::BindRequest(request) => self.set_bind_request(name, *request),
            Observed::ConfigMap => self.apply_delta(Delta::Set(Object::ConfigMap(name))),
            Observed::Namespace(namespace) => self.set_namespace(*namespace),
            Observed::CsiDriver(driver) => self.set_driver(name.name, &driver),
            Observed::PersistentVolumeClaim(claim) => self.set_volume_claim(name, &claim),
            Observed::DeviceClass(class) => {
                let updates = self.devices.set_class(&name, *class);
                self.apply_devices(updates);
            }
            Observed::ResourceSlice(slice) => {
                let updates = self.devices.set_slice(&name, &slice);
                self.apply_devices(updates);
            }
            Observed::ResourceClaim(claim) => {
                self.statuses.set_problem(Kind::ResourceClaim, &name, "", None);
                let updates = self.devices.set_claim(name, *claim);
                self.apply_devices(updates);
            }
            other => self.set_independent(&name, &other),
        }
    }

    /// Objects that are translated one by one, without regard to others.
    fn set_independent(&mut self, name: &ObjectName, object: &Observed) {
        let (uid, translated) = match object {
            Observed::Topology(one) => {
                (one.metadata.uid.as_deref(), topology::translate(one).map(Object::Topology))
            }
            Observed::PodDisruptionBudget(one) => {
                (Some(&*one.metadata.uid), budget::translate(one).map(Object::Budget))
            }
            Observed::PersistentVolume(one) => {
                let spec = storage::volume(one).map(StorageObject::Volume);
                (Some(&*one.metadata.uid), spec.map(Object::Storage))
            }
            Observed::StorageClass(one) => {
                let spec = storage::class(one).map(StorageObject::Class);
                (Some(&*one.metadata.uid), spec.map(Object::Storage))
            }
            Observed::CsiStorageCapacity(one) => {
                let spec = storage::capacity(one).map(StorageObject::Capacity);
                (Some(&*one.metadata.uid), spec.map(Object::Storage))
            }
            Observed::NodeResourceTopology(one) => (None, numa::translate(one).map(Object::Numa)),
            _ => return, // other controllers read them
        };
        let kind = object.kind();
        match self.valid_part(kind, name, uid, translated) {
            Some(object) => self.apply_delta(Delta::Set(object)),
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
        log_problem(&problem);
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
                if self.workloads.remove_class(&name.name) {
                    self.apply_all_groups();
                }
            }
            Kind::PodGroup => {
                self.workloads.remove_group(&name);
                self.measurements.metrics.forget_group(&name);
                self.forget_object(ObjectKey::PodGroup(name.clone()));
                if let Some(pod) = self.workloads.own_pod(&name).cloned() {
                    self.apply_own_group(&pod);
                }
                self.regroup(&name);
            }
            Kind::BindRequest => self.remove_bind_request(&name),
            _ => {
                if kind == Kind::PersistentVolumeClaim {
                    self.binds.set_volume_claim(name.clone(), false);
                }
                if kind == Kind::Node {
                    self.devices.gpus.remove_node(&name.name);
                }
                if kind == Kind::Namespace {
                    self.namespaces.remove(&name.name);
                }
                if kind == Kind::Queue && self.namespaces.remove_queue(&name.name) {
                    self.apply_all_groups();
                }
                self.remove_device_object(kind, &name);
                if let Some(key) = key(kind, name) {
                    self.forget_object(key);
                }
            }
        }
    }

    fn set_queue(&mut self, name: &ObjectName, queue: &Queue) {
        let labels = queue.metadata.labels.clone().unwrap_or_default();
        self.measurements.metrics.observe_queue(&name.name, &labels);
        let annotations = queue.metadata.annotations.clone().unwrap_or_default();
        let parent = queue.spec.parent_queue.as_deref().filter(|parent| !parent.is_empty());
        let parent = parent.map(Into::into);
        if self.namespaces.set_queue(name.name.clone(), parent, &annotations) {
            self.apply_all_groups();
        }
        let uid = queue.metadata.uid.as_deref();
        let spec = self.valid_part(Kind::Queue, name, uid, queue::translate(queue));
        match spec.filter(|_| self.settings.partition.holds(&labels)) {
            Some(spec) => self.apply_delta(Delta::Set(Object::Queue(spec))),
            None => self.forget_object(ObjectKey::Queue(name.name.clone())),
        }
    }

    fn set_pod_group(&mut self, name: ObjectName, group: PodGroup) {
        let labels = group.metadata.labels.clone().unwrap_or_default();
        if !self.settings.partition.holds(&labels) {
            self.remove_object(Kind::PodGroup, name);
            return;
        }
        self.workloads.set_group(name.clone(), group);
        self.apply_group(&name);
        if let Some(pod) = self.workloads.join_own_group(&name) {
            self.refresh_pod(&pod);
            self.world.require_plan(); // its bind may have been withheld
        }
    }

    fn set_bind_request(&mut self, name: ObjectName, request: BindRequest) {
        let (pod, replaced) = self.binds.set_request(name, request);
        if let Some(id) = replaced {
            // Another scheduler, or this process before it restarted, requested it: the cluster shows that, and ours is dropped.
            self.orders.push(Order::WithdrawBind(pod.clone(), id));
            self.world.forget(&pod);
        }
        self.apply_bind_request(&pod);
    }

    fn set_volume_claim(&mut self, name: ObjectName, claim: &view::PersistentVolumeClaim) {
        self.binds.set_volume_claim(name.clone(), false);
        let kind = Kind::PersistentVolumeClaim;
        match self.valid_part(kind, &name, Some(&claim.metadata.uid), storage::claim(claim)) {
            Some(spec) => {
                let phase = claim.status.phase.as_deref();
                let is_bound = spec.volume.is_some() && phase == Some("Bound");
                self.binds.set_volume_claim(name, is_bound);
                self.apply_delta(Delta::Set(Object::Storage(StorageObject::Claim(spec))));
            }
            None => self.forget_object(ObjectKey::Storage(StorageKey::Claim(name))),
        }
    }

    fn apply_devices(&mut self, updates: Vec<DeviceUpdate>) {
        for DeviceUpdate { kind, name, uid, translated } in updates {
            let object = if kind == Kind::ResourceClaim {
                let problem = summary(&translated.problems);
                self.statuses.set_claim_problem(&name, uid.as_deref().unwrap_or_default(), problem);
                log_problems(translated)
            } else {
                self.valid_part(kind, &name, uid.as_deref(), translated)
            };
            match object {
                Some(object) => self.apply_delta(Delta::Set(object)),
                None if kind == Kind::ResourceSlice => {
                    self.forget_object(ObjectKey::Slice(name.name));
                }
                None => {}
            }
        }
    }

    /// A device class, slice or claim is gone; the caller removes it from the world.
    fn remove_device_object(&mut self, kind: Kind, name: &ObjectName) {
        if kind == Kind::ResourceClaim {
            self.statuses.set_claim_problem(name, "", None);
        }
        let updates = self.devices.remove(kind, name);
        self.apply_devices(updates);
    }

    /// Evaluates selectors that were left over, as far as one turn of the loop may spend on them.
    pub fn evaluate_selectors(&mut self) {
        let updates = self.devices.evaluate_selectors();
        self.apply_devices(updates);
    }

    /// Some selectors were not evaluated on all devices.
    pub fn has_selectors_waiting(&self) -> bool {
        self.devices.has_selectors_waiting()
    }

    pub(super) fn set_node(&mut self, view: &view::Node) {
        let name: Text = view.metadata.name.as_str().into();
        if self.settings.partition.holds(&view.metadata.labels) {
            self.devices.gpus.set_node(name.clone(), view.clone());
            self.apply_node(&name);
        } else {
            self.devices.gpus.remove_node(&name);
            self.forget_object(ObjectKey::Node(name));
        }
    }

    pub(super) fn apply_node(&mut self, name: &Text) {
        let translated = self.devices.gpus.translate(name);
        if let Some(spec) = translated.and_then(log_problems) {
            self.apply_delta(Delta::Set(Object::Node(Box::new(spec))));
        }
    }

    fn set_namespace(&mut self, observed: Namespace) {
        let Some(spec) = log_problems(namespace::translate(&observed)) else { return };
        let name = spec.name.clone();
        let config = self.settings.grouper.as_ref();
        let was_grouped = self.namespaces.is_grouped(&name, config);
        let access_changed = self.namespaces.set(name.clone(), observed.metadata.labels);
        let is_grouped = self.namespaces.is_grouped(&name, config);
        if access_changed {
            self.apply_all_groups();
        }
        self.apply_delta(Delta::Set(Object::Namespace(spec)));
        if was_grouped || !is_grouped {
            return;
        }
        for pod in self.workloads.select_namespace(&name) {
            if self.is_ready() {
                self.find_group(&pod);
            }
        }
    }

    fn set_driver(&mut self, name: Text, driver: &view::CsiDriver) {
        match storage::driver(driver) {
            Some(_) => self.apply_delta(Delta::Set(Object::Storage(StorageObject::Driver(name)))),
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
