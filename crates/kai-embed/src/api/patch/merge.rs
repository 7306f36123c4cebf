//! Merge patches (RFC 7386): maps are merged, everything else is replaced, null removes.

use serde_json::{Map, Value};

/// Merges a patch into a value.
pub(crate) fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { return };
    for (key, patch) in patch {
        if patch.is_null() {
            map.shift_remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), patch);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_remove_and_lists_are_replaced() {
        let mut value = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
        merge(&mut value, &json!({"a": {"b": null, "d": {"e": null}}, "list": [3]}));
        assert_eq!(value, json!({"a": {"c": 2, "d": {}}, "list": [3]}));
    }
}
