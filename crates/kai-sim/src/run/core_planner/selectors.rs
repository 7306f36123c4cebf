//! Labels, selectors and amounts by name.

use kai_core::input::Text;
use kai_core::input::selectors::{LabelSelector, Labels, NodeTerm, Operator, Requirement};
use serde_json::{Map, Value, json};

use crate::format::{AmountMap, NodeExpression, NodeOperator, StringMap};

pub(super) fn text(text: &str) -> Text {
    text.into()
}

pub(super) fn texts(texts: &[String]) -> Vec<Text> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

pub(super) fn labels(labels: &StringMap) -> Labels {
    labels.iter().map(|(key, value)| (text(key), text(value))).collect()
}

pub(super) fn exact(wanted: &StringMap) -> LabelSelector {
    LabelSelector::exact(&labels(wanted))
}

/// Amounts of resources the core has no field for. Storage is counted in bytes, everything else in
/// thousandths.
pub(super) fn other_resources(amounts: &AmountMap) -> Vec<(Text, i64)> {
    let in_core_units = |(name, &amount): (&String, &i64)| {
        let in_bytes = matches!(name.as_str(), "ephemeral-storage" | "storage");
        (text(name), if in_bytes { amount } else { amount.saturating_mul(1000) })
    };
    amounts.iter().map(in_core_units).collect()
}

/// Amounts that are counted one by one.
pub(super) fn counted(amounts: &AmountMap) -> Vec<(Text, i64)> {
    amounts.iter().map(|(name, &amount)| (text(name), amount)).collect()
}

/// Alternatives of demands on a node.
pub(super) fn node_terms(alternatives: &[Vec<NodeExpression>]) -> Vec<NodeTerm> {
    let term = |demands: &Vec<NodeExpression>| NodeTerm {
        labels: demands.iter().map(requirement).collect(),
        fields: Vec::new(),
    };
    alternatives.iter().map(term).collect()
}

/// The one alternative in which all labels are as wanted; none wanted: none.
pub(super) fn nodes_with(wanted: &StringMap) -> Vec<NodeTerm> {
    if wanted.is_empty() {
        return Vec::new();
    }
    vec![NodeTerm { labels: exact(wanted).requirements, fields: Vec::new() }]
}

fn requirement(demand: &NodeExpression) -> Requirement {
    let operator = match demand.op {
        NodeOperator::In => Operator::In,
        NodeOperator::NotIn => Operator::NotIn,
        NodeOperator::Exists => Operator::Exists,
        NodeOperator::DoesNotExist => Operator::DoesNotExist,
        NodeOperator::Gt => Operator::Gt,
        NodeOperator::Lt => Operator::Lt,
    };
    Requirement { key: text(&demand.key), operator, values: texts(&demand.values) }
}

/// A node selector in Kubernetes form: `nodeSelectorTerms`, each with `matchExpressions` and
/// `matchFields`. What is not of that form selects nothing.
pub(super) fn kubernetes_node_terms(selector: &Map<String, Value>) -> Vec<NodeTerm> {
    let term = |term: &Value| NodeTerm {
        labels: kubernetes_requirements(&term["matchExpressions"]),
        fields: kubernetes_requirements(&term["matchFields"]),
    };
    let terms = selector.get("nodeSelectorTerms").and_then(Value::as_array);
    terms.map(|terms| terms.iter().map(term).collect()).unwrap_or_default()
}

fn kubernetes_requirements(requirements: &Value) -> Vec<Requirement> {
    let one = |requirement: &Value| {
        let operator = match requirement["operator"].as_str()? {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => return None,
        };
        let values = requirement["values"].as_array().into_iter().flatten();
        Some(Requirement {
            key: requirement["key"].as_str()?.into(),
            operator,
            values: values.filter_map(|value| value.as_str().map(Into::into)).collect(),
        })
    };
    requirements.as_array().into_iter().flatten().filter_map(one).collect()
}

/// Terms back in Kubernetes form; none: no restriction.
pub(super) fn kubernetes_selector(terms: &[NodeTerm]) -> Option<Map<String, Value>> {
    if terms.is_empty() {
        return None;
    }
    let term = |term: &NodeTerm| {
        json!({
            "matchExpressions": requirements_back(&term.labels),
            "matchFields": requirements_back(&term.fields),
        })
    };
    let terms: Vec<Value> = terms.iter().map(term).collect();
    Some(Map::from_iter([("nodeSelectorTerms".to_owned(), Value::Array(terms))]))
}

fn requirements_back(requirements: &[Requirement]) -> Value {
    let one = |requirement: &Requirement| {
        let operator = match requirement.operator {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::Gt => "Gt",
            Operator::Lt => "Lt",
        };
        let values: Vec<&str> = requirement.values.iter().map(|value| &**value).collect();
        json!({"key": &*requirement.key, "operator": operator, "values": values})
    };
    requirements.iter().map(one).collect()
}
