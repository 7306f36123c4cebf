//! Running an expression.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::JqError;
use super::functions;
use super::parser::{Expr, Op, Step};

/// More results than this are an error.
const MOST_RESULTS: usize = 10_000;

type Results = Result<Vec<Value>, JqError>;

pub(super) fn eval(expr: &Expr, input: &Value) -> Results {
    let results = match expr {
        Expr::Identity => vec![input.clone()],
        Expr::Literal(value) => vec![value.clone()],
        Expr::Step { base, step } => {
            let mut out = Vec::new();
            for value in eval(base, input)? {
                extend(&mut out, take_step(&value, step, input)?)?;
            }
            out
        }
        Expr::Try(inner) => eval(inner, input).unwrap_or_default(),
        Expr::Pipe(left, right) => {
            let mut out = Vec::new();
            for value in eval(left, input)? {
                extend(&mut out, eval(right, &value)?)?;
            }
            out
        }
        Expr::Comma(left, right) => {
            let mut out = eval(left, input)?;
            extend(&mut out, eval(right, input)?)?;
            out
        }
        Expr::Binary(op, left, right) => binary(*op, left, right, input)?,
        Expr::Negate(inner) => {
            let values = eval(inner, input)?;
            values
                .iter()
                .map(|value| arithmetic(Op::Subtract, &number(0.0), value))
                .collect::<Results>()?
        }
        Expr::Call(function, arguments) => functions::call(*function, arguments, input)?,
        Expr::If { test, then, otherwise } => {
            let mut out = Vec::new();
            for value in eval(test, input)? {
                extend(&mut out, eval(if truthy(&value) { then } else { otherwise }, input)?)?;
            }
            out
        }
        Expr::Array(None) => vec![Value::Array(Vec::new())],
        Expr::Array(Some(inner)) => vec![Value::Array(eval(inner, input)?)],
        Expr::Object(fields) => vec![object(fields, input)?],
    };
    Ok(results)
}

/// Adds results, as long as there are not too many.
fn extend(results: &mut Vec<Value>, more: Vec<Value>) -> Result<(), JqError> {
    results.extend(more);
    if results.len() > MOST_RESULTS {
        return Err(JqError::new(format!("more than {MOST_RESULTS} results")));
    }
    Ok(())
}

/// An integer where it is one.
pub(super) fn number(number: f64) -> Value {
    let integral = number.fract() == 0.0 && number.abs() < 9e15;
    if integral { Value::from(number as i64) } else { Value::from(number) }
}

pub(super) fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// One value per field; where an expression has several, the first.
fn object(fields: &[(String, Expr)], input: &Value) -> Result<Value, JqError> {
    let mut map = Map::new();
    for (name, expr) in fields {
        let value = eval(expr, input)?.into_iter().next().unwrap_or(Value::Null);
        map.insert(name.clone(), value);
    }
    Ok(Value::Object(map))
}

fn take_step(value: &Value, step: &Step, input: &Value) -> Results {
    match step {
        Step::Each => match value {
            Value::Array(items) => Ok(items.clone()),
            Value::Object(map) => {
                Ok(by_key(map).into_iter().map(|(_, value)| value.clone()).collect())
            }
            other => Err(JqError::new(format!("cannot iterate over {}", type_name(other)))),
        },
        Step::Key(key) => eval(key, input)?.iter().map(|key| index(value, key)).collect(),
        Step::Slice(start, end) => {
            let bound = |expr: &Option<Box<Expr>>| match expr {
                None => Ok(None),
                Some(expr) => Ok(eval(expr, input)?.first().and_then(Value::as_i64)),
            };
            slice(value, bound(start)?, bound(end)?).map(|value| vec![value])
        }
    }
}

fn index(value: &Value, key: &Value) -> Result<Value, JqError> {
    match (value, key) {
        (Value::Null, Value::String(_) | Value::Number(_)) => Ok(Value::Null),
        (Value::Object(map), Value::String(key)) => Ok(map.get(key).cloned().unwrap_or_default()),
        (Value::Array(items), Value::Number(number)) => {
            let position =
                position(number.as_f64().unwrap_or_default().floor() as i64, items.len());
            Ok(position.and_then(|at| items.get(at)).cloned().unwrap_or_default())
        }
        _ => Err(JqError::new(format!("cannot index {} with {key}", type_name(value)))),
    }
}

