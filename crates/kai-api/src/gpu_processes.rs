//! What a reservation pod observes of the processes on its device: the value of
//! [`crate::names::gpu::PROCESSES`].

use serde::{Deserialize, Serialize};

/// Processes of one pod on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodProcesses {
    /// UID of the pod.
    pub uid: String,
    /// MiB of the device that they hold.
    pub mib: u64,
    /// What the library that limits GPU memory does in them.
    pub guard: ObservedGuard,
    /// Why the library does not limit them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What the library that limits GPU memory does in a process. The order is from the best to the worst: of several
/// processes of a pod the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservedGuard {
    /// It refuses allocations above the limit.
    Enforcing,
    /// It counts.
    Reporting,
    /// It is switched off.
    Off,
    /// The process cannot be looked into.
    Unknown,
    /// It could not start.
    Failed,
    /// The process uses the device without it.
    Absent,
}

impl ObservedGuard {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforcing => "enforcing",
            Self::Reporting => "reporting",
            Self::Off => "off",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
            Self::Absent => "absent",
        }
    }
}

/// The processes on a device; none: the text has another form.
pub fn parse(text: &str) -> Option<Vec<PodProcesses>> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_read_as_they_were_written() {
        let absent = PodProcesses {
            uid: "u".to_owned(),
            mib: 7,
            guard: ObservedGuard::Absent,
            why: "static".to_owned(),
        };
        let text = serde_json::to_string(&[&absent]).expect("JSON");
        assert_eq!(text, r#"[{"uid":"u","mib":7,"guard":"absent","why":"static"}]"#);
        assert_eq!(parse(&text), Some(vec![absent]));
        assert_eq!(parse("GPU-1=7"), None);
        let all = [ObservedGuard::Enforcing, ObservedGuard::Reporting, ObservedGuard::Off];
        for one in all.into_iter().chain([ObservedGuard::Unknown, ObservedGuard::Failed]) {
            assert_eq!(serde_json::json!(one), one.name());
        }
    }
}
