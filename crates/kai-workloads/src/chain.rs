//! Walking up from a pod to its top owner.
//!
//! The walk requests one owner at a time and receives the result. It follows the controlling reference, and stops at an
//! owner it may not read: what is above stays out of sight, and the last readable owner is the top.

use std::sync::Arc;

use kai_api::view::{OwnerReference, Pod};
use serde::Deserialize;
use serde_json::Value;

use crate::base::pod_name;
use crate::error::GroupingError;
use crate::object::Object;

/// Longer chains are taken for cycles.
const LONGEST: usize = 32;

/// What a read of an owner gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Fetched {
    /// The owner was read. It may be shared with other walks: many pods have the same owners.
    Object(Arc<Value>),
    /// It may not be read.
    Forbidden,
    /// It is not there, or the read failed; the text says why.
    Failed(String),
}

/// A walk up the owners of a pod.
#[derive(Clone, Debug)]
pub struct Walk {
    namespace: String,
    owned: String,
    next: Option<OwnerReference>,
    owners: Vec<Arc<Value>>,
}

impl Walk {
    /// Starts at a pod.
    pub fn new(pod: &Pod) -> Self {
        Self {
            namespace: pod.metadata.namespace.clone(),
            owned: pod_name(pod),
            next: controller(&pod.metadata.owner_references).cloned(),
            owners: Vec::new(),
        }
    }

    /// The owner to read next, in the pod's namespace; none at the top.
    pub const fn next(&self) -> Option<&OwnerReference> {
        self.next.as_ref()
    }

    /// Takes the result of reading [`Self::next`].
    pub fn feed(&mut self, fetched: Fetched) -> Result<(), GroupingError> {
        let Some(reference) = self.next.take() else { return Ok(()) };
        let object = match fetched {
            Fetched::Object(object) => object,
            Fetched::Forbidden => return Ok(()),
            Fetched::Failed(cause) => {
                let OwnerReference { kind, name, uid, .. } = &reference;
                let problem = format!(
                    "failed to find {kind}: <{}/{name}>, uid: <{uid}>: {cause}",
                    self.namespace
                );
                return Err(self.error(problem));
            }
        };
        if Object::new(&object).uid() != reference.uid {
            return Err(self.error(format!("Owner resource with uid {} not found", reference.uid)));
        }
        let references: Vec<OwnerReference> =
            Vec::deserialize(&object["metadata"]["ownerReferences"]).unwrap_or_default();
        self.owned = Object::new(&object).describe();
        self.owners.push(object);
        self.next = controller(&references).cloned();
        if self.next.is_some() && self.owners.len() == LONGEST {
            return Err(self.error(format!("more than {LONGEST} owners, one above the other")));
        }
        Ok(())
    }

    /// The owners, the pod's own first, the top owner last.
    pub fn finish(self) -> Vec<Arc<Value>> {
        self.owners
    }

    fn error(&self, problem: String) -> GroupingError {
        GroupingError {
            object: self.owned.clone(),
            field: "metadata.ownerReferences".to_owned(),
            problem,
        }
    }
}

/// The reference that controls, or else the first.
fn controller(references: &[OwnerReference]) -> Option<&OwnerReference> {
    references
        .iter()
        .find(|reference| reference.controller == Some(true))
        .or_else(|| references.first())
}

#[cfg(test)]
mod tests {
    use kai_api::view::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn reference(kind: &str, controller: Option<bool>) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            name: kind.to_lowercase(),
            uid: format!("uid-{kind}"),
            controller,
        }
    }

    fn pod(owner_references: Vec<OwnerReference>) -> Pod {
        let metadata = ObjectMeta {
            name: "p".to_owned(),
            namespace: "ns".to_owned(),
            owner_references,
            ..ObjectMeta::default()
        };
        Pod { metadata, ..Pod::default() }
    }

    fn object(kind: &str, owner: Option<&str>) -> Value {
        let owners: Vec<_> = owner.iter().map(|owner| reference(owner, Some(true))).collect();
        json!({"apiVersion": "v1", "kind": kind, "metadata":
            {"name": kind.to_lowercase(), "namespace": "ns", "uid": format!("uid-{kind}"), "ownerReferences": owners}})
    }

    #[test]
    fn climbs_to_the_top() {
        let mut walk = Walk::new(&pod(vec![reference("Job", Some(true))]));
        assert_eq!(walk.next().unwrap().kind, "Job");
        walk.feed(Fetched::Object(object("Job", Some("CronJob")).into())).unwrap();
        assert_eq!(walk.next().unwrap().kind, "CronJob");
        walk.feed(Fetched::Object(object("CronJob", None).into())).unwrap();
        assert_eq!(walk.next(), None);
        assert_eq!(walk.finish().len(), 2);
    }

    #[test]
    fn the_controller_counts_not_the_first() {
        let walk = Walk::new(&pod(vec![reference("Other", None), reference("Job", Some(true))]));
        assert_eq!(walk.next().unwrap().kind, "Job");
        let walk = Walk::new(&pod(vec![reference("Other", None), reference("Job", None)]));
        assert_eq!(walk.next().unwrap().kind, "Other");
    }

    #[test]
    fn what_may_not_be_read_ends_the_walk() {
        let mut walk = Walk::new(&pod(vec![reference("Job", Some(true))]));
        walk.feed(Fetched::Object(object("Job", Some("Secret")).into())).unwrap();
        walk.feed(Fetched::Forbidden).unwrap();
        assert_eq!(walk.next(), None);
        assert_eq!(walk.finish().len(), 1);
    }

    #[test]
    fn errors_name_the_object_that_refers() {
        let mut walk = Walk::new(&pod(vec![reference("Job", Some(true))]));
        let error = walk.feed(Fetched::Failed("not found".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Pod ns/p: metadata.ownerReferences: failed to find Job: <ns/job>, uid: <uid-Job>: not found"
        );
        let mut walk = Walk::new(&pod(vec![reference("Job", Some(true))]));
        let error = walk.feed(Fetched::Object(object("CronJob", None).into())).unwrap_err();
        assert!(error.problem.contains("Owner resource with uid uid-Job not found"), "{error}");
    }

    #[test]
    fn a_cycle_ends() {
        let mut walk = Walk::new(&pod(vec![reference("Job", Some(true))]));
        let error = (0..100)
            .find_map(|_| walk.feed(Fetched::Object(object("Job", Some("Job")).into())).err());
        assert!(error.unwrap().problem.contains("more than 32 owners"));
    }
}
