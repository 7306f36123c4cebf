//! One attempt to carry a bind request out.
//!
//! Each stage asks one thing: is it done already, is it time to wait, or what is to be written. A failure undoes what was
//! done, and is reported last, so that its reader finds the pod as it was.

mod answers;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use kai_api::bind_request::BindRequestStatus;
use kai_api::names::{gpu, scheduling};
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::claims::ClaimStep;
use super::device::DeviceState;
use super::facts::{Awaited, Life, PodFacts};
use super::request::{Progress, Request, RequestId};
use super::volumes::{ReserveVolume, SelectNode, VolumeStep};
use super::writes::{BindStep, LabelChanges, Order, StatusUpdate, Undo};
use super::{Binder, DeviceKey, Item, PATIENCE, sharing};
use kai_settings::binder::BinderPlugin;

/// How long members that are ready wait for the rest of their gang.
const GANG_PATIENCE: Span = seconds(60);

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    id: u64,
    request: RequestId,
    pod: ObjectName,
    /// The pod that the latest write was for.
    pod_uid: Text,
    node: Text,
    devices: Vec<DeviceKey>,
    stage: Stage,
    begun: Timestamp,
    /// Since when it is ready but for its gang.
    prepared: Option<Timestamp>,
    /// A pod that is bound together with its own is bound.
    gang_has_begun: bool,
    /// When it came to its stage.
    entered: Timestamp,
    /// Claims for which it requested volumes.
    requested_volumes: BTreeSet<ObjectName>,
    /// Names of the config maps that it wrote.
    config_maps: Vec<String>,
    /// The claim that is being given devices.
    taking: Option<ObjectName>,
    /// A write is under way.
    busy: bool,
    /// The bind request is gone; the attempt ends with the write that is under way.
    orphan: bool,
    /// Why it is to fail as soon as the write that is under way ends.
    cancelled: Option<String>,
    /// How often the write of this stage failed.
    tries: u32,
    not_before: Option<Timestamp>,
}

/// What an attempt is at.
#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Reserve,
    Volumes,
    Claims,
    Label,
    Configure,
    Bind,
    /// It failed for this reason; what was done is undone.
    Undo(String),
    Report(Outcome),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Bound,
    Failed(String),
}

/// What is to be done next.
enum Move {
    Next(Stage),
    Write(Box<BindStep>),
    /// Something must change, or this moment come.
    Wait(Option<Timestamp>),
    /// This must change, or the moment come.
    Await(Awaited, Timestamp),
    /// It ended, and only this process knows of the request.
    EndLocal(Outcome),
    /// It is none of ours.
    Forget,
}

/// How far an attempt came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Advanced {
    /// It has something to write, now or when it gets a slot.
    Writes,
    /// It waits for something else.
    Waits,
    /// It is over, or none of ours.
    Forgotten,
}

impl Move {
    fn fail(reason: impl Into<String>) -> Self {
        Self::Next(Stage::Undo(reason.into()))
    }

    fn write(write: BindStep) -> Self {
        Self::Write(Box::new(write))
    }
}

impl Attempt {
    fn new(id: u64, request: &Request, now: Timestamp) -> Self {
        Self {
            id,
            request: request.id.clone(),
            pod: request.pod.clone(),
            pod_uid: request.pod_uid.clone().unwrap_or_default(),
            node: request.node.clone(),
            devices: request.devices().collect(),
            stage: Stage::Reserve,
            begun: now,
            prepared: None,
            gang_has_begun: false,
            entered: now,
            requested_volumes: BTreeSet::new(),
            config_maps: Vec::new(),
            taking: None,
            busy: false,
            orphan: false,
            cancelled: None,
            tries: 0,
            not_before: None,
        }
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_failing(&self) -> bool {
        matches!(self.stage, Stage::Undo(_) | Stage::Report(Outcome::Failed(_)))
    }

    /// It is ready but for its gang, or beyond that.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Bind | Stage::Report(Outcome::Bound))
    }

    /// Its pod is being bound, or is.
    pub(super) fn binds(&self) -> bool {
        match self.stage {
            Stage::Bind => self.busy,
            Stage::Report(Outcome::Bound) => true,
            _ => false,
        }
    }

