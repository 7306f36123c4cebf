//! Pods into pod groups: reads what the rules ask for and writes what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use kai_api::PodGroup;
use kai_api::names::{objects, workload};
use kai_api::view::{OwnerReference, Pod};
use kai_client::access::{Requester, denial};
use kai_client::env::Env;
use kai_client::failure::Failure;
use kai_client::lease::Gate;
use kai_client::path::{Resource, is_object_name, object_path, with_query};
use kai_client::write::{Apply, Outcome, Patch, Target, Write, Writer, read};
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;
pub use kai_workloads::GrouperConfig;
use kai_workloads::chain::{Fetched, Walk};
use kai_workloads::config::KindDefaults;
pub use kai_workloads::config::parse_selector;
use kai_workloads::write::{GroupWrite, PodLink, WriteOptions, pod_link, write_group};
use kai_workloads::{
    Decision, Facts, Gvk, Need, Notice, ObjectKey, PodGroupPlan, PodQuery, SERVED_VERSION,
    group_pod,
};
use kube::Client;
use kube::core::GroupVersionKind;
use kube::discovery::{self, ApiCapabilities, ApiResource, Scope, pinned_kind};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::orders::Report;

/// The name under which groups are written.
const MANAGER: &str = "kai-pod-grouper";
/// Owners are read again after this time.
const OWNERS_LIVE: Span = seconds(10);
const AT_ONCE: usize = 16;
/// Longest time that one attempt to group a pod holds its permit.
const ATTEMPT_DEADLINE: Span = seconds(30);
const FIRST_DELAY: Span = seconds(1);
const LONGEST_DELAY: Span = seconds(60);

/// What was found out about a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped {
    /// Namespace and name of the pod.
    pub pod: ObjectName,
    /// UID of the pod, so that a later pod of the name is not meant.
    pub uid: Text,
    /// To which group it belongs.
    pub grouping: Grouping,
}

/// To which group a pod belongs.
#[derive(Clone, Debug, PartialEq)]
pub enum Grouping {
    /// It is its own group; nothing was written.
    Own(Box<PodGroupPlan>),
    /// It was linked to a group, which the watches will show. Notices for its author.
    Linked(Vec<String>),
    /// The rules leave it alone.
    LeftAlone,
    /// Its group is not ours to write now.
    Postponed,
}

/// How long the owners of pods must have been forbidden to read before pods are grouped without them.
const FORBIDDEN_AFTER: Span = seconds(5);

