//! `kai explain`: why a pod or a group waits and how a queue stands, in words. The cluster is read, one plan is made on the
//! side and nothing is written.

mod table;

use std::fmt::Write as _;

use kai_api::PodGroup;
use kai_core::fairness::QueueResource;
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{CyclePlan, StepKind};
use kai_core::report::explain;
use kube::Client;

use crate::env::Env;
use crate::function::Function;
use crate::grouper::Grouper;
use crate::lease::Gate;
use crate::orders::{Order, Report};
use crate::planner::{Planner, Settings};
use crate::run::start_watches;
use crate::status::accounts::Accounts;
use crate::watch::Lists;
use table::{Row, table};

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A pod.
    Pod(ObjectName),
    /// A pod group.
    PodGroup(ObjectName),
    /// A queue.
    Queue(Text),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// There is no such object, or it is not ours.
    #[error("there is no {0} here; another scheduler's, or in another part of the cluster?")]
    Unknown(String),
    /// The cluster cannot be read.
    #[error("the cluster cannot be read")]
    Unreadable,
}

/// Explains something.
pub async fn explain(
    client: &Client,
    env: &Env,
    settings: Settings,
    asked: &Asked,
) -> Result<String, ExplainError> {
    let mut planner = read(client, env, settings).await?;
    let job = asked_job(&planner, asked);
    let made = planner.plan_aside(job.as_ref(), env.now());
    let scene = Scene { planner: &planner, made: &made };
    match asked {
        Asked::Pod(pod) => scene.pod(pod),
        Asked::PodGroup(group) => scene.group(group),
        Asked::Queue(queue) => scene.queue(queue),
    }
}

fn asked_job(planner: &Planner, asked: &Asked) -> Option<ObjectName> {
    match asked {
        Asked::Pod(pod) => planner.accounts().group_of(pod).cloned(),
        Asked::PodGroup(group) => Some(group.clone()),
        Asked::Queue(_) => None,
    }
}

/// A planner that knows the cluster as it is now. Groups that are not written yet are found out, and not written.
async fn read(client: &Client, env: &Env, mut settings: Settings) -> Result<Planner, ExplainError> {
    settings.election = None;
    settings.functions = Function::USUAL.into();
    settings.schedules = true;
    let closed = Gate::closed(env.clone());
    let config = settings.grouper.clone();
    let grouper = config.map(|config| Grouper::new(client, env.clone(), config, &closed));
    let mut planner = Planner::new(settings);
    let mut changes = start_watches(client, env, Lists::default());
    while !planner.is_ready() {
        let change = changes.recv().await.ok_or(ExplainError::Unreadable)?;
        planner.apply(change, env.now());
    }
    let classes = planner.class_names();
    for order in planner.take_orders() {
        if let (Order::Group(pod), Some(grouper)) = (order, &grouper)
            && let Some(grouped) = grouper.group(*pod, classes.clone()).await
        {
            planner.settle(Report::Grouped(Box::new(grouped)), env.now());
        }
    }
    Ok(planner)
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
            None => told(&mut text, "its condition says", self.planner.condition_of(pod)),
        }
        let steps = self.made.steps.iter().filter(|step| step.pod == *pod);
        for step in steps {
            let now = match &step.kind {
                StepKind::Bind { node, .. } => format!("a plan made now binds it to {node}"),
                StepKind::Nominate { node, .. } => {
                    format!("a plan made now promises it {node}, when others have left")
                }
                StepKind::Evict { message, .. } => {
                    format!("a plan made now tells it to go: {message}")
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
        told(&mut text, "its condition says", stored(self.planner.group_object(group)).as_deref());
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

fn told(text: &mut String, what: &str, message: Option<&str>) {
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        let _ = writeln!(text, "  {what}: {}", message.trim().replace('\n', "\n    "));
    }
}
