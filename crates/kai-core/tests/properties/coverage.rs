//! Random worlds are worth something only if plans have something to do in them.

use std::collections::BTreeMap;

use kai_core::plan::{StepKind, plan};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::worlds::{now, tidy_cluster};

#[test]
fn random_worlds_give_every_action_something_to_do() {
    let mut runner = TestRunner::deterministic();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..600 {
        let cluster = tidy_cluster().new_tree(&mut runner).unwrap().current();
        let plan = plan(&mut cluster.world(), now());
        for step in &plan.steps {
            let kind = match step.kind {
                StepKind::Bind { .. } => "binds",
                StepKind::Nominate { .. } => "nominates",
                StepKind::Evict { .. } => "evicts",
            };
            *counts.entry(format!("{} {kind}", step.action.name())).or_default() += 1;
        }
        *counts.entry("waiting".to_owned()).or_default() += u32::from(!plan.waiting.is_empty());
        *counts.entry("wakes".to_owned()).or_default() += u32::from(plan.wake_at.is_some());
    }
    for expected in [
        "allocate binds",
        "allocate nominates",
        "consolidation nominates",
        "reclaim evicts",
        "preempt evicts",
        "stalegangeviction evicts",
        "waiting",
        "wakes",
    ] {
        let count = counts.get(expected).copied().unwrap_or(0);
        assert!(count >= 10, "{expected}: {count} of {counts:?}");
    }
}
