//! Webhooks that are registered with the cluster: which webhook is called for which request, and the effect of its answer.
//!
//! Registrations are ordinary objects. What would be a call to a server is a call of a function in the same process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use k8s_openapi::ByteString;
use serde_json::Value;

use crate::api::apply_json_patch;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::{NAMESPACES, Resource, id};
use crate::object::{Key, at, field, items, namespace, text, uid};
use crate::selectors::LabelSelector;
use crate::store::{ResourceId, Store};

/// A question to a webhook: what its `AdmissionReview` would say. Objects are borrowed, since every write of a pod asks.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Path of the webhook on its server.
    pub path: &'a str,
    /// UID of the object.
    pub uid: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// Namespace of the object; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The object as it will be; none where it is deleted.
    pub object: Option<&'a Value>,
    /// The object as it is; none where it is created.
    pub old_object: Option<&'a Value>,
}

/// Answers a question as an `AdmissionReview`; none where no server listens.
type Ask = dyn Fn(&Question<'_>, &Cluster) -> Option<Value> + Send + Sync;

/// The function that answers at the addresses of registered webhooks.
#[derive(Clone, Default)]
pub struct Webhooks(Option<Arc<Ask>>);

/// Which of the registered webhooks name a resource and an operation in their rules. Every write asks, and registrations seldom
/// change.
#[derive(Debug, Default)]
pub(crate) struct WebhookIndex {
    stages: [StageIndex; 2],
}

#[derive(Debug, Default)]
struct StageIndex {
    /// The registrations that the lists were made from.
    registrations: Vec<Arc<Value>>,
    by_rule: BTreeMap<(ResourceId, &'static str), Arc<[Hook]>>,
}

/// A webhook: the registration and its position there.
#[derive(Debug)]
struct Hook {
    registration: Arc<Value>,
    position: usize,
}

impl Hook {
    fn value(&self) -> &Value {
        &self.registration["webhooks"][self.position]
    }
}

impl WebhookIndex {
    /// The webhooks of a stage with a rule for the operation, in the order in which they are called.
    fn find(
        &mut self,
        store: &Store,
        stage: Stage,
        resource: &ResourceId,
        operation: &'static str,
    ) -> Arc<[Hook]> {
        let index = &mut self.stages[stage as usize];
        let registered = || store.all(stage.registrations());
        let is_current = registered().count() == index.registrations.len()
            && registered().zip(&index.registrations).all(|(one, known)| Arc::ptr_eq(one, known));
        if !is_current {
            *index = StageIndex {
                registrations: registered().cloned().collect(),
                by_rule: BTreeMap::new(),
            };
        }
        let StageIndex { registrations, by_rule } = index;
        let key = (resource.clone(), operation);
        let found = by_rule.entry(key).or_insert_with(|| {
            let all = registrations.iter().flat_map(|registration| {
                let hooks = items(field(registration, "webhooks")).enumerate();
                hooks.map(move |(position, hook)| (registration, position, hook))
            });
            let named = all.filter(|(.., hook)| names_in_rule(hook, resource, operation));
            let hooks = named.map(|(registration, position, _)| Hook {
                registration: Arc::clone(registration),
                position,
            });
            hooks.collect()
        });
        Arc::clone(found)
    }
}

/// Whether a rule of a webhook names the resource and the operation.
fn names_in_rule(hook: &Value, resource: &ResourceId, operation: &str) -> bool {
    let names = |list: &Value, wanted: &str| items(list).any(|one| one == "*" || one == wanted);
    items(field(hook, "rules")).any(|rule| {
        names(field(rule, "operations"), operation)
            && names(field(rule, "apiGroups"), &resource.group)
            && names(field(rule, "resources"), &resource.plural)
    })
}

impl Webhooks {
    /// This function answers; it may read the cluster.
    pub fn new(
        ask: impl Fn(&Question<'_>, &Cluster) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(ask)))
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Webhooks({})", self.0.is_some())
    }
}

/// What is about to be done with an object.
#[derive(Clone, Copy)]
pub(crate) enum Operation<'a> {
    Create(&'a Value),
    Update { old: &'a Value, new: &'a Value },
    Delete(&'a Value),
}

impl<'a> Operation<'a> {
    fn name(self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE",
            Self::Update { .. } => "UPDATE",
            Self::Delete(_) => "DELETE",
        }
    }

    /// The object after the operation, or before it for a deletion.
    fn subject(self) -> &'a Value {
        match self {
            Self::Create(object) | Self::Delete(object) => object,
            Self::Update { new, .. } => new,
        }
    }

    fn after(self) -> Option<&'a Value> {
        match self {
            Self::Create(object) => Some(object),
            Self::Update { new, .. } => Some(new),
            Self::Delete(_) => None,
        }
    }

    fn before(self) -> Option<&'a Value> {
        match self {
            Self::Create(_) => None,
            Self::Update { old, .. } => Some(old),
            Self::Delete(object) => Some(object),
        }
    }
}

