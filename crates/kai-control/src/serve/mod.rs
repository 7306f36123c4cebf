//! What others may ask of a running process: whether it is well, what it measures, and what it sees.
//!
//! | path | where | answer |
//! |---|---|---|
//! | `/metrics` | `--listen-address` | metrics with KAI's names; encrypted and for accounts with the right to get it, where that is set |
//! | `/healthz`, `/readyz` | both addresses | 200 while the loop turns; 200 once everything was listed |
//! | `/get-snapshot`, `/get-job-order`, `/debug/check`, `/debug/flags/v` | the local port, from this machine only | what the scheduler sees |
//!
//! The loop itself answers, between two changes: what it says is consistent, and a loop that hangs says nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use kai_client::bearer::{BearerAccess, Decision};
use kai_client::env::Env;
use kai_client::failure::sentence;
use kai_translate::time::seconds;
use kube::Client;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

pub use kai_serve::request_metrics::RequestMetrics;

use crate::snapshot::{self, Frame};
use kai_serve::http::{Answer, Asked, Limits, Plain, content, serve as serve_http, text};
use kai_serve::metrics_text::merged;
use kai_serve::tls::{Tls, TlsError};

/// How many questions may wait.
const WAITING_QUESTIONS: usize = 16;

/// Where questions are put, and where the loop finds them.
pub fn questions() -> (Sender<Question>, Receiver<Question>) {
    channel(WAITING_QUESTIONS)
}

/// Changes how much is logged.
pub type SetVerbosity = Arc<dyn Fn(u8) -> Result<(), String> + Send + Sync>;

/// Where questions are answered.
#[derive(Clone, Default)]
pub struct ServeSettings {
    /// Metrics, and whether we are well; none: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Encrypts the address of metrics and decides who may read them; none: everybody, in clear text.
    pub readers: Option<Arc<MetricsReaders>>,
    /// Whether we are well; none: nowhere.
    pub probes: Option<SocketAddr>,
    /// Port of this machine's own address for what the scheduler sees; none: nowhere.
    pub local_port: Option<u16>,
    /// Changes how much is logged.
    pub set_verbosity: Option<SetVerbosity>,
    /// Requests to every server of this process; part of its metrics.
    pub requests: Arc<RequestMetrics>,
}

impl std::fmt::Debug for ServeSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { metrics, probes, local_port, .. } = self;
        f.debug_struct("ServeSettings")
            .field("metrics", metrics)
            .field("probes", probes)
            .field("local_port", local_port)
            .finish_non_exhaustive()
    }
}

/// Who may read metrics: accounts with the right to `get` the URL `/metrics`, over TLS.
pub struct MetricsReaders {
    tls: Arc<Tls>,
    access: BearerAccess,
}

impl MetricsReaders {
    /// With this certificate and its key, both as PEM.
    pub fn new(client: Client, env: Env, certificate: &str, key: &str) -> Result<Self, TlsError> {
        let tls = Arc::new(Tls::new(certificate, key)?);
        Ok(Self { tls, access: BearerAccess::new(client, env, METRICS_PATH) })
    }

    /// Uses another certificate from now on.
    pub fn renew(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        self.tls.renew(certificate, key)
    }

    /// The answer that denies a request; none: it is admitted.
    async fn denial(&self, asked: &Asked) -> Option<Answer> {
        let given = asked.request.headers().get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.to_str().ok());
        match self.access.decide(given).await {
            Ok(Decision::Allowed) => None,
            Ok(Decision::Forbidden) => {
                let why = "the account may not get /metrics: grant it the verb get on this non-resource URL\n";
                Some(text(StatusCode::FORBIDDEN, why))
            }
            Ok(Decision::Unauthenticated) => {
                let why = "a token of the cluster is needed\n";
                let mut answer = text(StatusCode::UNAUTHORIZED, why);
                let bearer = HeaderValue::from_static("Bearer");
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
                Some(answer)
            }
            Err(failure) => {
                tracing::warn!(%failure, "cannot review the token of a reader of metrics");
                let why = "the API server did not review the token\n";
                Some(text(StatusCode::INTERNAL_SERVER_ERROR, why))
            }
        }
    }
}

