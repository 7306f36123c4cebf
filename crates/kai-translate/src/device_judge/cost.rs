//! Expressions with a count of what they cost.
//!
//! The library that evaluates expressions does not count. The parsed expression is therefore rewritten before it is
//! evaluated: what a function reads passes a function of ours, which charges its size, and a loop charges the length of
//! what it runs over times the size of its body before it begins. Once the budget is spent every charge fails, so that
//! evaluation ends soon after, whatever the expression does with errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::CelInt;
use cel::{Context, ExecutionError, Value};

/// What one evaluation may cost, as in Kubernetes.
pub(super) const MOST_STEPS: u64 = 1_000_000;
/// Characters and elements that are read for one step.
const READ_PER_STEP: u64 = 10;

/// Charges the size of its argument.
const CHARGE: &str = "@charge";
/// Charges the first argument times the length of the second, which is the result.
const CHARGE_LOOP: &str = "@chargeLoop";
/// Charges the product of the sizes of its arguments; the result is the first.
const CHARGE_PRODUCT: &str = "@chargeProduct";
/// Charges an integer.
const CHARGE_COUNT: &str = "@chargeCount";
/// Charges a regular expression by what it expands to.
const CHARGE_PATTERN: &str = "@chargePattern";

/// Operators that evaluate their arguments themselves, or only look one thing up.
const UNCHARGED: [&str; 9] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::CONDITIONAL,
    operators::NOT_STRICTLY_FALSE,
    operators::LOGICAL_NOT,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
    "type",
];
/// Functions about optional values, which do not survive a detour through ours.
const OPTIONAL: [&str; 8] =
    ["or", "orValue", "value", "hasValue", "optMap", "optFlatMap", "of", "none"];

/// An expression that counts what it costs.
pub(super) struct Costed {
    expression: IdedExpr,
    /// What is charged whatever the device: every part of the expression once.
    steps: u64,
}

/// What came of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The expression is true.
    pub(super) is_true: bool,
    /// The budget was spent before the end.
    pub(super) is_over_budget: bool,
    /// Steps spent so far.
    pub(super) steps: u64,
}

impl Costed {
    pub(super) fn new(expression: &IdedExpr) -> Self {
        let mut expression = expression.clone();
        let steps = weight(&expression);
        charge_parts(&mut expression, &mut vec!["device".to_owned()]);
        Self { expression, steps }
    }

    /// Evaluates with at most so many steps.
    pub(super) fn evaluate(&self, mut context: Context<'_, '_>, budget: u64) -> Outcome {
        let meter = Arc::new(Meter { spent: AtomicU64::new(0), budget });
        if meter.charge(self.steps).is_err() {
            return Outcome { is_true: false, is_over_budget: true, steps: budget };
        }
        add_charges(&mut context, &meter);
        let value = Value::resolve(&self.expression, &context);
        let spent = meter.spent.load(Ordering::Relaxed);
        let is_over_budget = spent > budget;
        Outcome {
            is_true: !is_over_budget && value == Ok(Value::Bool(true)),
            is_over_budget,
            steps: spent.min(budget),
        }
    }
}

struct Meter {
    spent: AtomicU64,
    budget: u64,
}

impl Meter {
    fn charge(&self, steps: u64) -> Result<(), ExecutionError> {
        let before = self.spent.load(Ordering::Relaxed);
        let spent = before.saturating_add(steps);
        self.spent.store(spent, Ordering::Relaxed);
        if spent > self.budget {
            return Err(ExecutionError::function_error("cost", "the cost limit is exceeded"));
        }
        Ok(())
    }
}

fn add_charges(context: &mut Context<'_, '_>, meter: &Arc<Meter>) {
    let charging = |charge: fn(&Meter, &Value, &Value) -> Result<(), ExecutionError>| {
        let meter = Arc::clone(meter);
        move |value: Value, by: Value| charge(&meter, &value, &by).map(|()| value)
    };
    let added = [
        context.add_function(
            CHARGE,
            charging(|meter, value, _| meter.charge(1 + size(value) / READ_PER_STEP)),
        ),
        context.add_function(
            CHARGE_LOOP,
            charging(|meter, value, body| {
                meter.charge(length(value).saturating_mul(count(body)).saturating_add(1))
            }),
        ),
        context.add_function(
            CHARGE_PRODUCT,
            charging(|meter, value, by| {
                meter.charge(size(value).saturating_mul(size(by)) / READ_PER_STEP + 1)
            }),
        ),
        context.add_function(CHARGE_COUNT, charging(|meter, value, _| meter.charge(count(value)))),
        context.add_function(
            CHARGE_PATTERN,
            charging(|meter, value, text| match value {
                Value::String(pattern) => {
                    meter.charge(expanded(pattern).saturating_add(size(text)))
                }
                _ => meter.charge(1),
            }),
        ),
    ];
    debug_assert!(added.iter().all(Result::is_ok), "{added:?}");
}

/// An integer; negative ones count as none.
fn count(value: &Value) -> u64 {
    match value {
        Value::Int(number) => u64::try_from(*number).unwrap_or_default(),
        Value::UInt(number) => *number,
        _ => 0,
    }
}

/// Elements of a list or map.
fn length(value: &Value) -> u64 {
    match value {
        Value::List(list) => list.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        _ => 1,
    }
}

/// Characters and elements, at all depths.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(list) => list.iter().map(size).sum::<u64>() + list.len() as u64,
        Value::Map(map) => map.map.values().map(size).sum::<u64>() + map.map.len() as u64,
        _ => 1,
    }
}

