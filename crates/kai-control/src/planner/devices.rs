//! Device classes, slices and claims. Selectors choose among the devices of all slices: where the choice changes with a slice,
//! the objects with the selectors are translated again.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceClaim, DeviceClass, DeviceSelector, ResourceClaim, ResourceSlice,
};
use kai_client::kinds::Kind;
use kai_core::input::devices::Allocation;
use kai_core::input::{Object, ObjectName};
use kai_translate::device_judge::CelJudge;
use kai_translate::device_results::allocation_result;
use kai_translate::{Translated, device_slice, devices};

use super::node_gpus::NodeGpus;

/// What is known of devices beyond the world.
#[derive(Default)]
pub(super) struct Devices {
    judge: CelJudge,
    classes: BTreeMap<ObjectName, DeviceClass>,
    /// Requests of claims, which stand in bind requests again.
    requested: BTreeMap<ObjectName, DeviceClaim>,
    /// Claims with selectors, which are translated again when slices change.
    choosy_claims: BTreeMap<ObjectName, ResourceClaim>,
    pub(super) gpus: NodeGpus,
}

/// An object that was translated, for the first time or again.
#[derive(Debug)]
pub(super) struct DeviceUpdate {
    pub(super) kind: Kind,
    pub(super) name: ObjectName,
    pub(super) uid: Option<String>,
    pub(super) translated: Translated<Object>,
}

impl Devices {
    pub(super) fn set_class(&mut self, name: &ObjectName, class: DeviceClass) -> Vec<DeviceUpdate> {
        self.classes.insert(name.clone(), class);
        self.translate_class(name).into_iter().collect()
    }

    /// A slice, and every object whose selectors choose other devices with it.
    pub(super) fn set_slice(
        &mut self,
        name: &ObjectName,
        slice: &ResourceSlice,
    ) -> Vec<DeviceUpdate> {
        let choices_changed = self.judge.set_slice(slice);
        let update = DeviceUpdate {
            kind: Kind::ResourceSlice,
            name: name.clone(),
            uid: slice.metadata.uid.clone(),
            translated: device_slice::slice(slice).map(Object::Slice),
        };
        let choices = if choices_changed { self.choose_again() } else { Vec::new() };
        std::iter::once(update).chain(choices).collect()
    }

    pub(super) fn set_claim(
        &mut self,
        name: ObjectName,
        claim: ResourceClaim,
    ) -> Vec<DeviceUpdate> {
        self.choosy_claims.remove(&name);
        self.requested.insert(name.clone(), claim.spec.devices.clone().unwrap_or_default());
        let update = self.translate_claim(&name, &claim);
        if selectors_of(&claim).next().is_some() {
            self.choosy_claims.insert(name, claim);
            self.forget_unused_selectors();
        }
        vec![update]
    }

    /// A device class, slice or claim is gone. Returns every object whose selectors choose other devices without it.
    pub(super) fn remove(&mut self, kind: Kind, name: &ObjectName) -> Vec<DeviceUpdate> {
        match kind {
            Kind::DeviceClass => {
                self.classes.remove(name);
                self.forget_unused_selectors();
            }
            Kind::ResourceClaim => {
                self.requested.remove(name);
                self.choosy_claims.remove(name);
                self.forget_unused_selectors();
            }
            Kind::ResourceSlice if self.judge.remove_slice(&name.name) => {
                return self.choose_again();
            }
            _ => {}
        }
        Vec::new()
    }

    /// Evaluates selectors that were left over, as far as one turn of the loop may spend on them.
    pub(super) fn evaluate_selectors(&mut self) -> Vec<DeviceUpdate> {
        if self.judge.begin_turn() { self.choose_again() } else { Vec::new() }
    }

    /// Some selectors were not evaluated on all devices.
    pub(super) fn has_selectors_waiting(&self) -> bool {
        self.judge.is_behind()
    }

    /// What a claim requests.
    pub(super) fn requested(&self, claim: &ObjectName) -> Option<&DeviceClaim> {
        self.requested.get(claim)
    }

    /// An allocation as it stands in the status of a claim with these requests.
    pub(super) fn result(
        &self,
        allocation: &Allocation,
        requested: Option<&DeviceClaim>,
    ) -> AllocationResult {
        let nothing = DeviceClaim::default();
        let class = |name: &str| self.classes.get(&ObjectName::new("", name));
        allocation_result(allocation, requested.unwrap_or(&nothing), class)
    }

