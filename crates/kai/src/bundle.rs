//! `kai bundle`: one archive for a bug report. Read-only; no Secret, no environment and no command line of a workload.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kai_client::client;
use kai_image::Tree;
use kube::Client;
use serde_json::{Value, json};

use crate::output;

/// Lines of each scheduler's log.
const LOG_LINES: usize = 5_000;
const REMOVED: &str = "(removed)";

/// Lists in the archive: the file and the path at the API server; `NS` is the namespace of the scheduler.
const LISTS: [(&str, &str); 18] = [
    ("version", "/version"),
    ("nodes", "/api/v1/nodes"),
    ("pods", "/api/v1/pods"),
    ("events", "/apis/events.k8s.io/v1/events"),
    ("deployments", "/apis/apps/v1/namespaces/NS/deployments"),
    ("leases", "/apis/coordination.k8s.io/v1/namespaces/NS/leases"),
    ("queues", "/apis/scheduling.run.ai/v2/queues"),
    ("podgroups", "/apis/scheduling.run.ai/v2alpha2/podgroups"),
    ("bindrequests", "/apis/scheduling.run.ai/v1alpha2/bindrequests"),
    ("topologies", "/apis/kai.scheduler/v1alpha1/topologies"),
    ("configs", "/apis/kai.scheduler/v1/configs"),
    ("schedulingshards", "/apis/kai.scheduler/v1/schedulingshards"),
    ("priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("poddisruptionbudgets", "/apis/policy/v1/poddisruptionbudgets"),
    ("resourceclaims", "/apis/resource.k8s.io/v1/resourceclaims"),
    ("runtimeclasses", "/apis/node.k8s.io/v1/runtimeclasses"),
    ("mutatingwebhooks", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ("validatingwebhooks", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
];

/// Lists whose objects carry names that users chose.
const NAMED: [&str; 4] = ["nodes", "pods", "queues", "podgroups"];

/// Names that every installation has; they stay readable.
const WELL_KNOWN: [&str; 8] = [
    "default",
    "default-queue",
    "default-parent-queue",
    "kai-resource-reservation",
    "kai-scale-adjust",
    "kai-scheduler",
    "kube-system",
    "scheduler",
];

const EXAMPLES: &str = "\
Examples:
  kai bundle                                 write kai-bundle.tar
  kai bundle --hide-names -o report.tar      replace names of nodes, namespaces, pods and queues";

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

    /// Replace names of nodes, namespaces, pods, pod groups and queues by numbers.
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
    Ok(0)
}

/// Files of the archive by name. What cannot be read is in `unreadable.txt`.
async fn collect(client: &Client, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let own = json!({"kai": env!("CARGO_PKG_VERSION"), "namespace": namespace});
    files.insert("kai.json".to_owned(), format!("{own:#}\n"));
    let mut unreadable = String::new();
    for (name, path) in LISTS {
        let path = path.replace("NS", namespace);
        match client.request::<Value>(get(&path)?).await {
            Ok(mut list) => {
                redact(&mut list, namespace);
                files.insert(format!("{name}.json"), format!("{list:#}\n"));
            }
            Err(kube::Error::Api(status)) => {
                let _ = writeln!(unreadable, "{path}: {} {}", status.code, status.message);
            }
            Err(error) => return Err(error).context("the API server does not answer"),
        }
    }
    let metrics = format!("/api/v1/namespaces/{namespace}/services/scheduler:8080/proxy/metrics");
    let mut texts = vec![("metrics.txt".to_owned(), metrics)];
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    if let Ok(list) = client.request::<Value>(get(&pods)?).await {
        for pod in list["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let log = format!("{pods}/{name}/log?tailLines={LOG_LINES}");
            texts.push((format!("logs/{name}.txt"), log));
        }
    }
    for (name, path) in texts {
        match client.request_text(get(&path)?).await {
            Ok(text) => drop(files.insert(name, text)),
            Err(error) => {
                let _ = writeln!(unreadable, "{path}: {error}");
            }
        }
    }
    files.insert("unreadable.txt".to_owned(), unreadable);
    Ok(files)
}

fn get(path: &str) -> anyhow::Result<http::Request<Vec<u8>>> {
    http::Request::get(path).body(Vec::new()).context("a path of the API server is invalid")
}

/// Removes what a bug report does not need and may be secret.
fn redact(value: &mut Value, namespace: &str) {
    let items = value.pointer_mut("/items").and_then(Value::as_array_mut).into_iter().flatten();
    for object in items {
        let is_ours = object["metadata"]["namespace"] == namespace;
        redact_object(object, is_ours);
    }
}

fn redact_object(value: &mut Value, is_ours: bool) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            fields.remove("kubectl.kubernetes.io/last-applied-configuration");
            fields.remove("caBundle");
            for (key, field) in fields.iter_mut() {
                match key.as_str() {
                    "env" => remove_values(field),
                    "command" | "args" if !is_ours => *field = json!([REMOVED]),
                    _ => redact_object(field, is_ours),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_object(item, is_ours)),
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
    let mut names: Vec<String> = Vec::new();
    for list in NAMED {
        let text = files.get(&format!("{list}.json")).map(String::as_str).unwrap_or_default();
        let list: Value = serde_json::from_str(text).unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            let found = [&metadata["name"], &metadata["namespace"]];
            names.extend(found.into_iter().filter_map(Value::as_str).map(str::to_owned));
        }
    }
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

/// Logs are named after pods; the other files keep their names.
fn replace_file(name: &str, replace: impl Fn(&str) -> String) -> String {
    if name.starts_with("logs/") { replace(name) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Value {
        let container = json!({"command": ["train", "--token=abc"], "env": [{"name": "KEY", "value": "secret"}]});
        json!({"items": [
            {
                "metadata": {"name": "trainer-0", "namespace": "team-a", "managedFields": [{}]},
                "spec": {"containers": [container], "nodeName": "gpu-17"},
            },
            {
                "metadata": {"name": "scheduler-1", "namespace": "kai-scheduler"},
                "spec": {"containers": [{"args": ["run"], "env": []}]},
            },
        ]})
    }

    #[test]
    fn secrets_of_workloads_are_removed_and_our_own_flags_stay() {
        let mut list = list();
        redact(&mut list, "kai-scheduler");
        let text = list.to_string();
        for secret in ["secret", "abc", "managedFields"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("\"KEY\"") && text.contains("\"args\":[\"run\"]"), "{text}");
    }

    #[test]
    fn hidden_names_are_the_same_number_everywhere() {
        let nodes = json!({"items": [{"metadata": {"name": "gpu-17"}}]});
        let mut files = BTreeMap::from([
            ("pods.json".to_owned(), list().to_string()),
            ("nodes.json".to_owned(), nodes.to_string()),
            ("logs/scheduler-1.txt".to_owned(), "bound team-a/trainer-0 to gpu-17".to_owned()),
        ]);
        hide_names(&mut files);
        let all = format!("{files:?}");
        for name in ["gpu-17", "team-a", "trainer-0", "scheduler-1"] {
            assert!(!all.contains(name), "{name}: {all}");
        }
        assert!(all.contains("kai-scheduler"), "well-known names stay: {all}");
        assert_eq!(all.matches("name-00000").count(), 3, "in nodes, pods and the log: {all}");
    }
}