/// What a regular expression expands to: its length times all its counted repetitions.
fn expanded(pattern: &str) -> u64 {
    let mut steps = pattern.len() as u64 + 1;
    for part in pattern.split('{').skip(1) {
        let Some((counts, _)) = part.split_once('}') else { continue };
        let largest = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max();
        steps = steps.saturating_mul(largest.unwrap_or(1).max(1));
    }
    steps
}

/// Parts of an expression; texts count by their length.
fn weight(expression: &IdedExpr) -> u64 {
    let below: u64 = parts(expression).into_iter().map(weight).sum();
    let own = match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().len() as u64 / READ_PER_STEP,
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len() as u64 / READ_PER_STEP,
        _ => 0,
    };
    1 + own + below
}

/// The expressions directly inside this one.
pub(super) fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::Comprehension(one) => {
            vec![&one.iter_range, &one.accu_init, &one.loop_cond, &one.loop_step, &one.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Struct(one) => {
            one.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect()
        }
        Expr::Select(select) => vec![&select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Rewrites an expression; `bound` are the variables in scope.
fn charge_parts(expression: &mut IdedExpr, bound: &mut Vec<String>) {
    match &mut expression.expr {
        Expr::Call(call) => charge_call(call, bound),
        Expr::Comprehension(one) => {
            charge_parts(&mut one.iter_range, bound);
            charge_parts(&mut one.accu_init, bound);
            let body = weight(&one.loop_cond) + weight(&one.loop_step);
            let before = bound.len();
            bound.push(one.iter_var.clone());
            bound.extend(one.iter_var2.clone());
            for part in [&mut one.loop_cond, &mut one.loop_step, &mut one.result] {
                charge_parts(part, bound);
            }
            bound.truncate(before);
            wrap(&mut one.iter_range, CHARGE_LOOP, Some(integer(body)));
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|one| charge_parts(one, bound)),
        Expr::Map(map) => {
            map.entries.iter_mut().for_each(|entry| charge_entry(&mut entry.expr, bound));
        }
        Expr::Struct(one) => {
            one.entries.iter_mut().for_each(|entry| charge_entry(&mut entry.expr, bound));
        }
        Expr::Select(select) => charge_parts(&mut select.operand, bound),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn charge_entry(entry: &mut EntryExpr, bound: &mut Vec<String>) {
    match entry {
        EntryExpr::StructField(field) => charge_parts(&mut field.value, bound),
        EntryExpr::MapEntry(entry) => {
            charge_parts(&mut entry.key, bound);
            charge_parts(&mut entry.value, bound);
        }
    }
}

/// Charges what a function reads, and what it makes where that can be more.
fn charge_call(call: &mut CallExpr, bound: &mut Vec<String>) {
    let CallExpr { func_name, target, args } = call;
    // `lists.range`: the namespace of a function is no value.
    let mut target = target.as_deref_mut().filter(|target| is_value(target, bound));
    for part in target.iter_mut().map(|target| &mut **target).chain(args.iter_mut()) {
        charge_parts(part, bound);
    }
    let name = func_name.as_str();
    if UNCHARGED.contains(&name) || OPTIONAL.contains(&name) {
        return;
    }
    match (name, target, args.as_mut_slice()) {
        ("matches" | "find" | "findAll", Some(text), [pattern, ..]) => {
            wrap(pattern, CHARGE_PATTERN, Some(text.clone()));
        }
        ("matches", None, [text, pattern]) => wrap(pattern, CHARGE_PATTERN, Some(text.clone())),
        ("range", None, [count]) => wrap(count, CHARGE_COUNT, Some(integer(0))),
        ("replace", Some(text), [_, by, ..]) | ("join", Some(text), [by]) => {
            wrap(text, CHARGE_PRODUCT, Some(by.clone()));
        }
        ("indexOf" | "lastIndexOf", Some(text), [sought, ..]) => {
            wrap(text, CHARGE_PRODUCT, Some(sought.clone()));
        }
        ("distinct", Some(list), _) => {
            let again = list.clone();
            wrap(list, CHARGE_PRODUCT, Some(again));
        }
        (_, target, args) => {
            for part in target.into_iter().chain(args) {
                if has_size(part, bound) {
                    wrap(part, CHARGE, Some(integer(0)));
                }
            }
        }
    }
}

/// Could it be large? The device is small, literals count where they stand, and what is not a variable is a type.
fn has_size(expression: &IdedExpr, bound: &[String]) -> bool {
    match &expression.expr {
        Expr::Ident(name) => name != "device" && bound.contains(name),
        Expr::Select(_) => root(expression).is_some_and(|name| name != "device"),
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            let is_lookup = [operators::OPT_INDEX, operators::OPT_SELECT, "type"].contains(&name);
            !is_lookup && !OPTIONAL.contains(&name)
        }
        Expr::Comprehension(_) => true,
        _ => false,
    }
}

/// Is it a value, and not the namespace of a function?
fn is_value(expression: &IdedExpr, bound: &[String]) -> bool {
    root(expression).is_none_or(|name| bound.iter().any(|variable| variable == name))
}

/// The variable or namespace that a chain of fields begins with.
fn root(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) => root(&select.operand),
        _ => None,
    }
}

fn wrap(expression: &mut IdedExpr, function: &str, by: Option<IdedExpr>) {
    let inner = std::mem::take(expression);
    expression.id = inner.id;
    let args = std::iter::once(inner).chain(by).collect();
    let call = CallExpr { func_name: function.to_owned(), target: None, args };
    expression.expr = Expr::Call(call);
}

fn integer(number: u64) -> IdedExpr {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(CelInt::from(number))) }
}
