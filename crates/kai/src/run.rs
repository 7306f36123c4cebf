//! `kai run`: schedules a cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_api::function::Function;
use kai_client::env::Env;
use kai_client::lease::{self, Election};
use kai_client::request::EvictBy;
use kai_client::watch::Lists;
use kai_client::{client, device_api};
use kai_control::bootstrap::{self, Bootstrap};
use kai_control::run::Connections;
use kai_control::serve::{self, Question, RequestMetrics, ServeSettings};
use kai_control::{grouper, run, shards};
use kai_settings::admission::AdmissionSettings;
use kai_settings::config::{ConfiguredAdmission, ConfiguredProcess};
use kai_settings::flags;
use kai_settings::flags::Flagged;
use kai_settings::planner::{BindRequests, PUBLISH_AFTER, Publish, Settings};
use kai_settings::status::{Duties, Events};
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use crate::admission_flags::AdmissionFlags;
use crate::binder_flags::BinderArguments;
use crate::controller_flags::ControllerFlags;
use crate::grouper_flags::GrouperArguments;
use crate::guard_flags::GuardFlags;
use crate::log::Log;
use crate::metrics_flags::MetricsFlags;
use crate::scaling_flags::ScalingArguments;
use crate::scheduler_flags::{self, PARTITION_FLAG, SchedulerFlags};
use crate::threads::Threads;
use crate::trust_flags::TrustArguments;

const EXAMPLES: &str = "\
Examples:
  kai run                                     inside a cluster, the default functions in one process
  kai run --kubeconfig ~/.kube/config         from outside
  kai run --only scheduler                    one function alone";

/// Which cluster, and what to do there.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Functions to run, comma separated [default: all but admission and node-scale-adjuster].
    #[arg(long, value_parser = function, value_delimiter = ',', value_name = "FUNCTION")]
    only: Vec<Function>,

    /// Which pods get a PodGroup object: needed, members of gangs and pods that stay pending; always, all pods.
    #[arg(long, value_enum, default_value = "needed", value_name = "WHEN")]
    pod_groups: PodGroups,

    /// Which pods are bound through a BindRequest: needed, pods whose binding takes several steps in another process; always, all pods, as in KAI.
    #[arg(long, value_enum, default_value = "needed", value_name = "WHEN")]
    bind_requests: BindRequestsMade,

    /// Which events are recorded: needed, failures and evictions; all, successes too.
    #[arg(long, value_enum, default_value = "needed", value_name = "EVENTS")]
    events: EventsWritten,

    /// How victims are evicted: api, through the eviction API; delete, by deletion, which ignores disruption budgets.
    #[arg(long, value_enum, default_value = "api", value_name = "METHOD")]
    eviction: Eviction,

    /// Limit of evictions per second; the pods of a gang are evicted together; 0 means no limit
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    evictions_per_second: u32,

    /// Read the initial state as a streaming list where the API server supports it; otherwise in pages.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, value_name = "BOOL", action = clap::ArgAction::Set, env = "KAI_WATCH_LIST")]
    watch_list: bool,

    /// Image of this process; reservation and scaling pods use it unless their own image is set.
    #[arg(long, env = kai_api::names::env::IMAGE, value_name = "IMAGE")]
    image: Option<String>,

    /// Apply the custom resource definitions of this version at the start, unless a roll-out replaces this process
    #[arg(long)]
    upgrade_crds: bool,

    /// YAML file with queues to create at the start where they are missing
    #[arg(long, value_name = "FILE")]
    default_queues: Option<PathBuf>,

    /// Address of the liveness and readiness probes; 0 disables them.
    #[arg(long, default_value = ":8081", value_parser = probe_address, value_name = "ADDRESS")]
    health_probe_bind_address: Probes,

    #[command(flatten)]
    binder: BinderArguments,

    #[command(flatten)]
    scaling: ScalingArguments,

    #[command(flatten)]
    grouper: GrouperArguments,

    #[command(flatten)]
    trust: TrustArguments,

    #[command(flatten)]
    admission: AdmissionFlags,

    #[command(flatten)]
    guard: GuardFlags,

    #[command(flatten)]
    metrics: MetricsFlags,

    #[command(flatten)]
    controllers: ControllerFlags,

    #[command(flatten)]
    scheduler: SchedulerFlags,
}

