//! A small HTTP server: a listener, one task per connection, answers that fit into memory.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kai_client::env::Env;
use kai_core::time::Span;
use kai_translate::time::seconds;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connections::{Connection, Connections};
use super::request_metrics::ServerMetrics;

/// The answer of a handler, with its whole body.
pub type Answer = Response<Full<Bytes>>;

/// A request and the address of its client.
pub struct Asked {
    /// Where the connection comes from.
    pub peer: SocketAddr,
    /// The request with its whole body.
    pub request: Request<Bytes>,
}

/// What a server spends on its clients at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one body; a request with more is rejected.
    pub body_bytes: usize,
    /// Bytes of all bodies together that are permits for requests whose body is large.
    pub large_bodies_bytes: usize,
    /// Open connections; the oldest without a request makes way for a new one.
    pub connections: usize,
}

impl Limits {
    /// For probes and metrics: requests have no body, or a number as body.
    pub const QUESTIONS: Self =
        Self { body_bytes: 4 << 10, large_bodies_bytes: 0, connections: 128 };
    /// For admission reviews, which hold an object twice.
    pub const REVIEWS: Self =
        Self { body_bytes: 8 << 20, large_bodies_bytes: 64 << 20, connections: 512 };
}

/// A body above this size counts against [`Limits::large_bodies_bytes`].
const LARGE_BODY: usize = 256 << 10;
/// Time for the handshake of a connection.
const HANDSHAKE: Span = seconds(5);
/// Time from the first wait for a request to the end of its headers.
const HEADERS: Duration = Duration::from_secs(30);
/// Time for the body of a request.
const BODY: Span = seconds(10);

/// Encrypts connections, or does not.
pub trait Wrap: Send + Sync + 'static {
    /// The connection as it is read and written.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Performs the handshake of a new connection.
    fn wrap(&self, stream: TcpStream)
    -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

/// Connections as they are.
pub struct Plain;

impl Wrap for Plain {
    type Stream = TcpStream;

    async fn wrap(&self, stream: TcpStream) -> std::io::Result<TcpStream> {
        Ok(stream)
    }
}

/// Serves for ever, within the limits; requests are counted.
pub async fn serve<W, F, A>(
    env: Env,
    listener: TcpListener,
    wrap: Arc<W>,
    limits: Limits,
    metrics: ServerMetrics,
    answer: F,
) where
    W: Wrap,
    F: Fn(Asked) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let connections = Connections::new(limits.connections);
    let large_bodies = Arc::new(Semaphore::new(limits.large_bodies_bytes));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                env.sleep(seconds(1)).await;
                continue;
            }
        };
        let Some(connection) = connections.admit() else {
            tracing::debug!(%peer, "closed a connection: all others are busy");
            continue;
        };
        let bodies =
            Bodies { most: limits.body_bytes, large: Arc::clone(&large_bodies), env: env.clone() };
        let metrics = metrics.clone();
        let visit = Visit { connection: Arc::new(connection), peer, bodies, metrics };
        let (wrap, answer) = (Arc::clone(&wrap), answer.clone());
        env.spawn("connection", async move {
            let connection = Arc::clone(&visit.connection);
            tokio::select! { biased;
                () = connection.closed() => {
                    tracing::debug!(%peer, "closed a connection in favour of a newer one");
                }
                () = visit.converse(stream, &*wrap, answer) => {}
            }
        });
    }
}

/// One connection and what it may spend.
struct Visit {
    connection: Arc<Connection>,
    peer: SocketAddr,
    bodies: Bodies,
    metrics: ServerMetrics,
}

impl Visit {
    async fn converse<W, F, A>(self, stream: TcpStream, wrap: &W, answer: F)
    where
        W: Wrap,
        F: Fn(Asked) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let Self { connection, peer, bodies, metrics } = self;
        let stream = tokio::select! { biased;
            wrapped = wrap.wrap(stream) => match wrapped {
                Ok(stream) => stream,
                Err(error) => return tracing::debug!(%error, %peer, "no handshake"),
            },
            () = bodies.env.sleep(HANDSHAKE) => {
                return tracing::debug!(%peer, "no handshake in time");
            }
        };
        let service = service_fn(move |request: Request<Incoming>| {
            let (answer, bodies, metrics) = (answer.clone(), bodies.clone(), metrics.clone());
            let connection = Arc::clone(&connection);
            async move {
                let (parts, body) = request.into_parts();
                let (path, begin) = (parts.uri.path().to_owned(), bodies.env.uptime());
                let answer = match bodies.read(body).await {
                    Ok((body, _held)) => {
                        let asked = Asked { peer, request: Request::from_parts(parts, body) };
                        connection.set_busy(true);
                        let answer = outlive_panic(answer, asked, &metrics).await;
                        connection.set_busy(false);
                        answer
                    }
                    Err(Rejection(status, why)) => text(status, why),
                };
                let took = Span { nanos: bodies.env.uptime().nanos - begin.nanos };
                metrics.note_answer(&path, answer.status().as_u16(), took);
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEADERS);
        if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, %peer, "a connection broke");
        }
    }
}

