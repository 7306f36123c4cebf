//! `kai manifests`

use clap::Args;

use crate::output;

/// No arguments yet.
#[derive(Args)]
#[command(after_help = "Example:\n  kai manifests | kubectl apply --server-side -f -")]
pub(crate) struct ManifestsArguments {}

/// Prints what is installed; the exit status.
pub(crate) fn run(_: &ManifestsArguments) -> anyhow::Result<u8> {
    output::print(&kai_cluster::manifests::all())?;
    Ok(0)
}
