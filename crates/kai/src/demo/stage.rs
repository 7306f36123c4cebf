//! Plays walk-throughs: announces a step, runs it, records the result.

use kai_embed::nodes::NodeProfile;
use serde_json::Value;

use super::recording::{Exhibit, Moment, Recording, Step};
use super::screen::Screen;
use super::snapshot::Snapshot;
use super::stories::Story;
use crate::embedded::{VirtualCluster, play};

/// Where one walk-through is played.
pub(super) struct Stage {
    cluster: VirtualCluster,
    /// The terminal that shows the steps.
    screen: Option<Screen>,
    recording: Recording,
    before: Snapshot,
}

impl Stage {
    /// Plays a walk-through on a cluster of its own.
    pub(super) fn play(
        number: usize,
        story: &Story,
        screen: Option<Screen>,
    ) -> anyhow::Result<Recording> {
        play(async |cluster| {
            let recording =
                Recording { number, title: story.title, about: story.about, steps: Vec::new() };
            let mut stage = Self { cluster, screen, recording, before: Snapshot::default() };
            if let Some(screen) = screen {
                screen.open(&stage.recording)?;
            }
            story.play(&mut stage).await?;
            Ok(stage.recording)
        })
    }

    /// Adds nodes; they are shown with the next step.
    pub(super) fn nodes(&mut self, nodes: &[NodeProfile]) -> anyhow::Result<()> {
        nodes.iter().try_for_each(|node| self.cluster.add_node(node))
    }

    /// Creates what a manifest says without showing it.
    pub(super) fn set_up(&mut self, manifest: &str) -> anyhow::Result<()> {
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifest)?;
        objects.iter().try_for_each(|object| self.cluster.make(object))
    }

    /// Shows a manifest, creates what it says, and shows what became of it.
    pub(super) async fn apply(&mut self, what: &str, manifest: &str) -> anyhow::Result<()> {
        self.announce(what, Some(manifest))?;
        self.set_up(manifest)?;
        self.conclude(what, Some(manifest), |_| Vec::new()).await
    }

    /// Does something else and shows what became of it.
    pub(super) async fn act(
        &mut self,
        what: &str,
        act: impl FnOnce(&VirtualCluster) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.announce(what, None)?;
        act(&self.cluster)?;
        self.conclude(what, None, |_| Vec::new()).await
    }

    /// Creates the objects of a manifest and shows exhibits of the result.
    pub(super) async fn examine(
        &mut self,
        what: &str,
        manifest: &str,
        look: impl FnOnce(&VirtualCluster) -> Vec<Exhibit>,
    ) -> anyhow::Result<()> {
        self.announce(what, Some(manifest))?;
        self.set_up(manifest)?;
        self.conclude(what, Some(manifest), look).await
    }

    fn announce(&self, what: &str, manifest: Option<&str>) -> anyhow::Result<()> {
        self.screen.map_or(Ok(()), |screen| screen.announce(what, manifest))
    }

    /// Waits until the cluster settles, then records and shows its state.
    async fn conclude(
        &mut self,
        what: &str,
        manifest: Option<&str>,
        look: impl FnOnce(&VirtualCluster) -> Vec<Exhibit>,
    ) -> anyhow::Result<()> {
        let mut moments = Vec::new();
        self.cluster
            .settle_watched(|cluster, at| Step::note(&mut moments, Moment::of(cluster, at)))
            .await;
        let after = self.cluster.look(|cluster| Snapshot::of(cluster));
        let step = Step {
            what: what.to_owned(),
            manifest: manifest.map(|text| text.trim().to_owned()),
            decisions: after.since(&self.before),
            after: after.clone(),
            moments,
            exhibits: look(&self.cluster),
        };
        if let Some(screen) = self.screen {
            screen.show(&step)?;
        }
        self.before = after;
        self.recording.steps.push(step);
        Ok(())
    }
}
