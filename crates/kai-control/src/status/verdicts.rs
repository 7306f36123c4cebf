//! Why pods and groups are pending: KAI's texts from the report of a plan. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kai_api::PodGroup;
use kai_api::names::defaults::SINGLE_SCHEDULING_BACKOFF;
use kai_api::names::objects::DEFAULT_NODE_POOL;
use kai_api::names::status::{self, reason};
use kai_api::pod_group::{QueueDetails, UnschedulableDetails, UnschedulableReason};
use kai_core::config::ActionKind;
use kai_core::input::{ObjectName, QueueSpec, Text};
use kai_core::plan::{Explanation, JobReport};
use kai_core::report::broken_bound::BrokenBound;
use kai_core::report::explain;
use kai_core::report::held_back::HeldBack;
use kai_core::report::text;
use kai_core::status::Status;
use kai_translate::time;

use super::accounts::Accounts;
use super::amounts::resources_of;
use super::queue_headroom::OverLimit;

const UNABLE_TO_SCHEDULE_POD: &str = "Unable to schedule pod";

/// Why a pod is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVerdict {
    /// UID of the pod, so that a later pod of the name is not meant.
    pub uid: Text,
    /// `Unschedulable`, `OverQueueLimit` or `BindingError`.
    pub reason: &'static str,
    /// Why it is pending, in KAI's words.
    pub message: Text,
    /// Its condition is set; false: only an event reports it.
    pub mark: bool,
}

/// Why a group is pending.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupVerdict {
    /// Too few of its pods exist.
    NotReady(Text),
    /// It was tried and did not fit, or was not tried.
    Unschedulable {
        /// Why, in one text.
        message: Text,
        /// Why, reason by reason.
        reasons: Vec<UnschedulableReason>,
    },
}

/// A job's verdicts: its own, and those of its waiting pods.
pub struct JobVerdicts {
    /// The verdict about the group.
    pub group: GroupVerdict,
    /// The verdicts about its pods.
    pub pods: Vec<(ObjectName, PodVerdict)>,
}

/// How texts are made.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// Every node is named.
    pub detailed: bool,
    /// Our node pool; none: the default one.
    pub node_pool: Option<Text>,
    /// Pods over a limit of their queue are `OverQueueLimit` and not `Unschedulable`: autoscalers add no nodes for them.
    pub marks_over_limit: bool,
}

impl TextOptions {
    /// The pool's name where one must be shown.
    pub fn shown_pool(&self) -> &str {
        self.node_pool.as_deref().unwrap_or(DEFAULT_NODE_POOL)
    }
}

/// Why a job and its pods are pending. `placed` are pods that the same plan gave a place.
pub fn of_job(
    report: &JobReport,
    object: Option<&PodGroup>,
    accounts: &Accounts,
    placed: impl Fn(&ObjectName) -> bool,
    options: &TextOptions,
) -> JobVerdicts {
    let mut pods = lost_pods(report, accounts);
    let lost: BTreeSet<ObjectName> = pods.iter().map(|(pod, _)| pod.clone()).collect();
    if let Some(text) = not_ready(&report.held_back) {
        return JobVerdicts { group: GroupVerdict::NotReady(text), pods };
    }
    let prefix = prefix(object, options);
    let budgets = budget_note(report);
    let with_budgets = |text: &str| match budgets.as_str() {
        "" => format!("{prefix}{}", without_doubled_stops(text)).into(),
        budgets => format!("{prefix}{}{budgets}", text.trim_end_matches('.')).into(),
    };
    let message: Text = with_budgets(&group_message(report, options));
    let mark = object.and_then(|group| group.spec.mark_unschedulable).unwrap_or(true);
    let message_of = |pod: &ObjectName| {
        let own = report.pods.binary_search_by(|entry| entry.pod.cmp(pod));
        match own.ok().map(|at| &report.pods[at].message) {
            Some(text) => with_budgets(text),
            None if report.errors.is_empty() && report.held_back.is_empty() => {
                format!("{prefix}{UNABLE_TO_SCHEDULE_POD}").into()
            }
            None => message.clone(),
        }
    };
    let waiting = accounts
        .members(&report.job)
        .filter(|(pod, member)| member.status == Status::Pending && !placed(pod))
        .filter(|(pod, _)| !lost.contains(*pod));
    for (pod, member) in waiting {
        let (uid, message) = (member.uid.clone(), message_of(pod));
        let verdict = PodVerdict { uid, reason: status::UNSCHEDULABLE, message, mark };
        pods.push((pod.clone(), verdict));
    }
    let reasons = report.errors.iter().map(|error| reason_of(error, report, accounts)).collect();
    JobVerdicts { group: GroupVerdict::Unschedulable { message, reasons }, pods }
}

