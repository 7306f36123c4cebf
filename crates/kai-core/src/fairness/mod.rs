//! Fairness: the shares of queues, their order, their limits and what one may take from another.
//!
//! Everything here is arithmetic over a [`QueueTree`]; nothing knows jobs, nodes or pods.

mod amounts;
mod capacity;
mod division;
mod queue_order;
mod reclaim;
mod shares;
mod take_limit;
pub mod text;
mod validator;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use amounts::{Amounts, QueueResource, ResourceSet, UNLIMITED, compare_bounds};
pub use capacity::{
    CapacityViolation, ViolationKind, check_capacity, check_limit, check_non_preemptible_quota,
};
pub use division::{divide_among_siblings, divide_fair_shares};
pub use queue_order::{Contender, compare};
pub use reclaim::{
    ReclaimRefusal, Reclaimer, can_reclaim, guarantees_deserved_quota, involved_resources,
    levelled_queues, maintains_fair_share, may_be_victim,
};
pub use shares::{Chain, QueueNode, QueueShares, QueueTree, tolerance_of_bounds};
pub use take_limit::{MostTaken, TakeLimit, TakeScratch, take_limit};
pub use validator::ReclaimValidator;
