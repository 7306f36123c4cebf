//! The agent of a node: writes to each pod which NUMA zones its exclusive cores, devices and memory come from.
//!
//! The kubelet is asked for what it gave to containers, the kernel for which zone a core is in. The answer is written on the
//! pod as `kai.scheduler/numa-placement-observed`, in the notation of what was predicted; the planner counts it before all
//! else. What no longer holds is removed.
//!
//! | module | subject |
//! |---|---|
//! | [`zones`] | cores and their zones, from `/sys` |
//! | [`placement`] | what stands on a pod |

pub mod placement;
pub mod zones;

use std::collections::BTreeMap;
use std::future::Future;

use kai_api::names::scheduling::NUMA_OBSERVED;
use kai_api::view::Pod;
use kai_client::env::Env;
use kai_client::failure::Failure;
use kai_client::path::{Resource, with_query};
use kai_client::request::{MERGE_PATCH, object_path, send};
use kai_client::write::{Outcome, read};
use kai_core::input::ObjectName;
use kai_core::time::{Span, Timestamp};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kubelet::pod_resources;
use pod_resources::Kubelet;
use zones::Zones;

/// How the agent works.
#[derive(Clone, Debug)]
pub struct NumaAgentSettings {
    /// The node it runs on.
    pub node: String,
    /// How often the kubelet is asked.
    pub poll: Span,
    /// How often all pods of the node are looked at; none: never.
    pub resync: Option<Span>,
}

/// What stands on pods, as far as we wrote or saw it; none: nothing of ours.
type Written = BTreeMap<ObjectName, Option<String>>;

struct Agent<K> {
    client: Client,
    kubelet: K,
    settings: NumaAgentSettings,
    zones: Zones,
    written: Written,
    /// The last trouble that was logged, so that it is not logged again.
    trouble: Option<String>,
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

/// Works until `shutdown` is done.
pub async fn run(
    client: Client,
    env: Env,
    kubelet: impl Kubelet,
    settings: NumaAgentSettings,
    zones: Zones,
    shutdown: impl Future<Output = ()> + Send,
) {
    let work = async {
        let written = Written::new();
        let mut agent = Agent { client, kubelet, settings, zones, written, trouble: None };
        let mut resynced: Option<Timestamp> = None;
        loop {
            let now = env.now();
            let due = |span: &Span| resynced.is_none_or(|last| now.since(last) >= *span);
            if agent.settings.resync.as_ref().is_some_and(due) && agent.look_at_pods().await {
                resynced = Some(now);
            }
            agent.look_at_kubelet(&env).await;
            env.sleep(agent.settings.poll).await;
        }
    };
    tokio::select! { biased;
        () = shutdown => {}
        () = work => {}
    }
}

impl<K: Kubelet> Agent<K> {
    /// Asks the kubelet and writes what differs.
    async fn look_at_kubelet(&mut self, env: &Env) {
        let listed = match self.kubelet.list(env).await {
            Ok(listed) => listed,
            Err(error) => return self.log_once(&format!("the kubelet does not answer: {error}")),
        };
        self.trouble = None;
        let wanted: Written = listed
            .iter()
            .map(|pod| {
                let name = ObjectName::new(pod.namespace.as_str(), pod.name.as_str());
                (name, placement::annotation(pod, &self.zones))
            })
            .collect();
        self.written.retain(|name, _| wanted.contains_key(name));
        for (name, text) in wanted {
            if self.written.get(&name).unwrap_or(&None) != &text {
                self.publish(name, text).await;
            }
        }
    }

    /// Writes what stands on a pod, unless it stands there; what fails is tried again at the next look.
    async fn publish(&mut self, name: ObjectName, text: Option<String>) {
        let path = object_path("/api/v1", "pods", &name);
        match self.write(&path, text.as_deref()).await {
            Ok(()) => {
                tracing::info!(pod = %name, zones = text.as_deref().unwrap_or("none"), "wrote the zones of a pod");
                self.written.insert(name, text);
            }
            Err(Failure::Gone { .. }) => {}
            Err(failure) => self.log_once(&format!("{name}: {failure}")),
        }
    }

    async fn write(&self, path: &str, text: Option<&str>) -> Outcome<()> {
        let Some(pod) = read::<Pod>(&self.client, path).await? else { return Ok(()) };
        // A pod of this name may have moved on: what we know is about one on our node.
        let is_ours = pod.spec.node_name.as_deref() == Some(self.settings.node.as_str());
        if !is_ours || pod.annotation(NUMA_OBSERVED) == text {
            return Ok(());
        }
        let metadata = json!({"uid": pod.metadata.uid, "annotations": {NUMA_OBSERVED: text}});
        let patch = json!({"metadata": metadata});
        let _: Value = send(&self.client, "PATCH", path, Some(MERGE_PATCH), &patch).await?;
        Ok(())
    }

    /// Takes over what stands on the pods of the node, from any writer; false: it could not be read.
    async fn look_at_pods(&mut self) -> bool {
        let selector = format!("spec.nodeName={}", self.settings.node);
        let path = with_query(&Resource::PODS.collection(""), &[("fieldSelector", &selector)]);
        match read::<Pods>(&self.client, &path).await {
            Ok(listed) => {
                let standing = |pod: &Pod| {
                    let metadata = &pod.metadata;
                    let name = ObjectName::new(metadata.namespace.as_str(), metadata.name.as_str());
                    (name, pod.annotation(NUMA_OBSERVED).map(str::to_owned))
                };
                let pods = listed.iter().flat_map(|listed| &listed.items);
                self.written = pods.map(standing).collect();
                true
            }
            Err(failure) => {
                self.log_once(&format!("pods cannot be listed: {failure}"));
                false
            }
        }
    }

    /// Logs a problem when it is new.
    fn log_once(&mut self, trouble: &str) {
        if self.trouble.as_deref() != Some(trouble) {
            tracing::warn!("{trouble}");
            self.trouble = Some(trouble.to_owned());
        }
    }
}
