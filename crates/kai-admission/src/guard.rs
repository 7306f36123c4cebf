//! The library that limits GPU memory, in pods that share GPUs.
//!
//! An init container of our image copies the library into an `emptyDir`, which the container mounts read-only together with
//! its limits; `/etc/ld.so.preload` loads it into programs of glibc and means nothing to others. The limits themselves are
//! written when the pod is bound, by the binder alone.

use kai_api::enforcement::Enforcement;
use kai_api::names::guard as names;
use kai_settings::admission::GuardRules;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::PodRules;
use super::container::{Target, is_fractional};
use super::pod::{Container, Pod, Volume, VolumeMount};

/// User of the init container where that of the pod is root.
const USER: u32 = 10_000;
/// Requests and limits of the init container: equal, so that the pod keeps its quality of service.
const CPU: &str = "50m";
const MEMORY: &str = "64Mi";

/// What holds for the pod: the strictest of what it says itself and what the rules say.
pub fn enforcement(pod: &Pod, rules: &GuardRules) -> Result<Enforcement, String> {
    let Some(said) = pod.annotation(names::ENFORCEMENT) else { return Ok(rules.enforcement) };
    let own = Enforcement::named(said).ok_or_else(|| {
        format!("annotation {} must be off, report or enforce, is {said:?}", names::ENFORCEMENT)
    })?;
    Ok(own.max(rules.enforcement))
}

/// The rules for pods of a namespace with these labels: at least as strict as the label says. A label without meaning
/// is as strict as can be.
pub fn narrow(rules: &PodRules, label: Option<&str>) -> PodRules {
    let mut rules = rules.clone();
    let said = label.map(|said| Enforcement::named(said).unwrap_or(Enforcement::Enforce));
    rules.guard.enforcement = rules.guard.enforcement.max(said.unwrap_or_default());
    rules
}

/// Does the answer for the pod depend on the labels of its namespace?
pub(super) fn depends_on_namespace(pod: &Pod, rules: &PodRules) -> bool {
    if rules.guard.enforcement >= Enforcement::Enforce || pod.metadata.annotations.is_none() {
        return false;
    }
    let mut pod = pod.clone();
    let is_readable = super::container_memory::translate(&mut pod).is_ok();
    is_readable && is_fractional(&pod)
}

/// Why the pod is denied, or the change of it.
pub fn validate(before: Option<&Pod>, pod: &Pod) -> Result<(), String> {
    let Some(before) = before else { return super::container_memory::validate(pod) };
    if before.annotation(names::ENFORCEMENT) != pod.annotation(names::ENFORCEMENT) {
        return Err(format!(
            "cannot change annotation {} of a pod: create the pod anew",
            names::ENFORCEMENT
        ));
    }
    super::container_memory::validate_change(before, pod)?;
    if installer(before).and_then(Container::image) != installer(pod).and_then(Container::image) {
        return Err(format!(
            "cannot change the image of init container {}: it installs the library that limits GPU memory",
            names::INIT_CONTAINER
        ));
    }
    Ok(())
}

fn installer(pod: &Pod) -> Option<&Container> {
    pod.containers(true).iter().find(|one| one.name.as_deref() == Some(names::INIT_CONTAINER))
}

/// Gives the container that shares a GPU the library, where something is to be enforced or reported. What is there already
/// under our names is replaced.
pub(super) fn inject(pod: &mut Pod, target: Target, rules: &PodRules) -> Result<(), String> {
    let mode = enforcement(pod, &rules.guard)?;
    let said = pod.annotation(names::ENFORCEMENT).is_some();
    if said || mode != Enforcement::Off {
        pod.set_annotation(names::ENFORCEMENT, mode.name());
    }
    if mode == Enforcement::Off {
        return Ok(());
    }
    let Target { init, index } = target;
    let Some(container) = pod.containers(init).get(index) else { return Ok(()) };
    let name = container.name.clone().unwrap_or_default();
    let problem = obstacle(pod, target).or_else(|| {
        let unknown =
            "the image with the library is not known: set --guard-image or --image of kai run";
        rules.guard.image.is_none().then(|| unknown.to_owned())
    });
    if let Some(problem) = problem {
        return if mode == Enforcement::Enforce {
            Err(format!("cannot enforce the GPU memory limit of the pod: {problem}"))
        } else {
            Ok(()) // the binder finds no library in the pod and says so
        };
    }
    let installing = init_container(pod, mode, &rules.guard)?;
    for mount in mounts()? {
        let container = pod.containers_mut(init).get_mut(index);
        let Some(container) = container else { return Ok(()) };
        let known = container.volume_mounts.get_or_insert_default();
        put(known, mount, |one, other| one.mount_path == other.mount_path);
    }
    for volume in volumes(&name)? {
        let known = pod.spec.volumes.get_or_insert_default();
        put(known, volume, |one, other| one.name == other.name);
    }
    let first = pod.spec.init_containers.get_or_insert_default();
    match first.iter_mut().find(|one| one.name == installing.name) {
        Some(known) => *known = installing,
        None => first.insert(0, installing),
    }
    for secret in &rules.guard.pull_secrets {
        let secret = json!({"name": secret});
        let known = pod.spec.image_pull_secrets.get_or_insert_default();
        put(known, secret, |one, other| one == other);
    }
    Ok(())
}

