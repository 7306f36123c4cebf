//! Every check by name.

/// Where a check looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At what the API shows: `kai doctor`.
    Cluster,
    /// At a host: `kai doctor node`.
    Host,
}

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// GPUs whose memory nobody tells.
    GpuMemoryLabel,
    /// GPUs of which nobody says how many there are.
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
    /// Something cannot be looked at.
    Unreadable,
    /// A reservation pod does not find NVML's library.
    NvmlLibraryNotFound,
    /// NVML finds no driver.
    NvmlDriverNotLoaded,
    /// NVML may not open the devices.
    NvmlPermissionDenied,
    /// A reservation pod sees none or several devices.
    NvmlDeviceCount,
    /// A node refuses a reservation pod.
    ReservationRefused,
    /// A reservation pod says nothing.
    ReservationSilent,
    /// Two groups of a node have one device.
    ReservationClash,
    /// A reservation that nobody uses.
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
    /// The namespace of reservations forbids what Tegra needs.
    PodSecurity,
    /// `OpenShift` forbids pods.
    OpenShiftScc,
    /// Nobody completes pods that want a share.
    WebhookMissing,
    /// The API server cannot trust the webhook.
    WebhookCertificate,
    /// The API server cannot reach the webhook.
    WebhookUnreachable,
    /// A pod that was made while nobody completed it.
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
    /// Pods that nobody looks at.
    SchedulerSilent,
    /// The host: no library.
    NvmlLibrary,
    /// The host: a library where nobody looks.
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

