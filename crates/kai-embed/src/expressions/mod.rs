//! Expressions of the Common Expression Language, as rules of custom resources and conditions of webhooks are written.

mod reads;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cel::objects::{Key, Map};
use cel::{Context, Env, Program, Value as Cel};
use reads::Reads;
use serde_json::Value;

/// An expression that was read.
struct Compiled {
    program: Program,
    reads: Reads,
    /// The latest evaluation. Pods of one workload differ in nothing that a condition reads, and evaluating costs more than
    /// comparing what it reads.
    latest: Mutex<Option<Evaluation>>,
}

struct Evaluation {
    variables: Vec<Cel>,
    holds: Result<bool, String>,
}

/// Evaluates expressions; each is read once.
pub(crate) struct Expressions {
    env: Arc<Env>,
    programs: RefCell<BTreeMap<String, Arc<Result<Compiled, String>>>>,
}

impl Default for Expressions {
    fn default() -> Self {
        let mut env = Env::stdlib().with_optional_support(true);
        for extension in [cel::extensions::strings, cel::extensions::lists, cel::extensions::math] {
            // This fails only where a name is declared twice.
            let declared = env.add_extension(extension);
            debug_assert!(declared.is_ok(), "{declared:?}");
        }
        Self { env: Arc::new(env), programs: RefCell::default() }
    }
}

impl fmt::Debug for Expressions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Expressions({})", self.programs.borrow().len())
    }
}

impl Expressions {
    /// The value of an expression; why it has none.
    pub(crate) fn value(&self, expression: &str, variables: &[(&str, Cel)]) -> Result<Cel, String> {
        let program = self.program(expression);
        let Compiled { program, .. } = program.as_ref().as_ref().map_err(Clone::clone)?;
        let mut context = Context::with_env(Arc::clone(&self.env));
        for (name, value) in variables {
            context.add_variable_from_value(*name, value.clone());
        }
        program.execute(&context).map_err(|error| error.to_string())
    }

    /// Whether an expression about these values is true; why it is neither true nor false.
    pub(crate) fn holds_for(
        &self,
        expression: &str,
        variables: &[(&str, &Value)],
    ) -> Result<bool, String> {
        let program = self.program(expression);
        let Compiled { reads, latest, .. } = program.as_ref().as_ref().map_err(Clone::clone)?;
        let (names, values): (Vec<&str>, Vec<Cel>) =
            variables.iter().map(|(name, value)| (*name, reads.value(name, value))).unzip();
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = latest.as_ref().filter(|known| known.variables == values) {
            return known.holds.clone();
        }
        let named: Vec<(&str, Cel)> = names.into_iter().zip(values.iter().cloned()).collect();
        let holds = self.holds(expression, &named);
        *latest = Some(Evaluation { variables: values, holds: holds.clone() });
        holds
    }

    /// Whether an expression is true; why it is neither true nor false.
    pub(crate) fn holds(
        &self,
        expression: &str,
        variables: &[(&str, Cel)],
    ) -> Result<bool, String> {
        match self.value(expression, variables)? {
            Cel::Bool(holds) => Ok(holds),
            other => Err(format!("the value is no boolean but {other:?}")),
        }
    }

    fn program(&self, expression: &str) -> Arc<Result<Compiled, String>> {
        let mut programs = self.programs.borrow_mut();
        if let Some(program) = programs.get(expression) {
            return Arc::clone(program);
        }
        let compiled = self.env.compile(expression).map_err(|errors| errors.to_string());
        let program = Arc::new(compiled.map(|program| {
            let reads = Reads::of(&program.expression().expr);
            Compiled { program, reads, latest: Mutex::default() }
        }));
        programs.insert(expression.to_owned(), Arc::clone(&program));
        program
    }
}

/// A value as expressions see it: numbers are what the schema says, and whole ones where it says nothing.
pub(crate) fn cel_value(value: &Value, schema: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) if schema["type"] != "number" => Cel::Int(whole),
            _ => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(list) => {
            let items = list.iter().map(|item| cel_value(item, &schema["items"]));
            Cel::List(Arc::new(items.collect()))
        }
        Value::Object(fields) => {
            let entry = |(key, value): (&String, &Value)| {
                let schema = crate::crd::property(schema, key).unwrap_or(&Value::Null);
                (Key::from(key.as_str()), cel_value(value, schema))
            };
            Cel::Map(Map { map: Arc::new(fields.iter().map(entry).collect()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_have_values_or_reasons() {
        let expressions = Expressions::default();
        let list = cel_value(&json!([{"a": "x"}, {"a": "y"}]), &Value::Null);
        let variables = [("self", list)];
        assert_eq!(expressions.holds("self.all(one, one.a != 'z')", &variables), Ok(true));
        assert_eq!(expressions.holds("self[1].a == 'x'", &variables), Ok(false));
        assert!(expressions.holds("self[0].b == 'x'", &variables).is_err());
        assert!(expressions.holds("self.", &variables).is_err());
        assert!(expressions.holds("size(self)", &variables).is_err());
    }

    #[test]
    fn a_condition_is_evaluated_again_for_other_values() {
        let expressions = Expressions::default();
        let holds = |object: Value| expressions.holds_for("object.a == 1", &[("object", &object)]);
        for _ in 0..2 {
            assert_eq!(holds(json!({"a": 1, "b": 1})), Ok(true));
            assert_eq!(holds(json!({"a": 1, "b": 2})), Ok(true));
            assert_eq!(holds(json!({"a": 2})), Ok(false));
            assert!(holds(json!({"b": 1})).is_err());
        }
    }

    #[test]
    fn numbers_are_what_the_schema_says() {
        let schema = json!({"type": "number"});
        assert_eq!(cel_value(&json!(2), &schema), Cel::Float(2.0));
        assert_eq!(cel_value(&json!(2), &Value::Null), Cel::Int(2));
    }
}
