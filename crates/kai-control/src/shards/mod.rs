//! Several planners in one process, one per `SchedulingShard`, over one set of watches. `Config` and shards are read live:
//! when what they say changes, the planners end and begin anew, as if the process had been started again. What comes of them is
//! written by the leader.

mod conditions;
mod installation;

use std::collections::BTreeMap;
use std::future::Future;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kai_api::names::objects;
use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::lease::{self, Gate};
use kai_client::path::Resource;
use kai_client::watch;
use kai_client::watch::{Change, Lists, watch};
use kai_client::write::{Limits, Patch, Target, Write, Writer, read};
use kai_core::input::{ObjectName, Text};
use kai_serve::metrics_text::merged;
use kai_settings::planner::Settings;
use kai_workloads::config::KindDefaults;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::sync::watch::{Receiver as HoldReceiver, Sender as HoldSender, channel as hold_channel};

use crate::grouper;
use crate::run::{Connections, PlannerInputs, WAITING_CHANGES, run_planner, start_watches};
use crate::serve::Question;
use conditions::SettingsConditions;
use installation::Installation;
pub(crate) use installation::Part;
use kai_settings::config::{Configured, ConfiguredProcess};

/// Runs the planners that `Config` and shards ask for until `shutdown` is done. `apply` receives what `Config` says about the
/// rest of the process, first and whenever it changes.
pub async fn run(
    connections: Connections,
    base: Settings,
    apply: impl Fn(&ConfiguredProcess) + Send + Sync,
    shutdown: impl Future<Output = ()> + Send,
) {
    let Connections { client, env, elections, mut questions } = connections;
    let mut changes =
        watch_settings(&client, &env, base.lists, &[Kind::Config, Kind::SchedulingShard]);
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
    let mut plan = plan(&client, &installation, &base).await;
    apply(&plan.process);
    loop {
        let mut planners = Planners::start(&client, &env, &elections, plan.parts.clone());
        let mut leading = Leading::new();
        let ended = loop {
            tokio::select! { biased;
                () = &mut shutdown => break true,
                Some(question) = questions.recv() => planners.ask(&env, question),
                Some((part, gate)) = planners.turns.recv() => {
                    leading.remove(&part);
                    leading.extend(gate.map(|gate| (part, gate)));
                    report_settings(&client, &env, &mut installation, &plan, &leading).await;
                }
                change = changes.recv() => {
                    let Some(change) = change else { break true };
                    planners.hold(true);
                    installation.apply(&change);
                    apply_waiting(&mut installation, &mut changes);
                    let next = self::plan(&client, &installation, &base).await;
                    if next.process != plan.process {
                        apply(&next.process);
                    }
                    let same = next.parts == plan.parts;
                    plan = next;
                    if !same {
                        break false;
                    }
                    planners.hold(false);
                    report_settings(&client, &env, &mut installation, &plan, &leading).await;
                }
            }
        };
        planners.stop().await;
        if ended {
            return;
        }
        // What changed while the planners ended counts together with what made them end.
        if apply_waiting(&mut installation, &mut changes) {
            plan = self::plan(&client, &installation, &base).await;
            apply(&plan.process);
        }
        tracing::info!("settings changed: planners begin anew");
    }
}

/// Applies the changes that were received and not read yet; false where there were none.
fn apply_waiting(installation: &mut Installation, changes: &mut Receiver<Change>) -> bool {
    let mut changed = false;
    while let Ok(change) = changes.try_recv() {
        installation.apply(&change);
        changed = true;
    }
    changed
}

/// Follows `Config` where no planner runs, until `shutdown` is done.
pub async fn follow_config(
    client: Client,
    env: Env,
    base: Settings,
    apply: impl Fn(&ConfiguredProcess) + Send + Sync,
    shutdown: impl Future<Output = ()> + Send,
) {
    let mut changes = watch_settings(&client, &env, base.lists, &[Kind::Config]);
    let mut shutdown = std::pin::pin!(shutdown);
    let mut installation = Installation::default();
    let mut applied = None;
    loop {
        tokio::select! { biased;
            () = &mut shutdown => return,
            change = changes.recv() => match change {
                Some(change) => installation.apply(&change),
                None => return,
            },
        }
        let process = installation.configured(&base).process;
        if applied.as_ref() != Some(&process) {
            apply(&process);
            applied = Some(process);
        }
    }
}

