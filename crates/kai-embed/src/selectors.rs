//! Selectors of labels and fields, as they stand in queries and in objects.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::failure::Failure;
use crate::object::{at, entries, field, items, text};

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
    Above(String, i64),
    Below(String, i64),
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        let value = |key: &str| labels.get(key).copied();
        let number = |key: &str| value(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => {
                value(key).is_some_and(|is| values.iter().any(|one| one == is))
            }
            Self::NotIn(key, values) => {
                value(key).is_none_or(|is| values.iter().all(|one| one != is))
            }
            Self::Exists(key) => labels.contains_key(key.as_str()),
            Self::Missing(key) => !labels.contains_key(key.as_str()),
            Self::Above(key, bound) => number(key).is_some_and(|is| is > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|is| is < *bound),
        }
    }
}

/// Which labels are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// A selector that is not there selects nothing.
    selects_nothing: bool,
}

impl LabelSelector {
    /// Reads the text of a query: `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if !part.is_empty() {
                requirements.push(requirement(part)?);
            }
        }
        Ok(Self { requirements, selects_nothing: false })
    }

    /// Reads the selector of an object: `matchLabels` and `matchExpressions`. A missing one selects nothing.
    pub fn of(selector: &Value) -> Self {
        if selector.is_null() {
            return Self { requirements: Vec::new(), selects_nothing: true };
        }
        let exact = entries(field(selector, "matchLabels"))
            .into_iter()
            .map(|(key, value)| Requirement::In(key.to_owned(), vec![value.to_owned()]));
        let expressions = items(field(selector, "matchExpressions")).filter_map(|one| {
            let key = text(field(one, "key")).to_owned();
            let values = items(field(one, "values")).map(|value| text(value).to_owned()).collect();
            match text(field(one, "operator")) {
                "In" => Some(Requirement::In(key, values)),
                "NotIn" => Some(Requirement::NotIn(key, values)),
                "Exists" => Some(Requirement::Exists(key)),
                "DoesNotExist" => Some(Requirement::Missing(key)),
                _ => None,
            }
        });
        Self { requirements: exact.chain(expressions).collect(), selects_nothing: false }
    }

    /// The same, but a missing one selects everything.
    pub fn of_optional(selector: &Value) -> Self {
        if selector.is_null() { Self::default() } else { Self::of(selector) }
    }

    /// Whether the labels of an object are as wanted.
    pub fn matches(&self, object: &Value) -> bool {
        if self.selects_nothing {
            return false;
        }
        if self.requirements.is_empty() {
            return true;
        }
        let labels = entries(at(object, &["metadata", "labels"]));
        self.requirements.iter().all(|one| one.matches(&labels))
    }
}

/// Commas within parentheses separate values, not requirements.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(part: &str) -> Result<Requirement, Failure> {
    let broken = || Failure::bad_request(format!("unable to parse requirement: {part:?}"));
    let owned = |text: &str| text.trim().to_owned();
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Requirement::Missing(owned(key)));
    }
    if let Some(inside) = part.strip_suffix(')') {
        let (head, values) = inside.split_once('(').ok_or_else(broken)?;
        let values = values.split(',').map(owned).collect();
        let (key, operator) = head.trim().rsplit_once(' ').ok_or_else(broken)?;
        return match operator {
            "in" => Ok(Requirement::In(owned(key), values)),
            "notin" => Ok(Requirement::NotIn(owned(key), values)),
            _ => Err(broken()),
        };
    }
    for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let values = vec![owned(value)];
            let requirement = if negated { Requirement::NotIn } else { Requirement::In };
            return Ok(requirement(owned(key), values));
        }
    }
    for (operator, above) in [('>', true), ('<', false)] {
        if let Some((key, value)) = part.split_once(operator) {
            let bound = value.trim().parse().map_err(|_| broken())?;
            let requirement = if above { Requirement::Above } else { Requirement::Below };
            return Ok(requirement(owned(key), bound));
        }
    }
    Ok(Requirement::Exists(owned(part)))
}

/// Which fields are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// Path, value, and whether it must be that or must not.
    requirements: Vec<(String, String, bool)>,
}

impl FieldSelector {
    /// Reads the text of a query: `status.phase!=Failed,spec.nodeName=n`. `stored` gives the path under which a field is
    /// found, where it may be selected by.
    pub fn parse(
        text: &str,
        stored: impl Fn(&str) -> Result<String, Failure>,
    ) -> Result<Self, Failure> {
        let mut requirements = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let found = [("!=", false), ("==", true), ("=", true)]
                .into_iter()
                .find_map(|(operator, equal)| Some((part.split_once(operator)?, equal)));
            let Some(((path, value), equal)) = found else {
                return Err(Failure::bad_request(format!(
                    "invalid selector: {text:?}; can't understand {part:?}"
                )));
            };
            requirements.push((stored(path)?, value.to_owned(), equal));
        }
        Ok(Self { requirements })
    }

    /// Whether the fields of an object are as wanted.
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|(path, wanted, equal)| {
            let found = path.split('.').fold(object, |here, key| &here[key]);
            let found = match found {
                Value::String(text) => text.clone(),
                Value::Null if path == "spec.unschedulable" => "false".to_owned(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (found == *wanted) == *equal
        })
    }

    /// The name in the selector, if the selector matches one name only.
    pub fn name(&self) -> Option<&str> {
        let mut names = self.requirements.iter();
        names.find(|(path, _, equal)| path == "metadata.name" && *equal).map(|(_, name, _)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: &Value) -> bool {
        let selector = LabelSelector::parse(selector).expect(selector);
        selector.matches(&json!({"metadata": {"labels": labels}}))
    }

    #[test]
    fn labels_are_selected_as_kubectl_asks() {
        let labels = || json!({"app": "web", "tier": "2"});
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app in (db,web)",
            "!gone",
            "gone!=x",
            "app notin (db), tier=2",
            "tier>1",
        ] {
            assert!(selects(yes, &labels()), "{yes}");
        }
        for no in ["gone", "app=db", "app in (db)", "!app", "app!=web", "app notin (web)", "tier<2"]
        {
            assert!(!selects(no, &labels()), "{no}");
        }
        assert!(LabelSelector::parse("app among (x)").is_err());
    }

    #[test]
    fn selectors_of_objects() {
        let pod = json!({"metadata": {"labels": {"app": "web"}}});
        let selector = |selector: Value| LabelSelector::of(&selector).matches(&pod);
        assert!(selector(json!({})));
        assert!(!selector(Value::Null));
        assert!(selector(
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})
        ));
        assert!(!selector(json!({"matchLabels": {"app": "db"}})));
    }

    #[test]
    fn fields() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Running"}});
        let parse = |text: &str| {
            FieldSelector::parse(text, |path| {
                if path == "spec.x" { Err(Failure::no_such_path()) } else { Ok(path.to_owned()) }
            })
        };
        assert!(parse("status.phase!=Failed").expect("it").matches(&pod));
        assert!(parse("spec.nodeName=").expect("it").matches(&pod));
        assert_eq!(parse("metadata.name=p").expect("it").name(), Some("p"));
        assert!(parse("spec.x=1").is_err());
    }
}
