//! How metrics are named and labelled.

use kai_core::input::Text;

/// How metrics are named and labelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// What every name begins with.
    pub namespace: String,
    /// Labels of queues that become labels of their metrics.
    pub queue_labels: Vec<QueueLabel>,
    /// A label that distinguishes shards; none: there is one.
    pub shard: Option<Text>,
}

/// A label of queues that becomes a label of their metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLabel {
    /// The label of the queue.
    pub key: String,
    /// The label of the metric.
    pub label: String,
    /// Its value where the queue has no such label.
    pub default: String,
}

impl Default for MetricsSettings {
    fn default() -> Self {
        Self { namespace: "kai".to_owned(), queue_labels: Vec::new(), shard: None }
    }
}
