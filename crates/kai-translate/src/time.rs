//! Moments as they stand in objects: RFC 3339, always UTC when Kubernetes writes them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff;
use kai_core::time::{Span, Timestamp};

const NANOS: i64 = 1_000_000_000;

/// Why a text is no moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a time such as 2026-01-31T12:00:00Z")]
pub struct TimeError;

/// Reads an RFC 3339 time.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    text.parse().map(from_calendar).map_err(|_| TimeError)
}

/// Writes a moment to the second, as Kubernetes does.
pub fn format(moment: Timestamp) -> String {
    on_calendar(moment).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment in an object, to the second.
pub fn api_time(moment: Timestamp) -> Time {
    let whole = moment.nanos.div_euclid(NANOS) * NANOS;
    Time(on_calendar(Timestamp { nanos: whole }))
}

/// A moment as the calendar has it. Every moment of ours is between the years 1677 and 2262.
pub fn on_calendar(moment: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(moment.nanos.into()).unwrap_or_default()
}

/// A moment of the calendar as the planner counts it; one that it cannot count is the last or the first.
pub fn from_calendar(moment: jiff::Timestamp) -> Timestamp {
    let nanos = moment.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into());
    Timestamp { nanos: i64::try_from(nanos).unwrap_or_default() }
}

/// A span of whole seconds.
pub const fn seconds(count: i64) -> Span {
    Span { nanos: count.saturating_mul(NANOS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-15T06:50:18Z", 1_794_725_418),
            ("2026-11-15T08:50:18+02:00", 1_794_725_418),
            ("1969-12-31T23:59:59Z", -1),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Ok(Timestamp { nanos: seconds * NANOS }), "{text}");
        }
        assert_eq!(parse("1970-01-01T00:00:00.25Z"), Ok(Timestamp { nanos: 250_000_000 }));
    }

    #[test]
    fn reading_undoes_writing() {
        for seconds in [0, 951_868_799, 951_868_800, 1_794_725_418, 4_102_444_800, -86_401] {
            let moment = Timestamp { nanos: seconds * NANOS };
            assert_eq!(parse(&format(moment)), Ok(moment), "{}", format(moment));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "now",
            "2026-11-15",
            "2026-13-01T00:00:00Z",
            "2026-11-15T06:50:18",
            "2026-11-15T06:50:18.Z",
            "2026-11-15T06:50:18+2:00",
            "２026-11-15T06:50:18Z",
        ] {
            assert_eq!(parse(text), Err(TimeError), "{text}");
        }
    }
}
