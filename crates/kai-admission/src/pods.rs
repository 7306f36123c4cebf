//! Which pods are denied. Rules in KAI's order; the denial names the first that is broken.

use kai_api::gpu_request::REQUEST_ANNOTATIONS;
use kai_api::names::{env, gpu};

use super::PodRules;
use super::container::{Target, gpu_request, is_fractional};
use super::pod::{Container, Pod};

/// What turns GPU sharing on.
const HOW_TO_ENABLE: &str = "set the Helm value global.gpuSharing=true, or spec.admission.gpuSharing of Config kai-config, or --gpu-sharing-enabled of kai run";

/// Why a pod is denied. What only matters when it begins is not asked again later: a pod that runs could otherwise not even
/// lose its finalizers.
pub fn validate(pod: &Pod, is_new: bool, rules: &PodRules) -> Result<(), String> {
    let fractional = is_fractional(pod);
    if is_new && fractional && !rules.gpu_sharing {
        return Err(format!(
            "attempting to create a pod {}/{} with gpu sharing request, while GPU sharing is disabled; {HOW_TO_ENABLE}",
            pod.metadata.namespace.as_deref().unwrap_or_default(),
            pod.metadata.name.as_deref().unwrap_or_default()
        ));
    }
    if !fractional && pod.annotation(gpu::MPS) == Some("true") {
        return Err("MPS is only supported with GPU fraction request".to_owned());
    }
    if let Some(problem) = request_problem(pod).filter(|_| is_new) {
        return Err(problem);
    }
    if rules.block_visible_devices {
        visible_devices(pod, fractional)?;
    }
    Ok(())
}

/// Why a change is denied: it makes the GPU request unreadable, or it changes the request of a pod that has its devices.
pub fn validate_change(before: Option<&Pod>, after: &Pod) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    // A pod that was admitted by other rules can still lose its finalizers.
    if let Some(problem) = request_problem(after).filter(|_| request_problem(before).is_none()) {
        return Err(problem);
    }
    if before.spec.node_name.is_none() {
        return Ok(());
    }
    let mut requests = REQUEST_ANNOTATIONS.iter().chain([&gpu::FRACTION_CONTAINER]);
    let changed = requests.find(|key| before.annotation(key) != after.annotation(key));
    match changed {
        None => Ok(()),
        Some(key) => Err(format!(
            "cannot change annotation {key} of a pod that has a node: its devices were given for the request it had"
        )),
    }
}

/// Why the GPU request of a pod cannot be read: pod, annotation and KAI's message, as scheduler and binder report it.
fn request_problem(pod: &Pod) -> Option<String> {
    let problem = gpu_request(pod).problems.into_iter().next()?;
    let metadata = &pod.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().or(metadata.generate_name.as_deref()).unwrap_or_default();
    Some(format!("Pod {namespace}/{name}: {problem}"))
}

/// Containers that do not get the share may not reach for devices by themselves.
fn visible_devices(pod: &Pod, fractional: bool) -> Result<(), String> {
    let target = if fractional { Target::of(pod).ok() } else { None };
    for init in [true, false] {
        for (index, container) in pod.containers(init).iter().enumerate() {
            if target != Some(Target { init, index }) {
                visible_devices_of(container)?;
            }
        }
    }
    Ok(())
}

