//! The little of gRPC and of protocol buffers that one call without arguments takes.

use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use kai_client::env::Env;
use kai_core::time::Span;
use tokio::net::UnixStream;

/// Longest answer of the kubelet that is read.
const MOST_BYTES: usize = 16 << 20;
/// A flag and the length of what follows.
const PREFIX: usize = 5;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The socket does not exist, or nothing listens on it.
    #[error("{0}: {1}")]
    Unreachable(String, std::io::Error),
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    /// No answer came, or it was too long.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// The other side refused.
    #[error("refused with status {0}: {1}")]
    Refused(String, String),
    /// The answer makes no sense.
    #[error("the answer makes no sense")]
    Unreadable,
}

/// Calls a method with an empty message; the message that is answered.
pub(super) async fn call(
    env: &Env,
    socket: &Path,
    method: &str,
    patience: Span,
) -> Result<Bytes, CallError> {
    tokio::select! { biased;
        answer = call_patiently(env, socket, method) => answer,
        () = env.sleep(patience) => Err(CallError::NoAnswer("it took too long".to_owned())),
    }
}

/// Background work of the connection.
#[derive(Clone)]
struct Executor(Env);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.spawn("a connection", work);
    }
}

async fn call_patiently(env: &Env, socket: &Path, method: &str) -> Result<Bytes, CallError> {
    let stream = UnixStream::connect(socket).await;
    let stream =
        stream.map_err(|error| CallError::Unreachable(socket.display().to_string(), error))?;
    let (mut sender, connection) =
        http2::handshake(Executor(env.clone()), TokioIo::new(stream)).await?;
    env.spawn("the kubelet's socket", async move {
        // The caller receives how it ended.
        let _ = connection.await;
    });
    let request = http::Request::post(format!("http://localhost{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(&[0; PREFIX])))
        .map_err(|error| CallError::NoAnswer(error.to_string()))?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let collected = Limited::new(body, MOST_BYTES).collect().await;
    let collected = collected.map_err(|error| CallError::NoAnswer(error.to_string()))?;
    // A refusal may come at once, without a body.
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let header = |name: &str| {
        let value = trailers.get(name).or_else(|| head.headers.get(name));
        value.and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    match header("grpc-status").as_deref() {
        Some("0") => unframed(&collected.to_bytes()),
        status => {
            let status = status.map_or_else(|| head.status.to_string(), str::to_owned);
            Err(CallError::Refused(status, header("grpc-message").unwrap_or_default()))
        }
    }
}

/// The one message of a body; we ask for no compression.
fn unframed(body: &Bytes) -> Result<Bytes, CallError> {
    let prefix = body.get(..PREFIX).ok_or(CallError::Unreadable)?;
    let length: [u8; 4] = prefix[1..].try_into().map_err(|_| CallError::Unreadable)?;
    let end = PREFIX.saturating_add(u32::from_be_bytes(length) as usize);
    if prefix[0] != 0 || body.len() < end {
        return Err(CallError::Unreadable);
    }
    Ok(body.slice(PREFIX..end))
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    /// Text, bytes or another message.
    Bytes(&'a [u8]),
    /// Something of a fixed size that we do not use.
    Other,
}

impl Field<'_> {
    /// The numbers of a list, packed or not.
    pub(super) fn numbers(self) -> Option<Vec<u64>> {
        match self {
            Self::Number(number) => Some(vec![number]),
            Self::Bytes(mut bytes) => {
                let mut numbers = Vec::new();
                while !bytes.is_empty() {
                    numbers.push(number(&mut bytes)?);
                }
                Some(numbers)
            }
            Self::Other => None,
        }
    }
}

/// A message, field by field; none where it makes no sense, and then no more.
pub(super) struct Message<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Message<'a> {
    type Item = Option<(u64, Field<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Message<'a> {
    fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let tag = number(&mut self.0)?;
        let field = match tag & 7 {
            0 => Field::Number(number(&mut self.0)?),
            1 => self.take(8).map(|_| Field::Other)?,
            2 => {
                let length = usize::try_from(number(&mut self.0)?).ok()?;
                Field::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Field::Other)?,
            _ => return None,
        };
        Some((tag >> 3, field))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Seven bits a byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
