//! Clients of the servers of `kai` that trust its own authority.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts this authority, as the API server writes it: PEM in base64.
pub(crate) fn trusting(authority: &str) -> Arc<ClientConfig> {
    let mut trusted = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&decoded(authority)) {
        trusted.add(certificate.expect("a certificate")).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Arc::new(client)
}

/// A connection to a port of this machine under this name; none where it is closed at once.
pub(crate) fn connect(client: &Arc<ClientConfig>, name: &str, port: u16) -> Option<Tls> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::clone(client), name).expect("TLS");
    Some(StreamOwned::new(connection, stream))
}

/// Status and text of the answer to a `GET` with these headers, each with its line end; none where no server answers.
pub(crate) fn get(mut stream: Tls, path: &str, headers: &str) -> Option<(u16, String)> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: kai\r\nConnection: close\r\n{headers}\r\n")
        .ok()?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
}

/// Base64 as the API server writes it.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut bit_count, mut bytes) = (0_u32, 0, Vec::new());
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = DIGITS.iter().position(|one| *one == byte).expect("base64");
        bits = (bits << 6 | u32::try_from(digit).expect("a digit")) & 0xff_ffff;
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            bytes.push(u8::try_from(bits >> bit_count & 0xff).expect("a byte"));
        }
    }
    bytes
}