fn visible_devices_of(container: &Container) -> Result<(), String> {
    let name = container.name.as_deref().unwrap_or_default();
    let variables = container.env.iter().flatten();
    for variable in variables.filter(|one| one.is_named(env::NVIDIA_VISIBLE_DEVICES)) {
        if variable.value_from.is_some() {
            return Err(format!(
                "container {name} has an environment variable NVIDIA_VISIBLE_DEVICES defined with a valueFrom reference. This is forbidden due to possible conflicts with Nvidia's device plugin"
            ));
        }
        let value = variable.value.as_deref().unwrap_or_default();
        if !matches!(value, "" | "void" | "none") {
            return Err(format!(
                "container {name} has an environment variable NVIDIA_VISIBLE_DEVICES defined with a value of {value}. This is forbidden due to conflicts with Nvidia's device plugin. The only values that are allowed are 'void' or 'none'"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Annotations<'a> = &'a [(&'a str, &'a str)];

    #[test]
    fn a_share_stays_what_it_was_given_for() {
        let half = pod(&[("gpu-fraction", "0.5")], &json!({}));
        let more = pod(&[("gpu-fraction", "0.9")], &json!({}));
        assert_eq!(validate_change(Some(&half), &more), Ok(()), "it has no node yet");
        assert_eq!(validate_change(None, &more), Ok(()), "it is new");
        let mut placed = half.clone();
        placed.spec.node_name = Some("n".to_owned());
        assert_eq!(validate_change(Some(&placed), &half), Ok(()));
        let denial = validate_change(Some(&placed), &more).expect_err("a larger share");
        assert!(denial.starts_with("cannot change annotation gpu-fraction"), "{denial}");
        assert!(validate_change(Some(&placed), &pod(&[], &json!({}))).is_err(), "nor none at all");
    }

    #[test]
    fn a_change_is_denied_where_it_breaks_the_gpu_request() {
        let half = pod(&[("gpu-fraction", "0.5")], &plain());
        let both = pod(&[("gpu-fraction", "0.5"), ("gpu-memory", "100")], &plain());
        let denied = validate_change(Some(&half), &both).expect_err("two requests");
        let named =
            "Pod a/p: metadata.annotations[gpu-memory]: cannot request both GPU and GPU memory";
        assert_eq!(denied, named);
        assert_eq!(validate_change(Some(&both), &both), Ok(()), "it was admitted like this");
        assert_eq!(validate_change(Some(&both), &half), Ok(()), "repaired");
    }

    fn pod(annotations: Annotations<'_>, container: &Value) -> Pod {
        let annotations: serde_json::Map<String, Value> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let pod = json!({"metadata": {"name": "p", "namespace": "a", "annotations": annotations}, "spec": {"containers": [container]}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn plain() -> Value {
        json!({"name": "c"})
    }

    fn whole() -> Value {
        json!({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}})
    }

    const SHARING: PodRules = PodRules {
        gpu_sharing: true,
        hami_core: false,
        guard: kai_settings::admission::GuardRules::OFF,
        block_visible_devices: false,
        runtime_class: None,
    };

    #[test]
    fn requests_for_shares_are_checked() {
        let positive = "gpu-fraction annotation value must be a positive number smaller than 1.0";
        let table: &[(Annotations<'_>, Value, &str)] = &[
            (&[("gpu-fraction", "0.5")], plain(), ""),
            (&[("gpu-memory", "2000")], plain(), ""),
            (&[("gpu-fraction", "5e-1"), ("gpu-fraction-num-devices", "2")], plain(), ""),
            (&[("mps", "true")], plain(), "MPS is only supported with GPU fraction request"),
            (&[("mps", "true"), ("gpu-fraction", "0.5")], plain(), ""),
            (
                &[("gpu-fraction", "0.5")],
                whole(),
                "cannot have both GPU fraction request and whole GPU resource request/limit",
            ),
            (&[("gpu-memory", "1")], whole(), "cannot request both GPU and GPU memory"),
            (
                &[("gpu-memory", "1"), ("gpu-fraction", "0.5")],
                plain(),
                "cannot request both GPU and GPU memory",
            ),
            (
                &[("gpu-fraction-num-devices", "2")],
                plain(),
                "cannot request multiple fractional devices without specifying fraction portion or gpu-memory",
            ),
            (
                &[("gpu-fraction", "0.5")],
                json!({"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}),
                "cannot have both GPU fraction request and whole GPU resource request/limit",
            ),
            (
                &[("gpu-memory", "0")],
                plain(),
                "gpu-memory annotation value must be a positive integer greater than 0",
            ),
            (
                &[("gpu-memory", "+5")],
                plain(),
                "gpu-memory annotation value must be a positive integer greater than 0",
            ),
            (
                &[("gpu-memory", "5Gi")],
                plain(),
                "gpu-memory annotation value must be a positive integer greater than 0",
            ),
            (&[("gpu-fraction", "0")], plain(), positive),
            (&[("gpu-fraction", "-0.5")], plain(), positive),
            (&[("gpu-fraction", "1")], plain(), positive),
            (&[("gpu-fraction", "half")], plain(), positive),
            (&[("gpu-fraction", "inf")], plain(), positive),
            (
                &[("gpu-fraction", "NaN")],
                plain(),
                "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: NaN",
            ),
            (
                &[("gpu-fraction", "0x1p-2")],
                plain(),
                "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: 0x1p-2",
            ),
            (
                &[("gpu-fraction", "0.5"), ("gpu-fraction-num-devices", "0")],
                plain(),
                "fraction count annotation value must be a positive integer greater than 0",
            ),
        ];
        for (annotations, container, wanted) in table {
            let denied = validate(&pod(annotations, container), true, &SHARING).err();
            let denied = denied.unwrap_or_default();
            let message = denied.rsplit_once("]: ").map_or(&*denied, |(_, message)| message);
            assert_eq!(message, *wanted, "{annotations:?}");
        }
    }

    #[test]
    fn sharing_that_is_switched_off_stops_new_pods_only() {
        let rules = PodRules { gpu_sharing: false, ..SHARING };
        let pod = pod(&[("gpu-fraction", "0.5")], &plain());
        assert_eq!(
            validate(&pod, true, &rules),
            Err("attempting to create a pod a/p with gpu sharing request, while GPU sharing is disabled; set the Helm value global.gpuSharing=true, or spec.admission.gpuSharing of Config kai-config, or --gpu-sharing-enabled of kai run".to_owned())
        );
        assert_eq!(validate(&pod, false, &rules), Ok(()));
    }

    #[test]
    fn containers_may_not_reach_for_devices_by_themselves() {
        let rules = PodRules { block_visible_devices: true, ..SHARING };
        let with = |variable: Value| json!({"name": "c", "env": [variable]});
        let value = |value: &str| with(json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": value}));
        assert_eq!(validate(&pod(&[], &value("void")), true, &rules), Ok(()));
        assert_eq!(validate(&pod(&[], &value("none")), true, &rules), Ok(()));
        assert!(
            validate(&pod(&[], &value("all")), true, &rules)
                .is_err_and(|text| text.contains("with a value of all."))
        );
        let from = with(
            json!({"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}),
        );
        assert!(
            validate(&pod(&[], &from), true, &rules)
                .is_err_and(|text| text.contains("with a valueFrom reference."))
        );
        assert_eq!(
            validate(&pod(&[("gpu-fraction", "0.5")], &from), true, &rules),
            Ok(()),
            "the container that gets the share is ours"
        );
        assert_eq!(validate(&pod(&[], &value("all")), true, &SHARING), Ok(()));
    }
}
