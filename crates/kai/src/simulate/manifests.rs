//! Manifests: read, put in order, created.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kai_embed::failure::Failure;
use kai_embed::nodes::SIM_DURATION;
use kai_embed::object::{items, name, namespace, set_default, text};
use kai_embed::{Cluster, Key};
use serde_json::{Value, json};

use super::yaml::Document;

/// Something wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    file: PathBuf,
    line: u64,
    field: String,
    message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = (self.file.display(), self.line);
        if self.field.is_empty() {
            write!(formatter, "{file}:{line}: {}", self.message)
        } else {
            write!(formatter, "{file}:{line}: {}: {}", self.field, self.message)
        }
    }
}

/// An object and where it stands.
struct Manifest {
    file: PathBuf,
    document: Document,
}

/// All objects, in the order in which they are created.
pub(crate) struct Manifests(Vec<Manifest>);

/// What must be there before anything else; the rest comes as it is written.
const FIRST: [&str; 8] = [
    "CustomResourceDefinition",
    "Namespace",
    "ServiceAccount",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "Queue",
    "Node",
];

/// Fields of an object that was read from a cluster and is not a part of what is wanted.
const FROM_A_CLUSTER: [&str; 6] =
    ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"];

impl Manifests {
    /// Reads files and folders.
    pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Result<Self, Vec<Fault>>> {
        let mut files = Vec::new();
        for path in paths {
            find(path, true, &mut files)?;
        }
        let (mut manifests, mut faults) = (Vec::new(), Vec::new());
        for file in files {
            let text = read_file(&file)?;
            match Document::read(&text) {
                Ok(documents) => manifests.extend(
                    documents
                        .into_iter()
                        .flat_map(Document::items)
                        .map(|document| Manifest { file: file.clone(), document }),
                ),
                Err((line, message)) => {
                    faults.push(Fault { file, line, field: String::new(), message });
                }
            }
        }
        if !faults.is_empty() {
            return Ok(Err(faults));
        }
        if manifests.is_empty() && !paths.is_empty() {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            anyhow::bail!(
                "no manifests in {}: files must hold YAML or JSON, and files of a folder must end in .yaml, .yml or .json",
                names.join(", ")
            );
        }
        manifests.sort_by_key(|manifest| {
            let kind = text(&manifest.document.value["kind"]);
            FIRST.iter().position(|first| *first == kind).unwrap_or(FIRST.len())
        });
        Ok(Ok(Self(manifests)))
    }

    fn objects(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|manifest| &manifest.document.value)
    }

    /// Whether the manifests bring nodes.
    pub(crate) fn has_nodes(&self) -> bool {
        self.objects().any(|object| object["kind"] == "Node")
    }

    /// Whether pods end by themselves.
    pub(super) fn has_ends(&self) -> bool {
        self.objects().any(|object| object.to_string().contains(SIM_DURATION))
    }

    /// Creates everything; what is wrong with it.
    pub(crate) fn create(&self, cluster: &mut Cluster) -> Vec<Fault> {
        self.create_warned(cluster).0
    }

    /// Creates everything; what is wrong with it, and what its author should know.
    pub(super) fn create_warned(&self, cluster: &mut Cluster) -> (Vec<Fault>, Vec<Fault>) {
        let (mut faults, mut warnings) = (Vec::new(), Vec::new());
        let owners: BTreeSet<(&str, &str, &str)> = self.objects().map(identity).collect();
        let mut skipped: BTreeMap<&str, Vec<&Manifest>> = BTreeMap::new();
        for manifest in &self.0 {
            if let Some(why) = skip_reason(&manifest.document.value, &owners) {
                skipped.entry(why).or_default().push(manifest);
                continue;
            }
            cluster.take_warnings();
            faults.extend(manifest.create(cluster));
            let texts = cluster.take_warnings();
            warnings
                .extend(texts.iter().map(|text| manifest.fault("", &format!("warning: {text}"))));
        }
        for (why, manifests) in skipped {
            let first = manifests[0];
            let (kind, _, name) = identity(&first.document.value);
            let others = match manifests.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} other objects"),
            };
            warnings.push(first.fault("", &format!("skipped {kind} {name}{others}: {why}")));
        }
        (faults, warnings)
    }
}

/// Path that means standard input.
const STDIN: &str = "-";

