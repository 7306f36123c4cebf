//! Objects from JSON. A text that is not what its kind should be gives an error that names object and field.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::problem::Problem;

/// Decodes an object of `kind`.
pub fn decode<T: DeserializeOwned>(kind: &str, object: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        Problem {
            object: describe(kind, object),
            field: if path == "." { "the object".to_owned() } else { path },
            message: error.into_inner().to_string(),
        }
    })
}

/// `Kind namespace/name`, as far as the object has them.
pub fn describe(kind: &str, object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    match (text("namespace"), text("name")) {
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_is_named() {
        let object = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team-a"},
            "spec": {"resources": {"gpu": {"quota": "many"}}}});
        let problem = decode::<kai_api::Queue>("Queue", &object).unwrap_err();
        assert_eq!(problem.object, "Queue team-a");
        assert_eq!(problem.field, "spec.resources.gpu.quota");
        assert!(problem.message.contains("expected f64"), "{}", problem.message);
    }
}
