//! How a planner and the controllers around it are set up.

use std::collections::BTreeSet;

use kai_api::function::Function;
use kai_api::names::objects::NAMESPACE;
use kai_client::lease::Election;
use kai_client::request::EvictBy;
use kai_client::watch::Lists;
use kai_core::config::Config;
use kai_core::time::Span;
use kai_translate::partition::Partition;
use kai_translate::placement::PlacementSigner;
use kai_translate::pod::PodRules;
use kai_translate::time::seconds;
use kai_translate::trust::TrustSettings;
use kai_workloads::GrouperConfig;

use crate::binder::BinderSettings;
use crate::metrics::MetricsSettings;
use crate::scale_adjuster::ScaleAdjusterSettings;
use crate::status::StatusSettings;
use crate::usage::UsageSettings;

/// How the planner is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Policy, in the core's words.
    pub config: Config,
    /// How pods are read.
    pub rules: PodRules,
    /// Which pods are believed.
    pub trust: TrustSettings,
    /// The part of the cluster that is ours.
    pub partition: Partition,
    /// How pods are grouped; none: another process groups them.
    pub grouper: Option<GrouperConfig>,
    /// Plans are made and carried out; false: pods are only grouped.
    pub schedules: bool,
    /// When a pod that is its own group gets a `PodGroup` object.
    pub publish: Publish,
    /// How bind requests are carried out; none: another process does it.
    pub binder: Option<BinderSettings>,
    /// How nodes are asked for, where that is our function.
    pub scale_adjuster: ScaleAdjusterSettings,
    /// Which pods are bound through bind requests.
    pub bind_requests: BindRequests,
    /// How victims are evicted.
    pub evict_by: EvictBy,
    /// Victims that are deleted get the condition `DisruptionTarget` first.
    pub mark_victims: bool,
    /// Number of evictions per second on average; none: as many as the API server accepts.
    pub evictions_per_second: Option<u32>,
    /// What is published about all this.
    pub status: StatusSettings,
    /// Settings of the metrics.
    pub metrics: MetricsSettings,
    /// Where objects of the installation are.
    pub namespace: String,
    /// Image of this process: that of pods we make, where nothing else is said.
    pub own_image: Option<String>,
    /// How everything that exists is learnt at first.
    pub lists: Lists,
    /// Functions that this process runs.
    pub functions: BTreeSet<Function>,
    /// Past usage, where it counts.
    pub usage: Option<UsageSettings>,
    /// How leaders are elected; none: we act alone.
    pub election: Option<Election>,
}

impl Settings {
    /// The image that was named; where the usual one was, that of this process, if it is known.
    pub fn own_image_or(&self, named: &str, usual: &str) -> String {
        let own = self.own_image.as_deref().filter(|_| named == usual);
        own.unwrap_or(named).to_owned()
    }

    /// How placements are signed.
    pub fn placement_signer(&self) -> PlacementSigner {
        let pool = [&self.partition.key].into_iter().filter(|key| !key.is_empty()).cloned();
        let label_keys = pool.chain([self.config.params.queue_label_key.to_string()]).collect();
        PlacementSigner { key: self.trust.key.clone(), label_keys }
    }
}

/// Which pods are bound through bind requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindRequests {
    /// Those whose bind takes several steps, where the binder is another process.
    #[default]
    Needed,
    /// All, as KAI does it.
    Always,
}

/// When a pod that is its own group gets a `PodGroup` object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Without delay.
    Always,
    /// When it has waited this long.
    AfterWaiting(Span),
}

/// How long a pod that is its own group waits without a `PodGroup` object.
pub const PUBLISH_AFTER: Span = seconds(5);

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: Config { plugins: crate::shard::default_plugins(), ..Config::default() },
            rules: PodRules::default(),
            trust: TrustSettings::default(),
            partition: Partition::default(),
            grouper: Some(GrouperConfig::default()),
            schedules: true,
            publish: Publish::AfterWaiting(PUBLISH_AFTER),
            binder: Some(BinderSettings::default()),
            scale_adjuster: ScaleAdjusterSettings::default(),
            bind_requests: BindRequests::default(),
            evict_by: EvictBy::default(),
            mark_victims: false,
            evictions_per_second: None,
            status: StatusSettings::default(),
            metrics: MetricsSettings::default(),
            lists: Lists::default(),
            functions: Function::USUAL.into(),
            usage: None,
            namespace: NAMESPACE.to_owned(),
            own_image: None,
            election: None,
        }
    }
}
