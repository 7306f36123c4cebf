//! Devices that a plan decided for a claim, as they stand in the status of the claim and in bind requests.

use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceClaim,
    DeviceClass, DeviceRequest, DeviceRequestAllocationResult, DeviceToleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kai_core::input::devices::{AllocatedDevice, Allocation};

use crate::selectors;

const FROM_CLASS: &str = "FromClass";
const FROM_CLAIM: &str = "FromClaim";

/// An allocation for a claim that asks for `wanted`: the devices, from where they can be used, and how the claim and the
/// classes of its requests want them set up.
pub fn allocation_result<'a>(
    allocation: &Allocation,
    wanted: &DeviceClaim,
    class_named: impl Fn(&str) -> Option<&'a DeviceClass>,
) -> AllocationResult {
    let requests = wanted.requests.as_deref().unwrap_or_default();
    let results = allocation.results.iter().map(|given| result(given, requests));
    let config = configuration(allocation, wanted, class_named);
    AllocationResult {
        allocation_timestamp: None,
        devices: Some(DeviceAllocationResult {
            config: (!config.is_empty()).then_some(config),
            results: Some(results.collect()),
        }),
        node_selector: selectors::node_selector(&allocation.nodes),
    }
}

/// What the chosen way to satisfy a request says.
struct Chosen<'a> {
    class: &'a str,
    admin_access: Option<bool>,
    tolerations: Option<&'a Vec<DeviceToleration>>,
}

/// The request, or the alternative of it, that a result is for: `request` or `request/alternative`.
fn chosen<'a>(name: &str, requests: &'a [DeviceRequest]) -> Option<Chosen<'a>> {
    let (parent, alternative) =
        name.split_once('/').map_or((name, None), |(parent, rest)| (parent, Some(rest)));
    let request = requests.iter().find(|request| request.name == parent)?;
    match alternative {
        None => request.exactly.as_ref().map(|exact| Chosen {
            class: &exact.device_class_name,
            admin_access: exact.admin_access,
            tolerations: exact.tolerations.as_ref(),
        }),
        Some(wanted) => {
            let mut subs = request.first_available.iter().flatten();
            subs.find(|sub| sub.name == wanted).map(|sub| Chosen {
                class: &sub.device_class_name,
                admin_access: None,
                tolerations: sub.tolerations.as_ref(),
            })
        }
    }
}

fn result(given: &AllocatedDevice, requests: &[DeviceRequest]) -> DeviceRequestAllocationResult {
    let chosen = chosen(&given.request, requests);
    DeviceRequestAllocationResult {
        request: given.request.to_string(),
        driver: given.device.driver.to_string(),
        pool: given.device.pool.to_string(),
        device: given.device.device.to_string(),
        admin_access: chosen.as_ref().and_then(|chosen| chosen.admin_access),
        tolerations: chosen.and_then(|chosen| chosen.tolerations.cloned()),
        share_id: given.share.as_ref().map(|share| share.id.to_string()),
        consumed_capacity: given.share.as_ref().map(|share| {
            let consumed = share.consumed.iter();
            consumed.map(|(name, amount)| (name.to_string(), quantity(*amount))).collect()
        }),
        ..DeviceRequestAllocationResult::default()
    }
}

/// An amount in thousandths, in the shortest form.
fn quantity(milli: i64) -> Quantity {
    Quantity(if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") })
}

/// What classes say comes first, once per class with all its requests; then what the claim says.
fn configuration<'a>(
    allocation: &Allocation,
    wanted: &DeviceClaim,
    class_named: impl Fn(&str) -> Option<&'a DeviceClass>,
) -> Vec<DeviceAllocationConfiguration> {
    let requests = wanted.requests.as_deref().unwrap_or_default();
    let mut served: Vec<&str> = Vec::new();
    let mut by_class: Vec<(&str, Vec<String>)> = Vec::new();
    for result in &allocation.results {
        let Some(chosen) = chosen(&result.request, requests) else { continue };
        if served.contains(&&*result.request) {
            continue;
        }
        served.push(&result.request);
        match by_class.iter_mut().find(|(class, _)| *class == chosen.class) {
            Some((_, names)) => names.push(result.request.to_string()),
            None => by_class.push((chosen.class, vec![result.request.to_string()])),
        }
    }
    let mut all = Vec::new();
    for (class, names) in by_class {
        let config = class_named(class).and_then(|class| class.spec.config.as_ref());
        all.extend(config.into_iter().flatten().map(|one| DeviceAllocationConfiguration {
            opaque: one.opaque.clone(),
            requests: Some(names.clone()),
            source: FROM_CLASS.to_owned(),
        }));
    }
    let is_about = |name: &String| {
        served.iter().any(|request| request == name || request.split('/').next() == Some(name))
    };
    let own = wanted.config.iter().flatten().filter(|one| {
        let names = one.requests.as_deref().unwrap_or_default();
        names.is_empty() || names.iter().any(is_about)
    });
    all.extend(own.map(|one| DeviceAllocationConfiguration {
        opaque: one.opaque.clone(),
        requests: one.requests.clone(),
        source: FROM_CLAIM.to_owned(),
    }));
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::devices;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn what_is_written_is_read_as_it_was_decided() {
        let written: AllocationResult = read(json!({
            "devices": {"results": [
                {"request": "a", "driver": "d", "pool": "n", "device": "0"},
                {"request": "b/small", "driver": "d", "pool": "n", "device": "1"},
            ]},
            "nodeSelector": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
        }));
        let wanted: DeviceClaim = read(json!({"requests": [
            {"name": "a", "exactly": {"deviceClassName": "gpu"}},
            {"name": "b", "firstAvailable": [{"name": "small", "deviceClassName": "mig"}]},
        ]}));
        let decided = devices::allocation(&written);
        assert_eq!(allocation_result(&decided, &wanted, |_| None), written);
    }

    #[test]
    fn classes_and_claim_say_how_devices_are_set_up() {
        let class: DeviceClass = read(json!({"metadata": {"name": "gpu"}, "spec": {
            "config": [{"opaque": {"driver": "d", "parameters": {"of": "class"}}}]}}));
        let wanted: DeviceClaim = read(json!({
            "requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu", "adminAccess": true}},
                {"name": "b", "exactly": {"deviceClassName": "gpu"}},
            ],
            "config": [
                {"requests": ["b"], "opaque": {"driver": "d", "parameters": {"of": "b"}}},
                {"requests": ["other"], "opaque": {"driver": "d", "parameters": {"of": "another"}}},
            ],
        }));
        let given = |request: &str| json!({"request": request, "driver": "d", "pool": "n", "device": request});
        let decided =
            devices::allocation(&read(json!({"devices": {"results": [given("a"), given("b")]}})));
        let result = allocation_result(&decided, &wanted, |name| (name == "gpu").then_some(&class));
        let result = serde_json::to_value(result).expect("JSON");
        assert_eq!(result["devices"]["results"][0]["adminAccess"], true);
        assert_eq!(
            result["devices"]["config"],
            json!([
                {"source": "FromClass", "requests": ["a", "b"], "opaque": {"driver": "d", "parameters": {"of": "class"}}},
                {"source": "FromClaim", "requests": ["b"], "opaque": {"driver": "d", "parameters": {"of": "b"}}},
            ])
        );
        assert!(result["nodeSelector"].is_null());
    }
}