fn read_file(path: &Path) -> anyhow::Result<String> {
    if path == Path::new(STDIN) {
        return io::read_to_string(io::stdin()).context("cannot read standard input");
    }
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The files of a path; folders are searched for YAML and JSON.
fn find(path: &Path, named: bool, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = fs::read_dir(path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .with_context(|| format!("cannot read {}", path.display()))?;
        inside.sort();
        return inside.iter().try_for_each(|path| find(path, false, files));
    }
    let is_manifest = path
        .extension()
        .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
    if named || is_manifest {
        files.push(path.to_path_buf());
    }
    Ok(())
}

impl Manifest {
    fn create(&self, cluster: &mut Cluster) -> Vec<Fault> {
        let mut object = self.document.value.clone();
        if !object.is_object() {
            return vec![self.fault("", "an object is expected")];
        }
        for field in ["apiVersion", "kind"] {
            if text(&object[field]).is_empty() {
                return vec![self.fault(field, "must be set")];
            }
        }
        let kinds = cluster.kinds();
        let Some(resource) = kinds.of_kind(text(&object["apiVersion"]), text(&object["kind"]))
        else {
            let (version, kind) = (&object["apiVersion"], &object["kind"]);
            return vec![self.fault("kind", &format!("no kind {kind} is known in {version}"))];
        };
        if resource.namespaced {
            set_default(&mut object, &["metadata", "namespace"], json!("default"));
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !FROM_A_CLUSTER.contains(&key.as_str()));
            // The UIDs of a dump name nothing here, and objects without their owner are deleted.
            metadata.shift_remove("ownerReferences");
        }
        make_up(cluster, &object);
        let bad_spans = bad_spans(&object, "");
        if !bad_spans.is_empty() {
            let fault = |(field, span): &(String, String)| {
                self.fault(field, &format!("{span:?} is no duration such as 90s or 1h30m"))
            };
            return bad_spans.iter().map(fault).collect();
        }
        let made = match cluster.make_strictly(&object) {
            // What an install brings may be given again, and then counts as given.
            Err(failure) if failure.reason == "AlreadyExists" => cluster.replace(&object),
            made => made,
        };
        let made = made.and_then(|_| {
            let has_status = object["kind"] == "Node" && object["status"].is_object();
            if has_status { cluster.set_status(&object) } else { Ok(()) }
        });
        made.err().map_or_else(Vec::new, |failure| self.faults(&failure))
    }

    fn fault(&self, field: &str, message: &str) -> Fault {
        Fault {
            file: self.file.clone(),
            line: self.document.line(field),
            field: field.to_owned(),
            message: message.to_owned(),
        }
    }

    /// One fault per field that is named.
    fn faults(&self, failure: &Failure) -> Vec<Fault> {
        if failure.fields.is_empty() {
            let field = self.document.mark_named_in(&failure.message).unwrap_or_default();
            return vec![self.fault(field, &failure.message)];
        }
        failure.fields.iter().map(|(field, message)| self.fault(field, message)).collect()
    }
}

/// Kind, namespace and name.
fn identity(object: &Value) -> (&str, &str, &str) {
    (text(&object["kind"]), namespace(object), name(object))
}

/// Why an object of a dump is not created; none where it is.
fn skip_reason(object: &Value, owners: &BTreeSet<(&str, &str, &str)>) -> Option<&'static str> {
    let (kind, space, _) = identity(object);
    if kind == "Pod" && matches!(text(&object["status"]["phase"]), "Succeeded" | "Failed") {
        return Some("the pod has ended");
    }
    let is_created_by_owner = items(&object["metadata"]["ownerReferences"]).any(|owner| {
        let (kind, name) = (text(&owner["kind"]), text(&owner["name"]));
        owners.contains(&(kind, space, name)) || owners.contains(&(kind, "", name))
    });
    is_created_by_owner.then_some("its owner is in the manifests and creates its objects itself")
}

/// Namespaces and accounts that an object needs and no manifest creates.
fn make_up(cluster: &mut Cluster, object: &Value) {
    let space = namespace(object).to_owned();
    if space.is_empty() {
        return;
    }
    if cluster.get(("", "namespaces"), &Key::new("", space.as_str())).is_none() {
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
        // A name that cannot be one is found when the object itself is created.
        let _ = cluster.make(&made);
    }
    for account in accounts(object) {
        if cluster
            .get(("", "serviceaccounts"), &Key::new(space.as_str(), account.as_str()))
            .is_none()
        {
            let made = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": space}});
            let _ = cluster.make(&made);
        }
    }
}

/// Durations of pods that are none, wherever in an object a pod is described, with their fields.
fn bad_spans(value: &Value, path: &str) -> Vec<(String, String)> {
    let Some(map) = value.as_object() else {
        let items = value.as_array().into_iter().flatten().enumerate();
        return items.flat_map(|(at, item)| bad_spans(item, &format!("{path}[{at}]"))).collect();
    };
    let below = |(key, value): (&String, &Value)| {
        let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value.as_str() {
            Some(span) if key == SIM_DURATION && !kai_embed::nodes::is_span(span) => {
                vec![(place, span.to_owned())]
            }
            Some(_) => Vec::new(),
            None => bad_spans(value, &place),
        }
    };
    map.iter().flat_map(below).collect()
}

/// Every account that is named anywhere in an object.
fn accounts(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("serviceAccountName", Some(account)) if !account.is_empty() => {
                    vec![account.to_owned()]
                }
                _ => accounts(value),
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(accounts).collect(),
        _ => Vec::new(),
    }
}
