//! Several planners in one process, one per `SchedulingShard`, over one set of watches. `Config` and shards are read live:
//! when what they say changes, the planners end and begin anew, as if the process had been started again.

mod conditions;
mod installation;
mod translate;

use std::future::Future;

use kai_core::time::Span;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::env::Env;
use crate::kinds::Kind;
use crate::metrics;
use crate::orders::{MERGE_PATCH, send};
use crate::planner::Settings;
use crate::run::{WAITING_CHANGES, run_planner, start_watches};
use crate::serve::Question;
use crate::watch::{Change, watch};
use installation::{Installation, Part};
pub(crate) use translate::{default_plugins, known_plugin, search_budgets};

/// Changes of settings that come together count together.
const WINDOW: Span = Span { nanos: 500_000_000 };

/// Runs the planners that `Config` and shards ask for until `shutdown` is done.
pub async fn run(
    client: Client,
    env: Env,
    base: Settings,
    mut questions: Receiver<Question>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (change_sink, mut changes) = channel(WAITING_CHANGES);
    for kind in [Kind::Config, Kind::SchedulingShard] {
        env.spawn("watch", watch(client.clone(), env.clone(), kind, change_sink.clone()));
    }
    drop(change_sink);
    let mut shutdown = std::pin::pin!(shutdown);
    let mut installation = Installation::default();
    while !installation.is_known() {
        tokio::select! { biased;
            () = &mut shutdown => return,
            change = changes.recv() => match change {
                Some(change) => installation.apply(&change),
                None => return,
            },
        }
    }
    loop {
        let parts = installation.parts(&base);
        for part in &parts {
            tell(&client, &env, &installation, part).await;
        }
        let running = format!("{parts:?}");
        let planners = Planners::start(&client, &env, parts);
        let ended = loop {
            tokio::select! { biased;
                () = &mut shutdown => break true,
                Some(question) = questions.recv() => planners.ask(&env, question),
                change = changes.recv() => {
                    let Some(change) = change else { break true };
                    installation.apply(&change);
                    env.sleep(WINDOW).await;
                    while let Ok(change) = changes.try_recv() {
                        installation.apply(&change);
                    }
                    if format!("{:?}", installation.parts(&base)) != running {
                        break false;
                    }
                }
            }
        };
        planners.stop().await;
        if ended {
            return;
        }
        tracing::info!("settings changed: planners begin anew");
    }
}

/// Says on a shard's object how it fares.
async fn tell(client: &Client, env: &Env, installation: &Installation, part: &Part) {
    let Some(name) = &part.shard else { return };
    for problem in &part.problems {
        tracing::warn!(shard = %name, "{problem}");
    }
    let shard = installation.shard(name);
    let patch = shard.and_then(|shard| conditions::patch(shard, &part.problems, env.now()));
    let Some(patch) = patch else { return };
    let path = format!("/apis/kai.scheduler/v1/schedulingshards/{name}/status");
    if let Err(error) = send::<Value>(client, "PATCH", &path, Some(MERGE_PATCH), &patch).await {
        tracing::warn!(shard = %name, %error, "its conditions were not written");
    }
}

/// Planners that run.
struct Planners {
    stops: Vec<oneshot::Sender<()>>,
    /// Closed when the last one has ended.
    done: Receiver<()>,
    questions: Vec<Sender<Question>>,
}

impl Planners {
    fn start(client: &Client, env: &Env, parts: Vec<Part>) -> Self {
        let changes = start_watches(client, env);
        let (done_sink, done) = channel(1);
        let (mut stops, mut asked, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let (sink, own) = channel(WAITING_CHANGES);
            let (question_sink, questions) = channel(WAITING_CHANGES);
            let (stop, stopped) = oneshot::channel::<()>();
            sinks.push(sink);
            asked.push(question_sink);
            stops.push(stop);
            let (client, own_env, done) = (client.clone(), env.clone(), done_sink.clone());
            env.spawn("planner", async move {
                let stopped = async {
                    let _ = stopped.await;
                };
                run_planner(client, own_env, part.settings, own, questions, stopped).await;
                drop(done);
            });
        }
        env.spawn("changes", tell_all(changes, sinks));
        Self { stops, done, questions: asked }
    }

    /// Ends all of them, each when what it has under way is done.
    async fn stop(mut self) {
        drop(self.stops);
        while self.done.recv().await.is_some() {}
    }

    /// Asks all of them and answers as one.
    fn ask(&self, env: &Env, question: Question) {
        let planners = self.questions.clone();
        env.spawn("question", async move {
            match question {
                Question::Ready(answer) => {
                    let told = ask_all(&planners, Question::Ready).await;
                    let ready = told.len() == planners.len() && told.into_iter().all(|ready| ready);
                    let _ = answer.send(ready);
                }
                Question::Metrics(answer) => {
                    let pages = ask_all(&planners, Question::Metrics).await;
                    let _ = answer.send(metrics::merged(&pages));
                }
                Question::Frame(answer) => {
                    let first = planners.first().into_iter().cloned().collect::<Vec<_>>();
                    let frame = ask_all(&first, Question::Frame).await.pop();
                    let _ = answer.send(frame.unwrap_or_default());
                }
            }
        });
    }
}

async fn ask_all<T>(
    planners: &[Sender<Question>],
    question: impl Fn(oneshot::Sender<T>) -> Question,
) -> Vec<T> {
    let mut told = Vec::new();
    for planner in planners {
        let (sink, answer) = oneshot::channel();
        if planner.send(question(sink)).await.is_ok() {
            told.extend(answer.await.ok());
        }
    }
    told
}

/// Tells every planner of every change, for as long as they listen.
async fn tell_all(mut changes: Receiver<Change>, planners: Vec<Sender<Change>>) {
    let Some(first) = planners.first().cloned() else { return };
    loop {
        let change = tokio::select! { biased;
            () = first.closed() => return,
            change = changes.recv() => change,
        };
        let Some(change) = change else { return };
        for planner in &planners {
            if planner.send(change.clone()).await.is_err() {
                return;
            }
        }
    }
}
