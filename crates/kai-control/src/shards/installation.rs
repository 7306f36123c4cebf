//! What `Config` and `SchedulingShard` objects say: which planners run, and how. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kai_api::function::Function;
use kai_api::names::objects;
use kai_api::{Config, SchedulingShard};
use kai_client::kinds::Kind;
use kai_client::observed::Observed;
use kai_client::watch::Change;
use kai_core::input::Text;
use kai_settings::planner::{Publish, Settings};
use kai_settings::status::Duties;
use kai_settings::usage::Environment;

use kai_settings::config::{Configured, configure};
use kai_settings::shard as shard_settings;

/// `Config` and shards, as the cluster shows them.
#[derive(Default)]
pub(super) struct Installation {
    config: Option<Config>,
    shards: BTreeMap<Text, SchedulingShard>,
    listed: Vec<Kind>,
}

/// One planner and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// The shard; none: it has no object.
    pub(crate) shard: Option<Text>,
    /// Settings of its planner.
    pub(crate) settings: Settings,
    /// What about the shard makes no sense.
    pub(crate) problems: Vec<String>,
}

impl Installation {
    /// Takes a change over.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Object(name, Observed::Config(config)) if *name.name == *objects::CONFIG => {
                self.config = Some(Config::clone(config));
            }
            Change::Object(name, Observed::SchedulingShard(shard)) => {
                self.shards.insert(name.name.clone(), SchedulingShard::clone(shard));
            }
            Change::Malformed(malformed) => {
                malformed.log();
                if malformed.kind == Kind::Config && *malformed.name.name == *objects::CONFIG {
                    self.config = None;
                }
            }
            Change::Gone(Kind::Config, name) if *name.name == *objects::CONFIG => {
                self.config = None;
            }
            Change::Gone(Kind::SchedulingShard, name) => {
                self.shards.remove(&name.name);
            }
            Change::Listed(kind) | Change::Absent(kind) => self.listed.push(*kind),
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

    /// The `Config` as it is.
    pub(super) fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    /// Remembers conditions that were just written to `Config`, ahead of the watch.
    pub(super) fn note_config_conditions(&mut self, conditions: Vec<Condition>) {
        if let Some(config) = &mut self.config {
            config.status.get_or_insert_default().conditions = conditions;
        }
    }

    /// Remembers conditions that were just written to a shard, ahead of the watch.
    pub(super) fn note_shard_conditions(&mut self, name: &str, conditions: Vec<Condition>) {
        if let Some(shard) = self.shards.get_mut(name) {
            shard.status.get_or_insert_default().conditions = conditions;
        }
    }

    /// What `Config` makes of the settings of the command line.
    pub(super) fn configured(&self, base: &Settings) -> Configured {
        let spec = self.config.as_ref().map(|config| config.spec.clone()).unwrap_or_default();
        configure(&spec, base)
    }

    /// The planners that run. Several schedulers see each other's groups only as objects; what is not divided is done once.
    pub(super) fn parts(&self, base: Settings) -> Vec<Part> {
        let prometheus = self.prometheus(&base.namespace);
        let variable = |name: &str| std::env::var(name).ok();
        let around = Environment { variable: &variable, prometheus: prometheus.as_deref() };
        let mut parts: Vec<Part> = self
            .shards
            .iter()
            .map(|(name, shard)| {
                let (settings, problems) = shard_settings::settings(shard, &base, &around);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use kai_settings::flags::Flagged;

    fn shard(name: &str, partition: &str) -> Change {
        let object = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": name}, "spec": {"partitionLabelValue": partition}});
        Change::decode(Kind::SchedulingShard, object)
    }

    #[test]
    fn one_shard_does_everything_and_several_divide_what_can_be_divided() {
        let base = Flagged::default().settings;
        let mut installation = Installation::default();
        assert_eq!(installation.parts(base.clone()).len(), 1);
        installation.apply(&shard("default", ""));
        let parts = installation.parts(base.clone());
        assert_eq!(parts.len(), 1);
        assert!(parts[0].settings.grouper.is_some() && parts[0].settings.schedules);
        installation.apply(&shard("other", "a"));
        let parts = installation.parts(base.clone());
        let shown: Vec<(Option<&str>, bool, bool)> = parts
            .iter()
            .map(|part| {
                (part.shard.as_deref(), part.settings.schedules, part.settings.grouper.is_some())
            })
            .collect();
        assert_eq!(
            shown,
            [(Some("default"), true, false), (Some("other"), true, false), (None, false, true)]
        );
        assert_eq!(parts[1].settings.partition.value, "a");
        assert_eq!(parts[2].settings.partition.key, "", "sums are those of the whole cluster");
    }

    #[test]
    fn only_the_config_of_the_known_name_counts() {
        let config = |name: &str, spec: Value| {
            let object = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": name}, "spec": spec});
            Change::decode(Kind::Config, object)
        };
        let base = Flagged::default().settings;
        let mut installation = Installation::default();
        installation.apply(&config("other", json!({"global": {"schedulerName": "s"}})));
        let scheduler = |of: &Installation| of.configured(&base).settings.rules.scheduler_name;
        assert_eq!(scheduler(&installation), "kai-scheduler");
        installation.apply(&config(
            "kai-config",
            json!({"global": {"schedulerName": "s"}, "prometheus": {"enabled": true}}),
        ));
        assert_eq!(scheduler(&installation), "s");
        let built_in = "http://usage-prometheus.ns.svc.cluster.local:9090";
        assert_eq!(installation.prometheus("ns").as_deref(), Some(built_in));
        let both = json!({"prometheus": {"enabled": true, "externalPrometheusUrl": "http://p"}});
        installation.apply(&config("kai-config", both));
        assert_eq!(installation.prometheus("ns").as_deref(), Some("http://p"));
    }
}
