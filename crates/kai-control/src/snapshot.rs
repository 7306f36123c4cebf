//! A snapshot of the cluster in KAI's form: listed from the API on request, without secrets and values of
//! environment variables.

use kai_client::kinds::Kind;
use kai_translate::device_versions::into_v1;
use kube::Client;
use serde_json::{Map, Value, json};

use crate::zip;

/// What a snapshot says beside the objects.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Actions, plugins and their arguments.
    pub config: Value,
    /// Everything else the scheduler was set up with.
    pub params: Value,
}

/// Takes a snapshot: an archive with `snapshot.json`.
pub async fn take(client: &Client, frame: Frame) -> Result<Vec<u8>, kube::Error> {
    let mut objects = Map::new();
    for (key, listed) in lists(client).await {
        objects.insert(key.to_owned(), listed?.into());
    }
    let snapshot = json!({
        "config": frame.config,
        "schedulerParams": frame.params,
        "rawObjects": objects,
        "discovery": discovery(client).await?,
    });
    let content = serde_json::to_vec(&snapshot).map_err(kube::Error::SerdeError)?;
    Ok(zip::archive(&[("snapshot.json", &content)]))
}

/// The objects of a snapshot by KAI's name of their list, or why they cannot be read.
pub async fn lists(client: &Client) -> Vec<(&'static str, Result<Vec<Value>, kube::Error>)> {
    let mut lists = Vec::new();
    for kind in Kind::ALL {
        if let Some(key) = key(kind) {
            lists.push((key, list(client, kind).await));
        }
    }
    lists
}

/// KAI's name of the list of a kind.
fn key(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Pod => "pods",
        Kind::Node => "nodes",
        Kind::Queue => "queues",
        Kind::PodGroup => "podGroups",
        Kind::BindRequest => "bindRequests",
        Kind::Topology => "topologies",
        Kind::PriorityClass => "priorityClasses",
        Kind::ConfigMap => "configMaps",
        Kind::PersistentVolumeClaim => "persistentVolumeClaims",
        Kind::PersistentVolume => "persistentVolumes",
        Kind::StorageClass => "storageClasses",
        Kind::CsiDriver => "csiDrivers",
        Kind::CsiStorageCapacity => "csiStorageCapacities",
        Kind::DeviceClass => "deviceClasses",
        Kind::ResourceSlice => "resourceSlices",
        Kind::ResourceClaim => "resourceClaims",
        Kind::NodeResourceTopology => "nodeResourceTopologies",
        Kind::PodDisruptionBudget
        | Kind::Namespace
        | Kind::RuntimeClass
        | Kind::ClusterPolicy
        | Kind::Config
        | Kind::SchedulingShard => return None,
    })
}

async fn list(client: &Client, kind: Kind) -> Result<Vec<Value>, kube::Error> {
    let mut listed = match get(client, kind.path()).await {
        Err(kube::Error::Api(status)) if status.code == 404 && kind.may_be_absent() => {
            return Ok(Vec::new());
        }
        listed => listed?,
    };
    let items = listed.get_mut("items").map(Value::take);
    let Some(Value::Array(items)) = items else { return Ok(Vec::new()) };
    Ok(items.into_iter().map(|object| redacted(kind, object)).collect())
}

/// What replays need to know of the server.
async fn discovery(client: &Client) -> Result<Value, kube::Error> {
    let mut resources = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    for kind in Kind::ALL {
        let Some((group, _)) = kind.path().rsplit_once('/') else { continue };
        if listed.contains(&group) {
            continue;
        }
        listed.push(group);
        match get(client, group).await {
            Ok(list) => resources.push(list),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(json!({"serverVersion": get(client, "/version").await?, "resources": resources}))
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Annotation that repeats a whole object as text.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The object without what only its owner should read.
fn redacted(kind: Kind, mut object: Value) -> Value {
    if kind.is_about_devices() {
        into_v1(&mut object);
    }
    if let Some(Value::Object(metadata)) = object.pointer_mut("/metadata") {
        metadata.remove("managedFields");
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(LAST_APPLIED);
        }
    }
    match kind {
        Kind::ConfigMap => {
            if let Some(map) = object.as_object_mut() {
                map.remove("data");
                map.remove("binaryData");
            }
        }
        Kind::Pod => {
            for list in ["containers", "initContainers", "ephemeralContainers"] {
                let containers = object.pointer_mut("/spec").and_then(|spec| spec.get_mut(list));
                let containers = containers.and_then(Value::as_array_mut);
                containers.into_iter().flatten().for_each(redact_container);
            }
        }
        _ => {}
    }
    object
}

/// Commands and probes may hold secrets as well as variables do; nothing here looks at them.
fn redact_container(container: &mut Value) {
    let Some(container) = container.as_object_mut() else { return };
    for field in ["command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"]
    {
        container.remove(field);
    }
    let variables = container.get_mut("env").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten().filter_map(Value::as_object_mut) {
        variable.remove("value");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_in_a_snapshot() {
        let secret = "hunter2";
        let pod = json!({
            "metadata": {"name": "p", "managedFields": [1], "annotations": {LAST_APPLIED: secret, "gpu-fraction": "0.5"}},
            "spec": {"containers": [{
                "name": "c",
                "command": ["run", secret],
                "env": [
                    {"name": "PASSWORD", "value": secret},
                    {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                ],
                "resources": {"requests": {"cpu": "1"}},
            }], "initContainers": [{"env": [{"name": "P", "value": secret}]}]},
        });
        let shown = redacted(Kind::Pod, pod);
        assert!(!shown.to_string().contains(secret), "{shown}");
        assert_eq!(shown["metadata"]["annotations"]["gpu-fraction"], "0.5");
        let container = &shown["spec"]["containers"][0];
        assert_eq!(container["env"][1]["valueFrom"]["configMapKeyRef"]["name"], "m");
        assert_eq!(container["resources"]["requests"]["cpu"], "1");
        let map =
            json!({"metadata": {"name": "m"}, "data": {"k": secret}, "binaryData": {"b": secret}});
        assert!(!redacted(Kind::ConfigMap, map).to_string().contains(secret));
    }
}
