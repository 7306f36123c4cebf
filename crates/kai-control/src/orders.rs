//! Orders: what a plan asks to be written, and how each is written.

use std::collections::BTreeMap;

use kai_client::request::{
    EvictBy, MERGE_PATCH, STRATEGIC_PATCH, bind, evict, missing_is_fine, object_path, path_segment,
    send,
};
use kai_core::input::{ObjectName, Text};
use kai_core::time::Span;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use crate::usage::Usages;
use crate::usage::store::{self, Place};

/// Something to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Bind a pod that needs nothing but a node.
    Bind(Bind),
    /// Ask for a bind that takes several steps.
    RequestBind(ObjectName, Box<Value>),
    /// Remove a bind request of this UID, which failed for good.
    DropBindRequest(ObjectName, Text),
    /// Evict a pod by these means.
    Evict(EvictBy, Victim),
    /// Set or remove annotations of a pod group.
    MarkGroup(ObjectName, BTreeMap<&'static str, Option<String>>),
    /// Find out to which group a pod belongs.
    Group(Box<kai_api::view::Pod>),
    /// Write the record of past usage.
    StoreUsage(Place, String),
    /// Write a pod group and link the pod to it.
    Publish(Box<kai_api::view::Pod>, Box<kai_workloads::PodGroupPlan>),
}

/// A pod and its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// The pod.
    pub pod: ObjectName,
    /// Its UID, so that another pod of the name is left alone.
    pub uid: Text,
    /// The node.
    pub node: Text,
    /// Annotations that the pod gets in the same write.
    pub annotations: BTreeMap<&'static str, String>,
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Victim {
    /// The pod.
    pub pod: ObjectName,
    /// Its UID, so that another pod of the name is left alone.
    pub uid: Text,
    /// Why, in KAI's words.
    pub message: Text,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The pod was bound.
    Bound(ObjectName),
    /// The bind of the pod was asked for.
    BindAsked(ObjectName),
    /// The pod was not bound.
    BindFailed {
        /// The pod.
        pod: ObjectName,
        /// The node.
        node: Text,
        /// Why.
        error: String,
    },
    /// The failed bind request of this UID could not be removed.
    BindRequestStays(Text),
    /// The API server accepted the eviction of the pod, or the pod is gone.
    Evicted(ObjectName),
    /// The API server refused the eviction of a pod.
    EvictionRefused {
        /// The pod.
        victim: ObjectName,
        /// Why.
        error: String,
    },
    /// The group of a pod is known.
    Grouped(Box<crate::grouper::Grouped>),
    /// The group of a pod was looked for in vain, and is looked for again.
    NotGrouped {
        /// The pod.
        pod: ObjectName,
        /// Its UID.
        uid: Text,
        /// Why.
        why: String,
    },
    /// Past usage of queues, and how long it took to learn it.
    Usage {
        /// Shares of what there was.
        usages: Usages,
        /// How long the answer took.
        latency: Span,
    },
    /// What an earlier process recorded, where there was one.
    UsageLoaded(Option<String>),
    /// Something was told, or not.
    Told(crate::status::write::Ended),
}

/// Carries an order out and reports. Orders of the grouper are carried out by it.
pub async fn carry_out(client: Client, order: Order, reports: Sender<Report>) {
    match order {
        Order::Bind(bind) => {
            let _ = reports.send(post_binding(&client, bind).await).await;
        }
        Order::RequestBind(pod, request) => {
            let _ = reports.send(post_bind_request(&client, pod, &request).await).await;
        }
        Order::DropBindRequest(name, uid) => {
            let path = object_path("/apis/scheduling.run.ai/v1alpha2", "bindrequests", &name);
            let options = json!({"preconditions": {"uid": &*uid}});
            let ended: Result<Value, _> = send(&client, "DELETE", &path, None, &options).await;
            match ended.or_else(missing_is_fine) {
                Ok(_) => tracing::info!(request = %name, "removed a failed bind request"),
                Err(error) => {
                    tracing::warn!(request = %name, %error, "failed to remove a failed bind request");
                    let _ = reports.send(Report::BindRequestStays(uid)).await;
                }
            }
        }
        Order::Evict(by, victim) => {
            let _ = reports.send(evict_victim(&client, by, victim).await).await;
        }
        Order::MarkGroup(group, annotations) => {
            let path = object_path("/apis/scheduling.run.ai/v2alpha2", "podgroups", &group);
            let patch = json!({"metadata": {"annotations": annotations}});
            let ended: Result<Value, _> =
                send(&client, "PATCH", &path, Some(MERGE_PATCH), &patch).await;
            match ended.or_else(missing_is_fine) {
                Ok(_) => tracing::info!(%group, ?annotations, "marked"),
                Err(error) => tracing::warn!(%group, %error, "a pod group was not marked"),
            }
        }
        Order::StoreUsage(place, text) => store::save(&client, &place, &text).await,
        Order::Group(_) | Order::Publish(..) => {}
    }
}

async fn post_binding(client: &Client, order: Bind) -> Report {
    let Bind { pod, uid, node, annotations } = order;
    match bind(client, &pod, &uid, &node, &annotations).await {
        Ok(()) => {
            tracing::info!(%pod, %node, "bound");
            Report::Bound(pod)
        }
        Err(error) => Report::BindFailed { pod, node, error: error.to_string() },
    }
}

async fn post_bind_request(client: &Client, pod: ObjectName, request: &Value) -> Report {
    let path = format!(
        "/apis/scheduling.run.ai/v1alpha2/namespaces/{}/bindrequests",
        path_segment(&pod.namespace)
    );
    match send::<Value>(client, "POST", &path, None, request).await {
        Ok(_) => {
            tracing::info!(%pod, "asked for a bind");
            Report::BindAsked(pod)
        }
        Err(error) => {
            let node = request["spec"]["selectedNode"].as_str().unwrap_or_default().into();
            Report::BindFailed { pod, node, error: error.to_string() }
        }
    }
}

/// Writes the condition that says why a victim is evicted. The victim is evicted even if that fails.
async fn mark_victim(client: &Client, victim: &Victim) {
    let path = format!("{}/status", object_path("/api/v1", "pods", &victim.pod));
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": &*victim.message,
    });
    let patch = json!({"metadata": {"uid": &*victim.uid}, "status": {"conditions": [condition]}});
    let written = send::<Value>(client, "PATCH", &path, Some(STRATEGIC_PATCH), &patch).await;
    if let Err(error) = written.or_else(missing_is_fine) {
        tracing::warn!(pod = %victim.pod, %error, "failed to write the condition DisruptionTarget of a victim");
    }
}

async fn evict_victim(client: &Client, by: EvictBy, victim: Victim) -> Report {
    if by == EvictBy::MarkedDelete {
        mark_victim(client, &victim).await;
    }
    match evict(client, by, &victim.pod, &victim.uid).await {
        Ok(()) => {
            tracing::info!(pod = %victim.pod, "evicted pod");
            Report::Evicted(victim.pod)
        }
        Err(error) => Report::EvictionRefused { victim: victim.pod, error: error.to_string() },
    }
}
