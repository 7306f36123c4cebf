//! Values that are kept for every pod and read seldom, as compact JSON: a map of the standard library takes half a kilobyte for its
//! first entry, and the metadata of a pod has several maps.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as JSON.
#[derive(Debug)]
pub(super) struct Packed<T> {
    json: Box<[u8]>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Packed<T> {
    pub(super) fn new(value: &T) -> Self {
        let json = serde_json::to_vec(value).unwrap_or_default().into_boxed_slice();
        Self { json, of: PhantomData }
    }

    /// The value again; none for a type whose values JSON does not give back, which a test of each packed type excludes.
    pub(super) fn unpack(&self) -> Option<T> {
        serde_json::from_slice(&self.json).ok()
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
        assert_eq!(Packed::new(&pod).unpack(), Some(pod.clone()));
        let alone = Pod {
            metadata: kai_api::view::ObjectMeta { owner_references: Vec::new(), ..pod.metadata },
            ..pod
        };
        let decision = group_pod(&alone, &[], &Facts::default(), &GrouperConfig::default());
        let Ok(Decision::Group(plan)) = decision else { panic!("not grouped: {decision:?}") };
        assert!(!plan.notices.is_empty(), "notices are packed as well");
        assert_eq!(Packed::new(&*plan).unpack(), Some(*plan));
    }
}
