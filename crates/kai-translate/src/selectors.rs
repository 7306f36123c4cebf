//! Selectors of labels, nodes and pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kai_core::input::Text;
use kai_core::input::selectors::{LabelSelector, Labels, NodeTerm, Operator, Requirement};

/// Labels or annotations in the planner's words.
pub(crate) fn labels(map: &BTreeMap<String, String>) -> Labels {
    map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    })
}

/// A requirement; one with an unknown operator can never hold.
fn requirement(key: &str, name: &str, values: Option<&Vec<String>>) -> Requirement {
    match operator(name) {
        Some(operator) => Requirement {
            key: key.into(),
            operator,
            values: values.into_iter().flatten().map(|value| value.as_str().into()).collect(),
        },
        None => never(key),
    }
}

/// A requirement that never holds.
fn never(key: &str) -> Requirement {
    Requirement { key: key.into(), operator: Operator::In, values: Vec::new() }
}

/// A selector of labels. None selects nothing, an empty one everything.
pub(crate) fn label_selector(selector: Option<&meta::LabelSelector>) -> LabelSelector {
    let Some(selector) = selector else {
        return LabelSelector { requirements: vec![never("")] };
    };
    let exact = selector.match_labels.iter().flatten().map(|(key, value)| Requirement {
        key: key.as_str().into(),
        operator: Operator::In,
        values: vec![value.as_str().into()],
    });
    let expressions = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|one| requirement(&one.key, &one.operator, one.values.as_ref()));
    LabelSelector { requirements: exact.chain(expressions).collect() }
}

/// One term of a node selector.
pub(crate) fn node_term(term: &core::NodeSelectorTerm) -> NodeTerm {
    let read = |list: Option<&Vec<core::NodeSelectorRequirement>>| -> Vec<Requirement> {
        let each = list.into_iter().flatten();
        each.map(|one| requirement(&one.key, &one.operator, one.values.as_ref())).collect()
    };
    NodeTerm {
        labels: read(term.match_expressions.as_ref()),
        fields: read(term.match_fields.as_ref()),
    }
}

/// The terms of a node selector; one must match.
pub(crate) fn node_terms(selector: &core::NodeSelector) -> Vec<NodeTerm> {
    selector.node_selector_terms.iter().map(node_term).collect()
}

/// A term of a storage class: each key has one of its values.
pub(crate) fn topology_term(term: &core::TopologySelectorTerm) -> NodeTerm {
    let each = term.match_label_expressions.iter().flatten();
    let labels = each.map(|one| Requirement {
        key: one.key.as_str().into(),
        operator: Operator::In,
        values: one.values.iter().map(|value| value.as_str().into()).collect(),
    });
    NodeTerm { labels: labels.collect(), fields: Vec::new() }
}

/// A selector of labels as a term about nodes.
pub(crate) fn node_term_of_labels(selector: &meta::LabelSelector) -> Vec<NodeTerm> {
    let labels = label_selector(Some(selector)).requirements;
    if labels.is_empty() { Vec::new() } else { vec![NodeTerm { labels, fields: Vec::new() }] }
}

/// A text, where it is there and not empty.
pub(crate) fn non_empty(text: Option<&String>) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}

/// Terms as a node selector; none where every node will do.
pub(crate) fn node_selector(terms: &[NodeTerm]) -> Option<core::NodeSelector> {
    let written = |list: &[Requirement]| -> Option<Vec<core::NodeSelectorRequirement>> {
        let each = list.iter().map(|one| core::NodeSelectorRequirement {
            key: one.key.to_string(),
            operator: operator_name(one.operator).to_owned(),
            values: Some(one.values.iter().map(ToString::to_string).collect()),
        });
        (!list.is_empty()).then(|| each.collect())
    };
    let term = |term: &NodeTerm| core::NodeSelectorTerm {
        match_expressions: written(&term.labels),
        match_fields: written(&term.fields),
    };
    let node_selector_terms = terms.iter().map(term).collect();
    (!terms.is_empty()).then_some(core::NodeSelector { node_selector_terms })
}

fn operator_name(operator: Operator) -> &'static str {
    match operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    }
}
