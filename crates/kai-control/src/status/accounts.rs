//! What groups and queues have and want, summed from pods as they are applied to the world. A change of a pod costs a change
//! of the sums of its group and its queue; what queues above have is summed when it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kai_api::names::gpu;
use kai_core::compatibility::Compatibility;
use kai_core::fairness::Amounts;
use kai_core::input::node::WholeGpuPolicy;
use kai_core::input::pod::PodRole;
use kai_core::input::pod_group::{DEFAULT_LEAF, GroupLeaf, GroupSet, Preemptibility};
use kai_core::input::{
    ClaimSpec, Delta, NodeSpec, Object, ObjectKey, ObjectName, PodGroupSpec, PodSpec, QueueSpec,
    Text,
};
use kai_core::keyed_hash::{KeyedMap, KeyedSet};
use kai_core::status::Status;
use kai_core::world::gpu_facts::GpuFacts;

use super::amounts::{Demand, Sum, is_over};
use super::claimed::Claimed;
use crate::name_set::NameSet;
use crate::pool::Pool;

/// What is in use and waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In use or waited for.
    pub requested: Sum,
    /// What pods with a node use.
    pub allocated: Sum,
    /// In use by groups that may not be preempted.
    pub fixed: Sum,
}

impl Usage {
    fn add(&mut self, other: &Self) {
        self.requested.add(&other.requested);
        self.allocated.add(&other.allocated);
        self.fixed.add(&other.fixed);
    }

    fn subtract(&mut self, other: &Self) {
        self.requested.subtract(&other.requested);
        self.allocated.subtract(&other.allocated);
        self.fixed.subtract(&other.fixed);
    }
}

/// A pod of a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// UID of the pod, so that a later pod of the name is not meant.
    pub uid: Text,
    /// Status of the pod, as the world has it.
    pub status: Status,
    /// The leaf it names.
    pub sub_group: Option<Text>,
    group: ObjectName,
    has_node: bool,
    /// Its claims, as names of objects.
    claims: Vec<Text>,
    /// What it asks for and has but for its claims.
    plain: Arc<Demand>,
    demand: Arc<Demand>,
}

impl Member {
    /// It waits for a node.
    pub fn waits(&self) -> bool {
        self.status.is_waiting()
    }
}

/// A group, as far as accounts go.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its queue; none: the group is not known, only pods that name it.
    pub queue: Option<Text>,
    /// It may not be preempted.
    pub fixed: bool,
    /// Needed pods by leaf.
    pub leaves: Arc<BTreeMap<Text, u32>>,
    /// Pods of the group, by name.
    members: NameSet,
    demand: Demand,
    /// The tree of a semi-preemptible group, and what its core has.
    tree: Option<Arc<GroupSet>>,
    core: Sum,
}

impl Group {
    /// What it has and wants.
    pub fn usage(&self) -> Usage {
        let Demand { requested, allocated } = self.demand.clone();
        let fixed = if self.fixed { allocated.clone() } else { self.core.clone() };
        Usage { requested, allocated, fixed }
    }
}

/// A queue, as far as accounts go.
#[derive(Clone, Debug, Default)]
struct QueueEntry {
    /// None: it does not exist, but groups or queues name it.
    spec: Option<QueueSpec>,
    children: BTreeSet<Text>,
    own: Usage,
}

/// What changed since the latest look.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Groups whose sums changed.
    pub groups: KeyedSet<ObjectName>,
    /// Queues whose sums or children changed, with all queues above.
    pub queues: BTreeSet<Text>,
}

/// What groups and queues have and want.
#[derive(Default)]
pub struct Accounts {
    /// Tables, because each change of a pod looks both up several times. Boxed, so that free slots are small.
    pods: KeyedMap<ObjectName, Box<Member>>,
    groups: KeyedMap<ObjectName, Box<Group>>,
    queues: BTreeMap<Text, QueueEntry>,
    /// Pods that ask for GPUs of AMD.
    amd: BTreeSet<ObjectName>,
    /// MiB of one GPU, by node.
    device_mib: BTreeMap<Text, i64>,
    /// Nodes that advertise more GPUs than they have: advertised and physical.
    sliced: BTreeMap<Text, (i64, i64)>,
    claimed: Claimed,
    touched: Touched,
    shared_demands: Pool<Demand>,
    shared_leaves: Pool<BTreeMap<Text, u32>>,
}

