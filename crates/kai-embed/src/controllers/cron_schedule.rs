//! When a cron job runs: `minute hour day month weekday`, the short forms, and `@every`.

use k8s_openapi::jiff::civil::DateTime;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp, ToSpan};
use kai_api::duration::{Units, parse_duration};

/// A day that comes at all comes within so many, leap days included.
const LONGEST_WAIT_DAYS: usize = 366 * 8;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When something runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CronSchedule {
    /// At these times, in UTC.
    Times(Box<Times>),
    /// So long after the last time.
    Every(SignedDuration),
}

/// Allowed numbers, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both days and weekdays are restricted: either will do.
    either_day: bool,
}

impl CronSchedule {
    /// Reads a schedule; why it cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(span) = text.strip_prefix("@every ") {
            let nanos = parse_duration(span.trim(), Units::WithDays)
                .map_err(|_| format!("failed to parse duration {text}"))?;
            return Ok(Self::Every(SignedDuration::from_nanos(nanos)));
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(format!(
                "expected exactly 5 fields, found {}: [{}]",
                fields.len(),
                fields.join(" ")
            ));
        };
        let sunday_twice = numbers(weekdays, 0, 7, &WEEKDAYS)?;
        Ok(Self::Times(Box::new(Times {
            minutes: numbers(minutes, 0, 59, &[])?,
            hours: numbers(hours, 0, 23, &[])?,
            days: numbers(days, 1, 31, &[])?,
            months: numbers(months, 1, 12, &MONTHS)?,
            weekdays: sunday_twice | sunday_twice >> 7 & 1,
            either_day: !starts_with_star(days) && !starts_with_star(weekdays),
        })))
    }

    /// The first time after a moment.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(span) => after.checked_add(*span).ok(),
            Self::Times(times) => times.next(after),
        }
    }
}

fn starts_with_star(field: &str) -> bool {
    field.starts_with(['*', '?'])
}

/// The numbers of a field such as `*/5`, `1-3,7` or `mon-fri`.
fn numbers(field: &str, least: u64, most: u64, names: &[&str]) -> Result<u64, String> {
    let number = |text: &str| -> Result<u64, String> {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let number = match named {
            // Months are counted from 1, weekdays from 0.
            Some(at) => Some(at as u64 + least),
            None => text.parse().ok(),
        };
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| format!("{text:?} is not between {least} and {most}: {field}"))
    };
    let mut bits = 0_u64;
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(a, b)| (a, Some(b)));
        let step = match step {
            None => 1,
            Some(text) => text
                .parse::<usize>()
                .ok()
                .filter(|step| *step > 0)
                .ok_or_else(|| format!("step of range should be a positive number: {field}"))?,
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (least, most),
            Some((first, last)) => (number(first)?, number(last)?),
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return Err(format!(
                "beginning of range ({first}) beyond end of range ({last}): {part}"
            ));
        }
        bits |= (first..=last).step_by(step).fold(0, |bits, at| bits | 1 << at);
    }
    Ok(bits)
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits >> number & 1 == 1)
}

impl Times {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(TimeZone::UTC).datetime().checked_add(1.minute()).ok()?;
        let mut date = start.date();
        for _ in 0..LONGEST_WAIT_DAYS {
            if self.has_day(date.at(0, 0, 0, 0)) {
                let from =
                    if date == start.date() { (start.hour(), start.minute()) } else { (0, 0) };
                if let Some((hour, minute)) = self.time_from(from) {
                    return date
                        .at(hour, minute, 0, 0)
                        .to_zoned(TimeZone::UTC)
                        .ok()
                        .map(Into::into);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn has_day(&self, day: DateTime) -> bool {
        let by_day = has(self.days, day.day());
        let by_weekday = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        let fits = if self.either_day { by_day || by_weekday } else { by_day && by_weekday };
        has(self.months, day.month()) && fits
    }

    /// The first time of a day that is not before another.
    fn time_from(&self, (first_hour, first_minute): (i8, i8)) -> Option<(i8, i8)> {
        (first_hour..24).filter(|hour| has(self.hours, *hour)).find_map(|hour| {
            let from = if hour == first_hour { first_minute } else { 0 };
            let minute = (from..60).find(|minute| has(self.minutes, *minute))?;
            Some((hour, minute))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let schedule = CronSchedule::parse(schedule).expect("a schedule");
        let after = after.parse().expect("a moment");
        schedule.next(after).map(|at| at.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_next_time_is_found() {
        for (schedule, after, wanted) in [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("*/15 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"),
            ("30 2 * * *", "2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"),
            ("0 9 * * mon-fri", "2026-01-02T10:00:00Z", "2026-01-05T09:00:00Z"),
            ("0 0 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@monthly", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z"),
            ("@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
            ("0 0 31 feb *", "2026-01-01T00:00:00Z", ""),
        ] {
            assert_eq!(next(schedule, after), wanted, "{schedule} after {after}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in
            ["", "* * * *", "61 * * * *", "* * 0 * *", "*/0 * * * *", "5-3 * * * *", "a * * * *"]
        {
            assert!(CronSchedule::parse(text).is_err(), "{text:?}");
        }
    }
}
