//! The document `scenario/v1`, typed: what may be written, with the defaults that do not depend on
//! other parts of the document. Unknown keys are errors. Defaults that do depend on other parts (ages,
//! names, labels) and the check of names are the business of [`crate::state`].

mod config;
mod dra;
mod error;
mod expect;
mod job;
mod node;
mod number;
mod profile;
mod queue;
mod reference;
mod run;
mod status;
mod storage;
mod task;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use config::{
    Action, BudgetLayer, BudgetSetting, CompatibilityChoice, ConfigLayer, FeatureGates,
    ParamsLayer, Plugin, WholeGpuPolicy,
};
pub use dra::{
    AllocatedDevice, AllocatedDevices, ClaimAllocation, ClaimConsumer, ClaimRequest, ClaimStatus,
    DeviceClass, ResourceClaim, ResourceSlice,
};
pub use error::FormatError;
pub use expect::{
    CallLimits, CountExpectation, Expectation, Never, NodeExpectation, Placement, TaskExpectation,
    WakeUp, ZoneAmounts,
};
pub use job::{
    Job, OnEvict, PodSet, Preemptibility, PreemptionPolicy, SubGroup, TopologyConstraint,
};
pub use node::{
    Allocatable, ConditionStatus, MigStrategy, Node, Numa, NumaPolicy, NumaScope, NumaZone, Taint,
    TaintEffect, Topology, TopologyLevel,
};
pub use number::{Amount, AmountMap};
pub use profile::{KAI_TEST_DEFAULT, built_in_profile};
pub use queue::{Queue, ShareLayer, Usage};
pub use reference::{
    Call, Reference, ReferenceCycle, ReferenceEvent, ReferenceNode, ReferenceTask,
};
pub use run::{NodeLabels, Operation, Run, Step, TaskStatus};
pub use status::Status;
pub use storage::{
    BindingMode, CsiCapacity, CsiDriver, PersistentVolume, StorageClass, VolumeClaim,
    VolumeClaimPhase,
};
pub use task::{
    BindPhase, BindRequest, ComputeMode, DisruptionBudget, ForeignPod, GpuRequest, HostPort,
    NodeExpression, NodeOperator, ObjectName, PodTerm, Protocol, Qos, Request, Task, Toleration,
    TolerationOperator,
};

/// The value of the key `schema` of every scenario.
pub const SCHEMA: &str = "scenario/v1";

/// One scenario as it is written down.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Always [`SCHEMA`]; other values are errors.
    pub schema: SchemaName,
    /// Unique and path-like; where absent, the file gives the name.
    pub id: Option<String>,
    /// One line for people.
    pub title: String,
    /// Where the case comes from, free form.
    #[serde(default)]
    pub origin: Option<serde_json::Map<String, serde_json::Value>>,
    /// Tags by which scenarios are filtered.
    #[serde(default)]
    pub features: Vec<String>,
    /// Remarks for people; not read.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How the scheduler is set up.
    pub config: ConfigLayer,
    /// What exists before the first cycle.
    pub cluster: Cluster,
    /// How many cycles to run and when to compare.
    pub run: Run,
    /// What must hold; absent: the run only has to end without error.
    pub expect: Option<Expectation>,
    /// Extension: what must hold instead where the faults of the reference are reproduced.
    pub expect_kai: Option<Expectation>,
    /// Where the expectations come from.
    #[serde(default)]
    pub expect_source: ExpectSource,
    /// What another implementation did.
    pub reference: Option<Reference>,
}

/// The only schema this reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum SchemaName {
    /// The first and only version.
    #[serde(rename = "scenario/v1")]
    V1,
}

/// Where the expectations of a scenario come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectSource {
    /// A table declared in the original test.
    Test,
    /// Assertions of the original test, rewritten by hand.
    Transcribed,
    /// Written for this project.
    #[default]
    Own,
    /// The scenario has no expectations.
    None,
}

/// Everything that exists before the first cycle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Topologies, levels from outermost to innermost.
    #[serde(default)]
    pub topologies: Vec<Topology>,
    /// Nodes that exist before the first cycle.
    pub nodes: Vec<Node>,
    /// Device classes; any device satisfies any class.
    #[serde(default)]
    pub device_classes: Vec<DeviceClass>,
    /// Devices offered through dynamic resource allocation.
    #[serde(default)]
    pub resource_slices: Vec<ResourceSlice>,
    /// Claims of such devices.
    #[serde(default)]
    pub resource_claims: Vec<ResourceClaim>,
    /// The queues; a later position is a later creation unless said otherwise.
    pub queues: Vec<Queue>,
    /// Whether queues without any parent are put under a root `default`.
    #[serde(default = "yes")]
    pub implicit_root_queue: bool,
    /// Pod groups with their tasks; a later position is a later creation unless said otherwise.
    pub jobs: Vec<Job>,
    /// Extension: volume claims that exist.
    #[serde(default)]
    pub pvcs: Vec<VolumeClaim>,
    /// Extension: volumes that exist.
    #[serde(default)]
    pub pvs: Vec<PersistentVolume>,
    /// Extension: storage classes that exist.
    #[serde(default)]
    pub storage_classes: Vec<StorageClass>,
    /// Extension: CSI drivers that exist.
    #[serde(default)]
    pub csi_drivers: Vec<CsiDriver>,
    /// Extension: free storage per class and node set.
    #[serde(default)]
    pub csi_capacities: Vec<CsiCapacity>,
    /// Extension: config maps that exist.
    #[serde(default)]
    pub config_maps: Vec<ObjectName>,
    /// Extension: pods of other schedulers.
    #[serde(default)]
    pub foreign_pods: Vec<ForeignPod>,
    /// Extension: disruption budgets that exist.
    #[serde(default)]
    pub disruption_budgets: Vec<DisruptionBudget>,
}

/// Labels, annotations or arguments, by key.
pub type StringMap = BTreeMap<String, String>;

pub(crate) fn yes() -> bool {
    true
}

impl Scenario {
    /// Reads one document. The error says where in the document and what was expected there.
    pub fn from_json(text: &str) -> Result<Self, FormatError> {
        error::read_json(text)
    }
}

#[cfg(test)]
mod tests;
