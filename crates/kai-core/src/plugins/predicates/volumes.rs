//! Volumes: claims, volumes, classes and capacities, and what they say about nodes (`VolumeBinding`).
//!
//! Rules: every claim a pod mounts must exist and not be in deletion. A claim that is not bound yet must wait
//! for its pod's node; one that should have been bound at once is a dead end. A bound claim's volume must be
//! reachable from the node. A waiting claim takes the smallest free volume of its class that is large enough and
//! reachable, no volume twice; where there is none, its class must be able to make one on the node, and have the
//! capacity for it where the driver publishes capacities. Where a volume is being made for a node already, it is that
//! node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::storage;
use crate::ids::{NodeId, TaskId};
use crate::input::selectors::NodeTerm;
use crate::input::storage::{
    StorageCapacitySpec, StorageClassSpec, StorageKey, StorageObject, VolumeClaimSpec, VolumeSpec,
};
use crate::input::{Object, ObjectName, Text};
use crate::report::refusal::{NodeRefusal, Rule};
use crate::world::World;
use crate::world::node::Node;

/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Everything known of volumes.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    claims: BTreeMap<ObjectName, Arc<VolumeClaimSpec>>,
    by_name: BTreeMap<Text, Arc<VolumeSpec>>,
    classes: BTreeMap<Text, Arc<StorageClassSpec>>,
    drivers: BTreeSet<Text>,
    capacities: BTreeMap<ObjectName, Arc<StorageCapacitySpec>>,
}

fn put<K: Ord, V: PartialEq>(kept: &mut BTreeMap<K, Arc<V>>, key: K, value: V) -> bool {
    if kept.get(&key).is_some_and(|known| **known == value) {
        return false;
    }
    kept.insert(key, Arc::new(value));
    true
}

impl Volumes {
    /// Takes an object over; false when it was known just so.
    pub(crate) fn set(&mut self, object: StorageObject) -> bool {
        match object {
            StorageObject::Claim(spec) => put(&mut self.claims, spec.name.clone(), spec),
            StorageObject::Volume(spec) => put(&mut self.by_name, spec.name.clone(), spec),
            StorageObject::Class(spec) => put(&mut self.classes, spec.name.clone(), spec),
            StorageObject::Driver(name) => self.drivers.insert(name),
            StorageObject::Capacity(spec) => put(&mut self.capacities, spec.name.clone(), spec),
        }
    }

    /// The objects of the store, by kind and name.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let mut objects: Vec<StorageObject> = Vec::new();
        objects.extend(self.claims.values().map(|spec| StorageObject::Claim((**spec).clone())));
        objects.extend(self.by_name.values().map(|spec| StorageObject::Volume((**spec).clone())));
        objects.extend(self.classes.values().map(|spec| StorageObject::Class((**spec).clone())));
        objects.extend(self.drivers.iter().cloned().map(StorageObject::Driver));
        let capacities = self.capacities.values();
        objects.extend(capacities.map(|spec| StorageObject::Capacity((**spec).clone())));
        objects.into_iter().map(Object::Storage).collect()
    }

    /// Forgets an object; false when it was not known.
    pub(crate) fn remove(&mut self, key: &StorageKey) -> bool {
        match key {
            StorageKey::Claim(name) => self.claims.remove(name).is_some(),
            StorageKey::Volume(name) => self.by_name.remove(name).is_some(),
            StorageKey::Class(name) => self.classes.remove(name).is_some(),
            StorageKey::Driver(name) => self.drivers.remove(name),
            StorageKey::Capacity(name) => self.capacities.remove(name).is_some(),
        }
    }

    pub(super) fn claim(&self, namespace: &Text, name: &Text) -> Option<&Arc<VolumeClaimSpec>> {
        self.claims.get(&ObjectName { namespace: namespace.clone(), name: name.clone() })
    }

    pub(super) fn capacities(&self) -> impl Iterator<Item = &Arc<StorageCapacitySpec>> {
        self.capacities.values()
    }

    /// The class waits for its pods' nodes and its driver publishes capacities.
    pub(super) fn is_capacity_class(&self, class: &Text) -> bool {
        self.classes
            .get(class)
            .is_some_and(|class| class.waits_for_consumer && self.publishes_capacity(class))
    }

    fn publishes_capacity(&self, class: &StorageClassSpec) -> bool {
        self.drivers.contains(&class.provisioner)
    }

    /// The class of a claim that waits for its pod's node; none when it should be bound already.
    fn class_waiting_for_node(&self, claim: &VolumeClaimSpec) -> Option<&Arc<StorageClassSpec>> {
        let class = self.classes.get(claim.class.as_ref()?)?;
        class.waits_for_consumer.then_some(class)
    }
}

