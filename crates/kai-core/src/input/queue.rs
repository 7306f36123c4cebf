//! A queue as an input of the planner.

use crate::fairness::Amounts;
use crate::input::Text;
use crate::time::{Span, Timestamp};

/// A queue. Amounts of −1 are unlimited.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueSpec {
    /// Unique name; pod groups and child queues refer to it.
    pub name: Text,
    /// Name shown to people; the name where empty.
    pub display_name: Option<Text>,
    /// Queue above, none at the top.
    pub parent: Option<Text>,
    /// Higher is served first.
    pub priority: i32,
    /// When it was created.
    pub created: Timestamp,
    /// Amounts guaranteed to the queue.
    pub quota: Amounts,
    /// Amounts that the queue never exceeds.
    pub limit: Amounts,
    /// How much of its unused quota other queues may use; none: all of it. KAI lends all.
    pub lending_limit: Option<Amounts>,
    /// Bounds for single types of GPU, beside those for all GPUs. KAI has none.
    pub gpu_types: Vec<GpuTypeBound>,
    /// Weight in the division of what is left.
    pub over_quota_weight: Amounts,
    /// How long a victim of preemption must have run.
    pub preempt_min_runtime: Option<Span>,
    /// How long a victim of reclaim must have run.
    pub reclaim_min_runtime: Option<Span>,
}

impl QueueSpec {
    /// A queue at the top without bounds, with the priority and weights that queues have by default.
    pub fn unbounded(name: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            display_name: None,
            parent: None,
            priority: 100,
            created: Timestamp::default(),
            quota: Amounts::UNBOUNDED,
            limit: Amounts::UNBOUNDED,
            lending_limit: None,
            gpu_types: Vec::new(),
            over_quota_weight: Amounts::new(1.0, 1.0, 1.0),
            preempt_min_runtime: None,
            reclaim_min_runtime: None,
        }
    }
}

/// What a queue may hold of one type of GPU.
#[derive(Clone, PartialEq, Debug)]
pub struct GpuTypeBound {
    /// Label `nvidia.com/gpu.product` of the nodes.
    pub product: Text,
    /// GPUs that are kept for the queue.
    pub quota: Option<f64>,
    /// GPUs that the queue never exceeds.
    pub limit: Option<f64>,
}