/// The shard of a request; none: the first, or the only one.
pub type Shard = Option<String>;

/// A question to the loop.
pub enum Question {
    /// Does it turn, and was everything listed?
    Ready(oneshot::Sender<bool>),
    /// The metrics page in the text format of Prometheus.
    Metrics(oneshot::Sender<String>),
    /// What a snapshot of a shard says beside the objects; none: there is no such shard.
    Frame(Shard, oneshot::Sender<Option<Frame>>),
    /// Jobs of a shard in the order in which they would be tried; none: no plugin publishes it.
    JobOrder(Shard, oneshot::Sender<Option<Value>>),
    /// Rules that the cluster or the planner's counts break, one line each.
    Check(oneshot::Sender<Vec<String>>),
}

/// Starts to answer; the addresses that are listened on.
pub async fn start(
    client: &Client,
    env: &Env,
    settings: &ServeSettings,
    questions: Sender<Question>,
) -> std::io::Result<Vec<SocketAddr>> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut addresses: Vec<SocketAddr> =
        settings.metrics.into_iter().chain(settings.probes).collect();
    if let Some(port) = settings.local_port {
        let taken = |address: &SocketAddr| {
            port != 0
                && address.port() == port
                && (address.ip().is_unspecified() || address.ip() == loopback)
        };
        if !addresses.iter().any(taken) {
            addresses.push(SocketAddr::new(loopback, port));
        }
    }
    addresses.dedup();
    let desk = Desk {
        client: client.clone(),
        env: env.clone(),
        metrics_port: settings.metrics.map(|address| address.port()),
        readers: settings.readers.clone(),
        set_verbosity: settings.set_verbosity.clone(),
        requests: Arc::clone(&settings.requests),
        questions,
    };
    let mut bound = Vec::new();
    for address in addresses {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
        })?;
        let local = listener.local_addr()?;
        tracing::info!(address = %local, "answers questions");
        bound.push(local);
        let desk = Arc::new(desk.clone());
        let answer = move |asked: Asked| {
            let desk = Arc::clone(&desk);
            async move { desk.answer(asked, local).await }
        };
        let (env, limits) = (env.clone(), Limits::QUESTIONS);
        let metrics = settings.requests.server("status", &PATHS);
        let readers = settings.readers.as_ref().filter(|_| settings.metrics == Some(address));
        if let Some(tls) = readers.map(|readers| Arc::clone(&readers.tls)) {
            env.clone().spawn("answers", serve_http(env, listener, tls, limits, metrics, answer));
        } else {
            let plain = Arc::new(Plain);
            env.clone().spawn("answers", serve_http(env, listener, plain, limits, metrics, answer));
        }
    }
    Ok(bound)
}

/// Path that Prometheus scrapes.
const METRICS_PATH: &str = "/metrics";
/// Every path that is served, for the metrics of requests.
const PATHS: [&str; 7] = [
    METRICS_PATH,
    "/healthz",
    "/readyz",
    "/get-snapshot",
    "/get-job-order",
    "/debug/check",
    "/debug/flags/v",
];
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

fn hangs() -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, "the loop does not turn")
}

/// The shard that a question names: `?shard=NAME`.
fn shard(asked: &Asked) -> Shard {
    let query = asked.request.uri().query().unwrap_or_default();
    let named = query.split('&').find_map(|part| part.strip_prefix("shard="));
    named.map(str::to_owned)
}

#[derive(Clone)]
struct Desk {
    client: Client,
    env: Env,
    metrics_port: Option<u16>,
    readers: Option<Arc<MetricsReaders>>,
    set_verbosity: Option<SetVerbosity>,
    requests: Arc<RequestMetrics>,
    questions: Sender<Question>,
}