/// Whether a node is among those that `terms` name; no terms name all.
pub(super) fn reaches(terms: &[NodeTerm], node: &Node) -> bool {
    terms.is_empty() || terms.iter().any(|term| term.matches(node.name(), &node.spec.labels))
}

/// Why the claims of a pod make it unschedulable on every node.
pub(super) fn refusal(world: &World, task: TaskId) -> Option<String> {
    let spec = &world.task(task).spec;
    let namespace = &spec.name.namespace;
    let mut unbound_immediate = false;
    for name in &spec.constraints.volume_claims {
        let Some(claim) = world.volumes.claim(namespace, name) else {
            return Some(format!("persistentvolumeclaim \"{name}\" not found"));
        };
        if claim.deleting {
            return Some(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        unbound_immediate |=
            claim.volume.is_none() && world.volumes.class_waiting_for_node(claim).is_none();
    }
    unbound_immediate.then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
}

/// The claims of one pod, looked up once for all nodes.
#[derive(Clone, Debug)]
pub(super) struct PodVolumes {
    /// Volumes of bound claims; none for one that does not exist.
    bound: Vec<Option<Arc<VolumeSpec>>>,
    /// Claims that wait for the pod's node, smallest first, with their class and the volumes they may take.
    waiting: Vec<WaitingClaim>,
}

#[derive(Clone, Debug)]
struct WaitingClaim {
    claim: Arc<VolumeClaimSpec>,
    class: Arc<StorageClassSpec>,
    /// Volumes of the class that are large enough and free or reserved for it: reserved first, then smallest.
    candidates: Vec<Arc<VolumeSpec>>,
}

/// Why volumes do not suit a node, in the order in which it is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conflict {
    /// A bound volume cannot be reached.
    Unreachable,
    /// No volume is there and none can be made.
    NoneToBind,
    /// A volume could be made, but not where space is.
    NoSpace,
    /// A claim is bound to a volume that does not exist.
    Missing,
}

/// The conflicts met on one node, each once.
#[derive(Default)]
struct Conflicts([bool; Conflict::ALL.len()]);

impl PodVolumes {
    /// The claims of `task`; none when it mounts none.
    pub(super) fn new(world: &World, task: TaskId) -> Option<Box<Self>> {
        let spec = &world.task(task).spec;
        let names = &spec.constraints.volume_claims;
        if names.is_empty() {
            return None;
        }
        let store = &world.volumes;
        let mut pod = Self { bound: Vec::new(), waiting: Vec::new() };
        for claim in names.iter().filter_map(|name| store.claim(&spec.name.namespace, name)) {
            if let Some(volume) = &claim.volume {
                pod.bound.push(store.by_name.get(volume).cloned());
            } else if let Some(class) = store.class_waiting_for_node(claim) {
                let (claim, class) = (Arc::clone(claim), Arc::clone(class));
                let candidates = candidates(store, &claim);
                pod.waiting.push(WaitingClaim { claim, class, candidates });
            }
        }
        pod.waiting.sort_by(|left, right| {
            let key = |waiting: &WaitingClaim| (waiting.claim.bytes, waiting.claim.name.clone());
            key(left).cmp(&key(right))
        });
        Some(Box::new(pod))
    }

    /// Whether the pod's volumes can be had on `node`.
    pub(super) fn check(&self, world: &World, node: &Node) -> Result<(), NodeRefusal> {
        let mut conflicts = Conflicts::default();
        for volume in &self.bound {
            match volume {
                None => conflicts.add(Conflict::Missing),
                Some(volume) if !reaches(&volume.nodes, node) => {
                    conflicts.add(Conflict::Unreachable);
                }
                Some(_) => {}
            }
        }
        self.find_for_waiting(world, node, &mut conflicts);
        conflicts.verdict(world.config.params.schedule_csi_storage)
    }

    fn find_for_waiting(&self, world: &World, node: &Node, conflicts: &mut Conflicts) {
        let mut taken: Vec<&Text> = Vec::new();
        let mut to_make: Vec<&WaitingClaim> = Vec::new();
        for waiting in &self.waiting {
            let is_being_made = waiting.claim.selected_node.is_some();
            match waiting.volume_on(node, &taken).filter(|_| !is_being_made) {
                Some(volume) => taken.push(&volume.name),
                None => to_make.push(waiting),
            }
        }
        for waiting in to_make {
            if waiting.claim.selected_node.as_ref().is_some_and(|chosen| chosen != node.name()) {
                return conflicts.add(Conflict::NoneToBind);
            }
            if !waiting.can_be_made_on(node) {
                return conflicts.add(Conflict::NoneToBind);
            }
            if !waiting.has_space_on(&world.volumes, node) {
                return conflicts.add(Conflict::NoSpace);
            }
        }
    }
}

fn candidates(store: &Volumes, claim: &VolumeClaimSpec) -> Vec<Arc<VolumeSpec>> {
    let mut found: Vec<Arc<VolumeSpec>> =
        store.by_name.values().filter(|volume| volume.suits(claim)).cloned().collect();
    found.sort_by(|left, right| left.preference().cmp(&right.preference()));
    found
}

impl WaitingClaim {
    /// The volume the claim takes on `node`. One that is reserved for it must be reachable.
    fn volume_on(&self, node: &Node, taken: &[&Text]) -> Option<&VolumeSpec> {
        if let Some(reserved) = self.candidates.first().filter(|volume| volume.claim.is_some()) {
            return reaches(&reserved.nodes, node).then_some(&**reserved);
        }
        self.candidates
            .iter()
            .map(|volume| &**volume)
            .find(|volume| !taken.contains(&&volume.name) && reaches(&volume.nodes, node))
    }

    fn can_be_made_on(&self, node: &Node) -> bool {
        let provisioner = &*self.class.provisioner;
        !provisioner.is_empty()
            && provisioner != NO_PROVISIONER
            && reaches(&self.class.allowed_nodes, node)
    }

    fn has_space_on(&self, store: &Volumes, node: &Node) -> bool {
        self.claim.bytes <= 0
            || !store.publishes_capacity(&self.class)
            || store.capacities().any(|capacity| {
                capacity.class == self.class.name
                    && capacity.bytes >= self.claim.bytes
                    && reaches(&capacity.nodes, node)
            })
    }
}

impl Conflict {
    const ALL: [Self; 4] = [Self::Unreachable, Self::NoneToBind, Self::NoSpace, Self::Missing];

    fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoneToBind => "node(s) didn't find available persistent volumes to bind",
            Self::NoSpace => "node(s) did not have enough free storage",
            Self::Missing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
        }
    }
}

