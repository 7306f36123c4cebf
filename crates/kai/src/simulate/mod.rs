//! `kai simulate`: what would become of these manifests.

mod manifests;
mod outcome;
mod progress;
mod yaml;

use std::path::PathBuf;

use clap::Args;
use kai_embed::nodes::SIM_DURATION;

use crate::demo::Paint;
use crate::embedded::{ClusterArguments, play_before_exit};
use crate::output;
pub(crate) use manifests::Manifests;
use outcome::Outcome;
use progress::Progress;

const EXAMPLES: &str = "\
Examples:
  kai simulate -f job.yaml                          on one node with 8 GPUs
  kai simulate -f queues/ -f job.yaml --nodes 4     folders too
  kubectl get pods,nodes -A -o yaml | kai simulate -f - -f job.yaml
  kai simulate -f cluster.yaml -f job.yaml --json   on the nodes of cluster.yaml

Exit status: 0 also when pods are pending, 2 if a manifest is invalid, 3 if something has not settled.";

/// Exit status where something had not come to rest.
const NOT_SETTLED: u8 = 3;

/// Which manifests, and on what.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArguments {
    /// Manifests: YAML or JSON files, folders, or - for standard input.
    #[arg(short = 'f', long = "file", value_name = "PATH", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    cluster: ClusterArguments,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Simulates; the exit status.
pub(crate) fn run(arguments: &SimulateArguments) -> anyhow::Result<u8> {
    let manifests = match Manifests::read(&arguments.files)? {
        Ok(manifests) => manifests,
        Err(faults) => return Ok(report_faults(&faults)),
    };
    let nodes = arguments.cluster.profiles(manifests.has_nodes());
    let played = play_before_exit(async |cluster| {
        let progress = Progress::show(cluster.embedded());
        nodes.iter().try_for_each(|node| cluster.add_node(node))?;
        let (faults, warnings) = cluster.look(|cluster| manifests.create_warned(cluster));
        complain(&warnings);
        if !faults.is_empty() {
            return Ok(Err(faults));
        }
        let unsettled = cluster.settle().await;
        drop(progress);
        Ok(Ok((cluster.look(|cluster| Outcome::of(cluster)), unsettled)))
    })?;
    let (outcome, unsettled) = match played {
        Err(faults) => return Ok(report_faults(&faults)),
        Ok(played) => played,
    };
    show(&outcome, arguments.json, manifests.has_ends())?;
    for line in &unsettled {
        output::complain(&format!("not settled: {line}\n"));
    }
    Ok(if unsettled.is_empty() { 0 } else { NOT_SETTLED })
}

fn show(outcome: &Outcome, as_json: bool, has_ends: bool) -> anyhow::Result<()> {
    if as_json {
        output::print(&format!("{}\n", serde_json::to_string_pretty(outcome)?))?;
    } else {
        output::print(&outcome.text(Paint { coloured: output::is_coloured() }))?;
        if has_ends {
            let note = format!("Pods with the annotation {SIM_DURATION} have run to their end.\n");
            output::print(&note)?;
        }
    }
    outcome.rejected().iter().for_each(|rejected| output::complain(rejected));
    Ok(())
}

/// Says what is wrong with the manifests; the exit status.
pub(crate) fn report_faults(faults: &[manifests::Fault]) -> u8 {
    complain(faults);
    crate::BAD_INPUT
}

fn complain(faults: &[manifests::Fault]) {
    for fault in faults {
        output::complain(&format!("{fault}\n"));
    }
}
