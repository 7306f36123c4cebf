//! Config maps of sharing pods. Their names come from an annotation that the pod's author may write, so that a map which
//! the pod does not own is neither changed nor deleted.

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kai_api::names::{env, gpu, legacy};
use kai_client::failure::Failure;
use kai_client::path::{Resource, is_object_name};
use kai_client::write::{
    Apply, Create, Delete, Outcome, Patch, Target, Write, Writer, named, owned_by_pod,
};
use kai_core::input::{ObjectName, Text};
use serde::Deserialize;
use serde_json::Value;

use super::sharing::ConfigMap;

/// The name under which config maps are written.
const MANAGER: &str = "kai-binder";

/// A config map or a pod, as far as its identity and its owners matter.
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
#[serde(rename_all = "camelCase")]
struct Owner {
    #[serde(default)]
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

impl Existing {
    fn is_owned_by(&self, uid: &str) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.uid == uid)
    }

    /// Only other pods of this name own it, such as earlier ones of a `StatefulSet` whose config maps the garbage collector has not removed yet.
    fn is_of_other_pods(&self, name: &str, uid: &str) -> bool {
        let owners = &self.metadata.owner_references;
        let is_other = |owner: &Owner| {
            let is_pod = owner.api_version == "v1" && owner.kind == "Pod";
            is_pod && owner.name == name && owner.uid != uid
        };
        !owners.is_empty() && owners.iter().all(is_other)
    }

    fn delete(&self, name: &ObjectName) -> Write {
        let target = Target::of_uid(Resource::CONFIG_MAPS, name, &self.metadata.uid);
        Write::Delete(target, Delete::default())
    }
}

async fn create(writer: &Writer, object: &api::ConfigMap) -> Outcome<()> {
    let create = Create { manager: Some(MANAGER), ..Create::new(object) };
    writer.write(&Write::Create(create)).await
}

/// Writes a config map of a pod. Most are new: creating one costs the API server less than applying it.
pub(super) async fn apply(
    writer: &Writer,
    pod: &ObjectName,
    uid: &Text,
    map: &ConfigMap,
) -> Outcome<()> {
    let name = object_name(pod, &map.name)?;
    let object = api::ConfigMap {
        metadata: ObjectMeta {
            owner_references: Some(vec![owned_by_pod(pod, uid)]),
            ..named(&name)
        },
        data: Some(map.data.iter().map(|(key, text)| ((*key).to_owned(), text.clone())).collect()),
        ..api::ConfigMap::default()
    };
    match create(writer, &object).await {
        Err(Failure::Conflict { .. }) => {}
        created => return created,
    }
    let path = Resource::CONFIG_MAPS.object(&name);
    let Some(existing) = read(writer, &path).await? else {
        let reason = format!("config map {name} was deleted meanwhile");
        return Err(Failure::Conflict { reason });
    };
    if existing.is_of_other_pods(&pod.name, uid) {
        // Read after the config map: while the pod is the one that has the name, other owners are earlier ones, and gone.
        let current = read(writer, &Resource::PODS.object(pod)).await?;
        if current.is_none_or(|current| current.metadata.uid.as_str() != &**uid) {
            return Err(Failure::Gone { reason: format!("pod {pod} was replaced") });
        }
        // With another owner it would keep the UID by which the garbage collector may be about to delete it.
        writer.write(&existing.delete(&name)).await?;
        return create(writer, &object).await;
    }
    if !existing.is_owned_by(uid) {
        let reason = format!(
            "config map {name} exists and is not owned by pod {}; annotation {} must name config maps of this pod only",
            pod.name,
            gpu::SHARED_CONFIG_MAP
        );
        return Err(Failure::Denied { reason });
    }
    update(writer, &name, existing, object).await
}

/// Gives a config map that the pod owns the data of this object.
async fn update(
    writer: &Writer,
    name: &ObjectName,
    existing: Existing,
    mut object: api::ConfigMap,
) -> Outcome<()> {
    let Metadata { uid, resource_version, .. } = existing.metadata;
    let target = Target::of_uid(Resource::CONFIG_MAPS, name, &uid);
    object.metadata.uid = Some(uid);
    object.metadata.resource_version = Some(resource_version);
    let answer: Value = writer.write_as(&Write::Apply(Apply::new(&object, MANAGER))).await?;
    // Programs for an earlier release read the devices under another key.
    let devices = object.data.as_ref().and_then(|data| data.get(env::NVIDIA_VISIBLE_DEVICES));
    let known = answer["data"].get(legacy::VISIBLE_DEVICES);
    if let (Some(devices), Some(known)) = (devices, known)
        && known != devices.as_str()
    {
        let patch = Patch::data(legacy::VISIBLE_DEVICES, devices.clone());
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
    match read(writer, &Resource::CONFIG_MAPS.object(&name)).await? {
        Some(existing) if existing.is_owned_by(uid) => writer.write(&existing.delete(&name)).await,
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

async fn read(writer: &Writer, path: &str) -> Outcome<Option<Existing>> {
    writer.read(path).await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use http::{Response, StatusCode};
    use kai_client::env::Env;
    use kai_client::write::Limits;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A writer whose API server has a config map of another pod and this UID under the name of the pod, and the methods that it receives.
    fn writer(current: &'static str) -> (Writer, Arc<Mutex<Vec<String>>>) {
        let received: Arc<Mutex<Vec<String>>> = Arc::default();
        let methods = Arc::clone(&received);
        let server = tower::service_fn(move |request: http::Request<Body>| {
            let method = request.method().to_string();
            let is_pod = request.uri().path().contains("/pods/");
            let is_first_create =
                method == "POST" && !methods.lock().expect("a list").contains(&method);
            methods.lock().expect("a list").push(method);
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "other"});
            let (code, body) = match (is_first_create, is_pod) {
                (true, _) => (409, json!({"status": "Failure", "code": 409, "message": "exists"})),
                (_, true) => (200, json!({"metadata": {"uid": current, "resourceVersion": "1"}})),
                _ => (
                    200,
                    json!({"metadata": {"uid": "m", "resourceVersion": "1", "ownerReferences": [owner]}}),
                ),
            };
            let status = StatusCode::from_u16(code).expect("a code");
            let body = Body::from(body.to_string().into_bytes());
            async move { Response::builder().status(status).body(body).map_err(tower::BoxError::from) }
        });
        let client = Client::new(server, "default");
        (Writer::new(client, Env::real(), Limits::default()), received)
    }

    async fn apply_to(current: &'static str) -> (Outcome<()>, Vec<String>) {
        let (writer, received) = writer(current);
        let map = ConfigMap { name: "p-shared-gpu-0".to_owned(), data: BTreeMap::new() };
        let outcome = apply(&writer, &ObjectName::new("team", "p"), &"u".into(), &map).await;
        let methods = received.lock().expect("a list").clone();
        (outcome, methods)
    }

    #[tokio::test]
    async fn config_map_of_an_earlier_pod_is_replaced() {
        let (outcome, methods) = apply_to("u").await;
        assert_eq!(outcome, Ok(()));
        assert_eq!(methods, ["POST", "GET", "GET", "DELETE", "POST"]);
    }

    #[tokio::test]
    async fn config_map_of_the_pod_that_replaced_this_one_stays() {
        let (outcome, methods) = apply_to("other").await;
        assert!(matches!(outcome, Err(Failure::Gone { .. })), "{outcome:?}");
        assert_eq!(methods, ["POST", "GET", "GET"]);
    }
}
