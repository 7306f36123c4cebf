//! Attested placements: what was decided for a pod when it was bound, in one annotation with a message authentication
//! code. Pod labels and annotations can be changed by their author at any time; the placement cannot.
//!
//! The annotation holds the pod's UID, its node, and the value of every metadata key on which accounting depends (queue,
//! priority, GPU request, GPU groups, devices), a key that the pod did not have included. Reading a pod restores them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kai_api::gpu_request::REQUEST_ANNOTATIONS;
use kai_api::names::{gpu, scheduling, workload};
use kai_api::view::ObjectMeta;
use ring::hmac;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// Labels on which accounting depends, beside those whose keys are settings and those of GPU groups.
const LABELS: [&str; 4] = [
    workload::PROJECT,
    workload::PRIORITY_CLASS_NAME,
    workload::PREEMPTIBILITY,
    workload::SUBGROUP_NAME,
];
/// Annotations on which accounting depends, beside those of the GPU request.
const ANNOTATIONS: [&str; 3] =
    [gpu::DEVICES, gpu::RECEIVED_RESOURCE_TYPE, scheduling::NUMA_PREDICTED];

/// The key with which placements are signed.
#[derive(Clone)]
pub struct PlacementKey {
    bytes: Arc<[u8]>,
    key: hmac::Key,
}

impl PlacementKey {
    /// A key of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), key: hmac::Key::new(hmac::HMAC_SHA256, bytes) }
    }
}

impl fmt::Debug for PlacementKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PlacementKey")
    }
}

impl PartialEq for PlacementKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

/// How placements are signed; the default signs none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementSigner {
    /// The key; none: placements are not signed.
    pub key: Option<PlacementKey>,
    /// Keys of the labels of queue and node pool.
    pub label_keys: Vec<String>,
}

impl PlacementSigner {
    /// The annotation for a pod with this metadata that is bound to the node, where placements are signed. `groups` are
    /// the labels of its GPU groups, `annotations` those that the bind adds.
    pub fn sign(
        &self,
        metadata: &ObjectMeta,
        node: &str,
        groups: &[(String, String)],
        annotations: &BTreeMap<Cow<'static, str>, String>,
    ) -> Option<String> {
        let key = self.key.as_ref()?;
        let mut placement = Placement::of(metadata, node, &self.label_keys);
        placement.labels.retain(|key, _| !is_group_label(key));
        let groups = groups.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
        placement.labels.extend(groups);
        let written = annotations.iter().filter(|(key, _)| is_attested_annotation(key));
        let written = written.map(|(key, value)| (key.to_string(), Some(value.clone())));
        placement.annotations.extend(written);
        Some(placement.encode(key))
    }
}

/// What was decided for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// UID of the pod.
    pub uid: String,
    pub node: String,
    /// Labels; none: the pod did not have it.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations; none: the pod did not have it.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl Placement {
    /// The placement of a pod on a node as its metadata is now.
    pub fn of(metadata: &ObjectMeta, node: &str, label_keys: &[String]) -> Self {
        let named = LABELS.iter().copied().chain(label_keys.iter().map(String::as_str));
        let mut labels = read(&metadata.labels, named);
        labels.extend(matching(&metadata.labels, is_group_label));
        let named = REQUEST_ANNOTATIONS.into_iter().chain(ANNOTATIONS);
        let mut annotations = read(&metadata.annotations, named);
        annotations.extend(matching(&metadata.annotations, is_mig_annotation));
        Self { uid: metadata.uid.clone(), node: node.to_owned(), labels, annotations }
    }

    /// The text of the annotation: the code in hexadecimal digits, a space, the placement as JSON.
    pub fn encode(&self, key: &PlacementKey) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let code = hmac::sign(&key.key, text.as_bytes());
        format!("{} {text}", hexadecimal(code.as_ref()))
    }
}

