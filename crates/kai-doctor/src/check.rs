//! Every check by name.

/// Where a check looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At what the API shows: `kai doctor`.
    Cluster,
    /// At a host: `kai doctor node`.
    Host,
}

/// A check of `kai doctor`; each has a row in docs/doctor.md and a fixture that it fails on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A node has GPUs of unknown memory.
    GpuMemoryLabel,
    /// A node offers GPUs, and the number of physical GPUs is unknown.
    GpuCountLabel,
    /// A node that should have GPUs and offers none.
    GpuNotAdvertised,
    /// Fewer GPUs are offered than there are.
    GpuFewerAdvertised,
    /// GPUs that are offered under another name.
    GpuRenamed,
    /// GPUs that are offered several times.
    TimeSlicing,
    /// The runtime class of GPU pods does not exist.
    RuntimeClass,
    /// The node does not know the runtime that a pod names.
    RuntimeNotOnNode,
    /// The configuration and the GPU operator disagree about CDI.
    CdiMismatch,
    /// A kind or a log cannot be read.
    Unreadable,
    /// A reservation pod does not find NVML's library.
    NvmlLibraryNotFound,
    /// NVML finds no driver.
    NvmlDriverNotLoaded,
    /// NVML may not open the devices.
    NvmlPermissionDenied,
    /// A reservation pod sees none or several devices.
    NvmlDeviceCount,
    /// A node rejected a reservation pod.
    ReservationRejected,
    /// A reservation pod says nothing.
    ReservationSilent,
    /// Two groups of a node have one device.
    ReservationClash,
    /// A reservation pod that no pod uses.
    ReservationOrphan,
    /// An image that a node does not get.
    ImageMissing,
    /// An image that is pulled although it was imported.
    PullPolicy,
    /// On Tegra: the libraries are not mounted.
    TegraLibraryMount,
    /// On Tegra: the device files are not mounted.
    TegraDeviceMount,
    /// On Tegra: not privileged.
    TegraPrivileged,
    /// The namespace of reservations forbids what Tegra, or asking the kubelet, needs.
    PodSecurity,
    /// `OpenShift` forbids pods.
    OpenShiftScc,
    /// No webhook completes pods that request a GPU share.
    WebhookMissing,
    /// The API server cannot trust the webhook.
    WebhookCertificate,
    /// The API server cannot reach the webhook.
    WebhookUnreachable,
    /// A pod that was created while no webhook completed it.
    FractionNotAdmitted,
    /// A kind of ours that the API server does not know.
    CrdMissing,
    /// An account that does not exist.
    AccountMissing,
    /// A role that lacks rights.
    RoleIncomplete,
    /// A role that the account does not have.
    BindingMissing,
    /// A pod that wants a share, and a scheduler that knows nothing of shares.
    FractionOtherScheduler,
    /// A queue that does not exist.
    UnknownQueue,
    /// Pending pods without a reason of the scheduler.
    SchedulerSilent,
    /// A component of the KAI Scheduler that still runs.
    KaiRunning,
    /// Reservation pods of an older release in another namespace.
    LegacyReservations,
    /// The host: no library.
    NvmlLibrary,
    /// The host: the library is in a folder that is not searched.
    NvmlLibraryFolder,
    /// The host: device files are missing.
    DeviceFiles,
    /// The host: device files that only root may open.
    DevicePermissions,
    /// The host: no NVIDIA container runtime.
    RuntimeMissing,
    /// The host: containerd does not know it.
    RuntimeNotConfigured,
    /// The host: a mode that cannot work here.
    RuntimeMode,
    /// The host: our image is not there.
    ImageNotImported,
    /// The host: a release that is too old.
    L4tRelease,
}

