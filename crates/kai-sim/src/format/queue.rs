//! Queues as a document writes them.

use serde::Deserialize;

use super::number::Amount;

/// A queue, as a document writes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Name that jobs and child queues refer to.
    pub name: String,
    /// The queue above it; absent: the root of a tree.
    pub parent: Option<String>,
    /// Higher is served first.
    #[serde(default = "hundred")]
    pub priority: i64,
    /// When it was created; absent: 60 s after the queue before it.
    pub created_s: Option<f64>,
    /// Its part of the GPUs, in devices.
    #[serde(default)]
    pub gpu: ShareLayer,
    /// Its part of the processors.
    #[serde(default)]
    pub cpu_milli: ShareLayer,
    /// Its part of the memory.
    #[serde(default)]
    pub memory_bytes: ShareLayer,
    /// How long its jobs run before they may be preempted.
    pub preempt_min_runtime_s: Option<f64>,
    /// How long its jobs run before their resources may be reclaimed.
    pub reclaim_min_runtime_s: Option<f64>,
    /// Extension: what it used in the past, as a part of the cluster's capacity.
    #[serde(default)]
    pub usage: Usage,
}

fn hundred() -> i64 {
    100
}

/// A queue's part of one resource; what is absent depends on the resource.
#[derive(Clone, Copy, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShareLayer {
    /// What it is owed.
    pub quota: Option<Amount>,
    /// What it may have at most.
    pub limit: Option<Amount>,
    /// Extension: how much of its unused quota other queues may use; absent: all of it.
    pub lending_limit: Option<Amount>,
    /// Its weight when the rest is divided; −1 occurs and is accepted.
    pub over_quota_weight: Option<f64>,
}

/// Historical use of a queue, each as a part of the cluster's capacity.
#[derive(Clone, Copy, Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Part of the cluster's GPUs, 0 to 1.
    pub gpu: f64,
    /// Part of the cluster's processor time, 0 to 1.
    pub cpu: f64,
    /// Part of the cluster's memory, 0 to 1.
    pub memory: f64,
}
