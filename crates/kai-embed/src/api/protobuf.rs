//! Bodies that `kubectl` sends in protobuf: the few kinds that it creates by itself rather than from files.

use serde_json::{Map, Value, json};

/// Every such body begins with this.
const MAGIC: &[u8] = b"k8s\0";

/// The type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer,
    Boolean,
    /// Keys and texts.
    Texts,
    Message(&'static [Field]),
    Messages(&'static [Field]),
}

/// Number, name and type of a field.
type Field = (u64, &'static str, Type);

const OWNER: &[Field] = &[
    (1, "kind", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "controller", Type::Boolean),
    (7, "blockOwnerDeletion", Type::Boolean),
];

const METADATA: &[Field] = &[
    (1, "name", Type::Text),
    (2, "generateName", Type::Text),
    (3, "namespace", Type::Text),
    (5, "uid", Type::Text),
    (6, "resourceVersion", Type::Text),
    (11, "labels", Type::Texts),
    (12, "annotations", Type::Texts),
    (13, "ownerReferences", Type::Messages(OWNER)),
];

const NAMED: &[Field] = &[(1, "metadata", Type::Message(METADATA))];
const CONFIG_MAP: &[Field] = &[(1, "metadata", Type::Message(METADATA)), (2, "data", Type::Texts)];
const ATTRIBUTES: &[Field] = &[
    (1, "namespace", Type::Text),
    (2, "verb", Type::Text),
    (3, "group", Type::Text),
    (4, "version", Type::Text),
    (5, "resource", Type::Text),
    (6, "subresource", Type::Text),
    (7, "name", Type::Text),
];
const PATH_ATTRIBUTES: &[Field] = &[(1, "path", Type::Text), (2, "verb", Type::Text)];
const ACCESS: &[Field] = &[
    (1, "resourceAttributes", Type::Message(ATTRIBUTES)),
    (2, "nonResourceAttributes", Type::Message(PATH_ATTRIBUTES)),
];
const ACCESS_REVIEW: &[Field] =
    &[(1, "metadata", Type::Message(METADATA)), (2, "spec", Type::Message(ACCESS))];
const RULES_REVIEW: &[Field] = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "spec", Type::Message(&[(1, "namespace", Type::Text)])),
];
const PRECONDITIONS: &[Field] = &[(1, "uid", Type::Text), (2, "resourceVersion", Type::Text)];
const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Type::Integer),
    (2, "preconditions", Type::Message(PRECONDITIONS)),
    (3, "orphanDependents", Type::Boolean),
    (4, "propagationPolicy", Type::Text),
];
const EVICTION: &[Field] = &[
    (1, "metadata", Type::Message(METADATA)),
    (2, "deleteOptions", Type::Message(DELETE_OPTIONS)),
];

fn fields(kind: &str) -> Option<&'static [Field]> {
    Some(match kind {
        "Namespace" | "ServiceAccount" | "SelfSubjectReview" => NAMED,
        "ConfigMap" => CONFIG_MAP,
        "SelfSubjectAccessReview" => ACCESS_REVIEW,
        "SelfSubjectRulesReview" => RULES_REVIEW,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        _ => return None,
    })
}

/// Whether a body is in protobuf.
pub(super) fn is_protobuf(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// The object in a body; where it cannot be read, why not.
pub(super) fn read(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("it does not begin as such bodies do")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), Vec::new());
    for (number, content) in entries(body)? {
        match (number, content) {
            (1, Content::Bytes(meta)) => {
                let meta =
                    message(meta, &[(1, "apiVersion", Type::Text), (2, "kind", Type::Text)])?;
                crate::object::text(&meta["apiVersion"]).clone_into(&mut api_version);
                crate::object::text(&meta["kind"]).clone_into(&mut kind);
            }
            (2, Content::Bytes(bytes)) => raw = bytes.to_vec(),
            _ => {}
        }
    }
    let fields = fields(&kind)
        .ok_or_else(|| format!("{kind} objects are only read as JSON or YAML, as from files"))?;
    let mut object = message(&raw, fields)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
fn entries(mut bytes: &[u8]) -> Result<Vec<(u64, Content<'_>)>, String> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes)?;
        let content = match tag & 7 {
            0 => Content::Number(number(&mut bytes)?),
            1 => Content::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = number(&mut bytes)?;
                Content::Bytes(take(&mut bytes, length as usize)?)
            }
            5 => Content::Bytes(take(&mut bytes, 4)?),
            other => return Err(format!("no field is of type {other}")),
        };
        entries.push((tag >> 3, content));
    }
    Ok(entries)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or("it breaks off")?;
    *bytes = rest;
    Ok(taken)
}

fn number(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is too long".to_owned())
}

fn message(bytes: &[u8], fields: &[Field]) -> Result<Value, String> {
    let mut object = Map::new();
    for (number, content) in entries(bytes)? {
        let Some((_, name, kind)) = fields.iter().find(|(known, ..)| *known == number) else {
            continue;
        };
        let value = match (kind, content) {
            (Type::Text, Content::Bytes(bytes)) => text(bytes),
            (Type::Integer, Content::Number(number)) => json!(number.cast_signed()),
            (Type::Boolean, Content::Number(number)) => json!(number != 0),
            (Type::Message(fields), Content::Bytes(bytes)) => message(bytes, fields)?,
            (Type::Texts, Content::Bytes(bytes)) => {
                let entry = message(bytes, &[(1, "key", Type::Text), (2, "value", Type::Text)])?;
                let texts = object.entry(*name).or_insert_with(|| json!({}));
                texts[crate::object::text(&entry["key"])] =
                    json!(crate::object::text(&entry["value"]));
                continue;
            }
            (Type::Messages(fields), Content::Bytes(bytes)) => {
                let item = message(bytes, fields)?;
                let list = object.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(item.clone()));
                continue;
            }
            _ => return Err(format!("{name} is of another type")),
        };
        // Texts that are not given are sent as empty ones.
        if value != "" {
            object.insert((*name).to_owned(), value);
        }
    }
    Ok(Value::Object(object))
}

fn text(bytes: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn a_namespace_is_read() {
        let meta = [field(1, b"v1"), field(2, b"Namespace")].concat();
        let labels = [field(1, b"a"), field(2, b"b")].concat();
        let metadata = [field(1, b"x"), field(2, b""), field(11, &labels)].concat();
        let body = [MAGIC.to_vec(), field(1, &meta), field(2, &field(1, &metadata))].concat();
        let read = read(&body).expect("a namespace");
        assert_eq!(
            read,
            json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "apiVersion": "v1", "kind": "Namespace"})
        );
        assert!(super::read(&body[..body.len() - 2]).is_err());
        assert!(super::read(b"k8s\0\x0a\xff").is_err());
    }
}
