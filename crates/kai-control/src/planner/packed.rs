//! Values that are kept for every pod and read seldom, as JSON in which the texts of the one pod are left out: what remains is the same
//! for all pods of a template and is kept once. Maps of the standard library take half a kilobyte for their first entry.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pool::Pool;

/// A value as JSON without some texts, which are needed to read it again.
#[derive(Debug)]
pub(super) struct Packed<T> {
    template: Arc<str>,
    of: PhantomData<fn() -> T>,
}

/// Stands for the text of this number. JSON has no control characters outside of escapes.
fn placeholder(number: usize) -> char {
    char::from(u8::try_from(number + 1).unwrap_or(u8::MAX))
}

impl<T: Serialize + DeserializeOwned> Packed<T> {
    /// The value without `texts`, of which there are at most eight.
    pub(super) fn new(value: &T, texts: &[&str]) -> Self {
        let mut json = serde_json::to_string(value).unwrap_or_default();
        for (number, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            json = json.replace(text, placeholder(number).encode_utf8(&mut [0; 4]));
        }
        Self { template: json.into(), of: PhantomData }
    }

    /// Lets the value share what other pods have too.
    pub(super) fn share(&mut self, templates: &mut Pool<str>) {
        self.template = templates.share(&self.template);
    }

    /// The value again, with the texts that it was packed without; none for a type whose values JSON does not give back, which a test
    /// of each packed type excludes.
    pub(super) fn unpack(&self, texts: &[&str]) -> Option<T> {
        let mut json = self.template.to_string();
        for (number, text) in texts.iter().enumerate().rev() {
            json = json.replace(placeholder(number), text);
        }
        serde_json::from_str(&json).ok()
    }
}

#[cfg(test)]
mod tests {
    use kai_api::view::Pod;
    use kai_workloads::{Decision, Facts, GrouperConfig, group_pod};
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_of_a_pod_and_its_planned_group_come_back_as_they_were() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "a", "uid": "u", "resourceVersion": "7",
                "labels": {"kai.scheduler/queue": "q", "runai/queue": "other"}, "annotations": {"note": "é \"quoted\""},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "v"}],
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"schedulerName": "kai-scheduler", "priorityClassName": "missing"},
            "status": {"phase": "Pending"},
        }))
        .expect("a pod");
        // A name may be part of another text, and be so short that it stands everywhere.
        for name in ["p", "e", "kai", "pod-with-a-name"] {
            let mut pod = pod.clone();
            pod.metadata.name = name.to_owned();
            let texts = ["u", name, "", "2026-01-01T00:00:00Z"];
            assert_eq!(Packed::new(&pod, &texts).unpack(&texts), Some(pod));
        }
        let alone = Pod {
            metadata: kai_api::view::ObjectMeta { owner_references: Vec::new(), ..pod.metadata },
            ..pod
        };
        let decision = group_pod(&alone, &[], &Facts::default(), &GrouperConfig::default());
        let Ok(Decision::Group(plan)) = decision else { panic!("not grouped: {decision:?}") };
        assert!(!plan.notices.is_empty(), "notices are packed as well");
        let texts = ["u", "p"];
        assert_eq!(Packed::new(&*plan, &texts).unpack(&texts), Some(*plan));
    }

    #[test]
    fn values_that_differ_in_these_texts_only_are_kept_once() {
        let mut templates = Pool::default();
        let mut pack = |name: &str| {
            let mut packed = Packed::new(&format!("about {name}"), &[name]);
            packed.share(&mut templates);
            packed
        };
        let (one, other) = (pack("p-1"), pack("p-2"));
        assert!(Arc::ptr_eq(&one.template, &other.template));
        assert_eq!(other.unpack(&["p-2"]), Some("about p-2".to_owned()));
    }
}
