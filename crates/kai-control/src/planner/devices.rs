//! Device classes, slices and claims into the world. Selectors choose among the devices of all slices: where the
//! choice changes with a slice, the objects that hold the selectors are told anew.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceClass, DeviceSelector, ResourceClaim, ResourceSlice,
};
use kai_client::kinds::Kind;
use kai_core::input::{Delta, Object, ObjectKey, ObjectName};
use kai_translate::device_judge::CelJudge;
use kai_translate::{device_slice, devices};

use super::Planner;
use crate::status::problems::summary;

/// What is known of devices beyond what the world is told.
#[derive(Default)]
pub(super) struct Devices {
    judge: CelJudge,
    classes: BTreeMap<ObjectName, DeviceClass>,
    /// What claims ask for.
    wanted: BTreeMap<ObjectName, DeviceClaim>,
    /// Claims with selectors.
    choosy_claims: BTreeMap<ObjectName, ResourceClaim>,
}

impl Devices {
    /// A class of devices.
    pub(super) fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes.get(&ObjectName::new("", name))
    }

    /// What a claim asks for.
    pub(super) fn wanted(&self, claim: &ObjectName) -> Option<&DeviceClaim> {
        self.wanted.get(claim)
    }
}

impl Planner {
    pub(super) fn set_device_class(&mut self, name: &ObjectName, class: DeviceClass) {
        self.devices.classes.insert(name.clone(), class);
        self.tell_device_class(name);
    }

    pub(super) fn set_slice(&mut self, name: &ObjectName, slice: &ResourceSlice) {
        let choices_changed = self.devices.judge.set_slice(slice);
        let uid = slice.metadata.uid.as_deref();
        match self.valid_part(Kind::ResourceSlice, name, uid, device_slice::slice(slice)) {
            Some(spec) => self.tell(Delta::Set(Object::Slice(spec))),
            None => self.forget_object(ObjectKey::Slice(name.name.clone())),
        }
        if choices_changed {
            self.choose_devices_anew();
        }
    }

    pub(super) fn set_device_claim(&mut self, name: ObjectName, claim: ResourceClaim) {
        self.devices.choosy_claims.remove(&name);
        self.devices.wanted.insert(name.clone(), claim.spec.devices.clone().unwrap_or_default());
        self.statuses.set_problem(Kind::ResourceClaim, &name, "", None);
        self.tell_device_claim(&claim);
        if selectors_of(&claim).next().is_some() {
            self.devices.choosy_claims.insert(name, claim);
            self.forget_unused_selectors();
        }
    }

    /// Evaluates selectors that were left over, as far as one turn of the loop may spend on them.
    pub fn evaluate_selectors(&mut self) {
        if self.devices.judge.begin_turn() {
            self.choose_devices_anew();
        }
    }

    /// Are there selectors that were not evaluated on all devices?
    pub fn has_selectors_waiting(&self) -> bool {
        self.devices.judge.is_behind()
    }

    /// Selectors of objects that are gone do not stay in memory.
    fn forget_unused_selectors(&mut self) {
        let Devices { judge, classes, choosy_claims, .. } = &mut self.devices;
        judge.forget_unused(|| {
            let of_classes =
                classes.values().flat_map(|class| class.spec.selectors.iter().flatten());
            let selectors = of_classes.chain(choosy_claims.values().flat_map(selectors_of));
            selectors
                .filter_map(|one| Some(one.cel.as_ref()?.expression.as_str()))
                .collect::<Vec<_>>()
        });
    }

    /// A device class, slice or claim is gone; the world is told by who calls.
    pub(super) fn lose_device_object(&mut self, kind: Kind, name: &ObjectName) {
        match kind {
            Kind::DeviceClass => {
                self.devices.classes.remove(name);
                self.forget_unused_selectors();
            }
            Kind::ResourceClaim => {
                self.devices.wanted.remove(name);
                self.devices.choosy_claims.remove(name);
                self.statuses.set_claim_problem(name, "", None);
                self.forget_unused_selectors();
            }
            Kind::ResourceSlice if self.devices.judge.remove_slice(&name.name) => {
                self.choose_devices_anew();
            }
            _ => {}
        }
    }

    fn tell_device_class(&mut self, name: &ObjectName) {
        let Devices { judge, classes, .. } = &mut self.devices;
        let Some(class) = classes.get(name) else { return };
        let (uid, translated) = (class.metadata.uid.clone(), devices::class(class, judge));
        if let Some(spec) = self.valid_part(Kind::DeviceClass, name, uid.as_deref(), translated) {
            self.tell(Delta::Set(Object::DeviceClass(spec)));
        }
    }

    fn tell_device_claim(&mut self, claim: &ResourceClaim) {
        let translated = devices::claim(claim, &mut self.devices.judge);
        let metadata = &claim.metadata;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let name = ObjectName::new(text(&metadata.namespace), text(&metadata.name));
        let problem = summary(&translated.problems);
        self.statuses.set_claim_problem(&name, &text(&metadata.uid), problem);
        if let Some(spec) = Self::heard(translated) {
            self.tell(Delta::Set(Object::Claim(spec)));
        }
    }

    fn choose_devices_anew(&mut self) {
        let classes: Vec<ObjectName> = self.devices.classes.keys().cloned().collect();
        for class in classes {
            self.tell_device_class(&class);
        }
        let claims: Vec<ResourceClaim> = self.devices.choosy_claims.values().cloned().collect();
        for claim in claims {
            self.tell_device_claim(&claim);
        }
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
