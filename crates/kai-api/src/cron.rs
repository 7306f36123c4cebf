//! Cron expressions: when was the latest moment, when comes the next? All times are UTC. Pure.

use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::civil::{Date, Time};
use k8s_openapi::jiff::tz::TimeZone;

/// How far away a moment may be: a leap day that falls on a certain weekday comes at least every 40 years.
const FURTHEST_DAYS: usize = 40 * 366;

/// A cron expression of five fields: minute, hour, day of the month, month, day of the week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: Numbers,
    hours: Numbers,
    days: Numbers,
    months: Numbers,
    weekdays: Numbers,
    /// Both kinds of days are named: either is enough.
    either_day: bool,
}

/// A set of numbers below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers(u64);

impl Numbers {
    fn holds(self, number: i8) -> bool {
        (0..64).contains(&number) && self.0 & (1 << number) != 0
    }
}

/// A field: what it is called, its numbers, and the names some of them have.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of the month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is 0, and 7 too.
const WEEKDAY: Field = Field {
    name: "day of the week",
    least: 0,
    most: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    fn read(&self, text: &str) -> Result<Numbers, String> {
        let mut bits = 0;
        for part in text.split(',') {
            bits |= self.part(part).ok_or_else(|| {
                format!("{part:?} is no {} from {} to {}", self.name, self.least, self.most)
            })?;
        }
        Ok(Numbers(bits))
    }

    /// `*`, `5`, `1-5`, and each with a step behind `/`.
    fn part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (text, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (self.least, self.most),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            None if text.contains('/') => (self.number(range)?, self.most),
            None => (self.number(range)?, self.number(range)?),
        };
        (first <= last)
            .then(|| (first..=last).step_by(step).fold(0, |bits, number| bits | 1_u64 << number))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let lower = text.to_ascii_lowercase();
        let named = self.names.iter().position(|name| *name == lower);
        let number = match named {
            Some(at) => u32::try_from(at).ok()? + self.least,
            None => text.parse().ok()?,
        };
        (self.least..=self.most).contains(&number).then_some(number)
    }
}

impl Cron {
    /// Reads an expression such as `0 8 * * mon` or `@daily`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!("must have five fields, has {}", fields.len()));
        };
        let is_any = |field: &str| field.starts_with(['*', '?']);
        let mut weekdays = WEEKDAY.read(weekday)?;
        if weekdays.holds(7) {
            weekdays = Numbers(weekdays.0 | 1);
        }
        Ok(Self {
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays,
            either_day: !is_any(day) && !is_any(weekday),
        })
    }

    /// The latest moment of the expression that is not after `now`; none where there was none in forty years.
    pub fn latest(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let before = |at: &Time| *at <= now.time();
        let today = self.times(now.date()).rev().find(before).map(|at| (now.date(), at));
        let days = std::iter::successors(now.date().yesterday().ok(), |day| day.yesterday().ok());
        let mut earlier = days.take(FURTHEST_DAYS);
        moment(today.or_else(|| earlier.find_map(|day| Some((day, self.times(day).next_back()?)))))
    }

    /// The first moment of the expression after `now`; none where there is none in forty years.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let after = |at: &Time| *at > now.time();
        let today = self.times(now.date()).find(after).map(|at| (now.date(), at));
        let days = std::iter::successors(now.date().tomorrow().ok(), |day| day.tomorrow().ok());
        let mut later = days.take(FURTHEST_DAYS);
        moment(today.or_else(|| later.find_map(|day| Some((day, self.times(day).next()?)))))
    }

    /// The times of a day.
    fn times(&self, day: Date) -> impl DoubleEndedIterator<Item = Time> {
        let weekday = day.weekday().to_sunday_zero_offset();
        let (by_month, by_week) = (self.days.holds(day.day()), self.weekdays.holds(weekday));
        let is_day = if self.either_day { by_month || by_week } else { by_month && by_week };
        let hours = if is_day && self.months.holds(day.month()) { 0..24 } else { 0..0 };
        let hours = hours.filter(|hour| self.hours.holds(*hour));
        hours.flat_map(|hour| {
            let minutes = (0..60).filter(|minute| self.minutes.holds(*minute));
            minutes.map(move |minute| Time::constant(hour, minute, 0, 0))
        })
    }
}