#[derive(Clone, Copy)]
struct Probes(Option<SocketAddr>);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BindRequestsMade {
    Needed,
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PodGroups {
    Needed,
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Eviction {
    Api,
    Delete,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EventsWritten {
    Needed,
    All,
}

/// Runs until a signal arrives; returns the exit status.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<u8> {
    let (mut flagged, mut notices) = arguments.scheduler.read()?;
    let listens = arguments.scheduler.names("listen-address");
    notices.extend(arguments.controllers.apply(&mut flagged, listens)?);
    let log = Log::start(flagged.verbosity, flagged.log_json);
    if flagged.log_version {
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "kai");
    }
    for notice in notices {
        tracing::warn!("{notice}");
    }
    let threads = Threads::start()?;
    let (elections, listening) = (threads.elections(), threads.listening());
    threads.run(start(arguments, flagged, log, &elections, listening))
}

/// A client whose connections a runtime serves.
async fn connect(arguments: &RunArguments, runtime: &Handle) -> anyhow::Result<Client> {
    let kubeconfig = arguments.kubeconfig.clone();
    let client = runtime.spawn(async move { client::connect(kubeconfig.as_deref()).await });
    Ok(client.await??)
}

/// The same for requests about devices.
async fn connect_to_devices(arguments: &RunArguments, runtime: &Handle) -> anyhow::Result<Client> {
    let client = connect(arguments, runtime).await?;
    Ok(runtime.spawn(device_api::adapted(client)).await?)
}

async fn start(
    arguments: &RunArguments,
    flagged: Flagged,
    log: Log,
    elections: &Handle,
    listening: Handle,
) -> anyhow::Result<u8> {
    let log = Arc::new(log);
    let (client, env) =
        (connect_to_devices(arguments, &Handle::current()).await?, Env::of_process());
    let listeners =
        Listeners { client: connect_to_devices(arguments, &listening).await?, runtime: listening };
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for signals")?;
    let shutdown = async move {
        tokio::select! { biased;
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let served = ServeSettings {
        metrics: flagged.listen,
        readers: arguments.metrics.readers(&listeners.client, &env, &flagged.namespace).await?,
        probes: arguments.health_probe_bind_address.0,
        local_port: flagged.plugin_port,
        set_verbosity: Some(Arc::new({
            let log = Arc::clone(&log);
            move |level| log.set_verbosity(level)
        })),
        requests: Arc::new(RequestMetrics::new(&flagged.settings.metrics.namespace)),
    };
    let requests = Arc::clone(&served.requests);
    let bootstrap = bootstrap(arguments, &flagged)?;
    env.spawn("bootstrap", bootstrap::run(client.clone(), env.clone(), bootstrap));
    let (question_sink, questions) = serve::questions();
    listeners.serve(&env, served, question_sink).await?;
    let divided = is_divided(arguments);
    let environment = Environment { arguments, flagged: flagged.clone(), log, requests };
    let process = if divided {
        shards::configured_process(&client, &flagged.settings).await
    } else {
        ConfiguredProcess::default()
    };
    let admission = environment.start_admission(&listeners, &env, &process).await?;
    let apply = |process: &ConfiguredProcess| environment.apply(admission.as_ref(), process);
    let mut settings = settings(arguments, flagged)?;
    arguments.trust.load_key(&client, &env, &mut settings).await;
    read_kind_defaults(&client, arguments, &mut settings).await;
    let elections = lease::Access {
        client: connect(arguments, elections).await?,
        env: env.on(elections.clone()),
    };
    let connections = Connections { client, env, elections, questions };
    follow(settings, divided, connections, apply, shutdown).await;
    Ok(0)
}

/// What this version brings to the cluster.
fn bootstrap(arguments: &RunArguments, flagged: &Flagged) -> anyhow::Result<Bootstrap> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        bootstrap::read_queues(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
    };
    let queues = arguments.default_queues.as_ref().map(read).transpose()?.unwrap_or_default();
    Ok(Bootstrap {
        upgrade_crds: arguments.upgrade_crds,
        namespace: flagged.namespace.clone(),
        image: arguments.image.clone().filter(|image| !image.is_empty()),
        queues,
    })
}

/// Takes over the defaults per kind that the command line points to.
async fn read_kind_defaults(client: &Client, arguments: &RunArguments, settings: &mut Settings) {
    let Some(place) = arguments.grouper.kind_defaults() else { return };
    let Some(config) = &mut settings.grouper else { return };
    match grouper::kind_defaults(client, &place).await {
        Ok(defaults) => config.kind_defaults = defaults,
        Err(why) => tracing::warn!(%place, why, "no defaults per kind"),
    }
}

/// Settings of admission, for callers that start it otherwise.
pub(crate) fn admission_of(arguments: &RunArguments) -> anyhow::Result<Option<AdmissionSettings>> {
    let (flagged, _) = arguments.scheduler.read()?;
    let is_requested = arguments.only.contains(&Function::Admission);
    Ok(arguments.admission.settings(is_requested, &flagged, &ConfiguredAdmission::default()))
}

/// Runs the functions of the settings until `shutdown` completes. If the process has one node pool only (not `divided`),
/// neither shards nor `Config` are read.
async fn follow(
    settings: Settings,
    divided: bool,
    connections: Connections,
    apply: impl Fn(&ConfiguredProcess) + Send + Sync,
    shutdown: impl Future<Output = ()> + Send,
) {
    if settings.functions.is_empty() {
        let Connections { client, env, questions, .. } = connections;
        let config =
            Box::pin(shards::follow_config(client, env, settings, apply, std::future::pending()));
        tokio::select! { biased;
            () = run::answer_until(questions, shutdown) => {}
            () = config => {}
        }
    } else if divided {
        Box::pin(shards::run(connections, settings, apply, shutdown)).await;
    } else {
        Box::pin(run::run(connections, settings, shutdown)).await;
    }
}

/// Starts the same in this process, without listeners, for as long as `env` carries it.
pub(crate) fn start_beside(
    arguments: RunArguments,
    client: Client,
    env: &Env,
) -> anyhow::Result<()> {
    let (flagged, _) = arguments.scheduler.read()?;
    let mut settings = settings(&arguments, flagged)?;
    arguments.trust.use_embedded_key(&mut settings);
    let inner = env.clone();
    env.spawn("kai", async move {
        let (_no_questions, questions) = serve::questions();
        let connections = Connections::new(client, inner, questions);
        follow(settings, is_divided(&arguments), connections, |_| {}, std::future::pending()).await;
    });
    Ok(())
}

/// The cluster may be divided into shards.
fn is_divided(arguments: &RunArguments) -> bool {
    !arguments.scheduler.names(PARTITION_FLAG)
}

/// Where the listeners of the process run, and the connections that they use.
struct Listeners {
    runtime: Handle,
    client: Client,
}

impl Listeners {
    /// Starts what answers questions of people and of Prometheus.
    async fn serve(
        &self,
        env: &Env,
        served: ServeSettings,
        questions: Sender<Question>,
    ) -> anyhow::Result<()> {
        let (client, env) = (self.client.clone(), env.clone());
        let started = self
            .runtime
            .spawn(async move { serve::start(&client, &env, &served, questions).await });
        started.await?.map(drop).context(
            "an address is in use or not ours; another address, or 0 to disable the listener, helps",
        )
    }

    /// Starts the webhooks, whose settings may change.
    async fn admit(
        &self,
        env: &Env,
        changing: watch::Receiver<AdmissionSettings>,
        requests: &Arc<RequestMetrics>,
    ) -> anyhow::Result<()> {
        let keys = Arc::new(kai_admission::certificates::SystemKeys);
        let (client, env, requests) = (self.client.clone(), env.clone(), Arc::clone(requests));
        let started = self.runtime.spawn(async move {
            kai_admission::server::start(client, env, keys, changing, &requests).await
        });
        Ok(started.await??)
    }
}

/// Parts of the process beside the planner and the served questions: admission and the log.
struct Environment<'a> {
    arguments: &'a RunArguments,
    flagged: Flagged,
    log: Arc<Log>,
    /// Requests to every server of this process.
    requests: Arc<RequestMetrics>,
}

impl Environment<'_> {
    fn admission(&self, process: &ConfiguredProcess) -> Option<AdmissionSettings> {
        let is_requested = self.arguments.only.contains(&Function::Admission);
        let configured = ConfiguredAdmission {
            hami_core: self.arguments.binder.hami_core().or(process.admission.hami_core),
            ..process.admission.clone()
        };
        let mut settings =
            self.arguments.admission.settings(is_requested, &self.flagged, &configured)?;
        let own_image = self.arguments.image.as_deref().filter(|image| !image.is_empty());
        settings.pods.guard = self.arguments.guard.rules(configured.enforcement, own_image);
        Some(settings)
    }

