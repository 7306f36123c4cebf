//! Pods of users.

use std::collections::BTreeMap;

use kai_api::names::legacy;

use super::objects::Pod;
use super::{ClusterFacts, Expectations, is_live, wants_share};
use crate::check::Check;
use crate::finding::{Finding, Severity};

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut all = Vec::new();
    let live = || facts.pods.iter().filter(|pod| is_live(pod));
    for pod in live() {
        if wants_share(pod) && pod.spec.scheduler_name != expected.scheduler_name {
            all.push(other_scheduler(pod, expected));
        }
    }
    let ours = || live().filter(|pod| pod.spec.scheduler_name == expected.scheduler_name);
    if facts.was_read("queues") {
        all.extend(unknown_queues(facts, ours(), expected));
    }
    let silent: Vec<&Pod> = ours().filter(|pod| is_unseen(pod)).collect();
    all.extend(scheduler_silent(&silent, expected));
    all
}

fn other_scheduler(pod: &Pod, expected: &Expectations) -> Finding {
    let scheduler = &expected.scheduler_name;
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    Finding {
        check: Check::FractionOtherScheduler,
        severity: Severity::Error,
        object: format!("Pod {}", pod.metadata.path()),
        message: format!(
            "it requests a GPU share, but spec.schedulerName is {}, which does not share GPUs",
            pod.spec.scheduler_name
        ),
        fix: format!(
            "kubectl get pod --namespace {namespace} {name} -o yaml | sed 's/schedulerName: .*/schedulerName: {scheduler}/; /nodeName:/d' | kubectl replace --force -f -  # or in its owner's template"
        ),
    }
}

fn unknown_queues<'a>(
    facts: &ClusterFacts,
    pods: impl Iterator<Item = &'a Pod>,
    expected: &Expectations,
) -> Vec<Finding> {
    let mut waiting: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let labels = &pod.metadata.labels;
        let queue = labels.get(&expected.queue_label).or_else(|| labels.get(legacy::QUEUE));
        if let Some(queue) = queue {
            waiting.entry(queue).or_default().push(pod);
        }
    }
    let known = |name: &str| facts.queues.iter().any(|queue| queue.metadata.name == name);
    let unknown = waiting.into_iter().filter(|(queue, _)| !known(queue));
    unknown
        .map(|(queue, pods)| Finding {
            check: Check::UnknownQueue,
            severity: Severity::Error,
            object: format!("Pod {}", pods[0].metadata.path()),
            message: match pods.len() {
                1 => format!("it names queue {queue}, which does not exist"),
                count => format!("it and {} others name queue {queue}, which does not exist", count - 1),
            },
            fix: format!(
                "printf 'apiVersion: scheduling.run.ai/v2\\nkind: Queue\\nmetadata: {{name: {queue}}}\\nspec: {{resources: {{cpu: {{quota: -1, limit: -1}}, gpu: {{quota: -1, limit: -1}}, memory: {{quota: -1, limit: -1}}}}}}\\n' | kubectl apply -f -"
            ),
        })
        .collect()
}

/// Whether the pod is pending and no scheduler wrote a reason.
fn is_unseen(pod: &Pod) -> bool {
    let has_reason = pod.status.conditions.iter().any(|condition| condition.kind == "PodScheduled");
    pod.spec.node_name.is_empty() && pod.metadata.deletion_timestamp.is_none() && !has_reason
}

fn scheduler_silent(pods: &[&Pod], expected: &Expectations) -> Option<Finding> {
    let first = pods.first()?;
    let namespace = &expected.namespace;
    Some(Finding {
        check: Check::SchedulerSilent,
        severity: Severity::Error,
        object: format!("Pod {}", first.metadata.path()),
        message: format!(
            "{} pending without a reason: scheduler {} does not run, or the pods are seconds old",
            if pods.len() == 1 {
                "it is".to_owned()
            } else {
                format!("it and {} others are", pods.len() - 1)
            },
            expected.scheduler_name
        ),
        fix: format!(
            "kubectl --namespace {namespace} get pods && kubectl --namespace {namespace} logs deployment/{}",
            expected.scheduler_name
        ),
    })
}
