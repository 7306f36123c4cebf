//! Where walk-throughs are played: shows a step, lets it happen, shows what became of it.

use std::fmt::Write;
use std::io::BufRead;
use std::time::Duration;

use kai_embed::nodes::NodeProfile;
use serde_json::Value;

use super::paint::{Ink, Paint, bar, table, wrapped};
use super::snapshot::{Decision, NodeView, PodView, Snapshot};
use super::stories::Story;
use crate::embedded::{VirtualCluster, play};
use crate::output;

const BAR_WIDTH: usize = 24;
/// For people who watch: how long a step stays before the next.
const PAUSE: Duration = Duration::from_millis(1800);

/// How the steps follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    Timed,
    ByKey,
}

/// Where one walk-through is played.
pub(super) struct Stage {
    cluster: VirtualCluster,
    paint: Paint,
    pace: Pace,
    before: Snapshot,
    steps: usize,
}

impl Stage {
    /// Plays a walk-through on a cluster of its own.
    pub(super) fn play(number: usize, story: &Story, pace: Pace) -> anyhow::Result<()> {
        play(async |cluster| {
            let paint = Paint { coloured: output::is_terminal() };
            let mut stage = Self { cluster, paint, pace, before: Snapshot::default(), steps: 0 };
            let title = format!("{number}. {}", story.title);
            output::print(&format!(
                "{}\n{}\n",
                paint.text(Ink::Title, &title),
                "─".repeat(title.chars().count())
            ))?;
            output::print(&wrapped(story.about, output::width().min(100), ""))?;
            output::print("\n")?;
            story.tell(&mut stage).await?;
            Ok(())
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
        self.announce(what)?;
        let shown: String = manifest.trim().lines().fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "    {line}");
            all
        });
        output::print(&self.paint.text(Ink::Faint, &shown))?;
        self.set_up(manifest)?;
        self.show().await
    }

    /// Does something else and shows what became of it.
    pub(super) async fn act(
        &mut self,
        what: &str,
        act: impl FnOnce(&VirtualCluster) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.announce(what)?;
        act(&self.cluster)?;
        self.show().await
    }

    fn announce(&mut self, what: &str) -> anyhow::Result<()> {
        self.steps += 1;
        let text = format!("▸ {what}\n");
        Ok(output::print(&self.paint.text(Ink::Title, &text))?)
    }

    /// Lets everything settle and shows it.
    async fn show(&mut self) -> anyhow::Result<()> {
        self.cluster.settle().await;
        let after = self.cluster.look(|cluster| Snapshot::of(cluster));
        let mut text = String::new();
        for decision in after.since(&self.before) {
            text.push_str(&self.decision(&decision));
        }
        text.push('\n');
        text.push_str(&self.pods(&after.sorted()));
        text.push('\n');
        for node in &after.nodes {
            text.push_str(&devices(node));
        }
        text.push('\n');
        output::print(&text)?;
        self.before = after;
        self.pause()
    }

    fn decision(&self, decision: &Decision) -> String {
        let width = output::width().min(100);
        match decision {
            Decision::Left(pod, node) => {
                self.paint.text(Ink::Bad, &format!("  ✗ {pod} was told to leave {node}\n"))
            }
            Decision::Because(why) => {
                let lines = wrapped(why, width, "      ");
                self.paint.text(Ink::Faint, &lines)
            }
            Decision::Placed(pod, node) => {
                self.paint.text(Ink::Good, &format!("  ✓ {pod} was placed on {node}\n"))
            }
        }
    }

    /// Pods as a table, and under it what those that wait were told.
    fn pods(&self, pods: &[&PodView]) -> String {
        let mut rows = vec![["POD", "QUEUE", "GPUS", "PHASE", "NODE"].map(str::to_owned).to_vec()];
        for pod in pods {
            let node = if pod.node.is_empty() { "-" } else { &pod.node };
            rows.push(vec![
                pod.name.clone(),
                pod.queue.clone(),
                pod.gpus.to_string(),
                pod.phase.clone(),
                node.to_owned(),
            ]);
        }
        let mut text = table(&rows, "  ");
        let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
        for pod in pods {
            let Some(reason) = &pod.reason else { continue };
            match told.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(&pod.name),
                None => told.push((reason, vec![&pod.name])),
            }
        }
        for (reason, names) in told {
            let waits = if names.len() == 1 { "waits" } else { "wait" };
            let line = format!("  … {} {waits}:\n", names.join(", "));
            text.push_str(&self.paint.text(Ink::Waiting, &line));
            text.push_str(&wrapped(reason, output::width().min(100), "      "));
        }
        text
    }

    fn pause(&self) -> anyhow::Result<()> {
        match self.pace {
            Pace::AtOnce => {}
            Pace::Timed => output::wait(PAUSE),
            Pace::ByKey => {
                output::complain("— Enter to go on —");
                std::io::stdin().lock().read_line(&mut String::new())?;
            }
        }
        Ok(())
    }
}

/// A bar per device; each pod has a letter.
fn devices(node: &NodeView) -> String {
    let mut text = String::new();
    let mut letters: Vec<&str> = Vec::new();
    let mut pods: Vec<&str> = node
        .devices
        .iter()
        .flat_map(|device| &device.users)
        .map(|user| user.pod.name.as_str())
        .collect();
    pods.sort_unstable();
    pods.dedup();
    letters.extend(pods);
    for device in &node.devices {
        let parts: Vec<(char, u64)> = device
            .users
            .iter()
            .map(|user| {
                let at = letters.iter().position(|pod| *pod == user.pod.name).unwrap_or_default();
                (char::from(b'a' + (at % 26) as u8), user.mib)
            })
            .collect();
        let used: u64 = device.users.iter().map(|user| user.mib).sum();
        let names: Vec<&str> = device.users.iter().map(|user| user.pod.name.as_str()).collect();
        let line = format!(
            "  {} gpu {} [{}] {used:>6} of {} MiB  {}",
            node.name,
            device.index,
            bar(&parts, device.memory_mib, BAR_WIDTH),
            device.memory_mib,
            names.join(", "),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
