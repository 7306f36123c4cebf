//! Changes of an object's fields. What a patch does not name stays as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Serialize;
use serde_json::Value;

use super::object::to_json;

/// A change of an object's fields. UID and resource version are the target's.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Whether the object or its status is changed.
    pub part: Part,
    /// How lists are merged.
    pub merge: Merge,
    /// The changed fields.
    pub(super) fields: Fields,
}

/// A part of an object that is written by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object without its status.
    Object,
    /// The status subresource.
    Status,
}

/// How a patch merges lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// A list replaces the list.
    Replace,
    /// Entries are merged by their keys, as conditions by their type. Built-in kinds only.
    ByKey,
}

/// Labels or annotations: a text sets one, none removes it.
pub type Texts = BTreeMap<Cow<'static, str>, Option<String>>;

/// The fields that controllers change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Fields {
    #[serde(skip_serializing)]
    pub(super) metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<VolumeSpec>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    data: BTreeMap<Cow<'static, str>, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Box<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Metadata {
    #[serde(skip_serializing_if = "Texts::is_empty")]
    labels: Texts,
    #[serde(skip_serializing_if = "Texts::is_empty")]
    annotations: Texts,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<Vec<String>>,
}

impl Metadata {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    /// None: no claim has the volume.
    claim_ref: Option<Box<ObjectReference>>,
}

/// The status of an object whose conditions alone are written.
#[derive(Serialize)]
struct Conditions<'a, T> {
    conditions: &'a [T],
}

fn texts<K: Into<Cow<'static, str>>>(
    texts: impl IntoIterator<Item = (K, Option<String>)>,
) -> Texts {
    texts.into_iter().map(|(key, text)| (key.into(), text)).collect()
}

impl Patch {
    fn object(fields: Fields) -> Self {
        Self { part: Part::Object, merge: Merge::Replace, fields }
    }

    /// Sets and removes labels.
    pub fn labels<K: Into<Cow<'static, str>>>(
        labels: impl IntoIterator<Item = (K, Option<String>)>,
    ) -> Self {
        Self::labels_and_annotations(texts(labels), Texts::new())
    }

    /// Sets and removes annotations.
    pub fn annotations<K: Into<Cow<'static, str>>>(
        annotations: impl IntoIterator<Item = (K, Option<String>)>,
    ) -> Self {
        Self::labels_and_annotations(Texts::new(), texts(annotations))
    }

    /// Sets and removes labels and annotations.
    pub fn labels_and_annotations(labels: Texts, annotations: Texts) -> Self {
        let metadata = Metadata { labels, annotations, finalizers: None };
        Self::object(Fields { metadata, ..Fields::default() })
    }

    /// Replaces the finalizers.
    pub fn finalizers(finalizers: Vec<String>) -> Self {
        let metadata = Metadata { finalizers: Some(finalizers), ..Metadata::default() };
        Self::object(Fields { metadata, ..Fields::default() })
    }

    /// Gives a volume to a claim or, with none, takes it back; with annotations.
    pub fn volume_claim(claim: Option<ObjectReference>, annotations: Texts) -> Self {
        let metadata = Metadata { annotations, ..Metadata::default() };
        let spec = Some(VolumeSpec { claim_ref: claim.map(Box::new) });
        Self::object(Fields { metadata, spec, ..Fields::default() })
    }

    /// Sets one entry of a config map.
    pub fn data(key: &'static str, text: String) -> Self {
        Self::object(Fields { data: BTreeMap::from([(key.into(), text)]), ..Fields::default() })
    }

    /// Changes fields of the status; lists are replaced, null removes a field.
    pub fn status(status: &impl Serialize) -> Self {
        let fields = Fields { status: Some(Box::new(to_json(status))), ..Fields::default() };
        Self { part: Part::Status, merge: Merge::Replace, fields }
    }

    /// Replaces the conditions of a kind of ours.
    pub fn all_conditions<T: Serialize>(conditions: &[T]) -> Self {
        Self::status(&Conditions { conditions })
    }

    /// Changes conditions of a built-in kind; others stay.
    pub fn conditions<T: Serialize>(conditions: &[T]) -> Self {
        Self { merge: Merge::ByKey, ..Self::status(&Conditions { conditions }) }
    }
}
