//! The node scale adjuster. Autoscalers see what pods request, not their annotations: for pods that share devices and find
//! none it makes scaling pods, which ask for whole devices in their place, and removes them when they are of no use any more.
//!
//! Changes and reports in, orders out; no clock and no client. Everything but the cool-down can be read off the cluster.
//!
//! | module | subject |
//! |---|---|
//! | `facts` | observed pods |
//! | `need` | how many scaling pods there must be, and on whose behalf |
//! | `scaling_pod` | scaling pods |
//! | `writes` | how orders are written |
//! | [`driver`] | orders into requests to the API server |

pub mod driver;
mod facts;
mod need;
mod scaling_pod;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::defaults::SCALE_ADJUST_COOL_DOWN_SECONDS;
use kai_binder::delay;
use kai_client::watch::Change;
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use kai_settings::scale_adjuster::ScaleAdjusterSettings;

use facts::Facts;
use need::{Candidate, Class, RequestedDevices};
use writes::{Made, Order, Report};

/// After a scaling pod went no other is made for so long: what it brought is to be used first.
const COOL_DOWN: Span = seconds(SCALE_ADJUST_COOL_DOWN_SECONDS);
/// However much changes, everything is looked at so often at most.
const BETWEEN_PASSES: Span = seconds(1);
/// A scaling pod that was created is observed within this time, or it is gone already.
const OBSERVED_WITHIN: Span = seconds(30);

/// The state of all scaling pods.
pub struct ScaleAdjuster {
    settings: ScaleAdjusterSettings,
    leads: bool,
    facts: Facts,
    /// Scaling pods that are on their way, by the pod they stand for.
    making: BTreeMap<ObjectName, Making>,
    /// Scaling pods that were evicted.
    removing: BTreeMap<ObjectName, Removing>,
    /// Pods for which none could be made.
    refused: BTreeMap<ObjectName, Refused>,
    cool_until: Option<Timestamp>,
    passed: Option<Timestamp>,
    wake_at: Option<Timestamp>,
    orders: Vec<Order>,
}

/// A scaling pod that is on its way.
struct Making {
    name: ObjectName,
    class: Class,
    devices: i64,
    /// It exists, and is observed by then.
    until: Option<Timestamp>,
}

/// A scaling pod that was evicted.
struct Removing {
    uid: Text,
    failures: u32,
    /// When its write is retried; none: it was written, or is being written.
    again_at: Option<Timestamp>,
}

/// A pod for which no scaling pod could be made.
struct Refused {
    failures: u32,
    not_before: Timestamp,
    /// The name is that of another's.
    is_taken: bool,
}

impl ScaleAdjuster {
    /// One that knows nothing yet.
    pub fn new(settings: ScaleAdjusterSettings) -> Self {
        Self {
            facts: Facts::new(&settings),
            settings,
            leads: false,
            making: BTreeMap::new(),
            removing: BTreeMap::new(),
            refused: BTreeMap::new(),
            cool_until: None,
            passed: None,
            wake_at: None,
            orders: Vec::new(),
        }
    }

    /// Takes a change of the cluster over.
    pub fn apply(&mut self, change: &Change) {
        self.facts.apply(change);
    }

    /// Begins or ceases to act.
    fn set_leading(&mut self, leads: bool, now: Timestamp) {
        self.leads = leads;
        self.making.clear();
        self.removing.clear();
        self.refused.clear();
        self.cool_until = None;
        self.passed = None;
        self.wake_at = leads.then_some(now);
        if leads {
            self.orders.push(self.sweep());
        }
    }