/// Negative positions count from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index + length as i64 } else { index }).ok()
}

fn slice(value: &Value, start: Option<i64>, end: Option<i64>) -> Result<Value, JqError> {
    let clamp = |index: i64, length: usize| position(index, length).unwrap_or(0).min(length);
    let range = |length: usize| {
        let start = clamp(start.unwrap_or(0), length);
        start..clamp(end.unwrap_or(length as i64), length).max(start)
    };
    match value {
        Value::Null => Ok(Value::Null),
        Value::Array(items) => Ok(items[range(items.len())].to_vec().into()),
        Value::String(text) => {
            let chars: Vec<char> = text.chars().collect();
            Ok(chars[range(chars.len())].iter().collect::<String>().into())
        }
        other => Err(JqError::new(format!("cannot slice {}", type_name(other)))),
    }
}

fn binary(op: Op, left: &Expr, right: &Expr, input: &Value) -> Results {
    if op == Op::Alternative {
        let values: Vec<Value> =
            eval(left, input).unwrap_or_default().into_iter().filter(truthy).collect();
        return if values.is_empty() { eval(right, input) } else { Ok(values) };
    }
    let mut out = Vec::new();
    for left in eval(left, input)? {
        // `and` and `or` look no further than they must.
        if (op == Op::And && !truthy(&left)) || (op == Op::Or && truthy(&left)) {
            out.push(Value::Bool(op == Op::Or));
            continue;
        }
        for right in eval(right, input)? {
            extend(&mut out, vec![combine(op, &left, &right)?])?;
        }
    }
    Ok(out)
}

fn combine(op: Op, left: &Value, right: &Value) -> Result<Value, JqError> {
    let order = || compare(left, right);
    Ok(Value::Bool(match op {
        Op::And | Op::Or => truthy(right),
        Op::Equal => order().is_eq(),
        Op::NotEqual => order().is_ne(),
        Op::Less => order().is_lt(),
        Op::LessOrEqual => order().is_le(),
        Op::Greater => order().is_gt(),
        Op::GreaterOrEqual => order().is_ge(),
        _ => return arithmetic(op, left, right),
    }))
}

pub(super) fn add(left: &Value, right: &Value) -> Result<Value, JqError> {
    arithmetic(Op::Add, left, right)
}

fn arithmetic(op: Op, left: &Value, right: &Value) -> Result<Value, JqError> {
    match (op, left, right) {
        (Op::Add, Value::Null, other) | (Op::Add, other, Value::Null) => return Ok(other.clone()),
        (Op::Add, Value::String(left), Value::String(right)) => {
            return Ok(format!("{left}{right}").into());
        }
        (Op::Add, Value::Array(left), Value::Array(right)) => {
            return Ok(left.iter().chain(right).cloned().collect::<Vec<_>>().into());
        }
        (Op::Add, Value::Object(left), Value::Object(right)) => {
            let mut merged = left.clone();
            merged.extend(right.clone());
            return Ok(merged.into());
        }
        _ => {}
    }
    let (Some(a), Some(b)) = (left.as_f64(), right.as_f64()) else {
        let (left, right) = (type_name(left), type_name(right));
        return Err(JqError::new(format!("cannot compute with {left} and {right}")));
    };
    Ok(number(match op {
        Op::Add => a + b,
        Op::Subtract => a - b,
        Op::Multiply => a * b,
        Op::Divide | Op::Remainder if b == 0.0 => return Err(JqError::new("division by zero")),
        Op::Divide => a / b,
        _ => a.trunc() % b.trunc(),
    }))
}

/// jq's order: null, false, true, numbers, strings, arrays, objects.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    };
    rank(left).cmp(&rank(right)).then_with(|| match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default())
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let different = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            different.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_objects(a, b),
        _ => Ordering::Equal,
    })
}

/// The keys count first, then the values.
fn compare_objects(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    let (a, b) = (by_key(a), by_key(b));
    let keys = a.iter().map(|(key, _)| key).cmp(b.iter().map(|(key, _)| key));
    let values =
        || a.iter().zip(&b).map(|((_, a), (_, b))| compare(a, b)).find(|order| order.is_ne());
    keys.then_with(|| values().unwrap_or(Ordering::Equal))
}

/// Objects have no order of their own; results must.
pub(super) fn by_key(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = map.iter().collect();
    fields.sort_by_key(|(key, _)| *key);
    fields
}
