//! Structural schemas: defaults, pruning, validation.

use cel::Value as Cel;
use serde_json::{Value, json};

use crate::expressions::Expressions;
use crate::failure::{FaultKind, FieldFault};
use crate::object::items;

/// Fills what is missing with the defaults of the schema.
pub fn apply_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                let missing = match map.get(key) {
                    None => true,
                    Some(Value::Null) => property["nullable"] != true,
                    Some(_) => false,
                };
                if missing && let Some(default) = property.get("default") {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(property) = property(schema, key) {
                    apply_defaults(value, property);
                }
            }
        }
        Value::Array(list) => {
            for item in list {
                apply_defaults(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

/// The schema of a field of an object.
pub(crate) fn property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let named = schema["properties"].get(key);
    named.or_else(|| schema.get("additionalProperties").filter(|any| any.is_object()))
}

/// Removes what the schema does not know, and names it.
pub fn prune(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(map) = object.as_object_mut() {
        // Every object has these, whatever the schema says of them.
        let kept: Vec<(String, Option<Value>)> = ["apiVersion", "kind", "metadata"]
            .map(|key| (key.to_owned(), map.shift_remove(key)))
            .into_iter()
            .collect();
        let rest: Vec<(String, Value)> = std::mem::take(map).into_iter().collect();
        let kept = kept.into_iter().filter_map(|(key, value)| Some((key, value?)));
        map.extend(kept);
        let mut rest = Value::Object(rest.into_iter().collect());
        prune_value(&mut rest, schema, "", &mut unknown);
        if let Value::Object(rest) = rest {
            map.extend(rest);
        }
    }
    unknown
}

fn prune_value(value: &mut Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true && schema["properties"].is_null() {
        return;
    }
    match value {
        Value::Object(map) => {
            let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true
                || schema["additionalProperties"] == true;
            let embedded = schema["x-kubernetes-embedded-resource"] == true;
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                let place = join(path, &key);
                let known = property(schema, &key);
                let is_meta = embedded && matches!(&*key, "apiVersion" | "kind" | "metadata");
                match (known, map.get_mut(&key)) {
                    (Some(schema), Some(value)) if !is_meta => {
                        prune_value(value, schema, &place, unknown);
                    }
                    (None, Some(_)) if !keeps_all && !is_meta => {
                        map.shift_remove(&key);
                        unknown.push(place);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(list) => {
            for (at, item) in list.iter_mut().enumerate() {
                prune_value(item, &schema["items"], &format!("{path}[{at}]"), unknown);
            }
        }
        _ => {}
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// What is wrong with an object. Patterns are expressions too.
pub(crate) fn validate(
    object: &Value,
    schema: &Value,
    expressions: &Expressions,
) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    validate_value(object, schema, "", expressions, &mut faults);
    faults
}

fn validate_value(
    value: &Value,
    schema: &Value,
    path: &str,
    expressions: &Expressions,
    faults: &mut Vec<FieldFault>,
) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !has_type(value, schema) {
        let wanted = schema["type"].as_str().unwrap_or_default();
        let is = type_name(value);
        let why = format!("{path} in body must be of type {wanted}: {is:?}");
        let fault = FieldFault::invalid(path, &json!(is), &why);
        faults.push(FieldFault { kind: FaultKind::Type, ..fault });
        return;
    }
    validate_enum(value, schema, path, faults);
    validate_bounds(value, schema, path, faults);
    validate_pattern(value, schema, path, expressions, faults);
    match value {
        Value::Object(map) => {
            for required in items(&schema["required"]).filter_map(Value::as_str) {
                if !map.contains_key(required) {
                    faults.push(FieldFault::required(join(path, required), ""));
                }
            }
            for (key, value) in map {
                if let Some(schema) = property(schema, key)
                    && !(path.is_empty() && key == "metadata")
                {
                    validate_value(value, schema, &join(path, key), expressions, faults);
                }
            }
        }
        Value::Array(list) => {
            for (at, item) in list.iter().enumerate() {
                let place = format!("{path}[{at}]");
                validate_value(item, &schema["items"], &place, expressions, faults);
            }
        }
        _ => {}
    }
}

/// Items that are twice in lists which are sets or maps.
pub(crate) fn duplicates(value: &Value, schema: &Value, path: &str) -> Vec<FieldFault> {
    match value {
        Value::Object(map) => map
            .iter()
            .filter_map(|(key, value)| Some((join(path, key), value, property(schema, key)?)))
            .flat_map(|(place, value, schema)| duplicates(value, schema, &place))
            .collect(),
        Value::Array(list) => {
            let mut faults = Vec::new();
            let identities: Vec<Option<Value>> =
                list.iter().map(|item| identity(item, schema)).collect();
            for (at, (item, identity)) in list.iter().zip(&identities).enumerate() {
                if let Some(identity) =
                    identity.as_ref().filter(|_| identities[..at].contains(identity))
                {
                    faults.push(FieldFault::duplicate(format!("{path}[{at}]"), identity));
                }
                faults.extend(duplicates(item, &schema["items"], &format!("{path}[{at}]")));
            }
            faults
        }
        _ => Vec::new(),
    }
}

/// The key values that identify an item of a list; none where duplicates are allowed.
fn identity(item: &Value, schema: &Value) -> Option<Value> {
    match schema["x-kubernetes-list-type"].as_str()? {
        "set" => Some(item.clone()),
        "map" => {
            let keys = items(&schema["x-kubernetes-list-map-keys"]).filter_map(Value::as_str);
            let said = keys.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())));
            Some(Value::Object(said.collect()))
        }
        _ => None,
    }
}

fn has_type(value: &Value, schema: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || value.is_i64() || value.is_u64();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0)
        }
        _ => true,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn validate_enum(value: &Value, schema: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let Some(values) = schema["enum"].as_array() else { return };
    if !values.contains(value) {
        let supported: Vec<String> =
            values.iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect();
        faults.push(FieldFault::not_supported(path, value, &supported));
    }
}

fn validate_pattern(
    value: &Value,
    schema: &Value,
    path: &str,
    expressions: &Expressions,
    faults: &mut Vec<FieldFault>,
) {
    let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str()) else { return };
    let variables = [("self", Cel::from(text)), ("pattern", Cel::from(pattern))];
    // A pattern that cannot be parsed was rejected with its definition, or matches everything.
    if expressions.holds("self.matches(pattern)", &variables) == Ok(false) {
        let message = format!("Invalid value: {value}: {path} in body should match '{pattern}'");
        faults.push(FieldFault { field: path.to_owned(), kind: FaultKind::Invalid, message });
    }
}

