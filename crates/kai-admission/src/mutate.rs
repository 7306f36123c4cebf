//! What pods are given when they are created: variables and config maps of shared devices, and the runtime that knows them.
//! The config maps are made when the pod is bound; its containers wait for them.

use kai_api::names::objects::{EVAR_SUFFIX, SHARED_GPU_SUFFIX};
use kai_api::names::{env, gpu};
use serde::Serialize;
use serde_json::{Value, json};

use super::container::{Target, is_fractional, uses_devices};
use super::pod::{Pod, Variable, VariableSource, Volume};
use super::{PodRules, container_memory, guard};

/// Letters of generated names, without those that could form words or be mistaken.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest name to which the index of a container and suffixes can be added.
const LONGEST: usize = 40;

/// The pod as it should be; names that must be unique are made from `seed`.
pub fn mutated(pod: &Pod, rules: &PodRules, seed: &str) -> Result<Pod, String> {
    let mut pod = pod.clone();
    container_memory::translate(&mut pod)?;
    let fractional = is_fractional(&pod) && !pod.containers(false).is_empty();
    let target = if fractional {
        let find = |pod: &Pod| {
            let found = Target::of(pod);
            found.map_err(|error| format!("failed to get fraction container ref: {error}"))
        };
        let target = find(&pod)?;
        guard::inject(&mut pod, target, rules)?;
        Some(find(&pod)?) // an init container has another place behind ours
    } else {
        None
    };
    if let Some(target) = target {
        give_share(&mut pod, target, rules, seed);
        if let Some(class) = &rules.runtime_class
            && pod.spec.runtime_class_name.as_deref().unwrap_or_default().is_empty()
        {
            pod.spec.runtime_class_name = Some(class.clone());
        }
    }
    if rules.block_visible_devices {
        hide_devices(&mut pod, target);
    }
    Ok(pod)
}

fn give_share(pod: &mut Pod, target: Target, rules: &PodRules, seed: &str) {
    let prefix = config_map_prefix(pod, target, seed);
    pod.set_annotation(gpu::SHARED_CONFIG_MAP, &prefix);
    let Target { init, index } = target;
    let map = format!("{prefix}-{}{index}", if init { "i" } else { "" });
    let variables_map = format!("{map}{EVAR_SUFFIX}");
    let Some(container) = pod.containers_mut(init).get_mut(index) else { return };
    let mut wanted = vec![
        (env::NVIDIA_VISIBLE_DEVICES, json!({"name": map, "key": env::NVIDIA_VISIBLE_DEVICES})),
        (env::RUNAI_NUM_OF_GPUS, json!({"name": map, "key": env::RUNAI_NUM_OF_GPUS})),
        (env::GPU_PORTION, json!({"name": map, "key": env::GPU_PORTION})),
    ];
    if rules.hami_core {
        let key = env::CUDA_DEVICE_MEMORY_LIMIT;
        wanted.push((key, json!({"name": map, "key": key, "optional": true})));
    }
    let variables = container.env.get_or_insert_default();
    variables.retain(|one| !wanted.iter().any(|(name, _)| one.is_named(name)));
    for (name, source) in wanted {
        variables.push(Variable::reference(name, json!({"configMapKeyRef": source})));
    }
    let sources = container.env_from.get_or_insert_default();
    if !sources.iter().any(|source| source.config_map_name() == Some(&*variables_map)) {
        // All variables come from the first map: this one is for other binders, and ours does not write it.
        sources.push(VariableSource::optional_config_map(&variables_map));
    }
    let volume = volume_name(&map);
    let volumes = pod.spec.volumes.get_or_insert_default();
    if !volumes.iter().any(|one| one.name.as_deref() == Some(&*volume)) {
        volumes.push(Volume::config_map(&volume, &map));
    }
}