/// What `Config` says now about the rest of the process.
pub async fn configured_process(client: &Client, base: &Settings) -> ConfiguredProcess {
    let path = Resource::CONFIGS.object(&ObjectName::new("", objects::CONFIG));
    let mut installation = Installation::default();
    match read::<Value>(client, &path).await {
        Ok(Some(config)) => installation.apply(&Change::decode(Kind::Config, config)),
        Ok(None) => {}
        Err(failure) => tracing::warn!(%failure, "failed to read Config"),
    }
    installation.configured(base).process
}

/// How the parts of the cluster are scheduled, as `Config` and shards are now. `only` is the part that is looked at; one
/// that no shard describes is scheduled as the command line says.
pub(crate) async fn scheduled_parts(
    client: &Client,
    env: &Env,
    base: &Settings,
    only: Option<&str>,
) -> Result<Vec<Part>, kube::Error> {
    let (sink, mut changes) = channel(WAITING_CHANGES);
    let mut installation = Installation::default();
    let list = async move {
        for kind in [Kind::Config, Kind::SchedulingShard] {
            watch::list(client.clone(), env.clone(), kind, sink.clone()).await?;
        }
        Ok::<(), kube::Error>(())
    };
    let receive = async {
        while let Some(change) = changes.recv().await {
            installation.apply(&change);
        }
    };
    let (listed, ()) = tokio::join!(list, receive);
    listed?;
    let planned = plan(client, &installation, base).await;
    let is_meant = |part: &Part| {
        let named = part.shard.is_some() && only == Some(&part.settings.partition.value);
        part.settings.schedules && (only.is_none() || named)
    };
    // Among several shards grouping is done once for all; a process that runs one of them alone does it for that one.
    let grouper = planned.parts.iter().find_map(|part| part.settings.grouper.clone());
    let mut parts: Vec<Part> = planned.parts.into_iter().filter(is_meant).collect();
    for part in &mut parts {
        part.settings.grouper.clone_from(&grouper);
    }
    if parts.is_empty() {
        parts.push(Part { shard: None, settings: base.clone(), problems: Vec::new() });
    }
    Ok(parts)
}

fn watch_settings(client: &Client, env: &Env, lists: Lists, kinds: &[Kind]) -> Receiver<Change> {
    let (sink, changes) = channel(WAITING_CHANGES);
    for kind in kinds {
        env.spawn("watch", watch(client.clone(), env.clone(), *kind, lists, sink.clone()));
    }
    changes
}

/// What `Config` and shards ask for.
struct Plan {
    parts: Vec<Part>,
    process: ConfiguredProcess,
    /// What about `Config` makes no sense.
    problems: Vec<String>,
}

async fn plan(client: &Client, installation: &Installation, base: &Settings) -> Plan {
    let Configured { mut settings, process, kind_defaults, mut problems } =
        installation.configured(base);
    let usual = KindDefaults::default();
    let grouper = settings.grouper.as_mut().filter(|grouper| grouper.kind_defaults == usual);
    if let (Some(grouper), Some(place)) = (grouper, kind_defaults) {
        match grouper::kind_defaults(client, &place).await {
            Ok(defaults) => grouper.kind_defaults = defaults,
            Err(why) => problems.push(format!("config map {place}: {why}")),
        }
    }
    Plan { parts: installation.parts(settings), process, problems }
}

/// The planners that lead, by their place in the plan, with the gates that their writes pass.
type Leading = BTreeMap<usize, Gate>;

