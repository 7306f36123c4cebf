//! Namespaces.

use kai_api::view::ObjectMeta;
use kai_core::input::NamespaceSpec;
use serde::Deserialize;

use crate::problem::Translated;
use crate::selectors::labels;

/// What is read of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Namespace {
    /// Name and labels.
    pub metadata: ObjectMeta,
}

/// A namespace with the labels by which it may be selected.
pub fn translate(namespace: &Namespace) -> Translated<NamespaceSpec> {
    let metadata = &namespace.metadata;
    NamespaceSpec { name: metadata.name.as_str().into(), labels: labels(&metadata.labels) }.into()
}
