//! What is wrong with a document, where in it, and what was expected there.

use serde::de::DeserializeOwned;

/// A fault of a document, with its place inside the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FormatError {
    /// Path inside the document, such as `cluster.nodes[2].labels`; `.` for the document itself.
    pub path: String,
    /// What is wrong and what was expected.
    pub message: String,
}

impl FormatError {
    /// A fault at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Parses `text` as one JSON document of type `T`.
pub(super) fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, FormatError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| FormatError::new(error.path().to_string(), error.inner().to_string()))?;
    reader.end().map_err(|error| FormatError::new(".", error.to_string()))?;
    Ok(value)
}
