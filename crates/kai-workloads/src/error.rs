//! Errors a user can act on: which object, which field, what is wrong with it.

use crate::facts::Need;

/// Why a pod has no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {problem}")]
pub struct GroupingError {
    /// Kind, namespace and name of the object to change.
    pub object: String,
    /// Path of the field, label or annotation within it.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Why a rule came to no plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// Facts are missing; the caller reads them and tries again.
    Need(Vec<Need>),
    /// An object of the workload is invalid.
    Invalid(Box<GroupingError>),
}

impl From<GroupingError> for Stop {
    fn from(error: GroupingError) -> Self {
        Self::Invalid(Box::new(error))
    }
}

impl From<Need> for Stop {
    fn from(need: Need) -> Self {
        Self::Need(vec![need])
    }
}