/// Name, place and subject of every check, in the order of the documentation.
const ALL: [(Check, &str, Scope, &str); 45] = {
    use Check as C;
    use Scope::{Cluster, Host};
    [
        (
            C::GpuMemoryLabel,
            "gpu-memory-label",
            Cluster,
            "a node has GPUs and nothing tells their memory",
        ),
        (
            C::GpuCountLabel,
            "gpu-count-label",
            Cluster,
            "a node offers several GPUs and nothing tells how many there are",
        ),
        (
            C::GpuNotAdvertised,
            "gpu-not-advertised",
            Cluster,
            "a node is labelled as having GPUs and offers none",
        ),
        (
            C::GpuFewerAdvertised,
            "gpu-fewer-advertised",
            Cluster,
            "a node offers fewer GPUs than its label counts",
        ),
        (
            C::GpuRenamed,
            "gpu-renamed",
            Cluster,
            "time-sliced GPUs are offered as `nvidia.com/gpu.shared`",
        ),
        (C::TimeSlicing, "time-slicing", Cluster, "GPUs are offered several times each"),
        (C::RuntimeClass, "runtime-class", Cluster, "there are GPUs and no runtime class `nvidia`"),
        (
            C::RuntimeNotOnNode,
            "runtime-not-on-node",
            Cluster,
            "a node does not know the runtime that a pod's class names",
        ),
        (
            C::CdiMismatch,
            "cdi-mismatch",
            Cluster,
            "`Config` and the GPU operator's `ClusterPolicy` disagree about CDI",
        ),
        (C::Unreadable, "unreadable", Cluster, "something could not be looked at"),
        (
            C::NvmlLibraryNotFound,
            "nvml-library-not-found",
            Cluster,
            "a reservation pod says `ERROR_LIBRARY_NOT_FOUND`",
        ),
        (
            C::NvmlDriverNotLoaded,
            "nvml-driver-not-loaded",
            Cluster,
            "a reservation pod says `Driver Not Loaded`",
        ),
        (
            C::NvmlPermissionDenied,
            "nvml-permission-denied",
            Cluster,
            "a reservation pod may not open the devices",
        ),
        (
            C::NvmlDeviceCount,
            "nvml-device-count",
            Cluster,
            "a reservation pod sees none or several devices",
        ),
        (C::ReservationRefused, "reservation-refused", Cluster, "a node refused a reservation pod"),
        (
            C::ReservationSilent,
            "reservation-silent",
            Cluster,
            "a reservation pod runs and names no device",
        ),
        (
            C::ReservationClash,
            "reservation-clash",
            Cluster,
            "two groups of a node have the same device",
        ),
        (C::ReservationOrphan, "reservation-orphan", Cluster, "a reservation that no pod uses"),
        (C::ImageMissing, "image-missing", Cluster, "a node has no image and cannot get it"),
        (
            C::PullPolicy,
            "pull-policy",
            Cluster,
            "an image is pulled whether or not it was imported",
        ),
        (
            C::TegraLibraryMount,
            "tegra-library-mount",
            Cluster,
            "a reservation on Tegra lacks the folder with NVML's library",
        ),
        (
            C::TegraDeviceMount,
            "tegra-device-mount",
            Cluster,
            "a reservation on Tegra lacks the device files",
        ),
        (
            C::TegraPrivileged,
            "tegra-privileged",
            Cluster,
            "a reservation on Tegra is not privileged",
        ),
        (
            C::PodSecurity,
            "pod-security",
            Cluster,
            "the namespace of reservations forbids what Tegra needs",
        ),
        (
            C::OpenShiftScc,
            "openshift-scc",
            Cluster,
            "OpenShift's security context constraints forbid a pod",
        ),
        (C::WebhookMissing, "webhook-missing", Cluster, "nobody completes pods that want a share"),
        (
            C::WebhookCertificate,
            "webhook-certificate",
            Cluster,
            "a webhook is registered without a certificate",
        ),
        (
            C::WebhookUnreachable,
            "webhook-unreachable",
            Cluster,
            "nobody answers at a webhook's service",
        ),
        (
            C::FractionNotAdmitted,
            "fraction-not-admitted",
            Cluster,
            "a pod wants a share and was not completed",
        ),
        (C::CrdMissing, "crd-missing", Cluster, "a custom resource of ours is not installed"),
        (C::AccountMissing, "account-missing", Cluster, "a service account of ours does not exist"),
        (
            C::RoleIncomplete,
            "role-incomplete",
            Cluster,
            "a role of ours is missing or lacks rights",
        ),
        (
            C::BindingMissing,
            "binding-missing",
            Cluster,
            "an account of ours does not have its role",
        ),
        (
            C::FractionOtherScheduler,
            "fraction-other-scheduler",
            Cluster,
            "a pod wants a share and names another scheduler",
        ),
        (C::UnknownQueue, "unknown-queue", Cluster, "a pod names a queue that does not exist"),
        (C::SchedulerSilent, "scheduler-silent", Cluster, "pods wait and nobody says why"),
        (C::NvmlLibrary, "nvml-library", Host, "`libnvidia-ml.so.1` is not on this host"),
        (
            C::NvmlLibraryFolder,
            "nvml-library-folder",
            Host,
            "it is in a folder of its own, and the kernel is not Tegra's",
        ),
        (
            C::DeviceFiles,
            "device-files",
            Host,
            "`/dev/nvidia*`, or on Tegra `nvmap` and `nvhost-*`, are missing",
        ),
        (
            C::DevicePermissions,
            "device-permissions",
            Host,
            "containers may not open the device files",
        ),
        (C::RuntimeMissing, "runtime-missing", Host, "NVIDIA's container runtime is not installed"),
        (
            C::RuntimeNotConfigured,
            "runtime-not-configured",
            Host,
            "containerd or k3s does not know it",
        ),
        (C::RuntimeMode, "runtime-mode", Host, "it is in a mode that cannot work here"),
        (C::ImageNotImported, "image-not-imported", Host, "our image is not in containerd or k3s"),
        (C::L4tRelease, "l4t-release", Host, "Jetson Linux is too old, or its release is unknown"),
    ]
};

impl Check {
    /// Every check, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(check, ..)| *check)
    }

    fn entry(self) -> &'static (Self, &'static str, Scope, &'static str) {
        let known = ALL.iter().find(|(check, ..)| *check == self);
        known.unwrap_or(&ALL[0]) // a test sees to it that each is listed
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Where it looks.
    pub fn scope(self) -> Scope {
        self.entry().2
    }

    /// What it finds.
    pub fn about(self) -> &'static str {
        self.entry().3
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
