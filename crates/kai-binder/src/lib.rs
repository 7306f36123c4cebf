//! The binder: carries bind requests out, ours and those of KAI's scheduler, and keeps the reservations of shared devices.
//!
//! Changes and reports in, orders out; no clock and no client, so that nothing waits here. Everything but counts of tries
//! can be read off the cluster: after a restart an attempt begins anew, and what is done already is not done again.
//!
//! | module | subject |
//! |---|---|
//! | `facts` | what the watches reported |
//! | `request` | a bind request, as the binder reads it, and where it lives |
//! | `local_requests` | bind requests that live in this process |
//! | `attempt` | one attempt to carry a request out: which step is next |
//! | `bind_slots` | how many binds are written at a time |
//! | `gpu_group_conflict` | groups of a node that got one device |
//! | `profile` | what a reservation pod is given on which nodes |
//! | `nvml_fallbacks` | which of that works on a node, found out by trying |
//! | `cdi` | whether devices are named in the notation of CDI |
//! | `node_gpu_annotations` | what is written on nodes: shares, rungs |
//! | `conditions` | conditions of nodes: are their GPUs understood, do reservation pods find them |
//! | `gpus` | the GPUs of a cluster and who shares them, for people and metrics |
//! | `memory_limits` | limits of the GPU memory of sharing pods, and whether they are kept |
//! | `device_capacity` | whether a device has enough free memory for one more pod |
//! | `scaling` | scaling pods that may still come to a node |
//! | `gang` | pods that are bound together or not at all |
//! | `volumes` | claims of volumes that waited for the pod's node |
//! | `claims` | claims of devices |
//! | `device` | a shared device: its reservation is made, waited for, repaired and released |
//! | `reservation` | reservation pods |
//! | `reservation_limits` | how many reservation pods may be unanswered |
//! | `plugins` | parts of a bind under KAI's names, and what can be said about them |
//! | `sharing` | config maps of a sharing pod |
//! | `repair` | what a bind did to a pod, and pods that an interrupted bind left with it; labels that a bind did not set |
//! | `writes`, `claim_writes` | how orders are written |
//! | [`driver`] | orders into requests to the API server |

mod attempt;
mod bind_slots;
mod cdi;
mod claim_writes;
mod claims;
mod conditions;
mod config_maps;
mod device;
mod device_capacity;
pub mod driver;
mod facts;
mod gang;
mod gpu_group_conflict;
mod gpus;
mod index;
pub mod listing;
mod local_requests;
mod measured_memory;
mod memory_limits;
mod node_gpu_annotations;
mod nvml_fallbacks;
mod profile;
mod repair;
mod request;
mod reservation;
mod reservation_limits;
pub mod reserved_devices;
mod scaling;
mod sharing;
mod volumes;
mod waiting_devices;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use kai_client::watch::Change;
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

pub use gpus::{DeviceGpus, NodeGpus, gpus, reservation_pod};
use kai_settings::binder::{BinderSettings, Privilege, ReservationSettings, RuntimeClassSetting};
pub use node_gpu_annotations::SharedDevice;
pub use request::{LocalId, RequestId};
pub use scaling::scaling_pod_origin;

use attempt::Attempt;
use bind_slots::BindSlots;
use device::DeviceMemory;
use facts::Facts;
use measured_memory::ExceededLimits;
use node_gpu_annotations::NodeUpdateState;
use nvml_fallbacks::NvmlFallbacks;
use repair::Repair;
use reservation_limits::ReservationLimits;
use writes::{Order, Report};

/// How long something may be missing that another watch may still report.
const PATIENCE: Span = seconds(5);
/// How often a write is tried that fails for reasons that may pass.
const TRIES: u32 = 6;

/// A device of a node that pods share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceKey {
    pub node: Text,
    /// The group of pods that share it.
    pub group: Text,
}

/// Something that may need to be acted upon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Device(DeviceKey),
    Request(ObjectName),
    Pod(ObjectName),
    Node(Text),
    /// Whether all of its pods are ready may have changed.
    Gang(ObjectName),
}

/// The state of all binds.
pub struct Binder {
    settings: BinderSettings,
    leads: bool,
    facts: Facts,
    /// Requests of the scheduler of this process that were not looked at yet, in the order of its plan.
    handed_over: Vec<ObjectName>,
    attempts: BTreeMap<ObjectName, Attempt>,
    /// How many attempts there were: what comes of a write concerns the attempt that made it, and no other.
    attempts_begun: u64,
    slots: BindSlots,
    devices: BTreeMap<DeviceKey, DeviceMemory>,
    limits: ReservationLimits,
    repairs: BTreeMap<ObjectName, Repair>,
    nvml_fallbacks: BTreeMap<Text, NvmlFallbacks>,
    node_updates: BTreeMap<Text, NodeUpdateState>,
    /// Limits of pods that were written anew, and when they are written again if the pod does not show them.
    limits_written: BTreeMap<(ObjectName, String), (String, Timestamp)>,
    exceeded: ExceededLimits,
    due: BTreeSet<Item>,
    timers: BTreeSet<(Timestamp, Item)>,
    orders: Vec<Order>,
    /// How binds ended since the last call.
    ended: Vec<EndedBind>,
}

