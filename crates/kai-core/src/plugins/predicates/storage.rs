//! Storage capacity as a resource of nodes, where the scheduler is configured to look at it.
//!
//! Rules: only classes count that wait for a pod's node and whose driver publishes capacities. A node uses the
//! capacities it reaches; one that reaches two of a class uses none, because it is unknown which would be taken.
//! A pod needs capacity for its claims that have no volume yet; a pod evicted in this cycle also for the claims
//! it owns, which end with it. A capacity has left what it publishes less the claims without volume of pods on any
//! node that reaches it. Claims whose owner is gone let nothing start. Releasing pods give the claims they
//! own back: enough for a nomination, not for a start.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::volumes::{Volumes, reaches};
use crate::ids::{NodeId, TaskId};
use crate::input::storage::{StorageCapacitySpec, VolumeClaimSpec};
use crate::input::{ObjectName, PodSpec, Text};
use crate::report::refusal::{NodeRefusal, Rule};
use crate::status::Status;
use crate::world::World;
use crate::world::node::Node;
use crate::world::task::Task;

/// What one pod needs of storage capacities, computed once for all nodes.
#[derive(Clone, Debug)]
pub(crate) struct StorageDemand {
    /// Bytes that the pod needs of each storage class.
    wanted: BTreeMap<Text, i64>,
    /// Claims whose owner is gone.
    orphans: Vec<ObjectName>,
    /// Claims without volume of other pods: where each is used and how large it is. By class.
    pending: BTreeMap<Text, BTreeMap<ObjectName, PendingClaim>>,
}

#[derive(Clone, Debug)]
struct PendingClaim {
    bytes: i64,
    nodes: Vec<NodeId>,
}

impl StorageDemand {
    /// The demand of `task`; none where capacities are not looked at or the pod has no claims that need them.
    pub(crate) fn new(world: &World, task: TaskId) -> Option<Box<Self>> {
        let pod = world.task(task);
        if !world.config.params.schedule_csi_storage
            || pod.spec.constraints.volume_claims.is_empty()
        {
            return None;
        }
        let mut wanted: BTreeMap<Text, i64> = BTreeMap::new();
        let mut own = Vec::new();
        let mut orphans = Vec::new();
        for (class, claim) in planned_claims(&world.volumes, &pod.spec) {
            if !owner_lives(world, &pod.spec, claim) {
                orphans.push(claim.name.clone());
            }
            if claim.volume.is_none() || (loses_its_claims(pod) && owns(&pod.spec, claim)) {
                *wanted.entry(class.clone()).or_default() += claim.bytes;
                own.push(&claim.name);
            }
        }
        if wanted.is_empty() && orphans.is_empty() {
            return None;
        }
        let mut demand = Self { wanted, orphans, pending: BTreeMap::new() };
        demand.collect_pending(world, &own);
        Some(Box::new(demand))
    }

    fn collect_pending(&mut self, world: &World, own: &[&ObjectName]) {
        for (id, node) in world.nodes() {
            for resident in &node.residents {
                let pod = &world.task(resident.task).spec;
                for (class, claim) in planned_claims(&world.volumes, pod) {
                    let counts = claim.volume.is_none()
                        && self.wanted.contains_key(class)
                        && !own.contains(&&claim.name);
                    if counts {
                        let of_class = self.pending.entry(class.clone()).or_default();
                        let entry = of_class.entry(claim.name.clone()).or_insert_with(|| {
                            PendingClaim { bytes: claim.bytes, nodes: Vec::new() }
                        });
                        entry.nodes.push(id);
                    }
                }
            }
        }
    }

    /// The pod can start on `node` now.
    pub(crate) fn fits_now(&self, world: &World, node: &Node) -> bool {
        self.orphans.is_empty() && self.short_classes(world, node, false).next().is_none()
    }

