//! The measurements as a table that fits a terminal.

use std::fmt::Write;

use kai_sim::bench::Case;

use super::goals::{self, Reference};
use super::measure::{FEWEST_CYCLES, Measurement};

/// One line of the table.
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) measurement: Measurement,
    pub(super) naive: Naive,
    /// A smaller size, and by how much instructions grew from it.
    pub(super) growth: Option<(usize, f64)>,
}

/// How a search without shortcuts compares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Naive {
    /// The measurement was not requested.
    Unknown,
    /// It takes so many times as long.
    Known { times: f64, same_plan: bool },
    /// It was ended after so many times as long.
    TooSlow { times: f64 },
}

impl Row {
    /// What is wrong with the outcome, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let differs = matches!(self.naive, Naive::Known { same_plan: false, .. });
        let mismatch = self.measurement.mismatch.as_deref();
        let fault = mismatch.or(differs.then_some("differs from a search without shortcuts"))?;
        Some(format!("{}: {fault}", self.case))
    }
}

const NOTHING: &str = "–";
const NAME_WIDTH: usize = 18;
/// Legend below every table.
const LEGEND: &str = "\
cycle: median; MB: memory once built, peak: at most; growth: instructions, from the size above;
target and KAI: on an idle machine of two cores; faster: than KAI; naive: slower without shortcuts
";
const COLUMNS: [(&str, usize); 11] = [
    ("build ms", 9),
    ("cycle ms", 9),
    ("pods/s", 7),
    ("work", 7),
    ("MB", 5),
    ("peak", 5),
    ("growth", 7),
    ("target", 7),
    ("KAI", 7),
    ("faster", 8),
    ("naive", 7),
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
    text + &footnotes(rows)
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let Row { case, measurement, naive, growth } = row;
    let reference = goals::reference(*case);
    let or_nothing = |cell: Option<String>| cell.unwrap_or_else(|| NOTHING.to_owned());
    let mark = if row.fault().is_some() { "!" } else { "" };
    let once = if measurement.cycles < FEWEST_CYCLES { "*" } else { "" };
    [
        time(measurement.build_ms),
        format!("{mark}{once}{}", time(measurement.cycle_ms)),
        count(measurement.pods_per_s()),
        count(measurement.work_units as f64),
        format!("{:.0}", measurement.world_rss_mb),
        format!("{:.0}", measurement.peak_rss_mb),
        or_nothing(growth.map(|(_, times)| format!("{times:.2}×"))),
        or_nothing(goals::target_ms(*case).map(time)),
        or_nothing(reference.map(reference_time)),
        or_nothing(reference.map(|reference| faster(reference, measurement.cycle_ms))),
        match *naive {
            Naive::Unknown => NOTHING.to_owned(),
            Naive::Known { times, .. } => format!("{}×", count(times)),
            Naive::TooSlow { times } => format!(">{}×", count(times)),
        },
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

/// A count with a suffix, such as `12k`.
fn count(number: f64) -> String {
    match number {
        small if small < 10.0 => format!("{small:.1}"),
        small if small < 10_000.0 => format!("{small:.0}"),
        thousands if thousands < 10_000_000.0 => format!("{:.0}k", thousands / 1e3),
        millions => format!("{:.0}M", millions / 1e6),
    }
}

fn footnotes(rows: &[Row]) -> String {
    let mut footnotes = LEGEND.to_owned();
    if rows.iter().any(|row| row.measurement.cycles < FEWEST_CYCLES) {
        footnotes.push_str("* fewer than five cycles, as one takes over 10 s\n");
    }
    if rows.iter().any(|row| row.fault().is_some()) {
        footnotes.push_str("! wrong outcome\n");
    }
    for row in rows {
        let (Some((size, times)), Some(most)) = (row.growth, goals::most_growth(row.case)) else {
            continue;
        };
        if times > most {
            let case = row.case;
            let _ =
                writeln!(footnotes, "{case} grows {times:.2}× from {size}, more than {most:.1}×");
        }
    }
    footnotes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, cycle_ms: f64) -> Row {
        let measurement = Measurement {
            name: name.to_owned(),
            nodes: 5000,
            pods: 80_000,
            build_ms: 12_345.0,
            cycle_ms,
            cycles: 1,
            pods_decided: 80_000,
            work_units: 123_456_789,
            world_rss_mb: 1234.0,
            peak_rss_mb: 1234.0,
            digest: 0,
            mismatch: Some("nothing moved".to_owned()),
        };
        let naive = Naive::TooSlow { times: 12_345.0 };
        Row { case: name.parse().unwrap(), measurement, naive, growth: Some((1000, 12.34)) }
    }

    #[test]
    fn it_fits_a_terminal() {
        let text = text(&[row("reclaim-large-5000", 12_345.0), row("reclaim-no-500", 98_765.4)]);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        assert!(text.contains("grows 12.34× from 1000, more than 5.6×"), "{text}");
        assert!(text.contains("! wrong outcome") && text.contains("!*12345"), "{text}");
        assert!(text.contains(">124 s") && text.contains(">1.3×"), "{text}");
    }

    #[test]
    fn a_plan_that_differs_from_the_naive_one_is_a_fault() {
        let mut row = row("steady-100", 1.0);
        assert_eq!(row.fault().as_deref(), Some("steady-100: nothing moved"));
        row.measurement.mismatch = None;
        assert_eq!(row.fault(), None);
        row.naive = Naive::Known { times: 2.0, same_plan: false };
        assert!(row.fault().is_some());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.1234, 1.234, 12.34, 123.4].map(time), ["0.123", "1.23", "12.3", "123"]);
        assert_eq!([1.25, 1234.0, 12_345.0, 1.2e7].map(count), ["1.2", "1234", "12k", "12M"]);
    }
}
