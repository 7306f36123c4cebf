//! Moments as they stand in objects: RFC 3339, always UTC when Kubernetes writes them.

use kai_core::time::{Span, Timestamp};

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS: i64 = 1_000_000_000;

/// Why a text is no moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a time such as 2026-01-31T12:00:00Z")]
pub struct TimeError;

/// Reads an RFC 3339 time.
pub fn parse(text: &str) -> Result<Timestamp, TimeError> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Result<i64, TimeError> {
        let digits = text.get(from..to).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).ok_or(TimeError)
    };
    let mark = |at: usize, marks: &[u8]| bytes.get(at).is_some_and(|byte| marks.contains(byte));
    if !(mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":")) {
        return Err(TimeError);
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return Err(TimeError);
    }
    let (nanos, zone) = fraction(text.get(19..).ok_or(TimeError)?)?;
    let seconds = days(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    let seconds = seconds - offset(zone)?;
    Ok(Timestamp { nanos: seconds.saturating_mul(NANOS).saturating_add(nanos) })
}

/// Nanoseconds behind the point, and what follows.
fn fraction(text: &str) -> Result<(i64, &str), TimeError> {
    let Some(rest) = text.strip_prefix('.') else { return Ok((0, text)) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, zone) = rest.split_at(count);
    if digits.is_empty() {
        return Err(TimeError);
    }
    let nine = format!("{:0<9}", digits.get(..count.min(9)).unwrap_or(digits));
    Ok((nine.parse().map_err(|_| TimeError)?, zone))
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Result<i64, TimeError> {
    if zone.eq_ignore_ascii_case("z") {
        return Ok(0);
    }
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(TimeError),
    };
    let (hours, minutes) = zone.get(1..).and_then(|rest| rest.split_once(':')).ok_or(TimeError)?;
    let two = |text: &str| -> Result<i64, TimeError> {
        let fits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if fits { text.parse().map_err(|_| TimeError) } else { Err(TimeError) }
    };
    Ok(sign * (two(hours)? * 3600 + two(minutes)? * 60))
}

/// Days since 1970-01-01 in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day counted from 1970-01-01.
pub fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Writes a moment to the second, as Kubernetes does.
pub fn format(moment: Timestamp) -> String {
    let seconds = moment.nanos.div_euclid(NANOS);
    let (day, of_day) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = civil(day);
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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