    /// A pod that is bound together with its own is bound: the gang is not reverted any more.
    pub(super) fn mark_gang_begun(&mut self) {
        self.gang_has_begun = true;
    }

    /// It fails for this reason, as soon as the write that is under way ends.
    pub(super) fn cancel(&mut self, reason: &str) {
        if self.busy {
            self.cancelled = Some(reason.to_owned());
        } else {
            self.enter(Stage::Undo(reason.to_owned()));
        }
    }

    /// A write for the pod is under way.
    pub(super) fn is_writing(&self, pod: &ObjectName) -> bool {
        self.busy && self.pod == *pod
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceKey> {
        self.devices.iter().cloned()
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.tries = 0;
        self.not_before = None;
    }
}

impl Binder {
    /// Does the request need its devices now?
    pub(super) fn holds_devices(&self, request: &ObjectName) -> bool {
        let attempt = self.attempts.get(request);
        if attempt.is_some_and(Attempt::is_failing) {
            return false;
        }
        let request = self.facts.request(request);
        request.is_some_and(|request| {
            self.facts.needs_devices(request) && self.sharing_problem(request).is_none()
        })
    }

    /// Why the pod cannot be given its devices, whatever is reserved: its request contradicts itself, or its containers
    /// refer to no config map.
    fn sharing_problem(&self, request: &Request) -> Option<String> {
        let pod = self.facts.subject(request).filter(|pod| pod.node.is_none())?;
        let view = pod.view.as_ref()?;
        let refers = request.is_fraction() && self.settings.plugins.has(BinderPlugin::GpuSharing);
        sharing::request_problem(view).or_else(|| refers.then(|| sharing::problem(view)).flatten())
    }

    /// Is a write under way for a request that is gone, and needs the device?
    pub(super) fn is_held_by_orphan(&self, device: &DeviceKey) -> bool {
        let orphans = self.attempts.values().filter(|attempt| attempt.orphan);
        orphans.flat_map(|attempt| &attempt.devices).any(|used| used == device)
    }

    pub(super) fn look_at_request(&mut self, name: &ObjectName, now: Timestamp) {
        let request = self.facts.request(name).filter(|request| !request.leaving).cloned();
        if let Some(attempt) = self.attempts.get_mut(name)
            && attempt.busy
        {
            attempt.orphan = request.is_none_or(|request| request.id != attempt.request);
            return;
        }
        let known = self.attempts.remove(name);
        let Some(request) = request.filter(|request| request.progress() == Progress::Open) else {
            self.ended(known.as_ref());
            return;
        };
        let mut attempt = match known {
            Some(attempt) if attempt.request == request.id => attempt,
            earlier => {
                self.release_slot(earlier.as_ref());
                self.attempts_begun += 1;
                Attempt::new(self.attempts_begun, &request, now)
            }
        };
        let advanced = self.advance(name, &request, &mut attempt, now);
        if advanced != Advanced::Writes {
            self.release_slot(Some(&attempt));
        }
        if advanced != Advanced::Forgotten {
            self.attempts.insert(name.clone(), attempt);
        }
    }

    /// The attempt is over: its devices and its pod are looked at by themselves.
    fn ended(&mut self, attempt: Option<&Attempt>) {
        self.release_slot(attempt);
        let Some(attempt) = attempt else { return };
        self.due.extend(attempt.devices().map(Item::Device));
        self.due.insert(Item::Pod(attempt.pod.clone()));
    }

    /// The attempt has nothing to write for now: the next one may.
    fn release_slot(&mut self, attempt: Option<&Attempt>) {
        let next = attempt.and_then(|attempt| self.slots.release(attempt.id));
        self.due.extend(next.map(Item::Request));
    }