/// A placement that was read. It borrows from its annotation: every event of a bound pod has one.
#[derive(Debug, Deserialize)]
pub struct SignedPlacement<'a> {
    /// UID of the pod.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    #[serde(borrow)]
    pub node: Cow<'a, str>,
    #[serde(borrow)]
    labels: Entries<'a>,
    #[serde(borrow)]
    annotations: Entries<'a>,
}

impl<'a> SignedPlacement<'a> {
    /// The placement that the text attests; none: the text was not written with this key.
    pub fn decode(text: &'a str, key: &PlacementKey) -> Option<Self> {
        let (code, text) = text.split_once(' ')?;
        hmac::verify(&key.key, text.as_bytes(), &from_hexadecimal(code)?).ok()?;
        serde_json::from_str(text).ok()
    }

    /// The metadata has all labels of GPU groups that were decided.
    pub fn has_group_labels(&self, metadata: &ObjectMeta) -> bool {
        let decided = self.labels.0.iter();
        let mut decided = decided.filter_map(|(Borrowed(key), value)| Some((key, value.as_ref()?)));
        decided.all(|(key, Borrowed(value))| {
            !is_group_label(key) || metadata.labels.get(&**key).is_some_and(|known| known == value)
        })
    }

    /// Gives the metadata of the pod the values it had when it was bound.
    pub fn restore(&self, metadata: &mut ObjectMeta) {
        metadata.labels.retain(|key, _| !is_group_label(key));
        metadata.annotations.retain(|key, _| !is_mig_annotation(key));
        self.labels.set_in(&mut metadata.labels);
        self.annotations.set_in(&mut metadata.annotations);
    }
}

/// Labels or annotations in the order of the text; none: the pod did not have it.
#[derive(Debug)]
struct Entries<'a>(Vec<(Borrowed<'a>, Option<Borrowed<'a>>)>);