/// Gives pods that wait for a limit of their queue a reason for which autoscalers add no nodes.
pub(super) fn mark_over_limit(verdicts: &mut JobVerdicts, over_limit: &OverLimit) {
    for (_, verdict) in &mut verdicts.pods {
        if verdict.reason != status::UNSCHEDULABLE {
            continue;
        }
        verdict.reason = status::OVER_QUEUE_LIMIT;
        if let OverLimit::AfterOthers(queue) = over_limit {
            let message = &verdict.message;
            verdict.message = format!(
                "{message}\nMore nodes are not asked for: workloads before it take what is left of the limit of queue {queue}"
            )
            .into();
        }
    }
}

/// Names device claims of pods whose selectors match no device because they cannot be read or cost too much.
pub(super) fn mention_claims(
    verdicts: &mut JobVerdicts,
    accounts: &Accounts,
    problems: &BTreeMap<ObjectName, String>,
) {
    if problems.is_empty() {
        return;
    }
    for (pod, verdict) in &mut verdicts.pods {
        for claim in accounts.claims(pod) {
            if let Some(problem) = problems.get(&claim) {
                let message = &verdict.message;
                verdict.message = format!("{message}\nResourceClaim {claim}: {problem}").into();
            }
        }
    }
}

/// The same text with one full stop at the end of a line instead of several: KAI ends texts with a full stop that have one
/// already.
fn without_doubled_stops(text: &str) -> String {
    let line = |line: &str| {
        let sentence = line.trim_end_matches([' ', '.']);
        let end = &line[sentence.len()..];
        match end.rfind("..") {
            Some(last) => format!("{sentence}{}", &end[last + 1..]),
            None => line.to_owned(),
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Messages of groups that give up after one failed attempt name the pool.
fn prefix(object: Option<&PodGroup>, options: &TextOptions) -> String {
    match object.and_then(|group| group.spec.scheduling_backoff) {
        Some(SINGLE_SCHEDULING_BACKOFF) => format!("Node-Pool '{}': ", options.shown_pool()),
        _ => String::new(),
    }
}

fn group_message(report: &JobReport, options: &TextOptions) -> String {
    if report.errors.is_empty() && !report.held_back.is_empty() {
        let why: Vec<String> = report.held_back.iter().map(explain::held_back).collect();
        return format!("{}: {}.", text::UNABLE_TO_SCHEDULE, why.join(". \n"));
    }
    if options.detailed {
        text::detailed_message(&report.errors)
    } else {
        text::short_message(&report.errors)
    }
}

/// Budgets named in one text.
const MOST_BUDGETS: usize = 3;

/// Which disruption budgets are in the way of evictions for the job, and until when; empty where none is.
fn budget_note(report: &JobReport) -> String {
    let mut text = String::new();
    let evicting =
        report.victims.iter().filter(|victims| victims.action != ActionKind::Consolidation);
    for victims in evicting.filter(|victims| !victims.budgets.is_empty()) {
        let names: Vec<String> =
            victims.budgets.iter().take(MOST_BUDGETS).map(ToString::to_string).collect();
        let more = victims.budgets.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let until = victims.budgets_until.map(time::format);
        let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
        let (names, action) = (names.join(", "), victims.action.name());
        let _ = write!(text, ". Disruption budgets prevent {action}{until}: {names}{more}");
    }
    text
}

/// KAI's text where too few pods exist.
fn not_ready(held_back: &[HeldBack]) -> Option<Text> {
    let mut text = "Job is not ready for scheduling.".to_owned();
    let mut found = false;
    for reason in held_back {
        let HeldBack::NotReady { sub_group, needed, exist, gated, backing_off } = reason else {
            continue;
        };
        found = true;
        let (of, end) = match sub_group {
            None => (String::new(), ""),
            Some(name) => (format!(" for SubGroup {name}"), "."),
        };
        let _ = write!(
            text,
            " Waiting for {needed} pods{of}, currently {exist} exist, {gated} are gated"
        );
        if *backing_off > 0 {
            let _ = write!(text, ", {backing_off} are retried soon after a failed bind");
        }
        text.push_str(end);
    }
    found.then(|| text.into())
}

/// Pods that name a sub-group which their group does not have.
fn lost_pods(report: &JobReport, accounts: &Accounts) -> Vec<(ObjectName, PodVerdict)> {
    let lost = |reason: &HeldBack| matches!(reason, HeldBack::UnknownSubGroup { .. });
    let Some(group) = accounts.group(&report.job).filter(|_| report.held_back.iter().any(lost))
    else {
        return Vec::new();
    };
    let verdicts = accounts.members(&report.job).filter_map(|(pod, member)| {
        let name = member.sub_group.as_ref().filter(|name| !group.leaves.contains_key(*name))?;
        let message = format!(
            "Pod references subgroup \"{name}\", which does not exist in PodGroup {}",
            report.job
        );
        let uid = member.uid.clone();
        let reason = status::UNSCHEDULABLE;
        let verdict = PodVerdict { uid, reason, message: message.into(), mark: true };
        member.waits().then(|| (pod.clone(), verdict))
    });
    verdicts.collect()
}

fn reason_of(error: &Explanation, report: &JobReport, accounts: &Accounts) -> UnschedulableReason {
    let of_queue =
        matches!(&*error.reason, reason::OVER_LIMIT | reason::NON_PREEMPTIBLE_OVER_QUOTA);
    let bound = report.bounds.iter().find(|_| of_queue);
    UnschedulableReason {
        reason: Some(error.reason.to_string()),
        message: Some(error.message.to_string()),
        details: bound
            .and_then(|bound| queue_details(report, bound, accounts))
            .map(|details| UnschedulableDetails { queue_details: Some(details) }),
    }
}

/// The numbers of the queue whose bound is in the way.
fn queue_details(
    report: &JobReport,
    bound: &BrokenBound,
    accounts: &Accounts,
) -> Option<QueueDetails> {
    let chain = accounts.chain(&report.queue);
    let queue: &QueueSpec = chain.get(bound.levels_above as usize)?;
    let usage = accounts.usage(&queue.name);
    let group = accounts.group(&report.job)?;
    let wanted = group.usage().requested;
    Some(QueueDetails {
        name: Some(queue.name.to_string()),
        queue_requested_resources: usage.requested.shared(),
        queue_deserved_resources: resources_of(&queue.quota),
        queue_allocated_resources: usage.allocated.shared(),
        queue_allocated_non_preemptible_resources: usage.fixed.shared(),
        queue_resource_limits: resources_of(&queue.limit),
        pod_group_requested_resources: wanted.shared(),
        pod_group_requested_non_preemptible_resources: if group.fixed {
            wanted.shared()
        } else {
            BTreeMap::new()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_one_full_stop() {
        for (text, shown) in [
            ("over quota. Use less..", "over quota. Use less."),
            ("first.. \nsecond...", "first. \nsecond."),
            ("no stop", "no stop"),
            ("", ""),
        ] {
            assert_eq!(without_doubled_stops(text), shown);
        }
    }
}
