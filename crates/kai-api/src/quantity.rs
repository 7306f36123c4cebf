//! Kubernetes quantities: `1500m`, `64Gi`, `1e3`.
//!
//! Reads what the Go library reads, refuses what it refuses, and rounds as it rounds: away from zero, to whole
//! nano-units when read, to whole milli-units or units when asked. Where the Go accessors overflow silently, these
//! saturate.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The finest unit that is kept: ten to this power.
const FINEST: i32 = -9;
/// Decimal digits kept of a number with a decimal suffix; more are rounded away from zero.
const DECIMAL_DIGITS: u32 = 37;
/// The same with a binary suffix, which may still multiply by 2^60.
const BINARY_DIGITS: u32 = 19;
/// Beyond this power of ten every non-zero amount saturates or rounds to one step.
const EXPONENT_BOUND: i64 = 1_000;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has another shape than number and suffix.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The suffix is not one of the known units or exponents.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The family of suffixes a quantity was written with; it is written back in the same family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `n u m k M G T P E`, or none.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`, `E-6`.
    DecimalExponent,
}

/// An exact decimal amount: `mantissa` times ten to the `exponent`, never finer than a nano-unit.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    mantissa: i128,
    exponent: i32,
    format: Format,
}

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = split(text)?;
        let (format, exponent, shift) = suffix(parts.suffix)?;
        let digits = if format == Format::BinarySi { BINARY_DIGITS } else { DECIMAL_DIGITS };
        let (magnitude, dropped) = parts.magnitude(digits);
        let mut mantissa = magnitude << shift;
        let mut exponent = exponent.saturating_add(dropped);
        if mantissa == 0 {
            exponent = 0;
        } else if exponent < i64::from(FINEST) {
            mantissa = scale_up_from_zero(mantissa, exponent - i64::from(FINEST));
            exponent = i64::from(FINEST);
        }
        if parts.negative {
            mantissa = -mantissa;
        }
        let mut quantity = Self {
            mantissa,
            exponent: exponent.clamp(-EXPONENT_BOUND, EXPONENT_BOUND) as i32,
            format,
        };
        if format == Format::BinarySi {
            quantity.cap();
        }
        Ok(quantity)
    }

    /// A whole number, written with decimal suffixes.
    pub const fn from_value(value: i64) -> Self {
        Self { mantissa: value as i128, exponent: 0, format: Format::DecimalSi }
    }

    /// Thousandths, written with decimal suffixes.
    pub const fn from_milli(milli: i64) -> Self {
        Self { mantissa: milli as i128, exponent: -3, format: Format::DecimalSi }
    }

    /// A whole number, written with binary suffixes where that is exact.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { mantissa: bytes as i128, exponent: 0, format: Format::BinarySi }
    }

    /// Thousandths, rounded away from zero, saturating.
    pub fn milli(&self) -> i64 {
        self.scaled(3)
    }

    /// Whole units, rounded away from zero, saturating.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The nearest float that mantissa times power of ten gives.
    pub fn as_f64(&self) -> f64 {
        let mantissa = self.mantissa as f64;
        if self.exponent == 0 { mantissa } else { mantissa * power_of_ten(self.exponent) }
    }

    /// Is it exactly zero?
    pub const fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// The family of suffixes.
    pub const fn format(&self) -> Format {
        self.format
    }

    fn scaled(&self, power: i32) -> i64 {
        let scaled = scale_up_from_zero(self.mantissa, i64::from(self.exponent + power));
        scaled.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Binary quantities never exceed the largest 64-bit integer.
    fn cap(&mut self) {
        let limit = i128::from(i64::MAX);
        if scale_up_from_zero(self.mantissa.abs(), i64::from(self.exponent)) > limit {
            self.mantissa = limit * self.mantissa.signum();
            self.exponent = 0;
        }
    }

    /// The number of whole units, if there is no fraction.
    fn whole(&self) -> Option<i128> {
        if self.exponent >= 0 {
            return 10_i128
                .checked_pow(self.exponent.unsigned_abs())
                .and_then(|factor| self.mantissa.checked_mul(factor));
        }
        let divisor = 10_i128.pow(self.exponent.unsigned_abs());
        (self.mantissa % divisor == 0).then(|| self.mantissa / divisor)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    /// By amount, whatever the notation.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let common = self.exponent.min(other.exponent);
        let left = scale_up_from_zero(self.mantissa, i64::from(self.exponent - common));
        let right = scale_up_from_zero(other.mantissa, i64::from(other.exponent - common));
        left.cmp(&right)
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that keeps the amount exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && let Some(whole) = self.whole().filter(|whole| whole.abs() >= 1024)
        {
            return write_binary(f, whole);
        }
        let (mut mantissa, mut exponent) = (self.mantissa, self.exponent);
        while mantissa % 10 == 0 {
            mantissa /= 10;
            exponent += 1;
        }
        let largest = if self.format == Format::DecimalExponent { i32::MAX } else { 18 };
        let target = exponent.min(largest).div_euclid(3) * 3;
        let factor = 10_i128.checked_pow((exponent - target).unsigned_abs());
        let Some(mantissa) = factor.and_then(|factor| mantissa.checked_mul(factor)) else {
            return write!(f, "{mantissa}e{exponent}");
        };
        if self.format == Format::DecimalExponent {
            return if target == 0 {
                write!(f, "{mantissa}")
            } else {
                write!(f, "{mantissa}e{target}")
            };
        }
        let suffix = match target {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        write!(f, "{mantissa}{suffix}")
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, whole: i128) -> fmt::Result {
    let (mut mantissa, mut index) = (whole, 0);
    while mantissa % 1024 == 0 && index < 6 {
        mantissa /= 1024;
        index += 1;
    }
    write!(f, "{mantissa}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][index])
}

/// A quantity as it stands in an object: a string or a bare number, kept as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawQuantity(pub String);

impl RawQuantity {
    pub fn parse(&self) -> Result<Quantity, QuantityError> {
        Quantity::parse(&self.0)
    }
}

impl From<Quantity> for RawQuantity {
    fn from(quantity: Quantity) -> Self {
        Self(quantity.to_string())
    }
}

impl Serialize for RawQuantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RawQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl serde::de::Visitor<'_> for RawVisitor {
    type Value = RawQuantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a string or a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<RawQuantity, E> {
        Ok(RawQuantity(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawQuantity, E> {
        Ok(RawQuantity(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawQuantity, E> {
        Ok(RawQuantity(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RawQuantity, E> {
        Ok(RawQuantity(number.to_string()))
    }
}

struct Parts<'a> {
    negative: bool,
    integer: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl Parts<'_> {
    /// The digits as one number, and the power of ten it has to be multiplied with.
    fn magnitude(&self, limit: u32) -> (i128, i64) {
        let (mut value, mut kept, mut sticky, mut exponent) = (0_i128, 0, false, 0_i64);
        let digits = self.integer.bytes().map(|digit| (digit, 0));
        let fraction = self.fraction.bytes().map(|digit| (digit, 1));
        for (digit, behind_point) in digits.chain(fraction) {
            let digit = i128::from(digit - b'0');
            if kept == limit {
                sticky |= digit != 0;
                exponent += 1 - behind_point;
                continue;
            }
            value = value * 10 + digit;
            exponent -= behind_point;
            kept += u32::from(value != 0);
        }
        (value + i128::from(sticky), exponent)
    }
}

/// Sign, digits, point, digits, suffix; the suffix is letters, then a sign, then digits, and reaches to the end.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (integer, rest) = leading_digits(rest);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
    let tail = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail);
    if !leading_digits(tail).1.is_empty() {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, integer, fraction, suffix })
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Family, power of ten and power of two of a suffix.
fn suffix(text: &str) -> Result<(Format, i64, u32), QuantityError> {
    let decimal = |exponent| Ok((Format::DecimalSi, exponent, 0));
    let binary = |power| Ok((Format::BinarySi, 0, power));
    match text {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => match text.strip_prefix(['e', 'E']).map(str::parse) {
            Some(Ok(exponent)) => Ok((Format::DecimalExponent, exponent, 0)),
            _ => Err(QuantityError::Suffix),
        },
    }
}

/// `mantissa` times ten to the `power`, rounded away from zero, saturating.
fn scale_up_from_zero(mantissa: i128, power: i64) -> i128 {
    if mantissa == 0 || power == 0 {
        return mantissa;
    }
    let factor =
        u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_i128.checked_pow(power));
    let saturated = if mantissa > 0 { i128::MAX } else { i128::MIN };
    match factor {
        Some(factor) if power > 0 => mantissa.checked_mul(factor).unwrap_or(saturated),
        Some(factor) if mantissa % factor == 0 => mantissa / factor,
        Some(factor) => mantissa / factor + mantissa.signum(),
        None if power > 0 => saturated,
        None => mantissa.signum(),
    }
}

/// Ten to the `exponent`, correctly rounded.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}
