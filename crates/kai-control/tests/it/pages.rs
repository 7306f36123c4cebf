//! Lists by pages that cannot be finished: the server forgets the place (410), or fails. What one page had and the next
//! list does not have is gone.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kai_client::kinds::Kind;
use kai_client::watch::{Change, Lists, watch};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::channel;
use tokio::time::{Duration, Instant, timeout};

use crate::node;
use crate::virtual_time::{env, in_virtual_time};

fn page(names: &[&str], more: &str) -> Value {
    let items: Vec<Value> = names.iter().map(|name| node(name, "1")).collect();
    json!({"metadata": {"resourceVersion": "7", "continue": more}, "items": items})
}

fn failure(code: u16) -> Value {
    json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "Test", "code": code})
}

/// Requests, and the seconds at which they were made.
type Asked = Arc<Mutex<Vec<(f64, String)>>>;

/// A server that gives these answers one after the other, null being an empty one, and in the end says nothing more.
fn client_of(answers: Vec<Value>, begin: Instant) -> (Client, Asked) {
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    let transport = tower::service_fn(move |request: Request<Body>| {
        let next = answers.lock().expect("the answers").next();
        let asked = (begin.elapsed().as_secs_f64(), request.uri().to_string());
        log.lock().expect("the log").push(asked);
        async move {
            let Some(answer) = next else { return std::future::pending().await };
            let code = answer["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let text = if answer.is_null() { String::new() } else { answer.to_string() };
            let made = Response::builder().status(code.unwrap_or(200));
            Ok::<_, Infallible>(made.body(Body::from(text.into_bytes())).expect("an answer"))
        }
    });
    (Client::new(transport, "default"), asked)
}

/// Changes that a watch of nodes delivers, and its requests.
fn listed_changes(answers: Vec<Value>) -> (Vec<String>, Vec<(f64, String)>) {
    in_virtual_time(async {
        let begin = Instant::now();
        let (client, asked) = client_of(answers, begin);
        let (sink, mut changes) = channel(100);
        tokio::spawn(watch(client, env(begin), Kind::Node, Lists::Paged, sink));
        let mut texts = Vec::new();
        while let Ok(Some(change)) = timeout(Duration::from_mins(1), changes.recv()).await {
            texts.push(match change {
                Change::Node(node) => format!("+{}", node.metadata.name),
                Change::Gone(_, name) => format!("-{}", name.name),
                Change::Listed(_) => "listed".to_owned(),
                other => format!("{other:?}"),
            });
        }
        let asked = asked.lock().expect("the log").clone();
        (texts, asked)
    })
}

#[test]
fn object_of_a_page_that_is_gone_before_the_list_ends_is_not_kept() {
    for code in [410, 500] {
        let (changes, asked) =
            listed_changes(vec![page(&["a", "b"], "x"), failure(code), page(&["a"], "")]);
        assert_eq!(changes, ["+a", "+b", "+a", "-b", "listed"], "{code}");
        let asked = |at: usize, what: &str| asked[at].1.contains(what);
        assert!(asked(1, "continue=x") && !asked(2, "continue"));
        assert!(asked(3, "watch=true") && asked(3, "resourceVersion=7"));
    }
}

#[test]
fn a_watch_that_ends_at_once_without_a_word_is_not_asked_for_at_once() {
    let silent = Value::Null;
    let answers = vec![page(&["a"], ""), silent.clone(), silent.clone(), silent];
    let (changes, asked) = listed_changes(answers);
    assert_eq!(changes, ["+a", "listed"]);
    let moments: Vec<f64> = asked.iter().map(|(second, _)| *second).collect();
    assert_eq!(moments, [0.0, 0.0, 0.25, 0.75, 1.75]);
}
