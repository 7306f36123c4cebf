//! Devices under dynamic resource allocation.
//!
//! Selectors of classes and requests are expressions over devices. They are evaluated outside, by a [`DeviceJudge`]; what
//! the judge cannot answer matches no device, and the object is complained about.

use k8s_openapi::api::resource::v1::{
    AllocationResult, CapacityRequirements, DeviceClass, DeviceRequestAllocationResult,
    DeviceSelector, DeviceSubRequest, ExactDeviceRequest, ResourceClaim,
};
use kai_api::names::scheduling;
use kai_core::input::devices::{
    AllocatedDevice, Allocation, DeviceAlternative, DeviceCount, DeviceRef, DeviceRequest,
    DeviceShare, NamedAmounts, SameAttribute,
};
use kai_core::input::{ClaimSpec, DeviceClassSpec, ObjectName, Text};

use crate::device_slice::milli;
use crate::problem::{Complaints, Translated};
use crate::{selectors, tolerations};

/// Evaluates selectors of devices.
pub trait DeviceJudge {
    /// The devices that satisfy every expression; an error if one cannot be evaluated.
    fn matching(&mut self, expressions: &[&str]) -> Result<Matching, String>;
}

/// What a judge says of expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// The devices that satisfy every expression, as far as they were evaluated.
    pub devices: Vec<DeviceRef>,
    /// What their author should know.
    pub notices: Vec<String>,
}

/// A class of devices.
pub fn class(class: &DeviceClass, judge: &mut dyn DeviceJudge) -> Translated<DeviceClassSpec> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let mut complaints = Complaints::about(format!("DeviceClass {name}"));
    let selectors = class.spec.selectors.as_deref().unwrap_or_default();
    let devices = devices(selectors, "spec.selectors", judge, &mut complaints);
    complaints.with(DeviceClassSpec {
        name: name.into(),
        extended_resource: selectors::non_empty(class.spec.extended_resource_name.as_ref()),
        devices,
    })
}

/// The devices that selectors leave; none: every device.
fn devices(
    selectors: &[DeviceSelector],
    path: &str,
    judge: &mut dyn DeviceJudge,
    complaints: &mut Complaints,
) -> Option<Vec<DeviceRef>> {
    if selectors.is_empty() {
        return None;
    }
    let expressions: Option<Vec<&str>> =
        selectors.iter().map(|one| Some(one.cel.as_ref()?.expression.as_str())).collect();
    let matching = match expressions {
        Some(expressions) => judge.matching(&expressions),
        None => Err("only CEL expressions are understood".to_owned()),
    };
    let found = matching.unwrap_or_else(|error| {
        complaints.add(path, format!("this selector of devices matches no device: {error}"));
        Matching::default()
    });
    for notice in found.notices {
        complaints.add(path, notice);
    }
    Some(found.devices)
}

/// A claim for devices.
pub fn claim(claim: &ResourceClaim, judge: &mut dyn DeviceJudge) -> Translated<ClaimSpec> {
    let metadata = &claim.metadata;
    let name = ObjectName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let mut complaints = Complaints::about(format!("ResourceClaim {name}"));
    let requests = claim.spec.devices.as_ref().and_then(|devices| devices.requests.as_ref());
    let mut read = Vec::new();
    for (at, request) in requests.into_iter().flatten().enumerate() {
        let path = format!("spec.devices.requests[{at}]");
        let mut alternatives: Vec<DeviceAlternative> = Vec::new();
        if let Some(one) = &request.exactly {
            alternatives.push(exact(one, &path, judge, &mut complaints));
        }
        for (at, sub) in request.first_available.iter().flatten().enumerate() {
            let path = format!("{path}.firstAvailable[{at}]");
            alternatives.push(sub_request(sub, &path, judge, &mut complaints));
        }
        read.push(DeviceRequest { name: request.name.as_str().into(), alternatives });
    }
    let constraints = constraints(claim, &mut read, &mut complaints);
    let status = claim.status.as_ref();
    let owners = metadata.owner_references.iter().flatten();
    let owner_pod = owners.filter(|owner| owner.kind == "Pod").map(|owner| owner.name.as_str());
    let users = status.and_then(|status| status.reserved_for.as_ref()).into_iter().flatten();
    let labels = metadata.labels.clone().unwrap_or_default();
    let made_for = metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(scheduling::EXTENDED_RESOURCE_CLAIM).map(String::as_str));
    complaints.with(ClaimSpec {
        labels: selectors::labels(&labels),
        owner_pod: owner_pod.map(Text::from).next(),
        requests: read,
        constraints,
        for_extended_resource: made_for == Some("true"),
        allocation: status.and_then(|status| status.allocation.as_ref()).map(allocation),
        reserved_for: users
            .filter(|user| user.resource == "pods")
            .map(|user| user.name.as_str().into())
            .collect(),
        name,
    })
}