    /// Goes on as far as it can without waiting.
    fn advance(
        &mut self,
        name: &ObjectName,
        request: &Request,
        attempt: &mut Attempt,
        now: Timestamp,
    ) -> Advanced {
        if let Some(moment) = attempt.not_before.filter(|moment| *moment > now) {
            self.look_again_at(moment, Item::Request(name.clone()));
            return Advanced::Waits;
        }
        loop {
            match self.next_move(request, attempt, now) {
                Move::Next(stage) => self.enter(request, attempt, stage, now),
                Move::Write(write) => {
                    if self.slots.acquire(attempt.id, name) {
                        self.order_write(name, request, attempt, *write);
                    }
                    return Advanced::Writes;
                }
                Move::Wait(moment) => {
                    if let Some(moment) = moment {
                        self.look_again_at(moment, Item::Request(name.clone()));
                    }
                    return Advanced::Waits;
                }
                Move::Await(what, until) => {
                    self.facts.await_object(&what, name);
                    self.look_again_at(until, Item::Request(name.clone()));
                    return Advanced::Waits;
                }
                Move::EndLocal(outcome) => {
                    self.end_local(name, request, &outcome);
                    return Advanced::Forgotten;
                }
                Move::Forget => return Advanced::Forgotten,
            }
        }
    }

    fn order_write(
        &mut self,
        name: &ObjectName,
        request: &Request,
        attempt: &mut Attempt,
        write: BindStep,
    ) {
        attempt.busy = true;
        if let Some(pod) = self.facts.pod(&request.pod) {
            attempt.pod_uid = pod.uid.clone();
        }
        self.record_write(attempt, &write);
        let (request, pod) = (name.clone(), request.pod.clone());
        self.orders.push(Order::Write { request, attempt: attempt.id, pod, write });
    }

    /// Remembers what a write that is about to be sent will have done.
    fn record_write(&mut self, attempt: &mut Attempt, write: &BindStep) {
        match write {
            BindStep::TakeClaim(take) => {
                attempt.taking = Some(take.claim.clone());
                self.facts.claims.begin_to_give(take);
            }
            BindStep::SelectNode(SelectNode { claim, .. })
            | BindStep::ReserveVolume(ReserveVolume { claim, .. }) => {
                attempt.requested_volumes.insert(claim.clone());
            }
            BindStep::Configure { maps, .. } => {
                attempt.config_maps = maps.iter().map(|map| map.name.clone()).collect();
            }
            _ => {}
        }
    }

    fn enter(&mut self, request: &Request, attempt: &mut Attempt, stage: Stage, now: Timestamp) {
        attempt.enter(stage);
        attempt.entered = now;
        match &attempt.stage {
            Stage::Bind => {
                attempt.prepared = Some(now);
                self.look_at_companions(request);
            }
            Stage::Undo(reason) => {
                tracing::warn!(pod = %request.pod, node = %request.node, reason, "a bind failed");
                self.due.extend(attempt.devices().map(Item::Device));
                let reason = format!("pod {} of its group failed to bind: {reason}", request.pod);
                if !attempt.gang_has_begun {
                    self.cancel_companions(request, &reason);
                }
            }
            Stage::Report(Outcome::Bound) => self.mark_gang_begun(request),
            Stage::Reserve
            | Stage::Volumes
            | Stage::Claims
            | Stage::Label
            | Stage::Configure
            | Stage::Report(Outcome::Failed(_)) => {}
        }
    }

    fn next_move(&self, request: &Request, attempt: &Attempt, now: Timestamp) -> Move {
        match &attempt.stage {
            // What was taken for a failure was none.
            Stage::Undo(_) if self.is_bound_as_requested(request) => {
                Move::Next(Stage::Report(Outcome::Bound))
            }
            Stage::Undo(reason) => match self.undo(request, attempt) {
                Some(undo) => Move::write(BindStep::Undo(undo)),
                None => Move::Next(Stage::Report(Outcome::Failed(reason.clone()))),
            },
            Stage::Report(outcome) => report(request, outcome),
            stage => match self.subject(request, attempt, now) {
                Ok(pod) => self.prepare(stage, request, attempt, pod, now),
                Err(other) => other,
            },
        }
    }

