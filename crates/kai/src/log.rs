//! The log: text or JSON on standard error, as much as KAI's levels say, changeable while running.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// A log that was started.
pub(crate) struct Log {
    level: reload::Handle<LevelFilter, Registry>,
}

impl Log {
    /// Starts it.
    pub(crate) fn start(verbosity: u8, json: bool) -> Self {
        let (filter, level) = reload::Layer::new(level_of(verbosity));
        let lines = fmt::layer().with_writer(std::io::stderr);
        if json {
            tracing_subscriber::registry().with(filter).with(lines.json()).init();
        } else {
            tracing_subscriber::registry().with(filter).with(lines).init();
        }
        Self { level }
    }

    /// Changes how much is logged.
    pub(crate) fn set_verbosity(&self, verbosity: u8) -> Result<(), String> {
        self.level.reload(level_of(verbosity)).map_err(|error| error.to_string())
    }
}

fn level_of(verbosity: u8) -> LevelFilter {
    match verbosity {
        0..=2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
