//! Limits of the GPU memory of sharing pods.

/// Annotation on a pod and label on a namespace: `off`, `report` or `enforce`. The strictest of pod, namespace and cluster
/// holds; admission writes it on the pod, and it cannot be changed from then on.
pub const ENFORCEMENT: &str = "kai.scheduler/gpu-memory-enforcement";

/// Annotation on a sharing pod, written with its node and when its processes were observed: `enforced`, `reported`, `off`,
/// `not yet observed: <why>` or `not enforceable: <why>`.
pub const STATUS: &str = "kai.scheduler/gpu-memory-enforcement-status";

/// Annotation on a sharing pod: MiB that its processes hold, `<UUID>=<MiB>,...`, where a reservation pod observes them.
pub const USED: &str = "kai.scheduler/gpu-memory-used";

/// Value of [`STATUS`]: allocations above the limit fail. A process of the pod was observed with the library.
pub const ENFORCED: &str = "enforced";

/// Value of [`STATUS`]: memory is counted, nothing is refused.
pub const REPORTED: &str = "reported";

/// Value of [`STATUS`]: processes can take the whole device.
pub const OFF: &str = "off";

/// Start of the value of [`STATUS`] where a limit was asked for and cannot be kept; the reason follows.
pub const NOT_ENFORCEABLE: &str = "not enforceable: ";

/// Start of the value of [`STATUS`] where the library was put into the pod and no process was observed yet; the reason
/// follows.
pub const NOT_OBSERVED: &str = "not yet observed: ";

/// Reason after [`NOT_OBSERVED`]: the library is ready, and nothing was allocated yet.
pub const UNUSED: &str = "no process of the pod uses the GPU";

/// Reason after [`NOT_ENFORCEABLE`], until a process of the pod uses the GPU.
pub const NO_LIBRARY: &str =
    "no process of the pod has loaded the library (static, musl, or a loader of its own)";

/// Reason after [`NOT_ENFORCEABLE`], until a process of the pod loads CUDA.
pub const NO_CUDA: &str = "no process of the pod has loaded CUDA";

/// Annotation on a sharing pod: most MiB of each device, above `gpu-memory`, which the scheduler places by.
pub const MEMORY_LIMIT: &str = "gpu-memory.limit";

/// Annotation on a sharing pod: the largest part of each device, above `gpu-fraction`, which the scheduler places by.
pub const FRACTION_LIMIT: &str = "gpu-fraction.limit";

/// Init container that copies the library.
pub const INIT_CONTAINER: &str = "kai-guard";

/// Volume with the library and `ld.so.preload`.
pub const LIBRARY_VOLUME: &str = "kai-guard-lib";

/// Volume with the limits file.
pub const LIMITS_VOLUME: &str = "kai-guard-limits";

/// Volume with the usage region.
pub const USAGE_VOLUME: &str = "kai-guard-usage";

/// Folder of the library in the container.
pub const LIBRARY_FOLDER: &str = "/kai-guard/lib";

/// Folder of the limits file in the container.
pub const LIMITS_FOLDER: &str = "/kai-guard/limits";

/// File with the limits in its folder.
pub const LIMITS: &str = "limits";

/// Folder of the usage region in the container.
pub const USAGE_FOLDER: &str = "/kai-guard/usage";

/// File of the usage region in its folder.
pub const REGION: &str = "region";

/// The file that makes the dynamic loader of glibc load the library.
pub const PRELOAD_FILE: &str = "/etc/ld.so.preload";

/// Name of the library.
pub const LIBRARY: &str = "libkai_guard.so";

/// The library in the image of `kai`.
pub const LIBRARY_IN_IMAGE: &str = "/usr/lib/kai/libkai_guard.so";

/// Prefix of annotations of one container.
pub const CONTAINER_PREFIX: &str = "kai.scheduler/container.";

/// Suffix of the annotation with the contents of the limits file.
pub const LIMITS_SUFFIX: &str = ".gpu-memory-limits";

/// Suffix of the annotation of KAI 0.18 with the largest part of a device.
pub const PORTION_LIMIT_SUFFIX: &str = ".gpu-memory.portion.limit";

/// Prefix of the annotations of one container that NVIDIA's driver support reads.
pub const NVIDIA_CONTAINER_PREFIX: &str = "nvidia.com/container.";

/// Suffix of NVIDIA's annotation with the requested memory.
pub const NVIDIA_REQUEST_SUFFIX: &str = ".gpu-memory.request";

/// Suffix of NVIDIA's annotation with the most memory.
pub const NVIDIA_LIMIT_SUFFIX: &str = ".gpu-memory.limit";

/// Suffix of NVIDIA's annotation with the devices.
pub const NVIDIA_DEVICES_SUFFIX: &str = ".gpus.devices";

/// Suffix of NVIDIA's annotation with the way in which containers share a device: `time-slicing` or `sm-sharing`.
pub const NVIDIA_COMPUTE_SUFFIX: &str = ".gpu-compute.mode";

/// Value of [`NVIDIA_COMPUTE_SUFFIX`]: the pods on a device use its processors one after the other. The default.
pub const TIME_SLICING: &str = "time-slicing";

/// Value of [`NVIDIA_COMPUTE_SUFFIX`]: they use them at the same time, through NVIDIA's multi-process service.
pub const SM_SHARING: &str = "sm-sharing";

/// Node label with the major version of NVIDIA's driver.
pub const DRIVER_MAJOR: &str = "gpu-fractioning.kai.scheduler/nvidia-driver-version.major";

/// First driver that limits memory itself.
pub const FIRST_LIMITING_DRIVER: u32 = 615;

/// Longest name part of an annotation key.
const LONGEST_KEY: usize = 63;
/// Digits that distinguish shortened names.
const DIGITS: usize = 8;

/// Annotation with the contents of a container's limits file. The name of a container that makes the key too long is cut
/// and made unique by a hash.
pub fn limits_annotation(container: &str) -> String {
    let longest = LONGEST_KEY - "container.".len() - LIMITS_SUFFIX.len();
    if container.len() <= longest {
        return format!("{CONTAINER_PREFIX}{container}{LIMITS_SUFFIX}");
    }
    let hash = container
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let start: String = container.chars().take(longest - DIGITS - 1).collect();
    format!("{CONTAINER_PREFIX}{start}-{hash:08x}{LIMITS_SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_valid_for_every_container_name() {
        assert_eq!(limits_annotation("main"), "kai.scheduler/container.main.gpu-memory-limits");
        let long = limits_annotation(&"a".repeat(63));
        let name = long.strip_prefix("kai.scheduler/").expect("our prefix");
        assert_eq!(name.len(), LONGEST_KEY, "{name}");
        let other = format!("{}b", "a".repeat(62));
        assert_ne!(limits_annotation(&other), long, "same start, another container");
    }
}