impl Accounts {
    /// Takes over a change of the world.
    pub fn observe(&mut self, delta: &Delta) {
        match delta {
            Delta::Set(Object::Pod(pod)) => self.set_pod(pod),
            Delta::Remove(ObjectKey::Pod(pod)) => {
                self.amd.remove(pod);
                self.remove_pod(pod);
            }
            Delta::Set(Object::PodGroup(group)) => self.set_group(group),
            Delta::Remove(ObjectKey::PodGroup(group)) => self.remove_group(group),
            Delta::Set(Object::Queue(queue)) => self.set_queue(&queue.name, Some(queue)),
            Delta::Remove(ObjectKey::Queue(queue)) => self.set_queue(queue, None),
            Delta::Set(Object::Claim(claim)) => self.set_claim(&claim.name, Some(claim)),
            Delta::Remove(ObjectKey::Claim(claim)) => self.set_claim(claim, None),
            Delta::Set(Object::Node(node)) => self.set_node(node),
            Delta::Remove(ObjectKey::Node(node)) => {
                self.device_mib.remove(node);
                self.sliced.remove(node);
            }
            _ => {}
        }
    }

    /// Whose GPUs a pod requests; set before the pod itself is applied.
    pub fn set_vendor(&mut self, pod: &ObjectName, is_amd: bool) {
        if is_amd {
            self.amd.insert(pod.clone());
        } else {
            self.amd.remove(pod);
        }
    }

