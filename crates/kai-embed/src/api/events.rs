//! Events in the form of `events.k8s.io`: the same objects as core events, with other field names.

use serde_json::Value;

/// The words in which a client speaks of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The field names under which objects are stored.
    Stored,
    /// The field names of `events.k8s.io/v1`.
    NewEvents,
}

/// Fields under their name in the core, and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

impl Dialect {
    /// Puts a stored object into these words.
    pub(super) fn speak(self, object: &mut Value) {
        if self == Self::NewEvents {
            rename(object, NAMES.iter().map(|(old, new)| (*old, *new)));
        }
    }

    /// Converts an object with these field names into its stored form.
    pub(super) fn understand(self, object: &mut Value) {
        if self == Self::NewEvents {
            rename(object, NAMES.iter().map(|(old, new)| (*new, *old)));
        }
    }

    /// The path of a field as it is stored.
    pub(super) fn stored_path(self, path: &str) -> String {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        let known = NAMES.iter().find(|(_, new)| *new == head).filter(|_| self == Self::NewEvents);
        match known {
            Some((old, _)) if rest.is_empty() => (*old).to_owned(),
            Some((old, _)) => format!("{old}.{rest}"),
            None => path.to_owned(),
        }
    }
}

fn rename<'a>(object: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(map) = object.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = map.shift_remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ways() {
        let stored = json!({"message": "m", "involvedObject": {"kind": "Pod"}, "reason": "r"});
        let mut converted = stored.clone();
        Dialect::NewEvents.speak(&mut converted);
        assert_eq!(converted, json!({"reason": "r", "note": "m", "regarding": {"kind": "Pod"}}));
        Dialect::NewEvents.understand(&mut converted);
        assert_eq!(converted, stored);
        assert_eq!(Dialect::NewEvents.stored_path("regarding.name"), "involvedObject.name");
        assert_eq!(Dialect::Stored.stored_path("note"), "note");
    }
}
