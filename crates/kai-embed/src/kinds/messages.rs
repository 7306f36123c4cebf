//! Fields of built-in kinds, in JSON and in protobuf. The table is [`TABLE`]; its first lines say how to read it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("messages.txt");

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
}

/// How often a field is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Once,
    Many,
    ByKey,
    /// Its own fields are fields of the object around it.
    Inline,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Integer(Zero, Width),
    Boolean(Zero),
    Number,
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    Json,
    Message(&'static str),
}

/// Size of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Bits32,
    Bits64,
}

/// Meaning of a zero value, which protobuf does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// The field is zero.
    Said,
    /// The field is not set.
    Silence,
}

/// The fields of a message, by number.
pub(crate) type Fields = BTreeMap<u64, Field>;

static MESSAGES: LazyLock<BTreeMap<&'static str, Fields>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, rest)| (name, fields(rest))).collect()
});

/// Values by name. Every field of every written object is looked up here: names of other lengths are skipped without comparing texts.
pub(crate) struct ByName<T>(Vec<(&'static str, T)>);

impl<T> ByName<T> {
    fn of(values: BTreeMap<&'static str, T>) -> Self {
        let mut values: Vec<(&'static str, T)> = values.into_iter().collect();
        values.sort_by_key(|(name, _)| (name.len(), *name));
        Self(values)
    }

    /// The value of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let order = |(known, _): &(&str, T)| known.len().cmp(&name.len()).then((*known).cmp(name));
        self.0.binary_search_by(order).ok().map(|at| &self.0[at].1)
    }
}

/// The fields of a message by their name in JSON, those of inlined messages included.
pub(crate) type FieldsByName = ByName<Field>;

static BY_NAME: LazyLock<ByName<FieldsByName>> = LazyLock::new(|| {
    let by_name = MESSAGES.iter().map(|(name, fields)| {
        let mut named = BTreeMap::new();
        add_names(fields, &mut named);
        (*name, ByName::of(named))
    });
    ByName::of(by_name.collect())
});

/// Adds the fields of a message. Of two fields with one name the first counts.
fn add_names(fields: &Fields, named: &mut BTreeMap<&'static str, Field>) {
    for field in fields.values() {
        match (field.shape, field.kind) {
            (Shape::Inline, Kind::Message(inner)) => {
                if let Some(inner) = message(inner) {
                    add_names(inner, named);
                }
            }
            _ => {
                named.entry(field.name).or_insert(*field);
            }
        }
    }
}

/// The fields of the message of this name, by their names.
pub(crate) fn named_fields(message: &str) -> Option<&'static FieldsByName> {
    BY_NAME.get(message)
}

/// The fields of a kind, by their names.
pub(crate) fn named_fields_of_kind(api_version: &str, kind: &str) -> Option<&'static FieldsByName> {
    named_fields(&name_of(api_version, kind))
}

/// The fields of the message of this name.
pub(crate) fn message(name: &str) -> Option<&'static Fields> {
    MESSAGES.get(name)
}

/// The message of a kind.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Fields> {
    message(&name_of(api_version, kind))
}

/// The name of the message of a kind.
fn name_of(api_version: &str, kind: &str) -> String {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let package = match group.split('.').next().unwrap_or_default() {
        _ if kind == "DeleteOptions" => "meta",
        "" => "core",
        package => package,
    };
    format!("{package}/{kind}")
}

fn fields(line: &'static str) -> Fields {
    line.split(' ').filter_map(field).collect()
}

fn field(text: &'static str) -> Option<(u64, Field)> {
    let mut parts = text.split(':');
    let (number, name, code) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (shape, code) = match code.split_at_checked(1)? {
        ("*", rest) => (Shape::Many, rest),
        ("%", rest) => (Shape::ByKey, rest),
        ("^", rest) => (Shape::Inline, rest),
        _ => (Shape::Once, code),
    };
    let kind = match code {
        "s" => Kind::Text,
        "y" => Kind::Bytes,
        "i" => Kind::Integer(Zero::Said, Width::Bits32),
        "I" => Kind::Integer(Zero::Silence, Width::Bits32),
        "l" => Kind::Integer(Zero::Said, Width::Bits64),
        "L" => Kind::Integer(Zero::Silence, Width::Bits64),
        "b" => Kind::Boolean(Zero::Said),
        "B" => Kind::Boolean(Zero::Silence),
        "d" => Kind::Number,
        "q" => Kind::Quantity,
        "t" => Kind::Time,
        "u" => Kind::MicroTime,
        "x" => Kind::IntOrString,
        "f" => Kind::Json,
        message => Kind::Message(message.strip_prefix('@')?),
    };
    Some((number, Field { name, shape, kind }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let written = TABLE.lines().filter(|line| !line.starts_with('#'));
        for line in written {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let expected = rest.split(' ').filter(|field| !field.is_empty()).count();
            assert_eq!(message(name).map_or(0, BTreeMap::len), expected, "{name}");
        }
        for field in MESSAGES.values().flat_map(BTreeMap::values) {
            if let Kind::Message(name) = field.kind {
                assert!(TABLE.contains(&format!("\n{name}")), "{name}");
            }
        }
    }

    #[test]
    fn kinds_are_found_by_group() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("batch/v1", "CronJob"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("policy/v1", "DeleteOptions"),
        ] {
            assert!(of_kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
        assert!(of_kind("example.com/v1", "Pod").is_none());
    }
}