    /// Selectors of objects that are gone do not stay in memory.
    fn forget_unused_selectors(&mut self) {
        let Self { judge, classes, choosy_claims, .. } = self;
        judge.forget_unused(|| {
            let of_classes =
                classes.values().flat_map(|class| class.spec.selectors.iter().flatten());
            let selectors = of_classes.chain(choosy_claims.values().flat_map(selectors_of));
            selectors
                .filter_map(|one| Some(one.cel.as_ref()?.expression.as_str()))
                .collect::<Vec<_>>()
        });
    }

    fn translate_class(&mut self, name: &ObjectName) -> Option<DeviceUpdate> {
        let class = self.classes.get(name)?;
        Some(DeviceUpdate {
            kind: Kind::DeviceClass,
            name: name.clone(),
            uid: class.metadata.uid.clone(),
            translated: devices::class(class, &mut self.judge).map(Object::DeviceClass),
        })
    }

    fn translate_claim(&mut self, name: &ObjectName, claim: &ResourceClaim) -> DeviceUpdate {
        DeviceUpdate {
            kind: Kind::ResourceClaim,
            name: name.clone(),
            uid: claim.metadata.uid.clone(),
            translated: devices::claim(claim, &mut self.judge).map(Object::Claim),
        }
    }

    fn choose_again(&mut self) -> Vec<DeviceUpdate> {
        let classes: Vec<ObjectName> = self.classes.keys().cloned().collect();
        let mut updates: Vec<DeviceUpdate> =
            classes.iter().filter_map(|class| self.translate_class(class)).collect();
        for (name, claim) in self.choosy_claims.clone() {
            updates.push(self.translate_claim(&name, &claim));
        }
        updates
    }
}

/// Selectors of all requests of a claim.
fn selectors_of(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceSelector> {
    let requests = claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
    requests.flat_map(|request| {
        let exact = request.exactly.iter().flat_map(|exact| exact.selectors.iter().flatten());
        let subs = request.first_available.iter().flatten();
        exact.chain(subs.flat_map(|sub| sub.selectors.iter().flatten()))
    })
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn typed<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("a typed object")
    }

    fn name(namespace: &str, name: &str) -> ObjectName {
        ObjectName::new(namespace, name)
    }

    fn class(expression: &str) -> DeviceClass {
        let selectors = json!([{"cel": {"expression": expression}}]);
        typed(json!({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}))
    }

    fn slice(device: &str) -> ResourceSlice {
        typed(json!({
            "metadata": {"name": "s"},
            "spec": {
                "driver": "gpu.example.com",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n1",
                "devices": [{"name": device}],
            },
        }))
    }

    fn claim(selectors: &Value) -> ResourceClaim {
        let exactly = json!({"deviceClassName": "gpu", "selectors": selectors});
        let requests = json!([{"name": "r", "exactly": exactly}]);
        typed(json!({
            "metadata": {"name": "c", "namespace": "a"},
            "spec": {"devices": {"requests": requests}},
        }))
    }

    fn kinds(updates: &[DeviceUpdate]) -> Vec<Kind> {
        updates.iter().map(|update| update.kind).collect()
    }

    #[test]
    fn a_new_slice_translates_selecting_objects_again() {
        let mut devices = Devices::default();
        let selects = class("device.driver == 'gpu.example.com'");
        assert_eq!(kinds(&devices.set_class(&name("", "gpu"), selects)), [Kind::DeviceClass]);
        let selectors = json!([{"cel": {"expression": "true"}}]);
        let updates = devices.set_claim(name("a", "c"), claim(&selectors));
        assert_eq!(kinds(&updates), [Kind::ResourceClaim]);
        let updates = devices.set_slice(&name("", "s"), &slice("d1"));
        let all = [Kind::ResourceSlice, Kind::DeviceClass, Kind::ResourceClaim];
        assert_eq!(kinds(&updates), all);
        let updates = devices.set_slice(&name("", "s"), &slice("d1"));
        assert_eq!(kinds(&updates), [Kind::ResourceSlice], "the same devices");
        devices.remove(Kind::ResourceClaim, &name("a", "c"));
        let updates = devices.remove(Kind::ResourceSlice, &name("", "s"));
        assert_eq!(kinds(&updates), [Kind::DeviceClass]);
    }

    #[test]
    fn what_a_claim_requests_is_known_until_it_is_gone() {
        let mut devices = Devices::default();
        devices.set_claim(name("a", "c"), claim(&json!([])));
        let requests = devices.requested(&name("a", "c")).and_then(|one| one.requests.as_ref());
        assert_eq!(requests.map(Vec::len), Some(1));
        devices.remove(Kind::ResourceClaim, &name("a", "c"));
        assert!(devices.requested(&name("a", "c")).is_none());
    }
}
