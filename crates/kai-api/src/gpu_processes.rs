//! What a reservation pod observes of the processes on its device: the value of
//! [`crate::names::gpu::PROCESSES`].

use serde::{Deserialize, Serialize};

/// Processes of one pod that may use a device.
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

/// What the library that limits GPU memory does in the processes of a pod. The order of the states of a process that uses
/// the device is from the best to the worst: of several the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservedGuard {
    /// It refuses allocations above the limit.
    Enforcing,
    Reporting,
    /// It is switched off.
    Off,
    /// The process cannot be looked into.
    Unknown,
    /// It could not start.
    Failed,
    /// The process uses the device without it.
    Absent,
    /// No process of the pod uses the device. Processes have loaded the library and CUDA.
    Idle,
    /// No process of the pod uses the device. Processes have loaded the library, none has loaded CUDA.
    NoCuda,
    /// No process of the pod uses the device, and none has loaded the library.
    NoLibrary,
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
            Self::Idle => "idle",
            Self::NoCuda => "nocuda",
            Self::NoLibrary => "nolibrary",
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
        let using = [ObservedGuard::Enforcing, ObservedGuard::Reporting, ObservedGuard::Off];
        let failing = [ObservedGuard::Unknown, ObservedGuard::Failed, ObservedGuard::Absent];
        let idle = [ObservedGuard::Idle, ObservedGuard::NoCuda, ObservedGuard::NoLibrary];
        for one in using.into_iter().chain(failing).chain(idle) {
            assert_eq!(serde_json::json!(one), one.name());
        }
    }
}
