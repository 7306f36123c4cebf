//! Durations as people write them: Go's notation with days and weeks beside it, e.g. `1h30m`, `2d4h`, `1.5s`.

use crate::time::Span;

const NANOS_PER_UNIT: [(&str, f64); 10] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3), // micro sign
    ("μs", 1e3), // Greek mu
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60.0 * 1e9),
    ("h", 3_600.0 * 1e9),
    ("d", 86_400.0 * 1e9),
    ("w", 604_800.0 * 1e9),
];

/// The span that `text` means; none when it means none or one too long to count.
pub fn parse_duration(text: &str) -> Option<Span> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(Span::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let (number, tail) = rest.split_at(rest.find(|letter| !is_number(letter))?);
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        let (_, factor) = NANOS_PER_UNIT.iter().find(|(name, _)| *name == unit)?;
        nanos += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    (nanos < i64::MAX as f64).then_some(Span { nanos: (sign * nanos) as i64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<f64> {
        parse_duration(text).map(Span::as_seconds)
    }

    #[test]
    fn units_add_up() {
        let cases = [
            ("5s", 5.0),
            ("10m5s", 605.0),
            ("1.5s", 1.5),
            (".5m", 30.0),
            ("1h30m", 5_400.0),
            ("2h45m15s", 9_915.0),
            ("250ms", 0.25),
            ("3us", 3e-6),
            ("3µs", 3e-6),
            ("2d4h30m", 189_000.0),
            ("5w4d12h", 3_412_800.0),
            ("0", 0.0),
            ("+1s", 1.0),
            ("-2d", -172_800.0),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for text in ["", "5", "1h2", "2h45m15", "abc", "1h-30m", "dfdsfdfdf", "-", "1.2.3s", ".s"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(seconds("99999999999w"), None);
    }
}
