//! Volumes of a pod: claims that waited for its node get a volume that is there, or the node is written on them so that one
//! is made; then they are waited for.

use std::collections::BTreeMap;

use kai_api::names::storage as names;
use kai_core::input::storage::{StorageClassSpec, VolumeClaimSpec, VolumeSpec};
use kai_core::input::{ObjectName, Text};
use kai_translate::storage;
use kai_translate::view::{PersistentVolume, PersistentVolumeClaim};

use super::Binder;
use super::facts::{Awaited, PodFacts, is_older};
use super::request::Request;
use super::writes::BindStep;

/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[derive(Clone, Debug, PartialEq)]
struct VolumeClaim {
    uid: Text,
    version: String,
    spec: VolumeClaimSpec,
    /// It and its volume know of each other.
    is_bound: bool,
    /// Its volume is gone.
    is_lost: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Volume {
    uid: Text,
    version: String,
    spec: VolumeSpec,
    /// UID of the claim it is reserved for.
    claim_uid: Option<Text>,
    /// It was reserved by a controller, not by its author.
    by_controller: bool,
}

/// Everything known of volumes.
#[derive(Default)]
pub(super) struct Volumes {
    claims: BTreeMap<ObjectName, VolumeClaim>,
    by_name: BTreeMap<Text, Volume>,
    classes: BTreeMap<Text, StorageClassSpec>,
}

/// A volume that is reserved for a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReserveVolume {
    pub(super) volume: Text,
    pub(super) uid: Text,
    pub(super) version: String,
    pub(super) claim: ObjectName,
    pub(super) claim_uid: Text,
}

/// A claim for which a volume is to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SelectNode {
    pub(super) claim: ObjectName,
    pub(super) uid: Text,
    pub(super) version: String,
    /// The selected node; none once the selection is revoked.
    pub(super) node: Option<Text>,
}

/// What was done for a claim that has no volume yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FreeVolume {
    /// The volume is anybody's again.
    Release { volume: Text, uid: Text, version: String },
    /// No volume is to be made.
    Unselect(SelectNode),
}

/// What is to be done for the volumes of a pod.
pub(super) enum VolumeStep {
    Write(Box<BindStep>),
    /// A claim has to change, and is waited for from now on.
    Await(Awaited),
    /// A claim is not there yet; why it fails if it never comes.
    Missing(Awaited, String),
    Done,
}

impl Volumes {
    /// Takes a claim over as it is now, gone where it is none.
    pub(super) fn set_claim(&mut self, name: &ObjectName, object: Option<&PersistentVolumeClaim>) {
        let Some(object) = object else {
            self.claims.remove(name);
            return;
        };
        let Some(spec) = storage::claim(object).object else { return };
        let metadata = &object.metadata;
        let new = VolumeClaim {
            uid: metadata.uid.as_str().into(),
            version: metadata.resource_version.clone(),
            is_bound: spec.volume.is_some()
                && metadata.annotations.contains_key(names::BIND_COMPLETED),
            is_lost: object.status.phase.as_deref() == Some("Lost"),
            spec,
        };
        let known = self.claims.get(name).map(|known| (&known.uid, &known.version));
        if !is_old(known, &new.uid, &new.version) {
            self.claims.insert(name.clone(), new);
        }
    }

    /// Takes a volume over as it is now, gone where it is none; gives the claim that is concerned.
    pub(super) fn set_volume(
        &mut self,
        name: &Text,
        object: Option<&PersistentVolume>,
    ) -> Option<ObjectName> {
        let Some(object) = object else {
            return self.by_name.remove(name)?.spec.claim;
        };
        let spec = storage::volume(object).object?;
        let claim = spec.claim.clone();
        let metadata = &object.metadata;
        let reserved = object.spec.claim_ref.as_ref();
        let new = Volume {
            uid: metadata.uid.as_str().into(),
            version: metadata.resource_version.clone(),
            claim_uid: reserved.and_then(|claim| claim.uid.as_deref()).map(Text::from),
            by_controller: metadata.annotations.contains_key(names::BOUND_BY_CONTROLLER),
            spec,
        };
        let known = self.by_name.get(name).map(|known| (&known.uid, &known.version));
        if is_old(known, &new.uid, &new.version) {
            return None;
        }
        let old = self.by_name.insert(name.clone(), new);
        claim.or_else(|| old?.spec.claim)
    }

    /// Takes a class over as it is now, gone where it is none.
    pub(super) fn set_class(&mut self, name: &Text, spec: Option<StorageClassSpec>) {
        match spec {
            Some(spec) => self.classes.insert(name.clone(), spec),
            None => self.classes.remove(name),
        };
    }

