//! Admission as a whole: a certificate, a server, and the registrations that make the API server call it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::StatusCode;
use kai_api::Queue;
use kai_api::names::admission as paths;
use kai_client::env::Env;
use kai_client::failure::Failure;
use kai_client::kinds::Kind;
use kai_client::path::{object_path, with_query};
use kai_client::request::{APPLY_PATCH, MERGE_PATCH, send};
use kai_client::write::{Outcome, read};
use kai_core::input::ObjectName;
use kai_serve::http::{Answer, Asked, Limits, content, serve, text};
use kai_serve::request_metrics::RequestMetrics;
use kai_serve::tls::{Tls, TlsError};
use kai_translate::time::seconds;
use kube::Client;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::certificates::{self, Bundle, CertificateError, KeyMaker, Making, Place};
use super::classes::RuntimeClasses;
use super::queue_use::{QueueUse, group_denial};
use super::registration::{configurations, keep_foreign_terms, must_be_replaced};
use super::review::{self, Known, Review};
use super::{AdmissionSettings, namespace_label};

/// The name under which registrations are written.
const MANAGER: &str = "kai-admission";
/// How often certificate and registrations are looked at.
const LOOK_AGAIN: kai_core::time::Span = seconds(60 * 60);
const TRY_AGAIN: kai_core::time::Span = seconds(5);
const PATHS: [&str; 5] = [
    paths::MUTATE_POD_PATH,
    paths::VALIDATE_POD_PATH,
    paths::VALIDATE_QUEUE_PATH,
    paths::VALIDATE_POD_GROUP_PATH,
    paths::VALIDATE_TOPOLOGY_PATH,
];

/// Why admission does not work.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// There is no certificate to serve with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The port cannot be opened.
    #[error("cannot listen on port {0}: {1}")]
    Listen(u16, std::io::Error),
    /// The API server does not take the registrations.
    #[error("a webhook configuration was not written: {0}")]
    Registration(Failure),
}

/// Starts to serve, then registers; both are reconciled from then on. Requests are counted.
pub async fn start(
    client: Client,
    env: Env,
    keys: Arc<dyn KeyMaker>,
    changing: watch::Receiver<AdmissionSettings>,
    requests: &Arc<RequestMetrics>,
) -> Result<(), AdmissionError> {
    let settings = changing.borrow().clone();
    let names = names(&settings);
    let making = Making { names: &names, keys: &*keys, now: env.now() };
    let bundle = certificates::current(&client, secret(&settings), making).await?;
    let tls = Arc::new(Tls::new(&bundle.certificate, &bundle.key)?);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), settings.port);
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| AdmissionError::Listen(settings.port, error))?;
    let classes = RuntimeClasses::follow(&client, &env);
    let office = Arc::new((client.clone(), classes, QueueUse::follow(&client, &env)));
    let asked_by = changing.clone();
    let answer = move |asked: Asked| {
        let (office, settings) = (Arc::clone(&office), asked_by.borrow().clone());
        async move {
            let (client, classes, queues) = &*office;
            let pods = classes.narrow(&settings.pods);
            answer(client, queues, &asked, &AdmissionSettings { pods, ..settings }).await
        }
    };
    let (metrics, limits) = (requests.server("admission", &PATHS), Limits::REVIEWS);
    let serving = serve(env.clone(), listener, Arc::clone(&tls), limits, metrics, answer);
    env.spawn("admission", serving);
    register(&client, &settings, &bundle).await.map_err(AdmissionError::Registration)?;
    tracing::info!(port = settings.port, "admission is registered");
    let guard = Guard { client, env: env.clone(), names, keys, tls, used: bundle };
    env.spawn("certificates", guard.look_after(changing));
    Ok(())
}

/// Where certificate and authority are kept.
fn secret(settings: &AdmissionSettings) -> Place<'_> {
    Place { namespace: &settings.namespace, secret: paths::POD_TLS_SECRET }
}

/// Names under which the API server knows us.
fn names(settings: &AdmissionSettings) -> BTreeSet<String> {
    let mut names = BTreeSet::from([format!("admission.{}.svc", settings.namespace)]);
    let host = settings.url.as_deref().and_then(|url| url.parse::<http::Uri>().ok());
    names.extend(host.and_then(|url| url.host().map(str::to_owned)));
    names
}