/// A text that is copied only where JSON escapes a character of it.
#[derive(Debug, Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl Entries<'_> {
    fn set_in(&self, map: &mut BTreeMap<String, String>) {
        for (Borrowed(key), value) in &self.0 {
            match value {
                Some(Borrowed(value)) => {
                    if map.get(&**key).is_none_or(|known| known != value) {
                        map.insert(key.to_string(), value.to_string());
                    }
                }
                None => drop(map.remove(&**key)),
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor).map(Entries)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Vec<(Borrowed<'de>, Option<Borrowed<'de>>)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::with_capacity(16);
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// Removes everything by which a pod that has no placement would be counted on shared devices.
pub fn remove_claims_on_devices(metadata: &mut ObjectMeta) {
    let is_claim = |key: &str| {
        REQUEST_ANNOTATIONS.contains(&key)
            || [gpu::DEVICES, scheduling::NUMA_PREDICTED].contains(&key)
            || is_mig_annotation(key)
    };
    metadata.labels.retain(|key, _| !is_group_label(key));
    metadata.annotations.retain(|key, _| !is_claim(key));
}

/// A label that names a GPU group.
pub fn is_group_label(key: &str) -> bool {
    key == gpu::GROUP || key.starts_with(gpu::MULTI_GROUP_PREFIX)
}

fn is_mig_annotation(key: &str) -> bool {
    key.starts_with(gpu::MIG_PREFIX)
}

fn is_attested_annotation(key: &str) -> bool {
    REQUEST_ANNOTATIONS.contains(&key) || ANNOTATIONS.contains(&key) || is_mig_annotation(key)
}

fn read<'a>(
    from: &BTreeMap<String, String>,
    keys: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, Option<String>> {
    keys.into_iter().map(|key| (key.to_owned(), from.get(key).cloned())).collect()
}

fn matching(
    from: &BTreeMap<String, String>,
    wanted: fn(&str) -> bool,
) -> impl Iterator<Item = (String, Option<String>)> {
    let found = from.iter().filter(move |(key, _)| wanted(key));
    found.map(|(key, value)| (key.clone(), Some(value.clone())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> PlacementKey {
        PlacementKey::new(b"0123456789abcdef0123456789abcdef")
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn metadata(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> ObjectMeta {
        ObjectMeta {
            uid: "u".to_owned(),
            labels: texts(labels),
            annotations: texts(annotations),
            ..ObjectMeta::default()
        }
    }

    fn sharing_pod() -> ObjectMeta {
        metadata(
            &[("kai.scheduler/queue", "a"), ("runai-gpu-group", "stale"), ("other", "x")],
            &[("gpu-fraction", "0.5"), ("other", "x")],
        )
    }

    fn signed() -> String {
        let signer = PlacementSigner {
            key: Some(key()),
            label_keys: vec!["kai.scheduler/queue".to_owned()],
        };
        let groups = [("runai-gpu-group".to_owned(), "g".to_owned())];
        let written = BTreeMap::from([(gpu::DEVICES.into(), "g=GPU-1".to_owned())]);
        signer.sign(&sharing_pod(), "n", &groups, &written).expect("a text")
    }

    #[test]
    fn placement_restores_what_was_decided_and_nothing_else() {
        let text = signed();
        let placement = SignedPlacement::decode(&text, &key()).expect("a placement");
        assert_eq!((&*placement.uid, &*placement.node), ("u", "n"));
        let mut forged = metadata(
            &[
                ("kai.scheduler/queue", "b"),
                ("priorityClassName", "inference"),
                ("runai-gpu-group/x", "x"),
                ("other", "y"),
            ],
            &[
                ("gpu-fraction", "0.01"),
                ("gpu-memory", "1"),
                ("kai.scheduler/gpu-devices", "g=FAKE"),
                ("nvidia.com/mig-1g.5gb", "1"),
                ("other", "y"),
            ],
        );
        placement.restore(&mut forged);
        let labels = [("kai.scheduler/queue", "a"), ("runai-gpu-group", "g"), ("other", "y")];
        assert_eq!(forged.labels, texts(&labels));
        let annotations =
            [("gpu-fraction", "0.5"), ("kai.scheduler/gpu-devices", "g=GPU-1"), ("other", "y")];
        assert_eq!(forged.annotations, texts(&annotations));
    }

    #[test]
    fn value_that_json_escapes_is_restored_as_it_was() {
        let signer = PlacementSigner { key: Some(key()), ..PlacementSigner::default() };
        let mut pod = metadata(&[("priorityClassName", "\"é\"\n")], &[]);
        let text = signer.sign(&pod, "n", &[], &BTreeMap::new()).expect("a text");
        let bound = pod.labels.clone();
        pod.labels.clear();
        SignedPlacement::decode(&text, &key()).expect("a placement").restore(&mut pod);
        assert_eq!(pod.labels, bound);
    }

    #[test]
    fn texts_that_were_not_signed_with_the_key_attest_nothing() {
        let good = signed();
        let (code, text) = good.split_once(' ').expect("two parts");
        let other = PlacementKey::new(b"another key");
        let cases = [
            ("empty", String::new()),
            ("no code", text.to_owned()),
            ("another node", good.replace("\"n\"", "\"m\"")),
            ("another UID", good.replace("\"u\"", "\"v\"")),
            ("code of zeros", format!("{} {text}", "0".repeat(64))),
            ("half a code", format!("{} {text}", &code[..32])),
            ("odd digits", format!("{} {text}", &code[1..])),
            ("no digits", format!("{} {text}", "é".repeat(32))),
            ("signed text that is no placement", {
                let code = hmac::sign(&key().key, b"{}");
                format!("{} {{}}", hexadecimal(code.as_ref()))
            }),
        ];
        assert!(SignedPlacement::decode(&good, &key()).is_some());
        assert!(SignedPlacement::decode(&good, &other).is_none(), "another key");
        for (what, text) in cases {
            assert!(SignedPlacement::decode(&text, &key()).is_none(), "{what}");
        }
    }

    #[test]
    fn the_key_is_in_no_log() {
        assert_eq!(format!("{:?}", key()), "PlacementKey");
    }
}
