//! Pods that were observed: those that share devices, and scaling pods.

use std::collections::BTreeMap;

use kai_api::gpu_request::GpuAnnotations;
use kai_api::names::objects;
use kai_client::kinds::Kind;
use kai_client::watch::Change;
use kai_core::fairness::text::is_about_capacity;
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;
use kai_translate::pod::{self as pods, PodRules};
use kai_translate::{time, view};

use super::ScaleAdjusterSettings;
use super::need::{self, Class};
use super::scaling_pod::{self, Blueprint, ScalingPod};

/// Sharing pods and scaling pods, as the watch shows them.
pub(super) struct Facts {
    settings: ScaleAdjusterSettings,
    rules: PodRules,
    listed: bool,
    /// Pods that share devices, of whichever scheduler.
    sharing: BTreeMap<ObjectName, SharingPod>,
    scaling: BTreeMap<ObjectName, ScalingPod>,
    changed: bool,
    /// Scaling pods that ended before the watch showed that they were deleted.
    vanished: Vec<ObjectName>,
}

/// A pod that shares devices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SharingPod {
    pub(super) scheduling: Scheduling,
    /// What it wants; none where it is not ours, has a node, or cannot be understood.
    pub(super) need: Option<ScalingNeed>,
}

/// What is said about the scheduling of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduling {
    /// No condition shows whether it fits.
    Unsaid,
    /// There is no place for it, since this moment.
    Unschedulable(Timestamp),
    /// It has a place, or something else is the matter.
    Otherwise,
}

/// What a pod without a node wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScalingNeed {
    pub(super) class: Class,
    /// Hundredths of devices in all.
    pub(super) parts: i64,
    pub(super) blueprint: Blueprint,
}

impl Scheduling {
    fn of(pod: &view::Pod) -> Self {
        if pod.spec.node_name.as_ref().is_some_and(|node| !node.is_empty()) {
            return Self::Otherwise;
        }
        let mut conditions = pod.status.conditions.iter();
        match conditions.find(|condition| condition.type_ == "PodScheduled") {
            None => Self::Unsaid,
            // More nodes do not raise the limit of a queue.
            Some(condition) if is_about_capacity(&condition.message) => Self::Otherwise,
            Some(condition)
                if condition.status == "False" && condition.reason == "Unschedulable" =>
            {
                let since = condition.last_transition_time.as_ref();
                let since = since.or(pod.metadata.creation_timestamp.as_ref());
                let since = since.and_then(|text| time::parse(text).ok());
                Self::Unschedulable(since.unwrap_or(Timestamp { nanos: 0 }))
            }
            Some(_) => Self::Otherwise,
        }
    }
}

impl Facts {
    pub(super) fn new(settings: &ScaleAdjusterSettings) -> Self {
        let scheduler_name = settings.scheduler_name.clone();
        Self {
            settings: settings.clone(),
            rules: PodRules { scheduler_name, ..PodRules::default() },
            listed: false,
            sharing: BTreeMap::new(),
            scaling: BTreeMap::new(),
            changed: false,
            vanished: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Pod(pod) => self.set(pod),
            Change::Gone(Kind::Pod, name) => self.remove(name),
            Change::Listed(Kind::Pod) => {
                self.listed = true;
                self.changed = true;
            }
            _ => {}
        }
    }

    /// Everything that existed at first was received.
    pub(super) fn is_complete(&self) -> bool {
        self.listed
    }

    /// Something changed since the latest call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Scaling pods that ended without being deleted by us since the latest call.
    pub(super) fn take_vanished(&mut self) -> Vec<ObjectName> {
        std::mem::take(&mut self.vanished)
    }

    pub(super) fn sharing(&self, name: &ObjectName) -> Option<&SharingPod> {
        self.sharing.get(name)
    }

    /// Pods of ours that share devices and find none, with what they want and since when.
    pub(super) fn unschedulable(
        &self,
    ) -> impl Iterator<Item = (&ObjectName, &ScalingNeed, Timestamp)> {
        self.sharing.iter().filter_map(|(name, pod)| match pod.scheduling {
            Scheduling::Unschedulable(since) => Some((name, pod.need.as_ref()?, since)),
            Scheduling::Unsaid | Scheduling::Otherwise => None,
        })
    }

    pub(super) fn scaling(&self) -> impl Iterator<Item = (&ObjectName, &ScalingPod)> {
        self.scaling.iter()
    }

    pub(super) fn scaling_pod(&self, name: &ObjectName) -> Option<&ScalingPod> {
        self.scaling.get(name)
    }

    /// Why a scaling pod is of no use any more; none: it is.
    pub(super) fn why_useless(&self, pod: &ScalingPod) -> Option<&'static str> {
        if pod.ended {
            return Some("it ran");
        }
        match self.sharing.get(&pod.origin).map(|origin| origin.scheduling) {
            None => Some("the pod it stands for is gone"),
            Some(Scheduling::Otherwise) => Some("the pod it stands for is not unschedulable"),
            Some(Scheduling::Unsaid | Scheduling::Unschedulable(_)) => None,
        }
    }

    fn set(&mut self, pod: &view::Pod) {
        let name = pods::name(pod);
        if self.is_scaling(pod) {
            let new = ScalingPod::read(pod);
            if self.scaling.get(&name) != Some(&new) {
                self.scaling.insert(name, new);
                self.changed = true;
            }
            return;
        }
        let shares = GpuAnnotations::of(&pod.metadata.annotations).request_share();
        if !shares || scaling_pod::has_ended(pod) {
            self.changed |= self.sharing.remove(&name).is_some();
            return;
        }
        let new = SharingPod { scheduling: Scheduling::of(pod), need: self.need(pod) };
        if self.sharing.get(&name) != Some(&new) {
            self.sharing.insert(name, new);
            self.changed = true;
        }
    }

    fn remove(&mut self, name: &ObjectName) {
        self.changed |= self.sharing.remove(name).is_some();
        if let Some(gone) = self.scaling.remove(name) {
            self.changed = true;
            if !gone.leaving {
                self.vanished.push(name.clone());
            }
        }
    }

    fn is_scaling(&self, pod: &view::Pod) -> bool {
        pod.metadata.namespace == self.settings.namespace
            && pod.metadata.labels.get(objects::APP) == Some(&self.settings.app_label)
    }

    /// What a pod wants. What cannot be read of it the scheduler complains about.
    fn need(&self, pod: &view::Pod) -> Option<ScalingNeed> {
        let is_ours = pod.spec.scheduler_name.as_ref() == Some(&self.settings.scheduler_name);
        let has_node = pod.spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
        if !is_ours || has_node || pod.metadata.is_terminating() {
            return None;
        }
        let spec = pods::translate(pod, &self.rules).object?;
        let (parts, devices) = need::parts(&spec.request.gpu, self.settings.memory_ratio)?;
        let pool = pod.metadata.labels.get(&self.settings.node_pool_label_key).cloned();
        let class = Class {
            pool: pool.clone(),
            node_selector: spec.constraints.node_selector.clone(),
            node_terms: spec.constraints.node_terms.clone(),
            tolerations: spec.constraints.tolerations.clone(),
        };
        let blueprint = Blueprint {
            devices,
            cpu_milli: spec.request.cpu_milli,
            memory_bytes: spec.request.memory_bytes,
            pool,
            node_selector: pod.spec.node_selector.clone(),
            affinity: pod.spec.affinity.clone(),
            tolerations: pod.spec.tolerations.clone(),
        };
        Some(ScalingNeed { class, parts, blueprint })
    }
}
