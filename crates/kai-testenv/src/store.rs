//! What tests do to etcd itself, through the gateway that answers JSON beside gRPC.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

/// The revision of now.
pub(crate) fn revision(port: u16) -> anyhow::Result<u64> {
    let answer = ask(port, "/v3/kv/range", &json!({"key": "AA==", "keys_only": true}))?;
    let revision = answer["header"]["revision"].as_str();
    let revision = revision.with_context(|| format!("etcd reports no revision: {answer}"))?;
    revision.parse().with_context(|| format!("no number: {revision:?}"))
}

/// Forgets what was before a revision.
pub(crate) fn compact(port: u16, revision: u64) -> anyhow::Result<()> {
    let wanted = json!({"revision": revision.to_string(), "physical": true});
    let answer = ask(port, "/v3/kv/compaction", &wanted)?;
    ensure!(answer["header"].is_object(), "etcd did not compact: {answer}");
    Ok(())
}

fn ask(port: u16, path: &str, body: &Value) -> anyhow::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("etcd does not answer")?;
    let body = body.to_string();
    let length = body.len();
    // HTTP/1.0: the answer ends with the connection, in one piece.
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("etcd says nothing")?;
    serde_json::from_str(body).with_context(|| format!("etcd says {body:?}"))
}
