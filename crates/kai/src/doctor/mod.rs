//! `kai doctor`: what is wrong with a cluster or a host, and the command that puts it right.

mod cluster;
mod host;
mod show;

use clap::{Args, Subcommand};

use crate::output;

/// Exit status where something does not work.
const SOMETHING_IS_WRONG: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  kai doctor                  diagnose the cluster of the current kubeconfig context
  kai doctor --json           for scripts: {\"findings\": [{\"check\", \"severity\", \"object\", \"message\", \"fix\"}]}
  sudo kai doctor node        on a node: what the API cannot show

Exits with 1 if a finding is an error. Writes nothing.";

/// Arguments of `kai doctor`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct DoctorArguments {
    #[command(subcommand)]
    place: Option<Place>,

    #[command(flatten)]
    cluster: cluster::ClusterArguments,
}

#[derive(Subcommand)]
enum Place {
    /// Check this host: libraries, device files, the container runtime, the image of kai, kernel and release.
    Node(host::HostArguments),
}

/// Runs the checks and prints their findings; returns the exit status.
pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<u8> {
    let (findings, head, json) = match &arguments.place {
        Some(Place::Node(arguments)) => {
            let facts = host::facts(arguments);
            let head = Some(kai_doctor::host::summary(&facts));
            (kai_doctor::host::examine(&facts), head, arguments.json)
        }
        None => (cluster::examine(&arguments.cluster)?, None, arguments.cluster.json),
    };
    if json {
        output::print(&format!("{}\n", serde_json::to_string_pretty(&findings)?))?;
    } else {
        output::print(&show::report(&findings, head.as_deref(), output::width()))?;
    }
    Ok(if findings.has_errors() { SOMETHING_IS_WRONG } else { 0 })
}
