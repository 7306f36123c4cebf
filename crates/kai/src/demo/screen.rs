//! Walk-throughs for people at a terminal, and as plain text elsewhere.

use std::fmt::Write;
use std::io::BufRead;
use std::time::Duration;

use super::paint::{Ink, Paint, bar, yaml_lines};
use super::recording::{Exhibit, Recording, Step};
use super::snapshot::{Decision, NodeView, PodView, QueueView};
use crate::output;
use crate::text_layout::{table, wrapped};

/// Cells of a bar, and of one on a narrow terminal.
const BAR_WIDTH: usize = 24;
const NARROW_BAR_WIDTH: usize = 12;
/// Lines longer than this are hard to read.
const WIDEST: usize = 100;
/// How long a step stays on a terminal before the next.
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
    pub(super) fn open(self, recording: &Recording) -> anyhow::Result<()> {
        let title = format!("{}. {}", recording.number, recording.title);
        let line = "─".repeat(title.chars().count());
        let about = wrapped(recording.about, width(), "");
        Ok(output::print(&format!("{}\n{line}\n{about}\n", self.paint.text(Ink::Title, &title)))?)
    }

    /// What is about to be done.
    pub(super) fn announce(self, what: &str, manifest: Option<&str>) -> anyhow::Result<()> {
        let what = wrapped(&format!("▸ {what}"), width(), "");
        let mut text = self.paint.text(Ink::Title, &what);
        let lines = manifest.unwrap_or_default().trim().lines();
        for line in lines.flat_map(|line| yaml_lines(line, width().saturating_sub(4))) {
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
        if !step.after.queues.is_empty() {
            text.push_str(&self.queues(&step.after.queues));
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
                self.paint.text(Ink::Bad, &format!("  ✗ {pod} was evicted from {node}\n"))
            }
            Decision::Because(why) => self.paint.text(Ink::Faint, &wrapped(why, width(), "      ")),
            Decision::Placed(pod, node) => {
                self.paint.text(Ink::Good, &format!("  ✓ {pod} was placed on {node}\n"))
            }
        }
    }

    /// Pods as a table, and under it the reasons of pending pods.
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

    fn queues(self, queues: &[QueueView]) -> String {
        let head = ["QUEUE", "PARENT", "GPU QUOTA", "ALLOCATED", "REQUESTED"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for queue in queues {
            let QueueView { name, parent, quota, allocated, requested } = queue.clone();
            let parent = if parent.is_empty() { "-".to_owned() } else { parent };
            rows.push(vec![name, parent, quota, allocated, requested]);
        }
        let mut text = String::new();
        for (at, line) in table(&rows, "  ").lines().enumerate() {
            let line = if at == 0 { self.paint.text(Ink::Faint, line) } else { line.to_owned() };
            text.push_str(&line);
            text.push('\n');
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
            let bar = bar(self.paint, &parts, device.memory_mib, bar_width());
            let start = format!("  {:<name_width$} gpu {} [", node.name, device.index);
            let end = format!("] {used:>6} of {} MiB  ", device.memory_mib);
            let start_width = start.chars().count() + bar_width() + end.chars().count();
            let names = device.users.iter().zip(&parts);
            let names = names.map(|(user, (hue, _))| (user.pod.name.as_str(), *hue));
            let names = self.names(names.collect(), start_width);
            let _ = writeln!(text, "{}", format!("{start}{bar}{end}{names}").trim_end());
        }
        text
    }

    /// Names in their colours, separated by commas; names that do not fit continue on lines with `indent` columns.
    fn names(self, names: Vec<(&str, usize)>, indent: usize) -> String {
        let (mut text, mut column, last) = (String::new(), indent, names.len().saturating_sub(1));
        for (at, (name, hue)) in names.into_iter().enumerate() {
            let end = if at == last { "" } else { "," };
            let size = name.chars().count() + end.len();
            if at > 0 && column + 1 + size > width() {
                let _ = write!(text, "\n{:indent$}", "");
                column = indent;
            } else if at > 0 {
                text.push(' ');
                column += 1;
            }
            text.push_str(&self.paint.hued(hue, name));
            text.push_str(end);
            column += size;
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
                output::complain("— press Enter to continue —");
                std::io::stdin().lock().read_line(&mut String::new())?;
            }
        }
        Ok(())
    }
}

fn width() -> usize {
    output::width().min(WIDEST)
}

fn bar_width() -> usize {
    if width() < WIDEST { NARROW_BAR_WIDTH } else { BAR_WIDTH }
}

/// Reasons of pending pods, each with the names of its pods.
pub(super) fn reasons<'a>(pods: &[&'a PodView]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for pod in pods {
        let Some(reason) = &pod.reason else { continue };
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(&pod.name),
            None => by_reason.push((reason, vec![&pod.name])),
        }
    }
    by_reason
}