/// Name and place of every check, in the order of the documentation.
const ALL: [(Check, &str, Scope); 47] = {
    use Check as C;
    use Scope::{Cluster, Host};
    [
        (C::GpuMemoryLabel, "gpu-memory-label", Cluster),
        (C::GpuCountLabel, "gpu-count-label", Cluster),
        (C::GpuNotAdvertised, "gpu-not-advertised", Cluster),
        (C::GpuFewerAdvertised, "gpu-fewer-advertised", Cluster),
        (C::GpuRenamed, "gpu-renamed", Cluster),
        (C::TimeSlicing, "time-slicing", Cluster),
        (C::RuntimeClass, "runtime-class", Cluster),
        (C::RuntimeNotOnNode, "runtime-not-on-node", Cluster),
        (C::CdiMismatch, "cdi-mismatch", Cluster),
        (C::Unreadable, "unreadable", Cluster),
        (C::NvmlLibraryNotFound, "nvml-library-not-found", Cluster),
        (C::NvmlDriverNotLoaded, "nvml-driver-not-loaded", Cluster),
        (C::NvmlPermissionDenied, "nvml-permission-denied", Cluster),
        (C::NvmlDeviceCount, "nvml-device-count", Cluster),
        (C::ReservationRejected, "reservation-refused", Cluster),
        (C::ReservationSilent, "reservation-silent", Cluster),
        (C::ReservationClash, "reservation-clash", Cluster),
        (C::ReservationOrphan, "reservation-orphan", Cluster),
        (C::ImageMissing, "image-missing", Cluster),
        (C::PullPolicy, "pull-policy", Cluster),
        (C::TegraLibraryMount, "tegra-library-mount", Cluster),
        (C::TegraDeviceMount, "tegra-device-mount", Cluster),
        (C::TegraPrivileged, "tegra-privileged", Cluster),
        (C::PodSecurity, "pod-security", Cluster),
        (C::OpenShiftScc, "openshift-scc", Cluster),
        (C::WebhookMissing, "webhook-missing", Cluster),
        (C::WebhookCertificate, "webhook-certificate", Cluster),
        (C::WebhookUnreachable, "webhook-unreachable", Cluster),
        (C::FractionNotAdmitted, "fraction-not-admitted", Cluster),
        (C::CrdMissing, "crd-missing", Cluster),
        (C::AccountMissing, "account-missing", Cluster),
        (C::RoleIncomplete, "role-incomplete", Cluster),
        (C::BindingMissing, "binding-missing", Cluster),
        (C::FractionOtherScheduler, "fraction-other-scheduler", Cluster),
        (C::UnknownQueue, "unknown-queue", Cluster),
        (C::SchedulerSilent, "scheduler-silent", Cluster),
        (C::KaiRunning, "kai-running", Cluster),
        (C::LegacyReservations, "legacy-reservations", Cluster),
        (C::NvmlLibrary, "nvml-library", Host),
        (C::NvmlLibraryFolder, "nvml-library-folder", Host),
        (C::DeviceFiles, "device-files", Host),
        (C::DevicePermissions, "device-permissions", Host),
        (C::RuntimeMissing, "runtime-missing", Host),
        (C::RuntimeNotConfigured, "runtime-not-configured", Host),
        (C::RuntimeMode, "runtime-mode", Host),
        (C::ImageNotImported, "image-not-imported", Host),
        (C::L4tRelease, "l4t-release", Host),
    ]
};

impl Check {
    /// It is about taking a cluster over from the KAI Scheduler.
    pub fn is_about_take_over(self) -> bool {
        matches!(
            self,
            Self::KaiRunning
                | Self::LegacyReservations
                | Self::ReservationClash
                | Self::ReservationOrphan
                | Self::CrdMissing
                | Self::Unreadable
        )
    }

    /// Every check, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(check, ..)| *check)
    }

    fn entry(self) -> &'static (Self, &'static str, Scope) {
        let known = ALL.iter().find(|(check, ..)| *check == self);
        known.unwrap_or(&ALL[0]) // a test sees to it that each is listed
    }

    /// Name in findings and documentation, such as `gpu-memory-label`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Whether the check reads the API or a host.
    pub fn scope(self) -> Scope {
        self.entry().2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_listed_once() {
        for (place, check) in Check::all().enumerate() {
            assert_eq!(check as usize, place, "{check:?} is listed at another place");
        }
        assert_eq!(ALL.len(), Check::L4tRelease as usize + 1);
    }
}
