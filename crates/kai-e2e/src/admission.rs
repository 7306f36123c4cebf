//! Admission for the pods of a test space. Webhooks are registered for the whole cluster, so that one test space has admission at a time.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use crate::objects::pod;
use crate::test_space::TestSpace;

/// The test space has admission while this lives.
pub struct Admission {
    _turn: OwnedMutexGuard<()>,
}

/// Starts admission, waits until the API server asks it about pods of the test space, and keeps others from starting theirs.
///
/// Objects are admitted while no webhook answers, so that a webhook that is gone delays no other case.
pub async fn start(space: &TestSpace, arguments: &[&str]) -> anyhow::Result<Admission> {
    let turn = Arc::clone(&space.admission_turn).lock_owned().await;
    let port = kai_testenv::free_port()?;
    let (address, url) =
        (format!("--webhook-addr={port}"), format!("--webhook-url=https://127.0.0.1:{port}"));
    let own = [&address, &url, "--webhook-failure-on-create=ignore"];
    space.start_admission(&[&own, arguments].concat()).await?;
    let probes = [incomplete_pod(space), bad_pod(space), bad_group(space)];
    let is_called = async || {
        for (path, object, reason) in &probes {
            if !space.denied(path, object).await.is_ok_and(|text| text.contains(reason)) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    space.until("the API server asks admission", is_called).await?;
    Ok(Admission { _turn: turn })
}

/// An object that only our webhook denies: the path to create it at, and the reason of the denial.
type Probe = (String, Value, &'static str);

/// A pod that cannot be completed.
fn incomplete_pod(space: &TestSpace) -> Probe {
    let wants = pod("probe", "q").fraction("0.5").annotated("gpu-fraction-container-name", "none");
    (pods(space), space.pod_object(&wants), "failed to get fraction container ref")
}

/// A pod with MPS but without a GPU fraction, which the webhook denies.
fn bad_pod(space: &TestSpace) -> Probe {
    let wants = pod("probe", "q").annotated("mps", "true");
    (pods(space), space.pod_object(&wants), "MPS is only supported with GPU fraction request")
}

fn pods(space: &TestSpace) -> String {
    format!("/api/v1/namespaces/{}/pods?dryRun=All", space.name)
}

fn bad_group(space: &TestSpace) -> Probe {
    let leaves = json!([{"name": "a", "parent": "absent", "minMember": 1}]);
    let object = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "probe"}, "spec": {"subGroups": leaves}});
    let path = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", space.name);
    (format!("{path}?dryRun=All"), object, "parent absent of a was not found")
}
