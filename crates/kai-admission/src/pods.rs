//! Which pods are refused. Rules in KAI's order; the first that is broken is told.

use kai_api::names::{env, gpu};
use kai_api::quantity::Quantity;

use super::PodRules;
use super::container::{Target, is_fractional, limits_devices};
use super::pod::{Container, Pod};

/// What turns GPU sharing on.
const HOW_TO_ENABLE: &str = "set the Helm value global.gpuSharing=true, or spec.admission.gpuSharing of Config kai-config, or --gpu-sharing-enabled of kai run";

/// Why a pod is refused. What only matters when it begins is not asked again later: a pod that runs could otherwise not even
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
    sharing(pod)?;
    if rules.block_visible_devices {
        visible_devices(pod, fractional)?;
    }
    Ok(())
}

/// Why a change is refused: what a pod has of devices was given to it with its node.
pub fn validate_change(before: Option<&Pod>, after: &Pod) -> Result<(), String> {
    let Some(before) = before.filter(|before| before.spec.node_name.is_some()) else {
        return Ok(());
    };
    let requests = [gpu::FRACTION, gpu::MEMORY, gpu::FRACTION_NUM_DEVICES, gpu::FRACTION_CONTAINER];
    let changed = requests.iter().find(|key| before.annotation(key) != after.annotation(key));
    match changed {
        None => Ok(()),
        Some(key) => Err(format!(
            "cannot change annotation {key} of a pod that has a node: its devices were given for the request it had"
        )),
    }
}

fn sharing(pod: &Pod) -> Result<(), String> {
    let fraction = pod.annotation(gpu::FRACTION);
    let memory = pod.annotation(gpu::MEMORY);
    let devices = pod.annotation(gpu::FRACTION_NUM_DEVICES);
    let limits = limits_devices(pod);
    if fraction.is_some() && limits {
        return Err(
            "cannot have both GPU fraction request and whole GPU resource request/limit".to_owned()
        );
    }
    if memory.is_some() && (fraction.is_some() || limits) {
        return Err("cannot request both GPU and GPU memory".to_owned());
    }
    if devices.is_some() && fraction.is_none() && memory.is_none() {
        return Err("cannot request multiple fractional devices without specifying fraction portion or gpu-memory".to_owned());
    }
    if memory.is_some_and(|memory| !is_positive_integer(memory)) {
        return Err(
            "gpu-memory annotation value must be a positive integer greater than 0".to_owned()
        );
    }
    fraction.map_or(Ok(()), portion)?;
    if devices.is_some_and(|devices| !is_positive_integer(devices)) {
        return Err(
            "fraction count annotation value must be a positive integer greater than 0".to_owned()
        );
    }
    Ok(())
}

fn is_positive_integer(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse().is_ok_and(|number: u64| number > 0)
}

/// A part of a device: a float, and also a quantity.
fn portion(text: &str) -> Result<(), String> {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let within = |number: f64| number.is_nan() || (number > 0.0 && number < 1.0);
    if !is_hexadecimal && !text.parse().is_ok_and(within) {
        return Err(
            "gpu-fraction annotation value must be a positive number smaller than 1.0".to_owned()
        );
    }
    match Quantity::parse(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: {text}"
        )),
    }
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
        let refused = validate_change(Some(&placed), &more).expect_err("a larger share");
        assert!(refused.starts_with("cannot change annotation gpu-fraction"), "{refused}");
        assert!(validate_change(Some(&placed), &pod(&[], &json!({}))).is_err(), "nor none at all");
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
            let told = validate(&pod(annotations, container), true, &SHARING);
            assert_eq!(told.err().unwrap_or_default(), *wanted, "{annotations:?}");
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
