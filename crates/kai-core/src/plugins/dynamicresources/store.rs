//! The store of classes, slices and claims. Rule: between cycles the state of a claim is what its object says,
//! plus devices that a bind request under way decided for it; in a cycle it changes under the undo log. A device
//! is taken while an allocation holds it, unless the request only looks at it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compatibility::Compatibility;
use crate::input::devices::{AllocatedDevice, Allocation, DeviceAccess, DeviceRef};
use crate::input::{ClaimSpec, DeviceClassSpec, Object, ObjectName, PodSpec, SliceSpec, Text};
use crate::plugins::dynamicresources::pools::Pools;
use crate::plugins::dynamicresources::{TaskClaims, Touched, is_gpu_name};
use crate::resources::ResourceNames;

/// Classes, slices and claims, and which devices are taken.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    pub(super) compatibility: Compatibility,
    pub(super) classes: BTreeMap<Text, DeviceClassSpec>,
    pub(super) slices: BTreeMap<Text, SliceSpec>,
    /// Slices of one node each, by node.
    node_slices: FxHashMap<Text, BTreeSet<Text>>,
    /// Slices with devices that several nodes can use.
    wide_slices: BTreeSet<Text>,
    pub(super) pools: Pools,
    pub(super) entries: Vec<Claim>,
    ids: BTreeMap<ObjectName, usize>,
    free_slots: Vec<usize>,
    /// Pods that name a claim, whether it exists or not.
    named_by: FxHashMap<ObjectName, BTreeSet<ObjectName>>,
    /// Claims that name a pod as their owner or in their reservation, by pod.
    by_pod: FxHashMap<ObjectName, BTreeSet<usize>>,
    /// Devices that bind requests decided, by pod.
    assumed: BTreeMap<ObjectName, Vec<(Text, Allocation)>>,
    /// Slots of the claims that stand for extended resources, by pod.
    extended: FxHashMap<ObjectName, usize>,
    /// The claims that hold a device.
    pub(super) taken: FxHashMap<DeviceRef, SmallVec<[usize; 1]>>,
}

/// A claim with its spec and with what the cycle changes of it.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) spec: ClaimSpec,
    pub(super) state: ClaimState,
    /// It was allocated before the cycle began.
    pub(super) was_allocated: bool,
}

/// What of a claim changes while a cycle runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClaimState {
    pub(super) allocation: Option<Arc<Allocation>>,
    pub(super) reserved_for: Vec<Text>,
    /// What it was given before it was freed in this cycle.
    pub(super) remembered: Option<Arc<Allocation>>,
}

impl Claims {
    /// A store without classes, slices and claims.
    pub(crate) fn new(compatibility: Compatibility) -> Self {
        Self { compatibility, ..Self::default() }
    }

    pub(crate) fn set_class(&mut self, mut spec: DeviceClassSpec) -> Touched {
        if let Some(devices) = &mut spec.devices {
            devices.sort();
        }
        if self.classes.get(&spec.name) == Some(&spec) {
            return Touched::default();
        }
        self.classes.insert(spec.name.clone(), spec);
        self.supply_changed(Vec::new())
    }

    pub(crate) fn remove_class(&mut self, name: &Text) -> Touched {
        match self.classes.remove(name) {
            Some(_) => self.supply_changed(Vec::new()),
            None => Touched::default(),
        }
    }

    pub(crate) fn set_slice(&mut self, spec: SliceSpec) -> Touched {
        if self.slices.get(&spec.name) == Some(&spec) {
            return Touched::default();
        }
        let mut nodes = self.drop_slice(&spec.name);
        let (own, is_wide) = nodes_of(&spec);
        for node in own {
            self.node_slices.entry(node.clone()).or_default().insert(spec.name.clone());
        }
        if is_wide {
            self.wide_slices.insert(spec.name.clone());
        }
        self.pools.add(&spec);
        let name = spec.name.clone();
        self.slices.insert(name.clone(), spec);
        nodes.extend(self.gpu_nodes_of_pool(&self.slices[&name]));
        self.supply_changed(nodes)
    }

    pub(crate) fn remove_slice(&mut self, name: &Text) -> Touched {
        if !self.slices.contains_key(name) {
            return Touched::default();
        }
        let nodes = self.drop_slice(name);
        self.supply_changed(nodes)
    }

    pub(crate) fn set_claim(&mut self, mut spec: ClaimSpec) -> Touched {
        for alternative in spec.requests.iter_mut().flat_map(|request| &mut request.alternatives) {
            if let Some(devices) = &mut alternative.devices {
                devices.sort();
            }
        }
        if self.ids.get(&spec.name).is_some_and(|at| self.entries[*at].spec == spec) {
            return Touched::default();
        }
        let mut pods = self.drop_claim(&spec.name);
        let name = spec.name.clone();
        let at = self.new_slot(spec);
        self.ids.insert(name.clone(), at);
        for pod in self.holders(at) {
            self.by_pod.entry(pod).or_default().insert(at);
        }
        self.refresh(at);
        pods.extend(self.users(&name));
        touched_pods(pods)
    }

