//! Questions that are answered from one look at the cluster.

use kai_client::kinds::Kind;
use kai_client::write::{Outcome, read};
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
pub async fn gpus(client: &Client, settings: &BinderSettings) -> Outcome<Vec<NodeGpus>> {
    let nodes = list::<view::Node>(client, Kind::Node).await?;
    let pods = list::<view::Pod>(client, Kind::Pod).await?;
    Ok(crate::gpus(nodes, pods, settings))
}

async fn list<T: DeserializeOwned>(client: &Client, kind: Kind) -> Outcome<Vec<T>> {
    let list: Option<List<T>> = read(client, kind.path()).await?;
    Ok(list.map(|list| list.items).unwrap_or_default())
}
