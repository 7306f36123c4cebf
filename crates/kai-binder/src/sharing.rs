//! What the containers of a sharing pod read about their devices: two config maps, which admission has referred them to. A map is written
//! only where the pod refers to it.

use std::collections::BTreeMap;

use kai_api::gpu_request::GpuAnnotations;
use kai_api::names::{env, gpu, objects};
use kai_translate::{pod as pods, view};

/// A config map that belongs to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigMap {
    pub(super) name: String,
    pub(super) data: BTreeMap<&'static str, String>,
}

/// The container that gets the share.
struct Target<'a> {
    container: &'a view::Container,
    /// As it appears in names: `0`, or `i0` among init containers.
    place: String,
}

fn target(pod: &view::Pod) -> Result<Target<'_>, String> {
    let spec = &pod.spec;
    let Some(name) = GpuAnnotations::of(&pod.metadata.annotations).container() else {
        let container = spec.containers.first().ok_or("the pod has no containers")?;
        return Ok(Target { container, place: "0".to_owned() });
    };
    let places = |mark: &'static str, containers: &'_ [view::Container]| {
        let at = containers.iter().position(|container| container.name == name)?;
        Some((at, format!("{mark}{at}")))
    };
    if let Some((at, place)) = places("i", &spec.init_containers) {
        return Ok(Target { container: &spec.init_containers[at], place });
    }
    match places("", &spec.containers) {
        Some((at, place)) => Ok(Target { container: &spec.containers[at], place }),
        None => Err(format!(
            "failed to get fraction container ref: container with name {name} not found for fraction request"
        )),
    }
}

/// The container that gets the share.
pub(super) fn sharing_container(pod: &view::Pod) -> Option<&view::Container> {
    target(pod).ok().map(|target| target.container)
}

/// The names of the map of capabilities and of the map of variables.
fn names(pod: &view::Pod, target: &Target<'_>) -> Result<(String, String), String> {
    let prefix = pod.metadata.annotations.get(gpu::SHARED_CONFIG_MAP).ok_or_else(|| {
        format!(
            "failed to get capabilities configmap name: no desired configmap name found in pod {}/{} annotations; \
             the annotation {} is missing because the admission webhook did not see the pod: \
             check with `kai doctor` that the webhook is registered, then create the pod again",
            pod.metadata.namespace,
            pod.metadata.name,
            gpu::SHARED_CONFIG_MAP
        )
    })?;
    let capabilities = format!("{prefix}-{}", target.place);
    let variables = format!("{capabilities}{}", objects::EVAR_SUFFIX);
    Ok((capabilities, variables))
}

/// How the pod refers to a config map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reference {
    None,
    /// Containers start without the map.
    Optional,
    /// Containers wait for the map.
    Required,
}

fn reference(pod: &view::Pod, map: &str) -> Reference {
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let sources = containers.flat_map(|container| {
        let variables = container.env.iter().filter_map(|variable| variable.value_from.as_ref());
        let keys = variables.filter_map(|source| source.config_map_key_ref.as_ref());
        keys.chain(container.env_from.iter().filter_map(|source| source.config_map_ref.as_ref()))
    });
    let volumes = pod.spec.volumes.iter().filter_map(|volume| volume.config_map.as_ref());
    let named = sources.chain(volumes).filter(|source| source.name == map);
    let references = named.map(|source| match source.optional {
        Some(true) => Reference::Optional,
        _ => Reference::Required,
    });
    references.max().unwrap_or(Reference::None)
}

/// Why the containers of the pod cannot be given their devices; none: they can.
pub(super) fn problem(pod: &view::Pod) -> Option<String> {
    target(pod).and_then(|target| names(pod, &target)).err()
}

/// Why a share of devices cannot be what the pod requests: its fields contradict each other or cannot be read.
pub(super) fn request_problem(pod: &view::Pod) -> Option<String> {
    let reading = pods::shared_gpus(pod)?;
    let problem = reading.problems.first()?;
    Some(format!("Pod {}: {problem}", pods::name(pod)))
}

/// What config maps say about the devices of a pod.
pub(super) struct GrantedDevices<'a> {
    pub(super) devices: &'a [&'a str],
    /// Its part of each.
    pub(super) portion: &'a str,
    /// Devices are named in the notation of CDI.
    pub(super) cdi: bool,
    /// MiB of each that it may use, for the library of `HAMi`.
    pub(super) limit_mib: Option<i64>,
}

/// The config maps of a pod that got a share of these devices.
pub(super) fn config_maps(
    pod: &view::Pod,
    granted: &GrantedDevices<'_>,
) -> Result<Vec<ConfigMap>, String> {
    let GrantedDevices { devices, portion, cdi, limit_mib } = *granted;
    let target = target(pod)?;
    let (capabilities, variables) = names(pod, &target)?;
    let prefix = if cdi { gpu::CDI_DEVICE_PREFIX } else { "" };
    let device = |id: &&str| format!("{prefix}{id}");
    let visible = devices.iter().map(device).collect::<Vec<_>>().join(",");
    let refers = target.container.env.iter().any(|variable| {
        let source = variable.value_from.as_ref();
        variable.name == env::NVIDIA_VISIBLE_DEVICES
            && source.is_some_and(|source| source.config_map_key_ref.is_some())
    });
    let mut capabilities = ConfigMap {
        name: capabilities,
        data: BTreeMap::from([
            (env::GPU_PORTION, portion.to_owned()),
            (env::RUNAI_NUM_OF_GPUS, portion.to_owned()),
        ]),
    };
    let limit = limit_mib.map(|mib| (env::CUDA_DEVICE_MEMORY_LIMIT, format!("{mib}m")));
    capabilities.data.extend(limit);
    let mut variables = ConfigMap { name: variables, data: BTreeMap::new() };
    let target_map = if refers { &mut capabilities } else { &mut variables };
    target_map.data.insert(env::NVIDIA_VISIBLE_DEVICES, visible);
    let mut maps = vec![capabilities, variables];
    maps.retain(|map| match reference(pod, &map.name) {
        Reference::None => false,
        Reference::Optional => !map.data.is_empty(),
        Reference::Required => true,
    });
    Ok(maps)
}