/// Containers that use no device see none.
fn hide_devices(pod: &mut Pod, target: Option<Target>) {
    for init in [true, false] {
        for (index, container) in pod.containers_mut(init).iter_mut().enumerate() {
            if target == Some(Target { init, index }) || uses_devices(container) {
                continue;
            }
            let variables = container.env.get_or_insert_default();
            let known = variables.iter_mut().find(|one| one.is_named(env::NVIDIA_VISIBLE_DEVICES));
            match known {
                // Where the value comes from elsewhere the pod is denied; overwriting it would make it invalid.
                Some(variable) if variable.value_from.is_some() => {}
                Some(variable) if matches!(variable.value.as_deref(), Some("none" | "")) => {
                    variable.value = Some("void".to_owned());
                }
                Some(_) => {}
                None => variables.push(Variable::literal(env::NVIDIA_VISIBLE_DEVICES, "void")),
            }
        }
    }
}

/// What the names of the pod's config maps begin with. One that is there is kept: we may be asked twice.
fn config_map_prefix(pod: &Pod, target: Target, seed: &str) -> String {
    if let Some(prefix) = pod.annotation(gpu::SHARED_CONFIG_MAP) {
        return prefix.to_owned();
    }
    let metadata = &pod.metadata;
    let owner = metadata.owner_references.iter().flatten().next().map(|owner| owner.name.as_str());
    let names = [owner, metadata.name.as_deref(), metadata.generate_name.as_deref()];
    let base = names.into_iter().flatten().find(|name| !name.is_empty());
    let digits = target.index.to_string().len();
    let base = base.unwrap_or("pod");
    let longest = LONGEST - digits - "-".len() - EVAR_SUFFIX.len();
    let base: String = base.chars().take(longest).collect();
    let base = base.trim_end_matches(['.', '-']);
    format!("{base}-{}{SHARED_GPU_SUFFIX}", unique(seed))
}

/// Seven letters that depend on nothing but the seed.
fn unique(seed: &str) -> String {
    let fnv = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut rest = fnv;
    let letter = |_| {
        let letter = LETTERS[(rest % LETTERS.len() as u64) as usize];
        rest /= LETTERS.len() as u64;
        char::from(letter)
    };
    (0..7).map(letter).collect()
}

