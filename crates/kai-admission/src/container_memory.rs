//! Requests and limits of GPU memory of a single container, as KAI 0.18 and NVIDIA's driver support write them, into the
//! annotations that the scheduler reads. The scheduler places by the request; the limit may be above it.

use std::collections::BTreeSet;

use kai_api::gpu_request::GpuShare;
use kai_api::names::{gpu, guard};
use kai_api::quantity::Quantity;

use super::container::{Target, gpu_annotations, gpu_request, is_fractional};
use super::pod::Pod;

const MIB: f64 = 1_048_576.0;

/// Translates the annotations of a container, where the pod does not say itself what it asks for.
pub(super) fn translate(pod: &mut Pod) -> Result<(), String> {
    let containers = named_containers(pod);
    let Some(container) = containers.first().cloned() else { return Ok(()) };
    if containers.len() > 1 {
        let all: Vec<String> = containers.into_iter().collect();
        return Err(format!(
            "containers {} request GPU memory: only one container of a pod can share GPUs",
            all.join(", ")
        ));
    }
    let read = |suffix: &str| {
        let key = format!("{}{container}{suffix}", guard::NVIDIA_CONTAINER_PREFIX);
        pod.annotation(&key).map(|text| mebibytes(&key, text)).transpose()
    };
    let (request, limit) = (read(guard::NVIDIA_REQUEST_SUFFIX)?, read(guard::NVIDIA_LIMIT_SUFFIX)?);
    let Some(request) = request.or(limit) else { return Ok(()) };
    if !is_fractional(pod) {
        pod.set_annotation(gpu::MEMORY, &request.to_string());
    }
    if gpu_annotations(pod).container().is_none() {
        pod.set_annotation(gpu::FRACTION_CONTAINER, &container);
    }
    if let Some(limit) = limit
        && limit != request
        && pod.annotation(guard::MEMORY_LIMIT).is_none()
    {
        pod.set_annotation(guard::MEMORY_LIMIT, &limit.to_string());
    }
    Ok(())
}

/// Containers with a request or a limit of their own.
fn named_containers(pod: &Pod) -> BTreeSet<String> {
    let keys = pod.metadata.annotations.iter().flat_map(|all| all.keys());
    let rest = keys.filter_map(|key| key.strip_prefix(guard::NVIDIA_CONTAINER_PREFIX));
    let suffixes = [guard::NVIDIA_REQUEST_SUFFIX, guard::NVIDIA_LIMIT_SUFFIX];
    rest.filter_map(|rest| suffixes.iter().find_map(|suffix| rest.strip_suffix(suffix)))
        .map(str::to_owned)
        .collect()
}

/// Whole MiB, rounded up.
fn mebibytes(key: &str, text: &str) -> Result<u64, String> {
    let bytes = Quantity::parse(text).map(|quantity| quantity.as_f64()).unwrap_or_default();
    if bytes < MIB {
        return Err(format!("annotation {key} must be a quantity of at least 1Mi, is {text:?}"));
    }
    Ok((bytes / MIB).ceil() as u64)
}

/// Annotations of containers that say how they share the processors of a device.
fn compute_modes(pod: &Pod) -> Vec<(&str, &str)> {
    let is_mode = |key: &str| {
        key.starts_with(guard::NVIDIA_CONTAINER_PREFIX)
            && key.ends_with(guard::NVIDIA_COMPUTE_SUFFIX)
    };
    let annotations = pod.metadata.annotations.iter().flatten();
    let modes = annotations.filter(|(key, _)| is_mode(key));
    modes.map(|(key, mode)| (key.as_str(), mode.as_str())).collect()
}

/// Why a change is denied: the device of a pod with a node was chosen for its mode.
pub(super) fn validate_change(before: &Pod, after: &Pod) -> Result<(), String> {
    if before.spec.node_name.is_none() || compute_modes(before) == compute_modes(after) {
        return Ok(());
    }
    Err(format!(
        "cannot change annotation {}*{} of a pod that has a node: its device holds pods of one mode only",
        guard::NVIDIA_CONTAINER_PREFIX,
        guard::NVIDIA_COMPUTE_SUFFIX
    ))
}

