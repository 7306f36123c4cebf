//! Answers of the planner: metrics, snapshots, job order, checks, and plans for `kai explain`.

use std::collections::BTreeMap;

use kai_api::PodGroup;
use kai_binder::driver::Driver;
use kai_client::kinds::Kind;
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{CyclePlan, OrderedJob, plan, plan_and_explain};
use kai_core::time::{Span, Timestamp};
use serde_json::{Map, Value, json};

use super::Planner;
use crate::serve::Question;
use crate::snapshot::Frame;
use crate::status::accounts::Accounts;

impl Planner {
    /// Answers a question; `binder` measures too.
    pub fn answer(&self, question: Question, binder: Option<&Driver>) {
        match question {
            Question::Ready(answer) => drop(answer.send(self.is_ready())),
            Question::Metrics(answer) => {
                let mut page = self.measurements.metrics.page(self.statuses.accounts());
                if let Some(binder) = binder {
                    binder.add_metrics(&mut page);
                }
                drop(answer.send(page.finish()));
            }
            Question::Frame(_, answer) => drop(answer.send(Some(self.frame()))),
            Question::JobOrder(_, answer) => drop(answer.send(self.shown_job_order())),
            Question::Check(answer) => drop(answer.send(self.world.violations())),
        }
    }

    /// Jobs in the order in which they would be tried, in KAI's words; none where the plugin is not listed.
    fn shown_job_order(&self) -> Option<Value> {
        let order = self.world.job_order()?;
        let shown = |job: &OrderedJob| json!({"id": &*job.job.name, "priority": job.priority});
        let mut by_queue: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for job in order {
            by_queue.entry(&job.queue).or_default().push(shown(job));
        }
        let all: Vec<Value> = order.iter().map(shown).collect();
        Some(json!({"global_order": all, "queue_order": by_queue}))
    }

    /// What a snapshot says of how we are set up, in KAI's words.
    fn frame(&self) -> Frame {
        let config = &self.settings.config;
        let actions: Vec<&str> = config.actions.iter().map(|action| action.name()).collect();
        let plugins = config.plugins.iter().map(|plugin| {
            let arguments: Map<String, Value> = plugin
                .arguments
                .iter()
                .map(|(key, value)| (key.to_string(), json!(&**value)))
                .collect();
            json!({"name": &*plugin.name, "arguments": arguments})
        });
        let depth: Map<String, Value> = config
            .queue_depth
            .iter()
            .map(|(action, depth)| (action.name().to_owned(), json!(depth)))
            .collect();
        let params = &config.params;
        let partition = &self.settings.partition;
        Frame {
            config: json!({
                "actions": actions.join(", "),
                "tiers": [{"plugins": plugins.collect::<Vec<Value>>()}],
                "queueDepthPerAction": depth,
            }),
            params: json!({
                "schedulerName": self.settings.rules.scheduler_name,
                "restrictSchedulingNodes": params.restrict_node_scheduling,
                "partitionParams": {"NodePoolLabelKey": partition.key, "NodePoolLabelValue": partition.value},
                "maxNumberConsolidationPreemptees": params.max_consolidation_preemptees.map_or(-1, |most| most as i64),
                "scheduleCSIStorage": params.schedule_csi_storage,
                "useSchedulingSignatures": params.use_scheduling_signatures,
                "fullHierarchyFairness": params.full_hierarchy_fairness,
                "allowConsolidatingReclaim": params.allow_consolidating_reclaim,
                "numOfStatusRecordingWorkers": self.settings.status.workers,
                "globalDefaultStalenessGracePeriod": params.default_staleness_grace.nanos,
                "schedulePeriod": 0,
                "stuckInReleasingThreshold": self.settings.rules.stuck_after.nanos,
                "detailedFitErrors": params.detailed_fit_errors,
                "updatePodEvictionCondition": false,
                "queueLabelKey": &*params.queue_label_key,
            }),
        }
    }

    /// Counts what a plan decided.
    pub(super) fn measure(&mut self, made: &CyclePlan, now: Timestamp) {
        let created = |pod: &ObjectName| self.workloads.pod(pod).map(|entry| entry.base.created);
        let uid = |group: &ObjectName| {
            let group = self.workloads.group(group)?;
            group.metadata.uid.as_deref().map(Text::from)
        };
        self.measurements.metrics.note_plan(made, created, uid, now);
    }

    /// How many planners before this one panicked.
    pub fn note_panics(&mut self, panics: u64) {
        self.measurements.metrics.note_panics(panics);
    }

    /// The object that the latest attempt of a cycle was for: a pod that is its own group, or else a pod group.
    pub(crate) fn attempted_object(&self) -> Option<(Kind, ObjectName)> {
        let group = self.world.world().attempted_group()?;
        Some(match self.workloads.own_pod(group) {
            Some(pod) => (Kind::Pod, pod.clone()),
            None => (Kind::PodGroup, group.clone()),
        })
    }

    /// The pod was listed.
    #[cfg(test)]
    pub(crate) fn knows_pod(&self, pod: &ObjectName) -> bool {
        self.workloads.pod(pod).is_some()
    }

    /// The binder of this process is about a bind.
    #[cfg(test)]
    pub(crate) fn has_local_binds(&self) -> bool {
        !self.binds.locally_requested_pods().is_empty()
    }

    /// How long the latest cycle took.
    pub fn note_cycle_time(&mut self, span: Span) {
        self.measurements.metrics.note_cycle(span);
    }

    /// A plan that is not carried out; the reasons of the explained job are complete.
    pub fn plan_aside(&mut self, explained: Option<&ObjectName>, now: Timestamp) -> CyclePlan {
        match explained {
            Some(job) => plan_and_explain(self.world.world_mut(), now, job, |_| {}),
            None => plan(self.world.world_mut(), now),
        }
    }

    /// What groups and queues have and want.
    pub fn accounts(&self) -> &Accounts {
        self.statuses.accounts()
    }

    /// The node of a pod.
    pub fn node_of(&self, pod: &ObjectName) -> Option<&Text> {
        self.workloads.pod(pod)?.base.node.as_ref()
    }

    /// What the condition of a waiting pod says.
    pub fn condition_of(&self, pod: &ObjectName) -> Option<&str> {
        self.statuses.condition_of(pod)
    }

    /// The object of a group.
    pub fn group_object(&self, group: &ObjectName) -> Option<&PodGroup> {
        self.workloads.group(group)
    }
}