    pub(crate) fn remove_claim(&mut self, name: &ObjectName) -> Touched {
        if !self.ids.contains_key(name) {
            return Touched::default();
        }
        touched_pods(self.drop_claim(name))
    }

    /// Records which claims a new pod names, so that a change of them reaches it.
    pub(crate) fn know_pod(&mut self, pod: &PodSpec) {
        for claim in &pod.claims {
            let claim = ObjectName { namespace: pod.name.namespace.clone(), name: claim.clone() };
            self.named_by.entry(claim).or_default().insert(pod.name.clone());
        }
    }

    /// A pod is gone.
    pub(crate) fn forget_pod(&mut self, pod: &PodSpec) {
        for claim in &pod.claims {
            let claim = ObjectName { namespace: pod.name.namespace.clone(), name: claim.clone() };
            if let Some(pods) = self.named_by.get_mut(&claim) {
                pods.remove(&pod.name);
                if pods.is_empty() {
                    self.named_by.remove(&claim);
                }
            }
        }
        if let Some(at) = self.extended.remove(&pod.name) {
            self.change(at, ClaimState::default());
            self.free_slots.push(at);
        }
    }

    /// Takes over the devices that a bind request under way decided for the claims of `pod`; none under way: an
    /// empty list. Pods that share the claims must look anew.
    pub(crate) fn assume(
        &mut self,
        pod: &ObjectName,
        allocations: Vec<(Text, Allocation)>,
    ) -> Vec<ObjectName> {
        if self.assumed.get(pod).map_or(&[][..], Vec::as_slice) == allocations.as_slice() {
            return Vec::new();
        }
        let old = self.assumed.remove(pod).unwrap_or_default();
        let mut names: Vec<Text> =
            old.iter().chain(&allocations).map(|(name, _)| name.clone()).collect();
        if !allocations.is_empty() {
            self.assumed.insert(pod.clone(), allocations);
        }
        names.sort();
        names.dedup();
        let mut pods = Vec::new();
        for name in names {
            if &*name == super::EXTENDED_CLAIM {
                let at = self.extended_slot(pod);
                self.refresh(at);
                continue;
            }
            let claim = ObjectName { namespace: pod.namespace.clone(), name };
            if let Some(at) = self.ids.get(&claim).copied() {
                self.refresh(at);
                pods.extend(self.users(&claim));
            }
        }
        pods.sort();
        pods.dedup();
        pods
    }

    /// The claims of a pod: those it names, then those it owns.
    pub(crate) fn of_pod(&self, pod: &PodSpec) -> TaskClaims {
        let mut claims = Vec::new();
        for name in &pod.claims {
            let name = ObjectName { namespace: pod.name.namespace.clone(), name: name.clone() };
            claims.extend(self.ids.get(&name).filter(|at| !claims.contains(*at)).copied());
        }
        let owned = self.claims_of(&pod.name).into_iter().filter(|at| {
            self.entries[*at].spec.owner_pod.as_ref() == Some(&pod.name.name)
                && !claims.contains(at)
        });
        let owned: Vec<usize> = owned.collect();
        claims.extend(owned);
        TaskClaims { claims }
    }

    /// Claims that name a pod as their owner or in their reservation, in name order.
    pub(super) fn claims_of(&self, pod: &ObjectName) -> Vec<usize> {
        let mut claims: Vec<usize> =
            self.by_pod.get(pod).map(|claims| claims.iter().copied().collect()).unwrap_or_default();
        claims.sort_by(|left, right| {
            self.entries[*left].spec.name.cmp(&self.entries[*right].spec.name)
        });
        claims
    }

    /// The position of a claim.
    pub(super) fn find(&self, name: &ObjectName) -> Option<usize> {
        self.ids.get(name).copied()
    }

    /// Slots of resources that devices of a class stand behind.
    pub(crate) fn backed_slots(&self, names: &ResourceNames) -> Vec<usize> {
        let backed = self.classes.values().filter_map(|class| class.extended_resource.as_deref());
        backed.filter_map(|name| names.find(name)).collect()
    }

    /// Slices with devices that can be used from a node of this name, those with devices of the node alone first,
    /// each in name order. Slices of pools that are being updated are left out.
    pub(super) fn slices_of(&self, node: &str) -> impl Iterator<Item = &SliceSpec> {
        self.published_slices(node).filter(|slice| self.pools.is_usable(slice))
    }

