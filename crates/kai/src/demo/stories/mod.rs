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

/// A walk-through before it is played.
pub(super) struct Story {
    /// Title of the walk-through.
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
    /// Plays the walk-through on a stage.
    pub(super) async fn play(&self, stage: &mut Stage) -> anyhow::Result<()> {
        match self.plot {
            Plot::Shares => shares::play(stage).await,
            Plot::Gang => gang::play(stage).await,
            Plot::Preemption => preemption::play(stage).await,
            Plot::Sharing => sharing::play(stage).await,
            Plot::Slices => slices::play(stage).await,
            Plot::Labels => labels::play(stage).await,
            Plot::Jetson => jetson::play(stage).await,
            Plot::Memory => memory::play(stage).await,
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