/// A bind that was carried out, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedBind {
    pub request: RequestId,
    pub pod: ObjectName,
    pub uid: Text,
    pub node: Text,
    /// Why not; none: it is bound.
    pub failure: Option<String>,
}

impl Binder {
    /// A binder that knows nothing yet.
    pub fn new(settings: BinderSettings) -> Self {
        Self {
            facts: Facts::new(&settings),
            settings,
            leads: true,
            handed_over: Vec::new(),
            attempts: BTreeMap::new(),
            attempts_begun: 0,
            slots: BindSlots::default(),
            devices: BTreeMap::new(),
            limits: ReservationLimits::default(),
            repairs: BTreeMap::new(),
            nvml_fallbacks: BTreeMap::new(),
            node_updates: BTreeMap::new(),
            limits_written: BTreeMap::new(),
            exceeded: ExceededLimits::default(),
            due: BTreeSet::new(),
            timers: BTreeSet::new(),
            orders: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: &Change) {
        self.facts.apply(change);
    }

    /// Begins or ceases to act. Attempts begin anew: what they had done can be seen. Bind requests of this process end: the
    /// process that acts next does not know of them.
    fn set_leading(&mut self, leads: bool) {
        self.leads = leads;
        self.drop_local_requests();
        self.attempts.clear();
        self.slots = BindSlots::default();
        self.devices.clear();
        self.limits = ReservationLimits::default();
        self.repairs.clear();
        self.node_updates.clear();
        self.limits_written.clear();
        self.exceeded.clear();
        self.due.clear();
        self.timers.clear();
        self.facts.claims.forget_giving();
        self.facts.touch_all();
    }

    /// When something is to be done although nothing changed.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.timers.first().map(|(moment, _)| *moment).filter(|_| self.facts.is_complete())
    }

    /// Orders since the latest call.
    fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// How binds ended since the latest call.
    fn take_ended(&mut self) -> Vec<EndedBind> {
        std::mem::take(&mut self.ended)
    }

    /// Takes over what came of an order.
    fn settle(&mut self, report: Report, now: Timestamp) {
        match report {
            Report::Reserved { device, ended } => self.reserved(&device, ended, now),
            Report::Released { device, pod, ended } => self.released(&device, &pod, ended, now),
            Report::Wrote { request, attempt, ended } => {
                if self.attempts.get(&request).is_some_and(|known| known.id() == attempt) {
                    self.wrote(&request, ended, now);
                }
            }
            Report::NodeUpdated { node, ended } => self.node_updated(&node, ended, now),
            Report::Repaired { pod, ended } => self.repaired(&pod, ended, now),
            Report::Labelled { pod, ended } => self.labelled(&pod, ended, now),
        }
    }

    /// Looks at everything that changed or whose time has come.
    fn step(&mut self, now: Timestamp) {
        if !self.leads {
            self.facts.forget_touched();
        }
        if !self.leads || !self.facts.is_complete() {
            return;
        }
        self.look_at_handed_over(now);
        loop {
            self.clear_vanished();
            self.due.extend(self.facts.take_touched());
            while self.timers.first().is_some_and(|(moment, _)| *moment <= now) {
                self.due.extend(self.timers.pop_first().map(|(_, item)| item));
            }
            match self.due.pop_first() {
                Some(Item::Device(device)) => self.look_at_device(&device, now),
                Some(Item::Request(request)) => self.look_at_request(&request, now),
                Some(Item::Pod(pod)) => self.look_at_pod(&pod, now),
                Some(Item::Node(node)) => self.look_at_node(&node, now),
                Some(Item::Gang(gang)) => self.look_at_gang(&gang),
                None => return,
            }
        }
    }

    fn look_again_at(&mut self, moment: Timestamp, item: Item) {
        self.timers.insert((moment, item));
    }
}

/// A second, doubled with every failure, a minute at most.
pub fn delay(failures: u32) -> Span {
    let doubled = seconds(1).nanos.saturating_mul(1 << failures.saturating_sub(1).min(6));
    Span { nanos: doubled.min(seconds(60).nanos) }
}
