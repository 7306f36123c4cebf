//! Admission for the pods of a room. Its registrations are those of the whole cluster, so that one room has it at a time.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use crate::objects::pod;
use crate::room::Room;

/// The room has admission while this lives.
pub struct Admission {
    _turn: OwnedMutexGuard<()>,
}

/// Starts admission, waits until the API server asks it about pods of the room, and keeps others from starting theirs.
///
/// Nobody may be held up by a webhook that is gone: objects go through while nobody answers.
pub async fn start(room: &Room, arguments: &[&str]) -> anyhow::Result<Admission> {
    let turn = Arc::clone(&room.admission_turn).lock_owned().await;
    let port = kai_testenv::free_port()?;
    let (address, url) =
        (format!("--webhook-addr={port}"), format!("--webhook-url=https://127.0.0.1:{port}"));
    let own = [&address, &url, "--webhook-failure-on-create=ignore"];
    room.start_admission(&[&own, arguments].concat()).await?;
    let probes = [incomplete_pod(room), bad_pod(room), bad_group(room)];
    let asked = async || {
        for (path, object, told) in &probes {
            if !room.refused(path, object).await.is_ok_and(|text| text.contains(told)) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    room.until("the API server asks admission", asked).await?;
    Ok(Admission { _turn: turn })
}

/// An object that nobody but us would refuse: where it would be made, and what we say.
type Probe = (String, Value, &'static str);

/// A pod that cannot be completed.
fn incomplete_pod(room: &Room) -> Probe {
    let wants = pod("probe", "q").fraction("0.5").annotated("gpu-fraction-container-name", "none");
    (pods(room), room.pod_object(&wants), "failed to get fraction container ref")
}

/// A pod that can, and makes no sense.
fn bad_pod(room: &Room) -> Probe {
    let wants = pod("probe", "q").annotated("mps", "true");
    (pods(room), room.pod_object(&wants), "MPS is only supported with GPU fraction request")
}

fn pods(room: &Room) -> String {
    format!("/api/v1/namespaces/{}/pods?dryRun=All", room.name)
}

fn bad_group(room: &Room) -> Probe {
    let leaves = json!([{"name": "a", "parent": "nobody", "minMember": 1}]);
    let object = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "probe"}, "spec": {"subGroups": leaves}});
    let path = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", room.name);
    (format!("{path}?dryRun=All"), object, "parent nobody of a was not found")
}
