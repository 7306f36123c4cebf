//! The command line.

use clap::{Parser, Subcommand};

use crate::agent::AgentArguments;
use crate::bench::BenchArguments;
use crate::bundle::BundleArguments;
use crate::demo::DemoArguments;
use crate::doctor::DoctorArguments;
use crate::explain::ExplainArguments;
use crate::gpus::GpusArguments;
use crate::guard::GuardArguments;
use crate::manifests::ManifestsArguments;
use crate::run::RunArguments;
use crate::scenario::ScenarioArguments;
use crate::shell::{CompletionsArguments, ManArguments};
use crate::simulate::SimulateArguments;
use crate::up::UpArguments;

/// A scheduler for AI workloads on Kubernetes.
#[derive(Parser)]
#[command(name = "kai", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What `kai` can do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Show the scheduler at work: walk-throughs on an embedded cluster.
    Demo(DemoArguments),
    /// Simulate how manifests would be scheduled, without a cluster.
    Simulate(SimulateArguments),
    /// Start an embedded cluster for kubectl.
    Up(UpArguments),
    /// Run the scheduler and its controllers against a Kubernetes cluster.
    Run(Box<RunArguments>),
    /// Explain why a workload is pending, or what a queue may use.
    Explain(ExplainArguments),
    /// Diagnose a cluster or a node; each finding has a command that fixes it.
    Doctor(DoctorArguments),
    /// Show the GPUs of a cluster and the pods that use them.
    Gpus(GpusArguments),
    /// Node agents: GPU reservation and NUMA reporting.
    Agent(AgentArguments),
    /// Install the library that limits GPU memory; runs as an init container of sharing pods.
    Guard(GuardArguments),
    /// Print the manifests to install: CRDs, RBAC, priority classes, default queues, Deployments.
    Manifests(ManifestsArguments),
    /// Run scenarios: small clusters with expected decisions, in virtual time.
    Scenario(ScenarioArguments),
    /// Measure how fast the scheduler is.
    Bench(BenchArguments),
    /// Write an archive for a bug report, without secrets.
    Bundle(BundleArguments),
    /// Print shell completions.
    Completions(CompletionsArguments),
    /// Write manual pages.
    Man(ManArguments),
    /// Print version, commit and platform.
    Version,
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
