//! How a client is set up.

use std::path::Path;

use http::header::{HeaderValue, USER_AGENT};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("cannot read the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Nothing tells where the cluster is.
    #[error("cannot find a cluster: {0}")]
    Infer(#[from] kube::config::InferConfigError),
    /// The client cannot be built.
    #[error("cannot build a client: {0}")]
    Build(#[from] kube::Error),
}

/// A client for the cluster of a kubeconfig, or of the surroundings where none is given. It repeats nothing by itself: an
/// answer such as 429 means something here.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    };
    config.default_retry = false;
    config.read_timeout = None;
    let name = concat!("kai/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(name)));
    Ok(Client::try_from(config)?)
}
