//! Where our own record is kept between two processes: one config map in the namespace of the installation, written every
//! five minutes and at the end.

use kai_client::env::Env;
use kai_client::request::{APPLY_PATCH, send};
use kai_core::time::Span;
use kai_settings::planner::Settings;
use kai_translate::time::seconds;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use crate::orders::Report;

/// Time between two writes.
pub const STORE_EVERY: Span = seconds(300);
/// The record is made to fit into so many bytes; a config map holds a million.
pub const MOST_BYTES: usize = 700_000;
/// Time before the record is asked for again.
const AGAIN: Span = seconds(10);

const KEY: &str = "usage.json";
const MANAGER: &str = "kai-scheduler";

/// The object that holds the record of one planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Namespace of the installation.
    pub namespace: String,
    /// Name of the config map.
    pub name: String,
}

impl Place {
    /// The place of the planner with these settings.
    pub fn of(settings: &Settings) -> Self {
        let partition = settings.partition.name();
        Self::new(&settings.namespace, &settings.rules.scheduler_name, partition)
    }

    /// The place of the planner of a part of the cluster.
    pub fn new(namespace: &str, scheduler: &str, partition: Option<&str>) -> Self {
        let of_partition = partition.map_or_else(String::new, |part| format!("-{part}"));
        Self { namespace: namespace.to_owned(), name: format!("{scheduler}-usage{of_partition}") }
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps/{}", self.namespace, self.name)
    }
}

/// Reads what an earlier process wrote, for as long as it takes.
pub async fn load(client: Client, env: Env, place: Place, reports: Sender<Report>) {
    loop {
        let request = http::Request::get(place.path()).body(Vec::new());
        let asked = match request {
            Ok(request) => client.request::<Value>(request).await,
            Err(error) => return tracing::warn!(name = place.name, %error, "no record is read"),
        };
        let text = match asked {
            Ok(object) => object["data"][KEY].as_str().map(str::to_owned),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => {
                tracing::warn!(name = place.name, %error, "the record of past usage was not read");
                tokio::select! { biased;
                    () = reports.closed() => return,
                    () = env.sleep(AGAIN) => continue,
                }
            }
        };
        let _ = reports.send(Report::UsageLoaded(text)).await;
        return;
    }
}

/// Writes the record.
pub async fn save(client: &Client, place: &Place, text: &str) {
    let path = format!("{}?fieldManager={MANAGER}&force=true", place.path());
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": place.name, "namespace": place.namespace},
        "data": {KEY: text},
    });
    match send::<Value>(client, "PATCH", &path, Some(APPLY_PATCH), &object).await {
        Ok(_) => tracing::info!(name = place.name, bytes = text.len(), "past usage recorded"),
        Err(error) => tracing::warn!(name = place.name, %error, "past usage was not recorded"),
    }
}
