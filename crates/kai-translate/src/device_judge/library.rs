//! What Kubernetes adds to the language of expressions: quantities, versions, functions on texts.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::extractors::This;
use cel::objects::Opaque;
use cel::{Context, Env, ExecutionError, Value};
use kai_api::quantity::Quantity;

/// An amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuantityValue(pub(super) Quantity);

impl Opaque for QuantityValue {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VersionValue(pub(super) semver::Version);

impl Opaque for VersionValue {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }
}

type Answer<T> = Result<T, ExecutionError>;

/// The CEL environment with Kubernetes' libraries.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib().with_optional_support(true);
    // These fail only where a name is declared twice.
    for extension in [cel::extensions::strings, cel::extensions::lists, cel::extensions::math] {
        let declared = env.add_extension(extension);
        debug_assert!(declared.is_ok(), "{declared:?}");
    }
    env
}

/// Functions about quantities and versions.
pub(super) fn add_functions(context: &mut Context<'_, '_>) {
    let added = [
        context.add_function("quantity", |text: Arc<String>| quantity(&text)),
        context.add_function("isQuantity", |text: Arc<String>| Quantity::parse(&text).is_ok()),
        context.add_function("semver", |text: Arc<String>| version(&text)),
        context.add_function("isSemver", |text: Arc<String>| semver::Version::parse(&text).is_ok()),
        context.add_function("compareTo", |this: This<Value>, other: Value| {
            compare(&this.0, &other).map(|order| order as i64)
        }),
        context.add_function("isGreaterThan", |this: This<Value>, other: Value| {
            compare(&this.0, &other).map(Ordering::is_gt)
        }),
        context.add_function("isLessThan", |this: This<Value>, other: Value| {
            compare(&this.0, &other).map(Ordering::is_lt)
        }),
        context.add_function("isInteger", |this: This<Value>| {
            amount(&this.0).map(|amount| is_integer(&amount))
        }),
        context.add_function("asInteger", |this: This<Value>| {
            let amount = amount(&this.0)?;
            if is_integer(&amount) { Ok(amount.value()) } else { Err(refused("asInteger")) }
        }),
        context.add_function("asApproximateFloat", |this: This<Value>| {
            amount(&this.0).map(|amount| amount.as_f64())
        }),
        context.add_function("major", |this: This<Value>| part(&this.0, |version| version.major)),
        context.add_function("minor", |this: This<Value>| part(&this.0, |version| version.minor)),
        context.add_function("patch", |this: This<Value>| part(&this.0, |version| version.patch)),
    ];
    debug_assert!(added.iter().all(Result::is_ok), "{added:?}");
}

fn quantity(text: &str) -> Answer<Value> {
    let parsed = Quantity::parse(text).map_err(|error| failed("quantity", &error.to_string()))?;
    Ok(Value::Opaque(Arc::new(QuantityValue(parsed))))
}

fn version(text: &str) -> Answer<Value> {
    let parsed = semver::Version::parse(text);
    let parsed = parsed.map_err(|error| failed("semver", &error.to_string()))?;
    Ok(Value::Opaque(Arc::new(VersionValue(parsed))))
}

fn compare(left: &Value, right: &Value) -> Answer<Ordering> {
    match (opaque::<QuantityValue>(left), opaque::<QuantityValue>(right)) {
        (Some(left), Some(right)) => return Ok(left.0.cmp(&right.0)),
        (None, None) => {}
        _ => return Err(refused("compareTo")),
    }
    match (opaque::<VersionValue>(left), opaque::<VersionValue>(right)) {
        (Some(left), Some(right)) => Ok(left.0.cmp_precedence(&right.0)),
        _ => Err(refused("compareTo")),
    }
}

fn amount(value: &Value) -> Answer<Quantity> {
    opaque::<QuantityValue>(value).map(|value| value.0).ok_or_else(|| refused("quantity"))
}

fn is_integer(amount: &Quantity) -> bool {
    Quantity::parse(&amount.value().to_string()).is_ok_and(|whole| whole == *amount)
}

fn part(value: &Value, part: impl FnOnce(&semver::Version) -> u64) -> Answer<i64> {
    let version = opaque::<VersionValue>(value).ok_or_else(|| refused("semver"))?;
    i64::try_from(part(&version.0)).map_err(|_| refused("semver"))
}

fn opaque<T: 'static>(value: &Value) -> Option<&T> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<T>(),
        _ => None,
    }
}

fn refused(function: &str) -> ExecutionError {
    failed(function, "it is called with values of other types")
}

fn failed(function: &str, message: &str) -> ExecutionError {
    ExecutionError::function_error(function, message)
}