fn moment(found: Option<(Date, Time)>) -> Option<Timestamp> {
    let (day, time) = found?;
    Some(day.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        text.parse().expect("a moment")
    }

    fn shown(moment: Option<Timestamp>) -> String {
        moment.map_or_else(|| "never".to_owned(), |moment| moment.to_string())
    }

    #[test]
    fn the_latest_moment_is_found() {
        let now = moment("2026-11-15T12:34:56Z"); // a Sunday
        for (expression, latest) in [
            ("* * * * *", "2026-11-15T12:34:00Z"),
            ("@hourly", "2026-11-15T12:00:00Z"),
            ("0 13 * * *", "2026-11-14T13:00:00Z"),
            ("*/15 8-17 * * mon-fri", "2026-11-13T17:45:00Z"),
            ("0 0 * * 7", "2026-11-15T00:00:00Z"),
            ("0 0 * * 1", "2026-11-09T00:00:00Z"),
            ("@monthly", "2026-11-01T00:00:00Z"),
            ("30 6 1,10 FEB *", "2026-02-10T06:30:00Z"),
            ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
            ("0 0 1 * mon", "2026-11-09T00:00:00Z"),
            ("0 0 31 2 *", "never"),
        ] {
            let cron = Cron::parse(expression).expect(expression);
            assert_eq!(shown(cron.latest(now)), latest, "{expression}");
        }
    }

    /// KAI reads expressions with robfig/cron, and Kubernetes those of cron jobs.
    #[test]
    fn expressions_are_read_as_robfig_reads_them() {
        let now = moment("2026-11-15T12:34:56Z"); // a Sunday
        for (expression, latest) in [
            // A step over all days names no days: both fields must match.
            ("0 0 */2 * mon", "2026-11-09T00:00:00Z"),
            ("0 0 13 * */2", "2026-10-13T00:00:00Z"),
            ("0 0 1-31 * mon", "2026-11-15T00:00:00Z"),
            ("5/15 * * * *", "2026-11-15T12:20:00Z"),
            ("@midnight", "2026-11-15T00:00:00Z"),
        ] {
            let cron = Cron::parse(expression).expect(expression);
            assert_eq!(shown(cron.latest(now)), latest, "{expression}");
        }
        for extension in ["0 0 L * *", "0 0 15W * *", "0 0 * * 5#2", "0 0 1 * +mon"] {
            assert!(Cron::parse(extension).is_err(), "{extension}");
        }
    }

    #[test]
    fn the_next_moment_is_found() {
        for (expression, after, next) in [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"),
            ("30 2 * * *", "2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"),
            ("0 9 * * mon-fri", "2026-01-02T10:00:00Z", "2026-01-05T09:00:00Z"),
            ("0 0 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@monthly", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z"),
            ("0 0 31 feb *", "2026-01-01T00:00:00Z", "never"),
        ] {
            let cron = Cron::parse(expression).expect(expression);
            assert_eq!(shown(cron.next(moment(after))), next, "{expression} after {after}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_field() {
        for (text, why) in [
            ("* * * *", "must have five fields, has 4"),
            ("60 * * * *", "\"60\" is no minute from 0 to 59"),
            ("* * * * sunday", "\"sunday\" is no day of the week from 0 to 7"),
            ("* 5-3 * * *", "\"5-3\" is no hour from 0 to 23"),
            ("*/0 * * * *", "\"*/0\" is no minute from 0 to 59"),
        ] {
            assert_eq!(Cron::parse(text), Err(why.to_owned()));
        }
    }
}
