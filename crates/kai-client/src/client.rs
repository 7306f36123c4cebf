//! How a client is set up.

use std::path::Path;

use http::header::{HeaderValue, USER_AGENT};
use kube::client::{Body, ClientBuilder};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::util::MapRequestLayer;

/// User agent of requests; requests of one function of a process append the name of the function in brackets.
pub const USER_AGENT_NAME: &str = concat!("kai/", env!("CARGO_PKG_VERSION"));

/// Why there is no client. What lies below is part of the text, once: these errors have no sources.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(String),
    /// Neither a kubeconfig nor an in-cluster account was found.
    #[error(
        "cannot find a cluster: {kubeconfig}; and this process does not run in a pod: {in_cluster}"
    )]
    NoCluster {
        /// Why no kubeconfig could be used.
        kubeconfig: String,
        /// Why the environment does not.
        in_cluster: String,
    },
    /// The client cannot be built.
    #[error("cannot build a client: {0}")]
    Build(String),
}

impl ClientError {
    fn kubeconfig(error: &KubeconfigError) -> Self {
        Self::Kubeconfig(error.to_string())
    }

    fn no_cluster(kubeconfig: &KubeconfigError, in_cluster: &InClusterError) -> Self {
        let (kubeconfig, in_cluster) = (kubeconfig.to_string(), in_cluster.to_string());
        Self::NoCluster { kubeconfig, in_cluster }
    }
}

/// A client for the cluster of a kubeconfig, or of the environment where none is given. It repeats nothing by itself: an
/// answer such as 429 means something here.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|why| ClientError::kubeconfig(&why))?;
            let used = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            used.map_err(|why| ClientError::kubeconfig(&why))?
        }
        None => environment().await?,
    };
    config.default_retry = false;
    config.read_timeout = None;
    let build = |why: kube::Error| ClientError::Build(why.to_string());
    let introduce = MapRequestLayer::new(|mut request: http::Request<Body>| {
        let name = HeaderValue::from_static(USER_AGENT_NAME);
        request.headers_mut().entry(USER_AGENT).or_insert(name);
        request
    });
    Ok(ClientBuilder::try_from(config).map_err(build)?.with_layer(&introduce).build())
}

/// The cluster of the user's kubeconfig, or else the one in whose pod we are.
async fn environment() -> Result<Config, ClientError> {
    match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Ok(config) => Ok(config),
        Err(kubeconfig) => {
            Config::incluster().map_err(|why| ClientError::no_cluster(&kubeconfig, &why))
        }
    }
}
