//! `kai run`: schedules a cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_cluster::env::Env;
use kai_cluster::planner::{PUBLISH_AFTER, Publish, Settings};
use kai_cluster::{client, run};
use kai_translate::partition::Partition;
use kai_translate::pod::PodRules;
use kai_workloads::GrouperConfig;

use crate::binder_flags::BinderArguments;

const EXAMPLES: &str = "\
Examples:
  kai run                                     inside a cluster, everything in one process
  kai run --kubeconfig ~/.kube/config         from outside
  kai run --only scheduler                    one function alone";

/// Which cluster, and what to do there.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// Where the cluster is; by default that of the surroundings.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Only these functions; by default all of them.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FUNCTION")]
    only: Vec<Function>,

    /// Pods with this spec.schedulerName are ours.
    #[arg(long, default_value = "kai-scheduler", value_name = "NAME")]
    scheduler_name: String,

    /// Label that names the queue of a workload.
    #[arg(long, default_value = "kai.scheduler/queue", value_name = "KEY")]
    queue_label_key: String,

    /// Label that divides the cluster; empty: it is not divided.
    #[arg(long, default_value = "kai.scheduler/node-pool", value_name = "KEY")]
    nodepool_label_key: String,

    /// Our part of the cluster; empty: what carries no such label.
    #[arg(long, default_value = "", value_name = "VALUE")]
    partition_label_value: String,

    /// Which pods get a pod group object: all, or only those that are not their own group or have waited.
    #[arg(long, value_enum, default_value = "needed")]
    pod_groups: PodGroups,

    #[command(flatten)]
    binder: BinderArguments,

    /// How much is logged: 2 and less warnings, 3 every write, 4 every plan, 5 and more everything.
    #[arg(long = "v", default_value_t = 3, value_name = "LEVEL")]
    verbosity: u8,

    /// Log JSON.
    #[arg(long)]
    log_json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Function {
    /// Places pods.
    Scheduler,
    /// Makes pod groups.
    PodGrouper,
    /// Carries bind requests out.
    Binder,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PodGroups {
    Needed,
    Always,
}

/// Runs until it is told to stop; the exit status.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<u8> {
    start_log(arguments);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let client = client::connect(arguments.kubeconfig.as_deref()).await?;
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .context("cannot listen for signals")?;
        let shutdown = async move {
            tokio::select! { biased;
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        };
        run::run(client, Env::real(), settings(arguments), shutdown).await;
        Ok(0)
    })
}

fn settings(arguments: &RunArguments) -> Settings {
    let all = [Function::Scheduler, Function::PodGrouper, Function::Binder];
    let functions: BTreeSet<Function> = if arguments.only.is_empty() {
        all.into()
    } else {
        arguments.only.iter().copied().collect()
    };
    let schedules = functions.contains(&Function::Scheduler);
    let grouper = functions.contains(&Function::PodGrouper).then(|| GrouperConfig {
        scheduler_name: arguments.scheduler_name.clone(),
        queue_label_key: arguments.queue_label_key.clone(),
        node_pool_label_key: arguments.nodepool_label_key.clone(),
        ..GrouperConfig::default()
    });
    let binder = functions.contains(&Function::Binder);
    let binder = binder.then(|| arguments.binder.settings(&arguments.scheduler_name));
    // Another process sees only what is written.
    let always = arguments.pod_groups == PodGroups::Always || !schedules;
    let mut settings = Settings {
        rules: PodRules {
            scheduler_name: arguments.scheduler_name.clone(),
            reservation_app: arguments.binder.resource_reservation_app_label.clone(),
            ..PodRules::default()
        },
        binder,
        partition: Partition {
            key: arguments.nodepool_label_key.clone(),
            value: arguments.partition_label_value.clone(),
        },
        grouper,
        schedules,
        publish: if always { Publish::Always } else { Publish::AfterWaiting(PUBLISH_AFTER) },
        ..Settings::default()
    };
    let params = &mut settings.config.params;
    params.queue_label_key = arguments.queue_label_key.as_str().into();
    params.node_pool = settings.partition.name().map(Into::into);
    settings
}

fn start_log(arguments: &RunArguments) {
    use tracing_subscriber::filter::LevelFilter;
    let level = match arguments.verbosity {
        0..=2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    if arguments.log_json {
        log.json().init();
    } else {
        log.init();
    }
}
