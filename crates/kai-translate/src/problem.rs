//! What is wrong with an object, in words its owner can act on.

/// Something wrong with an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[error("{object}: {field}: {message}")]
pub struct Problem {
    /// Kind and name.
    pub object: String,
    /// Path of the field, label or annotation.
    pub field: String,
    /// What is wrong, and what was expected.
    pub message: String,
}

/// An object in the planner's words, and what was wrong with it.
#[derive(Clone, PartialEq, Debug)]
pub struct Translated<T> {
    /// The object; none where the planner cannot use it.
    pub object: Option<T>,
    /// What was wrong with it.
    pub problems: Vec<Problem>,
}

impl<T> Translated<T> {
    /// The object under another type.
    pub fn map<U>(self, into: impl FnOnce(T) -> U) -> Translated<U> {
        Translated { object: self.object.map(into), problems: self.problems }
    }
}

impl<T> From<T> for Translated<T> {
    fn from(object: T) -> Self {
        Self { object: Some(object), problems: Vec::new() }
    }
}

/// Collects the problems of one object.
#[derive(Debug)]
pub(crate) struct Complaints {
    object: String,
    problems: Vec<Problem>,
}

impl Complaints {
    pub(crate) fn about(object: impl Into<String>) -> Self {
        Self { object: object.into(), problems: Vec::new() }
    }

    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem {
            object: self.object.clone(),
            field: field.into(),
            message: message.into(),
        });
    }

    /// The value, or a complaint and nothing.
    pub(crate) fn check<T, E: std::fmt::Display>(
        &mut self,
        field: impl FnOnce() -> String,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(field(), error.to_string());
                None
            }
        }
    }

    /// The object, whatever is wrong with it.
    pub(crate) fn with<T>(self, object: T) -> Translated<T> {
        Translated { object: Some(object), problems: self.problems }
    }

    /// The object where nothing is wrong with it.
    pub(crate) fn only_if_sound<T>(self, object: T) -> Translated<T> {
        Translated { object: self.problems.is_empty().then_some(object), problems: self.problems }
    }
}

/// The path of an annotation in messages.
pub(crate) fn annotation_path(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
