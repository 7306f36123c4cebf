//! What pods are given when they are created: variables and config maps of shared devices, and the runtime that knows them.
//! The config maps are made when the pod is bound; its containers wait for them.

use kai_api::names::{env, gpu};
use serde_json::{Map, Value, json};

use super::PodRules;
use super::container::{Target, containers, is_fractional, uses_devices};

/// Letters of generated names, without those that could form words or be mistaken.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest name that leaves room for the index of a container and suffixes.
const LONGEST: usize = 40;

/// The pod as it should be; `seed` is what names are made from that nobody else may have.
pub fn mutated(pod: &Value, rules: &PodRules, seed: &str) -> Result<Value, String> {
    let mut pod = pod.clone();
    let fractional = is_fractional(&pod) && !containers(&pod, false).is_empty();
    let target = if fractional {
        let found = Target::of(&pod);
        Some(found.map_err(|error| format!("failed to get fraction container ref: {error}"))?)
    } else {
        None
    };
    if let Some(target) = target {
        give_share(&mut pod, target, rules, seed);
        if let Some(class) = &rules.runtime_class
            && pod["spec"]["runtimeClassName"].as_str().unwrap_or_default().is_empty()
        {
            pod["spec"]["runtimeClassName"] = class.as_str().into();
        }
    }
    if rules.block_visible_devices {
        hide_devices(&mut pod, target);
    }
    Ok(pod)
}

fn give_share(pod: &mut Value, target: Target, rules: &PodRules, seed: &str) {
    let prefix = config_map_prefix(pod, target, seed);
    set_annotation(pod, gpu::SHARED_CONFIG_MAP, &prefix);
    let Target { init, index } = target;
    let map = format!("{prefix}-{}{index}", if init { "i" } else { "" });
    let variables_map = format!("{map}-evar");
    let Some(container) = container_mut(pod, target) else { return };
    let mut wanted = vec![
        (env::NVIDIA_VISIBLE_DEVICES, false),
        (env::RUNAI_NUM_OF_GPUS, false),
        (env::GPU_PORTION, false),
    ];
    if rules.hami_core {
        wanted.push((env::CUDA_DEVICE_MEMORY_LIMIT, true));
    }
    let variables = list_mut(container, "env");
    variables.retain(|one| !wanted.iter().any(|(name, _)| one["name"] == *name));
    for (name, optional) in wanted {
        let mut source = json!({"name": map, "key": name});
        if optional {
            source["optional"] = true.into();
        }
        variables.push(json!({"name": name, "valueFrom": {"configMapKeyRef": source}}));
    }
    let sources = list_mut(container, "envFrom");
    if !sources.iter().any(|source| source["configMapRef"]["name"] == variables_map.as_str()) {
        sources.push(json!({"configMapRef": {"name": variables_map, "optional": false}}));
    }
    let volume = volume_name(&map);
    let volumes = list_mut(&mut pod["spec"], "volumes");
    if !volumes.iter().any(|one| one["name"] == volume.as_str()) {
        volumes.push(json!({"name": volume, "configMap": {"name": map}}));
    }
}

/// Containers that use no device see none.
fn hide_devices(pod: &mut Value, target: Option<Target>) {
    for init in [true, false] {
        for index in 0..containers(pod, init).len() {
            let place = Target { init, index };
            if target == Some(place) || uses_devices(&containers(pod, init)[index]) {
                continue;
            }
            let Some(container) = container_mut(pod, place) else { continue };
            let variables = list_mut(container, "env");
            let known = variables.iter_mut().find(|one| one["name"] == env::NVIDIA_VISIBLE_DEVICES);
            match known {
                // Where the value comes from elsewhere the pod is refused; overwriting it would make it invalid.
                Some(variable) if !variable["valueFrom"].is_null() => {}
                Some(variable) if matches!(variable["value"].as_str(), Some("none" | "")) => {
                    variable["value"] = "void".into();
                }
                Some(_) => {}
                None => {
                    variables.push(json!({"name": env::NVIDIA_VISIBLE_DEVICES, "value": "void"}));
                }
            }
        }
    }
}

