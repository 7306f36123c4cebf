//! What is measured, under KAI's names. Counts are kept as plans are made; everything else is read on request.

mod searches;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use kai_core::check::{Severity, Violation};
use kai_core::config::{ActionKind, Config};
use kai_core::fairness::{Amounts, QueueResource};
use kai_core::input::{ObjectName, QueueSpec, Text};
use kai_core::plan::{CyclePlan, Step, StepKind};
use kai_core::report::searches::SearchResult;
use kai_core::time::{Span, Timestamp};
use kai_serve::metrics_text::{Histogram, Labels, Page};
use kai_settings::metrics::MetricsSettings;

use searches::Searches;

use crate::status::accounts::Accounts;
use crate::usage::Usages;

type ByAction = BTreeMap<&'static str, u64>;

/// Counters and gauges of one planner; everything else is read when the page is requested.
pub struct Metrics {
    settings: MetricsSettings,
    node_pool: Text,
    cycle: Span,
    /// How long it took to make the world ready for actions, and to sum up after them.
    opened: Span,
    closed: Span,
    /// How long each action of the latest cycle took.
    actions: BTreeMap<&'static str, Span>,
    plugins: Vec<Text>,
    searches: Searches,
    scheduled: ByAction,
    acted_on: ByAction,
    simulated: ByAction,
    filtered: ByAction,
    preemptions: u64,
    panics: u64,
    /// Attempts to group a pod that panicked.
    grouping_panics: u64,
    /// Rules that the latest check found broken, by whose they are.
    violations: BTreeMap<&'static str, u64>,
    evicted: BTreeMap<(ObjectName, Text, &'static str), u64>,
    fair_shares: Vec<(Text, Amounts)>,
    /// Past usage by queue.
    usages: Usages,
    /// How long it took to learn it.
    usage_queries: Histogram,
    /// Labels that queues gave to their metrics.
    mapped: BTreeMap<Text, Labels>,
    waited: Histogram,
    bound: Histogram,
    /// Pods whose bind was ordered: when they were created, when it was ordered.
    ordered: BTreeMap<ObjectName, (Timestamp, Timestamp)>,
}

impl Metrics {
    /// Nothing was counted yet.
    pub fn new(settings: MetricsSettings, node_pool: &str, config: &Config) -> Self {
        let milliseconds = || Histogram::doubling(5.0, 10);
        let zero = || ActionKind::ALL.map(|action| (action.name(), 0)).into();
        Self {
            settings,
            node_pool: node_pool.into(),
            cycle: Span::ZERO,
            opened: Span::ZERO,
            closed: Span::ZERO,
            actions: BTreeMap::new(),
            plugins: config.plugins.iter().map(|plugin| plugin.name.clone()).collect(),
            searches: Searches::new(config.budgets.clone()),
            scheduled: zero(),
            acted_on: zero(),
            simulated: zero(),
            filtered: zero(),
            preemptions: 0,
            panics: 0,
            grouping_panics: 0,
            violations: [("cluster", 0), ("planner", 0)].into(),
            evicted: BTreeMap::new(),
            fair_shares: Vec::new(),
            usages: Usages::new(),
            usage_queries: milliseconds(),
            mapped: BTreeMap::new(),
            waited: milliseconds(),
            bound: milliseconds(),
            ordered: BTreeMap::new(),
        }
    }

    /// How many planners before this one panicked.
    pub fn note_panics(&mut self, panics: u64) {
        self.panics = panics;
    }

    /// The rules of grouping panicked.
    pub fn count_grouping_panic(&mut self) {
        self.grouping_panics += 1;
    }

    /// What the latest check of the world found.
    pub fn note_violations(&mut self, violations: &[Violation]) {
        let count = |severity| {
            violations.iter().filter(|violation| violation.severity == severity).count() as u64
        };
        self.violations.insert("cluster", count(Severity::Cluster));
        self.violations.insert("planner", count(Severity::Books));
    }

    /// How long a cycle took.
    pub fn note_cycle(&mut self, span: Span) {
        self.cycle = span;
    }

