//! Nodes as the command line describes them.

use clap::Args;
use kai_embed::nodes::{NodeProfile, Sharing};

const ALL_ALIKE: u32 = 1;

/// The nodes of the embedded cluster.
#[derive(Args)]
pub(crate) struct ClusterArguments {
    /// Number of simulated nodes [default: 1, or the nodes in the manifests].
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,

    /// GPUs of each node.
    #[arg(long, default_value_t = 8, value_name = "N")]
    gpus: u32,

    /// Memory of each GPU in MiB.
    #[arg(long, default_value_t = 81_920, value_name = "MIB")]
    gpu_memory: u64,

    /// Number of replicas that each GPU is advertised as.
    #[arg(long, value_name = "REPLICAS")]
    time_slicing: Option<u32>,
}

impl ClusterArguments {
    /// The nodes; none are made up where there are others.
    pub(crate) fn profiles(&self, has_others: bool) -> Vec<NodeProfile> {
        let count = self.nodes.unwrap_or(if has_others { 0 } else { ALL_ALIKE });
        let sharing = self.time_slicing.map_or(Sharing::Whole, Sharing::TimeSliced);
        (1..=count)
            .map(|at| NodeProfile {
                gpu_memory_mib: self.gpu_memory,
                sharing: sharing.clone(),
                ..NodeProfile::with_gpus(&format!("node-{at}"), self.gpus)
            })
            .collect()
    }
}
