//! Requests that write: paths, kinds of patches, and the few writes that several controllers share.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, HeaderValue};
use kai_core::input::{ObjectName, Text};
use kube::Client;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How a pod is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictBy {
    /// Through the eviction API, which respects disruption budgets.
    #[default]
    Eviction,
    /// By a plain delete, as KAI does.
    Delete,
    /// By a plain delete, once the condition `DisruptionTarget` of the pod says why.
    MarkedDelete,
}

/// A patch that is merged.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// A patch of lists that are merged by their keys.
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// A patch that says all its author wants to own.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Takes an object that does not exist for one that was written.
pub fn missing_is_fine(error: kube::Error) -> Result<Value, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(Value::Null),
        error => Err(error),
    }
}

/// The path of a namespaced object.
pub fn object_path(api: &str, plural: &str, name: &ObjectName) -> String {
    let (namespace, name) = (path_segment(&name.namespace), path_segment(&name.name));
    format!("{api}/namespaces/{namespace}/{plural}/{name}")
}

/// One segment of a path, or one value of a query: everything that could end it is percent-encoded.
pub fn path_segment(text: &str) -> String {
    // An empty segment would name the list, a dot or two the folder or the one above.
    if matches!(text, "" | "." | "..") {
        return text.chars().fold("%00".to_owned(), |encoded, _| encoded + "%2E");
    }
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Can an object have this name? The API server accepts no other, so that no request is needed to see that it does not
/// exist.
pub fn is_object_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let bytes = label.as_bytes();
        label.bytes().all(fits) && ends(bytes.first()) && ends(bytes.last())
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Sends a body and reads the answer.
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    method: &str,
    path: &str,
    content_type: Option<&'static str>,
    body: &impl Serialize,
) -> Result<T, kube::Error> {
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let content = HeaderValue::from_static(content_type.unwrap_or("application/json"));
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content)
        .body(body)
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Binds a pod of this UID, with annotations that it gets in the same write.
pub async fn bind(
    client: &Client,
    pod: &ObjectName,
    uid: &Text,
    node: &Text,
    annotations: &BTreeMap<&'static str, String>,
) -> Result<(), kube::Error> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": &*pod.name, "namespace": &*pod.namespace, "uid": &**uid, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": &**node},
    });
    let path = object_path("/api/v1", "pods", pod) + "/binding";
    send::<Value>(client, "POST", &path, None, &body).await.map(|_| ())
}

/// Evicts a pod of this UID; a pod that is gone counts as evicted.
pub async fn evict(
    client: &Client,
    by: EvictBy,
    pod: &ObjectName,
    uid: &Text,
) -> Result<(), kube::Error> {
    let path = object_path("/api/v1", "pods", pod);
    let options = json!({"preconditions": {"uid": &**uid}});
    let ended = match by {
        EvictBy::Delete | EvictBy::MarkedDelete => {
            send::<Value>(client, "DELETE", &path, None, &options).await
        }
        EvictBy::Eviction => {
            let body = json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": &*pod.name, "namespace": &*pod.namespace},
                "deleteOptions": options,
            });
            send::<Value>(client, "POST", &format!("{path}/eviction"), None, &body).await
        }
    };
    ended.or_else(missing_is_fine).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_change_what_a_path_means() {
        let path = |name: &str| object_path("/api/v1", "pods", &ObjectName::new("a", name));
        assert_eq!(path("p-1.b"), "/api/v1/namespaces/a/pods/p-1.b");
        assert_eq!(path("?watch=true"), "/api/v1/namespaces/a/pods/%3Fwatch%3Dtrue");
        assert_eq!(path("x/../../b"), "/api/v1/namespaces/a/pods/x%2F..%2F..%2Fb");
        assert_eq!(path(".."), "/api/v1/namespaces/a/pods/%00%2E%2E");
        assert_eq!(path(""), "/api/v1/namespaces/a/pods/%00");
        assert_eq!(path("a b#ä"), "/api/v1/namespaces/a/pods/a%20b%23%C3%A4");
    }

    #[test]
    fn only_dns_names_are_names_of_objects() {
        for name in ["a", "a-1", "a.b-c.0", "kube-root-ca.crt"] {
            assert!(is_object_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in
            ["", ".", "..", "-a", "a-", "a..b", "A", "a_b", "?watch=true", "a/b", "a\nb", &long]
        {
            assert!(!is_object_name(name), "{name}");
        }
    }
}
