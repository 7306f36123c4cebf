//! Runs a story: one thread, a clock that jumps to the next timer.

use std::collections::BTreeMap;
use std::sync::Arc;

use kai_api::function::Function;
use kai_client::env::{Clock, Env, TokioSpawner, Work, duration};
use kai_client::request::EvictBy;
use kai_client::watch::Lists;
use kai_control::run::{Connections, run};
use kai_control::shards;
use kai_core::time::{Span, Timestamp};
use kai_settings::flags::{Flagged, apply};
use kai_settings::planner::{BindRequests, Publish, Settings};
use kai_settings::status::Events;
use kai_settings::usage::UsageSettings;
use kai_translate::placement::PlacementKey;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::channel;
use tokio::time::{Duration, Instant};

use crate::api::{Api, Fault, Race};

/// 2026-01-01T00:00:00Z
pub(crate) const BEGINNING: i64 = 1_767_225_600_000_000_000;

/// Signs placements.
const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

/// How sharing pods get their group labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GroupLabels {
    /// Placements are signed and the server copies labels of binds.
    #[default]
    SetByBind,
    /// The server ignores labels of binds, as before Kubernetes 1.35.
    OldServer,
    /// Placements are not signed.
    Unsigned,
}

/// A scripted sequence of events.
#[derive(Clone, Default)]
pub(crate) struct Story {
    /// Objects that exist at the start, by the path of their list.
    pub(crate) objects: Vec<(&'static str, Value)>,
    /// Objects that appear after so many seconds.
    pub(crate) later: Vec<(u64, &'static str, Value)>,
    /// Lists that are changed after so many seconds while the watch is cut.
    pub(crate) rewritten: Vec<(u64, &'static str, Vec<Value>)>,
    /// Objects that are gone after so many seconds, by their paths.
    pub(crate) gone: Vec<(u64, &'static str)>,
    /// Requests that are refused.
    pub(crate) faults: Vec<Fault>,
    /// Objects that appear while requests are carried out.
    pub(crate) races: Vec<Race>,
    /// After how many seconds each reservation pod reports its device; none: never.
    pub(crate) agents: Vec<u64>,
    /// The device of each reservation pod; none: each has its own.
    pub(crate) devices: Vec<&'static str>,
    /// The kubelets reject reservation pods beyond so many on their node; none: they have a device for each.
    pub(crate) gpus_per_node: Option<usize>,
    /// Successful binds are reported.
    pub(crate) reports_success: bool,
    /// Past usage, where it counts.
    pub(crate) usage: Option<UsageSettings>,
    /// Weight of past usage.
    pub(crate) k_value: Option<&'static str>,
    /// The server does not stream lists.
    pub(crate) no_streams: bool,
    /// How sharing pods get their group labels.
    pub(crate) group_labels: GroupLabels,
    /// How everything that exists is learnt.
    pub(crate) lists: Lists,
    /// `Config` and shards are read.
    pub(crate) divided: bool,
    /// Which pods are bound through bind requests.
    pub(crate) bind_requests: BindRequests,
    /// When groups of single pods are written as objects.
    pub(crate) publish: Option<Publish>,
    /// A function beside the usual ones.
    pub(crate) also: Option<Function>,
    /// How victims are evicted.
    pub(crate) evict_by: EvictBy,
    /// Number of evictions per second; none: as many as the API server accepts.
    pub(crate) evictions_per_second: Option<u32>,
    /// How long the API server takes to answer writes.
    pub(crate) write_answers: Duration,
    /// How long the API server takes to answer evictions.
    pub(crate) eviction_answers: Duration,
    /// Flags of the scheduler.
    pub(crate) flags: Vec<(&'static str, &'static str)>,
    /// How long the story is.
    pub(crate) seconds: u64,
}

pub(crate) struct VirtualClock(pub(crate) Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_nanos()).expect("a short story");
        Timestamp { nanos: BEGINNING + passed }
    }

    fn sleep(&self, span: Span) -> Work {
        Box::pin(tokio::time::sleep(duration(span)))
    }

    fn uptime(&self) -> Span {
        Span { nanos: i64::try_from(self.0.elapsed().as_nanos()).unwrap_or(i64::MAX) }
    }
}

/// A client of the scripted API.
pub(crate) fn client(api: &Api) -> Client {
    let api = api.clone();
    Client::new(tower::service_fn(move |request| api.clone().answer(request)), "default")
}

/// A runtime of one thread whose clock jumps to the next timer.
pub(crate) fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work)
}

