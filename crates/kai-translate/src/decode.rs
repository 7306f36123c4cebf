//! Objects from JSON. A text that is not what its kind should be gives an error that names object and field.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Decodes an object of `kind`.
pub fn decode<T: DeserializeOwned>(kind: &str, object: &Value) -> Result<T, Problem> {
    T::deserialize(object).map_err(|error| {
        let message = error.to_string();
        let path = path_of_fault::<T>(object, &message);
        let field = if path.is_empty() { "the object".to_owned() } else { path };
        Problem { object: describe(kind, object), field, message }
    })
}

/// One step from an object or a list to a value in it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Path of the innermost value that causes the failure on its own. Found by trial, since it is seldom needed: decoders that
/// keep track of their path (`serde_path_to_error`) would be compiled for every kind, and are slower.
fn path_of_fault<T: DeserializeOwned>(object: &Value, failure: &str) -> String {
    let fails = |steps: &[Step<'_>], value: Value| {
        let alone = steps.iter().rev().fold(value, |inner, step| match step {
            Step::Key(key) => Value::Object([((*key).to_owned(), inner)].into_iter().collect()),
            Step::Index(_) => Value::Array(vec![inner]),
        });
        T::deserialize(&alone).err().is_some_and(|error| error.to_string() == failure)
    };
    let (mut steps, mut value) = (Vec::new(), object);
    // A value that also fails while it is empty lacks something itself.
    while !fails(&steps, empty(value)) {
        let inner = children(value).into_iter().find(|(step, child)| {
            let steps = [steps.as_slice(), &[*step]].concat();
            fails(&steps, (*child).clone())
        });
        let Some((step, child)) = inner else { break };
        steps.push(step);
        value = child;
    }
    render(&steps)
}

fn children(value: &Value) -> Vec<(Step<'_>, &Value)> {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, child)| (Step::Key(key), child)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, child)| (Step::Index(at), child)).collect()
        }
        _ => Vec::new(),
    }
}

fn empty(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        scalar => scalar.clone(),
    }
}

fn render(steps: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => path.extend([".", key]),
            Step::Index(at) => path.extend(["[", &at.to_string(), "]"]),
        }
    }
    path
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

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only the shape matters")]
    struct Shelf {
        label: Option<String>,
        #[serde(default)]
        books: Vec<Book>,
        #[serde(default)]
        by_title: std::collections::BTreeMap<String, Book>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only the shape matters")]
    struct Book {
        title: String,
        #[serde(default)]
        pages: Vec<u8>,
    }

    #[test]
    fn the_field_is_the_innermost_value_that_fails() {
        let field = |object: Value| decode::<Shelf>("Shelf", &object).unwrap_err().field;
        let good = json!({"title": "a", "pages": [1, 2]});
        assert_eq!(field(json!(7)), "the object");
        assert_eq!(field(json!({"label": 1})), "label");
        assert_eq!(field(json!({"books": {}})), "books");
        assert_eq!(field(json!({"label": "l", "books": [good, {"pages": []}]})), "books[1]");
        assert_eq!(
            field(json!({"books": [good, {"title": "a", "pages": [7, 300]}]})),
            "books[1].pages[1]"
        );
        assert_eq!(
            field(json!({"books": [], "by_title": {"a.b": good, "c": {"title": []}}})),
            "by_title.c.title"
        );
    }
}
