//! Numbers as documents write them: whole amounts, and amounts that may be without bound.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Amounts by resource name: `cpu_milli`, `memory_bytes` or the name of the resource.
pub type AmountMap = BTreeMap<String, i64>;

/// A number of at least 0, or the word `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// At most this much.
    Limited(f64),
    /// No bound, written as `unlimited`.
    Unlimited,
}

impl Amount {
    /// The number, or nothing when there is no bound.
    pub fn limit(self) -> Option<f64> {
        match self {
            Self::Limited(amount) => Some(amount),
            Self::Unlimited => None,
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of at least 0 or \"unlimited\"")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Amount, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Amount, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Amount, E> {
        if value < 0.0 {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        Ok(Amount::Limited(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Amount, E> {
        if value == "unlimited" {
            Ok(Amount::Unlimited)
        } else {
            Err(E::invalid_value(Unexpected::Str(value), &self))
        }
    }
}

/// An amount that is counted in whole units. A part of a unit counts as a whole one, as Kubernetes
/// rounds quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole(pub(super) i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number of at least 0")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Whole, E> {
        if value < 0 {
            return Err(E::invalid_value(Unexpected::Signed(value), &self));
        }
        Ok(Whole(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Whole, E> {
        if value < 0.0 {
            return Err(E::invalid_value(Unexpected::Float(value), &self));
        }
        Ok(Whole(value.ceil() as i64))
    }
}

/// For `deserialize_with`: a whole amount as a plain integer.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Whole::deserialize(deserializer).map(|amount| amount.0)
}

/// For `deserialize_with`: whole amounts by name.
pub(super) fn whole_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AmountMap, D::Error> {
    let amounts = BTreeMap::<String, Whole>::deserialize(deserializer)?;
    Ok(amounts.into_iter().map(|(name, amount)| (name, amount.0)).collect())
}
