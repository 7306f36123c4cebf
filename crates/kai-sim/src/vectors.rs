//! Recorded calls of pure functions: the files of format `vectors/v1`.
//!
//! Each file holds the entries of one function, arguments and result. Unknown fields are errors: a vector
//! half understood would prove nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const SCHEMA: &str = "vectors/v1";

/// What is wrong with a vector file.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// The file or folder cannot be read.
    #[error("{file}: {source}")]
    Unreadable {
        /// The file or folder.
        file: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// The file is no JSON, or a part of it has another shape than its kind says.
    #[error("{file}: at {path}: {source}")]
    Malformed {
        /// File that is malformed.
        file: PathBuf,
        /// Path inside the document.
        path: String,
        /// What is wrong there.
        source: serde_json::Error,
    },
    /// The file says it is something else.
    #[error("{file}: at {field}: unknown value {found:?}")]
    Unknown {
        /// File with the unknown value.
        file: PathBuf,
        /// Field with the unknown value: `schema` or `kind`.
        field: &'static str,
        /// Value that is not known.
        found: String,
    },
}

/// A file of recorded calls of one function.
#[derive(Clone, Debug)]
pub struct VectorFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// The tests that were recorded.
    pub suite: String,
    /// Recorded calls with arguments and results.
    pub vectors: Vectors,
}

/// The entries of one file, by the function they are calls of.
#[derive(Clone, Debug)]
pub enum Vectors {
    /// Division of one resource among siblings.
    FairShare(Vec<FairShareVector>),
    /// May a job reclaim at all.
    CanReclaim(Vec<CanReclaimVector>),
    /// Is a set of victims acceptable.
    Reclaimable(Vec<ReclaimableVector>),
    /// Is a queue worth looking for victims in.
    FilterVictim(Vec<FilterVictimVector>),
    /// The strategy *maintain fair share*.
    MaintainFairShare(Vec<StrategyVector>),
    /// The strategy *guarantee deserved quota*.
    GuaranteeDeservedQuota(Vec<StrategyVector>),
    /// Which of two queues comes first.
    QueueOrder(Vec<QueueOrderVector>),
    /// Limits of queues, for all jobs.
    OverLimit(Vec<CapacityVector>),
    /// Quotas for non-preemptible jobs.
    NonPreemptibleOverQuota(Vec<CapacityVector>),
}

impl Vectors {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::FairShare(entries) => entries.len(),
            Self::CanReclaim(entries) => entries.len(),
            Self::Reclaimable(entries) => entries.len(),
            Self::FilterVictim(entries) => entries.len(),
            Self::MaintainFairShare(entries) | Self::GuaranteeDeservedQuota(entries) => {
                entries.len()
            }
            Self::QueueOrder(entries) => entries.len(),
            Self::OverLimit(entries) | Self::NonPreemptibleOverQuota(entries) => entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Amounts by resource: milli-CPU, bytes, devices.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorAmounts {
    /// Processor time, in milli-CPU.
    #[serde(rename = "CPU", default)]
    pub cpu: f64,
    /// Amount of memory, in bytes.
    #[serde(rename = "Memory", default)]
    pub memory: f64,
    /// GPU devices, fractions included.
    #[serde(rename = "GPU", default)]
    pub gpu: f64,
}

/// One of the three resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub enum VectorResource {
    /// Processor time, in milli-CPU.
    #[serde(rename = "CPU")]
    Cpu,
    /// Amount of memory, in bytes.
    Memory,
    /// GPU devices, fractions included.
    #[serde(rename = "GPU")]
    Gpu,
}

/// A queue as it was when the call was recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VectorQueue {
    /// The name of the queue above, empty at the top.
    pub parent: String,
    /// Queues of higher priority come first.
    pub priority: i32,
    /// Seconds since the epoch, 0 when not set.
    pub created_unix: f64,
    /// Bounds, amounts and fair share, by resource.
    pub shares: VectorShares,
}

/// The numbers of a queue, by resource.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorShares {
    /// Processor time, in milli-CPU.
    #[serde(rename = "CPU")]
    pub cpu: VectorShare,
    /// Amount of memory, in bytes.
    #[serde(rename = "Memory")]
    pub memory: VectorShare,
    /// GPU devices, fractions included.
    #[serde(rename = "GPU")]
    pub gpu: VectorShare,
}