/// Why a pod was not grouped.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// A read or write failed.
    #[error(transparent)]
    Api(#[from] Failure),
    /// The objects make no sense.
    #[error(transparent)]
    Objects(#[from] kai_workloads::GroupingError),
    /// The pod's service account may not use queue or priority class.
    #[error("{0}")]
    Denied(String),
    /// The rules of grouping panicked.
    #[error("grouping it panicked; the log says where")]
    Panicked,
    /// The API server did not answer in time.
    #[error("the API server did not answer within {} s", ATTEMPT_DEADLINE.nanos / 1_000_000_000)]
    Deadline,
    /// The rules ask for the same fact again and again.
    #[error("the rules of this workload come to no end")]
    Endless,
}

/// An owner as a pod refers to it: namespace, kind, name and UID. Each of them is free text of the pod's author, so that what was
/// read for one reference answers no other.
type OwnerKey = (String, Gvk, String, String);

/// Reads owners and writes groups.
pub struct Grouper {
    writer: Writer,
    env: Env,
    config: GrouperConfig,
    gate: Gate,
    limit: Semaphore,
    kinds: Mutex<BTreeMap<Gvk, (ApiResource, bool)>>,
    owners: Mutex<BTreeMap<OwnerKey, (Timestamp, Arc<Value>)>>,
    /// Kinds of owners that may not be read, and since when.
    forbidden: Mutex<BTreeMap<Gvk, Timestamp>>,
}

/// How the attempts to group a pod failed.
#[derive(Default)]
struct Failures {
    latest: String,
    reported: String,
}

impl Failures {
    /// An attempt failed; what is to be reported of it, which is the same only once.
    fn note(&mut self, why: String) -> Option<String> {
        let before = std::mem::replace(&mut self.latest, why);
        if before != self.latest || self.reported == self.latest {
            return None;
        }
        self.reported.clone_from(&self.latest);
        Some(self.latest.clone())
    }
}

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// A pod as far as its service account goes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AccountedPod {
    spec: AccountedSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccountedSpec {
    service_account_name: String,
}

impl Grouper {
    /// A grouper under these rules that writes while the gate is open.
    pub fn new(writer: Writer, env: Env, config: GrouperConfig, gate: &Gate) -> Arc<Self> {
        Arc::new(Self {
            writer,
            env,
            config,
            gate: gate.clone(),
            limit: Semaphore::new(AT_ONCE),
            kinds: Mutex::default(),
            owners: Mutex::default(),
            forbidden: Mutex::default(),
        })
    }

    /// Finds the group of a pod, and writes it unless the pod is its own; tries until it succeeds or the pod is gone. What
    /// fails twice in the same way is reported: owners may appear, or be in deletion.
    pub async fn group(
        &self,
        pod: Pod,
        classes: Vec<String>,
        reports: &Sender<Report>,
    ) -> Option<Grouped> {
        let name = pod_name(&pod);
        let mut delay = FIRST_DELAY;
        let mut failures = Failures::default();
        loop {
            let permit = self.limit.acquire().await;
            // On the heap, and only now: every pod that waits for a permit would have the memory of an attempt.
            let ended = Box::pin(self.in_time(self.try_group(&pod, &classes))).await;
            drop(permit);
            match ended {
                Ok(grouping) => {
                    let uid = pod.metadata.uid.as_str().into();
                    return Some(Grouped { pod: name, uid, grouping });
                }
                Err(error) => {
                    tracing::warn!(pod = %name, %error, "not grouped yet");
                    if matches!(error, GroupError::Panicked) {
                        let _ = reports.send(Report::GroupingPanicked).await;
                    }
                    if let Some(why) = failures.note(error.to_string()) {
                        let uid = pod.metadata.uid.as_str().into();
                        let report = Report::NotGrouped { pod: name.clone(), uid, why };
                        let _ = reports.send(report).await;
                    }
                }
            }
            if !self.may_try_again(&pod, &mut delay).await {
                return None;
            }
        }
    }

    /// Writes the group of a pod that is its own; tries until it succeeds or the pod is gone.
    pub async fn publish(&self, pod: Pod, plan: PodGroupPlan) {
        let mut delay = FIRST_DELAY;
        while self.gate.is_open() {
            let permit = self.limit.acquire().await;
            let ended = Box::pin(self.in_time(self.write(&pod, &plan))).await;
            drop(permit);
            match ended {
                Ok(()) => return,
                Err(error) => tracing::warn!(pod = %pod_name(&pod), %error, "no group yet"),
            }
            if !self.may_try_again(&pod, &mut delay).await {
                return;
            }
        }
    }

    /// One attempt, which holds a permit: it ends in time, whatever the API server does with its requests. A write that was
    /// cut off is repeated with the next attempt.
    async fn in_time<T, E: Into<GroupError>>(
        &self,
        attempt: impl Future<Output = Result<T, E>>,
    ) -> Result<T, GroupError> {
        tokio::select! { biased;
            ended = without_panics(attempt) => ended,
            () = self.env.sleep(ATTEMPT_DEADLINE) => Err(GroupError::Deadline),
        }
    }

    /// Waits, longer every time; false where the pod is gone.
    async fn may_try_again(&self, pod: &Pod, delay: &mut Span) -> bool {
        self.env.sleep(*delay).await;
        *delay = Span { nanos: (delay.nanos * 2).min(LONGEST_DELAY.nanos) };
        let path = Resource::PODS.object(&pod_name(pod));
        let found: Result<Option<Pod>, _> = self.in_time(self.writer.read(&path)).await;
        match found {
            Ok(found) => found.is_some_and(|found| found.metadata.uid == pod.metadata.uid),
            Err(_) => true,
        }
    }

    async fn try_group(&self, pod: &Pod, classes: &[String]) -> Result<Grouping, GroupError> {
        let owners = self.owners_of(pod).await?;
        crate::panics::trip_grouping(pod);
        let mut facts =
            Facts { priority_classes: classes.iter().cloned().collect(), ..Facts::default() };
        for _ in 0..16 {
            match group_pod(pod, &owners, &facts, &self.config)? {
                Decision::Skip(reason) => {
                    tracing::debug!(pod = %pod_name(pod), ?reason, "left alone");
                    return Ok(Grouping::LeftAlone);
                }
                Decision::Group(plan) if plan.is_own_group_of(pod) => {
                    self.authorize(pod, &plan).await?;
                    return Ok(Grouping::Own(plan));
                }
                Decision::Group(_) if !self.gate.is_open() => return Ok(Grouping::Postponed),
                Decision::Group(plan) => {
                    self.authorize(pod, &plan).await?;
                    self.write(pod, &plan).await?;
                    return Ok(Grouping::Linked(for_its_author(&plan)));
                }
                Decision::Fetch(needs) => {
                    for need in needs {
                        self.learn(&mut facts, need).await?;
                    }
                }
            }
        }
        Err(GroupError::Endless)
    }

    /// Asks whether the pod's service account may use queue and priority class, where that is configured. Until it may, the pod
    /// has no group and stays pending.
    async fn authorize(&self, pod: &Pod, plan: &PodGroupPlan) -> Result<(), GroupError> {
        if !self.config.authorize_queues {
            return Ok(());
        }
        let path = Resource::PODS.object(&pod_name(pod));
        let found: Option<AccountedPod> = self.writer.read(&path).await?;
        let spec = found.unwrap_or_default().spec;
        let namespace = &pod.metadata.namespace;
        let account = Requester::account(namespace, &spec.service_account_name);
        let (queue, class) = (&plan.queue, &plan.priority_class_name);
        match denial(self.writer.client(), &account, namespace, queue, class).await? {
            None => Ok(()),
            Some(why) => Err(GroupError::Denied(why)),
        }
    }

    /// Writes the group, then links the pod to it.
    async fn write(&self, pod: &Pod, plan: &PodGroupPlan) -> Outcome<()> {
        for notice in &plan.notices {
            tracing::info!(pod = %pod_name(pod), %notice, "about its group");
        }
        let group = ObjectName::new(plan.namespace.as_str(), plan.name.as_str());
        let existing: Option<PodGroup> =
            self.writer.read(&Resource::POD_GROUPS.object(&group)).await?;
        let options = WriteOptions { manager: MANAGER, move_queue: false };
        let wanted = match write_group(plan, existing.as_ref(), &self.config, options) {
            GroupWrite::Create(group) => Some(*group),
            GroupWrite::Update(update) => Some(update.apply),
            GroupWrite::Nothing => None,
        };
        if let Some(wanted) = wanted {
            self.writer.write(&Write::Apply(Apply::new(&wanted, MANAGER))).await?;
            tracing::info!(%group, queue = plan.queue, "wrote the pod group");
        }
        if let Some(PodLink { labels, annotations }) = pod_link(pod, plan) {
            let patch = Patch::labels_and_annotations(labels, annotations);
            let target = Target::of_uid(Resource::PODS, &pod_name(pod), &pod.metadata.uid);
            self.writer.write(&Write::Patch(target, patch)).await?;
        }
        Ok(())
    }

    async fn owners_of(&self, pod: &Pod) -> Result<Vec<Arc<Value>>, GroupError> {
        let mut walk = Walk::new(pod);
        while let Some(reference) = walk.next() {
            let fetched = self.owner(&pod.metadata.namespace, &reference.clone()).await;
            walk.feed(fetched)?;
        }
        Ok(walk.finish())
    }

    async fn owner(&self, namespace: &str, reference: &OwnerReference) -> Fetched {
        let now = self.env.now();
        let lock = || self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        lock().retain(|_, (read, _)| now.since(*read) < OWNERS_LIVE);
        let gvk = Gvk::from_api_version(&reference.api_version, &reference.kind);
        let OwnerReference { name, uid, .. } = reference;
        let key = (namespace.to_owned(), gvk.clone(), name.clone(), uid.clone());
        if let Some((_, owner)) = lock().get(&key) {
            return Fetched::Object(Arc::clone(owner));
        }
        match self.read(&gvk, namespace, &reference.name).await {
            Ok(Some(owner)) => {
                let owner: Arc<Value> = Arc::new(owner);
                lock().insert(key, (now, Arc::clone(&owner)));
                self.forbidden.lock().unwrap_or_else(PoisonError::into_inner).remove(&gvk);
                Fetched::Object(owner)
            }
            Ok(None) => Fetched::Failed("not found".to_owned()),
            Err(Failure::Forbidden { .. }) => self.forbidden(gvk, now),
            Err(failure) => Fetched::Failed(failure.to_string()),
        }
    }

    /// A server that has just started knows of no rights: only what stays forbidden is.
    fn forbidden(&self, gvk: Gvk, now: Timestamp) -> Fetched {
        let mut all = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *all.entry(gvk).or_insert(now);
        if now.since(since) < FORBIDDEN_AFTER {
            return Fetched::Failed("it may not be read".to_owned());
        }
        Fetched::Forbidden
    }

    async fn learn(&self, facts: &mut Facts, need: Need) -> Outcome<()> {
        match need {
            Need::Object(key) => {
                let gvk = Gvk::from_api_version(&key.api_version, &key.kind);
                let ObjectKey { namespace, name, .. } = &key;
                let object = self.read(&gvk, namespace, name).await?;
                facts.objects.insert(key, object);
            }
            Need::Pods(query) => {
                let pods = self.pods(&query).await?;
                facts.pods.insert(query, pods);
            }
            Need::Kartas(gvk) => {
                let kartas = self.kartas(&gvk).await?;
                facts.kartas.insert(gvk, kartas);
            }
        }
        Ok(())
    }

    async fn pods(&self, query: &PodQuery) -> Outcome<Vec<Pod>> {
        let labels: Vec<String> =
            query.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods = Resource::PODS.collection(&query.namespace);
        let path = with_query(&pods, &[("labelSelector", &labels.join(","))]);
        let list: Option<List<Pod>> = self.writer.read(&path).await?;
        Ok(list.map(|list| list.items).unwrap_or_default())
    }

    /// None where the kind is not served or may not be read.
    async fn kartas(&self, gvk: &Gvk) -> Outcome<Vec<Value>> {
        let selector = format!(
            "{}={},{}={},{}={}",
            workload::KARTA_GROUP,
            gvk.group,
            workload::KARTA_VERSION,
            gvk.version,
            workload::KARTA_KIND,
            gvk.kind
        );
        let path = with_query("/apis/run.ai/v1alpha1/kartas", &[("labelSelector", &selector)]);
        match self.writer.read::<List<Value>>(&path).await {
            Err(Failure::Forbidden { .. }) => Ok(Vec::new()),
            ended => Ok(ended?.map(|list| list.items).unwrap_or_default()),
        }
    }

    /// An object of any kind; none where it does not exist.
    async fn read(&self, gvk: &Gvk, namespace: &str, name: &str) -> Outcome<Option<Value>> {
        let is_namespace = |text: &str| text.is_empty() || is_object_name(text);
        if !is_object_name(name) || !is_namespace(namespace) {
            return Ok(None);
        }
        let Some((resource, namespaced)) = self.kind(gvk).await? else { return Ok(None) };
        let api = if resource.group.is_empty() {
            format!("/api/{}", resource.version)
        } else {
            format!("/apis/{}/{}", resource.group, resource.version)
        };
        let namespace = if namespaced { namespace } else { "" };
        let name = ObjectName::new(namespace, name);
        let found = self.writer.read(&object_path(&api, &resource.plural, &name)).await?;
        if found.is_none() && gvk.version == SERVED_VERSION {
            // After an upgrade the API server may have the kind in another version.
            self.kinds.lock().unwrap_or_else(PoisonError::into_inner).remove(gvk);
        }
        Ok(found)
    }

    /// How a kind is served, and whether in namespaces; none where it is not.
    async fn kind(&self, gvk: &Gvk) -> Outcome<Option<(ApiResource, bool)>> {
        let lock = || self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(gvk) {
            return Ok(Some(known.clone()));
        }
        // Group and version of an owner reference are free text, and become segments of a path.
        let is_group = gvk.group.is_empty() || is_object_name(&gvk.group);
        if !is_group || !is_object_name(&gvk.version) {
            return Ok(None);
        }
        let (resource, capabilities) = match self.discover(gvk).await {
            Ok(Some(found)) => found,
            Ok(None) | Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = (resource, capabilities.scope == Scope::Namespaced);
        lock().insert(gvk.clone(), found.clone());
        Ok(Some(found))
    }
}

impl Grouper {
    /// Asks the API server how it serves a kind.
    async fn discover(&self, gvk: &Gvk) -> kube::Result<Option<(ApiResource, ApiCapabilities)>> {
        let client = self.writer.client();
        if gvk.version != SERVED_VERSION {
            let wanted = GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
            return pinned_kind(client, &wanted).await.map(Some);
        }
        let group = discovery::group(client, &gvk.group).await?;
        let mut served = group.resources_by_stability().into_iter();
        Ok(served.find(|(resource, _)| resource.kind == gvk.kind))
    }
}

/// A panic ends the attempt only: attempts share nothing that it could leave half changed.
async fn without_panics<T, E: Into<GroupError>>(
    attempt: impl Future<Output = Result<T, E>>,
) -> Result<T, GroupError> {
    match AssertUnwindSafe(attempt).catch_unwind().await {
        Ok(ended) => ended.map_err(Into::into),
        Err(_) => Err(GroupError::Panicked),
    }
}

/// Priority classes and preemptibility of kinds, from a config map.
pub async fn kind_defaults(client: &Client, place: &ObjectName) -> Result<KindDefaults, String> {
    let found: Option<Value> = read(client, &Resource::CONFIG_MAPS.object(place))
        .await
        .map_err(|failure| failure.to_string())?;
    let map = found.ok_or("it does not exist")?;
    let types = map["data"][objects::KIND_DEFAULTS_KEY].as_str();
    let types = types.ok_or_else(|| format!("it has no key {}", objects::KIND_DEFAULTS_KEY))?;
    KindDefaults::parse(types).map_err(|error| error.to_string())
}

/// What the author of a workload can set right. A class that is missing is missed by all: the log says so.
pub(crate) fn for_its_author(plan: &PodGroupPlan) -> Vec<String> {
    let is_theirs = |notice: &&Notice| !matches!(notice, Notice::PriorityClassMissing { .. });
    // A pod that is its own owner is read twice, with the same notices.
    let reported: BTreeSet<String> =
        plan.notices.iter().filter(is_theirs).map(ToString::to_string).collect();
    reported.into_iter().collect()
}

fn pod_name(pod: &Pod) -> ObjectName {
    ObjectName::new(pod.metadata.namespace.as_str(), pod.metadata.name.as_str())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{Failures, GroupError, without_panics};

    #[test]
    fn a_panic_while_grouping_ends_the_attempt_only() {
        let attempt = async {
            let owners: Vec<u8> = Vec::new();
            Ok::<u8, GroupError>(owners.iter().copied().max().expect("as the test wants"))
        };
        let ended = without_panics(attempt).now_or_never().expect("it ends at once");
        assert!(matches!(ended, Err(GroupError::Panicked)), "{ended:?}");
        let fine = without_panics(async { Ok::<u8, GroupError>(1) }).now_or_never();
        assert!(matches!(fine, Some(Ok(1))), "{fine:?}");
    }

    #[test]
    fn what_fails_twice_in_the_same_way_is_reported_once() {
        let mut failures = Failures::default();
        let reported =
            ["a", "b", "b", "b", "a", "a", "b", "b"].map(|why| failures.note(why.to_owned()));
        let reported: Vec<Option<&str>> = reported.iter().map(Option::as_deref).collect();
        assert_eq!(reported, [None, None, Some("b"), None, None, Some("a"), None, Some("b")]);
    }
}
