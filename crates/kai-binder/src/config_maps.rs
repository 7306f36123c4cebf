//! Config maps of sharing pods. Their names come from an annotation that the pod's author may write, so that a map which
//! the pod does not own is neither changed nor deleted.

use kai_api::names::{env, gpu, legacy};
use kai_client::failure::Failure;
use kai_client::path::{Resource, is_object_name};
use kai_client::write::{Apply, Create, Delete, Outcome, Patch, Target, Write, Writer};
use kai_core::input::{ObjectName, Text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::sharing::ConfigMap;

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
    writer: &Writer,
    pod: &ObjectName,
    uid: &Text,
    map: &ConfigMap,
) -> Outcome<()> {
    let name = object_name(pod, &map.name)?;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": &*pod.name, "uid": &**uid});
    let object = |metadata: Value| {
        Box::new(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map.data,
        }))
    };
    let (named, namespace) = (&*name.name, &*name.namespace);
    let created = json!({"name": named, "namespace": namespace, "ownerReferences": [owner]});
    let create = Create::new(Resource::CONFIG_MAPS, &name.namespace, object(created));
    match writer.write(&Write::Create(Create { manager: Some(MANAGER), ..create })).await {
        Err(Failure::Conflict { .. }) => {}
        created => return created.map(|_| ()),
    }
    let Some(existing) = read(writer, &name).await? else {
        let reason = format!("config map {name} was deleted meanwhile");
        return Err(Failure::Conflict { reason });
    };
    if !existing.is_owned_by(uid) {
        let reason = format!(
            "config map {name} exists and is not owned by pod {}; annotation {} must name config maps of this pod only",
            pod.name,
            gpu::SHARED_CONFIG_MAP
        );
        return Err(Failure::Denied { reason });
    }
    let Metadata { uid, resource_version, .. } = &existing.metadata;
    let object = object(json!({
        "name": named, "namespace": namespace, "ownerReferences": [owner],
        "uid": uid, "resourceVersion": resource_version,
    }));
    let target = Target::of_uid(Resource::CONFIG_MAPS, &name, uid);
    let apply = Apply { resource: Resource::CONFIG_MAPS, name, manager: MANAGER, object };
    let answer = writer.write(&Write::Apply(apply)).await?;
    // Programs for an earlier release read the devices under another key.
    let devices = map.data.get(env::NVIDIA_VISIBLE_DEVICES);
    let known = answer["data"].get(legacy::VISIBLE_DEVICES);
    if let (Some(devices), Some(known)) = (devices, known)
        && known != devices.as_str()
    {
        let patch = Patch::object(json!({"data": {legacy::VISIBLE_DEVICES: devices}}));
        writer.write(&Write::Patch(target, patch)).await?;
    }
    Ok(())
}

/// Deletes a config map of a pod; one of another owner stays.
pub(super) async fn delete(
    writer: &Writer,
    pod: &ObjectName,
    uid: &Text,
    name: &str,
) -> Outcome<()> {
    let Ok(name) = object_name(pod, name) else { return Ok(()) };
    match read(writer, &name).await? {
        Some(existing) if existing.is_owned_by(uid) => {
            let target = Target::of_uid(Resource::CONFIG_MAPS, &name, &existing.metadata.uid);
            writer.write(&Write::Delete(target, Delete::default())).await.map(|_| ())
        }
        _ => Ok(()),
    }
}

fn object_name(pod: &ObjectName, name: &str) -> Outcome<ObjectName> {
    if !is_object_name(name) {
        let reason = format!("{name:?} cannot be the name of a config map");
        return Err(Failure::Denied { reason });
    }
    Ok(ObjectName { namespace: pod.namespace.clone(), name: name.into() })
}

async fn read(writer: &Writer, name: &ObjectName) -> Outcome<Option<Existing>> {
    writer.read(&Resource::CONFIG_MAPS.object(name)).await
}