/// The names of the config maps that a bind may have made for the pod.
pub(super) fn config_map_names(pod: &view::Pod) -> Vec<String> {
    let named = target(pod).and_then(|target| names(pod, &target));
    named.map(|(capabilities, variables)| vec![capabilities, variables]).unwrap_or_default()
}

/// Whether the label names a shared device.
pub(super) fn is_group_label(key: &str) -> bool {
    key == gpu::GROUP || key.starts_with(gpu::MULTI_GROUP_PREFIX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(annotations: &serde_json::Value) -> view::Pod {
        let refers = json!({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "p-0", "key": "NVIDIA_VISIBLE_DEVICES"}}});
        let object = json!({
            "metadata": {"name": "n", "namespace": "ns", "annotations": annotations},
            "spec": {
                "initContainers": [{"name": "first", "envFrom": [{"configMapRef": {"name": "p-i0-evar"}}]}],
                "containers": [{"name": "main", "env": [refers]}, {"name": "side"}],
            },
        });
        serde_json::from_value(object).expect("a pod")
    }

    fn maps_of(annotations: &serde_json::Value, cdi: bool) -> Result<Vec<ConfigMap>, String> {
        let devices = ["GPU-1", "GPU-2"];
        let granted =
            GrantedDevices { devices: &devices, portion: "0.50", cdi, limit_mib: Some(8000) };
        config_maps(&pod(annotations), &granted)
    }

    #[test]
    fn devices_stand_where_admission_referred_to() {
        let maps = maps_of(&json!({"runai/shared-gpu-configmap": "p"}), false).expect("maps");
        let names: Vec<&str> = maps.iter().map(|map| &*map.name).collect();
        assert_eq!(names, ["p-0"], "no container refers to the other");
        assert_eq!(maps[0].data["NVIDIA_VISIBLE_DEVICES"], "GPU-1,GPU-2");
        assert_eq!(maps[0].data["GPU_PORTION"], "0.50");
        assert_eq!(maps[0].data["RUNAI_NUM_OF_GPUS"], "0.50");
        assert_eq!(maps[0].data["CUDA_DEVICE_MEMORY_LIMIT"], "8000m");
    }

    #[test]
    fn a_map_is_written_where_a_container_waits_for_it_or_it_says_something() {
        let written = |optional: serde_json::Value| -> Vec<String> {
            let mut pod = pod(&json!({"runai/shared-gpu-configmap": "p"}));
            let source = json!({"name": "p-0-evar", "optional": optional});
            let source = serde_json::from_value(json!({"configMapRef": source})).expect("a source");
            pod.spec.containers[0].env_from.push(source);
            let granted = GrantedDevices {
                devices: &["GPU-1"],
                portion: "0.50",
                cdi: false,
                limit_mib: None,
            };
            let maps = config_maps(&pod, &granted).expect("maps");
            maps.into_iter().map(|map| map.name).collect()
        };
        assert_eq!(written(json!(null)), ["p-0", "p-0-evar"], "the kubelet waits for it");
        assert_eq!(written(json!(false)), ["p-0", "p-0-evar"]);
        assert_eq!(written(json!(true)), ["p-0"], "it is empty");
    }

    #[test]
    fn a_container_without_the_reference_gets_the_variable() {
        let annotations =
            json!({"runai/shared-gpu-configmap": "p", "gpu-fraction-container-name": "first"});
        let maps = maps_of(&annotations, true).expect("maps");
        assert_eq!((maps.len(), &*maps[0].name), (1, "p-i0-evar"));
        assert_eq!(
            maps[0].data["NVIDIA_VISIBLE_DEVICES"],
            "k8s.device-plugin.nvidia.com/gpu=GPU-1,k8s.device-plugin.nvidia.com/gpu=GPU-2"
        );
        let annotations =
            json!({"runai/shared-gpu-configmap": "p", "gpu-fraction-container-name": "side"});
        assert_eq!(maps_of(&annotations, false).expect("maps"), [], "it refers to nothing");
    }

    #[test]
    fn missing_annotations_of_admission_are_named() {
        let error = maps_of(&json!({}), false).expect_err("no prefix");
        assert!(
            error.contains(
                "no desired configmap name found in pod ns/n annotations; the annotation"
            ),
            "{error}"
        );
        let annotations = json!({"gpu-fraction-container-name": "x"});
        let error = maps_of(&annotations, false).expect_err("no container");
        assert!(error.ends_with("container with name x not found for fraction request"), "{error}");
        assert!(config_map_names(&pod(&json!({}))).is_empty());
    }
}
