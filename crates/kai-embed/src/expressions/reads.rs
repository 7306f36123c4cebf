//! The fields that an expression reads. An object has hundreds of fields, a condition of a webhook reads one of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::Value as Cel;
use cel::common::ast::Expr;
use cel::objects::{Key, Map};
use serde_json::Value;

use super::cel_value;

/// What an expression reads of its variables, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    variables: BTreeMap<String, FieldReads>,
    /// An expression of a form that is not analysed may read everything.
    all: bool,
}

/// What is read of a value.
#[derive(Debug, Default, PartialEq, Eq)]
struct FieldReads {
    all: bool,
    fields: BTreeMap<String, FieldReads>,
}

impl Reads {
    pub(super) fn of(expression: &Expr) -> Self {
        let mut reads = Self::default();
        reads.add(expression);
        reads
    }

    fn add(&mut self, expression: &Expr) {
        if let Some((variable, path)) = path_of(expression) {
            let mut here = self.variables.entry(variable.to_owned()).or_default();
            for field in path {
                here = here.fields.entry(field.to_owned()).or_default();
            }
            here.all = true;
            return;
        }
        match expression {
            Expr::Literal(_) => {}
            Expr::Select(select) => self.add(&select.operand.expr),
            Expr::Call(call) => {
                let parts = call.target.iter().map(|target| &**target).chain(&call.args);
                parts.for_each(|part| self.add(&part.expr));
            }
            _ => self.all = true,
        }
    }

    /// The value of a variable as the expression sees it, without the fields that it does not read.
    pub(super) fn value(&self, variable: &str, value: &Value) -> Cel {
        match self.variables.get(variable) {
            _ if self.all => cel_value(value, &Value::Null),
            Some(reads) => reads.value(value),
            None => Cel::Null,
        }
    }
}

impl FieldReads {
    fn value(&self, value: &Value) -> Cel {
        let Value::Object(map) = value else { return cel_value(value, &Value::Null) };
        if self.all {
            return cel_value(value, &Value::Null);
        }
        let fields = self.fields.iter().filter_map(|(field, reads)| {
            Some((Key::from(field.as_str()), reads.value(map.get(field)?)))
        });
        Cel::Map(Map { map: Arc::new(fields.collect()) })
    }
}

/// Variable and fields of an expression such as `object.spec.schedulerName`.
fn path_of(expression: &Expr) -> Option<(&str, Vec<&str>)> {
    match expression {
        Expr::Ident(variable) => Some((variable, Vec::new())),
        Expr::Select(select) => {
            let (variable, mut path) = path_of(&select.operand.expr)?;
            path.push(&select.field);
            Some((variable, path))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Expressions;
    use super::*;

    #[test]
    fn fields_that_are_not_read_change_nothing() {
        let expressions = Expressions::default();
        let object = json!({"spec": {"name": "a", "list": [1, 2]}, "metadata": {"labels": {}}});
        let variables = [("object", &object), ("oldObject", &Value::Null)];
        let holds = |expression: &str| expressions.holds_for(expression, &variables);
        assert_eq!(holds("object.spec.name == 'a'"), Ok(true));
        assert_eq!(holds("object.spec.name == 'a' && oldObject == null"), Ok(true));
        assert_eq!(holds("has(object.spec.name) && !has(object.spec.other)"), Ok(true));
        assert_eq!(holds("has(object.metadata.labels)"), Ok(true));
        assert_eq!(holds("size(object.spec) == 2"), Ok(true));
        assert_eq!(holds("object['spec']['list'][1] == 2"), Ok(true));
        assert_eq!(holds("object.spec.list.all(one, one < size(object) + 1)"), Ok(true));
        assert_eq!(holds("object == object && object.spec.name.startsWith('a')"), Ok(true));
        assert!(holds("object.spec.other == 'a'").is_err());
    }

    #[test]
    fn paths_are_read_and_nothing_beside_them() {
        let read = Reads::of(&Expr::Ident("object".to_owned()));
        assert_eq!(read.variables["object"], FieldReads { all: true, ..FieldReads::default() });
        let expressions = Expressions::default();
        let program = expressions.program("object.spec.name == 'a'");
        let reads = &program.as_ref().as_ref().expect("an expression").reads;
        let object = json!({"spec": {"name": "a", "list": [1]}, "status": {}});
        let seen = cel_value(&json!({"spec": {"name": "a"}}), &Value::Null);
        assert_eq!(reads.value("object", &object), seen);
        assert_eq!(reads.value("oldObject", &object), Cel::Null);
    }
}