/// Why a new pod is denied: modes or limits without meaning, limits below requests.
pub(super) fn validate(pod: &Pod) -> Result<(), String> {
    let modes = compute_modes(pod);
    let is_known = |mode: &str| [guard::TIME_SLICING, guard::SM_SHARING].contains(&mode);
    if let Some((key, mode)) = modes.iter().find(|(_, mode)| !is_known(mode)) {
        return Err(format!(
            "annotation {key} must be {} or {}, is {mode:?}",
            guard::TIME_SLICING,
            guard::SM_SHARING
        ));
    }
    if modes.iter().any(|(_, mode)| *mode != modes[0].1) {
        return Err(
            "containers of a pod share its GPUs: they must have one compute mode".to_owned()
        );
    }
    let share = gpu_request(pod).request.shared().map(|(share, _)| share);
    if let Some(limit) = pod.annotation(guard::MEMORY_LIMIT) {
        let least = match share {
            Some(GpuShare::Memory(mib)) => mib,
            Some(GpuShare::Fraction(_)) | None => 1,
        };
        if !limit.parse().is_ok_and(|limit: i64| limit >= least) {
            return Err(format!(
                "annotation {} must be whole MiB, at least {least}, is {limit:?}",
                guard::MEMORY_LIMIT
            ));
        }
    }
    let own = Target::of(pod).map(|target| target.name(pod)).unwrap_or_default();
    let keys = [
        guard::FRACTION_LIMIT.to_owned(),
        format!("{}{own}{}", guard::CONTAINER_PREFIX, guard::PORTION_LIMIT_SUFFIX),
    ];
    let least = match share {
        Some(GpuShare::Fraction(portion)) => portion,
        Some(GpuShare::Memory(_)) | None => 0.0,
    };
    for key in keys {
        let Some(limit) = pod.annotation(&key) else { continue };
        if !limit.parse().is_ok_and(|limit: f64| limit > 0.0 && limit >= least && limit <= 1.0) {
            return Err(format!(
                "annotation {key} must be a number above 0, at least {least}, at most 1, is {limit:?}"
            ));
        }
    }
    Ok(())
}

impl Target {
    fn name(self, pod: &Pod) -> String {
        let container = pod.containers(self.init).get(self.index);
        container.and_then(|container| container.name.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: &Value) -> Pod {
        let object = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "main"}, {"name": "side"}]}});
        serde_json::from_value(object).expect("a pod")
    }

    fn translated(annotations: &Value) -> Result<Value, String> {
        let mut pod = pod(annotations);
        translate(&mut pod)?;
        let keys = [gpu::MEMORY, gpu::FRACTION_CONTAINER, guard::MEMORY_LIMIT];
        Ok(json!(keys.map(|key| pod.annotation(key).map(str::to_owned))))
    }

    #[test]
    fn request_and_limit_of_a_container_are_read() {
        let request = "nvidia.com/container.side.gpu-memory.request";
        let limit = "nvidia.com/container.side.gpu-memory.limit";
        assert_eq!(
            translated(&json!({request: "4Gi", limit: "8Gi"})),
            Ok(json!(["4096", "side", "8192"]))
        );
        assert_eq!(
            translated(&json!({request: "1.5Mi"})),
            Ok(json!(["2", "side", null])),
            "rounded up"
        );
        assert_eq!(
            translated(&json!({limit: "8Gi"})),
            Ok(json!(["8192", "side", null])),
            "the other one"
        );
        assert_eq!(translated(&json!({})), Ok(json!([null, null, null])));
        assert!(
            translated(&json!({request: "1"})).expect_err("too little").contains("at least 1Mi")
        );
        let two = json!({request: "1Gi", "nvidia.com/container.main.gpu-memory.limit": "1Gi"});
        assert!(translated(&two).expect_err("two").contains("main, side"));
    }

    #[test]
    fn compute_modes_are_known_the_same_for_all_containers_and_final() {
        let main = "nvidia.com/container.main.gpu-compute.mode";
        let side = "nvidia.com/container.side.gpu-compute.mode";
        let judged = |annotations: &Value| validate(&pod(annotations));
        assert_eq!(judged(&json!({main: "sm-sharing"})), Ok(()));
        assert_eq!(judged(&json!({main: "time-slicing", side: "time-slicing"})), Ok(()));
        let unknown = judged(&json!({main: "mps"})).expect_err("no mode");
        assert_eq!(
            unknown,
            "annotation nvidia.com/container.main.gpu-compute.mode must be time-slicing or sm-sharing, is \"mps\""
        );
        assert!(judged(&json!({main: "time-slicing", side: "sm-sharing"})).is_err(), "two modes");
        let (before, after) = (pod(&json!({})), pod(&json!({main: "sm-sharing"})));
        assert_eq!(validate_change(&before, &after), Ok(()), "it has no node yet");
        let mut placed = before;
        placed.spec.node_name = Some("n".to_owned());
        assert!(validate_change(&placed, &after).is_err());
        assert_eq!(validate_change(&placed, &placed), Ok(()));
    }

    #[test]
    fn limits_are_not_below_requests() {
        let denied = |annotations: &Value| validate(&pod(annotations)).is_err();
        assert!(!denied(&json!({"gpu-memory": "100", "gpu-memory.limit": "200"})));
        assert!(denied(&json!({"gpu-memory": "100", "gpu-memory.limit": "99"})));
        assert!(denied(&json!({"gpu-memory": "100", "gpu-memory.limit": "1Gi"})));
        assert!(!denied(&json!({"gpu-fraction": "0.3", "gpu-fraction.limit": "1"})));
        assert!(denied(&json!({"gpu-fraction": "0.3", "gpu-fraction.limit": "0.2"})));
        assert!(denied(&json!({"gpu-fraction": "0.3", "gpu-fraction.limit": "1.5"})));
        let portion = "kai.scheduler/container.main.gpu-memory.portion.limit";
        assert!(denied(&json!({"gpu-fraction": "0.3", portion: "0.1"})));
        assert!(!denied(&json!({"gpu-fraction": "0.3", portion: "0.6"})));
    }
}
