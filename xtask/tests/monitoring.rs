//! Dashboards and alert rules are well formed, their expressions are `PromQL`, and the metrics they name exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use promql_parser::parser::{self, Expr};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[allow(dead_code, reason = "must be there")]
    name: String,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    #[allow(dead_code, reason = "must be text")]
    lasts: Option<String>,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    severity: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Annotations {
    summary: String,
    description: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every expression of the dashboards and rules, with its place.
fn expressions() -> Vec<(String, String)> {
    let rules: RuleFile =
        serde_saphyr::from_str(&read("deploy/monitoring/alerts.yaml")).expect("alert rules");
    let mut found = Vec::new();
    for rule in rules.groups.into_iter().flat_map(|group| group.rules) {
        assert!(["critical", "warning", "info"].contains(&rule.labels.severity.as_str()));
        let Annotations { summary, description } = rule.annotations;
        assert!(!summary.is_empty() && !description.is_empty(), "{}", rule.alert);
        found.push((rule.alert, rule.expr));
    }
    for name in ["queues", "scheduler"] {
        let path = format!("deploy/monitoring/dashboard-{name}.json");
        let board: Value = serde_json::from_str(&read(&path)).expect("a dashboard");
        for panel in board["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title").to_owned();
            for target in panel["targets"].as_array().expect("targets") {
                // Grafana replaces the variable before Prometheus sees it.
                let expr = target["expr"].as_str().expect("an expression").replace("$queue", ".*");
                found.push((title.clone(), expr));
            }
        }
    }
    found
}

/// Names of the metrics in an expression.
fn metrics(expr: &Expr, names: &mut BTreeSet<String>) {
    match expr {
        Expr::Aggregate(aggregate) => metrics(&aggregate.expr, names),
        Expr::Unary(unary) => metrics(&unary.expr, names),
        Expr::Binary(binary) => {
            metrics(&binary.lhs, names);
            metrics(&binary.rhs, names);
        }
        Expr::Paren(paren) => metrics(&paren.expr, names),
        Expr::Subquery(subquery) => metrics(&subquery.expr, names),
        Expr::VectorSelector(selector) => names.extend(selector.name.clone()),
        Expr::MatrixSelector(selector) => names.extend(selector.vs.name.clone()),
        Expr::Call(call) => call.args.args.iter().for_each(|argument| metrics(argument, names)),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

/// Metrics in the table of the document, as (name, type).
fn documented() -> BTreeSet<(String, String)> {
    let row = |line: &str| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((name.to_owned(), rest.split_once(" |")?.0.to_owned()))
    };
    read("docs/monitoring.md")
        .lines()
        .filter_map(row)
        .filter(|(name, _)| name.starts_with("kai_"))
        .collect()
}

#[test]
fn every_expression_parses_and_names_documented_metrics() {
    let documented: BTreeSet<String> = documented()
        .into_iter()
        .flat_map(|(name, kind)| match kind.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"].map(|end| name.clone() + end).to_vec(),
            _ => vec![name],
        })
        .collect();
    let expressions = expressions();
    assert!(expressions.len() > 10, "too few expressions: {}", expressions.len());
    for (place, text) in expressions {
        let parsed = parser::parse(&text).unwrap_or_else(|error| panic!("{place}: {error}"));
        let mut names = BTreeSet::new();
        metrics(&parsed, &mut names);
        assert!(!names.is_empty(), "{place}: {text} names no metric");
        for name in names {
            assert!(documented.contains(&name), "{place}: {name} is not in docs/monitoring.md");
        }
    }
}

/// The unit tests of the metrics compare this list with a page on which everything happened.
#[test]
fn the_document_lists_the_metrics_that_exist() {
    let crates = std::fs::read_dir(root().join("crates")).expect("crates");
    let mut sources =
        crates.map(|entry| entry.expect("an entry").path().join("src/metrics/tests.rs"));
    let source = sources.find_map(|path| std::fs::read_to_string(path).ok());
    let source = source.expect("the unit tests of the metrics");
    let table = source.split_once("const METRICS").expect("a table").1;
    let table = table.split_once("];").expect("its end").0;
    let texts: Vec<&str> = table.split('"').skip(1).step_by(2).collect();
    let kinds = ["gauge", "counter", "histogram"];
    let mut existing: BTreeSet<(String, String)> = texts
        .windows(2)
        .filter(|pair| kinds.contains(&pair[1]))
        .map(|pair| (format!("kai_{}", pair[0]), pair[1].to_owned()))
        .collect();
    for name in ["shared_gpu_memory_mib", "shared_gpu_memory_granted_mib", "shared_gpu_pods"] {
        existing.insert((format!("kai_{name}"), "gauge".to_owned()));
    }
    existing.extend(request_metrics());
    assert_eq!(documented(), existing);
}

/// Metrics of the servers, which every process has, as (name, type).
fn request_metrics() -> Vec<(String, String)> {
    let source = read("crates/kai-serve/src/request_metrics.rs");
    let written = [("page.counted(\"", "counter"), ("page.histograms(\"", "histogram")];
    let named = written.iter().flat_map(|(call, kind)| {
        source.split(call).skip(1).filter_map(|rest| {
            let (name, _) = rest.split_once('"')?;
            Some((format!("kai_{name}"), (*kind).to_owned()))
        })
    });
    named.collect()
}
