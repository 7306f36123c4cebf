//! What the watches reported, indexed by what it has to do with each other.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::ResourceClaim;
use kai_api::BindRequest;
use kai_api::gpu_request::GpuShare;
use kai_api::names::{gpu, node as node_names, objects, workload};
use kai_client::kinds::Kind;
use kai_client::observed::Observed;
use kai_client::watch::Change;
use kai_core::input::selectors::{Labels, NodeTerm};
use kai_core::input::{ObjectName, Text};
use kai_core::keyed_hash::KeyedMap;
use kai_translate::view::{PersistentVolume, PersistentVolumeClaim};
use kai_translate::{pod as pods, storage, view};

use super::cdi::ClusterPolicies;
use super::claims::Claims;
use super::index::Index;
use super::memory_limits::PodLimits;
use super::request::{Progress, Request};
use super::reservation::Reservation;
use super::scaling::ScalingPods;
use super::volumes::Volumes;
use super::{BinderSettings, DeviceKey, Item};
use crate::reserved_devices::ReservedDevices;

/// What must have been listed before anything is judged to be missing.
pub(super) const NEEDED: [Kind; 9] = [
    Kind::Pod,
    Kind::Node,
    Kind::BindRequest,
    Kind::ResourceClaim,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::StorageClass,
    Kind::RuntimeClass,
    Kind::ClusterPolicy,
];

/// What the watches reported.
pub(super) struct Facts {
    scheduler_name: String,
    namespace: String,
    app_label: String,
    /// MiB of each device that are never given out, where its node says nothing else.
    pub(super) reserve_mib: i64,
    listed: BTreeSet<Kind>,
    /// A table: each event of each pod looks its name up.
    pods: KeyedMap<ObjectName, Box<PodFacts>>,
    requests: BTreeMap<ObjectName, Request>,
    nodes: BTreeMap<Text, NodeFacts>,
    reservations: BTreeMap<DeviceKey, BTreeMap<ObjectName, Reservation>>,
    devices_of_reservation: BTreeMap<ObjectName, DeviceKey>,
    /// Runtime classes that exist, and the runtimes they stand for.
    pub(super) classes: BTreeMap<String, String>,
    /// How NVIDIA's operator is set up.
    pub(super) policies: ClusterPolicies,
    /// What reservations say of the GPUs of nodes.
    pub(super) reserved: ReservedDevices,
    /// Pods on a node by the shared devices they use.
    users: Index<DeviceKey, ObjectName>,
    requests_of_pod: Index<ObjectName, ObjectName>,
    requests_of_device: Index<DeviceKey, ObjectName>,
    requests_of_node: Index<Text, ObjectName>,
    members: Index<ObjectName, ObjectName>,
    devices_of_node: Index<Text, DeviceKey>,
    pub(super) claims: Claims,
    pub(super) volumes: Volumes,
    /// Scaling pods that may still come to a node.
    pub(super) scaling: ScalingPods,
    /// Requests by what they wait for.
    awaited: Index<Awaited, ObjectName>,
    /// What has to be looked at anew.
    touched: BTreeSet<Item>,
    /// Reservations whose making is not answered yet, and whether they are gone already.
    expected: BTreeMap<ObjectName, bool>,
    /// Reservations that went without leave: such a pod may be left in a phase that is not watched.
    vanished: Vec<Vanished>,
}

/// Something that a request waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaited {
    Claim(ObjectName),
    VolumeClaim(ObjectName),
}

