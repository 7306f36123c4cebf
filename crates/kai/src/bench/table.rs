//! The measurements as a table that fits a terminal.

use std::fmt::Write;

use kai_sim::bench::Case;

use super::goals::{self, Reference};
use super::measure::Measurement;

/// One line of the table.
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) measurement: Measurement,
    /// A smaller size, and by how much instructions grew from it.
    pub(super) growth: Option<(usize, f64)>,
}

const NOTHING: &str = "–";
const NAME_WIDTH: usize = 18;
const COLUMNS: [(&str, usize); 9] = [
    ("build ms", 9),
    ("cycle ms", 10),
    ("pods/s", 8),
    ("work", 7),
    ("MB", 6),
    ("growth", 8),
    ("target", 8),
    ("KAI", 8),
    ("faster", 8),
];

/// All rows and what the columns mean.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = format!("{:<NAME_WIDTH$}", "case");
    for (title, width) in COLUMNS {
        let _ = write!(text, "{title:>width$}");
    }
    text.push('\n');
    for row in rows {
        let _ = write!(text, "{:<NAME_WIDTH$}", row.case.to_string());
        for (cell, (_, width)) in cells(row).iter().zip(COLUMNS) {
            let _ = write!(text, "{cell:>width$}");
        }
        text.push('\n');
    }
    text + &notes(rows)
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let Row { case, measurement, growth } = row;
    let reference = goals::reference(*case);
    let or_nothing = |cell: Option<String>| cell.unwrap_or_else(|| NOTHING.to_owned());
    let mark = if measurement.mismatch.is_some() { "!" } else { "" };
    let once = if measurement.cycles < 5 { "*" } else { "" };
    [
        time(measurement.build_ms),
        format!("{mark}{once}{}", time(measurement.cycle_ms)),
        count(measurement.pods_per_s()),
        count(measurement.work_units as f64),
        format!("{:.0}", measurement.peak_rss_mb),
        or_nothing(growth.map(|(_, times)| format!("{times:.2}×"))),
        or_nothing(goals::target_ms(*case).map(time)),
        or_nothing(reference.map(reference_time)),
        or_nothing(reference.map(|reference| faster(reference, measurement.cycle_ms))),
    ]
}

fn reference_time(Reference { seconds, at_least }: Reference) -> String {
    format!("{}{seconds} s", if at_least { ">" } else { "" })
}

fn faster(reference: Reference, cycle_ms: f64) -> String {
    let times = reference.seconds * 1e3 / cycle_ms;
    let sign = if reference.at_least { ">" } else { "" };
    format!("{sign}{}×", count(times))
}

/// Milliseconds with three digits that matter.
fn time(milliseconds: f64) -> String {
    let decimals = match milliseconds {
        small if small < 1.0 => 3,
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    format!("{milliseconds:.decimals$}")
}

/// A count, shortened.
fn count(number: f64) -> String {
    match number {
        small if small < 10.0 => format!("{small:.1}"),
        small if small < 10_000.0 => format!("{small:.0}"),
        thousands if thousands < 10_000_000.0 => format!("{:.0}k", thousands / 1e3),
        millions => format!("{:.0}M", millions / 1e6),
    }
}

fn notes(rows: &[Row]) -> String {
    let mut notes = String::new();
    if rows.iter().any(|row| row.measurement.cycles < 5) {
        notes.push_str("* fewer than five cycles, as one takes over 10 s\n");
    }
    if rows.iter().any(|row| row.measurement.mismatch.is_some()) {
        notes.push_str("! wrong outcome\n");
    }
    for row in rows {
        let (Some((size, times)), Some(most)) = (row.growth, goals::most_growth(row.case)) else {
            continue;
        };
        if times > most {
            let case = row.case;
            let _ = writeln!(notes, "{case} grows {times:.2}× from {size}, more than {most}×");
        }
    }
    notes
}
