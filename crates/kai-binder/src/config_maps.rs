//! Config maps of sharing pods. Their names come from an annotation that the pod's author may write, so that a map which
//! the pod does not own is neither changed nor deleted.

use kai_api::names::{env, gpu, legacy};
use kai_client::request::{
    APPLY_PATCH, MERGE_PATCH, is_object_name, object_path, path_segment, send,
};
use kai_core::input::{ObjectName, Text};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::sharing::ConfigMap;
use super::writes::{self, Failure, FailureKind, Grace};

/// The name under which config maps are written.
const MANAGER: &str = "kai-binder";

/// A config map of the cluster, as far as its owner matters.
#[derive(Deserialize)]
struct Existing {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    uid: String,
}

impl Existing {
    fn is_owned_by(&self, uid: &str) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.uid == uid)
    }
}

/// Writes a config map of a pod. Most are new: creating one costs the API server less than applying it.
pub(super) async fn apply(
    client: &Client,
    pod: &ObjectName,
    uid: &Text,
    map: &ConfigMap,
) -> Result<(), Failure> {
    let path = path(pod, &map.name)?;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": &*pod.name, "uid": &**uid});
    let (name, namespace) = (&map.name, &*pod.namespace);
    let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map.data});
    let created = json!({"name": name, "namespace": namespace, "ownerReferences": [owner]});
    let maps = format!(
        "/api/v1/namespaces/{}/configmaps?fieldManager={MANAGER}",
        path_segment(&pod.namespace)
    );
    match send::<Value>(client, "POST", &maps, None, &object(created)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => return created.map(|_| ()).map_err(Failure::from),
    }
    let Some(existing) = read(client, &path).await? else {
        let reason = format!("config map {namespace}/{name} was deleted meanwhile");
        return Err(Failure { reason, kind: FailureKind::MayPass });
    };
    if !existing.is_owned_by(uid) {
        let reason = format!(
            "config map {namespace}/{name} exists and is not owned by pod {}; annotation {} must name config maps of this pod only",
            pod.name,
            gpu::SHARED_CONFIG_MAP
        );
        return Err(Failure { reason, kind: FailureKind::Refused });
    }
    let Metadata { uid, resource_version, .. } = &existing.metadata;
    let object = object(json!({
        "name": name, "namespace": namespace, "ownerReferences": [owner],
        "uid": uid, "resourceVersion": resource_version,
    }));
    let applied = format!("{path}?fieldManager={MANAGER}&force=true");
    let answer: Value = send(client, "PATCH", &applied, Some(APPLY_PATCH), &object).await?;
    // Whoever made the map for an earlier release reads the devices under another key.
    let devices = map.data.get(env::NVIDIA_VISIBLE_DEVICES);
    let known = answer["data"].get(legacy::VISIBLE_DEVICES);
    if let (Some(devices), Some(known)) = (devices, known)
        && known != devices.as_str()
    {
        let patch = json!({"data": {legacy::VISIBLE_DEVICES: devices}});
        let _: Value = send(client, "PATCH", &path, Some(MERGE_PATCH), &patch).await?;
    }
    Ok(())
}

/// Deletes a config map of a pod; one of another owner stays.
pub(super) async fn delete(
    client: &Client,
    pod: &ObjectName,
    uid: &Text,
    name: &str,
) -> Result<(), Failure> {
    let Ok(path) = path(pod, name) else { return Ok(()) };
    match read(client, &path).await? {
        Some(existing) if existing.is_owned_by(uid) => {
            writes::delete(client, &path, &existing.metadata.uid.into(), Grace::AsUsual).await
        }
        _ => Ok(()),
    }
}

fn path(pod: &ObjectName, name: &str) -> Result<String, Failure> {
    if !is_object_name(name) {
        let reason = format!("{name:?} cannot be the name of a config map");
        return Err(Failure { reason, kind: FailureKind::Refused });
    }
    let map = ObjectName { namespace: pod.namespace.clone(), name: name.into() };
    Ok(object_path("/api/v1", "configmaps", &map))
}

async fn read(client: &Client, path: &str) -> Result<Option<Existing>, Failure> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Existing>(request).await {
        Ok(existing) => Ok(Some(existing)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}
