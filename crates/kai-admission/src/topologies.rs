//! Which topologies are denied: an alias must mean one level.

use std::collections::BTreeSet;

use kai_api::Topology;

use super::Verdict;

/// A topology that is created or changed.
pub fn validate(topology: &Topology) -> Verdict {
    let levels = &topology.spec.levels;
    let labels: BTreeSet<&str> = levels.iter().map(|level| level.node_label.as_str()).collect();
    let mut seen = BTreeSet::new();
    let (mut twice, mut conflicting) = (BTreeSet::new(), BTreeSet::new());
    for alias in levels.iter().filter_map(|level| level.alias.as_deref()) {
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
    Verdict::deny(format!("invalid topology aliases: {}", problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use kai_api::topology::{TopologyLevel, TopologySpec};

    use super::*;

    #[test]
    fn an_alias_means_one_level() {
        let level = |label: &str, alias: &str| TopologyLevel {
            node_label: label.to_owned(),
            alias: (!alias.is_empty()).then(|| alias.to_owned()),
        };
        let denial = |levels: Vec<TopologyLevel>| {
            validate(&Topology::new("t", TopologySpec { levels })).denial
        };
        assert_eq!(denial(vec![level("a", "zone"), level("b", "")]), None);
        assert_eq!(
            denial(vec![level("a", "zone"), level("b", "zone"), level("c", "a")]).as_deref(),
            Some(
                "invalid topology aliases: aliases must be unique within the topology; duplicated: [zone]; an alias must not equal a nodeLabel; conflicting: [a]"
            )
        );
    }
}
