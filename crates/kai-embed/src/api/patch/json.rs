//! JSON patches (RFC 6902): a list of operations.

use serde_json::Value;

use crate::object::{items, text};

/// Applies every operation, or says which one cannot be.
pub(crate) fn apply(value: &mut Value, patch: &Value) -> Result<(), String> {
    if !patch.is_array() {
        return Err("a JSON patch is a list of operations".to_owned());
    }
    for operation in items(patch) {
        apply_one(value, operation)?;
    }
    Ok(())
}

fn apply_one(root: &mut Value, operation: &Value) -> Result<(), String> {
    let path = text(&operation["path"]);
    let from = text(&operation["from"]);
    let given = || operation.get("value").cloned().ok_or(format!("no value for {path:?}"));
    match text(&operation["op"]) {
        "add" => add(root, path, given()?),
        "remove" => remove(root, path).map(drop),
        "replace" => {
            let place = root.pointer_mut(path).ok_or_else(|| missing("replace", path))?;
            *place = given()?;
            Ok(())
        }
        "move" => {
            let moved = remove(root, from)?;
            add(root, path, moved)
        }
        "copy" => {
            let copied = root.pointer(from).cloned().ok_or_else(|| missing("copy", from))?;
            add(root, path, copied)
        }
        "test" => {
            let is = root.pointer(path).cloned().unwrap_or(Value::Null);
            if is == operation["value"] {
                Ok(())
            } else {
                Err(format!("testing value {path} failed: test failed"))
            }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn missing(operation: &str, path: &str) -> String {
    format!("{operation} operation does not apply: doc is missing path: {path}: missing value")
}

/// The value that holds the last part of a path, and that part.
fn parent<'a>(root: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    Some((root.pointer_mut(parent)?, last))
}

fn add(root: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *root = value;
        return Ok(());
    }
    let (parent, last) = parent(root, path).ok_or_else(|| missing("add", path))?;
    match parent {
        Value::Object(map) => {
            map.insert(last, value);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => match last.parse::<usize>() {
            Ok(at) if at <= list.len() => {
                list.insert(at, value);
                Ok(())
            }
            _ => Err(missing("add", path)),
        },
        _ => Err(missing("add", path)),
    }
}

fn remove(root: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = parent(root, path).ok_or_else(|| missing("remove", path))?;
    let removed = match parent {
        Value::Object(map) => map.shift_remove(&last),
        Value::Array(list) => {
            let at = last.parse::<usize>().ok().filter(|at| *at < list.len());
            at.map(|at| list.remove(at))
        }
        _ => None,
    };
    removed.ok_or_else(|| missing("remove", path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations() {
        let mut value = json!({"a": {"x/y": 1}, "list": [1, 3]});
        let patch = json!([
            {"op": "test", "path": "/a/x~1y", "value": 1},
            {"op": "add", "path": "/list/1", "value": 2},
            {"op": "add", "path": "/list/-", "value": 4},
            {"op": "replace", "path": "/a/x~1y", "value": 5},
            {"op": "copy", "from": "/list/0", "path": "/first"},
            {"op": "move", "from": "/a", "path": "/b"},
            {"op": "remove", "path": "/list/0"},
        ]);
        assert_eq!(apply(&mut value, &patch), Ok(()));
        assert_eq!(value, json!({"list": [2, 3, 4], "first": 1, "b": {"x/y": 5}}));
        for wrong in [
            json!([{"op": "remove", "path": "/none"}]),
            json!([{"op": "test", "path": "/first", "value": 2}]),
            json!([{"op": "add", "path": "/list/9", "value": 2}]),
            json!([{"op": "jump"}]),
            json!({}),
        ] {
            assert!(apply(&mut value.clone(), &wrong).is_err(), "{wrong}");
        }
    }
}