async fn answer(
    client: &Client,
    queue_use: &QueueUse,
    asked: &Asked,
    settings: &AdmissionSettings,
) -> Answer {
    let review: Review<'_> = match serde_json::from_slice(asked.request.body()) {
        Ok(review) => review,
        Err(error) => return text(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let path = asked.request.uri().path();
    let mut queues = None;
    if path == paths::VALIDATE_QUEUE_PATH {
        match existing_queues(client).await {
            Ok(found) => queues = Some(found),
            Err(error) if settings.queue_rules.check_quotas => {
                return text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot list queues, so cycles of parent queues are not found");
            }
        }
    }
    let denial = match path {
        paths::VALIDATE_POD_PATH => Some(queue_use.denial(client, &review, settings).await),
        paths::VALIDATE_POD_GROUP_PATH => Some(group_denial(client, &review, settings).await),
        _ => None,
    };
    if let Some(denial) = denial {
        match denial {
            Ok(None) => {}
            Ok(Some(why)) => {
                let denied = review.denied(why).to_string();
                return content(StatusCode::OK, "application/json", denied);
            }
            Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
    let mut rules = settings.pods.clone();
    if path == paths::MUTATE_POD_PATH {
        rules = match namespace_label::narrow(client, &review, &rules).await {
            Ok(rules) => rules,
            Err(error) => {
                let what = format!("cannot read the namespace of the pod: {error}");
                return text(StatusCode::INTERNAL_SERVER_ERROR, what);
            }
        };
    }
    let known = Known {
        scheduler: &settings.scheduler_name,
        rules: &rules,
        queues: queues.as_deref(),
        queue_rules: settings.queue_rules,
    };
    match review::answer(path, &review, &known) {
        Some(answer) => content(StatusCode::OK, "application/json", answer.to_string()),
        None => text(StatusCode::NOT_FOUND, "not found"),
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct QueueList {
    items: Vec<Value>,
}

/// The queues that exist, without those that cannot be decoded.
async fn existing_queues(client: &Client) -> Outcome<Vec<Queue>> {
    let list: Option<QueueList> = read(client, Kind::Queue.path()).await?;
    let items = list.unwrap_or_default().items;
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// Writes the registrations, which say whom to call and whom to trust.
async fn register(client: &Client, settings: &AdmissionSettings, bundle: &Bundle) -> Outcome<()> {
    for (plural, mut object) in configurations(settings, Some(&bundle.trusted)) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = ObjectName::new("", name);
        let path = object_path("/apis/admissionregistration.k8s.io/v1", plural, &name);
        if let Some(registered) = read::<Value>(client, &path).await? {
            keep_foreign_terms(&registered, &mut object);
            if must_be_replaced(&registered, &object) {
                let _: Value = send(client, "PATCH", &path, Some(MERGE_PATCH), &object).await?;
            }
        }
        let path = with_query(&path, &[("fieldManager", MANAGER), ("force", "true")]);
        let _: Value = send(client, "PATCH", &path, Some(APPLY_PATCH), &object).await?;
    }
    Ok(())
}

/// Looks after certificate and registrations.
struct Guard {
    client: Client,
    env: Env,
    names: BTreeSet<String>,
    keys: Arc<dyn KeyMaker>,
    tls: Arc<Tls>,
    used: Bundle,
}

impl Guard {
    /// Renews the certificate in time, takes over what another replica renewed, and registers anew when settings change.
    async fn look_after(mut self, mut changing: watch::Receiver<AdmissionSettings>) {
        let mut pause = LOOK_AGAIN;
        loop {
            tokio::select! { biased;
                Ok(()) = changing.changed() => {}
                () = self.env.sleep(pause) => {}
            }
            let settings = changing.borrow_and_update().clone();
            pause = match self.renew(&settings).await {
                Ok(()) => LOOK_AGAIN,
                Err(error) => {
                    tracing::warn!(%error, "failed to reconcile the admission webhooks");
                    TRY_AGAIN
                }
            };
        }
    }

    async fn renew(&mut self, settings: &AdmissionSettings) -> Result<(), AdmissionError> {
        let making = Making { names: &self.names, keys: &*self.keys, now: self.env.now() };
        let bundle = certificates::current(&self.client, secret(settings), making).await?;
        if bundle != self.used {
            self.tls.renew(&bundle.certificate, &bundle.key)?;
            tracing::info!("admission has a new certificate");
        }
        register(&self.client, settings, &bundle).await.map_err(AdmissionError::Registration)?;
        self.used = bundle;
        Ok(())
    }
}
