//! The log: text or JSON on standard error, as much as KAI's levels say, both changeable while running.
//!
//! Names and messages of objects end up in lines, and their authors choose them: a line stays one line, and the same
//! warning is written so many times per second only.

mod lines;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use lines::BoundedLines;

/// What lets lines through.
type Filtered = Layered<reload::Layer<LevelFilter, Registry>, Registry>;
/// Layer that formats and writes lines.
type Lines = Box<dyn Layer<Filtered> + Send + Sync>;

/// A log that was started.
pub(crate) struct Log {
    level: reload::Handle<LevelFilter, Registry>,
    lines: reload::Handle<Lines, Filtered>,
}

impl Log {
    /// Installs the log as the process's subscriber.
    pub(crate) fn start(verbosity: u8, json: bool) -> Self {
        let (filter, level) = reload::Layer::new(level_of(verbosity));
        let (written, lines) = reload::Layer::new(lines_of(json));
        tracing_subscriber::registry().with(filter).with(written).init();
        Self { level, lines }
    }

    /// Changes how much is logged.
    pub(crate) fn set_verbosity(&self, verbosity: u8) -> Result<(), String> {
        self.level.reload(level_of(verbosity)).map_err(|error| error.to_string())
    }

    /// Changes whether lines are JSON.
    pub(crate) fn set_json(&self, json: bool) -> Result<(), String> {
        self.lines.reload(lines_of(json)).map_err(|error| error.to_string())
    }
}

fn lines_of(json: bool) -> Lines {
    let lines = fmt::layer().with_writer(BoundedLines::new(json, std::io::stderr));
    if json { lines.json().boxed() } else { lines.boxed() }
}

fn level_of(verbosity: u8) -> LevelFilter {
    match verbosity {
        0..=2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
