//! What must be true of a world, and what of it is not. Two kinds of rules: the cluster's (no pod or queue holds more than
//! there is, queues keep their limits, gangs are whole) and the books' (every count and index says what a recount
//! says). Violations are data, so that two states can be compared: a plan must not make any of them worse.

mod books;
mod cluster;
mod rebuild;

use std::collections::BTreeSet;
use std::fmt;

use crate::ids::NodeId;
use crate::input::ObjectName;
use crate::world::World;

/// How bad a violation is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The cluster is in a state that a plan would not bring about, but that pods of others, a node that shrank or
    /// a quota that was lowered can.
    Cluster,
    /// The world contradicts itself: a fault of this program.
    Books,
}

/// A rule that can be broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Memory given away of one device is at most what it has.
    DeviceMemory,
    /// Devices in use, whole and shared, are at most those that exist.
    DeviceCount,
    /// A pod that asks for several devices gets different ones.
    DistinctDevices,
    /// Every other resource of a node is given away at most once.
    NodeAmount,
    /// A queue holds at most its limit.
    QueueLimit,
    /// Pods that may not be preempted fit their queue's quota.
    NonPreemptibleQuota,
    /// A pod group has as many members as it needs, or none.
    Gang,
    /// A count, a sum or an index equals a recount.
    Recount,
}

/// When a rule about a node is broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Moment {
    /// By what pods hold now.
    Now,
    /// Once releasing pods have ended and nominated pods have started.
    Later,
}

/// A rule that does not hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Violation {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule is broken.
    pub rule: Rule,
    /// Object that breaks it, in words; equal for equal objects, so that violations can be compared.
    pub object: String,
    /// When, where that makes a difference.
    pub moment: Option<Moment>,
    /// Amount that was found, in the unit of the rule.
    pub found: f64,
    /// Amount that the rule allows, in the same unit.
    pub allowed: f64,
}

impl Violation {
    /// By how much the rule is broken.
    pub fn excess(&self) -> f64 {
        self.found - self.allowed
    }

    /// Both are about the same rule, object and moment.
    pub fn is_about_the_same_as(&self, other: &Self) -> bool {
        (self.rule, &self.object, self.moment) == (other.rule, &other.object, other.moment)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.object)?;
        if let Some(moment) = self.moment {
            write!(f, " ({moment:?})")?;
        }
        write!(f, ": {} where {} is allowed", self.found, self.allowed)
    }
}

/// Sums of queue amounts are sums of floating point numbers.
const NOISE: f64 = 1e-6;

/// Everything that is wrong with `world`, now or while a plan is observed.
pub fn violations(world: &World) -> Vec<Violation> {
    let mut found = cluster_violations(world);
    found.extend(miscounts(world));
    found
}

/// The cluster's rules that do not hold, counted from the pods alone.
pub fn cluster_violations(world: &World) -> Vec<Violation> {
    cluster::violations(world)
}

/// Amounts of one node that its pods exceed now, as if the pods in `without` were not there.
pub fn node_violations(
    world: &World,
    node: NodeId,
    without: &BTreeSet<ObjectName>,
) -> Vec<Violation> {
    cluster::node_violations(world, node, without)
}

/// Books that a recount contradicts. While a plan is observed, those that only deltas change are left out.
pub fn miscounts(world: &World) -> Vec<Violation> {
    books::miscounts(world)
}

/// The index of free GPUs says what the nodes say.
#[cfg(test)]
pub(crate) fn free_gpus_are_known(world: &World) -> bool {
    books::free_gpus_are_known(world)
}

/// The violations of `after` that `before` does not have, or has to a lesser degree.
pub fn made_worse(before: &[Violation], after: &[Violation]) -> Vec<Violation> {
    let known = |violation: &Violation| {
        let old = before.iter().filter(|old| old.is_about_the_same_as(violation));
        old.map(Violation::excess).fold(0.0, f64::max)
    };
    after.iter().filter(|now| now.excess() > known(now) + NOISE).cloned().collect()
}
