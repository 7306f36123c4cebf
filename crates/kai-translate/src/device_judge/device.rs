//! A device as expressions see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::{Key, Map};
use k8s_openapi::api::resource::v1::{DeviceAttribute, ResourceSlice};
use kai_api::quantity::Quantity;
use kai_core::input::devices::DeviceRef;

use super::library::{QuantityValue, VersionValue};

/// Values by domain and name.
type Domains = BTreeMap<String, BTreeMap<String, Value>>;

/// A device with what can be asked of it.
pub(super) struct Device {
    pub(super) id: DeviceRef,
    attributes: Domains,
    capacity: Domains,
    several: bool,
}

/// The devices of a slice.
pub(super) fn of_slice(slice: &ResourceSlice) -> Vec<Device> {
    let spec = &slice.spec;
    let device = |device: &k8s_openapi::api::resource::v1::Device| {
        let attributes = device.attributes.iter().flatten();
        let attributes = attributes.filter_map(|(name, value)| Some((name, attribute(value)?)));
        let capacity = device.capacity.iter().flatten().filter_map(|(name, capacity)| {
            let quantity = Quantity::parse(&capacity.value.0).ok()?;
            Some((name, Value::Opaque(Arc::new(QuantityValue(quantity)))))
        });
        Device {
            id: DeviceRef {
                driver: spec.driver.as_str().into(),
                pool: spec.pool.name.as_str().into(),
                device: device.name.as_str().into(),
            },
            attributes: by_domain(attributes, &spec.driver),
            capacity: by_domain(capacity, &spec.driver),
            several: device.allow_multiple_allocations.unwrap_or_default(),
        }
    };
    spec.devices.iter().flatten().map(device).collect()
}

fn attribute(value: &DeviceAttribute) -> Option<Value> {
    if let Some(text) = &value.string {
        return Some(Value::from(text.as_str()));
    }
    if let Some(version) = &value.version {
        let version = semver::Version::parse(version).ok()?;
        return Some(Value::Opaque(Arc::new(VersionValue(version))));
    }
    value.int.map(Value::Int).or(value.bool.map(Value::Bool))
}

/// Names without a domain are the driver's.
fn by_domain<'a>(values: impl Iterator<Item = (&'a String, Value)>, driver: &str) -> Domains {
    let mut domains = Domains::new();
    for (name, value) in values {
        let (domain, name) = name.split_once('/').unwrap_or((driver, name));
        domains.entry(domain.to_owned()).or_default().insert(name.to_owned(), value);
    }
    domains
}

impl Device {
    /// The value of the variable `device`. A domain that the device does not have is empty, not an error: those that the
    /// expression mentions are there.
    pub(super) fn value(&self, mentions: &[String]) -> Value {
        let domains = |known: &Domains| {
            let unknown = mentions.iter().filter(|mention| !known.contains_key(*mention));
            let empty = unknown.map(|mention| (mention.clone(), map(std::iter::empty())));
            let full = known.iter().map(|(domain, values)| {
                (
                    domain.clone(),
                    map(values.iter().map(|(name, value)| (name.clone(), value.clone()))),
                )
            });
            map(empty.chain(full))
        };
        let fields = [
            ("driver", Value::from(&*self.id.driver)),
            ("attributes", domains(&self.attributes)),
            ("capacity", domains(&self.capacity)),
            ("allowMultipleAllocations", Value::Bool(self.several)),
        ];
        map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)))
    }
}

fn map(entries: impl Iterator<Item = (String, Value)>) -> Value {
    let entries = entries.map(|(name, value)| (Key::from(name), value));
    Value::Map(Map { map: Arc::new(entries.collect()) })
}