impl Conflicts {
    fn add(&mut self, conflict: Conflict) {
        self.0[conflict as usize] = true;
    }

    /// Where capacities are looked at by the scheduler itself, a lack of space alone does not refuse.
    fn verdict(&self, capacities_are_planned: bool) -> Result<(), NodeRefusal> {
        let met: Vec<Conflict> =
            Conflict::ALL.into_iter().filter(|conflict| self.0[*conflict as usize]).collect();
        if met.is_empty() || (capacities_are_planned && met == [Conflict::NoSpace]) {
            return Ok(());
        }
        let texts: Vec<&str> = met.into_iter().map(Conflict::text).collect();
        Err(NodeRefusal::rule(Rule::Volume, texts.join(", ")))
    }
}

/// Storage capacity allows the pod to start on `node` now. True where capacities are not looked at.
pub(crate) fn fits_now(world: &World, task: TaskId, node: NodeId) -> bool {
    storage::StorageDemand::new(world, task)
        .is_none_or(|demand| demand.fits_now(world, world.node(node)))
}

/// Storage capacity allows the pod on `node` once releasing pods have ended. True where capacities are not
/// looked at.
pub(crate) fn fits_later(world: &World, task: TaskId, node: NodeId) -> bool {
    storage::StorageDemand::new(world, task)
        .is_none_or(|demand| demand.fits_later(world, world.node(node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::input::selectors::{LabelSelector, Labels, Operator};
    use crate::input::storage::{VolumeTraits, VolumeWants};
    use crate::plugins::predicates::testing::{Cluster, NAMESPACE, node, pod, requirement};

    pub(crate) fn on_zone(zone: &str) -> Vec<NodeTerm> {
        let labels = vec![requirement("zone", Operator::In, &[zone])];
        vec![NodeTerm { labels, fields: Vec::new() }]
    }

    fn claim(name: &str, class: &str) -> VolumeClaimSpec {
        VolumeClaimSpec {
            name: ObjectName::new(NAMESPACE, name),
            class: Some(class.into()),
            bytes: 10,
            volume: None,
            deleting: false,
            owner_pod: None,
            selected_node: None,
            wants: VolumeWants::default(),
        }
    }

    fn volume(name: &str, class: &str, zone: &str) -> VolumeSpec {
        VolumeSpec {
            name: name.into(),
            class: Some(class.into()),
            bytes: 10,
            nodes: on_zone(zone),
            claim: None,
            traits: VolumeTraits::default(),
        }
    }

    fn class(name: &str, provisioner: &str, waits: bool) -> StorageClassSpec {
        StorageClassSpec {
            name: name.into(),
            provisioner: provisioner.into(),
            waits_for_consumer: waits,
            allowed_nodes: Vec::new(),
        }
    }

    fn zones(config: Config) -> Cluster {
        let mut cluster = Cluster::of(config);
        cluster.node(node("a").label("zone", "a"));
        cluster.node(node("b").label("zone", "b"));
        cluster.storage(StorageObject::Class(class("made", "csi.example.com", true)));
        cluster.storage(StorageObject::Class(class("by-hand", NO_PROVISIONER, true)));
        cluster.storage(StorageObject::Class(class("at-once", "csi.example.com", false)));
        cluster
    }

    #[test]
    fn claims_must_exist_live_and_be_bound_or_wait() {
        let mut cluster = zones(Config::default());
        let task = cluster.pod(pod("p").mounting("data"));
        let mut expect = |claim: Option<VolumeClaimSpec>, text: Option<&str>| {
            if let Some(claim) = claim {
                cluster.storage(StorageObject::Claim(claim));
            }
            assert_eq!(refusal(&cluster.world, task).as_deref(), text);
        };
        expect(None, Some("persistentvolumeclaim \"data\" not found"));
        let unbound = Some("pod has unbound immediate PersistentVolumeClaims");
        expect(Some(claim("data", "at-once")), unbound);
        expect(Some(claim("data", "unknown")), unbound);
        expect(Some(VolumeClaimSpec { class: None, ..claim("data", "") }), unbound);
        expect(Some(claim("data", "made")), None);
        let bound = VolumeClaimSpec { volume: Some("v".into()), ..claim("data", "at-once") };
        expect(Some(bound), None);
        let deleting = VolumeClaimSpec { deleting: true, ..claim("data", "made") };
        expect(Some(deleting), Some("persistentvolumeclaim \"data\" is being deleted"));
    }

    #[test]
    fn a_bound_volume_must_be_reachable() {
        let mut cluster = zones(Config::default());
        let bound = VolumeClaimSpec { volume: Some("v".into()), ..claim("data", "at-once") };
        cluster.storage(StorageObject::Claim(bound));
        let task = cluster.pod(pod("p").mounting("data"));
        assert_eq!(
            cluster.refusal(task, "a").unwrap(),
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
        );
        cluster.storage(StorageObject::Volume(volume("v", "at-once", "a")));
        assert_eq!(cluster.refusal(task, "a"), None);
        assert_eq!(
            cluster.refusal(task, "b").unwrap(),
            "node(s) didn't match PersistentVolume's node affinity"
        );
    }

    #[test]
    fn a_waiting_claim_takes_a_free_volume_that_is_large_enough() {
        let none = "node(s) didn't find available persistent volumes to bind";
        let mut cluster = zones(Config::default());
        cluster.storage(StorageObject::Claim(claim("data", "by-hand")));
        let task = cluster.pod(pod("p").mounting("data"));
        assert_eq!(cluster.refusal(task, "a").unwrap(), none);
        let small = VolumeSpec { bytes: 9, ..volume("small", "by-hand", "a") };
        cluster.storage(StorageObject::Volume(small));
        assert_eq!(cluster.refusal(task, "a").unwrap(), none);
        let other = ObjectName::new(NAMESPACE, "other");
        let taken = VolumeSpec { claim: Some(other), ..volume("taken", "by-hand", "a") };
        cluster.storage(StorageObject::Volume(taken));
        assert_eq!(cluster.refusal(task, "a").unwrap(), none);
        cluster.storage(StorageObject::Volume(volume("free", "by-hand", "a")));
        assert_eq!(cluster.refusal(task, "a"), None);
        assert_eq!(cluster.refusal(task, "b").unwrap(), none);
    }

    #[test]
    fn two_claims_need_two_volumes() {
        let mut cluster = zones(Config::default());
        cluster.storage(StorageObject::Claim(claim("one", "by-hand")));
        cluster.storage(StorageObject::Claim(claim("two", "by-hand")));
        cluster.storage(StorageObject::Volume(volume("v", "by-hand", "a")));
        let task = cluster.pod(pod("p").mounting("one").mounting("two"));
        assert!(cluster.refusal(task, "a").is_some());
        cluster.storage(StorageObject::Volume(volume("w", "by-hand", "a")));
        assert_eq!(cluster.refusal(task, "a"), None);
    }

    #[test]
    fn a_volume_reserved_for_the_claim_is_the_only_one() {
        let mut cluster = zones(Config::default());
        cluster.storage(StorageObject::Claim(claim("data", "by-hand")));
        cluster.storage(StorageObject::Volume(volume("free", "by-hand", "b")));
        let reserved = VolumeSpec {
            claim: Some(ObjectName::new(NAMESPACE, "data")),
            ..volume("reserved", "by-hand", "a")
        };
        cluster.storage(StorageObject::Volume(reserved));
        let task = cluster.pod(pod("p").mounting("data"));
        assert_eq!(cluster.refusal(task, "a"), None);
        assert!(cluster.refusal(task, "b").is_some());
    }

    #[test]
    fn a_volume_must_be_of_the_wanted_kind() {
        let mut cluster = zones(Config::default());
        let wants = VolumeWants {
            access_modes: vec!["ReadWriteMany".into()],
            is_block: false,
            selector: LabelSelector::exact(&[("tier".into(), "fast".into())].into()),
        };
        let data = VolumeClaimSpec { wants, ..claim("data", "by-hand") };
        cluster.storage(StorageObject::Claim(data));
        let task = cluster.pod(pod("p").mounting("data"));
        let good = VolumeTraits {
            access_modes: vec!["ReadWriteOnce".into(), "ReadWriteMany".into()],
            labels: [("tier".into(), "fast".into())].into(),
            ..VolumeTraits::default()
        };
        let mut suits = |traits: VolumeTraits| {
            let volume = VolumeSpec { traits, ..volume("v", "by-hand", "a") };
            cluster.storage(StorageObject::Volume(volume));
            cluster.refusal(task, "a").is_none()
        };
        assert!(!suits(VolumeTraits { access_modes: Vec::new(), ..good.clone() }));
        assert!(!suits(VolumeTraits { labels: Labels::new(), ..good.clone() }));
        assert!(!suits(VolumeTraits { is_block: true, ..good.clone() }));
        assert!(!suits(VolumeTraits { is_withdrawn: true, ..good.clone() }));
        assert!(suits(good));
    }

    #[test]
    fn a_volume_that_is_being_made_decides_the_node() {
        let mut cluster = zones(Config::default());
        let being_made =
            VolumeClaimSpec { selected_node: Some("b".into()), ..claim("data", "made") };
        cluster.storage(StorageObject::Claim(being_made));
        let task = cluster.pod(pod("p").mounting("data"));
        assert!(cluster.refusal(task, "a").is_some());
        assert_eq!(cluster.refusal(task, "b"), None);
    }

    #[test]
    fn a_class_can_make_volumes_where_it_is_allowed_and_has_space() {
        let mut cluster = zones(Config::default());
        cluster.storage(StorageObject::Claim(claim("data", "made")));
        let task = cluster.pod(pod("p").mounting("data"));
        assert_eq!(cluster.refusal(task, "a"), None);
        cluster.storage(StorageObject::Driver("csi.example.com".into()));
        let full = "node(s) did not have enough free storage";
        assert_eq!(cluster.refusal(task, "a").unwrap(), full);
        let capacity = |bytes| {
            StorageObject::Capacity(StorageCapacitySpec {
                name: ObjectName::new("csi", "a"),
                class: "made".into(),
                nodes: on_zone("a"),
                bytes,
            })
        };
        cluster.storage(capacity(9));
        assert_eq!(cluster.refusal(task, "a").unwrap(), full);
        cluster.storage(capacity(10));
        assert_eq!(cluster.refusal(task, "a"), None);
        assert_eq!(cluster.refusal(task, "b").unwrap(), full);
        let only_b = StorageClassSpec {
            allowed_nodes: on_zone("b"),
            ..class("made", "csi.example.com", true)
        };
        cluster.storage(StorageObject::Class(only_b));
        assert!(cluster.refusal(task, "a").unwrap().contains("didn't find available"));
    }

    #[test]
    fn lack_of_space_alone_is_left_to_the_capacity_plan() {
        let mut config = Config::default();
        config.params.schedule_csi_storage = true;
        let mut cluster = zones(config);
        cluster.storage(StorageObject::Driver("csi.example.com".into()));
        cluster.storage(StorageObject::Claim(claim("data", "made")));
        let task = cluster.pod(pod("p").mounting("data"));
        assert_eq!(cluster.refusal(task, "a"), None);
    }

    #[test]
    fn objects_can_be_forgotten() {
        let mut store = Volumes::default();
        store.set(StorageObject::Claim(claim("data", "made")));
        store.set(StorageObject::Volume(volume("v", "made", "a")));
        store.set(StorageObject::Driver("d".into()));
        assert!(store.remove(&StorageKey::Claim(ObjectName::new(NAMESPACE, "data"))));
        assert!(!store.remove(&StorageKey::Claim(ObjectName::new(NAMESPACE, "data"))));
        assert!(store.remove(&StorageKey::Volume("v".into())));
        assert!(store.remove(&StorageKey::Driver("d".into())));
        assert!(!store.remove(&StorageKey::Class("c".into())));
    }
}
