//! JSON of others, changed without panics: `value["key"] = …` panics where the value is no object.

use serde_json::{Map, Value};

/// Sets the field at the end of a path. What stands in the way and is no object becomes one.
pub fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let mut place = object;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(fields) = place else { return };
        place = fields.entry(*key).or_insert(Value::Null);
    }
    *place = value.into();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_stands_in_the_way_becomes_an_object() {
        let mut object = json!({"metadata": 1, "spec": {"a": 1}});
        set(&mut object, &["metadata", "labels", "k"], "v");
        set(&mut object, &["spec", "b"], 2);
        assert_eq!(object, json!({"metadata": {"labels": {"k": "v"}}, "spec": {"a": 1, "b": 2}}));
        let mut text = json!("x");
        set(&mut text, &["a"], true);
        assert_eq!(text, json!({"a": true}));
    }
}
