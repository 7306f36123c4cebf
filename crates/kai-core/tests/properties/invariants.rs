//! What held before a plan holds after it, and nothing that did not becomes worse.

use kai_core::check::{self, Moment, Violation};
use kai_core::input::pod_group::GroupSet;
use kai_core::input::pod_group::Preemptibility;
use kai_core::input::{Delta, Object};
use kai_core::plan::{CyclePlan, Step, StepKind, assume, plan_and_observe};
use kai_core::report::searches::{RunResult, SearchResult};
use kai_core::status::Status;
use kai_core::world::World;
use proptest::prelude::*;

use crate::worlds::{Cluster, messy_cluster, now, show, tidy_cluster};

fn planned(world: &mut World) -> (CyclePlan, Vec<Violation>) {
    let mut after = Vec::new();
    let plan = plan_and_observe(world, now(), |planned| after = check::violations(planned));
    (plan, after)
}

/// The cluster after it did what the plan says: bound pods run, evicted pods are gone.
fn carry_out(world: &mut World, plan: &CyclePlan) {
    for step in &plan.steps {
        let task = world.task_named(&step.pod).expect("plans speak of pods there are");
        let mut pod = (*world.task(task).spec).clone();
        match &step.kind {
            StepKind::Bind { node, gpu_groups, .. } => {
                pod.status = Status::Running;
                pod.node = Some(node.clone());
                pod.gpu_groups.clone_from(gpu_groups);
            }
            StepKind::Evict { .. } => pod.status = Status::Failed,
            StepKind::Nominate { .. } => continue,
        }
        let effect = world.apply(Delta::Set(Object::Pod(Box::new(pod))));
        assert_eq!(effect.problems, []);
    }
}

/// What is wrong before anything is decided, pods that count as stuck by now among it. Under `kai` gangs with members
/// to choose from are left out: there a member is served even if it lacks pods.
fn before(cluster: &Cluster) -> Vec<Violation> {
    let mut idle = cluster.clone();
    idle.config.actions.clear();
    let mut world = idle.world();
    let (_, mut found) = planned(&mut world);
    if cluster.config.compatibility.is_kai() {
        let chooses = |set: &GroupSet| {
            set.min_members.is_some() || set.sets.iter().any(|set| set.min_members.is_some())
        };
        for group in cluster.groups.iter().filter(|group| chooses(&group.tree)) {
            found.push(check::Violation::of_gang(&group.name));
        }
    }
    found
}

/// Some pod was nominated and then evicted: its capacity counts as allocated until the cycle ends.
fn reverts_nominations(plan: &CyclePlan) -> bool {
    plan.steps.iter().enumerate().any(|(at, step)| {
        let nominates = |earlier: &Step| {
            earlier.pod == step.pod && matches!(earlier.kind, StepKind::Nominate { .. })
        };
        matches!(step.kind, StepKind::Evict { .. }) && plan.steps[..at].iter().any(nominates)
    })
}

/// Some step for a pod of the gang that broke.
fn concerns(plan: &CyclePlan, violation: &Violation, test: fn(&StepKind) -> bool) -> bool {
    plan.steps.iter().any(|step| {
        let gang = step.group.as_ref().map(Violation::of_gang);
        test(&step.kind) && gang.is_some_and(|gang| gang.object == violation.object)
    })
}

/// KAI serves gangs that lost pods in the same cycle, takes a part of a gang, and counts some victims twice.
fn is_kais_own(cluster: &Cluster, plan: &CyclePlan, violation: &Violation) -> bool {
    cluster.config.compatibility.is_kai()
        && (concerns(plan, violation, |kind| matches!(kind, StepKind::Evict { .. }))
            || (crate::evicts_twice(plan) && violation.rule == check::Rule::QueueLimit))
}

/// Gangs of which a pod moves are whole again once nominated pods run.
fn moves(plan: &CyclePlan, violation: &Violation) -> bool {
    concerns(plan, violation, |kind| matches!(kind, StepKind::Nominate { for_job: Some(_), .. }))
}

/// Reports of searches add up: sets are made before they are tried, and every eviction for a job has a search.
fn searches_add_up(plan: &CyclePlan) -> Result<(), TestCaseError> {
    for search in &plan.searches {
        for sets in search.runs.iter().map(|run| run.sets) {
            prop_assert!(sets.simulated + sets.duplicate <= sets.emitted, "{search:?}");
            prop_assert!(sets.refused <= sets.simulated, "{search:?}");
        }
        let solved = search.runs.last().is_some_and(|run| run.result == RunResult::Solved);
        prop_assert_eq!(solved, search.result == SearchResult::Solved, "{:?}", search);
    }
    let for_others = |step: &Step| matches!(step.kind, StepKind::Evict { for_job: Some(_), .. });
    let solved = plan.searches.iter().any(|search| search.result == SearchResult::Solved);
    prop_assert!(solved || !plan.steps.iter().any(for_others));
    Ok(())
}

fn check_cluster(cluster: &Cluster) -> Result<(), TestCaseError> {
    let mut world = cluster.world();
    let before = before(cluster);
    let (plan, after) = planned(&mut world);
    searches_add_up(&plan)?;
    let steps = show::steps(&plan);
    let mut worse = check::made_worse(&before, &after);
    if reverts_nominations(&plan) {
        worse.retain(|violation| violation.moment != Some(Moment::Now));
    }
    worse.retain(|violation| !is_kais_own(cluster, &plan, violation));
    show::none(&worse, &format!("planned\n{steps}"))?;
    let mut assumed = world.clone();
    assume(&mut assumed, &plan);
    carry_out(&mut world, &plan);
    for (stage, world) in [("assumed", &assumed), ("carried out", &world)] {
        let mut worse = check::made_worse(&before, &check::violations(world));
        worse.retain(|violation| {
            !moves(&plan, violation) && !is_kais_own(cluster, &plan, violation)
        });
        show::none(&worse, &format!("{stage}\n{steps}"))?;
    }
    Ok(())
}

/// No plan puts more of what cannot be preempted into a queue than its quota, and none breaks a count.
fn check_semi_preemptible(cluster: &Cluster) -> Result<(), TestCaseError> {
    let mut world = cluster.world();
    let before = before(cluster);
    let (plan, after) = planned(&mut world);
    let steps = show::steps(&plan);
    let mut worse = check::made_worse(&before, &after);
    worse.retain(|one| matches!(one.rule, check::Rule::NonPreemptibleQuota | check::Rule::Recount));
    show::none(&worse, &format!("planned\n{steps}"))
}

proptest! {
    #![proptest_config(crate::cases(1_000))]

    #[test]
    fn no_plan_breaks_a_rule_that_held(cluster in tidy_cluster()) {
        check_cluster(&cluster)?;
    }

    #[test]
    fn no_plan_makes_a_violation_worse(cluster in messy_cluster()) {
        check_cluster(&cluster)?;
    }

    #[test]
    fn minimums_of_semi_preemptible_groups_stay_within_quotas_and_keep_their_pods(
        mut cluster in tidy_cluster(),
    ) {
        for (at, group) in cluster.groups.iter_mut().enumerate() {
            if group.preemptibility == Preemptibility::NonPreemptible || at % 3 == 0 {
                group.preemptibility = Preemptibility::SemiPreemptible;
            }
        }
        check_semi_preemptible(&cluster)?;
    }
}
