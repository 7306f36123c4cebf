//! `kai bundle`: one archive for a bug report. Read-only; no Secret, no environment and no command line of a workload.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kai_api::names::objects;
use kai_client::client;
use kai_client::failure::{Failure, sentence};
use kai_client::path::{Resource, segment};
use kai_control::snapshot;
use kai_image::Tree;
use kube::Client;
use serde_json::{Map, Value, json};

use crate::output;

/// Lines of the log of each pod of the installation.
const LOG_LINES: usize = 5_000;
const REMOVED: &str = "(removed)";
/// File of the archive with what could not be read, and why.
const UNREADABLE: &str = "unreadable.txt";

/// Lists in the archive beside those of the snapshot: the file and the path at the API server; `NS` is the namespace of the
/// scheduler.
const LISTS: [(&str, &str); 11] = [
    ("version", "/version"),
    ("namespaces", "/api/v1/namespaces"),
    ("events", "/apis/events.k8s.io/v1/events"),
    ("deployments", "/apis/apps/v1/namespaces/NS/deployments"),
    ("leases", "/apis/coordination.k8s.io/v1/namespaces/NS/leases"),
    ("configs", "/apis/kai.scheduler/v1/configs"),
    ("schedulingshards", "/apis/kai.scheduler/v1/schedulingshards"),
    ("poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets"),
    ("runtimeclasses", "/apis/node.k8s.io/v1/runtimeclasses"),
    ("mutatingwebhooks", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ("validatingwebhooks", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
];

/// File with the objects that the planner reads, in KAI's form.
const SNAPSHOT: &str = "snapshot.json";

/// Lists of the snapshot whose objects carry names that users chose.
const NAMED: [&str; 4] = ["nodes", "pods", "queues", "podGroups"];

/// Names that every installation has; they stay readable.
const WELL_KNOWN: [&str; 8] = [
    "default",
    objects::DEFAULT_QUEUE,
    objects::DEFAULT_PARENT_QUEUE,
    "kai-resource-reservation",
    "kai-scale-adjust",
    "kai-scheduler",
    "kube-system",
    "scheduler",
];

const EXAMPLES: &str = "\
Examples:
  kai bundle                                 write kai-bundle.tar
  kai bundle --hide-names -o report.tar      replace names of nodes, namespaces, queues and workloads";

/// Flags of `kai bundle`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BundleArguments {
    /// Path to the kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the in-cluster account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the scheduler.
    #[arg(long, default_value = "kai-scheduler", value_name = "NAME")]
    namespace: String,

    /// Replace names of nodes, namespaces, queues, pods, pod groups and their owners by numbers.
    #[arg(long, visible_alias = "hash-names")]
    hide_names: bool,

    /// Path of the archive to write.
    #[arg(long, short, default_value = "kai-bundle.tar", value_name = "FILE")]
    output: PathBuf,
}

/// Writes the archive; the exit status.
pub(crate) fn run(arguments: &BundleArguments) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let mut files = runtime.block_on(async {
        let client = client::connect(arguments.kubeconfig.as_deref()).await?;
        collect(&client, &arguments.namespace).await
    })?;
    if arguments.hide_names {
        hide_names(&mut files);
    }
    let mut tree = Tree::default();
    for (name, content) in &files {
        tree.file(&format!("kai-bundle/{name}"), content.as_str(), 0o644);
    }
    let path = &arguments.output;
    std::fs::write(path, tree.pack()?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    output::print(&format!("wrote {} with {} files\n", path.display(), files.len()))?;
    if let Some(unreadable) = files.get(UNREADABLE).filter(|lines| !lines.is_empty()) {
        output::complain(&format!("not in the archive, as {UNREADABLE} there says:\n{unreadable}"));
    }
    Ok(0)
}

/// Files of the archive by name.
async fn collect(client: &Client, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("KAI_COMMIT"));
    let own = json!({"kai": version, "commit": commit, "namespace": namespace});
    files.insert("kai.json".to_owned(), format!("{own:#}\n"));
    let mut unreadable = String::new();
    for (name, path) in LISTS {
        let path = path.replace("NS", &segment(namespace));
        match client.request::<Value>(get(&path)?).await {
            Ok(mut list) => {
                redact(&mut list);
                files.insert(format!("{name}.json"), format!("{list:#}\n"));
            }
            Err(kube::Error::Api(status)) if status.code != 401 => {
                let _ = writeln!(unreadable, "{path}: {} {}", status.code, status.message);
            }
            Err(error) => return Err(Failure::from(error)).context("nothing was written"),
        }
    }
    let mut objects = Map::new();
    for (name, listed) in snapshot::lists(client).await {
        match listed {
            Ok(list) => drop(objects.insert(name.to_owned(), list.into())),
            Err(error) => {
                let _ = writeln!(unreadable, "{name}: {}", sentence(error));
            }
        }
    }
    for (name, path) in texts(namespace, &objects) {
        match client.request_text(get(&path)?).await {
            Ok(text) => drop(files.insert(name, text)),
            Err(error) => {
                let _ = writeln!(unreadable, "{path}: {}", sentence(error));
            }
        }
    }
    files.insert(SNAPSHOT.to_owned(), format!("{:#}\n", json!({"rawObjects": objects})));
    files.insert(UNREADABLE.to_owned(), unreadable);
    Ok(files)
}

