//! Durations as Go writes them: `1h30m`, `250ms`, `-1s`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
const SECOND: i64 = 1_000_000_000;

/// Which units a duration may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// `ns us µs ms s m h`.
    Go,
    /// The same, and `d` (24 hours) and `w` (7 days).
    WithDays,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {text:?}: {problem}")]
pub struct DurationError {
    text: String,
    problem: &'static str,
}

/// Reads a duration in nanoseconds.
pub fn parse_duration(text: &str, units: Units) -> Result<i64, DurationError> {
    let fail = |problem| DurationError { text: text.to_owned(), problem };
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(fail("it is empty"));
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (integer, tail) = leading_digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), leading_digits);
        if integer.is_empty() && fraction.is_empty() {
            return Err(fail("a number is expected, such as in 1h30m"));
        }
        let end = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        let unit = unit_nanos(name, units).ok_or_else(|| {
            fail(if name.is_empty() { "a unit is missing" } else { "a unit is unknown" })
        })?;
        let whole: i128 = if integer.is_empty() {
            0
        } else {
            integer.parse().map_err(|_| fail("it is too long"))?
        };
        total = whole
            .checked_mul(unit)
            .and_then(|nanos| total.checked_add(nanos + fraction_nanos(fraction, unit)))
            .ok_or_else(|| fail("it is too long"))?;
        rest = tail;
    }
    let signed = if negative { -total } else { total };
    i64::try_from(signed).map_err(|_| fail("it is too long"))
}

/// Writes nanoseconds the way Go does: `1h0m0s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(nanos: i64) -> String {
    let magnitude = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    if magnitude == 0 {
        return "0s".to_owned();
    }
    let second = SECOND.unsigned_abs();
    if magnitude < second {
        let (unit, name) = match magnitude {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", decimal(magnitude, unit));
    }
    let (minutes, rest) = (magnitude / (60 * second), magnitude % (60 * second));
    let seconds = decimal(rest, second);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// A duration as it stands in an object, kept as written so that one bad value spoils nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DurationText(pub String);

impl DurationText {
    /// From nanoseconds, in Go's form.
    pub fn from_nanos(nanos: i64) -> Self {
        Self(format_duration(nanos))
    }

    /// Nanoseconds.
    pub fn nanos(&self) -> Result<i64, DurationError> {
        parse_duration(&self.0, Units::Go)
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn unit_nanos(name: &str, units: Units) -> Option<i128> {
    let second = i128::from(SECOND);
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => second,
        "m" => 60 * second,
        "h" => 3_600 * second,
        "d" if units == Units::WithDays => 24 * 3_600 * second,
        "w" if units == Units::WithDays => 7 * 24 * 3_600 * second,
        _ => return None,
    })
}

/// The part behind the point, rounded down to whole nanoseconds.
fn fraction_nanos(digits: &str, unit: i128) -> i128 {
    let (mut nanos, mut scale) = (0, 1);
    for digit in digits.bytes().take(18) {
        nanos = nanos * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    nanos * unit / scale
}

fn decimal(magnitude: u64, unit: u64) -> String {
    let (whole, rest) = (magnitude / unit, magnitude % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_like_go() {
        let cases = [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("1s", SECOND, "1s"),
            ("+5s", 5 * SECOND, "5s"),
            ("-1s", -SECOND, "-1s"),
            ("5m", 300 * SECOND, "5m0s"),
            ("1h", 3_600 * SECOND, "1h0m0s"),
            ("1h30m", 5_400 * SECOND, "1h30m0s"),
            ("90m", 5_400 * SECOND, "1h30m0s"),
            ("1.5h", 5_400 * SECOND, "1h30m0s"),
            (".5s", 500_000_000, "500ms"),
            ("1.s", SECOND, "1s"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("1m1.5s", 61_500_000_000, "1m1.5s"),
            ("250ms", 250_000_000, "250ms"),
            ("1us", 1_000, "1µs"),
            ("1µs", 1_000, "1µs"),
            ("1.1us", 1_100, "1.1µs"),
            ("17ns", 17, "17ns"),
            ("-1.5h", -5_400 * SECOND, "-1h30m0s"),
            ("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s"),
        ];
        for (text, nanos, written) in cases {
            assert_eq!(parse_duration(text, Units::Go), Ok(nanos), "{text}");
            assert_eq!(format_duration(nanos), written, "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in [
            "",
            "+",
            "-",
            "3",
            "s",
            ".s",
            "1x",
            "1d",
            "1 s",
            "5m ",
            "1h-30m",
            "2562047h47m16.854775808s",
        ] {
            assert!(parse_duration(text, Units::Go).is_err(), "{text:?}");
        }
    }

    #[test]
    fn days_and_weeks_where_allowed() {
        assert_eq!(parse_duration("1w2d", Units::WithDays), Ok(9 * 24 * 3_600 * SECOND));
    }
}
