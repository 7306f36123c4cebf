//! Values that are kept for every pod and read seldom. Without the texts of the one pod they are the same for all pods of a template,
//! which are kept once.

use std::hash::Hash;
use std::sync::Arc;

use kai_api::names::workload;
use kai_api::view::Pod as GroupingView;
use kai_workloads::PodGroupPlan;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pool::Pool;

/// A value without the texts of its pod, which are needed to read it again.
#[derive(Debug)]
pub(super) enum Packed<T> {
    /// Fields that hold such a text alone are empty.
    Template(Arc<T>),
    /// JSON in which control characters stand for such texts, which also are parts of others: maps of the standard library, which each
    /// pod would have for itself, take half a kilobyte for their first entry.
    Json(Arc<str>),
}

/// A value of which single fields are texts of its pod.
pub(super) trait Packable: Clone + Eq + Hash + Serialize + DeserializeOwned {
    /// Empties each field that is a text of the pod.
    fn strip(&mut self, texts: &[&str]);
    /// Fills the fields that `strip` emptied.
    fn fill(&mut self, texts: &[&str]);
}

/// Empties the field where it is this text.
fn strip(field: &mut String, text: &str) {
    if field == text {
        field.clear();
    }
}

/// Fills the field where it is empty.
fn fill(field: &mut String, text: &str) {
    if field.is_empty() {
        text.clone_into(field);
    }
}

/// Texts: UID, name, node, time of creation.
impl Packable for GroupingView {
    fn strip(&mut self, texts: &[&str]) {
        each_field(self, texts, strip);
    }

    fn fill(&mut self, texts: &[&str]) {
        each_field(self, texts, fill);
    }
}

fn each_field(view: &mut GroupingView, texts: &[&str], change: impl Fn(&mut String, &str)) {
    let metadata = &mut view.metadata;
    let required = [Some(&mut metadata.uid), Some(&mut metadata.name)];
    let optional = [view.spec.node_name.as_mut(), metadata.creation_timestamp.as_mut()];
    for (field, text) in required.into_iter().chain(optional).zip(texts) {
        if let Some(field) = field {
            change(field, text);
        }
    }
}

/// Stands for the description of the owner, which is written again from name and UID.
const OWNER_DESCRIPTION: &str = "\u{1}";

/// Texts: UID and name of the pod that owns the group, name of the group.
impl Packable for PodGroupPlan {
    fn strip(&mut self, texts: &[&str]) {
        if let Some(description) = self.owner_description_mut() {
            OWNER_DESCRIPTION.clone_into(description);
        }
        let fields = [&mut self.owner.uid, &mut self.owner.name, &mut self.name];
        fields.into_iter().zip(texts).for_each(|(field, text)| strip(field, text));
    }

    fn fill(&mut self, texts: &[&str]) {
        let fields = [&mut self.owner.uid, &mut self.owner.name, &mut self.name];
        fields.into_iter().zip(texts).for_each(|(field, text)| fill(field, text));
        let description = self.describe_owner();
        if let Some(text) = self.annotations.get_mut(workload::TOP_OWNER_METADATA)
            && text == OWNER_DESCRIPTION
        {
            *text = description;
        }
    }
}

/// Stands for the text of this number. JSON has no control characters outside of escapes.
fn placeholder(number: usize) -> char {
    char::from(u8::try_from(number + 1).unwrap_or(u8::MAX))
}

impl<T> Packed<T> {
    /// What the value is without the texts of its pod, where that is the same for other pods.
    pub(super) fn template(&self) -> Option<&Arc<T>> {
        match self {
            Self::Template(template) => Some(template),
            Self::Json(_) => None,
        }
    }
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Template(template) => Self::Template(Arc::clone(template)),
            Self::Json(json) => Self::Json(Arc::clone(json)),
        }
    }
}

