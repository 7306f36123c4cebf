//! subgrouporder: of the members of a set, unsatisfied ones first; then members that need nothing last (fewer pods
//! first among those); then the smaller part of what is needed.

use std::cmp::Ordering;

use crate::config::PluginSpec;
use crate::plugins::Policy;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.orders_sub_groups = true;
}

/// What the order looks at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct MemberState {
    /// Pods (of a leaf) or satisfied members (of a set) it has.
    pub(crate) have: u32,
    /// How many it needs.
    pub(crate) need: u32,
}

pub(crate) fn compare(left: MemberState, right: MemberState) -> Ordering {
    let satisfied = |state: MemberState| state.have >= state.need;
    match (satisfied(left), satisfied(right)) {
        (false, false) => return Ordering::Equal,
        (false, true) => return Ordering::Less,
        (true, false) => return Ordering::Greater,
        (true, true) => {}
    }
    match (left.need, right.need) {
        (0, 0) => left.have.cmp(&right.have),
        (0, _) => Ordering::Greater,
        (_, 0) => Ordering::Less,
        (_, _) => {
            let part = |state: MemberState| f64::from(state.have) / f64::from(state.need);
            part(left).total_cmp(&part(right))
        }
    }
}
