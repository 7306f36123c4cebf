//! Settings of the grouper.

use std::collections::BTreeMap;

use kai_api::names::{objects, workload};
use kai_api::view::Pod;
use serde::Deserialize;

/// Settings of the grouper. The default is KAI's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of the command line
pub struct GrouperConfig {
    /// Pods with this `spec.schedulerName` are grouped.
    pub scheduler_name: String,
    /// Key of the queue label.
    pub queue_label_key: String,
    /// Key of the node-pool label.
    pub node_pool_label_key: String,
    /// Pods must carry all of these labels.
    pub pod_selector: BTreeMap<String, String>,
    /// Namespaces must carry all of these labels.
    pub namespace_selector: BTreeMap<String, String>,
    /// Groups made by older releases are looked for and kept.
    pub search_legacy_groups: bool,
    /// A Knative revision is one group, not one per pod.
    pub knative_gang: bool,
    /// Kinds without a rule may be described by `Karta` objects.
    pub karta: bool,
    /// Pods that name a Kubernetes `Workload` are grouped by it.
    pub workload_api: bool,
    /// A `Job` that says nothing else is a gang of its parallelism.
    pub job_gang_from_parallelism: bool,
    /// Service accounts of pods need the verb `use` on queue and priority class.
    pub authorize_queues: bool,
    /// Default priority class and preemptibility per kind.
    pub kind_defaults: KindDefaults,
}

impl Default for GrouperConfig {
    fn default() -> Self {
        Self {
            scheduler_name: objects::SCHEDULER_NAME.to_owned(),
            queue_label_key: workload::QUEUE.to_owned(),
            node_pool_label_key: workload::NODE_POOL.to_owned(),
            pod_selector: BTreeMap::new(),
            namespace_selector: BTreeMap::new(),
            search_legacy_groups: true,
            knative_gang: true,
            karta: true,
            workload_api: true,
            job_gang_from_parallelism: false,
            authorize_queues: false,
            kind_defaults: KindDefaults::default(),
        }
    }
}

impl GrouperConfig {
    /// Whether pods with these labels are grouped.
    pub fn selects_pod(&self, pod: &Pod) -> bool {
        matches(&self.pod_selector, &pod.metadata.labels)
    }

    /// Whether pods of a namespace with these labels are grouped.
    pub fn selects_namespace(&self, labels: &BTreeMap<String, String>) -> bool {
        matches(&self.namespace_selector, labels)
    }
}

fn matches(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Reads `k=v,k2=v2`. Returns parts without `=`, so that the caller can report them.
pub fn parse_selector(text: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut labels, mut ignored) = (BTreeMap::new(), Vec::new());
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((key, value)) => {
                labels.insert(key.trim().to_owned(), value.trim().to_owned());
            }
            None => ignored.push(part.to_owned()),
        }
    }
    (labels, ignored)
}

/// Priority class and preemptibility of kinds whose workloads say nothing themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindDefaults(BTreeMap<String, KindDefault>);

/// The defaults of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindDefault {
    /// Name of a `PriorityClass`; empty for none.
    pub priority_class: String,
    /// `preemptible`, `non-preemptible`, or empty for none.
    pub preemptibility: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct KindDefaultEntry {
    type_name: String,
    group: String,
    priority_name: String,
    preemptibility: String,
}

/// Why the defaults per kind cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the defaults per kind (key `types`) are not a JSON list of typeName, group, priorityName, preemptibility: {0}"
)]
pub struct KindDefaultsError(#[from] serde_json::Error);

impl KindDefaults {
    /// Reads the value of the key `types` of the defaults `ConfigMap`. The last of equal entries wins.
    pub fn parse(types: &str) -> Result<Self, KindDefaultsError> {
        let entries: Vec<KindDefaultEntry> = serde_json::from_str(types)?;
        let defaults = entries.into_iter().map(|entry| {
            let default = KindDefault {
                priority_class: entry.priority_name,
                preemptibility: entry.preemptibility.to_lowercase(),
            };
            (kind_key(&entry.type_name, &entry.group), default)
        });
        Ok(Self(defaults.collect()))
    }

    /// The defaults of a kind: the entry for its group, else the entry for any group.
    pub fn of(&self, kind: &str, group: &str) -> Option<&KindDefault> {
        self.0.get(&kind_key(kind, group)).or_else(|| self.0.get(kind))
    }
}

fn kind_key(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_equalities() {
        let (labels, ignored) = parse_selector("a=b, c = d ,flag,,e=");
        assert_eq!(labels.len(), 3);
        assert_eq!(
            (labels["a"].as_str(), labels["c"].as_str(), labels["e"].as_str()),
            ("b", "d", "")
        );
        assert_eq!(ignored, ["flag"]);
    }

    #[test]
    fn defaults_go_from_the_group_to_any_group() {
        let defaults = KindDefaults::parse(
            r#"[{"typeName":"Job","group":"batch","priorityName":"build","preemptibility":"Non-Preemptible"},
                {"typeName":"Job","priorityName":"train"},
                {"typeName":"Pod","priorityName":"a"},{"typeName":"Pod","priorityName":"b"}]"#,
        )
        .unwrap();
        assert_eq!(defaults.of("Job", "batch").unwrap().priority_class, "build");
        assert_eq!(defaults.of("Job", "batch").unwrap().preemptibility, "non-preemptible");
        assert_eq!(defaults.of("Job", "other").unwrap().priority_class, "train");
        assert_eq!(defaults.of("Pod", "").unwrap().priority_class, "b");
        assert_eq!(defaults.of("Deployment", "apps"), None);
        assert!(KindDefaults::parse("{").is_err());
    }
}
