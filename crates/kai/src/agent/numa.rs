//! `kai agent numa`: records on pods which NUMA zones of this node they use.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kai_client::client;
use kai_client::env::Env;
use kai_core::time::Span;
use kai_node::kubelet::pod_resources;
use kai_node::numa_agent;
use kai_node::numa_agent::zones::Zones;
use kai_node::numa_agent::{NumaAgentSettings, placement};

use crate::duration_flag::span;
use crate::log::Log;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai agent numa --node-name n1    on the node n1, until it is stopped
  kai agent numa --print           on any node: its zones, and the annotation that each pod would get";

/// How much is logged: as much as the reference does.
const VERBOSITY: u8 = 3;

/// Flags of `kai agent numa`. All but `--print` and `--kubeconfig` are flags of KAI's program too.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NumaArguments {
    /// Name of this node.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,

    /// Path of the kubelet's pod-resources socket.
    #[arg(long, default_value = pod_resources::SOCKET, value_name = "FILE")]
    podresources_socket: PathBuf,

    /// Path of the kernel's NUMA topology.
    #[arg(long, default_value = "/sys", value_name = "FOLDER")]
    sysfs_root: PathBuf,

    /// Interval between reads from the kubelet.
    #[arg(long, default_value = "1s", value_parser = span, value_name = "DURATION")]
    poll_interval: Span,

    /// Interval between reads of the pods' annotations; 0 disables them.
    #[arg(long, default_value = "60s", value_parser = span, value_name = "DURATION")]
    drift_resync_interval: Span,

    /// Accepted for compatibility: annotations are written only when they change.
    #[arg(long, hide = true)]
    qps: Option<f64>,

    /// Accepted for compatibility; has no effect.
    #[arg(long, hide = true)]
    burst: Option<u32>,

    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Print zones and pods, and exit.
    #[arg(long)]
    print: bool,
}

/// Runs until a signal arrives; returns the exit status.
pub(crate) fn run(arguments: &NumaArguments) -> anyhow::Result<u8> {
    let zones = Zones::read(&arguments.sysfs_root)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    if arguments.print {
        output::print(&runtime.block_on(shown(arguments, &zones)))?;
    } else {
        let _log = Log::start(VERBOSITY, false);
        runtime.block_on(work(arguments, zones))?;
    }
    Ok(0)
}

async fn work(arguments: &NumaArguments, zones: Zones) -> anyhow::Result<()> {
    let node = arguments.node_name.clone();
    let node = node.context("node name is required: --node-name, or the variable NODE_NAME")?;
    anyhow::ensure!(arguments.poll_interval.nanos > 0, "--poll-interval must be above 0");
    let client = client::connect(arguments.kubeconfig.as_deref()).await?;
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for signals")?;
    let shutdown = async move {
        tokio::select! { biased;
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let resync = arguments.drift_resync_interval;
    let settings = NumaAgentSettings {
        node,
        poll: arguments.poll_interval,
        resync: (resync.nanos > 0).then_some(resync),
    };
    let kubelet = pod_resources::Socket(arguments.podresources_socket.clone());
    numa_agent::run(client, Env::real(), kubelet, settings, zones, shutdown).await;
    Ok(())
}

async fn shown(arguments: &NumaArguments, zones: &Zones) -> String {
    let mut text = String::new();
    for (zone, cores) in zones.all() {
        let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "node-{zone}  cores {}", cores.join(","));
    }
    match pod_resources::list(&Env::real(), &arguments.podresources_socket).await {
        Ok(pods) => {
            for pod in pods {
                let annotation = placement::annotation(&pod, zones);
                let annotation = annotation.as_deref().unwrap_or("nothing in a single zone");
                let _ = writeln!(text, "{}/{}  {annotation}", pod.namespace, pod.name);
            }
        }
        Err(error) => {
            let _ = writeln!(text, "cannot read pods from the kubelet: {error}");
        }
    }
    text
}
