//! Zones in the notation of KAI's annotations and bind requests:
//! `[{"zone":"node-0","amount":{"cpu":"8","nvidia.com/gpu":"2"}}]`.
//!
//! Rule: a record that cannot be read or that names a zone the node does not have is ignored as a whole;
//! unknown resources are left out.

use std::fmt::Write as _;

use crate::input::Text;
use crate::plugins::numa::state::{NumaState, ZonePlacement, slot_of};
use crate::resources::{GPU, MEMORY, ResourceNames};
use crate::world::shape::mig_slices;

const MILLI: i64 = 1000;
/// Values within values that are read over.
const DEEPEST: u32 = 32;

/// What a bind request says of one zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PredictedZone {
    /// Id of the zone.
    pub zone: Text,
    /// Amounts by resource name, as Kubernetes writes quantities.
    pub amounts: Vec<(Text, String)>,
}

/// Zones as one text, the form of the annotation.
pub fn write(zones: &[PredictedZone]) -> Option<Text> {
    if zones.is_empty() {
        return None;
    }
    let mut text = String::from("[");
    for (at, zone) in zones.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{{\"zone\":\"{}\",\"amount\":{{", zone.zone);
        for (at, (name, quantity)) in zone.amounts.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\"{name}\":\"{quantity}\"");
        }
        text.push_str("}}");
    }
    text.push(']');
    Some(text.into())
}

/// What a placement says in a bind request.
pub(super) fn predicted(
    placement: &ZonePlacement,
    numa: &NumaState,
    names: &ResourceNames,
) -> Vec<PredictedZone> {
    let zones = placement.zones().iter().filter_map(|(zone, amounts)| {
        let mut shown: Vec<(Text, String)> = amounts
            .non_zero()
            .map(|(slot, amount)| {
                let reported = numa.reported.iter().find(|(known, _)| *known == slot);
                let name =
                    reported.map_or_else(|| names.name(slot).into(), |(_, name)| name.clone());
                (name, quantity(slot, amount, names))
            })
            .collect();
        shown.sort();
        Some(PredictedZone { zone: numa.ids.get(*zone)?.clone(), amounts: shown })
    });
    zones.collect()
}

/// Reads a record; none: it is ignored.
pub(super) fn read(text: &str, numa: &NumaState, names: &ResourceNames) -> Option<ZonePlacement> {
    let mut reader = Reader { rest: text, depth: 0 };
    let mut placement = ZonePlacement::default();
    reader.list('[', ']', |reader| {
        let mut zone = None;
        let mut amounts = Vec::new();
        reader.members(|reader, key| {
            match key {
                "zone" => zone = Some(reader.string()?),
                "amount" => reader.members(|reader, name| {
                    amounts.push((name.to_owned(), reader.scalar()?));
                    Some(())
                })?,
                _ => reader.skip()?,
            }
            Some(())
        })?;
        let zone = zone?;
        let at = numa.ids.iter().position(|id| **id == *zone)?;
        for (name, quantity) in amounts {
            if let Some(slot) = slot_of(&name, names) {
                placement.add(at, slot, in_units_of(slot, parse_milli(&quantity)?, names));
            }
        }
        Some(())
    })?;
    reader.at_end().then_some(placement)
}

/// Whether amounts of a slot are whole numbers; others are counted in thousandths.
fn is_counted_whole(slot: usize, names: &ResourceNames) -> bool {
    let name = names.name(slot);
    slot == GPU
        || slot == MEMORY
        || matches!(name, "ephemeral-storage" | "storage" | "pods")
        || mig_slices(name).is_some()
}

fn in_units_of(slot: usize, milli: i64, names: &ResourceNames) -> i64 {
    if is_counted_whole(slot, names) { milli / MILLI + i64::from(milli % MILLI > 0) } else { milli }
}

fn quantity(slot: usize, amount: i64, names: &ResourceNames) -> String {
    if is_counted_whole(slot, names) {
        amount.to_string()
    } else if amount % MILLI == 0 {
        (amount / MILLI).to_string()
    } else {
        format!("{amount}m")
    }
}

/// Thousandths of a Kubernetes quantity, rounded up.
pub(super) fn parse_milli(text: &str) -> Option<i64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, suffix) = text.split_at(digits.unwrap_or(text.len()));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mantissa: i128 = format!("{whole}{part}").parse().ok()?;
    let (times, over): (i128, i128) = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    };
    let over = over.checked_mul(10_i128.checked_pow(u32::try_from(part.len()).ok()?)?)?;
    let scaled = mantissa.checked_mul(times)?.checked_mul(i128::from(MILLI))?;
    i64::try_from((scaled + over - 1) / over).ok()
}

/// Reads the little of JSON that records are made of.
struct Reader<'a> {
    rest: &'a str,
    /// Depth of the ignored value that is being read.
    depth: u32,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn at_end(&mut self) -> bool {
        self.space();
        self.rest.is_empty()
    }

    fn takes(&mut self, letter: char) -> bool {
        self.space();
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Items between two brackets, separated by commas.
    fn list(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if !self.takes(open) {
            return None;
        }
        if self.takes(close) {
            return Some(());
        }
        loop {
            item(self)?;
            if self.takes(close) {
                return Some(());
            }
            if !self.takes(',') {
                return None;
            }
        }
    }

    /// Members of an object.
    fn members(&mut self, mut member: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        self.list('{', '}', |reader| {
            let key = reader.string()?;
            if reader.takes(':') { member(reader, &key) } else { None }
        })
    }

    fn string(&mut self) -> Option<String> {
        if !self.takes('"') {
            return None;
        }
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => match letters.next()?.1 {
                    plain @ ('"' | '\\' | '/') => text.push(plain),
                    // Names of zones and resources have no other letters that need it.
                    _ => return None,
                },
                _ => text.push(letter),
            }
        }
        None
    }

    /// A string or a bare number.
    fn scalar(&mut self) -> Option<String> {
        self.space();
        if self.rest.starts_with('"') {
            return self.string();
        }
        let end = self.rest.find([',', '}', ']', ' ', '\n', '\t', '\r']);
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Any value that is not nested without end.
    fn skip(&mut self) -> Option<()> {
        self.space();
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let skipped = match self.rest.chars().next()? {
            '{' => self.members(|reader, _| reader.skip()),
            '[' => self.list('[', ']', Self::skip),
            _ => self.scalar().map(|_| ()),
        };
        self.depth -= 1;
        skipped
    }
}
