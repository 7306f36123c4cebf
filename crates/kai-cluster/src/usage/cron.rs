//! Cron expressions, as far as windows of past usage need them: when did the latest one begin? All times are UTC. Pure.

use kai_core::time::Timestamp;
use kai_translate::time::{civil, seconds};

/// How far back a window may have begun: a leap day that falls on a certain weekday comes at least every 40 years.
const FURTHEST_DAYS: i64 = 40 * 366;

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

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
    fn holds(self, number: i64) -> bool {
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
        let total = now.nanos.div_euclid(NANOS * 60);
        let (today, minute) = (total.div_euclid(24 * 60), total.rem_euclid(24 * 60));
        let day = |back: i64| {
            let until = if back == 0 { minute } else { 24 * 60 - 1 };
            let minute = self.latest_minute(today - back, until)?;
            Some(seconds((today - back) * SECONDS_PER_DAY + minute * 60))
        };
        let span = (0..FURTHEST_DAYS).find_map(day)?;
        Some(Timestamp::default().plus(span))
    }

    /// The latest minute of a day that is not after `until`.
    fn latest_minute(&self, day: i64, until: i64) -> Option<i64> {
        let (_, month, of_month) = civil(day);
        let weekday = (day + 4).rem_euclid(7); // 1970-01-01 was a Thursday
        let (by_month, by_week) = (self.days.holds(of_month), self.weekdays.holds(weekday));
        let is_day = if self.either_day { by_month || by_week } else { by_month && by_week };
        if !is_day || !self.months.holds(month) {
            return None;
        }
        let fits = |at: &i64| self.hours.holds(at / 60) && self.minutes.holds(at % 60);
        (0..=until).rev().find(fits)
    }
}

#[cfg(test)]
mod tests {
    use kai_translate::time::{format, parse};

    use super::*;

    fn latest(expression: &str, now: Timestamp) -> String {
        let cron = Cron::parse(expression).expect(expression);
        cron.latest(now).map_or_else(|| "never".to_owned(), format)
    }

    #[test]
    fn windows_begin_when_the_expression_says() {
        let now = parse("2026-11-15T12:34:56Z").expect("a moment"); // a Sunday
        for (expression, began) in [
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
            assert_eq!(latest(expression, now), began, "{expression}");
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
