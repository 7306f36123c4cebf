//! Deletion: at once, gracefully, or when finalizers let go.

use std::sync::Arc;

use k8s_openapi::jiff::SignedDuration;
use serde_json::{Value, json};

use super::Subject;
use super::request::{Answer, Request};
use super::watch::Filter;
use super::write::check_preconditions;
use crate::admission::{Operation, Stage};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::{NAMESPACES, PODS, Resource, id};
use crate::object::{self, Key, finalizers, is_terminating, items, moment, name, text, uid};

/// The finalizer of an owner that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that orphans its dependents.
pub(crate) const ORPHAN: &str = "orphan";
/// How long a pod has to end that does not say.
const USUAL_GRACE: i64 = 30;

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// The dependents stay without an owner.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) propagation: Propagation,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    pub(super) fn read(options: &Value) -> Self {
        Self {
            grace: options["gracePeriodSeconds"].as_i64(),
            uid: text(&options["preconditions"]["uid"]).to_owned(),
            version: text(&options["preconditions"]["resourceVersion"]).to_owned(),
            propagation: match text(&options["propagationPolicy"]) {
                "Foreground" => Propagation::Foreground,
                "Orphan" => Propagation::Orphan,
                _ if options["orphanDependents"] == true => Propagation::Orphan,
                _ => Propagation::Background,
            },
            dry_run: items(&options["dryRun"]).any(|one| one == "All"),
        }
    }

    fn of(request: &Request) -> Result<Self, Failure> {
        let mut options = Self::read(&request.value()?);
        if let Some(grace) = request.query.get("gracePeriodSeconds") {
            options.grace = grace.parse().ok();
        }
        if let Some(policy) = request.query.get("propagationPolicy") {
            options.propagation = Self::read(&json!({"propagationPolicy": policy})).propagation;
        }
        options.dry_run |= request.query.get("dryRun") == Some("All");
        Ok(options)
    }
}

/// What came of a deletion.
pub(crate) enum Deleted {
    /// The object is deleted; its last state.
    Gone(Arc<Value>),
    /// The object is marked as deleted and waits for finalizers or its grace period.
    Going(Arc<Value>),
}

impl Cluster {
    pub(super) fn delete_one(
        &mut self,
        request: &Request,
        subject: &Subject,
        name: &str,
    ) -> Result<Answer, Failure> {
        let options = DeleteOptions::of(request)?;
        let deleted = self.delete(&subject.resource, &subject.key(name), &options)?;
        Ok(match deleted {
            Deleted::Going(object) => self.show(request, subject, 200, &object),
            // Pods and custom resources answer with what was deleted, or with a word of success.
            Deleted::Gone(object) if subject.resource.id == id(PODS) => {
                self.show(request, subject, 200, &object)
            }
            Deleted::Gone(object) => Answer::object(200, success(&subject.resource, &object)),
        })
    }

    pub(super) fn delete_collection(
        &mut self,
        request: &Request,
        subject: &Subject,
    ) -> Result<Answer, Failure> {
        let options = DeleteOptions::of(request)?;
        let filter = Filter::of(request, subject, None)?;
        let found: Vec<Arc<Value>> = self.store.all(&subject.resource.id).cloned().collect();
        let found: Vec<Arc<Value>> =
            found.into_iter().filter(|object| filter.matches(object)).collect();
        let answer = self.list_objects(request, subject)?;
        for object in found {
            self.delete(&subject.resource, &Key::of(&object), &options)?;
        }
        Ok(answer)
    }

    /// Deletes an object, or marks it while finalizers or a grace period hold it.
    pub(crate) fn delete(
        &mut self,
        resource: &Arc<Resource>,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failure> {
        let Some(old) = self.store.get(&resource.id, key).cloned() else {
            return Err(Failure::not_found(&resource.id, &key.name));
        };
        if !options.uid.is_empty() && options.uid != uid(&old) {
            let (kind, wanted) = (&resource.kind, &options.uid);
            return Err(Failure::other_object(&resource.id, kind, &key.name, wanted, uid(&old)));
        }
        check_preconditions(resource, &old, &options.version, "")?;
        if !is_terminating(&old) {
            self.ask_webhooks(Stage::Validating, resource, Operation::Delete(&old))?;
        }
        let grace = if resource.id == id(PODS) { pod_grace(&old, options) } else { 0 };
        let mut new = Value::clone(&old);
        add_finalizers(resource, &mut new, options);
        let kept = !finalizers(&new).is_empty() || resource.id == id(NAMESPACES);
        if grace == 0 && !kept {
            if !options.dry_run {
                self.store.remove(&resource.id, key);
            }
            self.mark_deleted(&mut new, &old, 0);
            return Ok(Deleted::Gone(Arc::new(new)));
        }
        let has_grace = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if !is_terminating(&old) || has_grace.is_some_and(|has| grace < has) {
            self.mark_deleted(&mut new, &old, grace);
        }
        if resource.id == id(NAMESPACES) {
            object::set(&mut new, &["status", "phase"], json!("Terminating"));
        }
        if new == *old || options.dry_run {
            return Ok(Deleted::Going(Arc::new(new)));
        }
        Ok(Deleted::Going(self.store.put(&resource.id, new)))
    }

    /// Says since when an object is deleted, and how long it has. This raises `metadata.generation`.
    fn mark_deleted(&self, new: &mut Value, old: &Value, grace: i64) {
        let end = self.now + SignedDuration::from_secs(grace);
        object::set(new, &["metadata", "deletionTimestamp"], moment(end));
        object::set(new, &["metadata", "deletionGracePeriodSeconds"], json!(grace));
        if let Some(generation) = old["metadata"]["generation"].as_i64()
            && !is_terminating(old)
        {
            object::set(new, &["metadata", "generation"], json!(generation + 1));
        }
    }
}

/// Adds the finalizer of the requested propagation, foreground or orphan.
fn add_finalizers(resource: &Resource, object: &mut Value, options: &DeleteOptions) {
    let wanted = match options.propagation {
        Propagation::Background => return,
        Propagation::Foreground => FOREGROUND,
        Propagation::Orphan => ORPHAN,
    };
    if resource.id == id(PODS) || finalizers(object).contains(&wanted) {
        return;
    }
    let mut all: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
    all.push(wanted.to_owned());
    object::set(object, &["metadata", "finalizers"], json!(all));
}

/// How long a pod has to end: nothing runs of one that was never placed or has ended.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let placed = !text(&pod["spec"]["nodeName"]).is_empty();
    let ended = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
    if !placed || ended {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    options.grace.or(own).unwrap_or(USUAL_GRACE).max(0)
}

fn success(resource: &Resource, object: &Value) -> Value {
    let mut details =
        json!({"name": name(object), "kind": &*resource.id.plural, "uid": uid(object)});
    if !resource.id.group.is_empty() {
        details["group"] = json!(&*resource.id.group);
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
