//! What `Config` and `SchedulingShard` objects say: which planners run, and how. Pure.

use std::collections::BTreeMap;

use kai_api::names::objects;
use kai_api::{Config, SchedulingShard};
use kai_core::input::Text;
use kai_translate::decode::decode;
use serde_json::Value;

use super::translate;
use crate::flags::Flagged;
use crate::function::Function;
use crate::kinds::Kind;
use crate::planner::{Publish, Settings};
use crate::status::Duties;
use crate::usage::settings::Surroundings;
use crate::watch::Change;

/// The objects.
#[derive(Default)]
pub(super) struct Installation {
    config: Option<Config>,
    shards: BTreeMap<Text, SchedulingShard>,
    listed: Vec<Kind>,
}

/// One planner and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The shard; none: no object asked for it.
    pub(super) shard: Option<Text>,
    /// How it plans.
    pub(super) settings: Settings,
    /// What about the shard makes no sense.
    pub(super) problems: Vec<String>,
}

impl Installation {
    /// Takes a change over.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Object(Kind::Config, object)
                if object["metadata"]["name"] == objects::CONFIG =>
            {
                self.config = decoded(Kind::Config, object);
            }
            Change::Object(Kind::SchedulingShard, object) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                if let Some(shard) = decoded(Kind::SchedulingShard, object) {
                    self.shards.insert(name.into(), shard);
                }
            }
            Change::Gone(Kind::Config, name) if *name.name == *objects::CONFIG => {
                self.config = None;
            }
            Change::Gone(Kind::SchedulingShard, name) => {
                self.shards.remove(&name.name);
            }
            Change::Listed(kind) => self.listed.push(*kind),
            _ => {}
        }
    }

    /// Both kinds were listed.
    pub(super) fn is_known(&self) -> bool {
        [Kind::Config, Kind::SchedulingShard].iter().all(|kind| self.listed.contains(kind))
    }

    /// A shard as it is.
    pub(super) fn shard(&self, name: &str) -> Option<&SchedulingShard> {
        self.shards.get(name)
    }

    /// The planners that run. Several schedulers see each other's groups only as objects; what is not divided is done once.
    pub(super) fn parts(&self, base: &Settings) -> Vec<Part> {
        let base = self.configured(base);
        let prometheus = self.prometheus(&base.namespace);
        let variable = |name: &str| std::env::var(name).ok();
        let around = Surroundings { variable: &variable, prometheus: prometheus.as_deref() };
        let mut parts: Vec<Part> = self
            .shards
            .iter()
            .map(|(name, shard)| {
                let (settings, problems) = translate::settings(shard, &base, &around);
                Part { shard: Some(name.clone()), settings, problems }
            })
            .collect();
        if parts.is_empty() || !base.schedules {
            return vec![Part { shard: None, settings: base, problems: Vec::new() }];
        }
        if parts.len() > 1 {
            parts.iter_mut().for_each(only_scheduler);
            parts.extend(undivided(base));
        }
        parts
    }

    /// The Prometheus of the installation. One that is named counts more than the one that is installed.
    fn prometheus(&self, namespace: &str) -> Option<String> {
        let config = self.config.as_ref()?.spec.prometheus.clone()?;
        let named = config.external_prometheus_url.filter(|url| !url.is_empty());
        let service = objects::USAGE_PROMETHEUS;
        let installed = || format!("http://{service}.{namespace}.svc.cluster.local:9090");
        named.or_else(|| config.enabled.unwrap_or(false).then(installed))
    }

    /// The settings with what `Config` says, where the command line says nothing else.
    fn configured(&self, base: &Settings) -> Settings {
        let mut settings = base.clone();
        let Some(config) = &self.config else { return settings };
        let usual = Flagged::default().settings;
        let global = config.spec.global.clone().unwrap_or_default();
        if let Some(name) = global
            .scheduler_name
            .filter(|_| base.rules.scheduler_name == usual.rules.scheduler_name)
        {
            settings.rules.scheduler_name.clone_from(&name);
            if let Some(binder) = &mut settings.binder {
                binder.scheduler_name.clone_from(&name);
            }
            if let Some(grouper) = &mut settings.grouper {
                grouper.scheduler_name = name;
            }
        }
        if let Some(key) =
            global.node_pool_label_key.filter(|_| base.partition.key == usual.partition.key)
        {
            settings.partition.key.clone_from(&key);
            if let Some(grouper) = &mut settings.grouper {
                grouper.node_pool_label_key = key;
            }
        }
        let queue_key = &usual.config.params.queue_label_key;
        if let Some(key) =
            global.queue_label_key.filter(|_| base.config.params.queue_label_key == *queue_key)
        {
            settings.config.params.queue_label_key = key.as_str().into();
            if let Some(grouper) = &mut settings.grouper {
                grouper.queue_label_key = key;
            }
        }
        let queues = config.spec.queue_controller.clone().unwrap_or_default();
        if let Some(namespace) =
            queues.metrics_namespace.filter(|_| base.metrics.namespace == usual.metrics.namespace)
        {
            settings.metrics.namespace = namespace;
        }
        let args = config.spec.pod_grouper.clone().and_then(|grouper| grouper.args);
        if let (Some(grouper), Some(args)) = (&mut settings.grouper, args) {
            grouper.knative_gang &= args.gang_schedule_knative.unwrap_or(true);
            grouper.karta &= args.generic_karta_fallback.unwrap_or(true);
        }
        settings
    }
}