/// What the names of the pod's config maps begin with. One that is there is kept: we may be asked twice.
fn config_map_prefix(pod: &Value, target: Target, seed: &str) -> String {
    if let Some(prefix) = super::container::annotation(pod, gpu::SHARED_CONFIG_MAP) {
        return prefix.to_owned();
    }
    let metadata = &pod["metadata"];
    let names =
        [&metadata["ownerReferences"][0]["name"], &metadata["name"], &metadata["generateName"]];
    let base = names.iter().find_map(|name| name.as_str().filter(|name| !name.is_empty()));
    let digits = target.index.to_string().len();
    let base = base.unwrap_or("pod");
    let room = LONGEST - digits - "-".len() - "-evar".len();
    let base: String = base.chars().take(room).collect();
    let base = base.trim_end_matches(['.', '-']);
    format!("{base}-{}-shared-gpu", unique(seed))
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

fn container_mut(pod: &mut Value, target: Target) -> Option<&mut Value> {
    let list = if target.init { "initContainers" } else { "containers" };
    pod["spec"][list].get_mut(target.index)
}

fn list_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    let list = &mut object[field];
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    match list {
        Value::Array(list) => list,
        _ => unreachable!("it was just made an array"),
    }
}

fn set_annotation(pod: &mut Value, key: &str, value: &str) {
    let annotations = &mut pod["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[key] = value.into();
}

/// The changes as a JSON patch: whole fields, for a pod is small.
pub fn patch(before: &Value, after: &Value) -> Vec<Value> {
    let fields = [
        ("metadata", "annotations"),
        ("spec", "containers"),
        ("spec", "initContainers"),
        ("spec", "volumes"),
        ("spec", "runtimeClassName"),
    ];
    let changed =
        fields.into_iter().filter(|(part, field)| before[part][field] != after[part][field]);
    changed
        .map(|(part, field)| {
            json!({"op": "add", "path": format!("/{part}/{field}"), "value": after[part][field]})
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> PodRules {
        PodRules {
            gpu_sharing: true,
            hami_core: false,
            block_visible_devices: false,
            runtime_class: Some("nvidia".to_owned()),
        }
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
    fn a_share_is_told_through_config_maps() {
        let pod = mutated(&sharing(), &rules(), "request-1").expect("a pod");
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
            json!([{"configMapRef": {"name": format!("{map}-evar"), "optional": false}}])
        );
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": format!("{map}-vol"), "configMap": {"name": map}}])
        );
        assert_eq!(pod["spec"]["runtimeClassName"], "nvidia");
        assert_eq!(
            mutated(&pod, &rules(), "request-2").expect("a pod"),
            pod,
            "asked twice, the same"
        );
        let paths: Vec<Value> =
            patch(&sharing(), &pod).iter().map(|one| one["path"].clone()).collect();
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
        let missing = mutated(&pod, &rules(), "s").expect_err("no such container");
        assert_eq!(
            missing,
            "failed to get fraction container ref: container with name first not found for fraction request"
        );
        pod["spec"]["initContainers"] = json!([{"name": "first"}]);
        let hami = PodRules { hami_core: true, ..rules() };
        let pod = mutated(&pod, &hami, "s").expect("a pod");
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
        let prefix = config_map_prefix(&long, Target { init: false, index: 0 }, "s");
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
        let pod = mutated(&pod, &blocking, "s").expect("a pod");
        let first = |index: usize| pod["spec"]["initContainers"][index]["env"][0].clone();
        assert_eq!(first(0)["value"], "void");
        assert_eq!(first(1), json!({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {}}));
        assert_eq!(first(2), Value::Null);
        assert_eq!(first(3), json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}));
        assert_eq!(pod["spec"]["containers"][1]["env"], Value::Null, "it has a device");
    }
}
