//! A reader of jq expressions, as far as declarative kinds use them: paths, pipes, alternatives, comparisons, arithmetic and the
//! functions that look at values. Nothing that changes its input, recurses or loops.

mod eval;
mod functions;
mod lexer;
mod parser;

use serde_json::Value;

use self::parser::Expr;

/// Why an expression cannot be read or has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct JqError(pub(crate) String);

impl JqError {
    fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

/// A parsed jq expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    text: String,
    expr: Expr,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, JqError> {
        let describe = |error: JqError| JqError(format!("jq expression {text:?}: {error}"));
        let expr = lexer::tokens(text).and_then(parser::parse).map_err(describe)?;
        Ok(Self { text: text.to_owned(), expr })
    }

    /// All results of the expression on an input.
    pub(crate) fn run(&self, input: &Value) -> Result<Vec<Value>, JqError> {
        let describe = |error: JqError| JqError(format!("jq expression {:?}: {error}", self.text));
        eval::eval(&self.expr, input).map_err(describe)
    }

    /// Whether the expression may read more than metadata.
    pub(crate) fn reads_beyond_metadata(&self) -> bool {
        !self.text.trim_start().starts_with(".metadata")
            || self.text.contains("spec")
            || self.text.contains("status")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(text: &str, input: &Value) -> Vec<Value> {
        Query::parse(text).unwrap().run(input).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn paths() {
        let input = json!({"a": {"b-c": [1, 2, 3]}, "l": [{"n": "x"}, {"n": "y"}, {}]});
        assert_eq!(run(".", &input), std::slice::from_ref(&input));
        assert_eq!(run(".a[\"b-c\"][1]", &input), [json!(2)]);
        assert_eq!(run(".a.\"b-c\"[-1]", &input), [json!(3)]);
        assert_eq!(run(".a[\"b-c\"][1:]", &input), [json!([2, 3])]);
        assert_eq!(run(".l[].n", &input), [json!("x"), json!("y"), json!(null)]);
        assert_eq!(run(".l | .[] | .n", &input), [json!("x"), json!("y"), json!(null)]);
        assert_eq!(run(".no.such.path", &input), [json!(null)]);
        assert_eq!(run(".l[5].n", &input), [json!(null)]);
        assert_eq!(run("[.a[]?, .a.x[]?]", &input), [json!([[1, 2, 3]])]);
    }

    #[test]
    fn operators() {
        let input = json!({"r": 3, "z": null, "f": false, "s": "ab"});
        assert_eq!(run(".z // .r", &input), [json!(3)]);
        assert_eq!(run(".f // 7", &input), [json!(7)]);
        assert_eq!(run(".no[] // 1", &input), [json!(1)]);
        assert_eq!(run(".no[1:]", &input), [json!(null)]);
        assert_eq!(run("6 / 2, 7.9 % 4", &input), [json!(3), json!(3)]);
        assert_eq!(run("(.r // 1) * ((.q // 2) - 1)", &input), [json!(3)]);
        assert_eq!(run("1 + 2 * 3", &input), [json!(7)]);
        assert_eq!(run("-.r + 5", &input), [json!(2)]);
        assert_eq!(run("7 % 4, 7 / 2", &input), [json!(3), json!(3.5)]);
        assert_eq!(run(".s + \"c\"", &input), [json!("abc")]);
        assert_eq!(run(".r > 2 and .s == \"ab\"", &input), [json!(true)]);
        assert_eq!(run(".r <= 2 or .z != null | not", &input), [json!(true)]);
        assert_eq!(
            run("if .r > 5 then \"big\" elif .r > 2 then \"middle\" else \"small\" end", &input),
            [json!("middle")]
        );
        assert_eq!(run("{a: .r, \"b\": [.s, 1]}", &input), [json!({"a": 3, "b": ["ab", 1]})]);
    }

    #[test]
    fn functions() {
        let input = json!({"services": {"front": {"n": 1}, "back": {"n": 2}}, "l": [3, 1, 2]});
        assert_eq!(run(".services | to_entries[] | .key", &input), [json!("back"), json!("front")]);
        assert_eq!(run(".services | keys", &input), [json!(["back", "front"])]);
        assert_eq!(run("[.services[] | .n]", &input), [json!([2, 1])]);
        assert_eq!(run("[.services[] | select(.n > 1)] | length", &input), [json!(1)]);
        assert_eq!(run(".l | map(. + 1) | add", &input), [json!(9)]);
        assert_eq!(
            run(".l | max, min, first, last", &input),
            [json!(3), json!(1), json!(3), json!(2)]
        );
        assert_eq!(
            run(".services | has(\"front\"), has(\"x\")", &input),
            [json!(true), json!(false)]
        );
        assert_eq!(run("\"12\" | tonumber", &input), [json!(12)]);
        assert_eq!(run(".l | sort | map(tostring) | join(\"-\")", &input), [json!("1-2-3")]);
        assert_eq!(run("[.l[] | type] | unique", &input), [json!(["number"])]);
        assert_eq!(run(".l | any(. > 2), all(. > 2)", &input), [json!(true), json!(false)]);
        assert_eq!(
            run("\"a/b\" | split(\"/\")[1], startswith(\"a\")", &input),
            [json!("b"), json!(true)]
        );
    }

    #[test]
    fn unsupported_expressions_are_errors() {
        for text in [
            "..",
            ".. | .a",
            ".a = 1",
            ".a |= 2",
            "del(.a)",
            "range(10)",
            "recurse",
            "paths",
            "walk(.)",
            "repeat(.)",
            "reduce .[] as $x (0; . + $x)",
            "def f: 1; f",
            "nonsense",
            "map",
            ".a.",
            ".[",
            "(1",
            "1 +",
            "\"a",
            "\"\\(1)\"",
            "",
        ] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_the_expression() {
        let error = Query::parse(".a.b").unwrap().run(&json!({"a": 1})).unwrap_err();
        assert_eq!(error.to_string(), "jq expression \".a.b\": cannot index number with \"b\"");
    }

    /// Owners of workloads choose the input: it must not cost memory that an expression does not name.
    #[test]
    fn results_are_bounded() {
        let many = json!(vec![0; 1000]);
        assert!(Query::parse(".[] + .[] + .[]").unwrap().run(&many).is_err());
        assert!(Query::parse("[.[] + .[] + .[]]").unwrap().run(&many).is_err());
        let text = json!({"replicas": "a", "parallelism": 9_000_000_000_000_000_000_i64});
        assert!(Query::parse(".replicas * .parallelism").unwrap().run(&text).is_err());
        assert!(Query::parse(&"(".repeat(200_000)).is_err());
    }
}