/// A reservation that went without leave.
#[derive(Clone, Debug)]
pub(super) struct Vanished {
    pub(super) device: DeviceKey,
    pub(super) pod: ObjectName,
    pub(super) uid: Text,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodFacts {
    pub(super) uid: Text,
    pub(super) version: String,
    pub(super) node: Option<Text>,
    pub(super) life: Life,
    /// Groups of shared devices that its labels name.
    pub(super) groups: Vec<Text>,
    /// The group it belongs to.
    pub(super) gang: Option<ObjectName>,
    /// It is ours to bind.
    pub(super) is_ours: bool,
    /// What it wants of each of its devices, if it shares them.
    pub(super) share: Option<GpuShare>,
    /// The devices it was given, by group.
    pub(super) given: BTreeMap<Text, Text>,
    /// All of it, while it is ours and has no node.
    pub(super) view: Option<Box<view::Pod>>,
    /// Taints that the pod tolerates.
    pub(super) tolerations: Vec<view::Toleration>,
    /// How its limit of GPU memory is kept, since it has a node.
    pub(super) limits: PodLimits,
    /// Other readers cannot see its groups: its labels do not name them.
    pub(super) lacks_group_labels: bool,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    /// It was evicted and holds what it has.
    Leaving,
    Ended,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct NodeFacts {
    pub(super) view: Box<view::Node>,
    labels: Labels,
}

impl NodeFacts {
    /// Its container runtime may have this one; not every version lists them.
    pub(super) fn may_have_runtime(&self, handler: &str) -> bool {
        let handlers = &self.view.status.runtime_handlers;
        handlers.is_empty() || handlers.iter().any(|one| one.name == handler)
    }

    /// Its devices are only claimed to be there.
    pub(super) fn is_fake(&self) -> bool {
        self.view.metadata.labels.get(node_names::FAKE_GPU).is_some_and(|label| label == "true")
    }
}

impl PodFacts {
    /// It has a node and keeps it.
    pub(super) fn is_placed(&self) -> bool {
        self.node.is_some() && self.life == Life::Alive
    }

    fn read(pod: &view::Pod, scheduler_name: &str) -> Self {
        let metadata = &pod.metadata;
        let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
        let life = match pod.status.phase.as_deref() {
            Some("Succeeded" | "Failed") => Life::Ended,
            _ if metadata.is_terminating() => Life::Leaving,
            _ => Life::Alive,
        };
        let gang = metadata.annotations.get(workload::POD_GROUP_NAME);
        let gang = gang.filter(|name| !name.is_empty());
        // Devices are given with the node.
        let given = node.and_then(|_| metadata.annotations.get(gpu::DEVICES)).map(String::as_str);
        let groups = pods::gpu_groups(pod);
        let shared = pods::shared_gpus(pod).and_then(|reading| reading.request.shared());
        let is_ours = pod.spec.scheduler_name.as_deref() == Some(scheduler_name);
        Self {
            uid: metadata.uid.as_str().into(),
            version: metadata.resource_version.clone(),
            node: node.map(Text::from),
            life,
            gang: gang.map(|name| ObjectName::new(metadata.namespace.as_str(), name.as_str())),
            is_ours,
            share: shared.map(|(share, _)| share),
            given: given.map(read_given).unwrap_or_default(),
            view: (node.is_none() && is_ours).then(|| Box::new(pod.clone())),
            tolerations: if groups.is_empty() { Vec::new() } else { pod.spec.tolerations.clone() },
            groups,
            limits: node.map(|_| PodLimits::read(&metadata.annotations)).unwrap_or_default(),
            lacks_group_labels: pod.lacks_group_labels,
        }
    }

    /// The shared devices it uses.
    fn devices(&self) -> impl Iterator<Item = DeviceKey> {
        let node = self.node.as_ref().filter(|_| self.life != Life::Ended);
        node.into_iter().flat_map(|node| {
            let key = |group: &Text| DeviceKey { node: node.clone(), group: group.clone() };
            self.groups.iter().map(key)
        })
    }
}

/// Versions of one object are numbers that grow.
pub(super) fn is_older(version: &str, known: &str) -> bool {
    matches!((version.parse::<u64>(), known.parse::<u64>()), (Ok(new), Ok(known)) if new < known)
}

/// `group=device,group=device`.
fn read_given(text: &str) -> BTreeMap<Text, Text> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(group, device)| (group.into(), device.into())).collect()
}

/// The object as its type; what is wrong with it is said.
impl Facts {
    pub(super) fn new(settings: &BinderSettings) -> Self {
        Self {
            scheduler_name: settings.scheduler_name.clone(),
            namespace: settings.reservation.namespace.clone(),
            app_label: settings.reservation.app_label.clone(),
            reserve_mib: settings.gpu_memory_reserve_mib,
            listed: BTreeSet::new(),
            pods: KeyedMap::default(),
            requests: BTreeMap::new(),
            nodes: BTreeMap::new(),
            reservations: BTreeMap::new(),
            devices_of_reservation: BTreeMap::new(),
            classes: BTreeMap::new(),
            policies: ClusterPolicies::default(),
            reserved: ReservedDevices::default(),
            users: Index::default(),
            requests_of_pod: Index::default(),
            requests_of_device: Index::default(),
            requests_of_node: Index::default(),
            members: Index::default(),
            devices_of_node: Index::default(),
            claims: Claims::default(),
            volumes: Volumes::default(),
            scaling: ScalingPods::new(settings),
            awaited: Index::default(),
            touched: BTreeSet::new(),
            expected: BTreeMap::new(),
            vanished: Vec::new(),
        }
    }

