//! The key with which placements are signed: in a Secret of our namespace, which is installed empty. The first process fills
//! it, all others read it.

use k8s_openapi::ByteString;
use kai_api::names::scheduling::PLACEMENT_KEY;
use kai_core::input::ObjectName;
use kai_core::time::Span;
use kai_translate::placement::{KEY_BYTES, PlacementKey};
use kai_translate::time::seconds;
use kube::Client;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use crate::env::Env;
use crate::failure::Failure;
use crate::path::Resource;
use crate::request::send;
use crate::write::{Outcome, read};

/// A server that has just started may not know our rights yet.
const FORBIDDEN_FOR_GOOD_AFTER: u32 = 10;
const RETRY_AFTER: Span = seconds(1);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error(transparent)]
    Api(#[from] Failure),
    #[error("the Secret has no field {}", PLACEMENT_KEY.1)]
    Empty,
    #[error("the system has no random numbers")]
    NoRandomness,
}

impl KeyError {
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api(Failure::Forbidden { .. }))
    }

    fn is_missing(&self) -> bool {
        matches!(self, Self::Api(Failure::Gone { .. }))
    }
}

/// The key that the Secret of this name holds; a new one where it holds none. Retries until the server answers. None: we
/// may not read the Secret or its namespace does not exist, so pods are believed as KAI believes them.
pub async fn load(
    client: &Client,
    env: &Env,
    namespace: &str,
    secret: &str,
) -> Option<PlacementKey> {
    let mut failures = 0;
    loop {
        let error = match read_or_create(client, namespace, secret).await {
            Ok(key) => return Some(key),
            Err(error) => error,
        };
        failures += 1;
        // A Secret cannot be created where there is no namespace.
        if error.is_missing() {
            tracing::warn!(
                namespace,
                secret,
                "the namespace does not exist: placements are not signed and GPU labels of pods are believed"
            );
            return None;
        }
        if error.is_forbidden() && failures >= FORBIDDEN_FOR_GOOD_AFTER {
            tracing::warn!(                namespace, secret, %error,
                "placements are not signed and GPU labels of pods are believed: grant get and update on the Secret"
            );
            return None;
        }
        tracing::warn!(namespace, secret, %error, "failed to read the key of placements, retrying");
        env.sleep(RETRY_AFTER).await;
    }
}

async fn read_or_create(
    client: &Client,
    namespace: &str,
    secret: &str,
) -> Result<PlacementKey, KeyError> {
    let secrets = Resource::SECRETS.collection(namespace);
    let path = Resource::SECRETS.object(&ObjectName::new(namespace, secret));
    let found: Option<Value> = read(client, &path).await?;
    if let Some(key) = found.as_ref().and_then(key_of) {
        return Ok(key);
    }
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoRandomness)?;
    let data = json!({PLACEMENT_KEY.1: ByteString(bytes.to_vec())});
    let written: Outcome<Value> = if let Some(Value::Object(mut object)) = found {
        // The version is that of the empty Secret: the first of several replicas wins.
        object.insert("data".to_owned(), data);
        send(client, "PUT", &path, None, &object).await
    } else {
        let metadata = json!({"name": secret, "namespace": namespace});
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
        send(client, "POST", &secrets, None, &object).await
    };
    match written {
        Ok(_) => tracing::info!(namespace, secret, "created the key of placements"),
        Err(Failure::Conflict { .. }) => {}
        Err(failure) => return Err(failure.into()),
    }
    read::<Value>(client, &path).await?.as_ref().and_then(key_of).ok_or(KeyError::Empty)
}

fn key_of(secret: &Value) -> Option<PlacementKey> {
    let value = secret.get("data")?.get(PLACEMENT_KEY.1)?.clone();
    let bytes = serde_json::from_value::<ByteString>(value).ok()?;
    (!bytes.0.is_empty()).then(|| PlacementKey::new(&bytes.0))
}
