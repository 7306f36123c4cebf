//! Which part of the past counts. Pure.

use kai_api::cron::Cron;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::{from_calendar, on_calendar};

/// Which part of the past counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// The time up to now, of this length.
    Sliding(Span),
    /// Windows of one length, one behind the other: what was used in earlier ones is forgotten.
    Tumbling {
        /// When one of them began.
        start: Timestamp,
        /// Length of a window.
        size: Span,
    },
    /// Windows that begin when an expression says so.
    Cron(Cron),
}

/// Where nothing else is known.
const SOME_DAY: Span = Span { nanos: 86_400_000_000_000 };

impl Window {
    /// When the window that `now` is in began. A tumbling window that lies ahead has no length yet.
    pub fn began(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Sliding(size) => Timestamp { nanos: now.nanos.saturating_sub(size.nanos) },
            Self::Tumbling { start, .. } if *start > now => now,
            Self::Tumbling { start, size } => {
                let passed = now.since(*start).nanos;
                Timestamp { nanos: now.nanos - passed.rem_euclid(size.nanos.max(1)) }
            }
            Self::Cron(cron) => latest(cron, now).unwrap_or(now),
        }
    }

    /// How long such a window is, about.
    pub fn length(&self, now: Timestamp) -> Span {
        match self {
            Self::Sliding(size) | Self::Tumbling { size, .. } => *size,
            Self::Cron(cron) => {
                let began = latest(cron, now);
                let before = began.and_then(|began| {
                    let earlier = Timestamp { nanos: began.nanos - 1 };
                    Some(began.since(latest(cron, earlier)?))
                });
                before.unwrap_or(SOME_DAY)
            }
        }
    }
}

fn latest(cron: &Cron, now: Timestamp) -> Option<Timestamp> {
    cron.latest(on_calendar(now)).map(from_calendar)
}

#[cfg(test)]
mod tests {
    use kai_translate::time::seconds;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::default().plus(seconds(second))
    }

    #[test]
    fn windows_slide_or_tumble() {
        let sliding = Window::Sliding(seconds(60));
        assert_eq!(sliding.began(at(100)), at(40));
        let tumbling = Window::Tumbling { start: at(30), size: seconds(50) };
        let began = [29, 30, 79, 80, 200].map(|second| tumbling.began(at(second)));
        assert_eq!(began, [29, 30, 30, 80, 180].map(at));
        let hourly = Window::Cron(Cron::parse("@hourly").expect("an expression"));
        assert_eq!(hourly.began(at(7300)), at(7200));
        assert_eq!(hourly.length(at(7300)), seconds(3600));
    }
}