    /// When something is to be done although nothing changed.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at.filter(|_| self.leads && self.facts.is_complete())
    }

    fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Looks at everything, if something changed or its time has come.
    fn step(&mut self, now: Timestamp) {
        if !self.leads || !self.facts.is_complete() {
            return;
        }
        if self.facts.take_changed() {
            let soonest = self.passed.map_or(now, |passed| passed.plus(BETWEEN_PASSES)).max(now);
            self.look_again_at(soonest);
        }
        if self.wake_at.is_some_and(|moment| moment <= now) {
            self.wake_at = None;
            self.passed = Some(now);
            self.pass(now);
        }
    }

    fn look_again_at(&mut self, moment: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(moment, |known| known.min(moment)));
    }

    fn pass(&mut self, now: Timestamp) {
        self.notice_vanished(now);
        self.forget(now);
        self.remove_useless(now);
        match self.cool_until.filter(|until| now < *until) {
            Some(until) => self.look_again_at(until),
            None => self.make_needed(now),
        }
    }

    /// A scaling pod that we did not remove may have failed, and such pods are not watched.
    fn notice_vanished(&mut self, now: Timestamp) {
        let vanished = self.facts.take_vanished();
        if vanished.iter().any(|pod| !self.removing.contains_key(pod)) {
            self.orders.push(self.sweep());
            self.cool_until = Some(now.plus(COOL_DOWN));
        }
    }

    fn sweep(&self) -> Order {
        let ScaleAdjusterSettings { namespace, app_label, .. } = &self.settings;
        Order::Sweep { namespace: namespace.clone(), app: app_label.clone() }
    }

    /// Forgets scaling pods that are observed by now.
    fn forget(&mut self, now: Timestamp) {
        let facts = &self.facts;
        self.making.retain(|_, one| {
            let is_observed = facts.scaling_pod(&one.name).is_some();
            one.until.is_none_or(|until| now < until && !is_observed)
        });
        self.removing.retain(|name, one| {
            facts.scaling_pod(name).is_some_and(|pod| pod.uid == one.uid && !pod.leaving)
        });
        self.refused.retain(|origin, _| facts.sharing(origin).is_some());
    }

    fn remove_useless(&mut self, now: Timestamp) {
        let mut orders = Vec::new();
        for (name, pod) in self.facts.scaling().filter(|(_, pod)| !pod.leaving) {
            let Some(reason) = self.facts.why_useless(pod) else { continue };
            let failures = match self.removing.get(name) {
                Some(one) if one.again_at.is_none_or(|moment| now < moment) => continue,
                Some(one) => one.failures,
                None => 0,
            };
            let uid = pod.uid.clone();
            let removing = Removing { uid: uid.clone(), failures, again_at: None };
            self.removing.insert(name.clone(), removing);
            orders.push(Order::Remove { pod: name.clone(), uid, reason });
        }
        if !orders.is_empty() {
            self.cool_until = Some(now.plus(COOL_DOWN));
        }
        self.orders.extend(orders);
        if let Some(again) = self.removing.values().filter_map(|one| one.again_at).min() {
            self.look_again_at(again);
        }
    }

    fn make_needed(&mut self, now: Timestamp) {
        let (ripe, unripe): (Vec<_>, Vec<_>) = self
            .facts
            .unschedulable()
            .partition(|(_, _, since)| since.plus(self.settings.grace) <= now);
        let next = unripe.iter().map(|(_, _, since)| since.plus(self.settings.grace)).min();
        let candidates: Vec<Candidate<'_>> = ripe
            .iter()
            .map(|(pod, need, since)| Candidate {
                pod,
                class: &need.class,
                parts: need.parts,
                devices: need.blueprint.devices,
                since: *since,
            })
            .collect();
        let made = need::to_be_made(&candidates, &self.passed_over(now), &self.requested_devices());
        let made: Vec<ObjectName> = made.into_iter().cloned().collect();
        for origin in made {
            self.make(origin);
        }
        let observed_by = self.making.values().filter_map(|one| one.until);
        let allowed = self.refused.values().map(|one| one.not_before).filter(|then| now < *then);
        if let Some(moment) = observed_by.chain(allowed).chain(next).min() {
            self.look_again_at(moment);
        }
    }

    /// Pods that have a scaling pod or will have one (one that was evicted still has the name), and those for which none
    /// could be made a moment ago: others of their class may have more luck.
    fn passed_over(&self, now: Timestamp) -> BTreeSet<&ObjectName> {
        let existing = self.facts.scaling().map(|(_, pod)| &pod.origin);
        let refused = self.refused.iter().filter(|(_, one)| now < one.not_before);
        existing.chain(self.making.keys()).chain(refused.map(|(origin, _)| origin)).collect()
    }

    /// Scaling pods that are there or on their way.
    fn requested_devices(&self) -> Vec<RequestedDevices<'_>> {
        let existing = self.facts.scaling().filter(|(_, pod)| !pod.leaving);
        let existing = existing.filter(|(_, pod)| !self.making.contains_key(&pod.origin));
        let existing = existing.filter_map(|(_, pod)| {
            let class = &self.facts.sharing(&pod.origin)?.need.as_ref()?.class;
            Some(RequestedDevices { class, devices: pod.devices })
        });
        let making = self.making.values();
        existing
            .chain(making.map(|one| RequestedDevices { class: &one.class, devices: one.devices }))
            .collect()
    }

    /// Makes the scaling pod of a pod.
    fn make(&mut self, origin: ObjectName) {
        let Some(need) = self.facts.sharing(&origin).and_then(|pod| pod.need.clone()) else {
            return;
        };
        let is_taken = self.refused.get(&origin).is_some_and(|one| one.is_taken);
        let named = |taken: bool| {
            let name = scaling_pod::name(&origin, taken);
            ObjectName::new(self.settings.namespace.as_str(), name)
        };
        let of_another = self.facts.scaling_pod(&named(false));
        let is_taken = is_taken || of_another.is_some_and(|pod| pod.origin != origin);
        let name = named(is_taken);
        let pod = scaling_pod::manifest(&name.name, &origin, &need.blueprint, &self.settings);
        let making = Making {
            name: name.clone(),
            class: need.class,
            devices: need.blueprint.devices,
            until: None,
        };
        self.orders.push(Order::Make { origin: origin.clone(), name, pod: Box::new(pod) });
        self.making.insert(origin, making);
    }

    /// Takes over what came of an order.
    fn settle(&mut self, report: Report, now: Timestamp) {
        match report {
            Report::Made { origin, ended } => self.made(origin, ended, now),
            Report::Removed { pod, ended: Ok(()) } => {
                tracing::info!(%pod, "a scaling pod was removed");
            }
            Report::Removed { pod, ended: Err(reason) } => {
                tracing::warn!(%pod, reason, "a scaling pod was not removed");
                if let Some(one) = self.removing.get_mut(&pod) {
                    one.failures += 1;
                    one.again_at = Some(now.plus(delay(one.failures)));
                }
            }
        }
        self.look_again_at(self.passed.map_or(now, |passed| passed.plus(BETWEEN_PASSES)).max(now));
    }

    fn made(&mut self, origin: ObjectName, ended: Result<Made, String>, now: Timestamp) {
        let Some(making) = self.making.get_mut(&origin) else { return };
        let (reason, is_taken) = match ended {
            Ok(Made::Exists) => {
                tracing::info!(pod = %making.name, %origin, devices = making.devices, "a scaling pod was made");
                making.until = Some(now.plus(OBSERVED_WITHIN));
                self.refused.remove(&origin);
                return;
            }
            Ok(Made::NameTaken) => ("the name is that of another's".to_owned(), true),
            Err(reason) => (reason, false),
        };
        tracing::warn!(pod = %making.name, %origin, reason, "a scaling pod was not made");
        self.making.remove(&origin);
        let (failures, was_taken) =
            self.refused.get(&origin).map_or((0, false), |one| (one.failures, one.is_taken));
        let not_before = now.plus(delay(failures + 1));
        let is_taken = is_taken || was_taken;
        self.refused.insert(origin, Refused { failures: failures + 1, not_before, is_taken });
    }
}