/// Writes the conditions of `Config` and shards: on a shard where its planner leads, on `Config` where the first one does.
async fn report_settings(
    client: &Client,
    env: &Env,
    installation: &mut Installation,
    plan: &Plan,
    leading: &Leading,
) {
    let schedules = |part: usize| plan.parts.get(part).is_some_and(|part| part.settings.schedules);
    let writer_of = |part: usize| {
        let gate = leading.get(&part).filter(|_| schedules(part))?;
        Some(Writer::new(gate.client(client), env.clone(), Limits::default()))
    };
    if let (Some(config), Some(writer)) = (installation.config(), writer_of(0)) {
        let observed = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let conditions = SettingsConditions { problems: &plan.problems, observed };
        let wanted = conditions.wanted_conditions(config.metadata.generation, env.now());
        let (kind, name) = (Resource::CONFIGS, objects::CONFIG);
        if let Some(written) = write_conditions(&writer, kind, name, &plan.problems, wanted).await {
            installation.note_config_conditions(written);
        }
    }
    for (place, part) in plan.parts.iter().enumerate() {
        let Some(writer) = writer_of(place) else { continue };
        let shard = part.shard.as_ref().and_then(|name| installation.shard(name));
        let (Some(name), Some(shard)) = (&part.shard, shard) else { continue };
        let observed = shard.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let conditions = SettingsConditions { problems: &part.problems, observed };
        let wanted = conditions.wanted_conditions(shard.metadata.generation, env.now());
        let kind = Resource::SCHEDULING_SHARDS;
        if let Some(written) = write_conditions(&writer, kind, name, &part.problems, wanted).await {
            installation.note_shard_conditions(name, written);
        }
    }
}

/// Writes conditions that are news, and returns them once they are written.
async fn write_conditions(
    writer: &Writer,
    resource: Resource,
    name: &str,
    problems: &[String],
    wanted: Option<Vec<Condition>>,
) -> Option<Vec<Condition>> {
    let wanted = wanted?;
    let kind = resource.plural;
    for problem in problems {
        tracing::warn!(kind, name, "{problem}");
    }
    let target = Target::named(resource, &ObjectName::new("", name));
    let patch = Patch::all_conditions(&wanted);
    match writer.write(&Write::Patch(target, patch)).await {
        Ok(()) => {
            tracing::info!(kind, name, "wrote conditions");
            Some(wanted)
        }
        Err(failure) => {
            tracing::warn!(kind, name, %failure, "failed to write conditions");
            None
        }
    }
}

/// The planners of all shards, which run until they are stopped.
struct Planners {
    stops: Vec<oneshot::Sender<()>>,
    /// Closed when the last one has ended.
    done: Receiver<()>,
    questions: Vec<Sender<Question>>,
    /// Which of them began, with this gate, or ceased to lead.
    turns: Receiver<(usize, Option<Gate>)>,
    /// Name of the shard of each planner; none: the only one.
    shards: Vec<Option<Text>>,
    /// Whether changes are kept back: those received after a change of settings are planned under the new settings.
    is_held_back: HoldSender<bool>,
}

