//! Small trees for tests.

use std::sync::Arc;

use super::amounts::{Amounts, UNLIMITED};
use super::shares::{QueueNode, QueueShares, QueueTree};
use crate::ids::QueueId;

/// Appends a live queue.
pub(super) fn add_queue(
    tree: &mut QueueTree,
    name: &str,
    parent: Option<QueueId>,
    shares: QueueShares,
) -> QueueId {
    let queue = QueueId::new(tree.queues.len());
    let name: Arc<str> = Arc::from(name);
    tree.queues.push(QueueNode {
        display_name: Arc::clone(&name),
        name,
        parent,
        children: Vec::new(),
        shares,
        live: true,
    });
    if let Some(parent) = parent {
        tree.queues[parent.index()].children.push(queue);
    }
    queue
}

/// So many GPUs and nothing else.
pub(super) fn gpus(number: f64) -> Amounts {
    Amounts::new(0.0, 0.0, number)
}

/// A queue with a GPU quota, no limits and weight one.
pub(super) fn gpu_queue(deserved: f64, request: f64) -> QueueShares {
    QueueShares {
        deserved: gpus(deserved),
        max_allowed: Amounts::UNBOUNDED,
        over_quota_weight: gpus(1.0),
        request: gpus(request),
        ..QueueShares::default()
    }
}

/// A queue that holds, deserves and is due so many GPUs; CPU and memory are unlimited.
pub(super) fn shares_with(allocated: f64, deserved: f64, fair_share: f64) -> QueueShares {
    QueueShares {
        deserved: Amounts::new(UNLIMITED, UNLIMITED, deserved),
        max_allowed: Amounts::UNBOUNDED,
        allocated: gpus(allocated),
        fair_share: Amounts::new(UNLIMITED, UNLIMITED, fair_share),
        ..QueueShares::default()
    }
}
