//! `kai bench …`: how fast the planner is, and the whole on a real control plane.

mod callgrind;
#[cfg(feature = "cluster-bench")]
mod cluster;
mod core;
mod goals;
mod measure;
mod table;

use clap::{Args, Subcommand};

/// Arguments of `kai bench`.
#[derive(Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    verb: BenchVerb,
}

#[derive(Subcommand)]
enum BenchVerb {
    /// Measure the planner on worlds of known outcome.
    Core(core::CoreArguments),
    /// Measure `kai run` on a real etcd and kube-apiserver, which are built with Go the first time
    #[cfg(feature = "cluster-bench")]
    Cluster(cluster::ClusterArguments),
    /// One case in this process, as JSON: what `core` starts for each case.
    #[command(hide = true)]
    Case(measure::CaseArguments),
    /// Build one case and plan once: what is run where instructions are counted.
    #[command(hide = true)]
    Once(callgrind::OnceArguments),
    /// Instructions of one cycle of each case, as JSON.
    #[command(hide = true)]
    Instructions(callgrind::InstructionsArguments),
}

/// Does it; the exit status.
pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<u8> {
    match &arguments.verb {
        BenchVerb::Core(arguments) => core::run(arguments),
        #[cfg(feature = "cluster-bench")]
        BenchVerb::Cluster(arguments) => cluster::run(arguments),
        BenchVerb::Case(arguments) => measure::run(arguments),
        BenchVerb::Once(arguments) => callgrind::run_once(arguments),
        BenchVerb::Instructions(arguments) => callgrind::run(arguments),
    }
}
