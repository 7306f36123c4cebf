//! `kai explain`: why something waits.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_client::env::Env;
use kai_client::{client, device_api};
use kai_control::explain::{Asked, explain};
use kai_core::input::ObjectName;
use kai_settings::flags::Flagged;

use crate::output;
use crate::scheduler_flags::{self, PARTITION_FLAG, PlanFlags};

const EXAMPLES: &str = "\
Examples:
  kai explain pod trainer-0 -n team-a      why the pod is pending, and the state of its queues
  kai explain podgroup pg-trainer -n team-a
  kai explain queue team-a                 quota, fair share, use and limit up to the root

Reads the cluster and plans one cycle; writes nothing.";

/// What to explain.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArguments {
    /// Kind of the object.
    kind: Kind,

    /// Name of the object.
    name: String,

    /// Namespace of the object; ignored for queues.
    #[arg(long, short, default_value = "default")]
    namespace: String,

    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Flags that `kai run` was started with, where it was; shards and Config are read from the cluster.
    #[command(flatten)]
    plans: PlanFlags,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Pod,
    Podgroup,
    Queue,
}

/// Explains; the exit status.
pub(crate) fn run(arguments: &ExplainArguments) -> anyhow::Result<u8> {
    let (flagged, _) = arguments.plans.0.read()?;
    let Flagged { mut settings, scheduler_conf, .. } = flagged;
    if let Some(path) = scheduler_conf {
        scheduler_flags::apply_file(&path, &mut settings)?;
    }
    settings.config.params.node_pool = settings.partition.name().map(Into::into);
    let named = arguments.plans.0.names(PARTITION_FLAG);
    let only = named.then(|| settings.partition.value.clone());
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
        let client = device_api::adapted(client).await;
        let env = Env::real();
        let told = explain(&client, &env, &settings, only.as_deref(), &asked);
        anyhow::Ok(Box::pin(told).await?)
    })?;
    output::print(&told)?;
    Ok(0)
}
