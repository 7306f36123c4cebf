//! Queues as a table for people.

use kai_core::fairness::QueueResource;
use kai_core::fairness::text::shown_amount;
use kai_core::input::Text;

/// One resource of one queue.
pub(super) struct Row {
    pub(super) queue: Text,
    pub(super) resource: QueueResource,
    pub(super) quota: f64,
    pub(super) fair_share: Option<f64>,
    pub(super) used: f64,
    pub(super) limit: f64,
}

const HEAD: [&str; 6] = ["QUEUE", "RESOURCE", "QUOTA", "FAIR SHARE", "USED", "LIMIT"];

/// The rows below a head, columns in line; a queue is named once.
pub(super) fn table(rows: &[Row]) -> String {
    let mut lines: Vec<[String; 6]> = vec![HEAD.map(str::to_owned)];
    let mut latest: Option<&Text> = None;
    for row in rows {
        let shown = |amount: f64| shown_amount(amount, row.resource);
        let name = if latest == Some(&row.queue) { String::new() } else { row.queue.to_string() };
        latest = Some(&row.queue);
        lines.push([
            name,
            unit(row.resource).to_owned(),
            shown(row.quota),
            row.fair_share.map_or_else(|| "-".to_owned(), shown),
            shown(row.used),
            shown(row.limit),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |line: &[String; 6]| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

fn unit(resource: QueueResource) -> &'static str {
    match resource {
        QueueResource::Cpu => "CPU (cores)",
        QueueResource::Memory => "memory (GB)",
        QueueResource::Gpu => "GPUs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_line() {
        let row = |resource: QueueResource, limit: f64| Row {
            queue: "team".into(),
            resource,
            quota: 0.0,
            fair_share: (resource == QueueResource::Gpu).then_some(1.5),
            used: 1000.0,
            limit,
        };
        let text = table(&[row(QueueResource::Cpu, -1.0), row(QueueResource::Gpu, 2.0)]);
        assert_eq!(
            text,
            "QUEUE  RESOURCE     QUOTA  FAIR SHARE  USED  LIMIT\n\
             team   CPU (cores)  0      -           1     Unlimited\n\
             \u{20}      GPUs         0      1.5         1000  2\n"
        );
    }
}
