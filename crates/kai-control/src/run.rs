//! The loop that holds it together: changes in, plans out.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kai_api::BindRequest;
use kai_api::function::Function;
use kai_binder::LocalId;
use kai_binder::driver::{BinderReport, Driver};
use kai_client::env::Env;
use kai_client::kinds::Kind;
use kai_client::lease;
use kai_client::lease::{Gate, Gates, Turn};
use kai_client::watch::{Change, Lists, watch};
use kai_client::write::{Limits, Writer};
use kai_core::input::ObjectName;
use kai_core::time::{Span, Timestamp};
use kai_settings::binder::BinderSettings;
use kai_settings::planner::Settings;
use kai_settings::usage::Source;
use kai_translate::trust::PodTrust;
use kai_translate::view;
use kube::Client;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::grouper::Grouper;
use crate::orders::{Order, Report, carry_out};
use crate::panics::{self, Address, Quarantine, Site};
use crate::plan_window::PlanWindow;
use crate::planner::Planner;
use crate::scale_adjuster::driver::{Driver as ScaleDriver, ScaleReport};
use crate::serve::Question;
use crate::snapshot::Frame;
use crate::usage::store::Place;
use crate::usage::{self, store};

pub(crate) const WAITING_CHANGES: usize = 4096;
/// How long writes that are under way are waited for at the end.
const LAST_WRITES: Span = Span { nanos: 5_000_000_000 };

/// What connects a run with its cluster and with those that ask it.
pub struct Connections {
    /// Connections to the API server.
    pub client: Client,
    /// Time, and where everything runs.
    pub env: Env,
    /// The same for elections.
    pub elections: lease::Access,
    /// Questions to the planners.
    pub questions: Receiver<Question>,
}

impl Connections {
    /// Elections run beside everything else.
    pub fn new(client: Client, env: Env, questions: Receiver<Question>) -> Self {
        let elections = lease::Access { client: client.clone(), env: env.clone() };
        Self { client, env, elections, questions }
    }
}

/// Runs until `shutdown` is done. Questions are answered between two changes.
pub async fn run(
    connections: Connections,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) {
    let Connections { client, env, elections, questions } = connections;
    let changes = start_watches(&client, &env, settings.lists);
    let inputs = PlannerInputs { changes, questions, elections, leads: Box::new(|_| {}) };
    run_planner(client, env, settings, inputs, shutdown).await;
}

/// What goes into a planner, and the callback for its leadership.
pub(crate) struct PlannerInputs {
    pub(crate) changes: Receiver<Change>,
    pub(crate) questions: Receiver<Question>,
    pub(crate) elections: lease::Access,
    /// Called whenever it begins (with the gate that its writes pass) or ceases to lead.
    pub(crate) leads: Box<dyn Fn(Option<Gate>) + Send + Sync>,
}

/// Starts to watch everything.
pub(crate) fn start_watches(client: &Client, env: &Env, lists: Lists) -> Receiver<Change> {
    let (change_sink, changes) = channel(WAITING_CHANGES);
    for kind in Kind::ALL {
        let sink = change_sink.clone();
        env.spawn("watch", watch(client.clone(), env.clone(), kind, lists, sink));
    }
    changes
}

/// One planner, fed by changes.
pub(crate) async fn run_planner(
    client: Client,
    env: Env,
    settings: Settings,
    inputs: PlannerInputs,
    shutdown: impl Future<Output = ()> + Send,
) {
    let PlannerInputs { changes, questions, elections, leads } = inputs;
    let (gates, turns) = elect(&elections, &settings);
    if turns.is_none() {
        leads(Some(gates.of_process().clone()));
    }
    let first = settings.functions.first().copied();
    let leadership = Leadership { first, gate: gates.of_process().clone(), leads };
    let resignation = settings.election.clone().map(|election| (election, leases(&settings)));
    let (limits, led) = (Limits::default(), BTreeMap::new());
    let mut crew = Crew { client, env, settings, gates, limits, leadership, led };
    let mut inputs = Inputs { changes, turns, questions };
    let mut quarantine = Quarantine::default();
    let mut shutdown = std::pin::pin!(shutdown);
    // Each round has a planner of its own, which knows nothing of the one before.
    loop {
        let (mut runner, reports) = crew.new_runner(quarantine.panics);
        let round = runner.run(&mut crew, &mut inputs, reports, &mut quarantine, shutdown.as_mut());
        let Some(incident) = Box::pin(round).await else {
            // Before the world is freed, which takes its time in a large cluster.
            if let Some((election, leases)) = resignation {
                lease::release(&crew.client, &crew.env, &election, &leases).await;
            }
            return;
        };
        drop(runner);
        crew.recover(&mut quarantine, incident);
        inputs.changes = start_watches(&crew.client, &crew.env, crew.settings.lists);
    }
}

