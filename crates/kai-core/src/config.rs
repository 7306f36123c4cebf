//! Configuration of one planner, in the planner's own words. Adapters read KAI's YAML, flags and shards into it.

use std::collections::BTreeMap;

use crate::compatibility::Compatibility;
use crate::input::Text;
use crate::input::node::WholeGpuPolicy;
use crate::time::Span;

/// What a planner is configured with.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Actions in the order they run.
    pub actions: Vec<ActionKind>,
    /// Plugins in order; one that is not listed has no influence.
    pub plugins: Vec<PluginSpec>,
    /// Parameters that belong to no plugin.
    pub params: Params,
    /// Budgets of the search for victims; none: unlimited.
    pub budgets: Option<SearchBudgets>,
    /// Jobs considered per leaf queue and action; absent: all.
    pub queue_depth: BTreeMap<ActionKind, usize>,
    /// Right or exactly KAI.
    pub compatibility: Compatibility,
}

/// The five actions of a cycle, under the names that KAI gives them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ActionKind {
    /// Places pods on free resources.
    Allocate,
    /// Moves running pods together so that a waiting job fits.
    Consolidation,
    /// Takes back resources for queues under their share.
    Reclaim,
    /// Evicts jobs of lower priority in the same queue.
    Preempt,
    /// Evicts gangs that lack members for too long.
    StaleGangEviction,
}

impl ActionKind {
    /// All actions in KAI's default order.
    pub const ALL: [Self; 5] = [
        Self::Allocate,
        Self::Consolidation,
        Self::Reclaim,
        Self::Preempt,
        Self::StaleGangEviction,
    ];

    /// Name of the action in KAI's configuration and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Consolidation => "consolidation",
            Self::Reclaim => "reclaim",
            Self::Preempt => "preempt",
            Self::StaleGangEviction => "stalegangeviction",
        }
    }

    /// The action of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// A plugin and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PluginSpec {
    /// Name of the plugin in KAI's configuration.
    pub name: Text,
    /// Arguments as KAI's configuration has them; each plugin parses its own.
    pub arguments: BTreeMap<Text, Text>,
}

impl PluginSpec {
    /// A plugin without arguments.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), arguments: BTreeMap::new() }
    }

    /// An argument as text.
    pub fn argument(&self, key: &str) -> Option<&str> {
        self.arguments.get(key).map(|value| &**value)
    }
}

/// Parameters that belong to no plugin.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own in KAI's configuration"
)]
pub struct Params {
    /// Victims one consolidation may move; none: unlimited.
    pub max_consolidation_preemptees: Option<usize>,
    /// Victims that are placed elsewhere do not count as reclaimed.
    pub allow_consolidating_reclaim: bool,
    /// GPU pods only on GPU workers, others only on CPU workers.
    pub restrict_node_scheduling: bool,
    /// Look at storage capacities.
    pub schedule_csi_storage: bool,
    /// Try only one of several jobs with equal constraints.
    pub use_scheduling_signatures: bool,
    /// Divide by the whole queue tree; false: all leaf queues under one root.
    pub full_hierarchy_fairness: bool,
    /// Name every node in a refusal.
    pub detailed_fit_errors: bool,
    /// How long a gang may lack members; negative: forever.
    pub default_staleness_grace: Span,
    /// Label that names the queue of a shared claim.
    pub queue_label_key: Text,
    /// Label keys of GPU and CPU workers and of MIG nodes.
    pub worker_labels: WorkerLabels,
    /// Claims and device classes are understood.
    pub dynamic_resources: bool,
    /// Name of the node pool, for texts.
    pub node_pool: Option<Text>,
    /// MiB of every device that are never given away.
    pub gpu_memory_reserve_mib: i64,
    /// What a whole GPU means on time-sliced nodes.
    pub whole_gpu_policy: WholeGpuPolicy,
    /// How long disruption budgets may delay the reclaim of over-quota work; none: forever.
    pub disruption_budget_delay: Option<Span>,
}

/// Keys of the labels that distinguish kinds of workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerLabels {
    /// Key of the label that marks GPU workers.
    pub gpu: Text,
    /// Key of the label that marks CPU workers.
    pub cpu: Text,
    /// Key of the label that says whether a node offers MIG.
    pub mig: Text,
}

/// Budgets of the search for victims, in work units. One unit is one task tried on one node or one undo entry;
/// one second of KAI's budget is [`UNITS_PER_SECOND`] units. Zero is unlimited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchBudgets {
    /// Per action; `default` for those not listed.
    pub action_units: BTreeMap<Text, u64>,
    /// Most units that the search for one job may use.
    pub job_units: u64,
    /// Granted to every job whatever the action has left.
    pub min_job_units: u64,
    /// Per generator; `default` for those not listed.
    pub generator_units: BTreeMap<Text, u64>,
}

/// Work units that stand for one second of KAI's budgets.
pub const UNITS_PER_SECOND: f64 = 1_000_000.0;

impl Default for Params {
    fn default() -> Self {
        Self {
            max_consolidation_preemptees: Some(16),
            allow_consolidating_reclaim: true,
            restrict_node_scheduling: false,
            schedule_csi_storage: false,
            use_scheduling_signatures: true,
            full_hierarchy_fairness: true,
            detailed_fit_errors: false,
            default_staleness_grace: Span::from_seconds(60.0),
            queue_label_key: "kai.scheduler/queue".into(),
            worker_labels: WorkerLabels {
                gpu: "node-role.kubernetes.io/gpu-worker".into(),
                cpu: "node-role.kubernetes.io/cpu-worker".into(),
                mig: "node-role.kubernetes.io/mig-enabled".into(),
            },
            dynamic_resources: true,
            node_pool: None,
            gpu_memory_reserve_mib: 0,
            whole_gpu_policy: WholeGpuPolicy::Physical,
            disruption_budget_delay: Some(Span::from_seconds(600.0)),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            actions: ActionKind::ALL.to_vec(),
            plugins: default_plugins(),
            params: Params::default(),
            budgets: Some(SearchBudgets::default()),
            queue_depth: BTreeMap::new(),
            compatibility: Compatibility::Right,
        }
    }
}

impl Default for SearchBudgets {
    fn default() -> Self {
        let minutes = |count: f64| (count * 60.0 * UNITS_PER_SECOND) as u64;
        Self {
            action_units: BTreeMap::from([("default".into(), minutes(5.0))]),
            job_units: minutes(4.0),
            min_job_units: 0,
            generator_units: BTreeMap::from([
                ("default".into(), minutes(2.0)),
                ("NodeLocalGreedy".into(), minutes(0.5)),
                ("MultiNodeGang".into(), minutes(2.0)),
            ]),
        }
    }
}

/// KAI's built-in plugin list.
pub fn default_plugins() -> Vec<PluginSpec> {
    const NAMES: [&str; 20] = [
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "dynamicresources",
        "nodeplacement",
        "minruntime",
        "topology",
        "snapshot",
        "sg-nodelocalgreedy",
        "sg-multinodegang",
    ];
    NAMES.iter().map(|name| PluginSpec::named(name)).collect()
}