    /// The volume that is reserved for a claim, and not for an earlier one of its name.
    fn reserved_for(&self, claim: &VolumeClaim) -> Option<&Volume> {
        self.by_name.values().find(|volume| {
            volume.spec.claim.as_ref() == Some(&claim.spec.name)
                && volume.claim_uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }
}

/// Another state of the same object that is older than the known one is not news.
fn is_old(known: Option<(&Text, &String)>, uid: &Text, version: &str) -> bool {
    known.is_some_and(|(known_uid, known)| known_uid == uid && is_older(version, known))
}

impl Binder {
    /// What is to be done next for the volumes of a pod; why it cannot have them.
    pub(super) fn volume_step(
        &self,
        request: &Request,
        pod: &PodFacts,
        was_requested: impl Fn(&ObjectName) -> bool,
    ) -> Result<VolumeStep, String> {
        let Some(view) = &pod.view else { return Ok(VolumeStep::Done) };
        let mut awaited = None;
        for name in kai_translate::pod::volume_claims(view) {
            let name = ObjectName { namespace: request.pod.namespace.clone(), name };
            match self.claim_volume(request, &name, was_requested(&name))? {
                VolumeStep::Done => {}
                VolumeStep::Await(what) => awaited = awaited.or(Some(what)),
                step @ (VolumeStep::Write(_) | VolumeStep::Missing(..)) => return Ok(step),
            }
        }
        Ok(awaited.map_or(VolumeStep::Done, VolumeStep::Await))
    }

    fn claim_volume(
        &self,
        request: &Request,
        name: &ObjectName,
        was_requested: bool,
    ) -> Result<VolumeStep, String> {
        let (store, node) = (&self.facts.volumes, &request.node);
        let (short, awaited) = (&name.name, Awaited::VolumeClaim(name.clone()));
        let Some(claim) = store.claims.get(name) else {
            let reason = format!("persistentvolumeclaim \"{short}\" not found");
            return Ok(VolumeStep::Missing(awaited, reason));
        };
        if claim.spec.deleting {
            return Err(format!("persistentvolumeclaim \"{short}\" is being deleted"));
        }
        if let Some(volume) = &claim.spec.volume {
            if claim.is_lost {
                return Err(format!(
                    "persistentvolumeclaim \"{short}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            let known = store.by_name.get(volume).filter(|_| claim.is_bound);
            return match known {
                None => Ok(VolumeStep::Await(awaited)),
                Some(volume) if self.facts.can_use(node, &volume.spec.nodes) => {
                    Ok(VolumeStep::Done)
                }
                Some(_) => Err("node(s) had volume node affinity conflict".to_owned()),
            };
        }
        let class = claim.spec.class.as_ref().and_then(|class| store.classes.get(class));
        let Some(class) = class.filter(|class| class.waits_for_consumer) else {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        };
        match &claim.spec.selected_node {
            Some(selected) if selected == node => return Ok(VolumeStep::Await(awaited)),
            Some(selected) => {
                return Err(format!(
                    "selectedNode annotation value \"{selected}\" not set to scheduled node \"{node}\""
                ));
            }
            None => {}
        }
        if store.reserved_for(claim).is_some() {
            return Ok(VolumeStep::Await(awaited));
        }
        if was_requested {
            return Err(format!("provisioning failed for PVC \"{short}\""));
        }
        self.ask_for_volume(request, name, claim, class)
    }

    /// The smallest volume that is there and suits, or the word that one is to be made.
    fn ask_for_volume(
        &self,
        request: &Request,
        name: &ObjectName,
        claim: &VolumeClaim,
        class: &StorageClassSpec,
    ) -> Result<VolumeStep, String> {
        let node = &request.node;
        let found = self.facts.volumes.by_name.values();
        let found = found.filter(|volume| volume.spec.suits(&claim.spec));
        let found = found.filter(|volume| self.facts.can_use(node, &volume.spec.nodes));
        let found =
            found.min_by(|left, right| left.spec.preference().cmp(&right.spec.preference()));
        let write = if let Some(volume) = found {
            BindStep::ReserveVolume(ReserveVolume {
                volume: volume.spec.name.clone(),
                uid: volume.uid.clone(),
                version: volume.version.clone(),
                claim: name.clone(),
                claim_uid: claim.uid.clone(),
            })
        } else {
            let can_be_made = !class.provisioner.is_empty()
                && &*class.provisioner != NO_PROVISIONER
                && self.facts.can_use(node, &class.allowed_nodes);
            if !can_be_made {
                return Err("node(s) didn't find available persistent volumes to bind".to_owned());
            }
            BindStep::SelectNode(SelectNode {
                claim: name.clone(),
                uid: claim.uid.clone(),
                version: claim.version.clone(),
                node: Some(node.clone()),
            })
        };
        Ok(VolumeStep::Write(Box::new(write)))
    }

    /// What was done for claims of a pod that have no volume yet, and that no other bind to the node waits for.
    pub(super) fn volumes_to_free(&self, request: &Request, pod: &PodFacts) -> Vec<FreeVolume> {
        let Some(view) = &pod.view else { return Vec::new() };
        let names = kai_translate::pod::volume_claims(view).into_iter();
        let names = names.map(|name| ObjectName { namespace: request.pod.namespace.clone(), name });
        names.filter_map(|name| self.volume_to_free(request, &name)).collect()
    }

    fn volume_to_free(&self, request: &Request, name: &ObjectName) -> Option<FreeVolume> {
        let store = &self.facts.volumes;
        let claim = store.claims.get(name).filter(|claim| claim.spec.volume.is_none())?;
        if self.is_awaited_by_another(request, name) {
            return None;
        }
        if claim.spec.selected_node.as_ref() == Some(&request.node) {
            return Some(FreeVolume::Unselect(SelectNode {
                claim: name.clone(),
                uid: claim.uid.clone(),
                version: claim.version.clone(),
                node: None,
            }));
        }
        let volume = store.reserved_for(claim)?;
        let is_ours = volume.by_controller && volume.claim_uid.as_ref() == Some(&claim.uid);
        is_ours.then(|| FreeVolume::Release {
            volume: volume.spec.name.clone(),
            uid: volume.uid.clone(),
            version: volume.version.clone(),
        })
    }

    fn is_awaited_by_another(&self, request: &Request, claim: &ObjectName) -> bool {
        self.facts.requests_of_node(&request.node).any(|other| {
            let other = self.facts.request(other).filter(|other| other.id != request.id);
            let pod = other.and_then(|other| self.facts.subject(other));
            let view = pod.and_then(|pod| pod.view.as_ref());
            view.is_some_and(|view| {
                view.metadata.namespace == *claim.namespace
                    && kai_translate::pod::volume_claims(view).contains(&claim.name)
            })
        })
    }
}
