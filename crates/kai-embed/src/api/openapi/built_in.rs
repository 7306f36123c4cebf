//! Schemas of built-in kinds, from the table of their fields.

use serde_json::{Map, Value, json};

use crate::kinds::messages::{Field, Fields, Kind, Shape, message, of_kind};

const SEE: &str = "A kind of Kubernetes. This embedded cluster lists its fields without a description of each; \
see https://kubernetes.io/docs/reference/kubernetes-api/";

/// The schema of a kind; the schemas that it refers to are added. Kinds that are not in the table have no fields.
pub(super) fn describe(schemas: &mut Map<String, Value>, group: &str, kind: &str) -> Value {
    let mut schema = json!({"type": "object", "description": SEE});
    let Some(fields) = of_kind(&format!("{group}/"), kind) else { return schema };
    let mut pending = Vec::new();
    schema["properties"] = Value::Object(properties(fields, &mut pending));
    add_messages(schemas, pending);
    schema
}

/// Adds the schemas of messages and of all messages below them.
fn add_messages(schemas: &mut Map<String, Value>, mut pending: Vec<&'static str>) {
    while let Some(name) = pending.pop() {
        let Some(fields) = message(name) else { continue };
        let key = component(name);
        if !schemas.contains_key(&key) {
            let properties = properties(fields, &mut pending);
            schemas.insert(key, json!({"type": "object", "properties": properties}));
        }
    }
}

fn component(message: &str) -> String {
    message.replace('/', ".")
}

fn properties(fields: &Fields, pending: &mut Vec<&'static str>) -> Map<String, Value> {
    let mut all = Map::new();
    for field in fields.values() {
        match (field.shape, field.kind) {
            (Shape::Inline, Kind::Message(name)) => {
                all.extend(
                    message(name).map(|inner| properties(inner, pending)).into_iter().flatten(),
                );
            }
            _ => drop(all.insert(field.name.to_owned(), schema(field, pending))),
        }
    }
    all
}

fn schema(field: &Field, pending: &mut Vec<&'static str>) -> Value {
    let one = match field.kind {
        Kind::Text | Kind::Quantity => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "format": "byte"}),
        Kind::Integer(..) => json!({"type": "integer"}),
        Kind::Boolean(_) => json!({"type": "boolean"}),
        Kind::Number => json!({"type": "number"}),
        Kind::Time | Kind::MicroTime => json!({"type": "string", "format": "date-time"}),
        Kind::IntOrString => json!({"type": "string", "format": "int-or-string"}),
        Kind::Json => json!({"type": "object"}),
        Kind::Message(name) => {
            pending.push(name);
            json!({"$ref": format!("#/components/schemas/{}", component(name))})
        }
    };
    match field.shape {
        Shape::Once | Shape::Inline => one,
        Shape::Many => json!({"type": "array", "items": one}),
        Shape::ByKey => json!({"type": "object", "additionalProperties": one}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_pods_are_described_down_to_the_last_message() {
        let mut schemas = Map::new();
        let pod = describe(&mut schemas, "", "Pod");
        assert_eq!(pod["properties"]["spec"]["$ref"], "#/components/schemas/core.PodSpec");
        let container = &schemas["core.Container"]["properties"];
        assert_eq!(container["image"]["type"], "string");
        assert_eq!(schemas["core.PodSpec"]["properties"]["containers"]["type"], "array");
        let text = json!({"pod": pod, "schemas": schemas}).to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap_or_default();
            assert!(schemas.contains_key(name), "{name} is missing");
        }
    }

    #[test]
    fn messages_inside_others_are_part_of_them() {
        let mut schemas = Map::new();
        describe(&mut schemas, "", "Pod");
        assert!(schemas["core.Volume"]["properties"]["emptyDir"].is_object(), "{schemas:?}");
    }

    #[test]
    fn kinds_outside_the_table_say_where_they_are_described() {
        let other = describe(&mut Map::new(), "example.com", "Thing");
        assert!(other["properties"].is_null() && other["description"] == SEE, "{other}");
    }
}