/// The numbers of a queue for one resource.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct VectorShare {
    /// Quota of the queue; −1 is unlimited.
    pub deserved: f64,
    /// Result of the division.
    pub fair_share: f64,
    /// Limit of the queue; −1 is unlimited.
    pub max_allowed: f64,
    /// Weight above the quota.
    pub over_quota_weight: f64,
    /// Allocated to running pods.
    pub allocated: f64,
    /// Allocated to non-preemptible pods.
    pub allocated_not_preemptible: f64,
    /// Allocated, plus what pending pods request.
    pub request: f64,
    /// Past usage as a part of the cluster's capacity.
    pub usage: f64,
}

/// Division of one resource among siblings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FairShareVector {
    /// The test it was recorded from.
    pub at: String,
    /// Resource that is divided.
    pub resource: VectorResource,
    /// How much there is.
    pub total: f64,
    /// How strongly past use counts.
    pub k: f64,
    /// The siblings by name.
    pub queues: BTreeMap<String, DividedQueue>,
    /// What no queue got.
    pub remaining: f64,
}

/// A sibling of a division.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DividedQueue {
    /// The name of the queue above.
    pub parent: String,
    /// Queues of higher priority come first.
    pub priority: i32,
    /// Seconds since the epoch, 0 when not set.
    pub created_unix: f64,
    /// Quota of the queue; −1 is unlimited.
    pub deserved: f64,
    /// Limit of the queue; −1 is unlimited.
    pub max_allowed: f64,
    /// Weight above the quota.
    pub over_quota_weight: f64,
    /// Allocated, plus what pending pods request.
    pub request: f64,
    /// Past usage as a part of the cluster's capacity.
    pub usage: f64,
    /// Fair share before the division.
    pub fair_share_before: f64,
    /// Fair share after it.
    pub fair_share_after: f64,
}

/// The job that reclaims.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VectorReclaimer {
    /// Name of its leaf queue.
    pub queue: String,
    /// What it asks for.
    pub required: VectorAmounts,
    /// Whether it may be preempted.
    pub is_preemptible: bool,
}

/// May a job reclaim at all.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanReclaimVector {
    /// The test it was recorded from.
    pub at: String,
    /// Not used by this function.
    pub saturation_multiplier: f64,
    /// The queues by name.
    pub queues: BTreeMap<String, VectorQueue>,
    /// Job that would reclaim.
    pub reclaimer: VectorReclaimer,
    /// Recorded answer of the reference.
    pub result: bool,
}

/// Is a set of victims acceptable.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReclaimableVector {
    /// The test it was recorded from.
    pub at: String,
    /// How much less saturated the reclaimer must stay.
    pub saturation_multiplier: f64,
    /// The queues by name.
    pub queues: BTreeMap<String, VectorQueue>,
    /// Job that would reclaim.
    pub reclaimer: VectorReclaimer,
    /// The victim units by queue.
    pub reclaimees: BTreeMap<String, Vec<VectorAmounts>>,
    /// Recorded answer of the reference.
    pub result: bool,
}

/// Is a queue worth looking for victims in.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterVictimVector {
    /// The test it was recorded from.
    pub at: String,
    /// Not used by this function.
    pub saturation_multiplier: f64,
    /// The queues by name.
    pub queues: BTreeMap<String, VectorQueue>,
    /// Job that would reclaim.
    pub reclaimer: VectorReclaimer,
    /// The queue of the victim.
    pub reclaimee_queue: String,
    /// Recorded answer of the reference.
    pub result: bool,
}

/// One strategy for one pair of levelled queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StrategyVector {
    /// The test it was recorded from.
    pub at: String,
    /// What the reclaimer asks for.
    pub required: VectorAmounts,
    /// Levelled queue of the reclaimer.
    pub reclaimer_queue: VectorQueue,
    /// The victim's levelled queue.
    pub reclaimee_queue: VectorQueue,
    /// What the latter still holds.
    pub reclaimee_remaining: VectorAmounts,
    /// Recorded answer of the reference.
    pub result: bool,
}

/// Which of two queues comes first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueOrderVector {
    /// The test it was recorded from.
    pub at: String,
    /// First argument of the comparison.
    pub left: VectorContender,
    /// Second argument of the comparison.
    pub right: VectorContender,
    /// What the cluster has.
    pub total: VectorAmounts,
    /// −1 when left comes first, 1 when right does.
    pub result: i32,
}

/// A queue with its next job and victims.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VectorContender {
    /// Queue with its shares.
    pub queue: VectorQueue,
    /// What its next job asks for.
    pub job_request: VectorAmounts,
    /// What each victim holds.
    #[serde(default)]
    pub victims: Vec<VectorAmounts>,
}

