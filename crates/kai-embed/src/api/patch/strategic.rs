//! Strategic merge patches: as merge patches, but lists of built-in objects are merged item by item.

use serde_json::{Map, Value};

use crate::lists::{ListKind, Lists, same_item};
use crate::object::items;

const DIRECTIVE: &str = "$patch";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
const RETAIN_KEYS: &str = "$retainKeys";

/// Merges a patch into an object.
pub(super) fn merge(value: &mut Value, patch: &Value) {
    merge_field("", value, patch);
}

fn merge_field(field: &str, value: &mut Value, patch: &Value) {
    match patch {
        Value::Object(patch) => merge_map(value, patch),
        Value::Array(patch) if value.is_array() => merge_list(field, value, patch),
        _ => *value = patch.clone(),
    }
}

fn merge_map(value: &mut Value, patch: &Map<String, Value>) {
    if !value.is_object() || patch.get(DIRECTIVE).is_some_and(|directive| directive == "replace") {
        *value = Value::Object(Map::new());
    }
    let Value::Object(map) = value else { return };
    if let Some(kept) = patch.get(RETAIN_KEYS) {
        map.retain(|key, _| items(kept).any(|one| one == key.as_str()));
    }
    for (key, patch) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM_LIST) {
            if let Some(values) = map.get_mut(list).and_then(Value::as_array_mut) {
                values.retain(|value| !items(patch).any(|one| one == value));
            }
        } else if key.starts_with('$') {
            // Orders of items, and directives that were read above.
        } else if patch.is_null() || patch[DIRECTIVE] == "delete" {
            map.shift_remove(key);
        } else {
            merge_field(key, map.entry(key.clone()).or_insert(Value::Null), patch);
        }
    }
}

fn merge_list(field: &str, value: &mut Value, patch: &[Value]) {
    let Value::Array(list) = value else { return };
    match Lists::Builtin.kind(field) {
        ListKind::Atomic => *list = patch.to_vec(),
        ListKind::Set => {
            for item in patch.iter().filter(|item| !item.is_object()) {
                if !list.contains(item) {
                    list.push(item.clone());
                }
            }
        }
        ListKind::Map(keys) => {
            // In patches one key identifies items, even if applied objects use several.
            let keys = &keys[..1];
            if patch.iter().any(|item| item[DIRECTIVE] == "replace") {
                list.clear();
            }
            for item in patch {
                let known = list.iter().position(|one| same_item(keys, one, item));
                match (known, item[DIRECTIVE].as_str()) {
                    (Some(at), Some("delete")) => {
                        list.remove(at);
                    }
                    (None, Some("delete")) | (_, Some("replace")) => {}
                    (Some(at), _) => merge_field("", &mut list[at], item),
                    (None, _) => list.push(item.clone()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_are_merged_by_name() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "tolerations": [{"key": "x"}]}, "metadata": {"finalizers": ["one"]}});
        let patch = json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}],
            "containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
            "tolerations": [],
        }, "metadata": {"finalizers": ["two"], "labels": {"new": "yes"}}});
        merge(&mut pod, &patch);
        assert_eq!(
            pod,
            json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "tolerations": []}, "metadata": {"finalizers": ["one", "two"], "labels": {"new": "yes"}}})
        );
        merge(
            &mut pod,
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["one"], "labels": null}}),
        );
        assert_eq!(pod["metadata"], json!({"finalizers": ["two"]}));
    }
}
