//! Which topologies are refused: an alias must mean one level.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Verdict;

/// A topology that is created or changed.
pub fn validate(topology: &Value) -> Verdict {
    let levels = || topology["spec"]["levels"].as_array().into_iter().flatten();
    let labels: BTreeSet<&str> = levels().filter_map(|level| level["nodeLabel"].as_str()).collect();
    let mut seen = BTreeSet::new();
    let (mut twice, mut conflicting) = (BTreeSet::new(), BTreeSet::new());
    for alias in levels().filter_map(|level| level["alias"].as_str()) {
        if !seen.insert(alias) {
            twice.insert(alias);
        }
        if labels.contains(alias) {
            conflicting.insert(alias);
        }
    }
    let listed = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(" ");
    let mut problems = Vec::new();
    if !twice.is_empty() {
        problems.push(format!(
            "aliases must be unique within the topology; duplicated: [{}]",
            listed(twice)
        ));
    }
    if !conflicting.is_empty() {
        problems.push(format!(
            "an alias must not equal a nodeLabel; conflicting: [{}]",
            listed(conflicting)
        ));
    }
    if problems.is_empty() {
        return Verdict::default();
    }
    Verdict::refused(format!("invalid topology aliases: {}", problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_alias_means_one_level() {
        let level = |label: &str, alias: &str| json!({"nodeLabel": label, "alias": alias});
        let told = |levels: Value| validate(&json!({"spec": {"levels": levels}})).refused;
        assert_eq!(told(json!([level("a", "zone"), {"nodeLabel": "b"}])), None);
        assert_eq!(
            told(json!([level("a", "zone"), level("b", "zone"), level("c", "a")])).as_deref(),
            Some(
                "invalid topology aliases: aliases must be unique within the topology; duplicated: [zone]; an alias must not equal a nodeLabel; conflicting: [a]"
            )
        );
    }
}
