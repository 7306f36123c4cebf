//! The certificate of the server, and the token that clients present.

use std::sync::Arc;

use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// A certificate that is made for one run, and the token of the only user.
pub struct Identity {
    authority: String,
    tls: Arc<ServerConfig>,
    token: String,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

impl Identity {
    /// A new one for this machine. `token` must be a secret.
    pub fn new(token: String) -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "kai up");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = authority.self_signed(&key)?;
        let issuer = Issuer::new(authority, key);
        let mut server = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
        server.distinguished_name.push(DnType::CommonName, "kai up");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let certificate = server.signed_by(&server_key, &issuer)?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        Ok(Self { authority: own.pem(), tls: Arc::new(tls), token })
    }

    pub(super) fn tls(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.tls)
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The `cluster` entry of a kubeconfig for a server at `url`.
    pub fn kubeconfig_cluster(&self, url: &str) -> Value {
        json!({
            "server": url,
            "certificate-authority-data": ByteString(self.authority.clone().into_bytes()),
        })
    }

    /// The `user` entry of a kubeconfig.
    pub fn kubeconfig_user(&self) -> Value {
        json!({"token": self.token})
    }
}