/// Volumes that only the library's own mounts use.
const OWN_VOLUMES: [&str; 3] = [names::LIBRARY_VOLUME, names::LIMITS_VOLUME, names::USAGE_VOLUME];
/// Where the container finds the library, its limits and its usage; nothing else is mounted there or below.
const OWN_PATHS: [&str; 4] =
    [names::PRELOAD_FILE, names::LIBRARY_FOLDER, names::LIMITS_FOLDER, names::USAGE_FOLDER];

/// Why the container cannot have the library: a mount of the pod would hide or replace it. The mounts that an earlier call
/// added are none; those that take their place are replaced.
fn obstacle(pod: &Pod, target: Target) -> Option<String> {
    for init in [true, false] {
        for (index, container) in pod.containers(init).iter().enumerate() {
            let name = container.name.as_deref().unwrap_or_default();
            if init && name == names::INIT_CONTAINER {
                continue; // replaced as a whole
            }
            let is_target = init == target.init && index == target.index;
            for mount in container.volume_mounts.iter().flatten() {
                let is_own = OWN_VOLUMES.contains(&mount.name.as_str());
                let is_replaced = is_own && OWN_PATHS.contains(&mount.mount_path.as_str());
                if is_own && !(is_target && is_replaced) {
                    let volume = &mount.name;
                    return Some(format!(
                        "container {name} mounts volume {volume}, which belongs to the library: remove the mount"
                    ));
                }
                let path = normal_path(&mount.mount_path);
                if is_target && !is_own && OWN_PATHS.iter().any(|own| is_at_or_below(&path, own)) {
                    return Some(format!(
                        "container {name} mounts {path} itself: remove the mount"
                    ));
                }
            }
        }
    }
    None
}

/// The path as the kernel reads it: without empty parts, `.` and `..`.
fn normal_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Replaces the element that is the same one, or adds it.
fn put<T>(list: &mut Vec<T>, one: T, is_same: impl Fn(&T, &T) -> bool) {
    match list.iter_mut().find(|known| is_same(known, &one)) {
        Some(known) => *known = one,
        None => list.push(one),
    }
}

fn mounts() -> Result<[VolumeMount; 4], String> {
    decoded(json!([
        {"name": names::LIBRARY_VOLUME, "mountPath": names::LIBRARY_FOLDER, "readOnly": true},
        {"name": names::LIBRARY_VOLUME, "mountPath": names::PRELOAD_FILE, "subPath": "ld.so.preload", "readOnly": true},
        {"name": names::LIMITS_VOLUME, "mountPath": names::LIMITS_FOLDER, "readOnly": true},
        {"name": names::USAGE_VOLUME, "mountPath": names::USAGE_FOLDER},
    ]))
}

fn volumes(container: &str) -> Result<[Volume; 3], String> {
    let key = names::limits_annotation(container);
    let field = json!({"apiVersion": "v1", "fieldPath": format!("metadata.annotations['{key}']")});
    decoded(json!([
        {"name": names::LIBRARY_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}},
        {"name": names::LIMITS_VOLUME, "downwardAPI": {"items": [{"path": "limits", "fieldRef": field}], "defaultMode": 0o444}},
        {"name": names::USAGE_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}},
    ]))
}

fn init_container(pod: &Pod, mode: Enforcement, rules: &GuardRules) -> Result<Container, String> {
    let resources = json!({"cpu": CPU, "memory": MEMORY});
    let mut security = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let user = pod.spec.security_context.as_ref().and_then(|context| context.get("runAsUser"));
    let mut more = vec![("runAsUser", json!(USER))];
    more.retain(|_| user.and_then(Value::as_i64) == Some(0));
    let mut container = json!({
        "name": names::INIT_CONTAINER,
        "image": rules.image,
        "args": ["guard", "install", "--mode", mode.name()],
        "resources": {"requests": resources, "limits": resources},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": names::LIBRARY_VOLUME, "mountPath": names::LIBRARY_FOLDER}],
    });
    if let (Some(container), Some(security)) = (container.as_object_mut(), security.as_object_mut())
    {
        security.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
        container.insert("securityContext".to_owned(), json!(security));
        let policy = rules.pull_policy.as_ref();
        container.extend(policy.map(|policy| ("imagePullPolicy".to_owned(), json!(policy))));
    }
    decoded(container)
}