    /// The same with slices that are out of date or whose pool is incomplete.
    pub(super) fn published_slices(&self, node: &str) -> impl Iterator<Item = &SliceSpec> {
        let own = self.node_slices.get(node);
        let is_new = move |name: &&Text| own.is_none_or(|own| !own.contains(*name));
        let wide = self.wide_slices.iter().filter(is_new);
        own.into_iter().flatten().chain(wide).filter_map(|name| self.slices.get(name))
    }

    /// Names of nodes that have slices of their own.
    pub(super) fn nodes_with_slices(&self) -> impl Iterator<Item = &Text> {
        // Only sums and maxima are taken over them.
        self.node_slices.keys()
    }

    /// The slot of the claim that stands for the extended resources of a pod.
    pub(super) fn extended_slot(&mut self, pod: &ObjectName) -> usize {
        if let Some(at) = self.extended.get(pod) {
            return *at;
        }
        let at = self.new_slot(ClaimSpec {
            name: ObjectName::new(pod.namespace.clone(), super::EXTENDED_CLAIM),
            labels: BTreeMap::new(),
            owner_pod: Some(pod.name.clone()),
            requests: Vec::new(),
            constraints: Vec::new(),
            for_extended_resource: true,
            allocation: None,
            reserved_for: Vec::new(),
        });
        self.extended.insert(pod.clone(), at);
        at
    }

    /// The slot of the claim that stands for the extended resources of a pod, if it has one.
    pub(super) fn extended_slot_of(&self, pod: &ObjectName) -> Option<usize> {
        self.extended.get(pod).copied()
    }

    /// Replaces the state of a claim and keeps the taken devices true.
    pub(super) fn change(&mut self, at: usize, state: ClaimState) {
        let old = std::mem::replace(&mut self.entries[at].state, state);
        if old.allocation == self.entries[at].state.allocation {
            return;
        }
        if let Some(allocation) = &old.allocation {
            for result in &allocation.results {
                if self.takes(at, result)
                    && let Some(holders) = self.taken.get_mut(&result.device)
                {
                    if let Some(found) = holders.iter().position(|holder| *holder == at) {
                        holders.swap_remove(found);
                    }
                    if holders.is_empty() {
                        self.taken.remove(&result.device);
                    }
                }
            }
        }
        if let Some(allocation) = self.entries[at].state.allocation.clone() {
            for result in &allocation.results {
                if self.takes(at, result) {
                    self.taken.entry(result.device.clone()).or_default().push(at);
                }
            }
        }
    }

    pub(crate) fn restore(&mut self, claim: usize, state: ClaimState) {
        self.change(claim, state);
    }

    /// Whether a result keeps others off the device; a look at it does not.
    pub(super) fn takes(&self, at: usize, result: &AllocatedDevice) -> bool {
        let name = result.request.split('/').next().unwrap_or_default();
        let request = self.entries[at].spec.requests.iter().find(|request| &*request.name == name);
        request.is_none_or(|request| !request.alternatives.iter().any(|one| one.admin_access))
    }

    /// Sets the state of a claim from its objects and the decisions in flight.
    fn refresh(&mut self, at: usize) {
        let spec = &self.entries[at].spec;
        let mut state = ClaimState {
            allocation: spec.allocation.clone().map(Arc::new),
            reserved_for: spec.reserved_for.clone(),
            remembered: None,
        };
        for (pod, allocations) in &self.assumed {
            let is_ours = pod.namespace == spec.name.namespace
                && (&*spec.name.name != super::EXTENDED_CLAIM
                    || spec.owner_pod.as_ref() == Some(&pod.name));
            let decided = allocations.iter().find(|(name, _)| *name == spec.name.name);
            let Some((_, allocation)) = decided.filter(|_| is_ours && spec.allocation.is_none())
            else {
                continue;
            };
            if !state.reserved_for.contains(&pod.name) {
                state.reserved_for.push(pod.name.clone());
            }
            if state.allocation.is_none() {
                state.allocation = Some(Arc::new(allocation.clone()));
            }
        }
        self.entries[at].was_allocated = state.allocation.is_some();
        self.change(at, state);
    }

    fn new_slot(&mut self, spec: ClaimSpec) -> usize {
        let claim = Claim { spec, state: ClaimState::default(), was_allocated: false };
        if let Some(at) = self.free_slots.pop() {
            self.entries[at] = claim;
            return at;
        }
        self.entries.push(claim);
        self.entries.len() - 1
    }

    /// Forgets a claim; the pods that used it.
    fn drop_claim(&mut self, name: &ObjectName) -> Vec<ObjectName> {
        let Some(at) = self.ids.get(name).copied() else { return Vec::new() };
        let pods = self.users(name);
        for pod in self.holders(at) {
            if let Some(claims) = self.by_pod.get_mut(&pod) {
                claims.remove(&at);
                if claims.is_empty() {
                    self.by_pod.remove(&pod);
                }
            }
        }
        self.change(at, ClaimState::default());
        self.ids.remove(name);
        self.free_slots.push(at);
        pods
    }

