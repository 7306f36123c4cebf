//! YAML with the line of every field.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A document: its value, and the line of every field by its path.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    pub(super) value: Value,
    lines: BTreeMap<String, u64>,
}

impl Document {
    /// The documents of a file; where it is no YAML, the line and why.
    pub(super) fn read(text: &str) -> Result<Vec<Self>, (u64, String)> {
        let read = serde_saphyr::from_multiple_with_options(text, options());
        let nodes: Vec<Option<Node>> = read.map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            (line, error.without_snippet().to_string())
        })?;
        let documents = nodes.into_iter().flatten().map(|node| {
            let mut document = Self::default();
            document.value = document.take(node, "");
            document
        });
        Ok(documents.filter(|document| !document.value.is_null()).collect())
    }

    fn take(&mut self, node: Node, path: &str) -> Value {
        self.lines.insert(path.to_owned(), node.0.referenced.line());
        match node.0.value {
            Shape::Scalar(value) => value,
            Shape::List(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(at, item)| self.take(item, &format!("{path}[{at}]"))).collect()
            }
            Shape::Map(entries) => {
                let mut map = Map::new();
                for (key, node) in entries {
                    let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    let value = self.take(node, &place);
                    map.insert(key, value);
                }
                Value::Object(map)
            }
        }
    }

    /// The line of a field, or of the nearest field above it that is there.
    pub(super) fn line(&self, field: &str) -> u64 {
        let mut path = field;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.lines.get("").copied().unwrap_or(1),
            }
        }
    }

    /// The path of the annotation or label that a message names; the longest where it names several.
    pub(super) fn mark_named_in(&self, message: &str) -> Option<&str> {
        let is_part_of_name = |letter: char| letter.is_alphanumeric() || "-._/".contains(letter);
        let words: Vec<&str> = message.split(|letter| !is_part_of_name(letter)).collect();
        let marks = self.lines.keys().filter_map(|path| {
            let at = [".annotations.", ".labels."]
                .iter()
                .find_map(|part| path.rfind(part).map(|start| start + part.len()))?;
            Some((path.as_str(), &path[at..]))
        });
        let named = marks.filter(|(_, mark)| words.contains(mark));
        named.max_by_key(|(_, mark)| mark.len()).map(|(path, _)| path)
    }

    /// The items of a list of objects as documents of their own; a document that is none stays.
    pub(super) fn items(self) -> Vec<Self> {
        let is_list = self.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        let Some(items) = self.value["items"].as_array().filter(|_| is_list) else {
            return vec![self];
        };
        let part = |(at, value): (usize, &Value)| {
            let prefix = format!("items[{at}]");
            let lines = self.lines.range(prefix.clone()..).map_while(|(path, line)| {
                let rest = path.strip_prefix(&prefix)?;
                Some((rest.trim_start_matches('.').to_owned(), *line))
            });
            Self { value: value.clone(), lines: lines.collect() }
        };
        items.iter().enumerate().map(part).collect()
    }
}

/// Files are the user's own: a dump of a large cluster is no attack.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: usize::MAX,
            max_nodes: usize::MAX,
            max_events: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    }
}

/// A value with its place.
struct Node(Spanned<Shape>);

enum Shape {
    Map(Vec<(String, Node)>),
    List(Vec<Node>),
    Scalar(Value),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        Shape::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shape, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Shape::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry::<String, Node>()? {
            entries.push(entry);
        }
        Ok(Shape::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_know_their_lines() {
        let text =
            "# first\nkind: A\nspec:\n  list:\n  - name: x\n    n: 1.5\n---\nkind: B\non: 'yes'\n";
        let documents = Document::read(text).expect("YAML");
        assert_eq!(
            documents[0].value,
            json!({"kind": "A", "spec": {"list": [{"name": "x", "n": 1.5}]}})
        );
        assert_eq!(documents[0].line("spec.list[0].n"), 6);
        assert_eq!(documents[0].line("spec.list[0].missing"), 5);
        assert_eq!(documents[1].line("kind"), 8);
    }

    #[test]
    fn lists_are_taken_apart() {
        let text = "kind: List\nitems:\n- kind: A\n- kind: B\n  spec: {x: 1}\n";
        let parts = Document::read(text).expect("YAML").remove(0).items();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[1].line("spec.x"), 5);
    }

    #[test]
    fn a_file_may_have_thousands_of_documents() {
        let text = "kind: A\n---\n".repeat(5000);
        assert_eq!(Document::read(&text).expect("YAML").len(), 5000);
    }

    #[test]
    fn an_annotation_that_a_message_names_is_found() {
        let text = "kind: Pod\nmetadata:\n  annotations:\n    gpu-fraction: '2'\n    gpu: x\n";
        let document = Document::read(text).expect("YAML").remove(0);
        let found = document.mark_named_in("gpu-fraction annotation value must be smaller");
        assert_eq!(found, Some("metadata.annotations.gpu-fraction"));
        assert_eq!(document.mark_named_in("something else"), None);
    }

    #[test]
    fn what_is_no_yaml_has_a_line() {
        let (line, _) = Document::read("a: 1\nb: [\n").expect_err("no YAML");
        assert!(line >= 2, "{line}");
    }
}
