//! Which nodes, queues and pod groups belong to a planner.

use std::collections::BTreeMap;

/// A part of the cluster, selected by a label.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Partition {
    /// Key of the label; empty: no partitions, everything belongs to everybody.
    pub key: String,
    /// Value of the label; empty: objects without the label.
    pub value: String,
}

impl Partition {
    /// Does an object with these labels belong here?
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        if self.key.is_empty() {
            return true;
        }
        let value = labels.get(&self.key);
        if self.value.is_empty() { value.is_none() } else { value == Some(&self.value) }
    }

    /// Its name; none for the default one.
    pub fn name(&self) -> Option<&str> {
        (!self.key.is_empty() && !self.value.is_empty()).then_some(self.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_kinds_of_partition() {
        let labels = |value: &str| BTreeMap::from([("pool".to_owned(), value.to_owned())]);
        let all = Partition::default();
        let unlabelled = Partition { key: "pool".into(), value: String::new() };
        let one = Partition { key: "pool".into(), value: "a".into() };
        assert!(all.holds(&labels("a")) && all.holds(&BTreeMap::new()));
        assert!(!unlabelled.holds(&labels("a")) && !unlabelled.holds(&labels("")));
        assert!(unlabelled.holds(&BTreeMap::new()));
        assert!(
            one.holds(&labels("a")) && !one.holds(&labels("b")) && !one.holds(&BTreeMap::new())
        );
    }
}