    /// How long it took to make the world ready for actions.
    pub fn note_opened(&mut self, span: Span) {
        self.opened = span;
    }

    /// How long it took to sum a cycle up.
    pub fn note_closed(&mut self, span: Span) {
        self.closed = span;
    }

    /// How long an action took.
    pub fn note_action(&mut self, action: ActionKind, span: Span) {
        self.actions.insert(action.name(), span);
    }

    /// How long it took to learn of past usage.
    pub fn note_usage_query(&mut self, latency: Span) {
        self.usage_queries.note(milliseconds(latency));
    }

    /// Past usage of queues, as plans read it.
    pub fn note_usage(&mut self, usages: &Usages) {
        self.usages.clone_from(usages);
    }

    /// Counts what a plan decided.
    pub fn note_plan(
        &mut self,
        made: &CyclePlan,
        created: impl Fn(&ObjectName) -> Option<Timestamp>,
        uid: impl Fn(&ObjectName) -> Option<Text>,
        now: Timestamp,
    ) {
        self.fair_shares.clone_from(&made.fair_shares);
        let mut placed: BTreeSet<(&'static str, &ObjectName)> = BTreeSet::new();
        let mut preempted: BTreeSet<&Option<ObjectName>> = BTreeSet::new();
        for step in &made.steps {
            self.note_step(step, &created, &uid, now);
            match &step.kind {
                StepKind::Bind { .. } | StepKind::Nominate { for_job: None, .. } => {
                    placed.extend(step.group.iter().map(|group| (step.action.name(), group)));
                }
                StepKind::Evict { for_job, .. } if step.action == ActionKind::Preempt => {
                    preempted.insert(for_job);
                }
                StepKind::Nominate { .. } | StepKind::Evict { .. } => {}
            }
        }
        self.preemptions += preempted.len() as u64;
        for (action, _) in placed {
            add(&mut self.scheduled, action, 1);
        }
        for search in &made.searches {
            let action = search.action.name();
            add(&mut self.acted_on, action, u64::from(search.result != SearchResult::NotAttempted));
            for run in &search.runs {
                add(&mut self.simulated, action, u64::from(run.sets.simulated));
                add(&mut self.filtered, action, u64::from(run.sets.refused));
            }
            self.searches.note(search);
        }
    }

    fn note_step(
        &mut self,
        step: &Step,
        created: &impl Fn(&ObjectName) -> Option<Timestamp>,
        uid: &impl Fn(&ObjectName) -> Option<Text>,
        now: Timestamp,
    ) {
        match &step.kind {
            StepKind::Bind { .. } => {
                if let Some(created) = created(&step.pod) {
                    self.ordered.insert(step.pod.clone(), (created, now));
                }
            }
            StepKind::Evict { message, .. } if !message.is_empty() => {
                let Some(group) = &step.group else { return };
                let uid = uid(group).unwrap_or_default();
                *self.evicted.entry((group.clone(), uid, step.action.name())).or_default() += 1;
            }
            StepKind::Evict { .. } | StepKind::Nominate { .. } => {}
        }
    }

    /// A bind was carried out.
    pub fn note_bound(&mut self, pod: &ObjectName, now: Timestamp) {
        if let Some((created, ordered)) = self.ordered.remove(pod) {
            self.waited.note(milliseconds(now.since(created)));
            self.bound.note(milliseconds(now.since(ordered)));
        }
    }

    /// A bind was not carried out.
    pub fn note_unbound(&mut self, pod: &ObjectName) {
        self.ordered.remove(pod);
    }

    /// A group is gone: nothing more is counted for it.
    pub fn forget_group(&mut self, group: &ObjectName) {
        self.evicted.retain(|(name, ..), _| name != group);
    }

    /// Labels of a queue, some of which its metrics get.
    pub fn observe_queue(&mut self, queue: &Text, labels: &BTreeMap<String, String>) {
        let mapped = self.settings.queue_labels.iter().map(|mapping| {
            let value = labels.get(&mapping.key).unwrap_or(&mapping.default);
            (mapping.label.clone(), value.clone())
        });
        self.mapped.insert(queue.clone(), mapped.collect());
    }

    /// Everything that was counted here.
    pub fn page(&self, accounts: &Accounts) -> Page {
        let mut page = Page::new(&self.settings.namespace, self.settings.shard.as_deref());
        self.add_cycles(&mut page);
        self.add_actions(&mut page);
        self.add_queues(&mut page, accounts);
        page
    }

    fn add_cycles(&self, page: &mut Page) {
        let one = |value: f64| [(Labels::new(), value)];
        let cycle = milliseconds(self.cycle);
        page.gauges("e2e_scheduling_latency_milliseconds", "Time of the latest cycle.", one(cycle));
        page.gauges(
            "open_session_latency_milliseconds",
            "Time of the latest cycle before its first action.",
            one(milliseconds(self.opened)),
        );
        page.gauges(
            "close_session_latency_milliseconds",
            "Time of the latest cycle after its last action.",
            one(milliseconds(self.closed)),
        );
        page.histogram(
            "task_scheduling_latency_milliseconds",
            "From the creation of a pod to its bind.",
            &self.waited,
        );
        page.histogram(
            "task_bind_latency_milliseconds",
            "From the order of a bind to its end.",
            &self.bound,
        );
        page.histogram(
            "usage_query_latency_milliseconds",
            "From the question for past usage to its answer.",
            &self.usage_queries,
        );
    }

    fn add_actions(&self, page: &mut Page) {
        self.add_times(page);
        self.searches.add_to(page);
        page.counters(
            "podgroups_scheduled_by_action",
            "Groups an action gave a place.",
            "action",
            &self.scheduled,
        );
        page.counters(
            "podgroups_acted_on_by_action",
            "Groups an action looked for victims for.",
            "action",
            &self.acted_on,
        );
        page.counters(
            "scenarios_simulation_by_action",
            "Sets of victims that were tried on the model.",
            "action",
            &self.simulated,
        );
        page.counters(
            "scenarios_filtered_by_action",
            "Sets of victims that rules refused.",
            "action",
            &self.filtered,
        );
        page.counted(
            "total_preemption_attempts",
            "Groups for which others were preempted.",
            [(Labels::new(), self.preemptions)],
        );
        page.gauges(
            "world_violations",
            "Rules that the latest check found broken.",
            self.violations
                .iter()
                .map(|(of, count)| (vec![("of".to_owned(), (*of).to_owned())], *count as f64)),
        );
        page.counted(
            "planner_panics_total",
            "Panics after which everything was listed anew.",
            [(Labels::new(), self.panics)],
        );
        page.counted(
            "grouping_panics_total",
            "Attempts to group a pod that panicked.",
            [(Labels::new(), self.grouping_panics)],
        );
        let evicted = self.evicted.iter().map(|((group, uid, action), count)| {
            let labels = [
                ("podgroup", &*group.name),
                ("namespace", &*group.namespace),
                ("uid", &**uid),
                ("nodepool", &*self.node_pool),
                ("action", *action),
            ];
            (labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(), *count)
        });
        page.counted("pod_group_evicted_pods_total", "Pods of a group that were evicted.", evicted);
    }

    fn add_times(&self, page: &mut Page) {
        let actions = self.actions.iter().map(|(action, span)| {
            (vec![("action".to_owned(), (*action).to_owned())], milliseconds(*span))
        });
        page.gauges(
            "action_scheduling_latency_milliseconds",
            "Time of an action in the latest cycle.",
            actions,
        );
        let moments = ["OnSessionOpen", "OnSessionClose"];
        let plugins = self.plugins.iter().flat_map(|plugin| {
            moments.map(|moment| {
                let labels = [("plugin", &**plugin), ("OnSession", moment)];
                (labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(), 0.0)
            })
        });
        page.gauges(
            "plugin_scheduling_latency_milliseconds",
            "A plugin opens and closes nothing: its world is kept.",
            plugins,
        );
    }

    fn add_queues(&self, page: &mut Page, accounts: &Accounts) {
        let by_queue = |value: fn(&Accounts, &QueueSpec) -> f64| {
            accounts.queues().map(move |queue| {
                let mut labels = queue_labels(&queue.name, queue);
                labels.extend(self.mapped.get(&queue.name).into_iter().flatten().cloned());
                (labels, rounded(value(accounts, queue)))
            })
        };
        page.gauges("queue_info", "Queues.", by_queue(|_, _| 1.0));
        page.gauges(
            "queue_deserved_gpus",
            "Quota of GPUs.",
            by_queue(|_, queue| queue.quota[QueueResource::Gpu]),
        );
        page.gauges(
            "queue_quota_cpu_cores",
            "Quota of CPU cores.",
            by_queue(|_, queue| scaled(queue.quota[QueueResource::Cpu], 1000.0)),
        );
        page.gauges(
            "queue_quota_memory_bytes",
            "Quota of memory.",
            by_queue(|_, queue| queue.quota[QueueResource::Memory]),
        );
        page.gauges(
            "queue_allocated_gpus",
            "GPUs in use.",
            by_queue(|accounts, queue| accounts.usage(&queue.name).allocated.gpus()),
        );
        page.gauges(
            "queue_allocated_cpu_cores",
            "CPU cores in use.",
            by_queue(|accounts, queue| accounts.usage(&queue.name).allocated.of("cpu")),
        );
        page.gauges(
            "queue_allocated_memory_bytes",
            "Memory in use.",
            by_queue(|accounts, queue| accounts.usage(&queue.name).allocated.of("memory")),
        );
        let share = |resource: QueueResource, unit: f64| {
            self.fair_shares.iter().filter_map(move |(name, shares)| {
                let queue = accounts.queue(name)?;
                let shown = queue.display_name.as_ref().unwrap_or(name);
                Some((queue_labels(shown, queue), scaled(shares[resource], unit)))
            })
        };
        page.gauges(
            "queue_fair_share_cpu_cores",
            "Fair share of CPU cores.",
            share(QueueResource::Cpu, 1000.0),
        );
        page.gauges(
            "queue_fair_share_memory_gb",
            "Fair share of memory.",
            share(QueueResource::Memory, 1e9),
        );
        page.gauges("queue_fair_share_gpu", "Fair share of GPUs.", share(QueueResource::Gpu, 1.0));
        self.add_past_usage(page, accounts);
    }

    fn add_past_usage(&self, page: &mut Page, accounts: &Accounts) {
        let past = |resource: QueueResource| {
            self.usages.iter().filter_map(move |(name, usage)| {
                let queue = accounts.queue(name)?;
                let shown = queue.display_name.as_ref().unwrap_or(name);
                Some((queue_labels(shown, queue), usage[resource]))
            })
        };
        page.gauges("queue_cpu_usage", "Share of CPU used.", past(QueueResource::Cpu));
        page.gauges("queue_memory_usage", "Share of memory used.", past(QueueResource::Memory));
        page.gauges("queue_gpu_usage", "Share of GPUs used.", past(QueueResource::Gpu));
    }
}

/// The labels every metric of a queue has; `name` is what it is called there.
fn queue_labels(name: &Text, queue: &QueueSpec) -> Labels {
    let display = queue.display_name.as_deref().unwrap_or_default();
    let labels = [
        ("queue_name", &**name),
        ("queue_metadata_name", &*queue.name),
        ("queue_display_name", display),
    ];
    labels.map(|(label, value)| (label.to_owned(), value.to_owned())).to_vec()
}

fn add(counts: &mut ByAction, action: &'static str, count: u64) {
    *counts.entry(action).or_default() += count;
}

fn milliseconds(span: Span) -> f64 {
    span.nanos as f64 / 1e6
}

/// An amount in another unit; -1 stays unlimited.
fn scaled(amount: f64, unit: f64) -> f64 {
    if amount < 0.0 { amount } else { amount / unit }
}

/// Four digits behind the point.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
