//! Objects of `resource.k8s.io` in versions before `v1`. `v1beta2` is `v1` under another name; `v1beta1` keeps what a device
//! is under `basic`, and what a request asks for beside its name.

use serde_json::{Map, Value};

/// The version that everything else speaks.
const SPOKEN: &str = "resource.k8s.io/v1";
/// What of a request is not about what it asks for.
const OF_REQUEST: [&str; 3] = ["name", "exactly", "firstAvailable"];

/// Turns a device class, slice or claim of any version into one of `v1`; one of `v1` stays as it is.
pub fn into_v1(object: &mut Value) {
    if let Some(version) = object.get_mut("apiVersion") {
        *version = SPOKEN.into();
    }
    let Some(spec) = object.get_mut("spec") else { return };
    if let Some(devices) = spec.get_mut("devices") {
        match devices {
            Value::Array(devices) => devices.iter_mut().for_each(unfold_device),
            claim => {
                let requests = claim.get_mut("requests").and_then(Value::as_array_mut);
                requests.into_iter().flatten().for_each(fold_request);
            }
        }
    }
}

/// What is under `basic` belongs to the device.
fn unfold_device(device: &mut Value) {
    let Some(device) = device.as_object_mut() else { return };
    if let Some(Value::Object(basic)) = device.remove("basic") {
        device.extend(basic);
    }
}

/// A request that names a class itself asks for exactly that.
fn fold_request(request: &mut Value) {
    let Some(request) = request.as_object_mut() else { return };
    let class = request.get("deviceClassName").and_then(Value::as_str);
    if class.is_none_or(str::is_empty) {
        return;
    }
    let (kept, asked): (Map<String, Value>, Map<String, Value>) = std::mem::take(request)
        .into_iter()
        .partition(|(field, _)| OF_REQUEST.contains(&field.as_str()));
    *request = kept;
    request.insert("exactly".to_owned(), asked.into());
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
    use serde_json::json;

    use super::*;
    use crate::decode::decode;

    fn turned(mut object: Value) -> Value {
        into_v1(&mut object);
        let once = object.clone();
        into_v1(&mut object);
        assert_eq!(object, once, "what is v1 stays as it is");
        object
    }

    #[test]
    fn a_slice_of_v1beta1_is_read() {
        let slice = turned(json!({
            "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "basic": {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "8Gi"}}}}, {"name": "gpu-1"}]},
        }));
        let slice: ResourceSlice = decode("ResourceSlice", &slice).expect("v1");
        let devices = slice.spec.devices.expect("devices");
        let model = devices[0].attributes.as_ref().and_then(|all| all["model"].string.as_deref());
        assert_eq!((devices.len(), model), (2, Some("a")));
        assert!(devices[0].capacity.as_ref().is_some_and(|all| all.contains_key("memory")));
    }

    #[test]
    fn a_claim_of_v1beta1_is_read() {
        let claim = turned(json!({
            "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [
                {"name": "one", "deviceClassName": "gpu", "count": 2, "selectors": [{"cel": {"expression": "true"}}]},
                {"name": "two", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
            ]}},
            "status": {"allocation": {"devices": {"results": [{"request": "one", "driver": "d", "pool": "p", "device": "gpu-0"}]}}},
        }));
        let claim: ResourceClaim = decode("ResourceClaim", &claim).expect("v1");
        let requests = claim.spec.devices.and_then(|devices| devices.requests).expect("requests");
        let exactly = requests[0].exactly.as_ref().expect("what is asked for");
        assert_eq!((exactly.device_class_name.as_str(), exactly.count), ("gpu", Some(2)));
        assert!(requests[1].exactly.is_none() && requests[1].first_available.is_some());
        assert!(claim.status.and_then(|status| status.allocation).is_some());
    }

    #[test]
    fn a_claim_of_v1_stays_as_it_is() {
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu"}}]}},
        });
        assert_eq!(turned(claim.clone()), claim);
    }
}
