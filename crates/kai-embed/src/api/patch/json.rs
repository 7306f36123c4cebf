//! JSON patches (RFC 6902) as the API server applies them, with the texts of its library.

use json_patch::{Patch, PatchError, PatchErrorKind, PatchOperation};
use serde_json::Value;

use crate::object::text;

/// Applies every operation, or says which one cannot be applied.
pub(crate) fn apply(value: &mut Value, patch: &Value) -> Result<(), String> {
    let Patch(operations) =
        serde_json::from_value(patch.clone()).map_err(|error| error.to_string())?;
    for (at, operation) in operations.iter().enumerate() {
        if !expects_absence(value, operation) {
            json_patch::patch(value, std::slice::from_ref(operation))
                .map_err(|error| describe(&error, &patch[at]))?;
        }
    }
    Ok(())
}

/// Whether the operation tests for null what does not exist: the API server accepts that, RFC 6902 does not.
fn expects_absence(value: &Value, operation: &PatchOperation) -> bool {
    matches!(operation, PatchOperation::Test(test)
        if test.value.is_null() && value.pointer(test.path.as_str()).is_none())
}

fn describe(error: &PatchError, operation: &Value) -> String {
    let path = match error.kind {
        PatchErrorKind::TestFailed => {
            return format!("testing value {} failed: test failed", error.path);
        }
        PatchErrorKind::InvalidFromPointer => text(&operation["from"]),
        _ => text(&operation["path"]),
    };
    let name = text(&operation["op"]);
    format!("{name} operation does not apply: doc is missing path: {path}: missing value")
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
            {"op": "test", "path": "/a/absent", "value": null},
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

    #[test]
    fn errors_read_as_those_of_the_api_server() {
        let missing = |name: &str, path: &str| {
            format!("{name} operation does not apply: doc is missing path: {path}: missing value")
        };
        for (operation, expected) in [
            (json!({"op": "remove", "path": "/none"}), missing("remove", "/none")),
            (json!({"op": "move", "from": "/none", "path": "/a"}), missing("move", "/none")),
            (
                json!({"op": "test", "path": "/a", "value": 2}),
                "testing value /a failed: test failed".to_owned(),
            ),
        ] {
            assert_eq!(apply(&mut json!({"a": 1}), &json!([operation])), Err(expected));
        }
    }
}
