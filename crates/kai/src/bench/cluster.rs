//! `kai bench cluster`: end to end on a real control plane.

use std::path::PathBuf;

use clap::Args;
use kai_bench::{Case, Plan};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  kai bench cluster                              all cases on 500 nodes
  kai bench cluster --case fill --json           one case, for a script
  kai bench cluster --case reclaim_gang --nodes 125
  kai bench cluster --case scale                 5,000 and 10,000 nodes, without a control plane

Build kai with --release and --features cluster-bench. Figures depend on the machine and on what else it does:
compare the ratios of one run.";

/// Arguments of `kai bench cluster`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClusterArguments {
    /// Measure only this case; may be given several times [default: all but rss_5000 and scale]
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<Case>,

    /// Number of nodes of eight GPUs
    #[arg(long, value_name = "NUMBER", default_value_t = 500)]
    nodes: usize,

    /// Number of nodes of ten GPUs of case scale, which measures this number and twice as many
    #[arg(long, value_name = "NUMBER", default_value_t = 5000)]
    scale_nodes: usize,

    /// Program under test, such as a build that is shipped [default: this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures and reports; the exit status.
pub(crate) fn run(arguments: &ClusterArguments) -> anyhow::Result<u8> {
    let cases =
        if arguments.cases.is_empty() { Case::USUAL.to_vec() } else { arguments.cases.clone() };
    let kai = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let plan = Plan { kai, cases, nodes: arguments.nodes, scale_nodes: arguments.scale_nodes };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = |what: &str| output::complain(&format!("{what}\n"));
    let figures = runtime.block_on(kai_bench::run(&plan, report))?;
    let text = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&figures)?)
    } else {
        figures.table()
    };
    output::print(&text)?;
    Ok(0)
}