fn only_scheduler(part: &mut Part) {
    part.settings.grouper = None;
    part.settings.binder = None;
    part.settings.functions = [Function::Scheduler].into();
    part.settings.status.duties = Duties { verdicts: true, groups: false, queues: false };
    part.settings.metrics.shard.clone_from(&part.shard);
}

/// Grouping and sums, over the whole cluster; none where they are not ours.
fn undivided(base: Settings) -> Option<Part> {
    let mut settings = base;
    settings.functions.remove(&Function::Scheduler);
    settings.schedules = false;
    settings.status.duties.verdicts = false;
    settings.partition = kai_translate::partition::Partition::default();
    settings.publish = Publish::Always;
    let part = Part { shard: None, settings, problems: Vec::new() };
    (!part.settings.functions.is_empty()).then_some(part)
}

fn decoded<T: serde::de::DeserializeOwned>(kind: Kind, object: &Value) -> Option<T> {
    decode(kind.name(), object)
        .map_err(|problem| {
            tracing::warn!(object = problem.object, field = problem.field, "{}", problem.message);
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shard(name: &str, partition: &str) -> Change {
        let object = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": name}, "spec": {"partitionLabelValue": partition}});
        Change::Object(Kind::SchedulingShard, Box::new(object))
    }

    #[test]
    fn one_shard_does_everything_and_several_divide_what_can_be_divided() {
        let base = Flagged::default().settings;
        let mut installation = Installation::default();
        assert_eq!(installation.parts(&base).len(), 1);
        installation.apply(&shard("default", ""));
        let parts = installation.parts(&base);
        assert_eq!(parts.len(), 1);
        assert!(parts[0].settings.grouper.is_some() && parts[0].settings.schedules);
        installation.apply(&shard("other", "a"));
        let parts = installation.parts(&base);
        let told: Vec<(Option<&str>, bool, bool)> = parts
            .iter()
            .map(|part| {
                (part.shard.as_deref(), part.settings.schedules, part.settings.grouper.is_some())
            })
            .collect();
        assert_eq!(
            told,
            [(Some("default"), true, false), (Some("other"), true, false), (None, false, true)]
        );
        assert_eq!(parts[1].settings.partition.value, "a");
        assert_eq!(parts[2].settings.partition.key, "", "sums are those of the whole cluster");
    }

    #[test]
    fn config_counts_where_the_command_line_is_silent() {
        let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": {
            "global": {"schedulerName": "from-config", "queueLabelKey": "q"},
            "podGrouper": {"args": {"gangScheduleKnative": false}},
            "queueController": {"metricsNamespace": "ours"},
        }});
        let mut installation = Installation::default();
        installation.apply(&Change::Object(Kind::Config, Box::new(config)));
        let mut base = Flagged::default().settings;
        let settings = installation.parts(&base).remove(0).settings;
        assert_eq!(settings.rules.scheduler_name, "from-config");
        assert_eq!(&*settings.config.params.queue_label_key, "q");
        assert_eq!(settings.metrics.namespace, "ours");
        assert_eq!(settings.grouper.map(|grouper| grouper.knative_gang), Some(false));
        base.rules.scheduler_name = "mine".to_owned();
        assert_eq!(installation.parts(&base).remove(0).settings.rules.scheduler_name, "mine");
    }
}
