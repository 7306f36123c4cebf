//! Bodies in protobuf, as `kubectl` sends objects that it makes by itself rather than from files.

use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kinds::messages::{self, Field, Fields, Kind, Shape, Zero};

/// Every such body begins with this.
const MAGIC: &[u8] = b"k8s\0";

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
                (api_version, kind) = (text_at(meta, 1)?, text_at(meta, 2)?);
            }
            (2, Content::Bytes(bytes)) => raw = bytes.to_vec(),
            _ => {}
        }
    }
    let fields = messages::of_kind(&api_version, &kind)
        .ok_or_else(|| format!("{kind} objects are only read as JSON or YAML, as from files"))?;
    let mut object = message(&raw, fields)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

/// The text of this number in a message.
fn text_at(bytes: &[u8], wanted: u64) -> Result<String, String> {
    let found = entries(bytes)?.into_iter().find_map(|(number, content)| match content {
        Content::Bytes(bytes) if number == wanted => Some(text(bytes)),
        _ => None,
    });
    Ok(found.unwrap_or_default())
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

fn message(bytes: &[u8], fields: &Fields) -> Result<Value, String> {
    let mut object = Map::new();
    for (number, content) in entries(bytes)? {
        let Some(field) = fields.get(&number) else { continue };
        match field.shape {
            Shape::Once => {
                let value = value(field, content)?;
                if !value.is_null() {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Shape::Many => {
                let item = value(field, content)?;
                let list = object.entry(field.name).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(item.clone()));
            }
            Shape::ByKey => {
                let (key, value) = entry(field, &content)?;
                object.entry(field.name).or_insert_with(|| json!({}))[key] = value;
            }
            Shape::Inline => {
                if let Value::Object(inner) = value(field, content)? {
                    object.extend(inner);
                }
            }
        }
    }
    Ok(Value::Object(object))
}

/// A key and its value.
fn entry(field: &Field, content: &Content<'_>) -> Result<(String, Value), String> {
    let Content::Bytes(bytes) = content else { return Err(other_type(field)) };
    let (mut key, mut held) = (String::new(), Value::Null);
    for (number, content) in entries(bytes)? {
        match (number, content) {
            (1, Content::Bytes(bytes)) => key = text(bytes),
            (2, content) => held = value(field, content)?,
            _ => {}
        }
    }
    // Texts that are empty are texts here.
    let is_text = matches!(field.kind, Kind::Text);
    Ok((key, if held.is_null() && is_text { json!("") } else { held }))
}

/// A value as JSON has it; null where nothing was said.
fn value(field: &Field, content: Content<'_>) -> Result<Value, String> {
    let said = |zero: Zero, number: u64| zero == Zero::Said || number != 0;
    Ok(match (field.kind, content) {
        (Kind::Text, Content::Bytes(bytes)) => match text(bytes) {
            // Texts that are not given are sent as empty ones; those of a list are given.
            text if text.is_empty() && field.shape == Shape::Once => Value::Null,
            text => json!(text),
        },
        (Kind::Bytes, Content::Bytes(bytes)) => json!(ByteString(bytes.to_vec())),
        (Kind::Integer(zero, _), Content::Number(number)) if said(zero, number) => {
            json!(number.cast_signed())
        }
        (Kind::Boolean(zero), Content::Number(number)) if said(zero, number) => json!(number != 0),
        (Kind::Integer(..) | Kind::Boolean(_), Content::Number(_)) => Value::Null,
        (Kind::Number, Content::Bytes(bytes)) => {
            let bytes = bytes.try_into().map_err(|_| other_type(field))?;
            json!(f64::from_le_bytes(bytes))
        }
        (Kind::Quantity, Content::Bytes(bytes)) => json!(text_at(bytes, 1)?),
        (Kind::Time, Content::Bytes(bytes)) => time(bytes, false)?,
        (Kind::MicroTime, Content::Bytes(bytes)) => time(bytes, true)?,
        (Kind::IntOrString, Content::Bytes(bytes)) => int_or_string(bytes)?,
        (Kind::Json, Content::Bytes(bytes)) => {
            let raw = entries(bytes)?.into_iter().find_map(|(number, content)| match content {
                Content::Bytes(raw) if number == 1 => Some(raw),
                _ => None,
            });
            serde_json::from_slice(raw.unwrap_or_default()).unwrap_or_default()
        }
        (Kind::Message(name), Content::Bytes(bytes)) => {
            let fields = messages::message(name).ok_or_else(|| other_type(field))?;
            message(bytes, fields)?
        }
        _ => return Err(other_type(field)),
    })
}

fn other_type(field: &Field) -> String {
    format!("{} is of another type", field.name)
}

/// Seconds and nanoseconds; no time where neither is said.
fn time(bytes: &[u8], to_the_microsecond: bool) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0, 0);
    for (number, content) in entries(bytes)? {
        match (number, content) {
            (1, Content::Number(number)) => seconds = number.cast_signed(),
            (2, Content::Number(number)) => nanos = i32::try_from(number).unwrap_or_default(),
            _ => {}
        }
    }
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(json!(if to_the_microsecond { format!("{time:.6}") } else { format!("{time:.0}") }))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number_said, mut text_said) = (false, 0, String::new());
    for (number, content) in entries(bytes)? {
        match (number, content) {
            (1, Content::Number(kind)) => is_text = kind == 1,
            (2, Content::Number(number)) => number_said = number.cast_signed(),
            (3, Content::Bytes(bytes)) => text_said = text(bytes),
            _ => {}
        }
    }
    Ok(if is_text { json!(text_said) } else { json!(number_said) })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn objects_are_read() {
        let meta = [field(1, b"v1"), field(2, b"Namespace")].concat();
        let labels = [field(1, b"a"), field(2, b"b")].concat();
        let metadata = [field(1, b"x"), field(2, b""), field(11, &labels)].concat();
        let body = [MAGIC.to_vec(), field(1, &meta), field(2, &field(1, &metadata))].concat();
        let read = read(&body).expect("a namespace");
        assert_eq!(
            read,
            json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "apiVersion": "v1", "kind": "Namespace"})
        );
        let meta = [field(1, b"apps/v1"), field(2, b"Deployment")].concat();
        let spec = [vec![1 << 3, 0], field(2, &field(1, &labels))].concat(); // no replicas, a selector
        let body = [MAGIC.to_vec(), field(1, &meta), field(2, &field(2, &spec))].concat();
        let deployment = super::read(&body).expect("a deployment");
        assert_eq!(
            deployment["spec"],
            json!({"replicas": 0, "selector": {"matchLabels": {"a": "b"}}})
        );
        assert!(super::read(&body[..body.len() - 2]).is_err());
        assert!(super::read(b"k8s\0\x0a\xff").is_err());
    }
}