/// Which kind of webhooks is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Webhooks that may change the object.
    Mutating,
    /// Webhooks that only validate it.
    Validating,
}

impl Stage {
    fn registrations(self) -> &'static ResourceId {
        static MUTATING: LazyLock<ResourceId> =
            LazyLock::new(|| registrations("mutatingwebhookconfigurations"));
        static VALIDATING: LazyLock<ResourceId> =
            LazyLock::new(|| registrations("validatingwebhookconfigurations"));
        match self {
            Self::Mutating => &MUTATING,
            Self::Validating => &VALIDATING,
        }
    }
}

fn registrations(plural: &str) -> ResourceId {
    ResourceId::new("admissionregistration.k8s.io", plural)
}

impl Cluster {
    /// Asks the webhooks of a stage; what they made of the object.
    pub(crate) fn ask_webhooks(
        &mut self,
        stage: Stage,
        resource: &Resource,
        operation: Operation<'_>,
    ) -> Result<Option<Value>, Failure> {
        let Webhooks(Some(ask)) = self.webhooks.clone() else { return Ok(None) };
        let hooks = self.webhook_index.find(&self.store, stage, &resource.id, operation.name());
        let mut changed: Option<Value> = None;
        for hook in hooks.iter().map(Hook::value) {
            let now = match (&changed, operation) {
                (Some(new), Operation::Create(_)) => Operation::Create(new),
                (Some(new), Operation::Update { old, .. }) => Operation::Update { old, new },
                (_, operation) => operation,
            };
            if !self.concerns(hook, now) {
                continue;
            }
            let Some(answer) = ask(&question(hook, now), self) else {
                match text(field(hook, "failurePolicy")) {
                    "Ignore" => continue,
                    _ => return Err(Failure::webhook_silent(text(field(hook, "name")))),
                }
            };
            let response = field(&answer, "response");
            self.warnings
                .extend(items(field(response, "warnings")).map(|one| text(one).to_owned()));
            if *field(response, "allowed") != true {
                let why = text(at(response, &["status", "message"]));
                return Err(Failure::denied(text(field(hook, "name")), why));
            }
            if let (Stage::Mutating, Some(object)) = (stage, now.after()) {
                changed = patched(object, response, text(field(hook, "name")))?.or(changed);
            }
        }
        Ok(changed)
    }

    /// Whether the selectors and conditions of a webhook match the operation.
    fn concerns(&self, hook: &Value, operation: Operation<'_>) -> bool {
        let subject = operation.subject();
        LabelSelector::of_optional(field(hook, "objectSelector")).matches(subject)
            && self.is_in_selected_namespace(hook, subject)
            && self.meets_conditions(hook, operation)
    }

    /// Objects that are in no namespace are in every selection.
    fn is_in_selected_namespace(&self, hook: &Value, object: &Value) -> bool {
        let key = Key::new("", namespace(object));
        let space = self.store.get(&id(NAMESPACES), &key);
        space.is_none_or(|space| {
            LabelSelector::of_optional(field(hook, "namespaceSelector")).matches(space)
        })
    }

    /// If a condition cannot be evaluated, the webhook is called.
    fn meets_conditions(&self, hook: &Value, operation: Operation<'_>) -> bool {
        let variables = [
            ("object", operation.after().unwrap_or(&Value::Null)),
            ("oldObject", operation.before().unwrap_or(&Value::Null)),
        ];
        items(field(hook, "matchConditions")).all(|condition| {
            let expression = text(field(condition, "expression"));
            self.expressions.holds_for(expression, &variables).unwrap_or(true)
        })
    }
}

/// Where a webhook listens.
fn path(hook: &Value) -> &str {
    let client = field(hook, "clientConfig");
    let url =
        field(client, "url").as_str().and_then(|url| url.split_once("://")?.1.split_once('/'));
    match (at(client, &["service", "path"]).as_str(), url) {
        (Some(path), _) => path,
        (None, Some((host, _))) => {
            let url = text(field(client, "url"));
            &url[url.find(host).unwrap_or_default() + host.len()..]
        }
        (None, None) => "/",
    }
}

fn question<'a>(hook: &'a Value, operation: Operation<'a>) -> Question<'a> {
    let object = operation.subject();
    Question {
        path: path(hook),
        uid: uid(object),
        operation: operation.name(),
        namespace: namespace(object),
        object: operation.after(),
        old_object: operation.before(),
    }
}

/// The object with the patch of a response; none where there is no patch.
fn patched(object: &Value, response: &Value, hook: &str) -> Result<Option<Value>, Failure> {
    if field(response, "patch").is_null() {
        return Ok(None);
    }
    let unreadable = |why: String| Failure::webhook_patch(hook, &why);
    let patch: ByteString = serde_json::from_value(field(response, "patch").clone())
        .map_err(|error| unreadable(error.to_string()))?;
    let patch: Value =
        serde_json::from_slice(&patch.0).map_err(|error| unreadable(error.to_string()))?;
    let mut object = object.clone();
    apply_json_patch(&mut object, &patch).map_err(unreadable)?;
    Ok(Some(object))
}