/// Metrics and logs of the pods of the installation: the file and the path at the API server.
fn texts(namespace: &str, objects: &Map<String, Value>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let collection = Resource::PODS.collection(namespace);
    let pods = objects.get("pods").and_then(Value::as_array).into_iter().flatten();
    for pod in pods.filter(|pod| pod["metadata"]["namespace"] == namespace) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{collection}/{}", segment(name));
        let log = format!("{path}/log?tailLines={LOG_LINES}");
        let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        if statuses.into_iter().any(|status| status["restartCount"] != 0) {
            texts.push((format!("logs/{name}-previous.txt"), format!("{log}&previous=true")));
        }
        texts.push((format!("logs/{name}.txt"), log));
        texts.push((format!("metrics/{name}.txt"), format!("{path}:8080/proxy/metrics")));
    }
    texts
}

fn get(path: &str) -> anyhow::Result<http::Request<Vec<u8>>> {
    http::Request::get(path).body(Vec::new()).context("a path of the API server is invalid")
}

/// Removes what a bug report does not need and may be secret.
fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            fields.remove("kubectl.kubernetes.io/last-applied-configuration");
            fields.remove("caBundle");
            for (key, field) in fields.iter_mut() {
                if key == "env" {
                    remove_values(field);
                } else {
                    redact(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Environment variables keep their names.
fn remove_values(variables: &mut Value) {
    for variable in variables.as_array_mut().into_iter().flatten() {
        if let Some(fields) = variable.as_object_mut().filter(|one| one.contains_key("value")) {
            fields.insert("value".to_owned(), json!(REMOVED));
        }
    }
}

/// Replaces names that users chose by numbers, the same name by the same number everywhere.
fn hide_names(files: &mut BTreeMap<String, String>) {
    let read = |file: &str| -> Value {
        files.get(file).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let (snapshot, namespaces) = (read(SNAPSHOT), read("namespaces.json"));
    let lists = NAMED.iter().map(|list| &snapshot["rawObjects"][*list]);
    let objects = lists.chain([&namespaces["items"]]).filter_map(Value::as_array).flatten();
    let mut names: Vec<String> =
        objects.flat_map(names_of).filter_map(Value::as_str).map(str::to_owned).collect();
    names.retain(|name| name.len() > 2 && !WELL_KNOWN.contains(&name.as_str()));
    names.sort();
    names.dedup();
    let mut numbered: Vec<(String, String)> = names
        .into_iter()
        .enumerate()
        .map(|(number, name)| (name, format!("name-{number:05}")))
        .collect();
    // A name may be part of a longer one.
    numbered.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let replace = |text: &str| {
        numbered.iter().fold(text.to_owned(), |text, (name, number)| text.replace(name, number))
    };
    *files =
        files.iter().map(|(name, text)| (replace_file(name, replace), replace(text))).collect();
}

/// Names in an object: its own, and those of its namespace and its owners.
fn names_of(object: &Value) -> Vec<&Value> {
    let metadata = &object["metadata"];
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owners = owners.map(|owner| &owner["name"]);
    [&metadata["name"], &metadata["namespace"]].into_iter().chain(owners).collect()
}

/// Logs and metrics are named after pods; the other files keep their names.
fn replace_file(name: &str, replace: impl Fn(&str) -> String) -> String {
    if name.contains('/') { replace(name) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> String {
        let owner = json!([{"kind": "Job", "name": "moonshot"}]);
        let pods = json!([
            {
                "metadata": {"name": "trainer-0", "namespace": "team-a", "ownerReferences": owner},
                "spec": {"nodeName": "gpu-17"},
            },
            {"metadata": {"name": "scheduler-1", "namespace": "kai-scheduler"}},
        ]);
        let nodes = json!([{"metadata": {"name": "gpu-17"}}]);
        json!({"rawObjects": {"pods": pods, "nodes": nodes}}).to_string()
    }

    #[test]
    fn secrets_are_removed_and_our_own_flags_stay() {
        let variable = json!({"name": "KEY", "value": "secret"});
        let container = json!({"args": ["run"], "env": [variable]});
        let mut list = json!({"items": [{
            "metadata": {"name": "scheduler", "managedFields": [{}]},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }]});
        redact(&mut list);
        let text = list.to_string();
        for secret in ["secret", "managedFields"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("\"KEY\"") && text.contains("\"args\":[\"run\"]"), "{text}");
    }

    #[test]
    fn log_and_metrics_of_every_pod_of_the_installation_are_asked_for() {
        let status = json!({"containerStatuses": [{"restartCount": 2}]});
        let ours =
            json!({"metadata": {"name": "scheduler-1", "namespace": "ns"}, "status": status});
        let other = json!({"metadata": {"name": "trainer-0", "namespace": "team-a"}});
        let objects = Map::from_iter([("pods".to_owned(), json!([ours, other]))]);
        let files: Vec<String> = texts("ns", &objects).into_iter().map(|(file, _)| file).collect();
        let expected =
            ["logs/scheduler-1-previous.txt", "logs/scheduler-1.txt", "metrics/scheduler-1.txt"];
        assert_eq!(files, expected);
    }

    #[test]
    fn hidden_names_are_the_same_number_everywhere() {
        let namespaces = json!({"items": [{"metadata": {"name": "team-b"}}]});
        let event = "bound team-a/trainer-0 of moonshot to gpu-17, not team-b".to_owned();
        let mut files = BTreeMap::from([
            (SNAPSHOT.to_owned(), snapshot()),
            ("namespaces.json".to_owned(), namespaces.to_string()),
            ("logs/scheduler-1.txt".to_owned(), event),
        ]);
        hide_names(&mut files);
        let all = format!("{files:?}");
        for name in ["gpu-17", "team-a", "team-b", "trainer-0", "moonshot", "scheduler-1"] {
            assert!(!all.contains(name), "{name}: {all}");
        }
        assert!(all.contains("kai-scheduler"), "well-known names stay: {all}");
        assert_eq!(all.matches("name-00000").count(), 3, "in nodes, pods and the log: {all}");
    }
}
