//! Equal worlds have equal plans, however they came about, and time changes nothing before the plan says so.

use std::sync::Arc;

use kai_core::plan::{CyclePlan, StepKind, plan, plan_and_explain};
use kai_core::time::Timestamp;
use proptest::prelude::*;

use crate::worlds::show::{self, Applied};
use crate::worlds::{Cluster, messy_cluster, now, tidy_cluster, world_of};

fn applied_in_two_orders() -> impl Strategy<Value = (Cluster, Applied)> {
    prop_oneof![messy_cluster().boxed(), tidy_cluster().boxed()].prop_flat_map(|cluster| {
        let objects = cluster.objects();
        (Just(cluster), Just(objects).prop_shuffle().prop_map(Applied))
    })
}

/// Everything of a plan that does not follow from the moment itself: a gang that is found to lack members for the first time
/// lacks them since now, and a job evicted now may not evict others for a while from now.
fn timeless(mut plan: CyclePlan, at: Timestamp) -> CyclePlan {
    plan.work_units = 0;
    let newly_stale = plan.staleness.iter().any(|(_, since)| *since == Some(at));
    for (_, since) in &mut plan.staleness {
        *since = since.filter(|since| *since != at);
    }
    // A delay that a skewed clock dated into the future starts now, until that moment has come.
    let is_new = |since: Timestamp| since == at || since > now();
    let newly_delayed = plan.reclaim_delays.iter().any(|(_, since)| is_new(*since));
    plan.reclaim_delays.retain(|(_, since)| !is_new(*since));
    for report in &mut plan.waiting {
        Arc::make_mut(report).victims.iter_mut().for_each(|victims| victims.budgets_until = None);
    }
    let evicted: Vec<_> = plan
        .steps
        .iter()
        .filter(|step| matches!(step.kind, StepKind::Evict { .. }))
        .filter_map(|step| step.group.clone())
        .collect();
    for report in plan.waiting.iter_mut().filter(|report| evicted.contains(&report.job)) {
        Arc::make_mut(report).errors.retain(|error| &*error.reason != "PreemptionDelayNotElapsed");
    }
    if newly_stale || newly_delayed || !evicted.is_empty() || !plan.started.is_empty() {
        plan.wake_at = None;
    }
    plan
}

/// Fails with the steps of two plans where those differ, else with the first line that does.
pub(crate) fn same_plan(left: &CyclePlan, right: &CyclePlan) -> Result<(), TestCaseError> {
    if left == right {
        return Ok(());
    }
    if left.steps != right.steps {
        let (left, right) = (show::steps(left), show::steps(right));
        return Err(TestCaseError::fail(format!("steps differ:\n{left}\n---\n{right}")));
    }
    let (left, right) = (format!("{left:#?}"), format!("{right:#?}"));
    let same = left.lines().zip(right.lines()).take_while(|(left, right)| left == right).count();
    let from = same.saturating_sub(12);
    let part = |text: &str| text.lines().skip(from).take(20).collect::<Vec<_>>().join("\n");
    Err(TestCaseError::fail(format!("plans differ:\n{}\n---\n{}", part(&left), part(&right))))
}

/// A plan without the account of how it was found.
pub(crate) fn without_effort(mut plan: CyclePlan) -> CyclePlan {
    plan.work_units = 0;
    plan.searches.iter_mut().for_each(|search| search.runs.clear());
    plan.waiting.iter_mut().for_each(|report| Arc::make_mut(report).victims.clear());
    plan
}

proptest! {
    #![proptest_config(crate::cases(500))]

    #[test]
    fn planning_twice_gives_the_same_plan(cluster in messy_cluster()) {
        let mut world = cluster.world();
        let first = plan(&mut world, now());
        same_plan(&first, &plan(&mut world, now()))?;
    }

    #[test]
    fn the_order_of_deltas_is_forgotten((cluster, objects) in applied_in_two_orders()) {
        let mut world = cluster.world();
        let mut other = world_of(&cluster.config, objects.0);
        show::same(&world.describe(), &other.describe())?;
        same_plan(&plan(&mut world, now()), &plan(&mut other, now()))?;
    }

    #[test]
    fn nothing_changes_before_the_plan_says_so(
        cluster in prop_oneof![messy_cluster().boxed(), tidy_cluster().boxed()],
        part in 0.0..1.0_f64,
    ) {
        let mut world = cluster.world();
        let first = plan(&mut world, now());
        let horizon = first.wake_at.map_or(10_000_000_000_000, |wake| wake.since(now()).nanos);
        prop_assert!(horizon > 0, "{:?} is not ahead", first.wake_at);
        let later = Timestamp { nanos: now().nanos + (horizon as f64 * part) as i64 };
        let last = Timestamp { nanos: now().nanos + horizon - 1 };
        for moment in [later, last] {
            let second = plan(&mut world, moment);
            same_plan(&timeless(first.clone(), now()), &timeless(second, moment))?;
        }
    }

    #[test]
    fn asking_about_a_job_changes_no_decision(cluster in messy_cluster(), which in any::<usize>()) {
        let mut world = cluster.world();
        let plain = plan(&mut world, now());
        if let Some(report) = plain.waiting.get(which % plain.waiting.len().max(1)) {
            let asked = plan_and_explain(&mut world, now(), &report.job, |_| {});
            prop_assert_eq!(&asked.steps, &plain.steps);
            let others = |made: &CyclePlan| -> Vec<_> {
                made.waiting.iter().filter(|other| other.job != report.job).cloned().collect()
            };
            prop_assert_eq!(others(&asked), others(&plain));
        }
    }

    #[test]
    fn shortcuts_change_nothing(
        cluster in prop_oneof![messy_cluster().boxed(), tidy_cluster().boxed()],
    ) {
        let mut world = cluster.world();
        let fast = plan(&mut world, now());
        world.set_naive_search(true);
        let naive = plan(&mut world, now());
        same_plan(&without_effort(fast), &without_effort(naive))?;
    }
}
