//! Labels and annotations of a pod group: the workload's own, without the entries of tools that track objects.

use std::collections::BTreeMap;

use kai_api::names::{gpu, scheduling, workload};

use crate::base::Case;
use crate::facts::Gvk;
use crate::object::Object;

/// Longer annotations are not copied.
const LONGEST_ANNOTATION: usize = 4096;

/// Annotations of tools that track the object that carries them.
const FOREIGN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/",
    "meta.helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
];

/// Keys that only we write: on pods, so that a group would change because its pod was bound, and on groups, where the
/// annotation of a workload would make a tenant's word ours.
const OURS: [&str; 11] = [
    scheduling::LAST_START,
    scheduling::LAST_EVICTION,
    scheduling::STALE_SINCE,
    scheduling::RECLAIM_DELAYED_SINCE,
    workload::POD_GROUP_NAME,
    workload::SUBGROUP_NAME,
    gpu::RECEIVED_RESOURCE_TYPE,
    gpu::SHARED_CONFIG_MAP,
    gpu::GROUP,
    scheduling::NUMA_PREDICTED,
    scheduling::NUMA_OBSERVED,
];

/// The labels of the workload, the user's name and the node pool of the pod where the workload has none.
pub(crate) fn labels(case: &Case<'_>, workload: Object<'_>) -> BTreeMap<String, String> {
    let mut labels = workload.labels();
    labels.retain(|key, _| !is_ours(key));
    for key in [workload::USER, case.config.node_pool_label_key.as_str()] {
        if let Some(value) = case.pod.label(key) {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    labels
}

/// The user's name, a description of the workload, then the workload's annotations.
pub(crate) fn annotations(case: &Case<'_>, workload: Object<'_>) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    if let Some(user) = case.pod.annotation(workload::USER) {
        annotations.insert(workload::USER.to_owned(), user.to_owned());
    }
    annotations.insert(workload::TOP_OWNER_METADATA.to_owned(), top_owner(workload));
    annotations
        .extend(workload.annotations().into_iter().filter(|(key, value)| copied(key, value)));
    annotations
}

/// Is an annotation of a workload copied to its group?
pub(crate) fn copied(key: &str, value: &str) -> bool {
    value.len() <= LONGEST_ANNOTATION
        && !is_ours(key)
        && !FOREIGN.iter().any(|foreign| key.starts_with(foreign))
}

fn is_ours(key: &str) -> bool {
    OURS.contains(&key) || key.starts_with(gpu::MULTI_GROUP_PREFIX)
}

fn top_owner(object: Object<'_>) -> String {
    describe_owner(object.name(), object.uid(), &object.gvk())
}

/// Five lines of YAML.
pub(crate) fn describe_owner(name: &str, uid: &str, gvk: &Gvk) -> String {
    let fields = [
        ("name", name),
        ("uid", uid),
        ("group", &gvk.group),
        ("version", &gvk.version),
        ("kind", &gvk.kind),
    ];
    fields
        .iter()
        .fold(String::new(), |text, (key, value)| text + &format!("{key}: {}\n", scalar(value)))
}

/// A YAML string, in quotes where a reader might take it for something else.
fn scalar(text: &str) -> String {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !words.contains(&text.to_ascii_lowercase().as_str())
        && !looks_numeric(text);
    if plain { text.to_owned() } else { format!("{text:?}") }
}

/// Numbers, and dates such as `2026-01-01`.
fn looks_numeric(text: &str) -> bool {
    let digits_and_marks = text.chars().all(|c| c.is_ascii_digit() || "-._".contains(c));
    let date = text.len() >= 8 && text.as_bytes().get(4) == Some(&b'-') && digits_and_marks;
    let prefixed = ["0x", "0o", "0b"].iter().any(|prefix| text.starts_with(prefix));
    date || prefixed || text.replace('_', "").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_strings() {
        for plain in ["train", "a-1", "v1", "batch", "1a2b3c4d-0000-4000-8000-000000000000"] {
            assert_eq!(scalar(plain), plain);
        }
        for quoted in ["", "123", "1e3", "true", "on", "2026-01-01", "0x10", "12.5"] {
            assert_eq!(scalar(quoted), format!("{quoted:?}"));
        }
    }
}