/// Answers questions where no function follows the cluster: such a process is always ready.
pub async fn answer_until(
    mut questions: Receiver<Question>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! { biased;
            () = &mut shutdown => return,
            Some(question) = questions.recv() => match question {
                Question::Ready(answer) => drop(answer.send(true)),
                Question::Metrics(answer) => drop(answer.send(String::new())),
                Question::Frame(_, answer) => drop(answer.send(Some(Frame::default()))),
                Question::JobOrder(_, answer) => drop(answer.send(None)),
                Question::Check(answer) => drop(answer.send(Vec::new())),
            },
        }
    }
}

/// The leases of our functions.
fn leases(settings: &Settings) -> Vec<(Function, String)> {
    let scheduler = &settings.rules.scheduler_name;
    let lease = |function: Function| function.lease(scheduler, settings.partition.name());
    settings.functions.iter().map(|function| (*function, lease(*function))).collect()
}

/// Starts elections, where there are any.
fn elect(access: &lease::Access, settings: &Settings) -> (Gates, Option<Receiver<Turn>>) {
    let Some(election) = &settings.election else { return (Gates::open(&access.env), None) };
    let (turn_sink, turns) = channel(WAITING_CHANGES);
    (lease::start(access, election, &leases(settings), &turn_sink), Some(turns))
}

/// Starts to learn of past usage, where it counts; until when plans wait for it.
pub(crate) fn start_usage(
    client: &Client,
    env: &Env,
    settings: &Settings,
    reports: &Sender<Report>,
) -> Option<Timestamp> {
    let usage = settings.usage.clone().filter(|_| settings.schedules)?;
    let reports = reports.clone();
    match usage.source.clone() {
        Source::Prometheus(prometheus) => {
            let until = env.now().plus(usage.wait);
            env.spawn("usage", usage::follow(env.clone(), prometheus, usage, reports));
            Some(until)
        }
        Source::Recorder => {
            let load = store::load(client.clone(), env.clone(), Place::of(settings), reports);
            env.spawn("usage", load);
            None
        }
    }
}

/// What the loop listens to, whichever planner turns it.
struct Inputs {
    changes: Receiver<Change>,
    turns: Option<Receiver<Turn>>,
    questions: Receiver<Question>,
}

/// What one planner and its helpers report.
struct Reports {
    planner: Receiver<Report>,
    binder: Receiver<BinderReport>,
    scale_adjuster: Receiver<ScaleReport>,
}

/// Something that the loop has to act on.
enum Event {
    Turn(Turn),
    Question(Question),
    Report(Report),
    BinderReport(BinderReport),
    ScaleReport(ScaleReport),
    Change(Change),
    Deadline,
}

/// A panic, and the object that was being handled.
struct Incident {
    site: Site,
    object: Option<Address>,
}

/// What outlives a planner that panicked.
struct Crew {
    client: Client,
    env: Env,
    settings: Settings,
    gates: Gates,
    /// Writes under way, of every round.
    limits: Limits,
    leadership: Leadership,
    /// The latest turn of each function.
    led: BTreeMap<Function, Turn>,
}

impl Crew {
    /// Writes that pass a gate.
    fn writer(&self, gate: &Gate) -> Writer {
        Writer::new(gate.client(&self.client), self.env.clone(), self.limits.clone())
    }

    /// Writes of one function.
    fn writer_of(&self, function: Function) -> Writer {
        self.writer(self.gates.of(function)).named(function)
    }

