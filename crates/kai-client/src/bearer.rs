//! Clients that present a token of the cluster: the API server identifies them (`TokenReview`) and whether they may get a path
//! that is no resource (`SubjectAccessReview`). Answers are kept for a minute.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kai_core::time::Span;
use kai_translate::time::seconds;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::env::Env;
use crate::request::send;
use crate::write::Outcome;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// How long an answer counts.
const KEPT: Span = seconds(60);
/// Answers that are kept; the oldest make way.
const MOST_KEPT: usize = 256;
/// Reviews under way: unknown tokens must not keep the API server busy.
const AT_ONCE: usize = 4;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No account has this token.
    Unauthenticated,
    /// The account has no right to get the path.
    Forbidden,
    /// It may get the path.
    Allowed,
}

/// A decision, and the uptime of the process until which it counts.
#[derive(Clone, Copy)]
struct Kept {
    decision: Decision,
    until_nanos: i64,
}

/// Decides by bearer token which clients may get a path; keeps answers for a minute.
pub struct BearerAccess {
    client: Client,
    env: Env,
    path: &'static str,
    reviews: Semaphore,
    kept: Mutex<BTreeMap<String, Kept>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenReview {
    status: TokenStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessReview {
    status: AccessStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}

impl BearerAccess {
    /// Decides which accounts may get this path.
    pub fn new(client: Client, env: Env, path: &'static str) -> Self {
        let (reviews, kept) = (Semaphore::new(AT_ONCE), Mutex::default());
        Self { client, env, path, reviews, kept }
    }

    /// What the client with this `Authorization` header may do.
    pub async fn decide(&self, authorization: Option<&str>) -> Outcome<Decision> {
        let token = authorization.and_then(bearer_token);
        let Some(token) = token else { return Ok(Decision::Unauthenticated) };
        if let Some(decision) = self.known(token) {
            return Ok(decision);
        }
        let _permit = self.reviews.acquire().await;
        if let Some(decision) = self.known(token) {
            return Ok(decision);
        }
        let decision = self.review(token).await?;
        self.keep(token, decision);
        Ok(decision)
    }

    fn known(&self, token: &str) -> Option<Decision> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.get(token)?;
        (self.env.uptime().nanos < kept.until_nanos).then_some(kept.decision)
    }

    fn keep(&self, token: &str, decision: Decision) {
        let now = self.env.uptime().nanos;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| now < kept.until_nanos);
        if kept.len() >= MOST_KEPT {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.until_nanos);
            let oldest = oldest.map(|(token, _)| token.clone());
            if let Some(token) = oldest {
                kept.remove(&token);
            }
        }
        let until_nanos = now + KEPT.nanos;
        kept.insert(token.to_owned(), Kept { decision, until_nanos });
    }

    async fn review(&self, token: &str) -> Outcome<Decision> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        let answer: TokenReview = send(&self.client, "POST", TOKEN_REVIEWS, None, &review).await?;
        if !answer.status.authenticated {
            return Ok(Decision::Unauthenticated);
        }
        let review = access_review(&answer.status.user, self.path);
        let answer: AccessReview =
            send(&self.client, "POST", ACCESS_REVIEWS, None, &review).await?;
        Ok(if answer.status.allowed { Decision::Allowed } else { Decision::Forbidden })
    }
}

fn access_review(user: &User, path: &str) -> Value {
    let User { username, uid, groups, extra } = user;
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": username,
            "uid": uid,
            "groups": groups,
            "extra": extra,
            "nonResourceAttributes": {"path": path, "verb": "get"},
        },
    })
}

/// The token of an `Authorization` header.
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::client::Body;

    use super::*;

    /// An API server that knows the tokens `reader` and `other`, and the paths of the requests it received.
    fn server() -> (Client, Arc<Mutex<Vec<String>>>) {
        let requested_paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let paths = Arc::clone(&requested_paths);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            paths.lock().expect("a list").push(path.clone());
            async move {
                let body = request.into_body().collect_bytes().await?;
                let body: Value = serde_json::from_slice(&body)?;
                let status = if path == TOKEN_REVIEWS {
                    let name = body["spec"]["token"].as_str().unwrap_or_default().to_owned();
                    json!({"authenticated": name != "forged", "user": {"username": name, "groups": ["g"]}})
                } else {
                    let attributes = json!({"path": "/metrics", "verb": "get"});
                    assert_eq!(body["spec"]["nonResourceAttributes"], attributes);
                    assert_eq!(body["spec"]["groups"], json!(["g"]));
                    json!({"allowed": body["spec"]["user"] == "reader"})
                };
                let answer = json!({"status": status}).to_string();
                Ok::<_, tower::BoxError>(http::Response::new(Body::from(answer.into_bytes())))
            }
        });
        (Client::new(service, "default"), requested_paths)
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_decide_and_answers_are_kept_for_a_minute() {
        let (client, requested_paths) = server();
        let access = BearerAccess::new(client, Env::real(), "/metrics");
        let decide = async |header: Option<&str>| access.decide(header).await.expect("an answer");
        for none in [None, Some("Basic abc"), Some("Bearer "), Some("Bearer")] {
            assert_eq!(decide(none).await, Decision::Unauthenticated);
        }
        assert!(requested_paths.lock().expect("a list").is_empty(), "nothing to ask about");
        assert_eq!(decide(Some("Bearer forged")).await, Decision::Unauthenticated);
        assert_eq!(decide(Some("Bearer other")).await, Decision::Forbidden);
        assert_eq!(decide(Some("bearer reader")).await, Decision::Allowed);
        let count = || requested_paths.lock().expect("a list").len();
        assert_eq!(count(), 5);
        assert_eq!(decide(Some("Bearer reader")).await, Decision::Allowed);
        assert_eq!(decide(Some("Bearer forged")).await, Decision::Unauthenticated);
        assert_eq!(count(), 5, "they are kept");
    }
}
