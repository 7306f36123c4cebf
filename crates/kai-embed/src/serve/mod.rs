//! The API on a socket: TLS, and a token that every request must carry.

mod identity;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::Service;

pub use identity::{Identity, IdentityError};

use crate::failure::Failure;
use crate::service::{AnswerBody, Embedded};

/// Work that runs beside the caller's.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Paths that are served without a token.
const OPEN: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Serves connections for ever; each is given to `spawn`.
pub async fn serve(
    listener: TcpListener,
    identity: &Identity,
    embedded: Embedded,
    spawn: impl Fn(Work),
) -> Infallible {
    let acceptor = TlsAcceptor::from(identity.tls());
    let token: Arc<str> = format!("Bearer {}", identity.token()).into();
    loop {
        // A connection that fails during its handshake does not affect other connections.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, embedded, token) = (acceptor.clone(), embedded.clone(), Arc::clone(&token));
        spawn(Box::pin(connection(stream, acceptor, embedded, token)));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, embedded: Embedded, token: Arc<str>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut embedded, token) = (embedded.clone(), Arc::clone(&token));
        async move {
            if !is_allowed(&request, &token) {
                return Ok(unauthorized());
            }
            embedded.call(request).await
        }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    // A client that disconnects in the middle of an answer is not an error of the server.
    let _ = server.half_close(true).serve_connection(TokioIo::new(stream), service).await;
}

fn is_allowed(request: &Request<Incoming>, token: &str) -> bool {
    let given = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    OPEN.contains(&request.uri().path()) || given == Some(token.as_bytes())
}

fn unauthorized() -> Response<AnswerBody> {
    let body = Bytes::from(Failure::unauthorized().status().to_string());
    let mut response = Response::new(AnswerBody::Whole(Some(body)));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
