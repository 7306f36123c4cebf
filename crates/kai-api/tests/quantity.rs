//! The quantity parser against what Go's library printed for the same texts.

use kai_api::quantity::{Quantity, QuantityError, RawQuantity};

const TABLE: &str = include_str!("data/quantities.tsv");

/// Go's accessors wrap around here; ours saturate.
fn saturated(text: &str) -> Option<(i64, i64)> {
    let (min, max) = (i64::MIN, i64::MAX);
    Some(match text {
        "1E" | "1e18" => (max, 1_000_000_000_000_000_000),
        "9E" => (max, 9_000_000_000_000_000_000),
        "-9E" => (min, -9_000_000_000_000_000_000),
        "2.2E" => (max, 2_200_000_000_000_000_000),
        "8.9E" => (max, 8_900_000_000_000_000_000),
        "1Ei" => (max, 1 << 60),
        "7Ei" => (max, 7 << 60),
        "8Ei"
        | "9Ei"
        | "10Ei"
        | "10E"
        | "1e19"
        | "1e100"
        | "9223372036854775807"
        | "9223372036854775808"
        | "100000000000000000000"
        | "123456789012345678901234567890"
        | "99999999999999999999999999999999999999999.5" => (max, max),
        "9223372036854775.808" | "9223372036854776" => (max, 9_223_372_036_854_776),
        "-10E" | "-1e100" | "-9223372036854775808" | "-9223372036854775809" => (min, min),
        "-8Ei" => (min, -max),
        // Go rounds this one towards zero.
        "-1.1Gi" => (-1_181_116_006_400, -1_181_116_007),
        _ => return None,
    })
}

#[test]
fn agrees_with_go() {
    let mut rows = 0;
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        rows += 1;
        match fields[..] {
            [text, "err", kind] => {
                let expected =
                    if kind == "format" { QuantityError::Format } else { QuantityError::Suffix };
                assert_eq!(Quantity::parse(text).err(), Some(expected), "{text:?}");
            }
            [text, "ok", milli, value, float, canonical] => {
                let quantity = Quantity::parse(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
                let (milli, value) = saturated(text)
                    .unwrap_or_else(|| (milli.parse().unwrap(), value.parse().unwrap()));
                assert_eq!(quantity.milli(), milli, "milli of {text:?}");
                assert_eq!(quantity.value(), value, "value of {text:?}");
                let float: f64 = float.parse().unwrap();
                let error = (quantity.as_f64() - float).abs();
                assert!(error <= float.abs() * 1e-15, "{text:?}: {} {float}", quantity.as_f64());
                if !text.starts_with("9999999999999999999999") {
                    assert_eq!(quantity.to_string(), canonical, "canonical form of {text:?}");
                }
            }
            _ => panic!("bad row {line:?}"),
        }
    }
    assert!(rows > 150, "{rows} rows");
    assert_eq!(Quantity::parse("").err(), Some(QuantityError::Format));
}

#[test]
fn floats_are_bit_equal_where_they_are_used() {
    for (text, float) in
        [("0.5", 0.5), ("0.7", 0.700_000_000_000_000_1), ("0.33", 0.33), ("100m", 0.1)]
    {
        assert_eq!(
            Quantity::parse(text).unwrap().as_f64().to_bits(),
            f64::to_bits(float),
            "{text}"
        );
    }
}

#[test]
fn amounts_compare_whatever_their_notation() {
    let parse = |text| Quantity::parse(text).unwrap();
    assert_eq!(parse("1Ki"), parse("1024"));
    assert_eq!(parse("1000m"), parse("1"));
    assert!(parse("1Gi") > parse("1G"));
    assert!(parse("-1n") < parse("0"));
    assert!(parse("1e100") > parse("1E"));
}

#[test]
fn canonical_forms_of_made_quantities() {
    assert_eq!(Quantity::from_milli(250).to_string(), "250m");
    assert_eq!(Quantity::from_milli(2_000).to_string(), "2");
    assert_eq!(Quantity::from_bytes(1 << 30).to_string(), "1Gi");
    assert_eq!(Quantity::from_bytes(1_000).to_string(), "1k");
    assert_eq!(Quantity::from_value(0).to_string(), "0");
}

#[test]
fn objects_may_hold_bare_numbers() {
    let read =
        |json: &str| serde_json::from_str::<RawQuantity>(json).unwrap().parse().unwrap().milli();
    assert_eq!(read("2"), 2_000);
    assert_eq!(read("0.5"), 500);
    assert_eq!(read("\"1500m\""), 1_500);
}
