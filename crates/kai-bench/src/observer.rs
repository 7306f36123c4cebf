//! What a watch of pods shows, and when. One watch feeds the observer and the simulated kubelets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use futures::TryStreamExt;
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::objects::NAMESPACE;

const POLL: Duration = Duration::from_millis(5);
/// Pause before a watch that failed is started again.
const PAUSE: Duration = Duration::from_millis(100);
/// Annotation of the bookmark behind everything that existed at the start.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// What is read of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    resource_version: String,
    pub(crate) uid: String,
    pub(crate) deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) node_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) phase: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Clone, Debug, Default)]
struct ObservedPods {
    /// Receives the name of each pod that is shown for the first time, while a case asks for it.
    names_to: Option<UnboundedSender<String>>,
    shown: BTreeMap<String, Instant>,
    bound: BTreeMap<String, Instant>,
    unschedulable: BTreeMap<String, Instant>,
}

/// Times at which pods were observed as bound or unschedulable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observer(Arc<Mutex<ObservedPods>>);

impl Observer {
    /// Follows all pods until it is dropped with its runtime; every pod is passed to `kubelets` as well.
    pub(crate) fn start(client: Client, kubelets: UnboundedSender<Pod>) -> Self {
        let observer = Self::default();
        let own = observer.clone();
        tokio::spawn(async move {
            let mut version = None;
            loop {
                // The API server ends watches after some minutes, and at once where it cannot write events as fast as they occur. It is
                // not asked for all pods again then: thousands of events would delay those that the figures depend on.
                let followed = own.follow(&client, &kubelets, &mut version).await;
                if followed.is_err() {
                    version = None;
                }
                // The API server is gone once the cluster is dropped: asking again at once would keep a core busy.
                tokio::time::sleep(if followed.is_ok() { POLL } else { PAUSE }).await;
            }
        });
        observer
    }

    /// Follows all pods from this resource version, or shows those that exist first.
    async fn follow(
        &self,
        client: &Client,
        kubelets: &UnboundedSender<Pod>,
        version: &mut Option<String>,
    ) -> anyhow::Result<()> {
        let from = version.as_ref().map_or_else(
            || "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            |version| format!("resourceVersion={version}"),
        );
        let path =
            format!("/api/v1/pods?watch=true&timeoutSeconds=3000&allowWatchBookmarks=true&{from}");
        let request = http::Request::get(path).body(Vec::new())?;
        let events = client.request_events::<Pod>(request).await?;
        let mut events = std::pin::pin!(events);
        // Initial events come in any order: the bookmark at their end is the first version from which nothing is missed.
        let mut is_initial = version.is_none();
        while let Some(event) = events.try_next().await? {
            let latest = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    self.observe(&pod);
                    let latest = pod.metadata.resource_version.clone();
                    let _ = kubelets.send(pod);
                    latest
                }
                WatchEvent::Deleted(pod) => {
                    self.forget(&pod);
                    pod.metadata.resource_version
                }
                WatchEvent::Bookmark(bookmark) => {
                    is_initial &= !bookmark.metadata.annotations.contains_key(INITIAL_END);
                    bookmark.metadata.resource_version
                }
                WatchEvent::Error(error) => bail!("the watch of pods ended: {error:?}"),
            };
            if !is_initial {
                *version = Some(latest);
            }
        }
        Ok(())
    }

    fn observed(&self) -> MutexGuard<'_, ObservedPods> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observe(&self, pod: &Pod) {
        if pod.metadata.namespace != NAMESPACE {
            return;
        }
        let mut observed = self.observed();
        let name = &pod.metadata.name;
        if !observed.shown.contains_key(name) {
            observed.shown.insert(name.clone(), Instant::now());
            observed.names_to.as_ref().map(|names| names.send(name.clone()));
        }
        if pod.spec.node_name.is_some() && !observed.bound.contains_key(name) {
            observed.bound.insert(name.clone(), Instant::now());
        }
        let mut conditions = pod.status.conditions.iter();
        let waits = conditions.any(|one| one.kind == "PodScheduled" && one.status == "False");
        if waits && !observed.unschedulable.contains_key(name) {
            observed.unschedulable.insert(name.clone(), Instant::now());
        }
    }

    fn forget(&self, pod: &Pod) {
        if pod.metadata.namespace == NAMESPACE {
            let mut observed = self.observed();
            observed.shown.remove(&pod.metadata.name);
            observed.bound.remove(&pod.metadata.name);
            observed.unschedulable.remove(&pod.metadata.name);
        }
    }

    /// Names of pods that are shown from now on, until the receiver is dropped.
    pub(crate) fn follow_names(&self) -> UnboundedReceiver<String> {
        let (names_to, names) = unbounded_channel();
        self.observed().names_to = Some(names_to);
        names
    }

    /// When the watch first showed each pod.
    pub(crate) fn shown(&self) -> BTreeMap<String, Instant> {
        self.observed().shown.clone()
    }

    /// When each pod was bound.
    pub(crate) fn bound(&self) -> BTreeMap<String, Instant> {
        self.observed().bound.clone()
    }

    /// Number of pods with this prefix that are bound.
    pub(crate) fn count_bound(&self, prefix: &str) -> usize {
        self.observed().bound.keys().filter(|name| name.starts_with(prefix)).count()
    }

    /// Number of pods with this prefix that are unschedulable.
    pub(crate) fn count_unschedulable(&self, prefix: &str) -> usize {
        self.observed().unschedulable.keys().filter(|name| name.starts_with(prefix)).count()
    }

    /// When the last pod with this prefix became bound.
    pub(crate) fn last_bound(&self, prefix: &str) -> Option<Instant> {
        let observed = self.observed();
        observed.bound.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, at)| *at).max()
    }

    /// When the first pod with this prefix was shown as unschedulable.
    pub(crate) fn first_unschedulable(&self, prefix: &str) -> Option<Instant> {
        let observed = self.observed();
        let mut with_prefix =
            observed.unschedulable.iter().filter(|(name, _)| name.starts_with(prefix));
        with_prefix.next().map(|(_, at)| *at)
    }

    /// Waits until something is so.
    pub(crate) async fn until(
        &self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> anyhow::Result<()> {
        let begin = Instant::now();
        while !is_so(self) {
            if begin.elapsed() > patience {
                let bound = self.observed().bound.len();
                bail!(
                    "still waiting after {} s: {what}; {bound} pods are bound",
                    patience.as_secs()
                );
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
