//! Label selectors and node terms, as Kubernetes means them.

use std::collections::BTreeMap;

use crate::input::Text;

/// Labels or annotations of an object, by key.
pub type Labels = BTreeMap<Text, Text>;

/// How one key is tested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operator {
    /// The value is one of those listed.
    In,
    /// The value is none of those listed, or the key is absent.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is an integer greater than the one listed.
    Gt,
    /// The value is an integer less than the one listed.
    Lt,
}

/// One requirement on a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Requirement {
    /// Label key, or field name where fields are matched.
    pub key: Text,
    /// How the value of the key is tested.
    pub operator: Operator,
    /// Values of the test.
    pub values: Vec<Text>,
}

/// All requirements must hold; none selects everything.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LabelSelector {
    /// Requirements, all of which must hold.
    pub requirements: Vec<Requirement>,
}

/// One alternative of a required node affinity: all parts must hold, a term without parts matches nothing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeTerm {
    /// Requirements on labels of the node.
    pub labels: Vec<Requirement>,
    /// Requirements on fields; `metadata.name` is the only one.
    pub fields: Vec<Requirement>,
}

impl Requirement {
    /// Whether `value` (absent: the key is missing) satisfies the requirement.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| &**one == value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, |have, want| have > want),
            Operator::Lt => self.compares(value, |have, want| have < want),
        }
    }

    fn compares(&self, value: Option<&str>, test: impl Fn(i64, i64) -> bool) -> bool {
        let have = value.and_then(|value| value.parse::<i64>().ok());
        let want = self.values.first().and_then(|value| value.parse::<i64>().ok());
        matches!((have, want), (Some(have), Some(want)) if test(have, want))
    }
}

impl LabelSelector {
    /// A selector of exact labels.
    pub fn exact(labels: &Labels) -> Self {
        let requirements = labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.clone()],
            })
            .collect();
        Self { requirements }
    }

    /// Whether `labels` satisfy every requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| {
            requirement.holds(labels.get(&requirement.key).map(|value| &**value))
        })
    }
}

impl NodeTerm {
    /// Whether a node of this name with these labels satisfies the term.
    pub fn matches(&self, node_name: &str, labels: &Labels) -> bool {
        if self.labels.is_empty() && self.fields.is_empty() {
            return false;
        }
        let field = |name: &str| (name == "metadata.name").then_some(node_name);
        self.labels.iter().all(|requirement| {
            requirement.holds(labels.get(&requirement.key).map(|value| &**value))
        }) && self.fields.iter().all(|requirement| requirement.holds(field(&requirement.key)))
    }
}
