//! Lines of the log as they are written: one line per event whatever its fields hold, and no flood of the same warning.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How many lines of the same warning are written at once.
const BURST: f64 = 100.0;
/// How many more per second.
const PER_SECOND: f64 = 2.0;

/// The place in the source that a line comes from.
type Place = (&'static str, u32);

/// Writes lines to what `open` opens.
pub(super) struct BoundedLines<F> {
    json: bool,
    open: F,
    warnings: Mutex<BTreeMap<Place, Warning>>,
}

/// What is remembered of a warning.
struct Warning {
    /// Lines that may still be written.
    lines: f64,
    updated: Instant,
    suppressed: u64,
}

impl Warning {
    /// Whether a line may be written now, and how many were not since the latest that was.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.lines = (self.lines + passed * PER_SECOND).min(BURST);
        self.updated = now;
        if self.lines < 1.0 {
            self.suppressed += 1;
            return None;
        }
        self.lines -= 1.0;
        Some(std::mem::take(&mut self.suppressed))
    }
}

impl<F> BoundedLines<F> {
    pub(super) fn new(json: bool, open: F) -> Self {
        Self { json, open, warnings: Mutex::default() }
    }

    /// How many lines of a warning were suppressed before this one; none: it is suppressed too.
    fn admit(&self, metadata: &Metadata<'_>, now: Instant) -> Option<u64> {
        if *metadata.level() > Level::WARN {
            return Some(0);
        }
        let metadata: &'static Metadata<'static> = metadata.callsite().0.metadata();
        let place = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Warning { lines: BURST, updated: now, suppressed: 0 };
        warnings.entry(place).or_insert(fresh).admit(now)
    }
}

impl<'a, F, W> MakeWriter<'a> for BoundedLines<F>
where
    F: Fn() -> W + 'static,
    W: Write,
{
    type Writer = Line<W>;

    fn make_writer(&'a self) -> Line<W> {
        Line { json: self.json, suppressed: 0, to: Some((self.open)()) }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<W> {
        let admitted = self.admit(metadata, Instant::now());
        let to = admitted.map(|_| (self.open)());
        Line { json: self.json, suppressed: admitted.unwrap_or_default(), to }
    }
}

/// Destination of one line.
pub(super) struct Line<W> {
    json: bool,
    /// Lines of the same warning that were not written.
    suppressed: u64,
    /// Where the line is written; none: it is dropped.
    to: Option<W>,
}

impl<W: Write> Write for Line<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(to) = &mut self.to else { return Ok(bytes.len()) };
        let mut line = escaped(&String::from_utf8_lossy(bytes));
        let count = std::mem::take(&mut self.suppressed);
        if count > 0 && self.json {
            let _ = writeln!(
                line,
                r#"{{"level":"WARN","fields":{{"message":"suppressed lines like the one before","count":{count}}}}}"#
            );
        } else if count > 0 {
            let _ = writeln!(line, " WARN suppressed lines like the one before count={count}");
        }
        to.write_all(line.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// The line with everything escaped that a terminal or a reader of lines could take for something else.
fn escaped(line: &str) -> String {
    let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
    let mut text = String::with_capacity(line.len() + end.len());
    for letter in line.chars() {
        if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
            text.extend(letter.escape_default());
        } else {
            text.push(letter);
        }
    }
    text + end
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("the log").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Lines that are written meanwhile.
    fn logged(work: impl FnOnce()) -> Vec<String> {
        let memory = Memory::default();
        let opened = memory.clone();
        let lines = BoundedLines::new(false, move || opened.clone());
        let layer = tracing_subscriber::fmt::layer().with_writer(lines);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let bytes = memory.0.lock().expect("the log").clone();
        String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn an_event_is_one_line_whatever_its_fields_hold() {
        let name = "x\n2026-11-15T00:00:00Z  INFO kai: evicted pod\r\u{1b}[2J";
        let lines = logged(|| tracing::info!(owner = %name, "not grouped yet"));
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].contains(r"x\n2026-11-15"), "{lines:#?}");
        assert!(!lines[0].contains('\u{1b}'), "{lines:#?}");
    }

    #[test]
    fn the_same_warning_does_not_flood_the_log() {
        let lines = logged(|| {
            for number in 0..10_000 {
                tracing::warn!(number, "a claim is wrong");
            }
            tracing::warn!("another warning");
            for number in 0..200 {
                tracing::info!(number, "bound");
            }
        });
        let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
        assert!((100..150).contains(&count("a claim is wrong")), "{}", lines.len());
        assert_eq!(count("another warning"), 1);
        assert_eq!(count("bound"), 200, "only warnings are limited");
    }

    #[test]
    fn suppressed_lines_are_counted() {
        let start = Instant::now();
        let mut warning = Warning { lines: 1.0, updated: start, suppressed: 0 };
        assert_eq!(warning.admit(start), Some(0));
        assert_eq!(warning.admit(start), None);
        assert_eq!(warning.admit(start), None);
        assert_eq!(warning.admit(start + Duration::from_secs(1)), Some(2));
    }
}
