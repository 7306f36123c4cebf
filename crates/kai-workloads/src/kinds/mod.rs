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
pub(crate) mod pod;
mod pytorch;
mod ray;
mod runai_job;
mod skip;
mod workload_api;

use kai_api::names::objects::TRAIN;

use crate::base::{Case, default_plan};
use crate::error::Stop;
use crate::plan::PodGroupPlan;
use crate::registry::{Rule, rule_for};

/// The group of a pod.
pub(crate) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    match workload_api::plan(case)? {
        Some(plan) => Ok(plan),
        None => by_kind(case),
    }
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
        Rule::Default(class) => Ok(default_plan(case, class)),
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

/// The group of a kind that nobody knows.
fn unknown(case: &Case<'_>) -> PodGroupPlan {
    default_plan(case, TRAIN)
}