    /// The pod that is to be bound; or what is to be done without one.
    fn subject<'a>(
        &'a self,
        request: &Request,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<&'a PodFacts, Move> {
        let late = attempt.begun.plus(PATIENCE);
        let missing = |what: String| {
            if now < late { Move::Wait(Some(late)) } else { Move::fail(what) }
        };
        let Some(pod) = self.facts.pod(&request.pod) else {
            return Err(missing(format!("pod <{}> not found", request.pod)));
        };
        if !pod.is_ours {
            return Err(Move::Forget);
        }
        if request.pod_uid.as_ref().is_some_and(|uid| *uid != pod.uid) {
            // It was made for an earlier pod of the name. The scheduler of this process withdraws its own.
            return Err(match &request.id {
                RequestId::Object(uid) => Move::write(BindStep::Drop { uid: uid.clone() }),
                RequestId::Local(_) => Move::Forget,
            });
        }
        if self.is_being_repaired(&request.pod) {
            return Err(Move::Wait(None));
        }
        match &pod.node {
            Some(node) if *node == request.node => {
                return Err(Move::Next(Stage::Report(Outcome::Bound)));
            }
            Some(node) => {
                let reason = format!("pod <{}> is bound to node <{node}>", request.pod);
                return Err(Move::Next(Stage::Report(Outcome::Failed(reason))));
            }
            None => {}
        }
        if pod.life != Life::Alive {
            return Err(Move::fail(format!("pod <{}> is being deleted", request.pod)));
        }
        if self.facts.node(&request.node).is_none() {
            return Err(missing(format!("node <{}> not found", request.node)));
        }
        Ok(pod)
    }

    fn prepare(
        &self,
        stage: &Stage,
        request: &Request,
        attempt: &Attempt,
        pod: &PodFacts,
        now: Timestamp,
    ) -> Move {
        let plugins = &self.settings.plugins;
        match stage {
            Stage::Reserve => match self.sharing_problem(request) {
                Some(reason) => Move::fail(reason),
                None if !request.is_fraction() => Move::Next(Stage::Volumes),
                None => self.await_devices(request),
            },
            Stage::Volumes if !plugins.has(BinderPlugin::VolumeBinding) => {
                Move::Next(Stage::Claims)
            }
            Stage::Volumes => self.bind_volumes(request, attempt, pod, now),
            Stage::Claims if !plugins.has(BinderPlugin::DynamicResources) => {
                Move::Next(after_claims(request))
            }
            Stage::Claims => self.take_claims(request, attempt, pod, now),
            Stage::Label => match self.labels_before_bind(request, pod) {
                Some(labels) => Move::write(BindStep::Label { uid: pod.uid.clone(), labels }),
                None => Move::Next(Stage::Configure),
            },
            Stage::Configure if !plugins.has(BinderPlugin::GpuSharing) => Move::Next(Stage::Bind),
            Stage::Configure => match self.config_maps(request, pod) {
                Ok(Some(maps)) if maps.is_empty() => Move::Next(Stage::Bind),
                Ok(Some(maps)) => Move::write(BindStep::Configure { uid: pod.uid.clone(), maps }),
                Ok(None) => Move::Next(Stage::Reserve), // a reservation was lost
                Err(reason) => Move::fail(reason),
            },
            Stage::Bind => self.bind(request, attempt, pod, now),
            Stage::Undo(_) | Stage::Report(_) => Move::Wait(None), // these need no pod
        }
    }

    fn await_devices(&self, request: &Request) -> Move {
        match self.reserved_devices(request) {
            Ok(Some(_)) => Move::Next(Stage::Volumes),
            Ok(None) => Move::Wait(None),
            Err(reason) => Move::fail(reason),
        }
    }

    fn bind_volumes(
        &self,
        request: &Request,
        attempt: &Attempt,
        pod: &PodFacts,
        now: Timestamp,
    ) -> Move {
        let fail = |reason: String| Move::fail(failed_in(BinderPlugin::VolumeBinding, &reason));
        let was_requested = |claim: &ObjectName| attempt.requested_volumes.contains(claim);
        match self.volume_step(request, pod, was_requested) {
            Ok(VolumeStep::Done) => Move::Next(Stage::Claims),
            Ok(VolumeStep::Write(write)) => Move::Write(write),
            Ok(VolumeStep::Await(what)) => {
                let late = attempt.entered.plus(self.settings.volumes_wait);
                if now < late {
                    return Move::Await(what, late);
                }
                fail("binding volumes: timed out waiting for the condition".to_owned())
            }
            Ok(VolumeStep::Missing(what, reason)) => {
                let late = attempt.entered.plus(PATIENCE);
                if now < late { Move::Await(what, late) } else { fail(reason) }
            }
            Err(reason) => fail(reason),
        }
    }