    /// Starts admission where it runs here; where its settings are changed.
    async fn start_admission(
        &self,
        listeners: &Listeners,
        env: &Env,
        process: &ConfiguredProcess,
    ) -> anyhow::Result<Option<watch::Sender<AdmissionSettings>>> {
        let Some(settings) = self.admission(process) else { return Ok(None) };
        let (sink, changing) = watch::channel(settings);
        listeners.admit(env, changing, &self.requests).await?;
        Ok(Some(sink))
    }

    /// Applies `Config` where no flag overrides it.
    fn apply(
        &self,
        admission: Option<&watch::Sender<AdmissionSettings>>,
        process: &ConfiguredProcess,
    ) {
        if !self.arguments.scheduler.names("log-json")
            && let Err(error) = self.log.set_json(process.json_log.unwrap_or(false))
        {
            tracing::warn!(error, "the form of the log stays");
        }
        if let (Some(sink), Some(wanted)) = (admission, self.admission(process)) {
            let changed = sink.send_if_modified(|settings| {
                let differs = *settings != wanted;
                *settings = wanted;
                differs
            });
            tracing::debug!(changed, "applied the settings of Config to admission");
        }
    }
}

fn settings(arguments: &RunArguments, flagged: Flagged) -> anyhow::Result<Settings> {
    let Flagged { mut settings, namespace, leader_elect, scheduler_conf, .. } = flagged;
    if let Some(path) = scheduler_conf {
        scheduler_flags::apply_file(&path, &mut settings)?;
    }
    let functions = functions(arguments);
    settings.schedules = functions.contains(&Function::Scheduler);
    settings.own_image = arguments.image.clone().filter(|image| !image.is_empty());
    arguments.trust.apply(arguments.binder.reservation_namespace(), &mut settings);
    settings.scale_adjuster = arguments.scaling.settings(&settings);
    let binds = functions.contains(&Function::Binder);
    settings.binder = binds.then(|| arguments.binder.settings(&settings));
    settings.binder.iter_mut().for_each(|binder| arguments.guard.apply(binder));
    if functions.contains(&Function::PodGrouper) {
        settings.grouper.iter_mut().for_each(|config| arguments.grouper.apply(config));
    } else {
        settings.grouper = None;
    }
    // Another process sees only what is written.
    let together = Function::USUAL.iter().all(|function| functions.contains(function));
    let always = arguments.pod_groups == PodGroups::Always || !together;
    settings.publish = if always { Publish::Always } else { Publish::AfterWaiting(PUBLISH_AFTER) };
    settings.status.duties = Duties {
        verdicts: settings.schedules,
        groups: functions.contains(&Function::PodGroupController),
        queues: functions.contains(&Function::QueueController),
    };
    settings.status.events = match arguments.events {
        EventsWritten::Needed => Events::Needed,
        EventsWritten::All => Events::All,
    };
    settings.bind_requests = match arguments.bind_requests {
        BindRequestsMade::Needed => BindRequests::Needed,
        BindRequestsMade::Always => BindRequests::Always,
    };
    settings.lists = if arguments.watch_list { Lists::Streamed } else { Lists::Paged };
    settings.evict_by = match arguments.eviction {
        Eviction::Api => EvictBy::Eviction,
        Eviction::Delete => EvictBy::Delete,
    };
    settings.evictions_per_second = Some(arguments.evictions_per_second).filter(|most| *most > 0);
    settings.functions = functions;
    settings.election = leader_elect.then(|| election(namespace)).transpose()?;
    settings.config.params.node_pool = settings.partition.name().map(Into::into);
    Ok(settings)
}

/// What runs here and follows the cluster.
fn functions(arguments: &RunArguments) -> BTreeSet<Function> {
    let only = &arguments.only;
    let wanted = |function: &Function| match function {
        Function::NodeScaleAdjuster if arguments.scaling.is_requested() => true,
        usual if only.is_empty() => Function::USUAL.contains(usual),
        named => only.contains(named),
    };
    Function::FOLLOWING.into_iter().filter(wanted).collect()
}

/// The function of this name.
fn function(name: &str) -> Result<Function, String> {
    let found = Function::ALL.into_iter().find(|function| function.name() == name);
    found.ok_or_else(|| {
        let names = Function::ALL.map(Function::name);
        format!("unknown function; the functions are {}", names.join(", "))
    })
}

fn probe_address(text: &str) -> Result<Probes, String> {
    flags::address(text).map(Probes)
}

/// We are known by the name of our pod and something that no other process has.
fn election(namespace: String) -> anyhow::Result<Election> {
    let read = |path: &str| {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        anyhow::Ok(text.trim().to_owned())
    };
    let host = read("/proc/sys/kernel/hostname")?;
    let unique = read("/proc/sys/kernel/random/uuid")?;
    Ok(Election { identity: format!("{host}_{unique}"), namespace })
}