    /// The pod can have its storage on `node` once releasing pods have ended.
    pub(crate) fn fits_later(&self, world: &World, node: &Node) -> bool {
        self.short_classes(world, node, true).next().is_none()
    }

    /// Why the pod cannot start on `node` now.
    pub(crate) fn refusal(&self, world: &World, node: &Node) -> Option<NodeRefusal> {
        let text = if self.orphans.is_empty() {
            let texts: Vec<String> =
                self.short_classes(world, node, false).map(|short| short.text()).collect();
            texts.join("; ")
        } else {
            let names: Vec<String> = self.orphans.iter().map(ToString::to_string).collect();
            format!("task has deleted storage claims: {}", names.join(", "))
        };
        (!text.is_empty()).then(|| NodeRefusal::rule(Rule::Storage, text))
    }

    fn short_classes<'a>(
        &'a self,
        world: &'a World,
        node: &'a Node,
        counts_releasing: bool,
    ) -> impl Iterator<Item = Short<'a>> {
        let reached = if self.wanted.is_empty() { None } else { capacities_of(world, node) };
        self.wanted.iter().filter_map(move |(class, bytes)| {
            let Some(capacity) = reached.as_ref().and_then(|reached| reached.get(class)) else {
                return Some(Short { class, is_reached: false });
            };
            let releasing = if counts_releasing { releasing_bytes(world, node, class) } else { 0 };
            let left = capacity.bytes - self.pending_on(world, capacity) + releasing;
            (*bytes > left).then_some(Short { class, is_reached: true })
        })
    }

    /// Bytes of claims without volume that will be made from `capacity`.
    fn pending_on(&self, world: &World, capacity: &StorageCapacitySpec) -> i64 {
        let Some(claims) = self.pending.get(&capacity.class) else {
            return 0;
        };
        let uses = |claim: &&PendingClaim| {
            claim.nodes.iter().any(|node| reaches(&capacity.nodes, world.node(*node)))
        };
        claims.values().filter(uses).map(|claim| claim.bytes).sum()
    }
}

/// A class of which a node has too little.
struct Short<'a> {
    class: &'a Text,
    is_reached: bool,
}

impl Short<'_> {
    fn text(&self) -> String {
        let class = self.class;
        if self.is_reached {
            format!("node(s) did not have enough free storage for storageclass {class}")
        } else {
            format!("no allocatable storage from storageclass {class} found")
        }
    }
}

/// The claims of a pod that are of classes with capacities, with their class.
fn planned_claims<'a>(
    store: &'a Volumes,
    pod: &'a PodSpec,
) -> impl Iterator<Item = (&'a Text, &'a Arc<VolumeClaimSpec>)> {
    pod.constraints.volume_claims.iter().filter_map(|name| {
        let claim = store.claim(&pod.name.namespace, name)?;
        let class = claim.class.as_ref()?;
        store.is_capacity_class(class).then_some((class, claim))
    })
}

/// The owner of a claim may be given by UID or by name; UIDs and names of pods are never equal.
fn owns(pod: &PodSpec, claim: &VolumeClaimSpec) -> bool {
    pod.name.namespace == claim.name.namespace
        && claim
            .owner_pod
            .as_ref()
            .is_some_and(|owner| *owner == pod.uid || *owner == pod.name.name)
}

/// The pod that owns the claim exists and was not evicted; claims without owner live by themselves.
fn owner_lives(world: &World, user: &PodSpec, claim: &VolumeClaimSpec) -> bool {
    if claim.owner_pod.is_none() {
        return true;
    }
    let stays = |pod: &PodSpec| {
        owns(pod, claim) && !matches!(pod.status, Status::Releasing | Status::StuckInReleasing)
    };
    stays(user) || world.tasks().any(|(_, task)| stays(&task.spec))
}

/// The pod was evicted in this cycle: what it owns ends with it and must be provisioned anew on its next node.
fn loses_its_claims(pod: &Task) -> bool {
    pod.state.tentative && !pod.state.status.is_allocated()
}

