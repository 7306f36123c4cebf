//! What the rules know about objects other than the pod and its owners.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::view::Pod;
use serde_json::Value;

use crate::error::Stop;

/// In the place of a version: the most stable one in which the API server has the kind.
pub const SERVED_VERSION: &str = "served";

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvk {
    /// API group; empty for the core.
    pub group: String,
    /// API version, or [`SERVED_VERSION`].
    pub version: String,
    /// Kind in objects, such as `Job`.
    pub kind: String,
}

impl Gvk {
    /// From an `apiVersion` and a kind.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }
}

/// The name of an object in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Group and version, `batch/v1`.
    pub api_version: String,
    /// Kind in objects, such as `Job`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object; `namespace` is empty for cluster-scoped kinds.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The key of a pod group.
    pub fn pod_group(namespace: &str, name: &str) -> Self {
        Self::new("scheduling.run.ai/v2alpha2", "PodGroup", namespace, name)
    }
}

/// Pods of a namespace with these labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodQuery {
    /// Namespace to search.
    pub namespace: String,
    /// Every label must be there with this value.
    pub labels: BTreeMap<String, String>,
}

impl PodQuery {
    /// Pods of a namespace with all of these labels.
    pub fn new<const N: usize>(namespace: &str, labels: [(&str, &str); N]) -> Self {
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self { namespace: namespace.to_owned(), labels: BTreeMap::from(labels) }
    }
}

/// A fact that is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// An object, or that it does not exist.
    Object(ObjectKey),
    /// The pods that a query finds.
    Pods(PodQuery),
    /// The `Karta` objects labelled for a kind; none where that resource is not served.
    Kartas(Gvk),
}

/// Facts that the caller has read. A missing fact is requested.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names of the existing `PriorityClass` objects.
    pub priority_classes: BTreeSet<String>,
    /// Objects that were requested; `None` where there is no such object.
    pub objects: BTreeMap<ObjectKey, Option<Value>>,
    /// Pods that were requested.
    pub pods: BTreeMap<PodQuery, Vec<Pod>>,
    /// `Karta` objects that were requested.
    pub kartas: BTreeMap<Gvk, Vec<Value>>,
}

impl Facts {
    pub(crate) fn object(&self, key: &ObjectKey) -> Result<Option<&Value>, Stop> {
        match self.objects.get(key) {
            Some(object) => Ok(object.as_ref()),
            None => Err(Need::Object(key.clone()).into()),
        }
    }

    /// Asks for all missing ones at once.
    pub(crate) fn objects(&self, keys: &[ObjectKey]) -> Result<Vec<Option<&Value>>, Stop> {
        let missing: Vec<Need> = keys
            .iter()
            .filter(|key| !self.objects.contains_key(*key))
            .map(|key| Need::Object(key.clone()))
            .collect();
        if !missing.is_empty() {
            return Err(Stop::Need(missing));
        }
        Ok(keys.iter().map(|key| self.objects.get(key).and_then(Option::as_ref)).collect())
    }

    pub(crate) fn pods(&self, query: &PodQuery) -> Result<&[Pod], Stop> {
        self.pods.get(query).map(Vec::as_slice).ok_or_else(|| Need::Pods(query.clone()).into())
    }

    pub(crate) fn kartas(&self, gvk: &Gvk) -> Result<&[Value], Stop> {
        self.kartas.get(gvk).map(Vec::as_slice).ok_or_else(|| Need::Kartas(gvk.clone()).into())
    }
}