fn validate_bounds(value: &Value, schema: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let mut wrong = |why: String| {
        let message = format!("Invalid value: {value}: {path} in body {why}");
        faults.push(FieldFault { field: path.to_owned(), kind: FaultKind::Invalid, message });
    };
    if let Some(number) = value.as_f64() {
        let beyond = |bound: &str, exclusive: &str| {
            let bound = schema[bound].as_f64()?;
            Some((bound, schema[exclusive] == true))
        };
        match beyond("minimum", "exclusiveMinimum") {
            Some((least, true)) if number <= least => {
                wrong(format!("should be greater than {least}"));
            }
            Some((least, false)) if number < least => {
                wrong(format!("should be greater than or equal to {least}"));
            }
            _ => {}
        }
        match beyond("maximum", "exclusiveMaximum") {
            Some((most, true)) if number >= most => wrong(format!("should be less than {most}")),
            Some((most, false)) if number > most => {
                wrong(format!("should be less than or equal to {most}"));
            }
            _ => {}
        }
    }
    let length = value.as_str().map(|text| text.chars().count() as u64);
    if let Some(least) = schema["minLength"].as_u64().filter(|least| length < Some(*least))
        && length.is_some()
    {
        wrong(format!("should be at least {least} chars long"));
    }
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > Some(*most)) {
        wrong(format!("may not be more than {most} bytes"));
    }
    let count = value.as_array().map(|list| list.len() as u64);
    if let Some(least) = schema["minItems"].as_u64().filter(|least| count < Some(*least))
        && count.is_some()
    {
        wrong(format!("should have at least {least} items"));
    }
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| count > Some(*most)) {
        wrong(format!("should have at most {most} items"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "required": ["queue"], "properties": {
                "queue": {"type": "string", "minLength": 1, "pattern": "^[a-z]*$"},
                "size": {"type": "integer", "default": 1, "minimum": 1},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "amounts": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
            }},
        }})
    }

    #[test]
    fn missing_fields_get_their_defaults() {
        let mut object = json!({"metadata": {"name": "x"}});
        apply_defaults(&mut object, &schema());
        assert_eq!(object["spec"], json!({"size": 1}));
    }

    #[test]
    fn unknown_fields_go() {
        let mut object = json!({"kind": "X", "metadata": {"anything": 1}, "spec": {"queue": "q", "odd": 1, "any": {"odd": 1}, "amounts": {"cpu": 1}}, "odd": {}});
        let unknown = prune(&mut object, &schema());
        assert_eq!(unknown, ["spec.odd", "odd"]);
        assert_eq!(
            object,
            json!({"kind": "X", "metadata": {"anything": 1}, "spec": {"queue": "q", "any": {"odd": 1}, "amounts": {"cpu": 1}}})
        );
    }

    #[test]
    fn faults_name_their_field() {
        let object = json!({"spec": {"size": 0, "mode": "c", "amounts": {"cpu": true}}});
        let faults = validate(&object, &schema(), &Expressions::default());
        let texts: Vec<String> =
            faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect();
        assert_eq!(
            texts,
            [
                "spec.queue: Required value",
                "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
                "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\"",
                "spec.amounts.cpu: Invalid value: \"boolean\": spec.amounts.cpu in body must be of type : \"boolean\"",
            ]
        );
        let object = json!({"spec": {"queue": "A"}});
        let faults = validate(&object, &schema(), &Expressions::default());
        let wanted = "Invalid value: \"A\": spec.queue in body should match '^[a-z]*$'";
        assert_eq!(faults[0].message, wanted);
        let object = json!({"spec": {"queue": 7}});
        let faults = validate(&object, &schema(), &Expressions::default());
        assert_eq!(
            faults[0].message,
            "Invalid value: \"integer\": spec.queue in body must be of type string: \"integer\""
        );
    }
}