/// What the devices of a claim must have in common. A claim with a demand that is not understood is not served.
fn constraints(
    claim: &ResourceClaim,
    requests: &mut [DeviceRequest],
    complaints: &mut Complaints,
) -> Vec<SameAttribute> {
    let listed = claim.spec.devices.as_ref().and_then(|devices| devices.constraints.as_ref());
    let mut constraints = Vec::new();
    for (at, constraint) in listed.into_iter().flatten().enumerate() {
        if let Some(attribute) = &constraint.match_attribute {
            let names = constraint.requests.iter().flatten().map(|name| name.as_str().into());
            constraints.push(SameAttribute {
                requests: names.collect(),
                attribute: attribute.as_str().into(),
            });
            continue;
        }
        let path = format!("spec.devices.constraints[{at}]");
        complaints.add(path, "only matchAttribute is understood; the claim is not served");
        for request in requests.iter_mut() {
            request.alternatives.clear();
        }
    }
    constraints
}

fn count(mode: Option<&str>, count: Option<i64>) -> DeviceCount {
    match mode {
        Some("All") => DeviceCount::All,
        _ => DeviceCount::Exactly(count.filter(|count| *count != 0).unwrap_or(1)),
    }
}

fn exact(
    request: &ExactDeviceRequest,
    path: &str,
    judge: &mut dyn DeviceJudge,
    complaints: &mut Complaints,
) -> DeviceAlternative {
    let selectors = request.selectors.as_deref().unwrap_or_default();
    let of_capacity = format!("{path}.exactly.capacity");
    DeviceAlternative {
        name: None,
        capacity: asked_capacity(request.capacity.as_ref(), &of_capacity, complaints),
        class: request.device_class_name.as_str().into(),
        count: count(request.allocation_mode.as_deref(), request.count),
        devices: devices(selectors, &format!("{path}.exactly.selectors"), judge, complaints),
        admin_access: request.admin_access.unwrap_or_default(),
        tolerations: request
            .tolerations
            .iter()
            .flatten()
            .filter_map(tolerations::of_request)
            .collect(),
    }
}

fn sub_request(
    request: &DeviceSubRequest,
    path: &str,
    judge: &mut dyn DeviceJudge,
    complaints: &mut Complaints,
) -> DeviceAlternative {
    let selectors = request.selectors.as_deref().unwrap_or_default();
    DeviceAlternative {
        capacity: asked_capacity(
            request.capacity.as_ref(),
            &format!("{path}.capacity"),
            complaints,
        ),
        name: Some(request.name.as_str().into()),
        class: request.device_class_name.as_str().into(),
        count: count(request.allocation_mode.as_deref(), request.count),
        devices: devices(selectors, &format!("{path}.selectors"), judge, complaints),
        admin_access: false,
        tolerations: request
            .tolerations
            .iter()
            .flatten()
            .filter_map(tolerations::of_request)
            .collect(),
    }
}

/// What a request needs of the capacities of a device. An amount that cannot be read is more than any device has.
fn asked_capacity(
    asked: Option<&CapacityRequirements>,
    path: &str,
    complaints: &mut Complaints,
) -> NamedAmounts {
    let requests = asked.and_then(|asked| asked.requests.as_ref()).into_iter().flatten();
    let mut amounts = NamedAmounts::new();
    for (name, amount) in requests {
        let field = || format!("{path}.requests[{name}]");
        let amount = complaints.check(field, milli(amount)).unwrap_or(i64::MAX);
        amounts.insert(name.as_str().into(), amount);
    }
    amounts
}

/// The share of a device that a claim was given; none: all of it.
fn share(result: &DeviceRequestAllocationResult) -> Option<DeviceShare> {
    let id = result.share_id.as_deref()?;
    let consumed = result.consumed_capacity.iter().flatten();
    let amounts =
        consumed.map(|(name, amount)| (name.as_str().into(), milli(amount).unwrap_or(i64::MAX)));
    Some(DeviceShare { id: id.into(), consumed: amounts.collect() })
}

/// What a claim was given.
pub fn allocation(result: &AllocationResult) -> Allocation {
    let results = result.devices.as_ref().and_then(|devices| devices.results.as_ref());
    let nodes = result.node_selector.as_ref().map(selectors::node_terms);
    Allocation {
        results: results
            .into_iter()
            .flatten()
            .map(|one| AllocatedDevice {
                request: one.request.as_str().into(),
                device: DeviceRef {
                    driver: one.driver.as_str().into(),
                    pool: one.pool.as_str().into(),
                    device: one.device.as_str().into(),
                },
                share: share(one),
            })
            .collect(),
        nodes: nodes.unwrap_or_default(),
    }
}
