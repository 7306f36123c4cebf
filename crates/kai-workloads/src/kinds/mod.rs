//! The rules, one file per family of workloads.

mod aml;
mod deployment;
mod grove;
mod job;
mod jobset;
mod karta;
mod knative;
mod kubeflow;
mod lws;
mod min_member;
pub(crate) mod pod;
mod pytorch;
mod ray;
mod runai_job;
mod skip;
mod workload_api;

use std::collections::BTreeSet;

use kai_api::names::objects::TRAIN;

use crate::base::{Case, default_plan, pod_name, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::plan::{Notice, PodGroupPlan};
use crate::registry::{Rule, rule_for};

/// The group of a pod.
pub(crate) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let mut plan = match workload_api::plan(case)? {
        Some(plan) => plan,
        None => by_kind(case)?,
    };
    min_member::apply(case, &mut plan);
    check_parts(case, &plan)?;
    let exists = |name: &String| plan.sub_groups.iter().any(|part| part.name == *name);
    if let Some(name) = plan.pod_sub_group.take_if(|name| !exists(name)) {
        let problem = format!("{} has no part {name}", case.top().describe());
        plan.notices.push(Notice::NoSubGroup { pod: pod_name(case.pod), problem });
    }
    Ok(plan)
}

/// Names of sub-groups are label values of pods, and each occurs once; the API server would deny the group with a shorter reason.
fn check_parts(case: &Case<'_>, plan: &PodGroupPlan) -> Result<(), GroupingError> {
    let mut names = BTreeSet::new();
    for part in &plan.sub_groups {
        let name = part.name.as_str();
        let problem = if !is_label(name) {
            "must be at most 63 lower-case letters, digits and dashes, with no dash at either end"
        } else if !names.insert(name) {
            "is there twice"
        } else {
            continue;
        };
        let field = format!("sub-group {name:?}");
        return Err(case.top().error(field, problem));
    }
    Ok(())
}

fn is_label(name: &str) -> bool {
    let inner = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    inner && (1..=63).contains(&name.len()) && !name.starts_with('-') && !name.ends_with('-')
}

/// The group of a pod by the kind of its top owner.
fn by_kind(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    match rule_for(&case.top().gvk()) {
        Some(rule) => apply(rule, case),
        None => karta::plan_or_default(case),
    }
}

fn apply(rule: Rule, case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    match rule {
        Rule::Default => Ok(unknown(case)),
        Rule::WithClass(class) => Ok(workload_plan(case, case.top(), class)),
        Rule::Pod => Ok(pod::plan(case)),
        Rule::Deployment => Ok(deployment::plan(case)),
        Rule::Job => job::plan(case),
        Rule::CronJob => job::plan_cron(case),
        Rule::JobSet => jobset::plan(case),
        Rule::LeaderWorkerSet => lws::plan(case),
        Rule::Distributed(replicas) => kubeflow::plan(case, replicas),
        Rule::PyTorchJob => pytorch::plan(case),
        Rule::MpiJob => kubeflow::plan_mpi(case),
        Rule::SkipTopOwner => skip::plan(case),
        Rule::RunaiJob => runai_job::plan(case),
        Rule::Ray => ray::plan(case),
        Rule::Grove => grove::plan(case),
        Rule::Knative => knative::plan(case),
        Rule::AmlJob => aml::plan(case),
    }
}

/// The group of a kind without a rule of its own, known or not.
fn unknown(case: &Case<'_>) -> PodGroupPlan {
    default_plan(case, TRAIN)
}