    fn take_claims(
        &self,
        request: &Request,
        attempt: &Attempt,
        pod: &PodFacts,
        now: Timestamp,
    ) -> Move {
        let fail = |reason: String| Move::fail(failed_in(BinderPlugin::DynamicResources, &reason));
        match self.claim_step(request, pod) {
            Ok(ClaimStep::Done) => Move::Next(after_claims(request)),
            Ok(ClaimStep::Write(write)) => Move::Write(write),
            Ok(ClaimStep::Await(what, reason)) => {
                let late = attempt.entered.plus(PATIENCE);
                match what {
                    _ if now >= late => fail(reason),
                    Some(what) => Move::Await(what, late),
                    None => Move::Wait(Some(late)),
                }
            }
            Err(reason) => fail(reason),
        }
    }

    fn is_bound_as_requested(&self, request: &Request) -> bool {
        let pod = self.facts.subject(request);
        pod.is_some_and(|pod| pod.node.as_ref() == Some(&request.node))
    }

    /// The devices of the request, in its order; none: some are not known yet.
    fn reserved_devices(&self, request: &Request) -> Result<Option<Vec<(Text, Text)>>, String> {
        if request.spec.gpu_groups().is_empty() {
            return Err("no SelectedGPUGroups for fractional pod: invalid binding request".into());
        }
        let mut devices = Vec::new();
        let mut complete = true;
        for key in request.devices() {
            match self.device_state(&key) {
                DeviceState::Kept(device) => devices.push((key.group, device)),
                DeviceState::Awaited => complete = false,
                DeviceState::Failed(reason) => {
                    return Err(format!(
                        "failed to reserve GPUs for pod <{}> in gpu group <{}>: {reason}",
                        request.pod, key.group
                    ));
                }
            }
        }
        Ok(complete.then_some(devices))
    }

    fn config_maps(
        &self,
        request: &Request,
        pod: &PodFacts,
    ) -> Result<Option<Vec<sharing::ConfigMap>>, String> {
        let Some(devices) = self.reserved_devices(request)? else { return Ok(None) };
        let Some(view) = &pod.view else { return Ok(None) };
        let devices: Vec<&str> = devices.iter().map(|(_, device)| &**device).collect();
        let portion = request.spec.received_gpu.as_ref().and_then(|gpu| gpu.portion.as_deref());
        let granted = sharing::GrantedDevices {
            devices: &devices,
            portion: portion.unwrap_or_default(),
            cdi: self.facts.node(&request.node).is_some_and(|node| self.uses_cdi(node)),
            limit_mib: self
                .memory_limit(request, pod)
                .map_err(|why| failed_in(BinderPlugin::HamiCore, &why))?,
        };
        sharing::config_maps(view, &granted).map(Some)
    }

    fn bind(&self, request: &Request, attempt: &Attempt, pod: &PodFacts, now: Timestamp) -> Move {
        let prepared = self.ready_members(request, pod);
        if prepared < request.members_needed {
            let patience = self.settings.volumes_wait.max(GANG_PATIENCE);
            let late = attempt.prepared.unwrap_or(now).plus(patience);
            if now < late {
                return Move::Wait(Some(late));
            }
            let needed = request.members_needed;
            if self.open_members(request, pod) >= needed {
                // Each of the others either gets ready or fails and cancels this one.
                return Move::Wait(Some(now.plus(patience)));
            }
            return Move::fail(format!("only {prepared} of {needed} pods of its group are ready"));
        }
        let mut annotations: BTreeMap<Cow<'static, str>, String> =
            BTreeMap::from([(gpu::RECEIVED_RESOURCE_TYPE.into(), request.received().to_owned())]);
        let zones = &request.spec.predicted_numa_zones;
        if !zones.is_empty()
            && let Ok(text) = serde_json::to_string(zones)
        {
            annotations.insert(scheduling::NUMA_PREDICTED.into(), text);
        }
        if request.is_fraction() {
            match self.reserved_devices(request) {
                Ok(Some(devices)) => {
                    if let Some(reason) = self.lacks_capacity(request, pod, &devices) {
                        return Move::fail(reason);
                    }
                    let pairs: Vec<String> =
                        devices.iter().map(|(group, device)| format!("{group}={device}")).collect();
                    annotations.insert(gpu::DEVICES.into(), pairs.join(","));
                    annotations.extend(self.limit_annotations(request, pod, &devices));
                }
                Ok(None) => return Move::Next(Stage::Reserve), // a reservation was lost
                Err(reason) => return Move::fail(reason),
            }
        }
        let labels = if request.is_fraction() { request.group_labels() } else { Vec::new() };
        if let Some(view) = &pod.view {
            let signer = &self.settings.signer;
            let placement = signer.sign(&view.metadata, &request.node, &labels, &annotations);
            annotations.extend(placement.map(|text| (scheduling::PLACEMENT.into(), text)));
        }
        Move::write(BindStep::Bind {
            uid: pod.uid.clone(),
            node: request.node.clone(),
            labels: labels.into_iter().collect(),
            annotations,
        })
    }