    fn whole_gpus_of(&self, pod: &ObjectName) -> &'static str {
        if self.amd.contains(pod) { gpu::AMD } else { gpu::NVIDIA }
    }

    /// What changed since the latest call.
    pub fn take_touched(&mut self) -> Touched {
        std::mem::take(&mut self.touched)
    }

    /// A group that exists or that pods name.
    pub fn group(&self, name: &ObjectName) -> Option<&Group> {
        self.groups.get(name).map(|group| &**group)
    }

    /// Every group that exists or that pods name, in no order that may reach a result.
    pub fn group_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.groups.keys()
    }

    /// A pod of a group.
    pub fn member(&self, pod: &ObjectName) -> Option<&Member> {
        self.pods.get(pod).map(|member| &**member)
    }

    /// The group of a pod.
    pub fn group_of(&self, pod: &ObjectName) -> Option<&ObjectName> {
        self.pods.get(pod).map(|member| &member.group)
    }

    /// Pods of a group with what is known of them.
    pub fn members(&self, group: &ObjectName) -> impl Iterator<Item = (&ObjectName, &Member)> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.iter());
        members.filter_map(|pod| Some((pod, self.member(pod)?)))
    }

    /// Device claims of a pod.
    pub fn claims(&self, pod: &ObjectName) -> impl Iterator<Item = ObjectName> {
        let namespace = pod.namespace.clone();
        let claims = self.pods.get(pod).into_iter().flat_map(|member| &member.claims);
        claims.map(move |name| ObjectName { namespace: namespace.clone(), name: name.clone() })
    }

    /// A queue that exists.
    pub fn queue(&self, name: &str) -> Option<&QueueSpec> {
        self.queues.get(name)?.spec.as_ref()
    }

    /// Every queue that exists.
    pub fn queues(&self) -> impl Iterator<Item = &QueueSpec> {
        self.queues.values().filter_map(|entry| entry.spec.as_ref())
    }

    /// Queues right below one.
    pub fn children(&self, name: &str) -> impl Iterator<Item = &Text> {
        let children = self.queues.get(name).map(|entry| &entry.children);
        children.into_iter().flatten()
    }

    /// Amounts that every queue has, with all queues below it.
    pub fn used_by_queue(&self) -> BTreeMap<Text, Amounts> {
        let used = |queue: &QueueSpec| {
            let allocated = self.usage(&queue.name).allocated;
            Amounts::from_fn(|resource| allocated.in_planner_units(resource))
        };
        self.queues().map(|queue| (queue.name.clone(), used(queue))).collect()
    }

    /// What a queue and all below it have and want.
    pub fn usage(&self, queue: &str) -> Usage {
        let mut total = Usage::default();
        let mut observed = BTreeSet::new();
        let mut open: Vec<&str> = vec![queue];
        while let Some(name) = open.pop() {
            let Some((name, entry)) = self.queues.get_key_value(name) else { continue };
            if observed.insert(name) {
                total.add(&entry.own);
                open.extend(entry.children.iter().map(|child| &**child));
            }
        }
        total
    }

    /// A queue and all above it that exist, nearest first.
    pub fn chain(&self, queue: &str) -> Vec<&QueueSpec> {
        let mut chain: Vec<&QueueSpec> = Vec::new();
        let mut next = self.queue(queue);
        while let Some(spec) = next.filter(|spec| !chain.iter().any(|one| one.name == spec.name)) {
            chain.push(spec);
            next = spec.parent.as_deref().and_then(|parent| self.queue(parent));
        }
        chain
    }

    fn set_node(&mut self, node: &NodeSpec) {
        let (compatibility, policy) = (Compatibility::default(), WholeGpuPolicy::default());
        let facts = GpuFacts::of(node, compatibility, policy, 0);
        if facts.memory_known {
            self.device_mib.insert(node.name.clone(), facts.memory_mib);
        }
        let sliced = facts.is_time_sliced().then_some((facts.advertised, facts.physical));
        let known = match sliced {
            Some(sliced) => self.sliced.insert(node.name.clone(), sliced),
            None => self.sliced.remove(&node.name),
        };
        if let Some((advertised, physical)) = sliced.filter(|_| known != sliced) {
            tracing::warn!(
                node = %node.name,
                "GPU time-slicing detected (allocatable={advertised} devices, physical={physical} GPUs)"
            );
        }
    }

    fn set_pod(&mut self, pod: &PodSpec) {
        let group = pod.group.clone().filter(|_| pod.role == PodRole::Workload);
        let Some(group) = group else {
            self.remove_pod(&pod.name);
            return;
        };
        let group = ObjectName { namespace: pod.name.namespace.clone(), name: group };
        let device_mib = pod.node.as_ref().and_then(|node| self.device_mib.get(node));
        let plain = Demand::of(pod, device_mib.copied(), self.whole_gpus_of(&pod.name));
        let plain = self.shared_demands.share(&Arc::new(plain));
        let mut member = Member {
            uid: pod.uid.clone(),
            status: pod.status,
            sub_group: pod.sub_group.clone(),
            group: group.clone(),
            has_node: pod.node.is_some(),
            claims: pod.claims.clone(),
            demand: Arc::clone(&plain),
            plain,
        };
        self.count_claims(&pod.name, &mut member);
        let old = self.pods.get(&pod.name);
        let same_place = old.is_some_and(|old| old.group == group && old.uid == member.uid);
        if same_place && old.is_some_and(|old| old.demand == member.demand) {
            let changed = old.is_some_and(|old| old.status != member.status);
            if changed {
                self.touched.groups.insert(group);
            }
            self.replace_member(&pod.name, member);
            return;
        }
        self.remove_pod(&pod.name);
        self.add_member(&pod.name, member);
    }

    fn add_member(&mut self, pod: &ObjectName, member: Member) {
        self.change_group(&member.group.clone(), |entry| {
            entry.members.insert(pod.clone());
            entry.demand.requested.add(&member.demand.requested);
            entry.demand.allocated.add(&member.demand.allocated);
        });
        let group = member.group.clone();
        self.replace_member(pod, member);
        self.count_core(&group);
    }

    fn replace_member(&mut self, pod: &ObjectName, member: Member) {
        if let Some(old) = self.pods.get(pod) {
            self.claimed.remove_user(pod, &old.claims);
        }
        self.claimed.add_user(pod, &member.claims);
        self.pods.insert(pod.clone(), Box::new(member));
    }

    /// GPUs that a pod claims count as if it requested them itself.
    fn count_claims(&self, pod: &ObjectName, member: &mut Member) {
        if !is_over(member.status) {
            let claimed = self.claimed.sum(pod, &member.claims);
            let claims_nothing = claimed == Sum::default();
            member.demand = if claims_nothing {
                Arc::clone(&member.plain)
            } else {
                Arc::new(member.plain.with_claimed(&claimed, member.has_node))
            };
        }
    }

    fn set_claim(&mut self, name: &ObjectName, claim: Option<&ClaimSpec>) {
        for pod in self.claimed.set(name, claim) {
            let Some(mut member) = self.member(&pod).cloned() else { continue };
            self.count_claims(&pod, &mut member);
            self.remove_pod(&pod);
            self.add_member(&pod, member);
        }
    }

    fn remove_pod(&mut self, pod: &ObjectName) {
        let Some(member) = self.pods.remove(pod) else { return };
        self.claimed.remove_user(pod, &member.claims);
        self.change_group(&member.group, |entry| {
            entry.members.remove(pod);
            entry.demand.requested.subtract(&member.demand.requested);
            entry.demand.allocated.subtract(&member.demand.allocated);
        });
        self.count_core(&member.group);
        self.forget_if_empty(&member.group);
    }

    /// Counts what the core of a semi-preemptible group has: the pods that its tree needs.
    fn count_core(&mut self, group: &ObjectName) {
        let Some(entry) = self.groups.get(group) else { return };
        let core = entry.tree.as_ref().map(|tree| self.core_of(entry, tree)).unwrap_or_default();
        if core != entry.core {
            self.change_group(group, |entry| entry.core = core);
        }
    }

    fn core_of(&self, entry: &Group, set: &GroupSet) -> Sum {
        let leaf_members = |leaf: &GroupLeaf| {
            let named = |member: &&Member| {
                member.sub_group.as_deref().unwrap_or(DEFAULT_LEAF) == &*leaf.name
                    && member.demand.allocated != Sum::default()
            };
            let members = entry.members.iter().filter_map(|pod| self.member(pod)).filter(named);
            let members: Vec<&Member> = members.take(leaf.min_available as usize).collect();
            let is_satisfied = members.len() >= leaf.min_available as usize;
            let mut sum = Sum::default();
            for member in &members {
                sum.add(&member.demand.allocated);
            }
            (is_satisfied, sum)
        };
        let leaves = set.leaves.iter().map(leaf_members);
        let sets = set.sets.iter().map(|below| {
            let sum = self.core_of(entry, below);
            (sum != Sum::default(), sum)
        });
        let parts: Vec<(bool, Sum)> = leaves.chain(sets).collect();
        let needed = set.min_members.map_or(parts.len(), |needed| needed as usize);
        let satisfied = parts.iter().filter(|(is_satisfied, _)| *is_satisfied).count();
        let mut sum = Sum::default();
        let counted = parts.iter().filter(|(is_satisfied, _)| satisfied <= needed || *is_satisfied);
        let most = if satisfied > needed { needed } else { parts.len() };
        counted.take(most).for_each(|(_, part)| sum.add(part));
        sum
    }

    fn set_group(&mut self, spec: &PodGroupSpec) {
        let fixed = spec.preemptibility == Preemptibility::NonPreemptible;
        let is_semi = spec.preemptibility == Preemptibility::SemiPreemptible;
        let tree = is_semi.then(|| Arc::clone(&spec.tree));
        let mut leaves = BTreeMap::new();
        collect_leaves(&spec.tree, &mut leaves);
        let leaves = self.shared_leaves.share(&Arc::new(leaves));
        self.change_group(&spec.name, |entry| {
            entry.queue = Some(spec.queue.clone());
            entry.fixed = fixed;
            entry.leaves = leaves;
            entry.tree = tree;
        });
        self.count_core(&spec.name);
    }

    fn remove_group(&mut self, group: &ObjectName) {
        if self.groups.contains_key(group) {
            self.change_group(group, |entry| entry.queue = None);
            self.forget_if_empty(group);
        }
    }

    fn forget_if_empty(&mut self, group: &ObjectName) {
        let empty = |entry: &Group| entry.queue.is_none() && entry.members.is_empty();
        if self.group(group).is_some_and(empty) {
            self.groups.remove(group);
        }
    }

    /// Changes a group and moves what its queue is charged.
    fn change_group(&mut self, name: &ObjectName, change: impl FnOnce(&mut Group)) {
        let entry = self.groups.entry(name.clone()).or_default();
        let (old_queue, old) = (entry.queue.clone(), entry.usage());
        change(entry);
        let (new_queue, new) = (entry.queue.clone(), entry.usage());
        self.touched.groups.insert(name.clone());
        if old_queue == new_queue && old == new {
            return;
        }
        if let Some(queue) = old_queue {
            self.queues.entry(queue.clone()).or_default().own.subtract(&old);
            self.touch_queue(&queue);
        }
        if let Some(queue) = new_queue {
            self.queues.entry(queue.clone()).or_default().own.add(&new);
            self.touch_queue(&queue);
        }
    }

    fn set_queue(&mut self, name: &Text, spec: Option<&QueueSpec>) {
        let entry = self.queues.entry(name.clone()).or_default();
        let old = entry.spec.take().and_then(|spec| spec.parent);
        let new = spec.and_then(|spec| spec.parent.clone());
        entry.spec = spec.cloned();
        let below = entry.children.clone();
        self.touched.queues.extend(below);
        self.touch_queue(name);
        if old == new {
            return;
        }
        if let Some(parent) = old {
            self.queues.entry(parent.clone()).or_default().children.remove(name);
            self.touch_queue(&parent);
        }
        if let Some(parent) = new {
            self.queues.entry(parent.clone()).or_default().children.insert(name.clone());
            self.touch_queue(&parent);
        }
    }

    /// Notes a queue and all above it.
    fn touch_queue(&mut self, queue: &Text) {
        let mut next = Some(queue.clone());
        let mut steps = self.queues.len() + 1; // parents may form a circle
        while let Some(queue) = next.filter(|_| steps > 0) {
            steps -= 1;
            let spec = self.queues.get(&queue).and_then(|entry| entry.spec.as_ref());
            next = spec.and_then(|spec| spec.parent.clone());
            self.touched.queues.insert(queue);
        }
    }
}

fn collect_leaves(set: &GroupSet, leaves: &mut BTreeMap<Text, u32>) {
    leaves.extend(set.leaves.iter().map(|leaf| (leaf.name.clone(), leaf.min_available)));
    for below in &set.sets {
        collect_leaves(below, leaves);
    }
}
