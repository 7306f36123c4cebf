//! `kai up`: the embedded cluster for `kubectl`, until a signal ends it.

mod kubeconfig;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use kai_client::env::Env;
use kai_embed::Cluster;
use kai_embed::serve::{Identity, serve};
use kai_embed::service::Embedded;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::embedded::{ClusterArguments, install_with_open_queues, moment, scheduler, span};
use crate::output;
use crate::simulate::Manifests;
use kubeconfig::{Connection, Kubeconfig};

const EXAMPLES: &str = "\
Examples:
  kai up                                      one node with 8 GPUs
  kai up --nodes 4 --gpus 8 --time-slicing 10
  kai up --cluster nodes.yaml                 nodes and other objects of the manifests
  kubectl --kubeconfig kai.kubeconfig get pods";

/// Which cluster, and how it is reached.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    nodes: ClusterArguments,

    /// Manifests to create at start: YAML or JSON files, or folders.
    #[arg(long, value_name = "PATH")]
    cluster: Vec<PathBuf>,

    /// Kubeconfig file to add a context to; the context is removed when the cluster ends, everything else in the file
    /// stays.
    #[arg(long, default_value = "kai.kubeconfig", value_name = "FILE")]
    kubeconfig: PathBuf,

    /// Port on 127.0.0.1; 0 picks a free one.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    port: u16,
}

/// Runs until a signal arrives; returns the exit status.
pub(crate) fn run(arguments: &UpArguments) -> anyhow::Result<u8> {
    let manifests = match Manifests::read(&arguments.cluster)? {
        Ok(manifests) => manifests,
        Err(faults) => return Ok(crate::simulate::report_faults(&faults)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(up(arguments, &manifests))
}

async fn up(arguments: &UpArguments, manifests: &Manifests) -> anyhow::Result<u8> {
    // A test that sees the kubeconfig may end the process from then on.
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let mut hang_up = listen(SignalKind::hangup())?;
    let env = Env::real();
    let clock = env.clone();
    let mut cluster = Cluster::new(seed()?, moment(env.now()));
    install_with_open_queues(&mut cluster)?;
    let embedded = Embedded::new(cluster, Arc::new(move || moment(clock.now())));
    for node in arguments.nodes.profiles(manifests.has_nodes()) {
        embedded.with(|cluster, _| cluster.add_node(&node)).context("cannot add a node")?;
    }
    let faults = embedded.with(|cluster, _| manifests.create(cluster));
    if !faults.is_empty() {
        return Ok(crate::simulate::report_faults(&faults));
    }
    let identity = Identity::new(random()? + &random()?)?;
    let listener = TcpListener::bind(("127.0.0.1", arguments.port))
        .await
        .with_context(|| format!("cannot listen on 127.0.0.1:{}", arguments.port))?;
    let url = format!("https://{}", listener.local_addr().context("a socket without address")?);
    let connection =
        Connection { cluster: identity.kubeconfig_cluster(&url), user: identity.kubeconfig_user() };
    let kubeconfig = Kubeconfig::merge(&arguments.kubeconfig, &connection)?;
    let sleeper = env.clone();
    env.spawn("embedded cluster", embedded.clone().drive(move |wait| sleeper.sleep(span(wait))));
    embedded.with(|cluster, _| cluster.set_schedulers(["kai-scheduler".to_owned()]));
    scheduler::start(&embedded, &env, &["--events=all".to_owned()])?;
    output::print(&format!(
        "A cluster is up at {url}. Try\n  kubectl --kubeconfig {} --context {} get nodes\nCtrl-C ends it.\n",
        arguments.kubeconfig.display(),
        kubeconfig.context()
    ))?;
    let spawner = env.clone();
    let server =
        serve(listener, &identity, embedded, move |work| spawner.spawn("connection", work));
    tokio::select! { biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hang_up.recv() => {}
        never = server => match never {},
    }
    Ok(0)
}

/// A random token.
fn random() -> anyhow::Result<String> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    let text = fs::read_to_string(SOURCE).with_context(|| format!("cannot read {SOURCE}"))?;
    Ok(text.trim().replace('-', ""))
}

fn seed() -> anyhow::Result<u64> {
    let digits: String = random()?.chars().take(16).collect();
    u64::from_str_radix(&digits, 16).context("random digits that are none")
}