    /// Labels that the pod has to get or lose before it is bound. Where placements are signed, the bind itself says which devices
    /// the pod has: the bind sets its labels, or `repair` does after it. The scheduler that wrote a `BindRequest` object may be KAI's,
    /// which counts by labels: it must never observe a bound pod without them.
    fn labels_before_bind(&self, request: &Request, pod: &PodFacts) -> Option<LabelChanges> {
        let counts_by_placement = request.is_local() && self.settings.signer.key.is_some();
        let is_set_by_bind =
            |labels: &LabelChanges| counts_by_placement && labels.values().all(Option::is_some);
        labels(request, pod).filter(|labels| !is_set_by_bind(labels))
    }

    /// What has to be undone before the pod is as it was.
    fn undo(&self, request: &Request, attempt: &Attempt) -> Option<Undo> {
        let pod = self.facts.subject(request)?;
        self.undo_of(pod, self.volumes_to_free(request, pod), &attempt.config_maps)
    }
}

/// Only pods that share devices are labelled and given config maps.
fn after_claims(request: &Request) -> Stage {
    if request.is_fraction() { Stage::Label } else { Stage::Bind }
}

/// A failure in KAI's words.
fn failed_in(plugin: BinderPlugin, reason: &str) -> String {
    format!("plugin {} failed in PreBind: {reason}", plugin.name())
}

/// Labels that the pod has to get or lose; none: it is labelled as it should be.
fn labels(request: &Request, pod: &PodFacts) -> Option<LabelChanges> {
    let wanted = request.group_labels();
    let has = |key: &str| pod.view.as_ref().and_then(|view| view.metadata.labels.get(key));
    let own = pod.view.iter().flat_map(|view| view.metadata.labels.keys());
    let stale = own.filter(|key| sharing::is_group_label(key));
    let stale = stale.filter(|key| !wanted.iter().any(|(other, _)| other == *key));
    let missing = wanted.iter().filter(|(key, value)| has(key) != Some(value));
    let labels: LabelChanges = stale
        .map(|key| (key.clone(), None))
        .chain(missing.map(|(key, value)| (key.clone(), Some(value.clone()))))
        .collect();
    (!labels.is_empty()).then_some(labels)
}

/// How it ended goes into the status of the request, where the request is an object.
fn report(request: &Request, outcome: &Outcome) -> Move {
    match &request.id {
        RequestId::Object(uid) => Move::write(status_update(request, uid, outcome)),
        RequestId::Local(_) => Move::EndLocal(outcome.clone()),
    }
}

fn status_update(request: &Request, uid: &Text, outcome: &Outcome) -> BindStep {
    let update = match outcome {
        Outcome::Bound => StatusUpdate {
            uid: uid.clone(),
            phase: BindRequestStatus::SUCCEEDED,
            reason: None,
            failed_attempts: request.failed_attempts,
        },
        Outcome::Failed(reason) => StatusUpdate {
            uid: uid.clone(),
            phase: BindRequestStatus::FAILED,
            reason: Some(reason.clone()),
            failed_attempts: request.failed_attempts + 1,
        },
    };
    BindStep::WriteStatus(update)
}
