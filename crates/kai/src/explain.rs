//! `kai explain`: why something waits.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_cluster::client;
use kai_cluster::env::Env;
use kai_cluster::explain::{Asked, explain};
use kai_cluster::flags::{Flagged, apply};
use kai_core::input::ObjectName;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai explain pod trainer-0 -n team-a      why the pod waits, and how its queues stand
  kai explain podgroup pg-trainer -n team-a
  kai explain queue team-a                 quota, fair share, use and limit up to the root

The cluster is read, one plan is made on the side, and nothing is written.";

/// What to explain.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArguments {
    /// What it is.
    kind: Kind,

    /// Its name.
    name: String,

    /// Its namespace; queues have none.
    #[arg(long, short, default_value = "default")]
    namespace: String,

    /// Where the cluster is; by default that of the surroundings.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Pods with this spec.schedulerName are ours.
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,

    /// Label that names the queue of a workload.
    #[arg(long, value_name = "KEY")]
    queue_label_key: Option<String>,

    /// Label that divides the cluster.
    #[arg(long, value_name = "KEY")]
    nodepool_label_key: Option<String>,

    /// The part of the cluster that is looked at; by default what carries no such label.
    #[arg(long, value_name = "VALUE")]
    partition_label_value: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Pod,
    Podgroup,
    Queue,
}

/// Explains; the exit status.
pub(crate) fn run(arguments: &ExplainArguments) -> anyhow::Result<u8> {
    let mut flagged = Flagged::default();
    let given = [
        ("scheduler-name", &arguments.scheduler_name),
        ("queue-label-key", &arguments.queue_label_key),
        ("nodepool-label-key", &arguments.nodepool_label_key),
        ("partition-label-value", &arguments.partition_label_value),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            apply(&mut flagged, name, value)?;
        }
    }
    let mut settings = flagged.settings;
    settings.config.params.node_pool = settings.partition.name().map(Into::into);
    let name = || ObjectName::new(arguments.namespace.as_str(), arguments.name.as_str());
    let asked = match arguments.kind {
        Kind::Pod => Asked::Pod(name()),
        Kind::Podgroup => Asked::PodGroup(name()),
        Kind::Queue => Asked::Queue(arguments.name.as_str().into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let told = runtime.block_on(async {
        let client = client::connect(arguments.kubeconfig.as_deref()).await?;
        anyhow::Ok(Box::pin(explain(&client, &Env::real(), settings, &asked)).await?)
    })?;
    output::print(&told)?;
    Ok(0)
}
