//! The same calls on the real API server and on the embedded one, answers compared.

mod calls;

use std::time::Duration;

use http_body_util::BodyExt;
use kai_embed::Cluster;
use kai_embed::api::{Answer, Request};
use kai_testenv::ControlPlane;
use kube::Client;
use serde_json::{Map, Value};

use calls::{CALLS, Call, NAMESPACE};

/// What differs between any two servers: ids, versions, times, and the managers of fields.
const OWN: [&str; 14] = [
    "lastProbeTime",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "lastTransitionTime",
    "observedGeneration",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "continue",
    "volumes",
    "volumeMounts",
    "startTime",
];

/// An answer without what differs between any two servers.
fn comparable(code: u16, body: &Value) -> String {
    format!("{code} {}", serde_json::to_string_pretty(&sorted(body)).expect("JSON"))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> =
                map.iter().filter(|(key, _)| !OWN.contains(&key.as_str())).collect();
            fields.sort_by_key(|(key, _)| *key);
            let fields = fields.into_iter().map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        Value::String(text) => Value::from(without_ids(text)),
        other => other.clone(),
    }
}

/// A text with every UID in it replaced.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let words = text.split_inclusive([' ', ',', '(', ')']);
    let bare = |word: &str| word.trim_end_matches([' ', ',', ')']).to_owned();
    words.map(|word| if is_id(&bare(word)) { "UID " } else { word }).collect()
}

async fn ask_real(client: &Client, call: &Call) -> String {
    let request = http::Request::builder()
        .method(call.method)
        .uri(call.path.replace('~', NAMESPACE))
        .header("content-type", call.content_type)
        .header("user-agent", "conformance/1")
        .body(kube::client::Body::from(call.body.replace('~', NAMESPACE).into_bytes()))
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    comparable(code, &serde_json::from_slice(&body).unwrap_or_default())
}

/// Waits until a path is there after an answer.
async fn wait_for(client: &Client, path: &'static str, after: &str) {
    for _ in 0..600 {
        let call = Call {
            method: "GET",
            path,
            content_type: "",
            body: "",
            leads_to: None,
            known_difference: None,
        };
        if ask_real(client, &call).await.starts_with("200") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{path} does not come after {after}");
}

fn ask_embedded(cluster: &mut Cluster, call: &Call) -> String {
    let path = call.path.replace('~', NAMESPACE);
    let mut request = Request::send(call.method, &path, &Value::Null).of_type(call.content_type);
    request.body = call.body.replace('~', NAMESPACE).into();
    "conformance/1".clone_into(&mut request.user_agent);
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    match cluster.request(&request, now) {
        Answer::Object { code, object, .. } => comparable(code, &object),
        Answer::Text(code, _) => comparable(code, &Value::Null),
        Answer::Watch(_) => panic!("a watch is no answer"),
    }
}

#[tokio::test]
async fn answers_equal_those_of_the_real_api_server() {
    let plane = match ControlPlane::start().await.expect("a control plane") {
        Ok(plane) => plane,
        Err(why) => return why.skip("conformance"),
    };
    let client = plane.admin().await.expect("a client");
    let mut cluster = Cluster::new(1, "2026-01-01T00:00:00Z".parse().expect("a time"));
    let mut different = Vec::new();
    for (at, call) in CALLS.iter().enumerate() {
        let (real, embedded) = (ask_real(&client, call).await, ask_embedded(&mut cluster, call));
        if let Some(path) = call.leads_to {
            wait_for(&client, path, &real).await;
        }
        if real != embedded && call.known_difference.is_none() {
            different.push(format!(
                "{at}: {} {}\n{}",
                call.method,
                call.path,
                difference(&real, &embedded)
            ));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// The lines in which two answers differ.
fn difference(real: &str, embedded: &str) -> String {
    let (real, embedded): (Vec<&str>, Vec<&str>) =
        (real.lines().collect(), embedded.lines().collect());
    let only = |these: &[&str], others: &[&str], mark: char| -> Vec<String> {
        these
            .iter()
            .filter(|line| !others.contains(line))
            .take(12)
            .map(|line| format!("  {mark} {line}"))
            .collect()
    };
    [only(&real, &embedded, '-'), only(&embedded, &real, '+')].concat().join("\n")
}
