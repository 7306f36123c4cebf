//! Pictures of a walk-through as SVG: the memory of every device, and when each pod waited, ran and left.

use std::fmt::Write;
use std::time::Duration;

use kai_embed::nodes::Device;

use super::page::escaped;
use super::recording::{PodState, Recording, Step};
use super::snapshot::NodeView;

/// Colours of pods: dark enough for white letters, light enough for a dark ground.
const HUES: [&str; 10] = [
    "#3b6fb6", "#c8691c", "#3c8f4a", "#c23b3b", "#2a8f8a", "#7d55a8", "#8a5a3c", "#c2558f",
    "#7f8021", "#56697d",
];

/// The colour of a pod: the same in all pictures of its walk-through.
pub(super) fn hue(pods: &[&str], pod: &str) -> &'static str {
    let at = pods.iter().position(|known| *known == pod).unwrap_or_default();
    HUES[at % HUES.len()]
}

const BAR_LEFT: f64 = 44.0;
const BAR_WIDTH: f64 = 330.0;
const ROW: f64 = 24.0;
/// About how wide a letter is in a bar.
const LETTER: f64 = 6.3;

/// The devices of a node, one bar each.
pub(super) fn devices(node: &NodeView, pods: &[&str]) -> String {
    let height = node.devices.len() as f64 * ROW + 4.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 500 {height}\" role=\"img\" aria-label=\"GPU memory of {}\">",
        escaped(&node.name)
    );
    for (device, row) in node.devices.iter().zip(0_u32..) {
        svg.push_str(&bar(device, f64::from(row) * ROW + 3.0, pods));
    }
    svg.push_str("</svg>");
    svg
}

fn bar(device: &Device, top: f64, pods: &[&str]) -> String {
    let middle = top + 13.0;
    let whole = device.memory_mib.max(1) as f64;
    let used: u64 = device.users.iter().map(|user| user.mib).sum();
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<text x=\"0\" y=\"{middle}\">gpu {}</text>\
         <rect class=\"free\" x=\"{BAR_LEFT}\" y=\"{top}\" width=\"{BAR_WIDTH}\" height=\"18\" rx=\"3\"/>",
        device.index
    );
    let mut left = BAR_LEFT;
    for user in &device.users {
        let width = (user.mib as f64 / whole * BAR_WIDTH).min(BAR_LEFT + BAR_WIDTH - left).max(2.0);
        let name = escaped(&user.pod.name);
        let _ = write!(
            svg,
            "<g><title>{name}: {} MiB</title>\
             <rect x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"18\" rx=\"3\" fill=\"{}\"/>",
            user.mib,
            width - 1.0,
            hue(pods, &user.pod.name)
        );
        if user.pod.name.chars().count() as f64 * LETTER + 8.0 < width {
            let _ = write!(
                svg,
                "<text class=\"on\" x=\"{:.1}\" y=\"{middle}\">{name}</text>",
                left + 5.0
            );
        }
        svg.push_str("</g>");
        left += width;
    }
    let _ = write!(
        svg,
        "<text class=\"amount\" x=\"500\" y=\"{middle}\">{used} / {} MiB</text>",
        device.memory_mib
    );
    svg
}

const LABEL_WIDTH: f64 = 150.0;
const ALL_WIDTH: f64 = 1100.0;
const HEAD: f64 = 26.0;
const POD_ROW: f64 = 20.0;

/// When each pod waited, started, ran and left: a column per step, as long as something happened in it.
pub(super) fn timeline(recording: &Recording) -> String {
    let pods = recording.pods();
    let step_width = (ALL_WIDTH - LABEL_WIDTH) / recording.steps.len().max(2) as f64;
    let width = LABEL_WIDTH + step_width * recording.steps.len() as f64;
    let bottom = HEAD + POD_ROW * pods.len() as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {}\" style=\"max-width:{width}px\" role=\"img\" aria-label=\"timeline\">",
        bottom + 20.0
    );
    for (step, column) in recording.steps.iter().zip(0_u32..) {
        let left = LABEL_WIDTH + f64::from(column) * step_width;
        let last = step.moments.last().map(|moment| moment.at).unwrap_or_default();
        let _ = write!(
            svg,
            "<rect class=\"column\" x=\"{left}\" y=\"4\" width=\"{}\" height=\"{:.0}\" rx=\"4\"/>\
             <text x=\"{}\" y=\"19\">step {}</text>\
             <text class=\"amount\" x=\"{}\" y=\"{}\">{}</text>",
            step_width - 6.0,
            bottom + 14.0,
            left + 6.0,
            column + 1,
            left + step_width - 12.0,
            bottom + 14.0,
            span_of(last),
        );
        svg.push_str(&spans(step, left, step_width, &pods));
    }
    for (pod, row) in pods.iter().zip(0_u32..) {
        let y = HEAD + f64::from(row) * POD_ROW + 13.0;
        let _ = write!(svg, "<text x=\"0\" y=\"{y}\">{}</text>", escaped(&shortened(pod)));
    }
    svg.push_str("</svg>");
    svg
}

/// What happened to every pod in a step.
fn spans(step: &Step, left: f64, width: f64, pods: &[&str]) -> String {
    let last = step.moments.last().map(|moment| moment.at).unwrap_or_default();
    // A little of how it stayed is shown too.
    let whole = last.as_secs_f64() * 1.25 + 0.2;
    let x = |at: f64| left + 4.0 + at / whole * (width - 16.0);
    let mut svg = String::new();
    for (at, moment) in step.moments.iter().enumerate() {
        let from = moment.at.as_secs_f64();
        let until = step.moments.get(at + 1).map_or(whole, |next| next.at.as_secs_f64());
        for (name, state) in moment.pods.values() {
            let Some(class) = class_of(*state) else { continue };
            let row = pods.iter().position(|pod| pod == name).unwrap_or_default();
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" style=\"--pod:{}\">\
                 <title>{}: {class}</title></rect>",
                x(from),
                HEAD + row as f64 * POD_ROW + 2.0,
                (x(until) - x(from)).max(1.0),
                hue(pods, name),
                escaped(name),
            );
        }
    }
    svg
}

fn class_of(state: PodState) -> Option<&'static str> {
    Some(match state {
        PodState::Waiting => "waiting",
        PodState::Starting => "starting",
        PodState::Running => "running",
        PodState::Leaving => "leaving",
        PodState::Ended => return None,
    })
}

fn span_of(span: Duration) -> String {
    match span.as_secs() {
        0 if span.is_zero() => String::new(),
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// A name that fits in front of a row.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 21;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use kai_embed::Key;
    use kai_embed::nodes::DeviceUse;

    use super::*;

    #[test]
    fn bar_shows_the_amount_of_each_pod() {
        let users = vec![DeviceUse { pod: Key::new("default", "a<b"), mib: 40 }];
        let (uuid, product) = (String::new(), String::new());
        let device = Device { index: 0, uuid, product, memory_mib: 80, users };
        let node = NodeView { name: "n".to_owned(), devices: vec![device] };
        let svg = devices(&node, &["a<b"]);
        assert!(svg.contains("a&lt;b: 40 MiB") && svg.contains("width=\"164.0\""), "{svg}");
        assert!(svg.contains("40 / 80 MiB"), "{svg}");
    }

    #[test]
    fn spans_are_shown_in_fitting_units() {
        assert_eq!(span_of(Duration::from_millis(1250)), "1.2 s");
        assert_eq!(span_of(Duration::from_secs(7300)), "2 h");
    }
}
