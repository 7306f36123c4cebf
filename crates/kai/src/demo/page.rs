//! All walk-throughs as one page that needs nothing else.

use std::fmt::Write;

use super::picture::{devices, hue, timeline};
use super::recording::{Recording, Step};
use super::screen::reasons;
use super::snapshot::{Decision, PodView};

const STYLE: &str = include_str!("page.css");

/// One self-contained HTML page with all walk-throughs.
pub(super) fn page(recordings: &[Recording]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>kai demo</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>kai <span>demo</span></h1>\n<p>Walk-throughs of the scheduler at work, played by <code>kai demo</code> on an \
         embedded cluster in virtual time: no cluster and no GPU were used.</p>\n<nav>\n"
    );
    for recording in recordings {
        let (number, title) = (recording.number, escaped(recording.title));
        let _ = writeln!(html, "<a href=\"#story-{number}\"><b>{number}</b> {title}</a>");
    }
    html.push_str("</nav></header>\n<main>\n");
    for recording in recordings {
        html.push_str(&story(recording));
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn story(recording: &Recording) -> String {
    let (number, title) = (recording.number, escaped(recording.title));
    let mut html = format!(
        "<section id=\"story-{number}\">\n<h2><b>{number}</b> {title}</h2>\n<p class=\"about\">{}</p>\n",
        escaped(recording.about)
    );
    let pods = recording.pods();
    for (step, at) in recording.steps.iter().zip(1..) {
        html.push_str(&shown(step, at, &pods));
    }
    if !pods.is_empty() {
        let _ = writeln!(
            html,
            "<figure class=\"timeline\"><figcaption>Timeline <span class=\"key waiting\">waits</span> \
             <span class=\"key starting\">starts</span> <span class=\"key running\">runs</span> \
             <span class=\"key leaving\">leaves</span></figcaption><div class=\"wide\">{}</div></figure>",
            timeline(recording)
        );
    }
    html.push_str("</section>\n");
    html
}

fn shown(step: &Step, at: usize, pods: &[&str]) -> String {
    let mut html = format!(
        "<article>\n<h3><b>{at}</b> {}</h3>\n<div class=\"step\"><div>\n",
        escaped(&step.what)
    );
    if let Some(manifest) = &step.manifest {
        let _ = writeln!(
            html,
            "<details><summary>manifest</summary><pre>{}</pre></details>",
            escaped(manifest)
        );
    }
    if !step.decisions.is_empty() {
        html.push_str("<ul class=\"decisions\">");
        step.decisions.iter().for_each(|decision| html.push_str(&decided(decision)));
        html.push_str("</ul>\n");
    }
    let sorted = step.after.sorted();
    if !sorted.is_empty() {
        html.push_str(&table(&sorted, pods));
    }
    for (reason, names) in reasons(&sorted) {
        let waits = if names.len() == 1 { "waits" } else { "wait" };
        let names = names.join(", ");
        let _ = writeln!(
            html,
            "<div class=\"reason\"><b>{} {waits}</b><br>{}</div>",
            escaped(&names),
            escaped(reason)
        );
    }
    html.push_str("</div><div class=\"nodes\">\n");
    for node in step.after.nodes.iter().filter(|node| !node.devices.is_empty()) {
        let _ = writeln!(
            html,
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escaped(&node.name),
            devices(node, pods)
        );
    }
    html.push_str("</div></div>\n");
    if !step.exhibits.is_empty() {
        html.push_str("<div class=\"exhibits\">");
        for exhibit in &step.exhibits {
            let (title, text) = (escaped(&exhibit.title), escaped(&exhibit.text));
            let _ =
                write!(html, "<figure><figcaption>{title}</figcaption><pre>{text}</pre></figure>");
        }
        html.push_str("</div>\n");
    }
    html.push_str("</article>\n");
    html
}

fn decided(decision: &Decision) -> String {
    match decision {
        Decision::Left(pod, node) => {
            format!(
                "<li class=\"left\"><b>{}</b> was evicted from <span>{}</span></li>",
                escaped(pod),
                escaped(node)
            )
        }
        Decision::Because(why) => format!("<li class=\"because\">{}</li>", escaped(why)),
        Decision::Placed(pod, node) => {
            format!("<li class=\"placed\"><b>{}</b> → {}</li>", escaped(pod), escaped(node))
        }
    }
}

fn table(rows: &[&PodView], pods: &[&str]) -> String {
    let mut html =
        "<div class=\"wide\"><table><tr><th>pod<th>queue<th>GPUs<th>phase<th>node</tr>\n"
            .to_owned();
    for pod in rows {
        let _ = writeln!(
            html,
            "<tr class=\"{}\"><td><i style=\"background:{}\"></i>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escaped(&pod.phase.to_lowercase()),
            hue(pods, &pod.name),
            escaped(&pod.name),
            escaped(&pod.queue),
            escaped(&pod.gpus),
            escaped(&pod.phase),
            if pod.node.is_empty() { "–".to_owned() } else { escaped(&pod.node) },
        );
    }
    html.push_str("</table></div>\n");
    html
}

/// A text as HTML shows it.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
    html
}