    /// Forgets a slice; the nodes whose GPUs change with it.
    fn drop_slice(&mut self, name: &Text) -> Vec<Text> {
        let Some(old) = self.slices.get(name).cloned() else { return Vec::new() };
        let nodes = self.gpu_nodes_of_pool(&old);
        self.slices.remove(name);
        self.wide_slices.remove(name);
        for node in nodes_of(&old).0 {
            if let Some(slices) = self.node_slices.get_mut(node) {
                slices.remove(name);
                if slices.is_empty() {
                    self.node_slices.remove(node);
                }
            }
        }
        self.pools.remove(&old);
        nodes
    }

    /// Nodes whose number of GPUs the pool of a slice adds to: each slice decides whether all are usable.
    fn gpu_nodes_of_pool(&self, slice: &SliceSpec) -> Vec<Text> {
        if !is_gpu_name(&slice.driver) {
            return Vec::new();
        }
        let slices = self.pools.slices_of(slice).filter_map(|name| self.slices.get(name));
        let mut nodes: Vec<Text> = slices.flat_map(|slice| nodes_of(slice).0).cloned().collect();
        nodes.sort();
        nodes.dedup();
        nodes
    }

    /// Pods that a claim belongs to by its own word. KAI sees only the first reservation of a claim that no pod
    /// owns.
    fn holders(&self, at: usize) -> Vec<ObjectName> {
        let spec = &self.entries[at].spec;
        let reserved = if self.compatibility.is_kai() {
            let first = usize::from(spec.owner_pod.is_none()).min(spec.reserved_for.len());
            &spec.reserved_for[..first]
        } else {
            &spec.reserved_for[..]
        };
        let pods = spec.owner_pod.iter().chain(reserved);
        let namespace = &spec.name.namespace;
        pods.map(|pod| ObjectName { namespace: namespace.clone(), name: pod.clone() }).collect()
    }

    /// Pods that name a claim or that it belongs to.
    fn users(&self, name: &ObjectName) -> Vec<ObjectName> {
        let mut pods: Vec<ObjectName> =
            self.named_by.get(name).map(|pods| pods.iter().cloned().collect()).unwrap_or_default();
        pods.extend(self.ids.get(name).map(|at| self.holders(*at)).unwrap_or_default());
        pods
    }

    /// Devices or classes changed: some nodes have other GPUs, and claims that ask for what there is count anew.
    fn supply_changed(&self, nodes: Vec<Text>) -> Touched {
        let by_supply = self.ids.iter().filter(|(_, at)| self.counts_by_supply(**at));
        let pods = by_supply.flat_map(|(name, _)| self.users(name)).collect();
        Touched { nodes, ..touched_pods(pods) }
    }

    /// The objects of the store, by kind and name.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let classes = self.classes.values().cloned().map(Object::DeviceClass);
        let slices = self.slices.values().cloned().map(Object::Slice);
        let claims = self.ids.values().map(|at| Object::Claim(self.entries[*at].spec.clone()));
        classes.chain(slices).chain(claims).collect()
    }

    /// Everything that can influence a plan, in name order.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("{:?}\n{:?}\n", self.classes, self.slices);
        let named = self.ids.iter().map(|(name, at)| (name, false, *at));
        let extended = self.extended.iter().map(|(pod, at)| (pod, true, *at));
        let mut slots: Vec<(&ObjectName, bool, usize)> = named.chain(extended).collect();
        slots.sort();
        for (name, is_extended, at) in slots {
            let claim = &self.entries[at];
            if is_extended && claim.state == ClaimState::default() {
                continue;
            }
            let line = format!("claim {name} {:?} {:?}\n", claim.spec, claim.state);
            text.push_str(&line);
        }
        text
    }
}

/// Nodes that have devices of a slice for themselves, and whether it has others too.
fn nodes_of(slice: &SliceSpec) -> (BTreeSet<&Text>, bool) {
    if let DeviceAccess::Node(node) = &slice.access {
        return ([node].into(), false);
    }
    let mut own = BTreeSet::new();
    let mut is_wide = slice.access != DeviceAccess::PerDevice;
    for device in &slice.devices {
        match slice.access_to(device) {
            DeviceAccess::Node(node) => {
                own.insert(node);
            }
            DeviceAccess::Nodes(_) | DeviceAccess::AllNodes => is_wide = true,
            DeviceAccess::PerDevice => {}
        }
    }
    (own, is_wide)
}

fn touched_pods(mut pods: Vec<ObjectName>) -> Touched {
    pods.sort();
    pods.dedup();
    Touched { changed: true, nodes: Vec::new(), pods }
}