/// Time and concurrency of a story that begins now.
pub(crate) fn env(begin: Instant) -> Env {
    Env::new(Arc::new(VirtualClock(begin)), Arc::new(TokioSpawner))
}

/// An API that is asked from now on.
pub(crate) fn new_api(begin: Instant, faults: Vec<Fault>) -> Api {
    let clock = Arc::new(move || begin.elapsed().as_secs_f64());
    Api::new(clock, faults, Vec::new(), Vec::new())
}

/// Every request, with the second at which it was made.
pub(crate) fn requests_of(story: Story) -> Vec<String> {
    play(story).0
}

/// Every request, and what there is in the end, by the path of its list.
type Ended = (Vec<String>, BTreeMap<String, Vec<Value>>);

/// Plays a story twice: the same requests must be made at the same moments.
#[expect(clippy::needless_pass_by_value, reason = "stories are written where they are played")]
pub(crate) fn play(story: Story) -> Ended {
    let (first, second) = (play_once(&story), play_once(&story));
    let parts = first.0.iter().zip(&second.0).find(|(one, other)| one != other);
    assert_eq!(parts, None, "the same story gives the same requests");
    assert_eq!(first.0.len(), second.0.len(), "the same story gives as many requests");
    first
}

fn play_once(story: &Story) -> Ended {
    in_virtual_time(async {
        let begin = Instant::now();
        let clock = Arc::new(move || begin.elapsed().as_secs_f64());
        let api =
            Api::new(clock, story.faults.clone(), story.agents.clone(), story.devices.clone());
        story.begin(&api);
        let end = tokio::time::sleep(Duration::from_secs(story.seconds));
        let (_silence, questions) = channel(1);
        let connections = Connections::new(client(&api), env(begin), questions);
        let settings = story.settings();
        if story.divided {
            Box::pin(shards::run(connections, settings, |_| {}, end)).await;
        } else {
            run(connections, settings, end).await;
        }
        (api.log(), api.objects())
    })
}

impl Story {
    /// What exists, and what will happen.
    pub(crate) fn begin(&self, api: &Api) {
        api.refuse_streams(self.no_streams);
        api.ignore_bind_labels(self.group_labels == GroupLabels::OldServer);
        api.race(self.races.clone());
        api.limit_gpus(self.gpus_per_node);
        api.answer_after(self.write_answers, self.eviction_answers);
        for (path, object) in self.objects.clone() {
            api.set(path, object);
        }
        let after = |second: u64, happens: Box<dyn FnOnce(&Api) + Send>| {
            let api = api.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(second)).await;
                happens(&api);
            });
        };
        for (second, path, object) in self.later.clone() {
            after(second, Box::new(move |api| api.set(path, object)));
        }
        for (second, path) in self.gone.clone() {
            after(second, Box::new(move |api| api.remove(path)));
        }
        for (second, path, objects) in self.rewritten.clone() {
            after(second, Box::new(move |api| api.rewrite(path, objects)));
        }
    }

    /// How `kai` is set up in it.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings {
            evict_by: self.evict_by,
            evictions_per_second: self.evictions_per_second,
            usage: self.usage.clone(),
            bind_requests: self.bind_requests,
            lists: self.lists,
            ..Settings::default()
        };
        for plugin in settings.config.plugins.iter_mut().filter(|one| *one.name == *"proportion") {
            plugin.arguments.extend(self.k_value.map(|value| ("kValue".into(), value.into())));
        }
        if self.reports_success {
            settings.status.events = Events::All;
        }
        if let Some(publish) = self.publish {
            settings.publish = publish;
        }
        if self.group_labels != GroupLabels::Unsigned {
            settings.trust.key = Some(PlacementKey::new(KEY));
        }
        settings.functions.extend(self.also);
        let mut flagged = Flagged { settings, ..Flagged::default() };
        for (name, value) in &self.flags {
            apply(&mut flagged, name, value).expect("a flag");
        }
        flagged.settings
    }
}
