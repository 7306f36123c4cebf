//! Device claims of a pod: each gets the devices that were decided for it and is reserved for the pod, in one write. A claim
//! that has devices already, because pods share it, is only reserved. For extended resources of the pod a claim is made.
//!
//! Kubernetes itself frees the devices when the last pod of a claim is gone; the finalizer on the claim makes it do so.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerExtendedResourceRequest, PodExtendedResourceClaimStatus,
};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceClaim, DeviceRequest, DeviceRequestAllocationResult, ResourceClaim,
    ResourceClaimConsumerReference, ResourceClaimSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kai_api::bind_request::ContainerMapping;
use kai_api::names::scheduling::{
    CLAIM_DELETE_PROTECTION, EXTENDED_CLAIM_SUFFIX, EXTENDED_RESOURCE_CLAIM,
};
use kai_client::write::owned_by_pod;
use kai_core::input::devices::{Allocation, DeviceRef};
use kai_core::input::{ObjectName, Text};
use kai_translate::view;

use super::Binder;
use super::facts::{Awaited, PodFacts};
use super::index::Index;
use super::request::Request;
use super::writes::BindStep;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    uid: Text,
    version: String,
    leaving: bool,
    finalizers: Vec<String>,
    allocation: Option<Allocation>,
    /// Devices that no other claim may have.
    holds: Vec<DeviceRef>,
    reserved_for: Vec<ResourceClaimConsumerReference>,
    /// UID of the pod for whose extended resources it was made.
    made_for: Option<Text>,
}

#[derive(Default)]
pub(super) struct Claims {
    by_name: BTreeMap<ObjectName, Claim>,
    /// By UIDs of pods that they are reserved for.
    of_pod: Index<Text, ObjectName>,
    made_for: Index<Text, ObjectName>,
    /// Claims that have a device, or are being given it.
    holders: Index<DeviceRef, ObjectName>,
    /// Devices that are being given to claims.
    being_given: BTreeMap<ObjectName, Vec<DeviceRef>>,
}

/// A claim that is given devices, or only reserved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TakeClaim {
    pub(super) claim: ObjectName,
    pub(super) uid: Text,
    pub(super) version: String,
    /// All finalizers, where ours is still to be added.
    pub(super) finalizers: Option<Vec<String>>,
    pub(super) allocation: Option<Box<AllocationResult>>,
    pub(super) reserved_for: Vec<ResourceClaimConsumerReference>,
}

/// A claim that a pod no longer needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FreeClaim {
    pub(super) claim: ObjectName,
    pub(super) uid: Text,
    pub(super) version: String,
    /// Finalizers without ours, which goes with the devices.
    pub(super) finalizers: Vec<String>,
    /// The other pods that it is reserved for; empty: its devices are free.
    pub(super) reserved_for: Vec<ResourceClaimConsumerReference>,
    /// It was made for the pod and goes.
    pub(super) remove: bool,
}

/// What is to be done for the claims of a pod.
pub(super) enum ClaimStep {
    Write(Box<BindStep>),
    /// Something is not there yet: what, where it is not the pod; and why it fails if it never comes.
    Await(Option<Awaited>, String),
    Done,
}

impl Claim {
    fn read(object: &ResourceClaim) -> Self {
        let metadata = &object.metadata;
        let status = object.status.as_ref();
        let given = status.and_then(|status| status.allocation.as_ref());
        let users = status.and_then(|status| status.reserved_for.as_ref()).into_iter().flatten();
        let annotations = metadata.annotations.as_ref();
        let is_made = annotations
            .and_then(|all| all.get(EXTENDED_RESOURCE_CLAIM))
            .is_some_and(|value| value == "true");
        let owners = metadata.owner_references.iter().flatten();
        let mut pods = owners.filter(|owner| owner.kind == "Pod" && owner.controller == Some(true));
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            leaving: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            allocation: given.map(kai_translate::devices::allocation),
            holds: given.map(exclusive_devices).unwrap_or_default(),
            reserved_for: users.cloned().collect(),
            made_for: pods.next().filter(|_| is_made).map(|owner| owner.uid.as_str().into()),
        }
    }

    fn is_reserved_for(&self, pod: &Text) -> bool {
        self.users().any(|user| *user == **pod)
    }

    fn users(&self) -> impl Iterator<Item = &str> {
        self.reserved_for.iter().map(|user| user.uid.as_str())
    }

    fn finalizers_with_ours(&self) -> Option<Vec<String>> {
        let ours = CLAIM_DELETE_PROTECTION.to_owned();
        if self.finalizers.contains(&ours) {
            return None;
        }
        Some(self.finalizers.iter().cloned().chain([ours]).collect())
    }
}

