//! A cluster as its API shows it.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kai_api::names::objects::{NAMESPACE, RESERVATION, SCHEDULER_NAME};
use kai_api::names::workload::QUEUE;
use kai_client::client;
use kai_client::failure::Failure;
use kai_client::path::Resource;
use kai_core::input::ObjectName;
use kai_doctor::cluster::{ClusterFacts, Expectations, LISTINGS, examine as judge};
use kai_doctor::finding::Findings;
use kai_install::manifests;
use kube::Client;
use serde_json::{Map, Value};

/// Objects per page of a list.
const PAGE: usize = 500;
/// Number of log lines that show why a program ended.
const LAST_LINES: usize = 20;

/// Which cluster, and what it was installed as.
#[derive(Args)]
pub(super) struct ClusterArguments {
    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Check pods with this spec.schedulerName.
    #[arg(long, default_value = SCHEDULER_NAME, value_name = "NAME")]
    scheduler_name: String,

    /// Label that names the queue of a workload.
    #[arg(long, default_value = QUEUE, value_name = "KEY")]
    queue_label_key: String,

    /// Namespace of the installation.
    #[arg(long, default_value = NAMESPACE, value_name = "NAME")]
    namespace: String,

    /// Namespace of reservation pods.
    #[arg(long, default_value = RESERVATION, value_name = "NAME")]
    resource_reservation_namespace: String,

    /// Check only what matters when a cluster is taken over from the KAI Scheduler.
    #[arg(long)]
    from_kai: bool,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub(super) json: bool,
}

/// Lists what checks need and runs them.
pub(super) fn examine(arguments: &ClusterArguments) -> anyhow::Result<Findings> {
    let expected = Expectations {
        scheduler_name: arguments.scheduler_name.clone(),
        queue_label: arguments.queue_label_key.clone(),
        namespace: arguments.namespace.clone(),
        reservation_namespace: arguments.resource_reservation_namespace.clone(),
        manifests: serde_saphyr::from_multiple(&manifests::all())
            .context("cannot read our own manifests")?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let facts = runtime.block_on(async {
        let client = client::connect(arguments.kubeconfig.as_deref()).await?;
        facts(&client, &expected).await
    })?;
    let mut found = judge(&facts, &expected);
    if arguments.from_kai {
        found.findings.retain(|finding| finding.check.is_about_take_over());
    }
    Ok(found)
}

async fn facts(client: &Client, expected: &Expectations) -> anyhow::Result<ClusterFacts> {
    let mut lists = Map::new();
    let mut unreadable = Vec::new();
    for listing in LISTINGS {
        match list(client, listing.path).await {
            Ok(objects) => {
                lists.insert(listing.part.to_owned(), Value::Array(objects));
            }
            // Of a group that it does not know the server says so in plain text.
            Err(kube::Error::Api(status)) if status.code == 404 && listing.optional => {}
            Err(kube::Error::Api(status)) if status.code != 401 => {
                unreadable.push((listing.path, status.message));
            }
            Err(error) => return Err(Failure::from(error)).context("nothing was checked"),
        }
    }
    let facts = ClusterFacts::read(Value::Object(lists));
    let mut facts = facts.context("the API server's answers are not understood")?;
    for (path, why) in unreadable {
        facts.add_unreadable(path, why);
    }
    for (namespace, name) in facts.silent_reservations(expected) {
        if let Some(log) = log(client, &namespace, &name).await {
            facts.add_log(format!("{namespace}/{name}"), log);
        }
    }
    Ok(facts)
}

/// Every object of a list.
async fn list(client: &Client, path: &str) -> Result<Vec<Value>, kube::Error> {
    let mut objects = Vec::new();
    let mut from = String::new();
    loop {
        let mut page: Value = client.request(get(&format!("{path}?limit={PAGE}{from}"))?).await?;
        if let Some(Value::Array(items)) = page.pointer_mut("/items").map(Value::take) {
            objects.extend(items);
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => from = format!("&continue={token}"),
            _ => return Ok(objects),
        }
    }
}

/// What a pod said last, in this life or the one before.
async fn log(client: &Client, namespace: &str, name: &str) -> Option<String> {
    let pod = Resource::PODS.object(&ObjectName::new(namespace, name));
    let path = format!("{pod}/log?tailLines={LAST_LINES}");
    let mut log = String::new();
    for path in [format!("{path}&previous=true"), path] {
        // There may be no earlier life, or no container yet.
        if let Ok(text) = client.request_text(get(&path).ok()?).await {
            log.push_str(&text);
        }
    }
    (!log.is_empty()).then_some(log)
}

fn get(path: &str) -> Result<http::Request<Vec<u8>>, kube::Error> {
    http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)
}
