//! Time as an input: the core never asks a clock.

/// Seconds of a day and below are counted in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Nanoseconds since the Unix epoch, negative before it.
    pub nanos: i64,
}

/// A span of time in nanoseconds; negative spans mean "never" where an API gives them that meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// Length in nanoseconds; may be negative.
    pub nanos: i64,
}

const NANOS_PER_SECOND: f64 = 1e9;

impl Timestamp {
    /// The moment `seconds` after the Unix epoch.
    pub fn from_seconds(seconds: f64) -> Self {
        Self { nanos: (seconds * NANOS_PER_SECOND) as i64 }
    }

    /// This moment plus `span`, saturating.
    #[must_use]
    pub fn plus(self, span: Span) -> Self {
        Self { nanos: self.nanos.saturating_add(span.nanos) }
    }

    /// The span from `earlier` to this moment.
    pub fn since(self, earlier: Self) -> Span {
        Span { nanos: self.nanos.saturating_sub(earlier.nanos) }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self { nanos: 0 };

    /// A span of `seconds`.
    pub fn from_seconds(seconds: f64) -> Self {
        Self { nanos: (seconds * NANOS_PER_SECOND) as i64 }
    }

    /// The span in seconds.
    pub fn as_seconds(self) -> f64 {
        self.nanos as f64 / NANOS_PER_SECOND
    }
}