    /// Everything that existed at first has been listed.
    pub(super) fn is_complete(&self) -> bool {
        NEEDED.iter().all(|kind| self.listed.contains(kind))
    }

    pub(super) fn take_touched(&mut self) -> BTreeSet<Item> {
        std::mem::take(&mut self.touched)
    }

    /// Discards what changed: another process acts on it.
    pub(super) fn forget_touched(&mut self) {
        self.touched.clear();
        self.vanished.clear();
    }

    /// Everything has to be looked at anew.
    pub(super) fn touch_all(&mut self) {
        self.touched.extend(self.nodes.keys().cloned().map(Item::Node));
        self.touched.extend(self.reservations.keys().cloned().map(Item::Device));
        for (name, request) in &self.requests {
            self.touched.insert(Item::Request(name.clone()));
            self.touched.extend(request.devices().map(Item::Device));
        }
        #[expect(clippy::iter_over_hash_type, reason = "a set is made of it")]
        for (name, pod) in &self.pods {
            let claims = pod.view.iter().any(|view| !view.spec.resource_claims.is_empty());
            if claims || !pod.groups.is_empty() {
                self.touched.insert(Item::Pod(name.clone()));
                self.touched.extend(pod.devices().map(Item::Device));
            }
        }
    }

    pub(super) fn take_vanished(&mut self) -> Vec<Vanished> {
        std::mem::take(&mut self.vanished)
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Pod(pod) => self.set_pod(pod),
            Change::Node(node) => self.set_node(node),
            Change::Object(name, object) => self.set_object(name, object),
            Change::Malformed(malformed) => {
                malformed.log();
                self.remove_object(malformed.kind, &malformed.name);
            }
            Change::Gone(kind, name) => self.remove_object(*kind, name),
            Change::Listed(kind) | Change::Absent(kind) => {
                self.listed.insert(*kind);
            }
        }
    }

    /// Bind requests, claims, volumes and runtimes; other kinds do not concern the binder.
    fn set_object(&mut self, name: &ObjectName, object: &Observed) {
        match object {
            Observed::BindRequest(request) => {
                let request = Request::of_object(BindRequest::clone(request));
                self.replace_request(name.clone(), Some(request));
            }
            Observed::ResourceClaim(claim) => self.set_claim(name, Some(claim)),
            Observed::PersistentVolumeClaim(claim) => self.set_volume_claim(name, Some(claim)),
            Observed::PersistentVolume(volume) => self.set_volume(name, Some(volume)),
            Observed::StorageClass(class) => {
                self.volumes.set_class(&name.name, storage::class(class).object);
            }
            Observed::RuntimeClass(class) => self.set_runtime(name, Some(&class.handler)),
            Observed::ClusterPolicy(policy) => self.policies.set(name.name.clone(), Some(policy)),
            _ => {}
        }
    }

    fn remove_object(&mut self, kind: Kind, name: &ObjectName) {
        match kind {
            Kind::Pod => self.remove_pod(name),
            Kind::Node => self.remove_node(&name.name),
            Kind::BindRequest => self.remove_request_object(name),
            Kind::ResourceClaim => self.set_claim(name, None),
            Kind::PersistentVolumeClaim => self.set_volume_claim(name, None),
            Kind::PersistentVolume => self.set_volume(name, None),
            Kind::StorageClass => self.volumes.set_class(&name.name, None),
            Kind::RuntimeClass => self.set_runtime(name, None),
            Kind::ClusterPolicy => self.policies.set(name.name.clone(), None),
            _ => {}
        }
    }

    fn set_claim(&mut self, name: &ObjectName, claim: Option<&ResourceClaim>) {
        self.claims.set(name, claim);
        self.touch_awaiting(&Awaited::Claim(name.clone()));
    }

    fn set_volume_claim(&mut self, name: &ObjectName, claim: Option<&PersistentVolumeClaim>) {
        self.volumes.set_claim(name, claim);
        self.touch_awaiting(&Awaited::VolumeClaim(name.clone()));
    }

    fn set_volume(&mut self, name: &ObjectName, volume: Option<&PersistentVolume>) {
        if let Some(claim) = self.volumes.set_volume(&name.name, volume) {
            self.touch_awaiting(&Awaited::VolumeClaim(claim));
        }
    }

    /// The reservation pods of each node may be given another runtime now.
    fn set_runtime(&mut self, class: &ObjectName, handler: Option<&String>) {
        self.classes.remove(&*class.name);
        self.classes.extend(handler.map(|handler| (class.name.to_string(), handler.clone())));
        self.touched.extend(self.nodes.keys().cloned().map(Item::Node));
    }

    /// The request waits for this.
    pub(super) fn await_object(&mut self, what: &Awaited, request: &ObjectName) {
        self.awaited.add(what, request);
    }

    fn touch_awaiting(&mut self, what: &Awaited) {
        self.touched.extend(self.awaited.take(what).into_iter().map(Item::Request));
    }

    /// Whether one of the terms names the node; no terms name all.
    pub(super) fn can_use(&self, node: &Text, terms: &[NodeTerm]) -> bool {
        let matches =
            |facts: &NodeFacts| terms.iter().any(|term| term.matches(node, &facts.labels));
        terms.is_empty() || self.nodes.get(node).is_some_and(matches)
    }

    pub(super) fn requests_of_node(&self, node: &Text) -> impl Iterator<Item = &ObjectName> {
        self.requests_of_node.of(node)
    }

    pub(super) fn pod(&self, name: &ObjectName) -> Option<&PodFacts> {
        self.pods.get(name).map(|pod| &**pod)
    }

    pub(super) fn request(&self, name: &ObjectName) -> Option<&Request> {
        self.requests.get(name)
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = (&ObjectName, &Request)> {
        self.requests.iter()
    }

    pub(super) fn node_names(&self) -> impl Iterator<Item = &Text> {
        self.nodes.keys()
    }

    pub(super) fn node(&self, name: &Text) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    pub(super) fn requests_of_pod(&self, pod: &ObjectName) -> impl Iterator<Item = &ObjectName> {
        self.requests_of_pod.of(pod)
    }

    pub(super) fn requests_of_device(
        &self,
        device: &DeviceKey,
    ) -> impl Iterator<Item = &ObjectName> {
        self.requests_of_device.of(device)
    }

    pub(super) fn users(&self, device: &DeviceKey) -> impl Iterator<Item = &ObjectName> {
        self.users.of(device)
    }

    pub(super) fn members(&self, gang: &ObjectName) -> impl Iterator<Item = &ObjectName> {
        self.members.of(gang)
    }

    /// Shared devices of a node that pods use, and those pods.
    pub(super) fn users_on(
        &self,
        node: &Text,
    ) -> impl Iterator<Item = (&DeviceKey, &BTreeSet<ObjectName>)> {
        let first = DeviceKey { node: node.clone(), group: Text::default() };
        let node = node.clone();
        self.users.starting_at(first).take_while(move |(key, _)| key.node == node)
    }

    /// Shared devices of a node that have a reservation.
    pub(super) fn devices_of_node(&self, node: &Text) -> impl Iterator<Item = &DeviceKey> {
        self.devices_of_node.of(node)
    }

    /// Reservations of a shared device, by name.
    pub(super) fn reservations(
        &self,
        device: &DeviceKey,
    ) -> impl Iterator<Item = (&ObjectName, &Reservation)> {
        self.reservations.get(device).into_iter().flatten()
    }

    /// The pod of a request as it is now, if it is the one that the request was made for.
    pub(super) fn subject(&self, request: &Request) -> Option<&PodFacts> {
        let pod = self.pod(&request.pod)?;
        request.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid).then_some(pod)
    }

    /// A reservation is about to be made.
    pub(super) fn expect_reservation(&mut self, name: ObjectName) {
        self.expected.insert(name, false);
    }

    /// A reservation as the API server answered with it, if it did; the watch may have reported more by now.
    pub(super) fn take_reservation(&mut self, name: &ObjectName, pod: Option<&view::Pod>) {
        let is_gone = self.expected.remove(name).unwrap_or_default();
        if let Some(pod) = pod.filter(|_| !is_gone) {
            self.set_pod(pod);
        }
    }

    /// A pod as the API server answered with it; the watch may have reported more by now.
    pub(super) fn take_answer(&mut self, pod: &view::Pod) {
        if self.pods.get(&pods::name(pod)).is_some_and(|known| *known.uid == *pod.metadata.uid) {
            self.set_pod(pod);
        }
    }

    fn set_pod(&mut self, pod: &view::Pod) {
        let name = pods::name(pod);
        let metadata = &pod.metadata;
        let known = self.pods.get(&name).map(|known| (&known.uid, &known.version));
        let known = known.or_else(|| {
            let device = self.devices_of_reservation.get(&name)?;
            let known = self.reservations.get(device)?.get(&name)?;
            Some((&known.uid, &known.version))
        });
        let is_old = known.is_some_and(|(uid, version)| {
            **uid == *metadata.uid && is_older(&metadata.resource_version, version)
        });
        if is_old || self.was_bound_since(&name, pod) {
            return;
        }
        self.scaling.set(&name, pod);
        if self.is_reservation(pod) {
            self.set_reservation(name, pod);
            return;
        }
        let new = PodFacts::read(pod, &self.scheduler_name);
        self.touch_gang(&name, &new);
        self.replace_pod(name, Some(Box::new(new)));
    }

    /// Its gang may be complete by a pod that another process placed. A pod that we bind was ready before, and completes nothing.
    fn touch_gang(&mut self, name: &ObjectName, new: &PodFacts) {
        let old = self.pods.get(name);
        let was_placed = old.is_some_and(|old| old.is_placed() && old.gang == new.gang);
        if new.is_placed() && !was_placed && !self.requests.is_empty() {
            self.touched.extend(new.gang.clone().map(Item::Gang));
        }
    }

    /// The pod was bound after this event of it. A pod never loses its node: what was assumed when the bind was answered
    /// holds until the watch shows it.
    fn was_bound_since(&self, name: &ObjectName, pod: &view::Pod) -> bool {
        let known = self.pods.get(name).filter(|known| *known.uid == *pod.metadata.uid);
        let has_node = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
        known.is_some_and(|known| known.node.is_some()) && !has_node
    }

    /// The pod was bound by us, to a node and perhaps to shared devices of it, and the watch will show it.
    pub(super) fn assume_bound(
        &mut self,
        name: &ObjectName,
        uid: &Text,
        node: &Text,
        devices: impl Iterator<Item = DeviceKey>,
    ) {
        let Some(mut new) = self.pods.get(name).filter(|pod| pod.uid == *uid).cloned() else {
            return;
        };
        new.node = Some(node.clone());
        new.groups = devices.map(|device| device.group).collect();
        new.view = None;
        self.replace_pod(name.clone(), Some(new));
    }

    fn replace_pod(&mut self, name: ObjectName, new: Option<Box<PodFacts>>) {
        if self.pods.get(&name) == new.as_ref() {
            return;
        }
        let old = self.pods.remove(&name);
        for pod in [&old, &new].into_iter().flatten() {
            self.touched.extend(pod.devices().map(Item::Device));
            self.touched.extend(pod.devices().map(|device| Item::Node(device.node)));
        }
        for request in self.requests_of_pod.of(&name) {
            self.touched.insert(Item::Request(request.clone()));
            let devices = self.requests.get(request).into_iter().flat_map(Request::devices);
            self.touched.extend(devices.map(Item::Device));
        }
        if let Some(old) = &old {
            old.devices().for_each(|device| self.users.remove(&device, &name));
            old.gang.iter().for_each(|gang| self.members.remove(gang, &name));
        }
        if let Some(new) = new {
            new.devices().for_each(|device| self.users.add(&device, &name));
            new.gang.iter().for_each(|gang| self.members.add(gang, &name));
            self.touched.insert(Item::Pod(name.clone()));
            self.pods.insert(name, new);
        }
    }

    fn remove_pod(&mut self, name: &ObjectName) {
        self.scaling.remove(name);
        if let Some(is_gone) = self.expected.get_mut(name) {
            *is_gone = true;
        }
        if let Some((device, one)) = self.forget_reservation(name)
            && !one.leaving
        {
            self.vanished.push(Vanished { device, pod: name.clone(), uid: one.uid });
        }
        self.replace_pod(name.clone(), None);
    }

    /// The reservation is gone.
    pub(super) fn forget_reservation(
        &mut self,
        name: &ObjectName,
    ) -> Option<(DeviceKey, Reservation)> {
        self.reserved.remove(name);
        let device = self.devices_of_reservation.remove(name)?;
        let all = self.reservations.get_mut(&device)?;
        let one = all.remove(name);
        if all.is_empty() {
            self.reservations.remove(&device);
            self.devices_of_node.remove(&device.node, &device);
        }
        self.touch_node_devices(&device);
        Some((device, one?))
    }

    fn is_reservation(&self, pod: &view::Pod) -> bool {
        pod.metadata.namespace == self.namespace
            && pod.metadata.labels.get(objects::APP) == Some(&self.app_label)
            && pod.metadata.labels.contains_key(gpu::GROUP)
    }

    fn set_reservation(&mut self, name: ObjectName, pod: &view::Pod) {
        let (Some(node), Some(group)) = (&pod.spec.node_name, pod.metadata.labels.get(gpu::GROUP))
        else {
            return;
        };
        let device = DeviceKey { node: node.as_str().into(), group: group.as_str().into() };
        self.reserved.set(pod);
        self.devices_of_node.add(&device.node, &device);
        self.devices_of_reservation.insert(name.clone(), device.clone());
        let new = Reservation::read(pod);
        let all = self.reservations.entry(device.clone()).or_default();
        if all.get(&name) != Some(&new) {
            all.insert(name, new);
            self.touch_node_devices(&device);
        }
    }

    /// What becomes of one reservation matters to the others of its node: no two may hold one device.
    fn touch_node_devices(&mut self, device: &DeviceKey) {
        self.touched.insert(Item::Device(device.clone()));
        self.touched.insert(Item::Node(device.node.clone()));
        let others = self.devices_of_node.of(&device.node).cloned();
        self.touched.extend(others.map(Item::Device));
    }

    fn set_node(&mut self, node: &view::Node) {
        let name: Text = node.metadata.name.as_str().into();
        let labels = node.metadata.labels.iter();
        let labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().into()));
        let facts = NodeFacts { view: Box::new(node.clone()), labels: labels.collect() };
        let known = self.nodes.insert(name.clone(), facts);
        if known.is_none() {
            self.touch_requests_of_node(&name);
        }
        self.touched.insert(Item::Node(name));
    }

    fn remove_node(&mut self, name: &Text) {
        self.nodes.remove(name);
        self.touched.insert(Item::Node(name.clone()));
        self.reserved.forget_node(name);
        self.touch_requests_of_node(name);
        self.touched.extend(self.devices_of_node.of(name).cloned().map(Item::Device));
    }

    fn touch_requests_of_node(&mut self, node: &Text) {
        self.touched.extend(self.requests_of_node.of(node).cloned().map(Item::Request));
    }

    /// An object of the API server is gone. A request of this process that has its name stays.
    fn remove_request_object(&mut self, name: &ObjectName) {
        if !self.requests.get(name).is_some_and(Request::is_local) {
            self.replace_request(name.clone(), None);
        }
    }

    /// The request's status was written by us and the watch will show it.
    pub(super) fn assume_status(&mut self, name: &ObjectName, phase: &str, failures: i32) {
        let Some(mut new) = self.requests.get(name).cloned() else { return };
        new.phase = Some(phase.to_owned());
        new.failed_attempts = failures;
        self.replace_request(name.clone(), Some(new));
    }

    pub(super) fn replace_request(&mut self, name: ObjectName, new: Option<Request>) {
        let old = self.requests.remove(&name);
        if let Some(old) = &old {
            old.devices().for_each(|device| self.requests_of_device.remove(&device, &name));
            self.requests_of_pod.remove(&old.pod, &name);
            self.requests_of_node.remove(&old.node, &name);
        }
        if let Some(new) = &new {
            new.devices().for_each(|device| self.requests_of_device.add(&device, &name));
            self.requests_of_pod.add(&new.pod, &name);
            self.requests_of_node.add(&new.node, &name);
        }
        for request in [&old, &new].into_iter().flatten() {
            self.touched.extend(request.devices().map(Item::Device));
            self.touched.insert(Item::Pod(request.pod.clone()));
        }
        self.touched.insert(Item::Request(name.clone()));
        if let Some(new) = new {
            self.requests.insert(name, new);
        }
    }

    /// Does a request, as far as objects show, need its devices? One that is done does until its pod shows it.
    pub(super) fn needs_devices(&self, request: &Request) -> bool {
        let lives = self.subject(request).is_some_and(|pod| pod.life != Life::Ended);
        lives && request.progress() != Progress::Failed && !request.leaving
    }
}
