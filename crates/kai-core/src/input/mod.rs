//! Input of the planner: objects of the cluster in the planner's own words. Adapters translate into these;
//! the core knows no API types.

pub mod devices;
pub mod node;
pub mod pod;
pub mod pod_group;
pub mod queue;
pub mod selectors;
pub mod storage;

use std::cmp::Ordering;
use std::sync::Arc;

pub use devices::{ClaimSpec, DeviceClassSpec, SliceSpec};
pub use node::{NodeSpec, NumaSpec};
pub use pod::PodSpec;
pub use pod_group::PodGroupSpec;
pub use queue::QueueSpec;
pub use storage::StorageObject;

use crate::fairness::Amounts;
use crate::input::selectors::{LabelSelector, Labels};

/// A shared, immutable string.
pub type Text = Arc<str>;

/// Namespace and name of a namespaced object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectName {
    /// Namespace of the object.
    pub namespace: Text,
    /// Name within the namespace.
    pub name: Text,
}

impl ObjectName {
    /// The object `name` of `namespace`.
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Ord for ObjectName {
    /// By namespace, then by name. Most names that are compared share the text of their namespace, which then is not read.
    fn cmp(&self, other: &Self) -> Ordering {
        let namespaces = if Arc::ptr_eq(&self.namespace, &other.namespace) {
            Ordering::Equal
        } else {
            self.namespace.cmp(&other.namespace)
        };
        namespaces.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ObjectName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One change of the cluster. `Set` carries the whole object and replaces what was known of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Delta {
    /// The object exists and looks like this.
    Set(Object),
    /// The object is gone.
    Remove(ObjectKey),
}

/// An object of the cluster.
#[derive(Clone, PartialEq, Debug)]
pub enum Object {
    /// A node of the cluster.
    Node(Box<NodeSpec>),
    /// NUMA zones of a node.
    Numa(NumaSpec),
    /// A queue, leaf or parent.
    Queue(QueueSpec),
    /// Past use of a queue, normalised to the cluster's capacity.
    Usage(UsageSpec),
    /// A pod group, a job of the planner.
    PodGroup(Box<PodGroupSpec>),
    /// A pod, a task of the planner; also pods of other schedulers.
    Pod(Box<PodSpec>),
    /// A binding under way, or one that failed.
    BindRequest(BindRequestSpec),
    /// Levels of the network or rack topology.
    Topology(TopologySpec),
    /// A class of devices.
    DeviceClass(DeviceClassSpec),
    /// Devices that a driver offers.
    Slice(SliceSpec),
    /// A claim for devices.
    Claim(ClaimSpec),
    /// Volumes and their classes.
    Storage(StorageObject),
    /// A config map; only its existence matters.
    ConfigMap(ObjectName),
    /// A budget of voluntary disruptions.
    Budget(BudgetSpec),
    /// A namespace with the labels that affinity terms select by.
    Namespace(NamespaceSpec),
}

/// The identity of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ObjectKey {
    /// A node by name.
    Node(Text),
    /// The NUMA zones of a node by node name.
    Numa(Text),
    /// A queue by name.
    Queue(Text),
    /// Past use of a queue by queue name.
    Usage(Text),
    /// A pod group by namespace and name.
    PodGroup(ObjectName),
    /// A pod by namespace and name.
    Pod(ObjectName),
    /// A bind request; it has its pod's name.
    BindRequest(ObjectName),
    /// A topology by name.
    Topology(Text),
    /// A device class by name.
    DeviceClass(Text),
    /// A resource slice by name.
    Slice(Text),
    /// A resource claim by namespace and name.
    Claim(ObjectName),
    /// A volume, claim, class, driver or capacity.
    Storage(storage::StorageKey),
    /// A config map by namespace and name.
    ConfigMap(ObjectName),
    /// A disruption budget by namespace and name.
    Budget(ObjectName),
    /// A namespace by name.
    Namespace(Text),
}

/// Past use of one queue.
#[derive(Clone, PartialEq, Debug)]
pub struct UsageSpec {
    /// Name of the queue; the usage may arrive before the queue.
    pub queue: Text,
    /// Share of the cluster's capacity used in the window, per resource.
    pub usage: Amounts,
}

/// Levels of a topology, outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologySpec {
    /// Name that constraints refer to.
    pub name: Text,
    /// Levels from outermost to innermost.
    pub levels: Vec<TopologyLevel>,
}

/// One level of a topology.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopologyLevel {
    /// The node label whose values name the domains of this level.
    pub label: Text,
    /// A shorter name for the level.
    pub alias: Option<Text>,
}

/// A binding that another step carries out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindRequestSpec {
    /// The pod that is bound; also the request's own name.
    pub pod: ObjectName,
    /// Node that it is bound to.
    pub node: Text,
    /// Shared devices it was given.
    pub gpu_groups: Vec<Text>,
    /// NUMA zones that the planner chose for it, in the notation of the pod annotation.
    pub numa_zones: Option<Text>,
    /// Devices decided for its claims, by claim name.
    pub claim_allocations: Vec<(Text, devices::Allocation)>,
    /// True when it failed for good: it then holds nothing.
    pub failed: bool,
}

/// A namespace, which pods of other namespaces may select by its labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceSpec {
    /// Name by which pods refer to the namespace.
    pub name: Text,
    /// Labels that affinity terms of pods select by.
    pub labels: Labels,
}

/// How many pods of a selection may be disrupted now.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetSpec {
    /// Namespace and name; protected pods are in the same namespace.
    pub name: ObjectName,
    /// The pods it protects, in its own namespace.
    pub selector: LabelSelector,
    /// Disruptions that the budget still allows, over all its pods.
    pub allowed: u32,
}
