//! What a new version brings to the cluster when it starts: its definitions of custom resources, and the default queues
//! where they are missing. An installation is one `kubectl apply` or one `helm install`, and an upgrade needs no Job.

use kai_api::crds::CRDS;
use kai_api::names::components::SCHEDULER;
use kai_client::env::Env;
use kai_client::failure::Failure;
use kai_client::path::{Resource, object_path, with_query};
use kai_client::request::{APPLY_PATCH, send};
use kai_client::write::{Outcome, read};
use kai_core::input::ObjectName;
use kai_core::time::Span;
use kai_translate::time::seconds;
use kube::Client;
use serde_json::Value;

/// The name under which definitions are written: that of `kubectl apply --server-side`, so that applying the manifests of a
/// newer version by hand meets no conflict.
const MANAGER: &str = "kubectl";
const FIRST_RETRY: Span = seconds(1);
const LONGEST_RETRY: Span = seconds(60);

/// What is brought to the cluster.
#[derive(Clone, Debug, Default)]
pub struct Bootstrap {
    /// Apply the custom resource definitions of this version.
    pub upgrade_crds: bool,
    /// Namespace of the Deployment that this process may be part of.
    pub namespace: String,
    /// Image of this process; none: it is not known, and the process is not part of a Deployment.
    pub image: Option<String>,
    /// Queues to create where they are missing; existing ones are never changed.
    pub queues: Vec<Value>,
}

/// Queues of a YAML file.
pub fn read_queues(text: &str) -> Result<Vec<Value>, String> {
    let queues: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    match queues.iter().find(|queue| queue["kind"] != "Queue") {
        Some(other) => Err(format!("{} is not a Queue", other["kind"])),
        None => Ok(queues),
    }
}

/// Applies definitions, then creates queues. What fails is retried: an account may get its rights, and a webhook its
/// server, only after this process has started.
pub async fn run(client: Client, env: Env, bootstrap: Bootstrap) {
    let mut pause = Pause::default();
    while let Err(error) = upgrade_definitions(&client, &bootstrap).await {
        tracing::warn!(%error, "custom resource definitions are not applied yet, retrying");
        pause.wait(&env).await;
    }
    for queue in bootstrap.queues {
        let mut pause = Pause::default();
        while let Err(error) = create_queue(&client, &queue).await {
            let name = queue["metadata"]["name"].as_str().unwrap_or_default();
            tracing::warn!(queue = name, %error, "default queue is not created yet, retrying");
            pause.wait(&env).await;
        }
    }
}

/// Time between attempts; it doubles up to a limit.
struct Pause(Span);

impl Default for Pause {
    fn default() -> Self {
        Self(FIRST_RETRY)
    }
}

impl Pause {
    async fn wait(&mut self, env: &Env) {
        env.sleep(self.0).await;
        let doubled = self.0.nanos.saturating_mul(2);
        self.0 = Span { nanos: doubled.min(LONGEST_RETRY.nanos) };
    }
}

async fn upgrade_definitions(client: &Client, bootstrap: &Bootstrap) -> Outcome<()> {
    if !bootstrap.upgrade_crds {
        return Ok(());
    }
    if let Some(next) = next_image(client, bootstrap).await? {
        tracing::info!(next, "a roll-out replaces this process: its definitions are not applied");
        return Ok(());
    }
    apply_definitions(client).await
}

/// The image of the version that replaces this process; none: the Deployment asks for the image of this process. A replica
/// that restarts in the middle of a roll-out must not put older definitions back, and after `helm rollback` the older version
/// is the one that the Deployment asks for.
async fn next_image(client: &Client, bootstrap: &Bootstrap) -> Outcome<Option<String>> {
    let Some(own) = &bootstrap.image else { return Ok(None) };
    let name = ObjectName::new(bootstrap.namespace.as_str(), SCHEDULER);
    let path = object_path("/apis/apps/v1", "deployments", &name);
    let deployment: Value = match read(client, &path).await {
        Ok(deployment) => deployment.unwrap_or_default(),
        // Installed with the roles of an earlier version.
        Err(Failure::Forbidden { .. }) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let containers = deployment.pointer("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    let images: Vec<&str> =
        containers.filter_map(|container| container["image"].as_str()).collect();
    let is_replaced = !images.contains(&own.as_str());
    Ok(images.first().filter(|_| is_replaced).map(|image| (*image).to_owned()))
}

async fn apply_definitions(client: &Client) -> Outcome<()> {
    for (file, text) in CRDS {
        let Ok(definition) = serde_saphyr::from_str::<Value>(text) else {
            tracing::error!(file, "the definition of a custom resource is no YAML");
            continue;
        };
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let (api, plural) = ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions");
        let path = object_path(api, plural, &ObjectName::new("", name));
        let path = with_query(&path, &[("fieldManager", MANAGER), ("force", "true")]);
        let _: Value = send(client, "PATCH", &path, Some(APPLY_PATCH), &definition).await?;
    }
    tracing::info!(count = CRDS.len(), "applied the custom resource definitions");
    Ok(())
}

async fn create_queue(client: &Client, queue: &Value) -> Outcome<()> {
    let name = queue["metadata"]["name"].as_str().unwrap_or_default();
    let path = Resource::QUEUES.object(&ObjectName::new("", name));
    if read::<Value>(client, &path).await?.is_some() {
        return Ok(());
    }
    match send::<Value>(client, "POST", &Resource::QUEUES.collection(""), None, queue).await {
        Ok(_) => tracing::info!(queue = name, "created a default queue"),
        // Another replica was faster.
        Err(Failure::Conflict { .. }) => {}
        Err(failure) => return Err(failure),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_queues_are_read_and_other_kinds_are_rejected() {
        let text = include_str!("../../../deploy/default-queues.yaml");
        let queues = read_queues(text).expect("queues");
        let names: Vec<&Value> = queues.iter().map(|queue| &queue["metadata"]["name"]).collect();
        assert_eq!(names, ["default-parent-queue", "default-queue"]);
        let pod = read_queues("kind: Pod");
        assert_eq!(pod, Err("\"Pod\" is not a Queue".to_owned()));
    }
}
