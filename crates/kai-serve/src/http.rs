//! A small HTTP server: a listener, one task per connection, answers that fit into memory.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kai_client::env::Env;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// An answer.
pub type Answer = Response<Full<Bytes>>;

/// A question: who asks, and what.
pub struct Asked {
    /// Where the connection comes from.
    pub peer: SocketAddr,
    /// The request with its whole body.
    pub request: Request<Bytes>,
}

/// Bodies above this size are refused: an admission review holds an object twice.
const MOST_BYTES: usize = 8 << 20;

/// Encrypts connections, or does not.
pub trait Wrap: Send + Sync + 'static {
    /// The connection as it is read and written.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Wraps a connection.
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

/// Serves for ever.
pub async fn serve<W, F, A>(env: Env, listener: TcpListener, wrap: Arc<W>, answer: F)
where
    W: Wrap,
    F: Fn(Asked) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                env.sleep(kai_translate::time::seconds(1)).await;
                continue;
            }
        };
        let (wrap, answer) = (Arc::clone(&wrap), answer.clone());
        env.spawn("connection", async move {
            match wrap.wrap(stream).await {
                Ok(stream) => converse(stream, peer, answer).await,
                Err(error) => tracing::debug!(%error, %peer, "no handshake"),
            }
        });
    }
}

async fn converse<S, F, A>(stream: S, peer: SocketAddr, answer: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Asked) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let answer = match Limited::new(body, MOST_BYTES).collect().await {
                Ok(body) => {
                    let request = Request::from_parts(parts, body.to_bytes());
                    answer(Asked { peer, request }).await
                }
                Err(error) => text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            };
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new());
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, %peer, "a connection broke");
    }
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
