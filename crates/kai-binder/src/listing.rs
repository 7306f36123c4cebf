//! Questions that are answered from one look at the cluster.

use kai_client::kinds::Kind;
use kai_settings::binder::BinderSettings;
use kai_translate::view;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::NodeGpus;

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// The GPUs of the cluster, and who shares them.
pub async fn gpus(
    client: &Client,
    settings: &BinderSettings,
) -> Result<Vec<NodeGpus>, kube::Error> {
    let nodes = list::<view::Node>(client, Kind::Node).await?;
    let pods = list::<view::Pod>(client, Kind::Pod).await?;
    Ok(crate::gpus(nodes, pods, settings))
}

async fn list<T: DeserializeOwned>(client: &Client, kind: Kind) -> Result<Vec<T>, kube::Error> {
    let request =
        http::Request::get(kind.path()).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let list: List<T> = client.request(request).await?;
    Ok(list.items)
}