impl<T: Packable> Packed<T> {
    /// The value without `texts`, of which there are at most eight; it shares what other pods have too.
    pub(super) fn new(
        mut value: T,
        texts: &[&str],
        templates: &mut Pool<T>,
        jsons: &mut Pool<str>,
    ) -> Self {
        value.strip(texts);
        if let Some(template) = templates.get(&value) {
            return Self::Template(template);
        }
        let mut json = serde_json::to_string(&value).unwrap_or_default();
        let texts = texts.iter().enumerate().filter(|(_, text)| !text.is_empty());
        if texts.clone().all(|(_, text)| !json.contains(text)) {
            return Self::Template(templates.share(&Arc::new(value)));
        }
        for (number, text) in texts {
            json = json.replace(text, placeholder(number).encode_utf8(&mut [0; 4]));
        }
        Self::Json(jsons.share(&json.into()))
    }

    /// The value again, with the texts that it was packed without; none for a type whose values JSON does not give back, which a test
    /// of each packed type excludes.
    pub(super) fn unpack(&self, texts: &[&str]) -> Option<T> {
        let mut value = match self {
            Self::Template(template) => T::clone(template),
            Self::Json(json) => {
                let mut json = json.to_string();
                for (number, text) in texts.iter().enumerate().rev() {
                    json = json.replace(placeholder(number), text);
                }
                serde_json::from_str(&json).ok()?
            }
        };
        value.fill(texts);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use kai_api::view::Pod;
    use kai_workloads::{Decision, Facts, GrouperConfig, group_pod};
    use serde_json::json;

    use super::*;

    fn pack<T: Packable>(value: &T, texts: &[&str]) -> Packed<T> {
        Packed::new(value.clone(), texts, &mut Pool::default(), &mut Pool::default())
    }

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7",
                "labels": {"kai.scheduler/queue": "q", "runai/queue": "other"}, "annotations": {"note": "é \"quoted\""},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "v"}],
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"schedulerName": "kai-scheduler", "priorityClassName": "missing"},
            "status": {"phase": "Pending"},
        }))
        .expect("a pod")
    }

    #[test]
    fn metadata_of_a_pod_and_its_planned_group_come_back_as_they_were() {
        let pod = pod();
        // A name may be part of another text, and be so short that it stands everywhere.
        for name in ["p", "e", "kai", "pod-with-a-name"] {
            for (uid, node) in [("u", None), ("7b01", Some("")), ("7b01", Some("node-1"))] {
                let mut pod = pod.clone();
                name.clone_into(&mut pod.metadata.name);
                uid.clone_into(&mut pod.metadata.uid);
                pod.spec.node_name = node.map(str::to_owned);
                for created in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"] {
                    let texts = [uid, name, node.unwrap_or_default(), created];
                    assert_eq!(pack(&pod, &texts).unpack(&texts), Some(pod.clone()));
                }
            }
        }
        let alone = Pod {
            metadata: kai_api::view::ObjectMeta { owner_references: Vec::new(), ..pod.metadata },
            ..pod
        };
        let decision = group_pod(&alone, &[], &Facts::default(), &GrouperConfig::default());
        let Ok(Decision::Group(plan)) = decision else { panic!("not grouped: {decision:?}") };
        assert!(!plan.notices.is_empty(), "notices are packed as well");
        let texts = ["u", "p", "pg-p-u"];
        assert_eq!(pack(&*plan, &texts).unpack(&texts), Some(*plan));
    }

    #[test]
    fn values_that_differ_in_these_texts_only_are_kept_once() {
        let (mut templates, mut jsons) = (Pool::default(), Pool::default());
        let mut pack = |name: &str, note: &str| {
            let mut pod = pod();
            name.clone_into(&mut pod.metadata.name);
            pod.metadata.annotations.insert("note".to_owned(), note.to_owned());
            let texts = ["7b01", name];
            let packed = Packed::new(pod.clone(), &texts, &mut templates, &mut jsons);
            assert_eq!(packed.unpack(&texts), Some(pod));
            packed
        };
        let (Packed::Template(one), Packed::Template(other)) = (pack("p-1", "x"), pack("p-2", "x"))
        else {
            panic!("their names stand in one field")
        };
        assert!(Arc::ptr_eq(&one, &other));
        let (Packed::Json(one), Packed::Json(other)) =
            (pack("p-3", "about p-3"), pack("p-4", "about p-4"))
        else {
            panic!("their names are part of another text")
        };
        assert!(Arc::ptr_eq(&one, &other));
        assert!(matches!(pack("Node", "x"), Packed::Template(_)), "the template of another pod");
    }
}
