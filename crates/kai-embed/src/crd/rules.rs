//! Rules that a schema states as expressions (`x-kubernetes-validations`).

use cel::Value as Cel;
use serde_json::Value;

use super::property;
use crate::expressions::{Expressions, cel_value};
use crate::failure::{FaultKind, FieldFault};
use crate::object::{items, text};

/// What the rules of a schema say against an object. `old` is what it was before, where it was.
pub(crate) fn check_rules(
    expressions: &Expressions,
    old: Option<&Value>,
    new: &Value,
    schema: &Value,
) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    Walk { expressions, faults: &mut faults }.value(old, new, schema, "");
    faults
}

/// Whether a schema states any rules.
pub(crate) fn has_rules(schema: &Value) -> bool {
    let below = schema["properties"].as_object().into_iter().flatten().map(|(_, below)| below);
    !schema["x-kubernetes-validations"].is_null()
        || below.into_iter().any(has_rules)
        || ["items", "additionalProperties"]
            .iter()
            .any(|key| schema.get(key).is_some_and(|below| below.is_object() && has_rules(below)))
}

struct Walk<'a> {
    expressions: &'a Expressions,
    faults: &'a mut Vec<FieldFault>,
}

impl Walk<'_> {
    fn value(&mut self, old: Option<&Value>, new: &Value, schema: &Value, path: &str) {
        for rule in items(&schema["x-kubernetes-validations"]) {
            self.rule(rule, old, new, schema, path);
        }
        match new {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let Some(schema) = property(schema, key) else { continue };
                    let old = old.and_then(|old| old.get(key));
                    let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.value(old, value, schema, &place);
                }
            }
            Value::Array(list) => {
                for (at, item) in list.iter().enumerate() {
                    let old = old.and_then(|old| same_item(old, item, schema));
                    self.value(old, item, &schema["items"], &format!("{path}[{at}]"));
                }
            }
            _ => {}
        }
    }

    fn rule(&mut self, rule: &Value, old: Option<&Value>, new: &Value, schema: &Value, path: &str) {
        let expression = text(&rule["rule"]);
        let mut variables = vec![("self", cel_value(new, schema))];
        if expression.contains("oldSelf") {
            // A rule about a change says nothing about what is new.
            let Some(old) = old else { return };
            variables.push(("oldSelf", cel_value(old, schema)));
        } else if old == Some(new) {
            // What was let in once may stay as it is.
            return;
        }
        let why = match self.expressions.holds(expression, &variables) {
            Ok(true) => return,
            Ok(false) => self.message(rule, &variables),
            Err(error) => format!("{error} evaluating rule: {}", self.message(rule, &variables)),
        };
        let field = format!("{path}{}", text(&rule["fieldPath"]));
        let kind = match text(&rule["reason"]) {
            "FieldValueForbidden" => FaultKind::Forbidden,
            "FieldValueRequired" => FaultKind::Required,
            "FieldValueDuplicate" => FaultKind::Duplicate,
            _ => FaultKind::Invalid,
        };
        self.faults.push(FieldFault::broken_rule(field, kind, new, &why));
    }

    fn message(&self, rule: &Value, variables: &[(&str, Cel)]) -> String {
        let computed = rule["messageExpression"].as_str().and_then(|expression| {
            match self.expressions.value(expression, variables) {
                Ok(Cel::String(text)) if !text.trim().is_empty() => Some(text.to_string()),
                _ => None,
            }
        });
        computed
            .or_else(|| rule["message"].as_str().map(str::to_owned))
            .unwrap_or_else(|| format!("failed rule: {}", text(&rule["rule"]).trim()))
    }
}

/// The previous version of an item of a list; none if the list has no keys.
fn same_item<'a>(old: &'a Value, item: &Value, schema: &Value) -> Option<&'a Value> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys: Vec<&str> =
        items(&schema["x-kubernetes-list-map-keys"]).filter_map(Value::as_str).collect();
    items(old).find(|before| keys.iter().all(|key| before[*key] == item[*key]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn violations(old: Option<&Value>, new: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"levels": {
            "type": "array",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed"},
                {"rule": "size(self) < 3"},
            ],
            "items": {"type": "object", "x-kubernetes-validations": [
                {"rule": "self.a != 'b'", "messageExpression": "'not ' + self.a", "fieldPath": ".a"},
            ]},
        }}});
        let faults = check_rules(&Expressions::default(), old, new, &schema);
        faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect()
    }

    #[test]
    fn violations_name_the_field() {
        assert_eq!(violations(None, &json!({"levels": [{"a": "x"}]})), Vec::<String>::new());
        let many = json!({"levels": [{"a": "x"}, {"a": "b"}, {"a": "y"}]});
        assert_eq!(
            violations(None, &many),
            [
                "levels: Invalid value: failed rule: size(self) < 3",
                "levels[1].a: Invalid value: not b",
            ]
        );
    }

    #[test]
    fn rules_about_changes_look_at_changes_only() {
        let one = json!({"levels": [{"a": "x"}]});
        assert_eq!(violations(Some(&one), &one), Vec::<String>::new());
        let other = json!({"levels": [{"a": "y"}]});
        assert_eq!(violations(Some(&one), &other), ["levels: Invalid value: fixed"]);
        assert_eq!(violations(Some(&json!({})), &other), Vec::<String>::new());
    }
}