/// How bodies are read.
#[derive(Clone)]
struct Bodies {
    most: usize,
    /// What large bodies may hold together, in bytes.
    large: Arc<Semaphore>,
    env: Env,
}

/// Why a request is not answered.
struct Rejection(StatusCode, String);

/// Bytes that a large body holds, until its request is answered.
type BodyPermit = Option<OwnedSemaphorePermit>;

impl Bodies {
    /// The whole body, or the rejection of its request.
    async fn read(&self, body: Incoming) -> Result<(Bytes, BodyPermit), Rejection> {
        tokio::select! { biased;
            read = self.collect(body) => read,
            () = self.env.sleep(BODY) => {
                Err(Rejection(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".to_owned()))
            }
        }
    }

    async fn collect(&self, mut body: Incoming) -> Result<(Bytes, BodyPermit), Rejection> {
        let mut bytes = BytesMut::new();
        let mut permits: BodyPermit = None;
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| Rejection(StatusCode::BAD_REQUEST, error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.most {
                let why = format!("the body is larger than {} bytes", self.most);
                return Err(Rejection(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            bytes.extend_from_slice(&data);
            if bytes.len() > LARGE_BODY {
                self.hold(data.len(), &mut permits)?;
            }
        }
        Ok((bytes.freeze(), permits))
    }

    /// Counts bytes of a large body.
    fn hold(&self, bytes: usize, permits: &mut BodyPermit) -> Result<(), Rejection> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&self.large).try_acquire_many_owned(bytes) else {
            let why = "too many large bodies at once".to_owned();
            return Err(Rejection(StatusCode::SERVICE_UNAVAILABLE, why));
        };
        match permits {
            Some(permits) => permits.merge(permit),
            None => *permits = Some(permit),
        }
        Ok(())
    }
}

/// The answer; 500 where working it out panicked, so that one request never ends the process.
async fn outlive_panic<F, A>(answer: F, asked: Asked, metrics: &ServerMetrics) -> Answer
where
    F: Fn(Asked) -> A,
    A: Future<Output = Answer>,
{
    let (peer, path) = (asked.peer, asked.request.uri().path().to_owned());
    let answer = AssertUnwindSafe(async { answer(asked).await });
    answer.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(%peer, ?path, "a request failed: its handler panicked");
        metrics.note_panic();
        text(StatusCode::INTERNAL_SERVER_ERROR, "the handler of this request panicked")
    })
}

/// An answer of plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    content(status, "text/plain; charset=utf-8", text)
}

/// An answer of some type.
pub fn content(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::request_metrics::RequestMetrics;

    /// The status line of the answer to `GET path`.
    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nhost: kai\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn a_handler_that_panics_ends_its_request_only() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = |asked: Asked| async move {
            assert_ne!(asked.request.uri().path(), "/panic", "as the test wants");
            text(StatusCode::OK, "ok")
        };
        let metrics = Arc::new(RequestMetrics::default());
        let (limits, counted) = (Limits::QUESTIONS, metrics.server("status", &["/panic"]));
        tokio::spawn(serve(Env::real(), listener, Arc::new(Plain), limits, counted, answer));
        assert_eq!(get(address, "/panic").await, "HTTP/1.1 500 Internal Server Error");
        assert_eq!(get(address, "/healthz").await, "HTTP/1.1 200 OK");
        let page = metrics.page();
        assert!(page.contains("kai_http_request_panics_total{server=\"status\"} 1\n"), "{page}");
        let failed = "kai_http_requests_total{server=\"status\",path=\"/panic\",code=\"500\"} 1\n";
        assert!(page.contains(failed), "{page}");
    }

    async fn start(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = |_: Asked| async move { text(StatusCode::OK, "ok") };
        let metrics = Arc::new(RequestMetrics::default()).server("status", &[]);
        tokio::spawn(serve(Env::real(), listener, Arc::new(Plain), limits, metrics, answer));
        address
    }

    #[tokio::test]
    async fn silent_connections_do_not_block_others() {
        let address = start(Limits { connections: 8, ..Limits::QUESTIONS }).await;
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(TcpStream::connect(address).await.expect("a connection"));
        }
        assert_eq!(get(address, "/healthz").await, "HTTP/1.1 200 OK");
        let mut byte = [0];
        let read = silent[0].read(&mut byte).await;
        assert!(matches!(read, Ok(0) | Err(_)), "the oldest was closed: {read:?}");
    }

    /// The status line of the answer to a body of so many bytes.
    async fn post(address: SocketAddr, bytes: usize) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let head = format!(
            "POST / HTTP/1.1\r\nhost: kai\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("a request");
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(&vec![b'x'; bytes]).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn large_bodies_are_rejected() {
        let address = start(Limits::QUESTIONS).await;
        assert_eq!(post(address, 4 << 10).await, "HTTP/1.1 200 OK");
        assert_eq!(post(address, (4 << 10) + 1).await, "HTTP/1.1 413 Payload Too Large");
        let together = Limits { large_bodies_bytes: 1 << 20, ..Limits::REVIEWS };
        let address = start(together).await;
        assert_eq!(post(address, 1 << 20).await, "HTTP/1.1 200 OK");
        assert_eq!(post(address, 2 << 20).await, "HTTP/1.1 503 Service Unavailable");
    }
}
