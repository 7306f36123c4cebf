//! Older servers have `resource.k8s.io` in older versions only. Everything here speaks `v1`: requests go to the version that
//! the server has, and what comes back is read as `v1` (`kai_translate::device_versions`).

use http::uri::{PathAndQuery, Uri};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::failure::sentence;

const GROUP: &str = "/apis/resource.k8s.io";
const NATIVE: &str = "v1";
/// Older versions that are converted, the newest first.
const OLDER: [&str; 2] = ["v1beta2", "v1beta1"];

/// A client whose requests about devices go to the version that the server has.
pub async fn adapted(client: Client) -> Client {
    match older_version(&client).await {
        Some(version) => {
            tracing::info!(version, "resource.k8s.io is served in an older version");
            redirected(client, version)
        }
        None => client,
    }
}

/// The version to be used instead of the native one; none: that is served, or no known version is.
async fn older_version(client: &Client) -> Option<&'static str> {
    let request = http::Request::get(GROUP).body(Vec::new()).ok()?;
    let group: Value = match client.request(request).await {
        Ok(group) => group,
        Err(kube::Error::Api(status)) if status.code == 404 => return None,
        Err(error) => {
            let failure = sentence(error);
            tracing::warn!(failure, "failed to read the versions of resource.k8s.io");
            return None;
        }
    };
    let versions = group["versions"].as_array()?;
    let served = |name: &str| versions.iter().any(|version| version["version"] == name);
    if served(NATIVE) { None } else { OLDER.into_iter().find(|version| served(version)) }
}

fn redirected(client: Client, version: &'static str) -> Client {
    let namespace = client.default_namespace().to_owned();
    let transport = tower::service_fn(move |mut request: http::Request<Body>| {
        if let Some(uri) = redirect(request.uri(), version) {
            *request.uri_mut() = uri;
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(transport, namespace)
}

/// The same request to another version; none where it is not about devices.
fn redirect(uri: &Uri, version: &str) -> Option<Uri> {
    let requested = uri.path_and_query()?.as_str();
    let rest = requested.strip_prefix(GROUP)?.strip_prefix('/')?.strip_prefix(NATIVE)?;
    if !rest.is_empty() && !rest.starts_with(['/', '?']) {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(format!("{GROUP}/{version}{rest}")).ok();
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    #[test]
    fn only_requests_about_devices_are_redirected() {
        let to = |uri: &str| {
            redirect(&uri.parse().expect("a URI"), "v1beta1").map(|uri| uri.to_string())
        };
        let claims = "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c/status?x=1";
        let older = "/apis/resource.k8s.io/v1beta1/namespaces/a/resourceclaims/c/status?x=1";
        assert_eq!(to(claims).as_deref(), Some(older));
        let whole = "/apis/resource.k8s.io/v1beta1";
        assert_eq!(to("/apis/resource.k8s.io/v1").as_deref(), Some(whole));
        for other in [
            "/apis/resource.k8s.io/v1beta1/resourceslices",
            "/apis/resource.k8s.io",
            "/api/v1/pods",
        ] {
            assert_eq!(to(other), None);
        }
    }

    /// The path that a request for slices ends at, on a server with these versions.
    async fn reached(versions: &[&str]) -> String {
        let versions: Vec<Value> =
            versions.iter().map(|name| json!({"groupVersion": "", "version": name})).collect();
        let requested_path = Arc::new(Mutex::new(String::new()));
        let written_path = Arc::clone(&requested_path);
        let server = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            path.clone_into(&mut written_path.lock().expect("the path"));
            let body = json!({"versions": versions, "items": []}).to_string();
            async move { Ok::<_, tower::BoxError>(http::Response::new(Body::from(body.into_bytes()))) }
        });
        let client = adapted(Client::new(server, "default")).await;
        let request =
            http::Request::get("/apis/resource.k8s.io/v1/resourceslices").body(Vec::new());
        let _: Value = client.request(request.expect("a request")).await.expect("an answer");
        requested_path.lock().expect("the path").clone()
    }

    #[test]
    fn the_newest_version_that_is_served_is_used() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let path = |version: &str| format!("/apis/resource.k8s.io/{version}/resourceslices");
            assert_eq!(reached(&["v1beta1", "v1"]).await, path("v1"));
            assert_eq!(reached(&["v1beta1"]).await, path("v1beta1"));
            assert_eq!(reached(&["v1beta1", "v1beta2"]).await, path("v1beta2"));
            assert_eq!(reached(&["v1alpha3"]).await, path("v1"), "and is not there");
        });
    }
}
