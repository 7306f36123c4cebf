//! The pod that this process runs in: its annotations are read and written.

use std::collections::BTreeMap;

use kai_core::input::ObjectName;
use kai_core::time::Span;
use kai_translate::time::seconds;
use kai_translate::view;
use kube::Client;
use serde_json::{Value, json};

use crate::env::Env;
use crate::failure::Failure;
use crate::request::{MERGE_PATCH, object_path, send};
use crate::write::Outcome;

/// How often a request is tried that may succeed later, a second apart: the network of a pod may come after the pod.
const TRIES: u32 = 10;
const PAUSE: Span = seconds(1);

/// The pod that this process runs in, as it was found.
pub struct OwnPod {
    client: Client,
    env: Env,
    path: String,
    uid: String,
    annotations: BTreeMap<String, String>,
}

impl OwnPod {
    /// Reads the pod of this name.
    pub async fn find(client: Client, env: Env, name: &ObjectName) -> Outcome<Self> {
        let path = object_path("/api/v1", "pods", name);
        let (uid, annotations) = Default::default();
        let mut own = Self { client, env, path, uid, annotations };
        let pod = own.request("GET", None).await?;
        (own.uid, own.annotations) = (pod.metadata.uid, pod.metadata.annotations);
        Ok(own)
    }

    /// Annotations of the pod when it was read.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// Sets annotations; a later pod of the name stays as it is.
    pub async fn annotate(&self, annotations: &BTreeMap<&'static str, String>) -> Outcome<()> {
        let patch = json!({"metadata": {"uid": self.uid, "annotations": annotations}});
        self.request("PATCH", Some(&patch)).await.map(|_| ())
    }

    async fn request(&self, method: &str, patch: Option<&Value>) -> Outcome<view::Pod> {
        let mut tries = 1;
        loop {
            match send(&self.client, method, &self.path, Some(MERGE_PATCH), &patch).await {
                Err(failure) if tries < TRIES && may_pass(&failure) => {
                    tracing::warn!(%failure, tries, "trying again");
                    tries += 1;
                    self.env.sleep(PAUSE).await;
                }
                ended => return ended,
            }
        }
    }
}

fn may_pass(failure: &Failure) -> bool {
    failure.may_pass() && !matches!(failure, Failure::Conflict { .. } | Failure::Unauthenticated)
}