    /// A planner that knows nothing yet, and its helpers.
    fn new_runner(&self, panics: u64) -> (Box<Runner>, Reports) {
        let Self { client, env, settings, gates, .. } = self;
        let (report_sink, reports) = channel(WAITING_CHANGES);
        let grouper = settings.grouper.clone().map(|config| {
            let writer = self.writer_of(Function::PodGrouper);
            Grouper::new(writer, env.clone(), config, gates.of(Function::PodGrouper))
        });
        let (binder_sink, binder_reports) = channel(WAITING_CHANGES);
        let leads = settings.election.is_none();
        let signer = settings.placement_signer();
        let binder = settings.binder.clone().map(|config| {
            let config = BinderSettings { signer, ..config };
            let writer = self.writer_of(Function::Binder);
            Driver::new(writer, env.clone(), config, leads, settings.lists, binder_sink)
        });
        let (scale_sink, scale_reports) = channel(WAITING_CHANGES);
        let scales = settings.functions.contains(&Function::NodeScaleAdjuster);
        let scale_adjuster = scales.then(|| {
            let writer = self.writer_of(Function::NodeScaleAdjuster);
            let config = settings.scale_adjuster.clone();
            ScaleDriver::new(writer, env.clone(), config, leads, scale_sink)
        });
        let hold_until = start_usage(client, env, settings, &report_sink);
        let mut planner = Planner::new(settings.clone());
        planner.note_panics(panics);
        let mut runner = Box::new(Runner {
            writer: self.writer_of(Function::Scheduler),
            status_writer: self.writer(gates.of_process()),
            limits: self.limits.clone(),
            env: env.clone(),
            trust: PodTrust::new(settings.trust.clone(), &settings.rules),
            planner,
            grouper,
            binder,
            scale_adjuster,
            reports: report_sink,
            window: PlanWindow::default(),
            hold_until,
            handled: None,
        });
        for turn in self.led.values().copied() {
            runner.take_turn(turn);
        }
        let reports =
            Reports { planner: reports, binder: binder_reports, scale_adjuster: scale_reports };
        (runner, reports)
    }

    /// Remembers a panic and records an event; the same panic again ends the process.
    fn recover(&self, quarantine: &mut Quarantine, incident: Incident) {
        let Incident { site, object } = incident;
        let name = object.as_ref().map(|(kind, name)| format!("{} {name}", kind.name()));
        tracing::error!(place = site.place, message = ?site.message, object = ?name, "the planner panicked, listing everything anew");
        quarantine.record_or_abort(&site, object.as_ref());
        if let Some(address) = object {
            let writer = self.writer(self.gates.of_process());
            self.env.spawn("event", panics::report(writer, address, site, self.env.now()));
        }
    }

    fn take_turn(&mut self, turn: Turn) {
        self.leadership.take_turn(turn);
        self.led.insert(turn.function, turn);
    }
}

/// Whether the process leads: its first function is elected before all others.
struct Leadership {
    first: Option<Function>,
    gate: Gate,
    leads: Box<dyn Fn(Option<Gate>) + Send + Sync>,
}

impl Leadership {
    fn take_turn(&self, turn: Turn) {
        if self.first == Some(turn.function) {
            (self.leads)(turn.leads.then(|| self.gate.clone()));
        }
    }
}

struct Runner {
    /// Writes what plans order.
    writer: Writer,
    /// Writes statuses and events.
    status_writer: Writer,
    limits: Limits,
    env: Env,
    /// Every pod passes here first.
    trust: PodTrust,
    planner: Planner,
    grouper: Option<Arc<Grouper>>,
    binder: Option<Driver>,
    scale_adjuster: Option<ScaleDriver>,
    reports: Sender<Report>,
    window: PlanWindow,
    /// Plans wait for past usage, at most until then.
    hold_until: Option<Timestamp>,
    /// The object whose change is being applied.
    handled: Option<Address>,
}

