//! When a cron job runs: a cron expression, or `@every` and a span.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kai_api::cron::Cron;
use kai_api::duration::{Units, parse_duration};

/// Schedule of a cron job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CronSchedule {
    /// At these times, in UTC.
    Times(Box<Cron>),
    /// So long after the last time.
    Every(SignedDuration),
}

impl CronSchedule {
    /// Reads a schedule; why it cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some(span) = text.strip_prefix("@every ") else {
            let fields: Vec<&str> = text.split_whitespace().collect();
            if fields.len() != 5 && !text.starts_with('@') {
                // In the words of the real API server.
                let (count, fields) = (fields.len(), fields.join(" "));
                return Err(format!("expected exactly 5 fields, found {count}: [{fields}]"));
            }
            return Cron::parse(text).map(Box::new).map(Self::Times);
        };
        let nanos = parse_duration(span.trim(), Units::WithDays)
            .map_err(|_| format!("failed to parse duration {text}"))?;
        Ok(Self::Every(SignedDuration::from_nanos(nanos)))
    }

    /// The first time after a moment.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(span) => after.checked_add(*span).ok(),
            Self::Times(times) => times.next(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read() {
        let after: Timestamp = "2026-01-01T00:00:30Z".parse().expect("a moment");
        let next = |text: &str| {
            let schedule = CronSchedule::parse(text).expect(text);
            schedule.next(after).map(|at| at.to_string())
        };
        assert_eq!(next("* * * * *").as_deref(), Some("2026-01-01T00:01:00Z"));
        assert_eq!(next("@every 90s").as_deref(), Some("2026-01-01T00:02:00Z"));
        for text in ["", "* * * *", "@every now"] {
            assert!(CronSchedule::parse(text).is_err(), "{text:?}");
        }
    }
}