/// The capacities a node uses, by class; none when it reaches two of a class.
fn capacities_of<'a>(
    world: &'a World,
    node: &Node,
) -> Option<BTreeMap<&'a Text, &'a StorageCapacitySpec>> {
    let mut reached = BTreeMap::new();
    for capacity in world.volumes.capacities().filter(|one| reaches(&one.nodes, node)) {
        if reached.insert(&capacity.class, &**capacity).is_some() {
            return None;
        }
    }
    Some(reached)
}

/// Bytes of claims of `class` that releasing pods of `node` own.
fn releasing_bytes(world: &World, node: &Node, class: &Text) -> i64 {
    let mut counted: Vec<&ObjectName> = Vec::new();
    let mut bytes = 0;
    for resident in node.residents.iter().filter(|resident| !resident.status.is_alive()) {
        let pod = &world.task(resident.task).spec;
        for (of, claim) in planned_claims(&world.volumes, pod) {
            if of == class && owns(pod, claim) && !counted.contains(&&claim.name) {
                counted.push(&claim.name);
                bytes += claim.bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::input::selectors::{NodeTerm, Operator};
    use crate::input::storage::{StorageClassSpec, StorageObject, VolumeWants};
    use crate::plugins::predicates::testing::{
        Cluster, NAMESPACE, PodBuilder, node, pod, requirement, text_of,
    };
    use crate::plugins::predicates::volumes::{fits_later, fits_now};

    fn claim(name: &str, bytes: i64) -> VolumeClaimSpec {
        VolumeClaimSpec {
            name: ObjectName::new(NAMESPACE, name),
            class: Some("local".into()),
            bytes,
            volume: None,
            deleting: false,
            owner_pod: None,
            selected_node: None,
            wants: VolumeWants::default(),
        }
    }

    fn capacity(name: &str, host: &str, bytes: i64) -> StorageObject {
        let labels = vec![requirement("host", Operator::In, &[host])];
        StorageObject::Capacity(StorageCapacitySpec {
            name: ObjectName::new("csi", name),
            class: "local".into(),
            nodes: vec![NodeTerm { labels, fields: Vec::new() }],
            bytes,
        })
    }

    /// Nodes a and b; 100 bytes of class `local` on a, nothing on b.
    fn cluster(looks_at_capacities: bool) -> Cluster {
        let mut config = Config::default();
        config.params.schedule_csi_storage = looks_at_capacities;
        let mut cluster = Cluster::of(config);
        cluster.node(node("a").label("host", "a"));
        cluster.node(node("b").label("host", "b"));
        cluster.storage(StorageObject::Driver("csi".into()));
        cluster.storage(StorageObject::Class(StorageClassSpec {
            name: "local".into(),
            provisioner: "csi".into(),
            waits_for_consumer: true,
            allowed_nodes: Vec::new(),
        }));
        cluster.storage(capacity("a", "a", 100));
        cluster
    }

    fn add(cluster: &mut Cluster, pod: PodBuilder, claim: VolumeClaimSpec) -> TaskId {
        let name = claim.name.name.clone();
        cluster.storage(StorageObject::Claim(claim));
        cluster.pod(pod.mounting(&name))
    }

    fn now(cluster: &Cluster, task: TaskId, node: &str) -> bool {
        fits_now(&cluster.world, task, cluster.world.node_named(node).unwrap())
    }

    fn later(cluster: &Cluster, task: TaskId, node: &str) -> bool {
        fits_later(&cluster.world, task, cluster.world.node_named(node).unwrap())
    }

    fn why(cluster: &Cluster, task: TaskId, node: &str) -> String {
        let node = cluster.world.node(cluster.world.node_named(node).unwrap());
        let demand = StorageDemand::new(&cluster.world, task).unwrap();
        text_of(&demand.refusal(&cluster.world, node).unwrap())
    }

    #[test]
    fn nothing_is_asked_where_capacities_are_not_looked_at() {
        let mut off = cluster(false);
        let task = add(&mut off, pod("p"), claim("data", 1000));
        assert!(now(&off, task, "a") && later(&off, task, "b"));
        let mut on = cluster(true);
        let plain = on.pod(pod("q"));
        assert!(now(&on, plain, "b") && later(&on, plain, "b"));
    }

    #[test]
    fn claims_without_volume_need_a_capacity_that_holds_them() {
        let mut cluster = cluster(true);
        let fitting = add(&mut cluster, pod("p"), claim("data", 100));
        assert!(now(&cluster, fitting, "a") && later(&cluster, fitting, "a"));
        assert!(!now(&cluster, fitting, "b") && !later(&cluster, fitting, "b"));
        assert_eq!(
            why(&cluster, fitting, "b"),
            "no allocatable storage from storageclass local found"
        );
        let large = add(&mut cluster, pod("q"), claim("more", 101));
        assert!(!now(&cluster, large, "a"));
        assert_eq!(
            why(&cluster, large, "a"),
            "node(s) did not have enough free storage for storageclass local"
        );
    }

    #[test]
    fn bound_claims_and_other_classes_need_nothing() {
        let mut cluster = cluster(true);
        let bound = VolumeClaimSpec { volume: Some("v".into()), ..claim("bound", 1000) };
        let task = add(&mut cluster, pod("p"), bound);
        assert!(now(&cluster, task, "b"));
        let other = VolumeClaimSpec { class: Some("nfs".into()), ..claim("other", 1000) };
        let task = add(&mut cluster, pod("q"), other);
        assert!(now(&cluster, task, "b"));
    }

    #[test]
    fn claims_of_pods_on_the_way_to_the_node_are_subtracted() {
        let mut cluster = cluster(true);
        let bound = pod("early").on("a").status(Status::Bound);
        add(&mut cluster, bound, claim("early", 60));
        let task = add(&mut cluster, pod("p"), claim("data", 41));
        assert!(!now(&cluster, task, "a"));
        let small = add(&mut cluster, pod("q"), claim("small", 40));
        assert!(now(&cluster, small, "a"));
    }

    #[test]
    fn two_capacities_of_a_class_on_a_node_are_none() {
        let mut cluster = cluster(true);
        let task = add(&mut cluster, pod("p"), claim("data", 1));
        assert!(now(&cluster, task, "a"));
        cluster.storage(capacity("a-too", "a", 100));
        assert!(!now(&cluster, task, "a"));
    }

    #[test]
    fn terminating_pods_release_their_volumes_for_later() {
        let mut cluster = cluster(true);
        let owned = VolumeClaimSpec {
            volume: Some("v".into()),
            owner_pod: Some("releasing".into()),
            ..claim("owned", 50)
        };
        let releasing = pod("releasing").on("a").status(Status::Releasing);
        add(&mut cluster, releasing, owned);
        let task = add(&mut cluster, pod("p"), claim("data", 150));
        assert!(!now(&cluster, task, "a"));
        assert!(later(&cluster, task, "a"));
        let larger = add(&mut cluster, pod("q"), claim("larger", 151));
        assert!(!later(&cluster, larger, "a"));
    }

    #[test]
    fn claims_whose_owner_is_gone_let_nothing_start() {
        let mut cluster = cluster(true);
        let orphan = VolumeClaimSpec { owner_pod: Some("gone".into()), ..claim("orphan", 1) };
        let task = add(&mut cluster, pod("p"), orphan);
        assert!(!now(&cluster, task, "a"));
        assert_eq!(why(&cluster, task, "a"), "task has deleted storage claims: ns/orphan");
        assert!(later(&cluster, task, "a"));
        let own = VolumeClaimSpec { owner_pod: Some("uid-q".into()), ..claim("own", 1) };
        let owner = add(&mut cluster, pod("q"), own);
        assert!(now(&cluster, owner, "a"));
    }
}