impl Planners {
    fn start(client: &Client, env: &Env, elections: &lease::Access, parts: Vec<Part>) -> Self {
        let lists = parts.first().map(|part| part.settings.lists).unwrap_or_default();
        let changes = start_watches(client, env, lists);
        let shards = parts.iter().map(|part| part.shard.clone()).collect();
        let (done_sink, done) = channel(1);
        let (turn_sink, turns) = channel(WAITING_CHANGES);
        let is_only = parts.len() == 1;
        let (mut stops, mut question_sinks, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
        for (place, part) in parts.into_iter().enumerate() {
            let (sink, changes) = channel(WAITING_CHANGES);
            let (question_sink, questions) = channel(WAITING_CHANGES);
            let (stop, stopped) = oneshot::channel::<()>();
            sinks.push(sink);
            question_sinks.push(question_sink);
            stops.push(stop);
            let (client, own_env, done) = (client.clone(), env.clone(), done_sink.clone());
            let turns = turn_sink.clone();
            let leads = Box::new(move |gate: Option<Gate>| {
                if turns.try_send((place, gate)).is_err() {
                    tracing::warn!(
                        "too many leadership changes in flight, dropping a status update of the settings"
                    );
                }
            });
            let elections = elections.clone();
            let inputs = PlannerInputs { changes, questions, elections, leads };
            let planner = async move {
                let stopped = async {
                    let _ = stopped.await;
                };
                run_planner(client, own_env, part.settings, inputs, stopped).await;
                drop(done);
            };
            // One alone costs a quarter less CPU time on the thread of its watches and writes. Several would delay each other there.
            if is_only {
                env.spawn("planner", planner);
            } else {
                env.spawn_computing("planner", planner);
            }
        }
        let (is_held_back, hold) = hold_channel(false);
        env.spawn("changes", send_to_all(changes, sinks, hold));
        Self { stops, done, questions: question_sinks, turns, shards, is_held_back }
    }

    /// Keeps changes back from the planners, or lets them through again.
    fn hold(&self, is_held_back: bool) {
        self.is_held_back.send_replace(is_held_back);
    }

    /// Ends all of them, each when what it has under way is done.
    async fn stop(mut self) {
        drop(self.stops);
        while self.done.recv().await.is_some() {}
    }

    /// Asks all of them and answers as one.
    fn ask(&self, env: &Env, question: Question) {
        let (planners, shards) = (self.questions.clone(), self.shards.clone());
        env.spawn("question", async move {
            match question {
                Question::Ready(answer) => {
                    let answers = ask_all(&planners, Question::Ready).await;
                    let ready =
                        answers.len() == planners.len() && answers.into_iter().all(|ready| ready);
                    let _ = answer.send(ready);
                }
                Question::Metrics(answer) => {
                    let pages = ask_all(&planners, Question::Metrics).await;
                    let _ = answer.send(merged(&pages));
                }
                Question::Frame(shard, answer) => {
                    let one = one_of(&planners, &shards, shard.as_deref());
                    let answers = ask_all(&one, |answer| Question::Frame(None, answer)).await;
                    let _ = answer.send(answers.into_iter().flatten().next());
                }
                Question::Check(answer) => {
                    let found = ask_all(&planners, Question::Check).await;
                    let _ = answer.send(found.into_iter().flatten().collect());
                }
                Question::JobOrder(shard, answer) => {
                    let one = one_of(&planners, &shards, shard.as_deref());
                    let answers = ask_all(&one, |answer| Question::JobOrder(None, answer)).await;
                    let _ = answer.send(answers.into_iter().flatten().next());
                }
            }
        });
    }
}

/// The planner of a shard; the first where none is named.
fn one_of(
    planners: &[Sender<Question>],
    shards: &[Option<Text>],
    wanted: Option<&str>,
) -> Vec<Sender<Question>> {
    let mut all = planners.iter().zip(shards);
    let found = match wanted {
        Some(_) => all.find(|(_, shard)| shard.as_deref() == wanted),
        None => all.next(),
    };
    found.map(|(planner, _)| planner.clone()).into_iter().collect()
}

async fn ask_all<T>(
    planners: &[Sender<Question>],
    question: impl Fn(oneshot::Sender<T>) -> Question,
) -> Vec<T> {
    let mut answers = Vec::new();
    for planner in planners {
        let (sink, answer) = oneshot::channel();
        if planner.send(question(sink)).await.is_ok() {
            answers.extend(answer.await.ok());
        }
    }
    answers
}

/// Sends every change to every planner, for as long as they listen and changes are not kept back.
async fn send_to_all(
    mut changes: Receiver<Change>,
    planners: Vec<Sender<Change>>,
    mut hold: HoldReceiver<bool>,
) {
    let Some((first, others)) = planners.split_first() else { return };
    loop {
        let change = tokio::select! { biased;
            () = first.closed() => return,
            change = changes.recv() => change,
        };
        let Some(change) = change else { return };
        tokio::select! { biased;
            () = first.closed() => return,
            let_through = hold.wait_for(|is_held_back| !is_held_back) => if let_through.is_err() { return },
        }
        for planner in others {
            if planner.send(change.clone()).await.is_err() {
                return;
            }
        }
        // Most clusters have one planner: its changes are not copied.
        if first.send(change).await.is_err() {
            return;
        }
    }
}