impl Desk {
    async fn answer(&self, asked: Asked, local: SocketAddr) -> Answer {
        let path = asked.request.uri().path();
        let from_here = asked.peer.ip().is_loopback();
        match (asked.request.method(), path) {
            (&Method::GET, "/healthz") => match self.ask(Question::Ready).await {
                Some(_) => text(StatusCode::OK, "ok"),
                None => hangs(),
            },
            (&Method::GET, "/readyz") => match self.ask(Question::Ready).await {
                Some(true) => text(StatusCode::OK, "ok"),
                _ => text(StatusCode::SERVICE_UNAVAILABLE, "not everything is listed yet"),
            },
            (&Method::GET, METRICS_PATH)
                if self.metrics_port.is_none_or(|port| port == 0 || port == local.port()) =>
            {
                self.metrics(&asked).await
            }
            (&Method::GET, "/get-snapshot") if from_here => self.snapshot(shard(&asked)).await,
            (&Method::GET, "/get-job-order") if from_here => self.job_order(shard(&asked)).await,
            (&Method::GET, "/debug/check") if from_here => self.check().await,
            (&Method::PUT, "/debug/flags/v") if from_here => {
                self.change_verbosity(asked.request.body())
            }
            _ => text(StatusCode::NOT_FOUND, "not found"),
        }
    }

    async fn metrics(&self, asked: &Asked) -> Answer {
        if let Some(readers) = &self.readers
            && let Some(denial) = readers.denial(asked).await
        {
            return denial;
        }
        match self.ask(Question::Metrics).await {
            Some(metrics) => {
                let page = merged(&[metrics, self.requests.page()]);
                content(StatusCode::OK, METRICS, page)
            }
            None => hangs(),
        }
    }

    fn change_verbosity(&self, body: &[u8]) -> Answer {
        let wanted = std::str::from_utf8(body).ok().and_then(|text| text.trim().parse().ok());
        match (wanted, &self.set_verbosity) {
            (Some(level), Some(set)) => match set(level) {
                Ok(()) => text(StatusCode::OK, format!("successfully set verbosity to {level}\n")),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error),
            },
            (None, _) => text(StatusCode::BAD_REQUEST, "the body must be a level such as 4\n"),
            (_, None) => text(StatusCode::NOT_FOUND, "not found"),
        }
    }

    async fn job_order(&self, shard: Shard) -> Answer {
        match self.ask(|answer| Question::JobOrder(shard, answer)).await {
            Some(Some(order)) => content(StatusCode::OK, "application/json", order.to_string()),
            Some(None) => text(StatusCode::NOT_FOUND, "plugin not found"),
            None => hangs(),
        }
    }

    /// 200 where every rule holds, 500 with the violations otherwise.
    async fn check(&self) -> Answer {
        match self.ask(Question::Check).await {
            Some(found) if found.is_empty() => text(StatusCode::OK, "every rule holds\n"),
            Some(found) => text(StatusCode::INTERNAL_SERVER_ERROR, found.join("\n") + "\n"),
            None => hangs(),
        }
    }

    async fn snapshot(&self, shard: Shard) -> Answer {
        let frame = match self.ask(|answer| Question::Frame(shard, answer)).await {
            Some(Some(frame)) => frame,
            Some(None) => return text(StatusCode::NOT_FOUND, "there is no such shard"),
            None => return hangs(),
        };
        match snapshot::take(&self.client, frame).await {
            Ok(archive) => content(StatusCode::OK, "application/zip", archive),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, sentence(error)),
        }
    }

    /// Asks the loop; none where it does not answer.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (sink, answer) = oneshot::channel();
        let reply = async {
            self.questions.send(question(sink)).await.ok()?;
            answer.await.ok()
        };
        tokio::select! { biased;
            answer = reply => answer,
            () = self.env.sleep(seconds(10)) => None,
        }
    }
}