/// A valid name of a volume.
fn volume_name(map: &str) -> String {
    let mut name = String::new();
    for letter in format!("{map}-vol").to_lowercase().chars() {
        let fits = letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if fits {
            name.push(letter);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_matches('-').to_owned()
}

/// The changes as a JSON patch: whole fields, for a pod is small.
pub fn patch(before: &Pod, after: &Pod) -> Vec<Value> {
    let (spec, wanted) = (&before.spec, &after.spec);
    let annotations = (&before.metadata.annotations, &after.metadata.annotations);
    let changes = [
        change("/metadata/annotations", annotations.0, annotations.1),
        change("/spec/containers", &spec.containers, &wanted.containers),
        change("/spec/initContainers", &spec.init_containers, &wanted.init_containers),
        change("/spec/volumes", &spec.volumes, &wanted.volumes),
        change("/spec/imagePullSecrets", &spec.image_pull_secrets, &wanted.image_pull_secrets),
        change("/spec/runtimeClassName", &spec.runtime_class_name, &wanted.runtime_class_name),
    ];
    changes.into_iter().flatten().collect()
}

/// One step of a JSON patch; none where the field stays.
fn change<T: PartialEq + Serialize>(path: &str, before: &T, after: &T) -> Option<Value> {
    (before != after).then(|| json!({"op": "add", "path": path, "value": after}))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn rules() -> PodRules {
        PodRules {
            gpu_sharing: true,
            hami_core: false,
            block_visible_devices: false,
            runtime_class: Some("nvidia".to_owned()),
            guard: kai_settings::admission::GuardRules::OFF,
        }
    }

    fn decoded(pod: &Value) -> Pod {
        Pod::deserialize(pod).expect("a pod")
    }

    /// The pod as the API server has it after the patch.
    fn admitted(pod: &Value, rules: &PodRules, seed: &str) -> Result<Value, String> {
        mutated(&decoded(pod), rules, seed).map(|pod| json!(pod))
    }

    fn sharing() -> Value {
        json!({
            "metadata": {"name": "train", "annotations": {"gpu-fraction": "0.5"}},
            "spec": {"containers": [
                {"name": "main", "env": [{"name": "GPU_PORTION", "value": "mine"}, {"name": "A", "value": "b"}]},
                {"name": "side"},
            ]},
        })
    }

    #[test]
    fn share_reaches_containers_through_config_maps() {
        let pod = admitted(&sharing(), &rules(), "request-1").expect("a pod");
        let prefix =
            pod["metadata"]["annotations"][gpu::SHARED_CONFIG_MAP].as_str().expect("a name");
        assert!(prefix.starts_with("train-") && prefix.ends_with("-shared-gpu"), "{prefix}");
        assert_eq!(prefix.len(), "train-1234567-shared-gpu".len());
        let map = format!("{prefix}-0");
        let names: Vec<&str> = pod["spec"]["containers"][0]["env"]
            .as_array()
            .expect("variables")
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["A", "NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"]);
        let reference = &pod["spec"]["containers"][0]["env"][3]["valueFrom"]["configMapKeyRef"];
        assert_eq!(*reference, json!({"name": map, "key": "GPU_PORTION"}));
        assert_eq!(
            pod["spec"]["containers"][0]["envFrom"],
            json!([{"configMapRef": {"name": format!("{map}-evar"), "optional": true}}])
        );
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": format!("{map}-vol"), "configMap": {"name": map}}])
        );
        assert_eq!(pod["spec"]["runtimeClassName"], "nvidia");
        assert_eq!(
            admitted(&pod, &rules(), "request-2").expect("a pod"),
            pod,
            "asked twice, the same"
        );
        let paths: Vec<Value> = patch(&decoded(&sharing()), &decoded(&pod))
            .iter()
            .map(|one| one["path"].clone())
            .collect();
        assert_eq!(
            paths,
            [
                "/metadata/annotations",
                "/spec/containers",
                "/spec/volumes",
                "/spec/runtimeClassName"
            ]
        );
    }

    #[test]
    fn the_named_container_gets_the_share() {
        let mut pod = sharing();
        pod["metadata"]["annotations"]["gpu-fraction-container-name"] = json!("first");
        let missing = admitted(&pod, &rules(), "s").expect_err("no such container");
        assert_eq!(
            missing,
            "failed to get fraction container ref: container with name first not found for fraction request"
        );
        pod["spec"]["initContainers"] = json!([{"name": "first"}]);
        let hami = PodRules { hami_core: true, ..rules() };
        let pod = admitted(&pod, &hami, "s").expect("a pod");
        let variables = pod["spec"]["initContainers"][0]["env"].as_array().expect("variables");
        assert_eq!(variables[3]["name"], "CUDA_DEVICE_MEMORY_LIMIT");
        assert_eq!(variables[3]["valueFrom"]["configMapKeyRef"]["optional"], true);
        assert!(
            variables[0]["valueFrom"]["configMapKeyRef"]["name"]
                .as_str()
                .is_some_and(|name| name.ends_with("-shared-gpu-i0"))
        );
    }

    #[test]
    fn names_fit_and_are_valid() {
        let long =
            json!({"metadata": {"generateName": "a-workload-with-a-very-long.name.-indeed-"}});
        let prefix = config_map_prefix(&decoded(&long), Target { init: false, index: 0 }, "s");
        assert!(prefix.starts_with("a-workload-with-a-very-long.name-"), "{prefix}");
        assert_eq!(volume_name("A.b..c-0"), "a-b-c-0-vol");
    }

    #[test]
    fn other_containers_see_no_devices() {
        let mut pod = sharing();
        pod["spec"]["containers"][1]["resources"] = json!({"requests": {"nvidia.com/gpu": "1"}});
        pod["spec"]["initContainers"] = json!([
            {"name": "none", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]},
            {"name": "from", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}]},
            {"name": "claims", "resources": {"claims": [{"name": "gpu"}]}},
            {"name": "plain"},
        ]);
        let blocking = PodRules { block_visible_devices: true, ..rules() };
        let pod = admitted(&pod, &blocking, "s").expect("a pod");
        let first = |index: usize| pod["spec"]["initContainers"][index]["env"][0].clone();
        assert_eq!(first(0)["value"], "void");
        assert_eq!(first(1), json!({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}));
        assert_eq!(first(2), Value::Null);
        assert_eq!(first(3), json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}));
        assert_eq!(pod["spec"]["containers"][1]["env"], Value::Null, "it has a device");
    }
}
