//! The command line.

use clap::{Parser, Subcommand};

use crate::agent::AgentArguments;
use crate::bench::BenchArguments;
use crate::demo::DemoArguments;
use crate::doctor::DoctorArguments;
use crate::explain::ExplainArguments;
use crate::gpus::GpusArguments;
use crate::manifests::ManifestsArguments;
use crate::run::RunArguments;
use crate::scenario::ScenarioArguments;
use crate::simulate::SimulateArguments;
use crate::up::UpArguments;

/// A scheduler for AI workloads on Kubernetes.
#[derive(Parser)]
#[command(name = "kai", version)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What `kai` can do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// See the scheduler at work: walk-throughs on a cluster inside this program.
    Demo(DemoArguments),
    /// See what would become of manifests, without a cluster.
    Simulate(SimulateArguments),
    /// Bring up a cluster inside this program, for kubectl.
    Up(UpArguments),
    /// Schedule a Kubernetes cluster.
    Run(Box<RunArguments>),
    /// Say why a pod or a pod group waits, or how a queue stands.
    Explain(ExplainArguments),
    /// Say what is wrong with a cluster or a node, and the command that puts it right.
    Doctor(DoctorArguments),
    /// Show the GPUs of a cluster, and who shares them.
    Gpus(GpusArguments),
    /// Do what has to be done on a node.
    Agent(AgentArguments),
    /// Print what is installed in a cluster: custom resources, roles, priority classes, default queues.
    Manifests(ManifestsArguments),
    /// Work with scenarios: small clusters with expectations, run in virtual time.
    Scenario(ScenarioArguments),
    /// Measure how fast the scheduler is.
    Bench(BenchArguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn the_command_line_makes_sense() {
        Arguments::command().debug_assert();
    }
}
