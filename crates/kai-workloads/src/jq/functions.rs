//! The functions that are known.

use serde_json::{Value, json};

use super::JqError;
use super::eval::{add, by_key, compare, eval, number, truthy, type_name};
use super::parser::Expr;

macro_rules! functions {
    ($($variant:ident $name:literal $arity:literal)*) => {
        /// A built-in function of jq.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function {
            $($variant,)*
        }

        impl Function {
            pub(super) fn find(name: &str, arity: usize) -> Option<Self> {
                match (name, arity) {
                    $(($name, $arity) => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Length "length" 0
    Keys "keys" 0
    Values "values" 0
    ToEntries "to_entries" 0
    Type "type" 0
    Not "not" 0
    Empty "empty" 0
    ToString "tostring" 0
    ToNumber "tonumber" 0
    First "first" 0
    Last "last" 0
    Add "add" 0
    Min "min" 0
    Max "max" 0
    Sort "sort" 0
    Unique "unique" 0
    Reverse "reverse" 0
    Any "any" 0
    All "all" 0
    Floor "floor" 0
    Ceil "ceil" 0
    AsciiDowncase "ascii_downcase" 0
    AsciiUpcase "ascii_upcase" 0
    Select "select" 1
    Map "map" 1
    Has "has" 1
    AnyOf "any" 1
    AllOf "all" 1
    StartsWith "startswith" 1
    EndsWith "endswith" 1
    LeftTrim "ltrimstr" 1
    RightTrim "rtrimstr" 1
    Split "split" 1
    Join "join" 1
}

type Results = Result<Vec<Value>, JqError>;

pub(super) fn call(function: Function, arguments: &[Expr], input: &Value) -> Results {
    match arguments {
        [] => plain(function, input),
        [argument, ..] => with_argument(function, argument, input),
    }
}

fn plain(function: Function, input: &Value) -> Results {
    let one = |value: Value| Ok(vec![value]);
    match function {
        Function::Empty => Ok(Vec::new()),
        Function::Values => Ok(if input.is_null() { Vec::new() } else { vec![input.clone()] }),
        Function::Type => one(type_name(input).into()),
        Function::Not => one((!truthy(input)).into()),
        Function::Length => one(length(input)?),
        Function::Keys => one(keys(input)?),
        Function::ToEntries => one(entries(input)?),
        Function::ToString => one(text_of(input).into()),
        Function::ToNumber => one(match input {
            Value::String(text) => {
                let parsed =
                    text.trim().parse().map_err(|_| JqError::new(format!("{text:?} is no number")));
                number(parsed?)
            }
            Value::Number(_) => input.clone(),
            other => return Err(JqError::new(format!("{} is no number", type_name(other)))),
        }),
        Function::Floor | Function::Ceil => {
            let value = input.as_f64().ok_or_else(|| JqError::new("a number is needed"))?;
            one(number(if function == Function::Floor { value.floor() } else { value.ceil() }))
        }
        Function::AsciiDowncase => one(string(input)?.to_ascii_lowercase().into()),
        Function::AsciiUpcase => one(string(input)?.to_ascii_uppercase().into()),
        _ => one(of_array(function, array(input)?)?),
    }
}

fn of_array(function: Function, items: &[Value]) -> Result<Value, JqError> {
    let sorted = || {
        let mut items = items.to_vec();
        items.sort_by(compare);
        items
    };
    Ok(match function {
        Function::First => items.first().cloned().unwrap_or_default(),
        Function::Last => items.last().cloned().unwrap_or_default(),
        Function::Min => sorted().into_iter().next().unwrap_or_default(),
        Function::Max => sorted().into_iter().next_back().unwrap_or_default(),
        Function::Sort => sorted().into(),
        Function::Unique => {
            let mut items = sorted();
            items.dedup_by(|a, b| compare(a, b).is_eq());
            items.into()
        }
        Function::Reverse => items.iter().rev().cloned().collect::<Vec<_>>().into(),
        Function::Any => items.iter().any(truthy).into(),
        Function::All => items.iter().all(truthy).into(),
        _ => items.iter().try_fold(Value::Null, |sum, item| add(&sum, item))?,
    })
}

fn with_argument(function: Function, argument: &Expr, input: &Value) -> Results {
    match function {
        Function::Select => {
            let chosen = eval(argument, input)?.iter().filter(|value| truthy(value)).count();
            Ok(vec![input.clone(); chosen])
        }
        Function::Map => {
            let mut out = Vec::new();
            for item in array(input)? {
                out.extend(eval(argument, item)?);
            }
            Ok(vec![out.into()])
        }
        Function::AnyOf | Function::AllOf => {
            let mut results = Vec::new();
            for item in array(input)? {
                results.extend(eval(argument, item)?.iter().map(truthy));
            }
            let any = function == Function::AnyOf;
            Ok(vec![if any { results.contains(&true) } else { !results.contains(&false) }.into()])
        }
        _ => eval(argument, input)?
            .iter()
            .map(|argument| with_value(function, argument, input))
            .collect(),
    }
}

fn with_value(function: Function, argument: &Value, input: &Value) -> Result<Value, JqError> {
    Ok(match function {
        Function::Has => match (input, argument) {
            (Value::Object(map), Value::String(key)) => map.contains_key(key).into(),
            (Value::Array(items), Value::Number(index)) => {
                index.as_u64().is_some_and(|index| (index as usize) < items.len()).into()
            }
            _ => {
                return Err(JqError::new(format!(
                    "cannot look for {argument} in {}",
                    type_name(input)
                )));
            }
        },
        Function::StartsWith => string(input)?.starts_with(string(argument)?).into(),
        Function::EndsWith => string(input)?.ends_with(string(argument)?).into(),
        Function::LeftTrim => {
            let text = string(input)?;
            text.strip_prefix(string(argument)?).unwrap_or(text).into()
        }
        Function::RightTrim => {
            let text = string(input)?;
            text.strip_suffix(string(argument)?).unwrap_or(text).into()
        }
        Function::Split => {
            string(input)?.split(string(argument)?).map(Value::from).collect::<Vec<_>>().into()
        }
        _ => {
            let parts: Vec<String> = array(input)?.iter().map(text_of).collect();
            parts.join(string(argument)?).into()
        }
    })
}

fn length(input: &Value) -> Result<Value, JqError> {
    Ok(match input {
        Value::Null => 0.into(),
        Value::String(text) => text.chars().count().into(),
        Value::Array(items) => items.len().into(),
        Value::Object(map) => map.len().into(),
        Value::Number(value) => number(value.as_f64().unwrap_or_default().abs()),
        Value::Bool(_) => return Err(JqError::new("boolean has no length")),
    })
}

fn keys(input: &Value) -> Result<Value, JqError> {
    match input {
        Value::Object(map) => Ok(json!(by_key(map).iter().map(|(key, _)| key).collect::<Vec<_>>())),
        Value::Array(items) => Ok(json!((0..items.len()).collect::<Vec<_>>())),
        other => Err(JqError::new(format!("{} has no keys", type_name(other)))),
    }
}

fn entries(input: &Value) -> Result<Value, JqError> {
    let map = input
        .as_object()
        .ok_or_else(|| JqError::new(format!("{} has no entries", type_name(input))))?;
    let entry = |(key, value): (&String, &Value)| json!({"key": key, "value": value});
    Ok(by_key(map).into_iter().map(entry).collect::<Vec<_>>().into())
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn string(value: &Value) -> Result<&str, JqError> {
    value
        .as_str()
        .ok_or_else(|| JqError::new(format!("a string is needed, not {}", type_name(value))))
}

fn array(value: &Value) -> Result<&[Value], JqError> {
    let items = value.as_array().map(Vec::as_slice);
    items.ok_or_else(|| JqError::new(format!("a list is needed, not {}", type_name(value))))
}
