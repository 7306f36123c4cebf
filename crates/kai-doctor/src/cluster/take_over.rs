//! What a running KAI leaves in a cluster that `kai` takes over.

use kai_api::names::components::{MANAGED_BY, OPERATOR, SCHEDULER};
use kai_api::names::legacy::RESERVATION_NAMESPACE;

use super::objects::Deployment;
use super::{ClusterFacts, Expectations, is_live};
use crate::check::Check;
use crate::finding::{Finding, Severity};

/// Group of the objects for which KAI's operator makes Deployments: `Config` and `SchedulingShard`.
const OPERATED: &str = "kai.scheduler/";
/// Label of Deployments that KAI's operator makes and its value; releases before 0.14 do not set it.
const MANAGED: (&str, &str) = (MANAGED_BY, OPERATOR);
/// Deployments of KAI's chart, older releases included.
const OF_CHART: [&str; 8] = [
    OPERATOR,
    "binder",
    "podgrouper",
    "pod-grouper",
    "podgroup-controller",
    "podgroupcontroller",
    "queuecontroller",
    "queue-controller",
];
/// Namespace, account and app label of reservation pods before KAI 0.6.
const OLD_RESERVATIONS: &str = RESERVATION_NAMESPACE;

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut all: Vec<Finding> = facts
        .deployments
        .iter()
        .filter(|one| one.metadata.namespace == expected.namespace)
        .filter(|one| is_of_kai(one) && one.spec.replicas.unwrap_or(1) > 0)
        .map(|one| still_running(one, expected))
        .collect();
    all.extend(old_reservations(facts, expected));
    all
}

/// Ours run the program `kai` with the verb `run`; KAI's images have an entry point and flags only.
fn is_of_kai(deployment: &Deployment) -> bool {
    let metadata = &deployment.metadata;
    let is_managed = metadata.labels.get(MANAGED.0).is_some_and(|by| by == MANAGED.1)
        || metadata.owner_references.iter().any(|owner| owner.api_version.starts_with(OPERATED));
    let name = metadata.name.as_str();
    let is_named = OF_CHART.contains(&name) || name == SCHEDULER;
    let containers = &deployment.spec.template.spec.containers;
    let is_ours = containers.iter().any(|one| one.args.first().is_some_and(|verb| verb == "run"));
    (is_managed || is_named) && !is_ours
}

fn still_running(deployment: &Deployment, expected: &Expectations) -> Finding {
    let (namespace, name) = (&expected.namespace, &deployment.metadata.name);
    Finding {
        check: Check::KaiRunning,
        severity: Severity::Error,
        object: format!("Deployment {namespace}/{name}"),
        message: "a component of the KAI Scheduler runs: two schedulers would bind the same pods"
            .to_owned(),
        fix: format!(
            "kubectl scale deployment --namespace {namespace} --replicas=0 {name}  # kai-operator first, it restores the others"
        ),
    }
}

fn old_reservations(facts: &ClusterFacts, expected: &Expectations) -> Option<Finding> {
    let pods = facts.pods.iter().filter(|pod| pod.metadata.namespace == OLD_RESERVATIONS);
    let count = pods.filter(|pod| is_live(pod)).count();
    let is_other = expected.reservation_namespace != OLD_RESERVATIONS;
    (count > 0 && is_other).then(|| Finding {
        check: Check::LegacyReservations,
        severity: Severity::Error,
        object: format!("Namespace {OLD_RESERVATIONS}"),
        message: format!(
            "{count} reservation pods of an older release keep GPUs here, but kai reads reservation pods in {}",
            expected.reservation_namespace
        ),
        fix: format!(
            "helm upgrade -i kai-scheduler -n {} --take-ownership -f kai-values.yaml {} ./deploy/chart",
            expected.namespace,
            ["namespace", "serviceAccount", "appLabel"]
                .map(|value| format!("--set global.resourceReservation.{value}={OLD_RESERVATIONS}"))
                .join(" ")
        ),
    })
}
