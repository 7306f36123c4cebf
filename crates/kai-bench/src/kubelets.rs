//! Simulated kubelets: a pod that is bound runs, a pod that is deleted ends at once, a reservation pod names its device.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Semaphore, watch};

use crate::load::{JSON, MERGE_PATCH, send};
use crate::objects::RESERVATIONS;
use crate::observer::Pod;

/// Statuses that are written at once.
const STATUSES_AT_ONCE: usize = 16;
/// Reservation pods that name their device at once: each is on a node of its own, and waits for no status of another node.
const DEVICES_AT_ONCE: usize = 64;

/// The simulated kubelets, as the cases see them.
#[derive(Clone)]
pub(crate) struct Kubelets {
    /// Writes that were answered so far. They lag behind binds, so their number is counted, not assumed.
    writes: Arc<AtomicU64>,
    /// Whether pods that are deleted end.
    ends_pods: watch::Sender<bool>,
}

impl Kubelets {
    pub(crate) fn count_writes(&self) -> f64 {
        self.writes.load(Ordering::SeqCst) as f64
    }

    /// Pods that are deleted end, or stay until they may end.
    pub(crate) fn let_pods_end(&self, may_end: bool) {
        self.ends_pods.send_replace(may_end);
    }

    async fn send(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        kind: &'static str,
        body: &Value,
    ) {
        // Rejected writes count too: the API server counts them as well.
        let _ = send(client, method, path, kind, body).await;
        self.writes.fetch_add(1, Ordering::SeqCst);
    }
}

/// Plays the kubelets for every pod that comes.
pub(crate) fn start(client: Client, mut pods: UnboundedReceiver<Pod>) -> Kubelets {
    let kubelets = Kubelets { writes: Arc::default(), ends_pods: watch::Sender::new(true) };
    let shared = kubelets.clone();
    tokio::spawn(async move {
        let statuses = Arc::new(Semaphore::new(STATUSES_AT_ONCE));
        let devices = Arc::new(Semaphore::new(DEVICES_AT_ONCE));
        let (mut started, mut ended): (BTreeSet<String>, BTreeSet<String>) = Default::default();
        while let Some(pod) = pods.recv().await {
            if pod.spec.node_name.is_none() {
                continue;
            }
            let deleted = pod.metadata.deletion_timestamp.is_some();
            let handled = if deleted { &mut ended } else { &mut started };
            if !handled.insert(pod.metadata.uid.clone()) {
                continue;
            }
            if !deleted && pod.status.phase.as_deref() == Some("Running") {
                continue;
            }
            let (client, kubelets) = (client.clone(), shared.clone());
            let (statuses, devices) = (Arc::clone(&statuses), Arc::clone(&devices));
            tokio::spawn(async move {
                if !deleted && pod.metadata.namespace == RESERVATIONS {
                    let _permit = devices.acquire().await;
                    name_device(&client, &kubelets, &pod).await;
                }
                if deleted {
                    let _ = kubelets.ends_pods.subscribe().wait_for(|may_end| *may_end).await;
                }
                let _permit = statuses.acquire().await;
                if deleted {
                    end(&client, &kubelets, &pod).await;
                } else {
                    begin(&client, &kubelets, &pod).await;
                }
            });
        }
    });
    kubelets
}

fn path(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.metadata.namespace, pod.metadata.name)
}

async fn name_device(client: &Client, kubelets: &Kubelets, pod: &Pod) {
    let device = format!("GPU-{}", pod.metadata.uid);
    let patch = json!({"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": device}}});
    kubelets.send(client, "PATCH", &path(pod), MERGE_PATCH, &patch).await;
}

async fn begin(client: &Client, kubelets: &Kubelets, pod: &Pod) {
    let status: Value =
        json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
    kubelets.send(client, "PATCH", &format!("{}/status", path(pod)), MERGE_PATCH, &status).await;
}

async fn end(client: &Client, kubelets: &Kubelets, pod: &Pod) {
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}});
    kubelets.send(client, "DELETE", &path(pod), JSON, &options).await;
}