/// Check of one job against the bounds of its queue and of the parent queues.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityVector {
    /// The test it was recorded from.
    pub at: String,
    /// The queues by name.
    pub queues: BTreeMap<String, VectorQueue>,
    /// The queue of the job.
    pub queue: String,
    /// Whether the job may be preempted.
    pub preemptible: bool,
    /// What it asks for.
    pub requested: VectorAmounts,
    /// Whether the reference lets the job pass.
    pub schedulable: bool,
    /// The reason if not.
    #[serde(default)]
    pub reason: Option<String>,
    /// Message to users when it does not fit.
    #[serde(default)]
    pub message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    schema: String,
    kind: String,
    suite: String,
    entries: Value,
}

/// Reads every `.json` file of `folder`, in the order of their names.
pub fn read_folder(folder: &Path) -> Result<Vec<VectorFile>, VectorError> {
    let unreadable = |source| VectorError::Unreadable { file: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| read_file(path)).collect()
}

/// Reads one file of format `vectors/v1`; unknown fields are errors.
pub fn read_file(path: &Path) -> Result<VectorFile, VectorError> {
    let text = fs::read_to_string(path)
        .map_err(|source| VectorError::Unreadable { file: path.to_owned(), source })?;
    parse(path, &text)
}

/// Reads the text of a file; `path` is only for messages.
pub fn parse(path: &Path, text: &str) -> Result<VectorFile, VectorError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let raw: RawFile =
        serde_path_to_error::deserialize(&mut json).map_err(|error| malformed(path, "", error))?;
    let unknown = |field, found| VectorError::Unknown { file: path.to_owned(), field, found };
    if raw.schema != SCHEMA {
        return Err(unknown("schema", raw.schema));
    }
    let vectors = match raw.kind.as_str() {
        "fairshare" => Vectors::FairShare(entries(path, raw.entries)?),
        "can_reclaim" => Vectors::CanReclaim(entries(path, raw.entries)?),
        "reclaimable" => Vectors::Reclaimable(entries(path, raw.entries)?),
        "filter_victim" => Vectors::FilterVictim(entries(path, raw.entries)?),
        "strategy_maintain_fair_share" => Vectors::MaintainFairShare(entries(path, raw.entries)?),
        "strategy_guarantee_deserved_quota" => {
            Vectors::GuaranteeDeservedQuota(entries(path, raw.entries)?)
        }
        "queue_order" => Vectors::QueueOrder(entries(path, raw.entries)?),
        "capacity_over_limit" => Vectors::OverLimit(entries(path, raw.entries)?),
        "capacity_non_preemptible_over_quota" => {
            Vectors::NonPreemptibleOverQuota(entries(path, raw.entries)?)
        }
        _ => return Err(unknown("kind", raw.kind)),
    };
    Ok(VectorFile { path: path.to_owned(), suite: raw.suite, vectors })
}

fn entries<T: DeserializeOwned>(path: &Path, entries: Value) -> Result<Vec<T>, VectorError> {
    serde_path_to_error::deserialize(entries).map_err(|error| malformed(path, "entries", error))
}

fn malformed(
    path: &Path,
    prefix: &str,
    error: serde_path_to_error::Error<serde_json::Error>,
) -> VectorError {
    let inside = format!("{prefix}{}", error.path());
    VectorError::Malformed { file: path.to_owned(), path: inside, source: error.into_inner() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        parse(Path::new("some.json"), text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_file_and_the_place() {
        let entry = r#"{"at": "x", "resource": "GPU", "total": "many"}"#;
        let text = format!(
            r#"{{"schema": "vectors/v1", "kind": "fairshare", "suite": "s", "entries": [{entry}]}}"#
        );
        let message = error_of(&text);
        assert!(message.starts_with("some.json: at entries[0].total: "), "{message}");
    }

    #[test]
    fn unknown_kinds_schemas_and_fields_are_errors() {
        let text = r#"{"schema": "vectors/v2", "kind": "fairshare", "suite": "s", "entries": []}"#;
        assert_eq!(error_of(text), r#"some.json: at schema: unknown value "vectors/v2""#);
        let text = r#"{"schema": "vectors/v1", "kind": "other", "suite": "s", "entries": []}"#;
        assert_eq!(error_of(text), r#"some.json: at kind: unknown value "other""#);
        let text = r#"{"schema": "vectors/v1", "kind": "fairshare", "suit": "s", "entries": []}"#;
        assert!(error_of(text).contains("unknown field `suit`"));
    }
}