/// Devices of an allocation that no other claim may have. Admin access takes a device from no claim.
fn exclusive_devices(allocation: &AllocationResult) -> Vec<DeviceRef> {
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    // Several claims may have shares of one device; the planner sees to it that they fit.
    let is_exclusive = |result: &&DeviceRequestAllocationResult| {
        result.admin_access != Some(true) && result.share_id.is_none()
    };
    let exclusive = results.filter(is_exclusive).map(|result| DeviceRef {
        driver: result.driver.as_str().into(),
        pool: result.pool.as_str().into(),
        device: result.device.as_str().into(),
    });
    exclusive.collect()
}

impl Claims {
    /// Takes a claim over as it is now, gone where it is none; an older state than the known one is not news.
    pub(super) fn set(&mut self, name: &ObjectName, object: Option<&ResourceClaim>) {
        let new = object.map(Claim::read);
        let known = self.by_name.get(name);
        if let (Some(known), Some(new)) = (known, &new)
            && known.uid == new.uid
            && super::facts::is_older(&new.version, &known.version)
        {
            return;
        }
        if let Some(old) = self.by_name.remove(name) {
            old.users().for_each(|user| self.of_pod.remove(&user.into(), name));
            old.made_for.iter().for_each(|pod| self.made_for.remove(pod, name));
            old.holds.iter().for_each(|device| self.holders.remove(device, name));
        }
        if let Some(new) = new {
            new.users().for_each(|user| self.of_pod.add(&user.into(), name));
            new.made_for.iter().for_each(|pod| self.made_for.add(pod, name));
            new.holds.iter().for_each(|device| self.holders.add(device, name));
            self.by_name.insert(name.clone(), new);
        }
    }

    /// A claim is about to be given devices: they are its own from now on.
    pub(super) fn begin_to_give(&mut self, take: &TakeClaim) {
        let devices = take.allocation.as_deref().map(exclusive_devices).unwrap_or_default();
        for device in &devices {
            self.holders.add(device, &take.claim);
        }
        self.being_given.insert(take.claim.clone(), devices);
    }

    /// The claim has been given devices, or not.
    pub(super) fn end_to_give(&mut self, name: &ObjectName) {
        let Some(devices) = self.being_given.remove(name) else { return };
        let has = self.by_name.get(name).map_or(&[][..], |claim| &claim.holds);
        let lost = devices.iter().filter(|device| !has.contains(device));
        lost.for_each(|device| self.holders.remove(device, name));
    }

    /// Nothing is being given any more.
    pub(super) fn forget_giving(&mut self) {
        let names: Vec<ObjectName> = self.being_given.keys().cloned().collect();
        for name in names {
            self.end_to_give(&name);
        }
    }

    /// What a pod of this UID has of claims and must give back before it is as it was.
    pub(super) fn to_free(&self, pod: &Text) -> Vec<FreeClaim> {
        let made = self.made_for.of(pod);
        let reserved = self.of_pod.of(pod).filter(|name| !made.clone().any(|one| one == *name));
        let names = made.clone().map(|name| (name, true)).chain(reserved.map(|name| (name, false)));
        let free = names.filter_map(|(name, remove)| {
            let claim = self.by_name.get(name)?;
            let others = claim.reserved_for.iter().filter(|user| *user.uid != **pod);
            let finalizers = claim.finalizers.iter().filter(|one| *one != CLAIM_DELETE_PROTECTION);
            Some(FreeClaim {
                claim: name.clone(),
                uid: claim.uid.clone(),
                version: claim.version.clone(),
                finalizers: finalizers.cloned().collect(),
                reserved_for: others.cloned().collect(),
                remove,
            })
        });
        free.collect()
    }
}

impl Binder {
    /// What is to be done next for the claims of a pod; why it cannot have them.
    pub(super) fn claim_step(
        &self,
        request: &Request,
        pod: &PodFacts,
    ) -> Result<ClaimStep, String> {
        let Some(view) = &pod.view else { return Ok(ClaimStep::Done) };
        for claim in &view.spec.resource_claims {
            if view.needs_no_claim_object(claim) {
                continue;
            }
            let decided = request.spec.resource_claim_allocations.iter();
            let mut decided = decided.filter(|one| one.name.as_deref() == Some(&claim.name));
            let decided = decided.find_map(|one| one.allocation.as_ref());
            let Some(object) = view.claim_object(&claim.name) else {
                let reason = format!("claim {} of pod {} is not made yet", claim.name, request.pod);
                return Ok(ClaimStep::Await(None, reason));
            };
            let object = ObjectName::new(request.pod.namespace.clone(), object);
            match self.take_claim(request, pod, &object, decided)? {
                ClaimStep::Done => {}
                step => return Ok(step),
            }
        }
        self.extended_claim_step(request, pod, view)
    }

