//! Encrypted connections, with a certificate that can be renewed while connections are open.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::http::Wrap;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the certificate cannot be used: {0}")]
pub struct TlsError(String);

/// TLS of a server, with a certificate that can be replaced while it runs.
pub struct Tls {
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// With this certificate and its key, both as PEM.
    pub fn new(certificate: &str, key: &str) -> Result<Self, TlsError> {
        Ok(Self { config: RwLock::new(server_config(certificate, key)?) })
    }

    /// Uses another certificate for connections from now on.
    pub fn renew(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        let config = server_config(certificate, key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }
}

impl Wrap for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn wrap(&self, stream: TcpStream) -> std::io::Result<Self::Stream> {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream).await
    }
}

fn server_config(certificate: &str, key: &str) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |error: &dyn std::fmt::Display| TlsError(error.to_string());
    let chain: Result<Vec<CertificateDer<'_>>, _> =
        CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain =
        chain.map_err(|error| unusable(&error))?.into_iter().map(CertificateDer::into_owned);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| unusable(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .map_err(|error| unusable(&error))?;
    Ok(Arc::new(config))
}
