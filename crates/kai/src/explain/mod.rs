//! `kai explain`: why pods of a workload are pending, or how a queue stands.

mod subject;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kai_client::env::Env;
use kai_client::{client, device_api};
use kai_control::explain::explain;
use kai_settings::flags::Flagged;

use crate::output;
use crate::scheduler_flags::{self, PARTITION_FLAG, PlanFlags};
use subject::Subject;

const EXAMPLES: &str = "\
Examples:
  kai explain pod trainer-0 -n team-a      why the pod is pending, and the state of its queues
  kai explain pod/trainer-0 -n team-a      the same
  kai explain job/train -n team-a          the first pending pod of the job; any kind that owns pods works
  kai explain podgroup pg-trainer -n team-a
  kai explain queue team-a                 quota, fair share, usage and limit of the queue and its parents

Reads the cluster and plans one cycle; writes nothing.";

/// Arguments of `kai explain`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArguments {
    /// Kind of the object: pod, podgroup, queue, or a workload such as job or deployment; KIND/NAME also works.
    kind: String,

    /// Name of the object.
    name: Option<String>,

    /// Namespace of the object, ignored for queues [default: that of the current kubeconfig context]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Flags that `kai run` was started with, where it was; shards and Config are read from the cluster.
    #[command(flatten)]
    plans: PlanFlags,
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
    let subject = Subject::parse(&arguments.kind, arguments.name.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let text = runtime.block_on(async {
        let client = client::connect(arguments.kubeconfig.as_deref()).await?;
        let current = client.default_namespace().to_owned();
        let client = device_api::adapted(client).await;
        let namespace = arguments.namespace.as_deref().unwrap_or(&current);
        let found = subject.find(&client, namespace).await?;
        let env = Env::real();
        let explanation = explain(&client, &env, &settings, only.as_deref(), &found.asked);
        anyhow::Ok(found.head + &Box::pin(explanation).await?)
    })?;
    output::print(&text)?;
    Ok(0)
}
