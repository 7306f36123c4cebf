//! The walk-throughs.

mod gang;
mod jetson;
mod labels;
mod memory;
mod preemption;
mod shares;
mod sharing;
mod slices;

use super::stage::Stage;

/// A queue without bounds.
const OPEN_QUEUE: &str = "
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: -1, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
";

/// A walk-through.
pub(super) struct Story {
    /// What it shows.
    pub(super) title: &'static str,
    /// What to look for.
    pub(super) about: &'static str,
    plot: Plot,
}

enum Plot {
    Shares,
    Gang,
    Preemption,
    Sharing,
    Slices,
    Labels,
    Jetson,
    Memory,
}

impl Story {
    /// Tells it.
    pub(super) async fn tell(&self, stage: &mut Stage) -> anyhow::Result<()> {
        match self.plot {
            Plot::Shares => shares::tell(stage).await,
            Plot::Gang => gang::tell(stage).await,
            Plot::Preemption => preemption::tell(stage).await,
            Plot::Sharing => sharing::tell(stage).await,
            Plot::Slices => slices::tell(stage).await,
            Plot::Labels => labels::tell(stage).await,
            Plot::Jetson => jetson::tell(stage).await,
            Plot::Memory => memory::tell(stage).await,
        }
    }
}

/// All of them, in order.
pub(super) fn all() -> [Story; 8] {
    [
        Story { title: "Queues and fair share", about: shares::ABOUT, plot: Plot::Shares },
        Story { title: "A gang: all or nothing", about: gang::ABOUT, plot: Plot::Gang },
        Story {
            title: "Preemption within a queue",
            about: preemption::ABOUT,
            plot: Plot::Preemption,
        },
        Story { title: "GPU sharing", about: sharing::ABOUT, plot: Plot::Sharing },
        Story { title: "Memory of a time-sliced GPU", about: slices::ABOUT, plot: Plot::Slices },
        Story { title: "Without GPU Operator", about: labels::ABOUT, plot: Plot::Labels },
        Story { title: "A Jetson Thor", about: jetson::ABOUT, plot: Plot::Jetson },
        Story { title: "GPU memory limits", about: memory::ABOUT, plot: Plot::Memory },
    ]
}
