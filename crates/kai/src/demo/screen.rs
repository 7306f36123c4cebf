//! Walk-throughs for people at a terminal, and as plain text elsewhere.

use std::fmt::Write;
use std::io::BufRead;
use std::time::Duration;

use super::paint::{Ink, Paint, bar, table, wrapped};
use super::snapshot::{Decision, NodeView, PodView};
use super::telling::{Exhibit, Step, Telling};
use crate::output;

const BAR_WIDTH: usize = 24;
/// Lines longer than this are hard to read.
const WIDEST: usize = 100;
/// For people who watch: how long a step stays before the next.
const PAUSE: Duration = Duration::from_millis(1100);

/// How the steps follow each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    Timed,
    ByKey,
}

/// Where walk-throughs are shown.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    pub(super) paint: Paint,
    pub(super) pace: Pace,
}

impl Screen {
    /// The title, and what to look for.
    pub(super) fn open(self, telling: &Telling) -> anyhow::Result<()> {
        let title = format!("{}. {}", telling.number, telling.title);
        let line = "─".repeat(title.chars().count());
        let about = wrapped(telling.about, width(), "");
        Ok(output::print(&format!("{}\n{line}\n{about}\n", self.paint.text(Ink::Title, &title)))?)
    }

    /// What is about to be done.
    pub(super) fn announce(self, what: &str, manifest: Option<&str>) -> anyhow::Result<()> {
        let mut text = self.paint.text(Ink::Title, &format!("▸ {what}\n"));
        for line in manifest.unwrap_or_default().trim().lines() {
            text.push_str(&self.paint.text(Ink::Faint, &format!("    {line}")));
            text.push('\n');
        }
        Ok(output::print(&text)?)
    }

    /// What came of it.
    pub(super) fn show(self, step: &Step) -> anyhow::Result<()> {
        let mut text = String::new();
        for decision in &step.decisions {
            text.push_str(&self.decision(decision));
        }
        text.push('\n');
        let pods = step.after.sorted();
        if !pods.is_empty() {
            text.push_str(&self.pods(&pods));
            text.push('\n');
        }
        let longest = step.after.nodes.iter().map(|node| node.name.chars().count()).max();
        for node in &step.after.nodes {
            text.push_str(&self.devices(node, longest.unwrap_or_default()));
        }
        for exhibit in &step.exhibits {
            text.push_str(&self.exhibit(exhibit));
        }
        text.push('\n');
        output::print(&text)?;
        self.pause()
    }

    fn decision(self, decision: &Decision) -> String {
        match decision {
            Decision::Left(pod, node) => {
                self.paint.text(Ink::Bad, &format!("  ✗ {pod} was told to leave {node}\n"))
            }
            Decision::Because(why) => self.paint.text(Ink::Faint, &wrapped(why, width(), "      ")),
            Decision::Placed(pod, node) => {
                self.paint.text(Ink::Good, &format!("  ✓ {pod} was placed on {node}\n"))
            }
        }
    }

    /// Pods as a table, and under it what those that wait were told.
    fn pods(self, pods: &[&PodView]) -> String {
        let mut rows = vec![["POD", "QUEUE", "GPUS", "PHASE", "NODE"].map(str::to_owned).to_vec()];
        for pod in pods {
            let node = if pod.node.is_empty() { "-" } else { &pod.node };
            rows.push(vec![
                pod.name.clone(),
                pod.queue.clone(),
                pod.gpus.clone(),
                pod.phase.clone(),
                node.to_owned(),
            ]);
        }
        let mut text = String::new();
        for (at, line) in table(&rows, "  ").lines().enumerate() {
            let row = match at.checked_sub(1).map(|at| pods[at].phase.as_str()) {
                None => self.paint.text(Ink::Faint, line),
                Some(phase) => self.paint.pod_row(phase, line),
            };
            text.push_str(&row);
            text.push('\n');
        }
        for (reason, names) in reasons(pods) {
            let waits = if names.len() == 1 { "waits" } else { "wait" };
            let line = format!("  … {} {waits}:\n", names.join(", "));
            text.push_str(&self.paint.text(Ink::Waiting, &line));
            text.push_str(&wrapped(reason, width(), "      "));
        }
        text
    }

    /// A bar per device; each pod has a letter, or a colour where there are colours.
    fn devices(self, node: &NodeView, name_width: usize) -> String {
        let letters = node.users();
        let mut text = String::new();
        for device in &node.devices {
            let parts: Vec<(usize, u64)> = device
                .users
                .iter()
                .map(|user| {
                    let at = letters.iter().position(|pod| *pod == user.pod.name);
                    (at.unwrap_or_default(), user.mib)
                })
                .collect();
            let used: u64 = device.users.iter().map(|user| user.mib).sum();
            let names: Vec<String> = device
                .users
                .iter()
                .zip(&parts)
                .map(|(user, (hue, _))| self.paint.hued(*hue, &user.pod.name))
                .collect();
            let line = format!(
                "  {:<name_width$} gpu {} [{}] {used:>6} of {} MiB  {}",
                node.name,
                device.index,
                bar(self.paint, &parts, device.memory_mib, BAR_WIDTH),
                device.memory_mib,
                names.join(", "),
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    fn exhibit(self, exhibit: &Exhibit) -> String {
        let mut text = self.paint.text(Ink::Title, &format!("\n  {}\n", exhibit.title));
        for line in exhibit.text.lines() {
            let _ = writeln!(text, "    {line}");
        }
        text
    }

    fn pause(self) -> anyhow::Result<()> {
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

fn width() -> usize {
    output::width().min(WIDEST)
}

/// What pods that wait were told, and which.
pub(super) fn reasons<'a>(pods: &[&'a PodView]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut told: Vec<(&str, Vec<&str>)> = Vec::new();
    for pod in pods {
        let Some(reason) = &pod.reason else { continue };
        match told.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(&pod.name),
            None => told.push((reason, vec![&pod.name])),
        }
    }
    told
}
