//! `kai explain`: why a pod or a group waits and how a queue stands, in words. The cluster is read, one plan is made on the
//! side, as the shard that it concerns would make it, and nothing is written.

mod reading;
mod table;

use std::fmt::Write as _;

use kai_api::PodGroup;
use kai_client::env::Env;
use kai_client::failure::Failure;
use kai_core::fairness::QueueResource;
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{CyclePlan, StepKind};
use kai_core::report::explain;
use kai_settings::planner::Settings;
use kube::Client;

use crate::planner::Planner;
use crate::shards::scheduled_parts;
use crate::status::accounts::Accounts;
use table::{Row, table};

/// What is target about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    /// A pod, by namespace and name.
    Pod(ObjectName),
    /// A pod group, by namespace and name.
    PodGroup(ObjectName),
    /// A queue, by name.
    Queue(Text),
}

impl std::fmt::Display for ExplainTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::PodGroup(group) => write!(f, "pod group {group}"),
            Self::Queue(queue) => write!(f, "queue {queue}"),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// There is no such object, or it is not ours.
    #[error("there is no {0} here; another scheduler's, or in another part of the cluster?")]
    Unknown(String),
    /// Something cannot be read.
    #[error("{0}: {1}")]
    Unreadable(&'static str, Failure),
}

/// Explains something. `only` is the part of the cluster that is looked at; by default the one it is in.
pub async fn explain(
    client: &Client,
    env: &Env,
    base: &Settings,
    only: Option<&str>,
    target: &ExplainTarget,
) -> Result<String, ExplainError> {
    let parts = scheduled_parts(client, env, base, only).await;
    let parts = parts.map_err(|error| ExplainError::Unreadable("settings", error.into()))?;
    let mut reading = Box::pin(reading::read(client, env, parts)).await?;
    let unknown = || ExplainError::Unknown(target.to_string());
    let meant = reading.iter().position(|part| schedules(&part.planner, target));
    let reading = reading.get_mut(meant.unwrap_or_default()).ok_or_else(unknown)?;
    let heads = reading.heads();
    let planner = &mut reading.planner;
    let job = job_of(planner, target);
    let made = planner.plan_aside(job.as_ref(), env.now());
    let scene = Scene { planner, made: &made };
    let text = match target {
        ExplainTarget::Pod(pod) => scene.pod(pod),
        ExplainTarget::PodGroup(group) => scene.group(group),
        ExplainTarget::Queue(queue) => scene.queue(queue),
    };
    Ok(text? + &heads)
}

/// What is target about is in the part of the cluster that the planner schedules. Every part knows all pods, but only the
/// groups and queues that are its own.
fn schedules(planner: &Planner, target: &ExplainTarget) -> bool {
    let accounts = planner.accounts();
    match target {
        ExplainTarget::Queue(queue) => accounts.queue(queue).is_some(),
        ExplainTarget::Pod(_) | ExplainTarget::PodGroup(_) => {
            let group = job_of(planner, target);
            let account = group.and_then(|group| accounts.group(&group));
            account.is_some_and(|account| account.queue.is_some())
        }
    }
}

fn job_of(planner: &Planner, target: &ExplainTarget) -> Option<ObjectName> {
    match target {
        ExplainTarget::Pod(pod) => planner.accounts().group_of(pod).cloned(),
        ExplainTarget::PodGroup(group) => Some(group.clone()),
        ExplainTarget::Queue(_) => None,
    }
}

struct Scene<'a> {
    planner: &'a Planner,
    made: &'a CyclePlan,
}

impl Scene<'_> {
    fn accounts(&self) -> &Accounts {
        self.planner.accounts()
    }

    fn pod(&self, pod: &ObjectName) -> Result<String, ExplainError> {
        let unknown = || ExplainError::Unknown(format!("pod {pod}"));
        let group = self.accounts().group_of(pod).ok_or_else(unknown)?;
        let mut text = format!("Pod {pod} of group {group}\n");
        match self.planner.node_of(pod) {
            Some(node) => {
                let _ = writeln!(text, "  has node {node}");
            }
            None => append_quoted(&mut text, "its condition says", self.planner.condition_of(pod)),
        }
        let steps = self.made.steps.iter().filter(|step| step.pod == *pod);
        for step in steps {
            let now = match &step.kind {
                StepKind::Bind { node, .. } => format!("a plan made now binds it to {node}"),
                StepKind::Nominate { node, .. } => {
                    format!(
                        "a plan made now nominates it to {node}: it waits for other pods to end"
                    )
                }
                StepKind::Evict { message, .. } => {
                    format!("a plan made now evicts it: {message}")
                }
            };
            let _ = writeln!(text, "  {now}");
        }
        text += &self.group(group)?;
        Ok(text)
    }

    fn group(&self, group: &ObjectName) -> Result<String, ExplainError> {
        let unknown = || ExplainError::Unknown(format!("pod group {group}"));
        let account = self.accounts().group(group).ok_or_else(unknown)?;
        let mut text = format!("PodGroup {group}\n");
        let (mut waiting, mut placed) = (0, 0);
        for (_, member) in self.accounts().members(group) {
            waiting += u32::from(member.waits());
            placed += u32::from(member.status.is_active_used());
        }
        let _ = writeln!(text, "  {placed} of its pods have a node, {waiting} wait");
        append_quoted(
            &mut text,
            "its condition says",
            stored(self.planner.group_object(group)).as_deref(),
        );
        if let Some(report) = self.made.waiting.iter().find(|report| report.job == *group) {
            text += "A plan made now says:\n";
            text += &explain::job(report);
        }
        if let Some(queue) = &account.queue {
            text += &self.chain(queue);
        }
        Ok(text)
    }

    fn queue(&self, queue: &Text) -> Result<String, ExplainError> {
        self.accounts()
            .queue(queue)
            .ok_or_else(|| ExplainError::Unknown(format!("queue {queue}")))?;
        let waiting: Vec<String> = self
            .made
            .waiting
            .iter()
            .filter(|report| report.queue == *queue)
            .map(|report| report.job.to_string())
            .collect();
        let mut text = self.chain(queue);
        let children: Vec<&str> = self.accounts().children(queue).map(|child| &**child).collect();
        if !children.is_empty() {
            let _ = writeln!(text, "Queues below: {}", children.join(", "));
        }
        if !waiting.is_empty() {
            let _ = writeln!(text, "Groups that wait: {}", waiting.join(", "));
        }
        Ok(text)
    }

    /// A queue and all above it.
    fn chain(&self, queue: &Text) -> String {
        let accounts = self.accounts();
        let mut rows = Vec::new();
        for spec in accounts.chain(queue) {
            let usage = accounts.usage(&spec.name);
            let shares = self.made.fair_shares.iter().find(|(name, _)| *name == spec.name);
            for resource in QueueResource::ALL {
                rows.push(Row {
                    queue: spec.name.clone(),
                    resource,
                    quota: spec.quota[resource],
                    fair_share: shares.map(|(_, share)| share[resource]),
                    used: usage.allocated.in_planner_units(resource),
                    limit: spec.limit[resource],
                });
            }
        }
        if rows.is_empty() {
            return format!("Queue {queue} does not exist\n");
        }
        table(&rows)
    }
}

/// What the newest condition of a group says.
fn stored(group: Option<&PodGroup>) -> Option<String> {
    let condition = group?.status.as_ref()?.scheduling_conditions.last()?;
    condition.message.clone()
}

fn append_quoted(text: &mut String, what: &str, message: Option<&str>) {
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        let _ = writeln!(text, "  {what}: {}", message.trim().replace('\n', "\n    "));
    }
}
