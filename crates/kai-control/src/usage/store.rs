//! Where our own record is kept between two processes: one config map in the namespace of the installation, written every
//! five minutes and at the end.

use k8s_openapi::api::core::v1::ConfigMap;
use kai_client::env::Env;
use kai_client::path::Resource;
use kai_client::write::{Apply, Write, Writer, named, read};
use kai_core::input::ObjectName;
use kai_core::time::Span;
use kai_settings::planner::Settings;
use kai_translate::time::seconds;
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use crate::orders::Report;

/// Time between two writes.
pub const STORE_EVERY: Span = seconds(300);
/// The record is made to fit into so many bytes; a config map holds a million.
pub const MOST_BYTES: usize = 700_000;
/// Time before the record is read again.
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

    fn object(&self) -> ObjectName {
        ObjectName::new(self.namespace.as_str(), self.name.as_str())
    }
}

/// Reads what an earlier process wrote, for as long as it takes.
pub async fn load(client: Client, env: Env, place: Place, reports: Sender<Report>) {
    let path = Resource::CONFIG_MAPS.object(&place.object());
    loop {
        let text = match read::<Value>(&client, &path).await {
            Ok(object) => object.and_then(|object| object["data"][KEY].as_str().map(str::to_owned)),
            Err(failure) => {
                tracing::warn!(name = place.name, %failure, "failed to read the record of past usage");
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

/// Writes the record to its config map; a failure is only logged.
pub async fn save(writer: &Writer, place: &Place, text: &str) {
    let map = ConfigMap {
        metadata: named(&place.object()),
        data: Some([(KEY.to_owned(), text.to_owned())].into()),
        ..ConfigMap::default()
    };
    match writer.write(&Write::Apply(Apply::new(&map, MANAGER))).await {
        Ok(()) => tracing::info!(name = place.name, bytes = text.len(), "recorded past usage"),
        Err(failure) => tracing::warn!(name = place.name, %failure, "failed to record past usage"),
    }
}
