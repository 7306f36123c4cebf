//! The cluster as it is now, in one planner per part of it. Groups that are not written yet are found out, and not written.

use std::fmt::Write as _;

use futures::future::{join_all, try_join_all};
use kai_api::function::Function;
use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::lease::Gate;
use kai_client::watch::{Change, list};
use kai_client::write::{Limits, Writer};
use kai_core::input::Text;
use kai_core::time::Span;
use kai_settings::planner::Settings;
use kai_translate::time::seconds;
use kube::Client;
use tokio::sync::mpsc::{Receiver, channel};

use super::ExplainError;
use crate::grouper::Grouper;
use crate::orders::{Order, Report};
use crate::planner::Planner;
use crate::run::{WAITING_CHANGES, start_usage};
use crate::shards::Part;

/// How long groups are looked for; owners that may not be read are known as such after five seconds.
const GROUPS_WITHIN: Span = seconds(15);
/// How long past usage is waited for.
const USAGE_WITHIN: Span = seconds(10);

/// A part of the cluster, read.
pub(super) struct Reading {
    pub(super) planner: Planner,
    shard: Option<Text>,
    problems: Vec<String>,
    grouper: Option<std::sync::Arc<Grouper>>,
    settings: Settings,
    /// Past usage counts, and could not be learnt.
    lacks_usage: bool,
}

/// Reads the cluster once, for all parts of it.
pub(super) async fn read(
    client: &Client,
    env: &Env,
    parts: Vec<Part>,
) -> Result<Vec<Reading>, ExplainError> {
    let mut readings: Vec<Reading> =
        parts.into_iter().map(|part| Reading::begin(client, env, part)).collect();
    let (sink, changes) = channel(WAITING_CHANGES);
    let lists = Kind::ALL.map(|kind| {
        let (client, env, sink) = (client.clone(), env.clone(), sink.clone());
        async move {
            let listed = list(client, env, kind, sink).await;
            listed.map_err(|error| ExplainError::Unreadable(kind.name(), error.into()))
        }
    });
    drop(sink);
    let list = async {
        try_join_all(lists).await?;
        Ok::<(), ExplainError>(())
    };
    let (listed, ()) = tokio::join!(list, receive(env, changes, &mut readings));
    listed?;
    for reading in &mut readings {
        while reading.planner.has_selectors_waiting() {
            reading.planner.evaluate_selectors();
        }
        reading.group(env).await;
        reading.learn_usage(client, env).await;
    }
    Ok(readings)
}

async fn receive(env: &Env, mut changes: Receiver<Change>, readings: &mut [Reading]) {
    while let Some(change) = changes.recv().await {
        for reading in &mut *readings {
            reading.planner.apply(change.clone(), env.now());
        }
    }
}

impl Reading {
    /// A reader does not act: nothing is elected, and nothing is written.
    fn begin(client: &Client, env: &Env, part: Part) -> Self {
        let settings = Settings {
            election: None,
            functions: Function::USUAL.into(),
            schedules: true,
            ..part.settings
        };
        let closed = Gate::closed(env.clone());
        let config = settings.grouper.clone();
        Self {
            planner: Planner::new(settings.clone()),
            shard: part.shard,
            problems: part.problems,
            grouper: config.map(|config| {
                let writer = Writer::new(closed.client(client), env.clone(), Limits::default());
                Grouper::new(writer, env.clone(), config, &closed)
            }),
            settings,
            lacks_usage: false,
        }
    }

    /// Finds out the groups of pods that have none yet; those that cannot be found out in time wait.
    async fn group(&mut self, env: &Env) {
        let Some(grouper) = &self.grouper else { return };
        let classes = self.planner.class_names();
        let requested = self.planner.take_orders().into_iter().filter_map(|order| match order {
            Order::Group(pod) => Some(pod),
            _ => None,
        });
        let (unread_reports, _) = channel(1);
        let found = requested.map(async |pod| {
            tokio::select! { biased;
                grouped = grouper.group(*pod, classes.clone(), &unread_reports) => grouped,
                () = env.sleep(GROUPS_WITHIN) => None,
            }
        });
        for grouped in join_all(found).await.into_iter().flatten() {
            self.planner.settle(Report::Grouped(Box::new(grouped)), env.now());
        }
    }

    async fn learn_usage(&mut self, client: &Client, env: &Env) {
        if self.settings.usage.is_none() {
            return;
        }
        let (sink, mut reports) = channel(1);
        start_usage(client, env, &self.settings, &sink);
        drop(sink);
        let report = tokio::select! { biased;
            report = reports.recv() => report,
            () = env.sleep(USAGE_WITHIN) => None,
        };
        self.lacks_usage = report.is_none();
        if let Some(report) = report {
            self.planner.settle(report, env.now());
            self.planner.record_usage(env.now());
        }
    }

    /// Whose plan this is, and what it lacks.
    pub(super) fn heads(&self) -> String {
        let mut text = String::new();
        if let Some(shard) = &self.shard {
            let _ = writeln!(text, "Planned as shard {shard} plans");
        }
        for problem in &self.problems {
            let _ = writeln!(text, "  its settings: {problem}");
        }
        if self.lacks_usage {
            text += "Past usage counts and could not be learnt: fair shares are those without it\n";
        }
        text
    }
}