fn decoded<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("cannot inject the library: {error}"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::mutate::{mutated, patch};

    fn rules(enforcement: Enforcement) -> PodRules {
        let guard = GuardRules {
            enforcement,
            image: Some("kai:1".to_owned()),
            pull_policy: Some("IfNotPresent".to_owned()),
            pull_secrets: vec!["pull".to_owned()],
        };
        PodRules { gpu_sharing: true, guard, ..PodRules::default() }
    }

    fn pod(annotations: &Value) -> Pod {
        let object = json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}]}],
                "volumes": [{"name": "data", "emptyDir": {}}]},
        });
        Pod::deserialize(&object).expect("a pod")
    }

    fn admitted(pod: &Pod, rules: &PodRules) -> Value {
        json!(mutated(pod, rules, "seed").expect("a pod"))
    }

    #[test]
    fn a_pod_that_shares_a_gpu_gets_the_library_its_limits_and_a_region() {
        let before = pod(&json!({"gpu-memory": "8000"}));
        let after = admitted(&before, &rules(Enforcement::Enforce));
        let annotations = &after["metadata"]["annotations"];
        assert_eq!(annotations["kai.scheduler/gpu-memory-enforcement"], "enforce");
        let first = &after["spec"]["initContainers"][0];
        assert_eq!((&first["name"], &first["image"]), (&json!("kai-guard"), &json!("kai:1")));
        assert_eq!(first["args"], json!(["guard", "install", "--mode", "enforce"]));
        assert_eq!(first["resources"]["requests"], first["resources"]["limits"]);
        assert_eq!(first["imagePullPolicy"], "IfNotPresent");
        assert_eq!(after["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
        let mounts = after["spec"]["containers"][0]["volumeMounts"].as_array().expect("mounts");
        let mounted: Vec<(&str, bool)> = mounts
            .iter()
            .map(|one| (one["mountPath"].as_str().expect("a path"), one["readOnly"] == true))
            .collect();
        assert_eq!(
            mounted,
            [
                ("/data", true),
                ("/kai-guard/lib", true),
                ("/etc/ld.so.preload", true),
                ("/kai-guard/limits", true),
                ("/kai-guard/usage", false),
            ]
        );
        let limits = &after["spec"]["volumes"][2]["downwardAPI"]["items"][0];
        assert_eq!(
            limits["fieldRef"]["fieldPath"],
            "metadata.annotations['kai.scheduler/container.main.gpu-memory-limits']"
        );
        let again = Pod::deserialize(&after).expect("a pod");
        assert_eq!(admitted(&again, &rules(Enforcement::Enforce)), after, "asked twice, the same");
        let paths: Vec<Value> =
            patch(&before, &again).into_iter().map(|step| step["path"].clone()).collect();
        assert!(paths.contains(&json!("/spec/initContainers")), "{paths:?}");
        assert!(paths.contains(&json!("/spec/imagePullSecrets")), "{paths:?}");
    }

    #[test]
    fn the_strictest_of_cluster_namespace_and_pod_holds() {
        use Enforcement::{Enforce, Off, Report};

        let of = |cluster: Enforcement, label: Option<&str>, said: Option<&str>| {
            let annotations = match said {
                Some(said) => json!({"kai.scheduler/gpu-memory-enforcement": said}),
                None => json!({}),
            };
            enforcement(&pod(&annotations), &narrow(&rules(cluster), label).guard)
        };
        assert_eq!(of(Off, None, None), Ok(Off));
        assert_eq!(of(Off, Some("report"), None), Ok(Report));
        assert_eq!(of(Off, Some("report"), Some("enforce")), Ok(Enforce));
        assert_eq!(
            of(Enforce, Some("off"), Some("off")),
            Ok(Enforce),
            "a namespace or pod cannot weaken it"
        );
        assert_eq!(of(Off, Some("enforced"), None), Ok(Enforce), "a mistake weakens nothing");
        assert!(of(Off, None, Some("on")).expect_err("no mode").contains("off, report or enforce"));
    }

    #[test]
    fn pods_that_share_nothing_and_pods_in_off_stay_as_they_are() {
        let whole = pod(&json!({}));
        assert_eq!(
            json!(mutated(&whole, &rules(Enforcement::Enforce), "s").expect("a pod")),
            json!(whole)
        );
        let shared = admitted(&pod(&json!({"gpu-memory": "1"})), &rules(Enforcement::Off));
        assert_eq!(shared["spec"]["initContainers"], Value::Null);
        assert!(!shared.to_string().contains("kai-guard"), "{shared}");
    }

    #[test]
    fn what_cannot_be_enforced_is_denied_and_what_cannot_be_reported_is_left_out() {
        let mut other = pod(&json!({"gpu-memory": "1"}));
        let mount = json!([{"name": "data", "mountPath": "/etc/ld.so.preload", "subPath": "x"}]);
        for container in other.containers_mut(false) {
            container.volume_mounts = serde_json::from_value(mount.clone()).expect("mounts");
        }
        let denied = mutated(&other, &rules(Enforcement::Enforce), "s").expect_err("denied");
        assert_eq!(
            denied,
            "cannot enforce the GPU memory limit of the pod: container main mounts /etc/ld.so.preload itself: remove the mount"
        );
        let left_out = admitted(&other, &rules(Enforcement::Report));
        assert_eq!(left_out["spec"]["initContainers"], Value::Null);
        let hiding = [
            ("data", "/etc//ld.so.preload"),
            ("data", "/etc/./ld.so.preload"),
            ("data", "/etc/x/../ld.so.preload/"),
            ("data", "/kai-guard/lib/"),
            ("data", "/kai-guard/lib/libkai_guard.so"),
            ("data", "//kai-guard/limits/limits"),
            ("kai-guard-lib", "/mine"),
        ];
        for (volume, path) in hiding {
            let mount = json!([{"name": volume, "mountPath": path}]);
            for container in other.containers_mut(false) {
                container.volume_mounts = serde_json::from_value(mount.clone()).expect("mounts");
            }
            let denied = mutated(&other, &rules(Enforcement::Enforce), "s");
            assert!(denied.is_err_and(|why| why.contains("remove the mount")), "{volume} {path}");
        }
        let mut beside = pod(&json!({"gpu-memory": "1"}));
        let writer = json!([{"name": "writer", "volumeMounts": [{"name": "kai-guard-lib", "mountPath": "/kai-guard/lib"}]}]);
        beside.spec.init_containers = serde_json::from_value(writer).expect("containers");
        let denied = mutated(&beside, &rules(Enforcement::Enforce), "s");
        assert!(denied.is_err(), "another container writes into the library: {denied:?}");
        let mut nameless = rules(Enforcement::Enforce);
        nameless.guard.image = None;
        let denied =
            mutated(&pod(&json!({"gpu-memory": "1"})), &nameless, "s").expect_err("denied");
        assert!(denied.contains("--guard-image"), "{denied}");
    }

    #[test]
    fn an_init_container_that_shares_a_gpu_comes_behind_ours() {
        let mut object =
            json!(pod(&json!({"gpu-memory": "1", "gpu-fraction-container-name": "first"})));
        object["spec"]["initContainers"] = json!([{"name": "first"}]);
        let pod = Pod::deserialize(&object).expect("a pod");
        let after = admitted(&pod, &rules(Enforcement::Report));
        let containers = &after["spec"]["initContainers"];
        assert_eq!(
            (&containers[0]["name"], &containers[1]["name"]),
            (&json!("kai-guard"), &json!("first"))
        );
        let map = containers[1]["env"][0]["valueFrom"]["configMapKeyRef"]["name"].to_string();
        assert!(map.contains("-shared-gpu-i1"), "the binder counts ours too: {map}");
        let again = Pod::deserialize(&after).expect("a pod");
        assert_eq!(admitted(&again, &rules(Enforcement::Report)), after, "asked twice, the same");
    }

    #[test]
    fn the_init_container_is_never_root() {
        let mut object = json!(pod(&json!({"gpu-memory": "1"})));
        let user = |object: &Value| {
            let pod = Pod::deserialize(object).expect("a pod");
            let after = admitted(&pod, &rules(Enforcement::Enforce));
            after["spec"]["initContainers"][0]["securityContext"]["runAsUser"].clone()
        };
        assert_eq!(user(&object), Value::Null, "that of the image, or of the pod");
        object["spec"]["securityContext"] = json!({"runAsUser": 0});
        assert_eq!(user(&object), json!(10_000));
    }

    #[test]
    fn mode_and_installer_stay_as_they_were_admitted() {
        let annotation =
            json!({"gpu-memory": "1", "kai.scheduler/gpu-memory-enforcement": "enforce"});
        let before = mutated(&pod(&annotation), &rules(Enforcement::Off), "s").expect("a pod");
        assert_eq!(validate(Some(&before), &before), Ok(()));
        let mut weaker = before.clone();
        weaker.set_annotation(names::ENFORCEMENT, "off");
        assert!(validate(Some(&before), &weaker).is_err());
        let mut object = json!(before);
        object["spec"]["initContainers"][0]["image"] = json!("mine");
        let other = Pod::deserialize(&object).expect("a pod");
        assert!(validate(Some(&before), &other).expect_err("denied").contains("image"));
    }
}