    fn take_claim(
        &self,
        request: &Request,
        pod: &PodFacts,
        name: &ObjectName,
        decided: Option<&AllocationResult>,
    ) -> Result<ClaimStep, String> {
        let Some(claim) = self.facts.claims.by_name.get(name) else {
            let reason = format!("claim {name} of pod {} not found", request.pod);
            return Ok(ClaimStep::Await(Some(Awaited::Claim(name.clone())), reason));
        };
        let mut allocation = None;
        match &claim.allocation {
            Some(given) if !self.facts.can_use(&request.node, &given.nodes) => {
                return Err(format!(
                    "claim {name} has devices that node <{}> cannot use",
                    request.node
                ));
            }
            Some(_) if claim.is_reserved_for(&pod.uid) => return Ok(ClaimStep::Done),
            Some(_) => {}
            None => {
                let decided = decided.ok_or_else(|| {
                    let (claim, pod) = (&name.name, &request.pod);
                    format!("empty status for claim {claim} in bind request for pod {pod}")
                })?;
                self.check_free(name, decided)?;
                allocation = Some(Box::new(decided.clone()));
            }
        }
        if claim.leaving {
            return Err(format!("claim {name} is being deleted"));
        }
        let user = ResourceClaimConsumerReference {
            api_group: None,
            name: request.pod.name.to_string(),
            resource: "pods".to_owned(),
            uid: pod.uid.to_string(),
        };
        let take = TakeClaim {
            claim: name.clone(),
            uid: claim.uid.clone(),
            version: claim.version.clone(),
            finalizers: claim.finalizers_with_ours().filter(|_| allocation.is_some()),
            allocation,
            reserved_for: claim.reserved_for.iter().cloned().chain([user]).collect(),
        };
        Ok(ClaimStep::Write(Box::new(BindStep::TakeClaim(take))))
    }

    /// No device is given away twice, whatever two schedulers decide.
    fn check_free(&self, name: &ObjectName, decided: &AllocationResult) -> Result<(), String> {
        for device in exclusive_devices(decided) {
            let mut holders = self.facts.claims.holders.of(&device);
            if let Some(holder) = holders.find(|holder| *holder != name) {
                let DeviceRef { driver, pool, device } = &device;
                return Err(format!("device {driver}/{pool}/{device} is that of claim {holder}"));
            }
        }
        Ok(())
    }

    fn extended_claim_step(
        &self,
        request: &Request,
        pod: &PodFacts,
        view: &view::Pod,
    ) -> Result<ClaimStep, String> {
        let Some(extended) = &request.spec.extended_resource_claim_allocation else {
            return Ok(ClaimStep::Done);
        };
        let mut made = self.facts.claims.made_for.of(&pod.uid);
        let Some(name) = made.next() else {
            let object = claim_for(request, &pod.uid, extended.device_requests.clone());
            return Ok(ClaimStep::Write(Box::new(BindStep::MakeClaim(Box::new(object)))));
        };
        match self.take_claim(request, pod, name, extended.allocation.as_ref())? {
            ClaimStep::Done => {}
            step => return Ok(step),
        }
        let named = view.status.extended_resource_claim_status.as_ref();
        if named.is_some_and(|named| named.resource_claim_name == *name.name) {
            return Ok(ClaimStep::Done);
        }
        let status = PodExtendedResourceClaimStatus {
            request_mappings: extended.container_mappings.iter().map(mapping).collect(),
            resource_claim_name: name.name.to_string(),
        };
        let uid = pod.uid.clone();
        Ok(ClaimStep::Write(Box::new(BindStep::NameClaim { uid, status })))
    }
}

fn mapping(mapping: &ContainerMapping) -> ContainerExtendedResourceRequest {
    let ContainerMapping { container_name, resource_name, request_name } = mapping.clone();
    ContainerExtendedResourceRequest { container_name, request_name, resource_name }
}

/// The claim that is made for extended resources of a pod.
fn claim_for(request: &Request, uid: &Text, requests: Vec<DeviceRequest>) -> ResourceClaim {
    let pod = &request.pod;
    let owner = OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..owned_by_pod(pod, uid)
    };
    let devices = DeviceClaim { requests: Some(requests), ..DeviceClaim::default() };
    ResourceClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}{EXTENDED_CLAIM_SUFFIX}", pod.name)),
            namespace: Some(pod.namespace.to_string()),
            annotations: Some([(EXTENDED_RESOURCE_CLAIM.to_owned(), "true".to_owned())].into()),
            finalizers: Some(vec![CLAIM_DELETE_PROTECTION.to_owned()]),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: ResourceClaimSpec { devices: Some(devices) },
        status: None,
    }
}