impl Runner {
    /// Turns until the process is to end, or something panicked.
    async fn run(
        &mut self,
        crew: &mut Crew,
        inputs: &mut Inputs,
        mut reports: Reports,
        quarantine: &mut Quarantine,
        mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Option<Incident> {
        loop {
            let deadline = self.next_moment();
            let event = tokio::select! { biased;
                () = &mut shutdown => {
                    self.finish().await;
                    return None;
                }
                turn = lease::next_turn(&mut inputs.turns) => {
                    crew.take_turn(turn);
                    Event::Turn(turn)
                }
                Some(question) = inputs.questions.recv() => Event::Question(question),
                Some(report) = reports.planner.recv() => Event::Report(report),
                Some(report) = reports.binder.recv() => Event::BinderReport(report),
                Some(report) = reports.scale_adjuster.recv() => Event::ScaleReport(report),
                change = inputs.changes.recv() => Event::Change(change?),
                () = self.env.sleep_until(deadline) => Event::Deadline,
            };
            let turned = panics::guarded(|| {
                self.turn(event, &mut inputs.changes, &mut reports.planner, quarantine);
            });
            if let Err(site) = turned {
                let object = self.handled.take().or_else(|| self.planner.attempted_object());
                self.finish_writes().await;
                return Some(Incident { site, object });
            }
        }
    }

    /// One turn: what happened, then what is due.
    fn turn(
        &mut self,
        event: Event,
        changes: &mut Receiver<Change>,
        reports: &mut Receiver<Report>,
        quarantine: &mut Quarantine,
    ) {
        match event {
            Event::Turn(turn) => self.take_turn(turn),
            Event::Question(question) => self.planner.answer(question, self.binder.as_ref()),
            Event::Report(report) => self.settle(report),
            Event::BinderReport(report) => {
                if let Some(binder) = &mut self.binder {
                    binder.settle(report);
                }
            }
            Event::ScaleReport(report) => {
                if let Some(adjuster) = &mut self.scale_adjuster {
                    adjuster.settle(report);
                }
            }
            Event::Change(change) => self.apply(change, quarantine),
            Event::Deadline => {}
        }
        while let Ok(change) = changes.try_recv() {
            self.apply(change, quarantine);
        }
        while let Ok(report) = reports.try_recv() {
            self.settle(report);
        }
        self.planner.evaluate_selectors();
        self.step_binder();
        if let Some(adjuster) = &mut self.scale_adjuster {
            adjuster.step();
        }
        self.planner.record_usage(self.env.now());
        self.send_orders();
        self.plan_if_due();
        self.planner.check_if_due(self.env.now());
        self.write_statuses();
    }

    /// When something is due although nothing happens.
    fn next_moment(&self) -> Option<Timestamp> {
        let planned = [self.window.end(), self.planner.wake_at()].into_iter().flatten().min();
        let planned = planned.max(self.hold_until.filter(|_| planned.is_some()));
        let binder = self.binder.as_ref().and_then(Driver::wake_at);
        let scale = self.scale_adjuster.as_ref().and_then(ScaleDriver::wake_at);
        let planner = &self.planner;
        let selectors = planner.has_selectors_waiting().then(|| self.env.now());
        let others = [
            planner.status_at(),
            planner.record_at(),
            planner.evict_at(),
            binder,
            scale,
            selectors,
            planner.check_at(),
        ];
        others.into_iter().chain([planned]).flatten().min()
    }

    /// Binds go on; how they ended is reported with everything else.
    fn step_binder(&mut self) {
        let Some(binder) = &mut self.binder else { return };
        binder.step();
        for ended in binder.take_ended() {
            self.planner.note_ended_bind(&ended, self.env.now());
        }
    }

    fn settle(&mut self, report: Report) {
        if matches!(report, Report::Usage { .. }) {
            self.hold_until = None;
        }
        self.planner.settle(report, self.env.now());
    }

    /// Waits for writes that are under way: who comes next must see what came of them.
    async fn finish(&mut self) {
        if let Some(order) = self.planner.last_record() {
            let last = carry_out(self.writer.clone(), order, self.reports.clone());
            tokio::select! { biased;
                () = last => {}
                () = self.env.sleep(LAST_WRITES) => {}
            }
        }
        self.finish_writes().await;
    }

    async fn finish_writes(&self) {
        tokio::select! { biased;
            () = self.limits.idle() => {}
            () = self.env.sleep(LAST_WRITES) => {}
        }
    }

    fn take_turn(&mut self, turn: Turn) {
        if let (Function::Binder, Some(binder)) = (turn.function, &mut self.binder) {
            binder.set_leading(turn.leads);
        }
        if let (Function::NodeScaleAdjuster, Some(adjuster)) =
            (turn.function, &mut self.scale_adjuster)
        {
            adjuster.set_leading(turn.leads);
        }
        self.planner.take_turn(turn, self.env.now());
    }

    fn apply(&mut self, change: Change, quarantine: &mut Quarantine) {
        if quarantine.skips(&change) {
            return;
        }
        self.handled = panics::address(&change);
        panics::trip(&change);
        let rejudged = match change {
            Change::Pod(pod) => self.trust.set_pod(*pod),
            other => {
                let rejudged = self.rejudge(&other);
                self.apply_believed(other);
                rejudged
            }
        };
        for pod in rejudged {
            self.apply_believed(Change::Pod(Box::new(pod)));
        }
        self.handled = None;
    }

    /// Pods of which something else is believed after the change.
    fn rejudge(&mut self, change: &Change) -> Vec<view::Pod> {
        match change {
            Change::Node(node) => self.trust.set_node(node),
            Change::Gone(Kind::Pod, name) => self.trust.remove_pod(name),
            Change::Gone(Kind::Node, name) => {
                self.trust.remove_node(&name.name);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn apply_believed(&mut self, change: Change) {
        if let Some(binder) = &mut self.binder {
            binder.apply(&change);
        }
        if let Some(adjuster) = &mut self.scale_adjuster {
            adjuster.apply(&change);
        }
        self.planner.apply(change, self.env.now());
    }

    fn open_window(&mut self) {
        if self.planner.is_dirty() {
            self.window.open(self.env.now());
        }
    }

    fn plan_if_due(&mut self) {
        let now = self.env.now();
        self.open_window();
        let due = [self.window.end(), self.planner.wake_at()].into_iter().flatten().min();
        let is_held_back = self.hold_until.is_some_and(|until| now < until);
        if !is_held_back && due.is_some_and(|due| due <= now) {
            self.hold_until = None;
            let clock = panics::cycle_clock(self.env.clone(), &self.planner);
            self.planner.cycle(now, &clock);
            let end = self.env.now();
            self.window.close(now, end);
            self.planner.note_cycle_time(end.since(now));
            self.send_orders();
            self.step_binder(); // it may have been handed binds, and may reject some at once
            self.open_window();
        }
    }

    /// Writes statuses and events, beside the orders and not in their way.
    fn write_statuses(&mut self) {
        for write in self.planner.take_status_writes(self.env.now()) {
            let (writer, reports) = (self.status_writer.clone(), self.reports.clone());
            self.env.spawn("status", async move {
                let _ = reports.send(Report::StatusWritten(write.carry_out(writer).await)).await;
            });
        }
    }

    fn send_orders(&mut self) {
        self.planner.order_evictions(self.env.now());
        for order in self.planner.take_orders() {
            let reports = self.reports.clone();
            match (order, self.grouper.clone()) {
                (Order::Group(pod), Some(grouper)) => {
                    let classes = self.planner.class_names();
                    self.env.spawn("group", async move {
                        if let Some(grouped) = grouper.group(*pod, classes, &reports).await {
                            let _ = reports.send(Report::Grouped(Box::new(grouped))).await;
                        }
                    });
                }
                (Order::Publish(pod, plan), Some(grouper)) => {
                    self.env.spawn("publish", async move {
                        grouper.publish(*pod, *plan).await;
                    });
                }
                (Order::HandOverBind(pod, id, request), _) => self.hand_over(pod, id, *request),
                (Order::WithdrawBind(pod, id), _) => {
                    if let Some(binder) = &mut self.binder {
                        binder.withdraw_bind(&pod, id);
                    }
                }
                (order, _) => {
                    self.env.spawn("write", carry_out(self.writer.clone(), order, reports));
                }
            }
        }
    }

    /// The binder of this process carries the request out; no object asks for it.
    fn hand_over(&mut self, pod: ObjectName, id: LocalId, request: BindRequest) {
        if let Some(binder) = &mut self.binder {
            binder.request_bind(pod.clone(), id, request);
            self.planner.settle(Report::BindRequested(pod), self.env.now());
        }
    }
}
