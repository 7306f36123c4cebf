//! A simulated kubelet that answers on its socket as the test says.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;

/// What the kubelet answers.
pub(crate) type Answer = Arc<Mutex<Vec<u8>>>;

/// A field of protocol buffers.
pub(crate) fn field(number: u8, inner: &[u8]) -> Vec<u8> {
    let length = u8::try_from(inner.len()).expect("short");
    assert!(length < 0x80, "lengths of one byte");
    [&[number << 3 | 2, length], inner].concat()
}

/// A pod with one container.
pub(crate) fn pod(namespace: &str, name: &str, container: &[u8]) -> Vec<u8> {
    let pod = [field(1, name.as_bytes()), field(2, namespace.as_bytes()), field(3, container)];
    field(1, &pod.concat())
}

fn answer(
    answer: &Answer,
    request: &Request<Incoming>,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = Infallible> + use<>> {
    assert_eq!(request.uri().path(), "/v1.PodResourcesLister/List");
    let message = answer.lock().expect("it").clone();
    let length = u32::try_from(message.len()).expect("short");
    let body = [&[0], length.to_be_bytes().as_slice(), &message].concat();
    let trailers = async {
        let status = (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
        Some(Ok(HeaderMap::from_iter([status])))
    };
    let body = Full::new(Bytes::from(body)).with_trailers(trailers);
    Response::builder().header("content-type", "application/grpc").body(body).expect("it")
}

/// Plays the kubelet at a socket.
pub(crate) async fn serve(listener: UnixListener, message: Answer) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let message = Arc::clone(&message);
        let service = service_fn(move |request| {
            std::future::ready(Ok::<_, Infallible>(answer(&message, &request)))
        });
        let connection = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}
