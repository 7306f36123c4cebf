//! `kai manifests`

use anyhow::Context;
use clap::{Args, ValueEnum};
use kai_cluster::deployments::{self, Layout};
use kai_cluster::manifests;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai manifests | kubectl apply --server-side -f -
  kai manifests --deploy functions --image example/kai:1   each function alone, under its own account
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
    for object in deployments::objects(arguments.deploy.into(), &arguments.image) {
        let written = serde_saphyr::to_string(&object).context("an object is no YAML")?;
        text = format!("{text}---\n{}\n", written.trim_end());
    }
    output::print(&text)?;
    Ok(0)
}
