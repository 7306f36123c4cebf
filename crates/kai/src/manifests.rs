//! `kai manifests`

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_api::names::objects::SCHEDULER_NAME;
use kai_cluster::deployments::{self, Layout, Wanted};
use kai_cluster::manifests;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai manifests | kubectl apply --server-side -f -
  kai manifests --deploy functions --image example/kai:1   each function alone, under its own account
  kai manifests --node-scale-adjuster --numa-agent         with nodes that come by themselves and have NUMA zones
  kai manifests --deploy nothing                           kai is started by hand";

/// How `kai run` is installed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManifestsArguments {
    /// Deployments: one process for everything, one per function, or none.
    #[arg(long, value_enum, default_value = "process")]
    deploy: Deploy,

    /// Image of the Deployments.
    #[arg(long, default_value = concat!("kai:", env!("CARGO_PKG_VERSION")))]
    image: String,

    /// Pods with this `spec.schedulerName` are ours.
    #[arg(long, default_value = SCHEDULER_NAME, value_name = "NAME")]
    scheduler_name: String,

    /// Make scaling pods, so that the cluster's autoscaler adds nodes for pods that share GPUs.
    #[arg(long)]
    node_scale_adjuster: bool,

    /// Tell on nodes with NUMA zones which of them pods have: a `DaemonSet`.
    #[arg(long)]
    numa_agent: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Deploy {
    Process,
    Functions,
    Nothing,
}

impl From<Deploy> for Layout {
    fn from(deploy: Deploy) -> Self {
        match deploy {
            Deploy::Process => Self::Process,
            Deploy::Functions => Self::Functions,
            Deploy::Nothing => Self::Nothing,
        }
    }
}

/// Prints what is installed; the exit status.
pub(crate) fn run(arguments: &ManifestsArguments) -> anyhow::Result<u8> {
    let mut text = manifests::all();
    let wanted = Wanted {
        layout: arguments.deploy.into(),
        image: &arguments.image,
        scheduler_name: &arguments.scheduler_name,
        scale_adjuster: arguments.node_scale_adjuster,
        numa_agent: arguments.numa_agent,
    };
    for object in deployments::objects(wanted) {
        let written = serde_saphyr::to_string(&object).context("an object is no YAML")?;
        text = format!("{text}---\n{}\n", written.trim_end());
    }
    output::print(&text)?;
    Ok(0)
}
