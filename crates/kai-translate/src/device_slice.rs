//! Slices: devices that a driver offers, with the counters and capacities that they share.
//!
//! A device that uses a rule which is not understood is left out, so that it is not given.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, Counter, Device, DeviceAttribute, DeviceCapacity, ResourceSlice,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as RawQuantity;
use kai_api::quantity::Quantity;
use kai_core::input::devices::{
    self, CapacityPolicy, CapacityRange, CounterSet, CounterUse, DeviceAccess, DeviceSpec,
    NamedAmounts,
};
use kai_core::input::node::{Taint, TaintEffect};
use kai_core::input::{SliceSpec, Text};

use crate::problem::{Complaints, Translated};
use crate::{node, selectors};

/// An amount in thousandths.
pub(crate) fn milli(amount: &RawQuantity) -> Result<i64, String> {
    let read = Quantity::parse(&amount.0).map_err(|error| format!("{error}, is {:?}", amount.0))?;
    Ok(read.milli())
}

/// Devices that a driver offers.
pub fn slice(slice: &ResourceSlice) -> Translated<SliceSpec> {
    let name = slice.metadata.name.as_deref().unwrap_or_default();
    let mut complaints = Complaints::about(format!("ResourceSlice {name}"));
    let spec = &slice.spec;
    let access = access(spec.node_name.as_deref(), spec.node_selector.as_ref(), spec.all_nodes);
    let access = match spec.per_device_node_selection {
        Some(true) => Some(DeviceAccess::PerDevice),
        _ => access,
    };
    let Some(access) = access else {
        complaints.add("spec", "none of nodeName, nodeSelector, allNodes, perDeviceNodeSelection");
        return complaints.only_if_sound(empty(slice));
    };
    let mut counter_sets = Vec::new();
    for (at, set) in spec.shared_counters.iter().flatten().enumerate() {
        let path = format!("spec.sharedCounters[{at}]");
        if let Some(counters) = counters(&set.counters, &path, &mut complaints) {
            counter_sets.push(CounterSet { name: set.name.as_str().into(), counters });
        }
    }
    let mut devices = Vec::new();
    for (at, device) in spec.devices.iter().flatten().enumerate() {
        let path = format!("spec.devices[{at}]");
        let is_own = access == DeviceAccess::PerDevice;
        devices.extend(device_spec(device, &spec.driver, is_own, &path, &mut complaints));
    }
    complaints.with(SliceSpec { access, counter_sets, devices, ..empty(slice) })
}

/// A slice without devices.
fn empty(slice: &ResourceSlice) -> SliceSpec {
    let pool = &slice.spec.pool;
    SliceSpec {
        name: slice.metadata.name.as_deref().unwrap_or_default().into(),
        driver: slice.spec.driver.as_str().into(),
        pool: pool.name.as_str().into(),
        generation: pool.generation,
        pool_slices: Some(pool.resource_slice_count).filter(|count| *count > 0),
        counter_sets: Vec::new(),
        access: DeviceAccess::Nodes(Vec::new()),
        devices: Vec::new(),
    }
}

fn access(
    node: Option<&str>,
    selector: Option<&NodeSelector>,
    all_nodes: Option<bool>,
) -> Option<DeviceAccess> {
    match (node, selector, all_nodes) {
        (Some(node), ..) => Some(DeviceAccess::Node(node.into())),
        (_, Some(selector), _) => Some(DeviceAccess::Nodes(selectors::node_terms(selector))),
        (.., Some(true)) => Some(DeviceAccess::AllNodes),
        _ => None,
    }
}

/// A device; none where it uses something that is not understood. Attributes without a domain are the driver's.
fn device_spec(
    device: &Device,
    driver: &str,
    has_own_access: bool,
    path: &str,
    complaints: &mut Complaints,
) -> Option<DeviceSpec> {
    if device.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty()) {
        let path = format!("{path}.bindingConditions");
        complaints.add(path, "binding conditions are not supported; the device is not given");
        return None;
    }
    let attributes = device.attributes.iter().flatten().filter_map(|(name, value)| {
        let name = if name.contains('/') { name.clone() } else { format!("{driver}/{name}") };
        Some((name.into(), attribute_value(value)?))
    });
    // An effect that is not understood keeps everybody away.
    let taints = device.taints.iter().flatten().filter(|taint| taint.effect != "None");
    let taints = taints.map(|taint| Taint {
        key: taint.key.as_str().into(),
        value: taint.value.as_deref().unwrap_or_default().into(),
        effect: node::effect(&taint.effect).unwrap_or(TaintEffect::NoSchedule),
    });
    let own = access(device.node_name.as_deref(), device.node_selector.as_ref(), device.all_nodes);
    let mut spec = DeviceSpec::named(device.name.as_str());
    spec.attributes = attributes.collect();
    spec.taints = taints.collect();
    spec.access = own.filter(|_| has_own_access);
    spec.is_shareable = device.allow_multiple_allocations.unwrap_or_default();
    for (at, one) in device.consumes_counters.iter().flatten().enumerate() {
        let path = format!("{path}.consumesCounters[{at}]");
        let counters = counters(&one.counters, &path, complaints)?;
        spec.consumes.push(CounterUse { set: one.counter_set.as_str().into(), counters });
    }
    for (name, capacity) in device.capacity.iter().flatten() {
        let field = || format!("{path}.capacity[{name}]");
        let capacity = complaints.check(field, device_capacity(capacity))?;
        spec.capacity.insert(name.as_str().into(), capacity);
    }
    Some(spec)
}

/// Counters by name; none where one cannot be read.
fn counters(
    listed: &BTreeMap<String, Counter>,
    path: &str,
    complaints: &mut Complaints,
) -> Option<NamedAmounts> {
    let mut counters = NamedAmounts::new();
    for (name, counter) in listed {
        let field = || format!("{path}.counters[{name}]");
        let amount = complaints.check(field, milli(&counter.value))?;
        counters.insert(name.as_str().into(), amount);
    }
    Some(counters)
}

fn device_capacity(capacity: &DeviceCapacity) -> Result<devices::DeviceCapacity, String> {
    let policy = capacity.request_policy.as_ref().map(capacity_policy).transpose()?;
    Ok(devices::DeviceCapacity { value: milli(&capacity.value)?, policy })
}

fn capacity_policy(policy: &CapacityRequestPolicy) -> Result<CapacityPolicy, String> {
    let values = policy.valid_values.iter().flatten().map(milli);
    let mut valid_values = values.collect::<Result<Vec<i64>, String>>()?;
    valid_values.sort_unstable();
    let valid_range = match &policy.valid_range {
        None => None,
        Some(range) => Some(CapacityRange {
            min: milli(&range.min)?,
            max: range.max.as_ref().map(milli).transpose()?,
            step: range.step.as_ref().map(milli).transpose()?,
        }),
    };
    let default = policy.default.as_ref().map(milli).transpose()?;
    Ok(CapacityPolicy { default, valid_values, valid_range })
}

/// Values of different types are never equal.
fn attribute_value(value: &DeviceAttribute) -> Option<Text> {
    let text = value.string.as_ref().map(|text| format!("string {text}"));
    let version = value.version.as_ref().map(|version| format!("version {version}"));
    let int = value.int.map(|int| format!("int {int}"));
    let flag = value.bool.map(|flag| format!("bool {flag}"));
    text.or(version).or(int).or(flag).map(Text::from)
}
