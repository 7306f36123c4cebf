//! Pods that were left with labels of shared devices when a bind was interrupted for good: the labels go.

use std::collections::BTreeSet;

use kai_api::names::gpu;
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;
use kai_translate::view;

use super::facts::{Life, PodFacts};
use super::writes::{Failure, Order, Undo};
use super::{Binder, Item, PATIENCE, delay, sharing};

/// What is remembered of such a pod.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    busy: bool,
    tries: u32,
    not_before: Timestamp,
}

/// What a bind did to a pod that has no node; none: nothing that can be seen.
pub(super) fn undo_of(pod: &PodFacts) -> Option<Undo> {
    let view = pod.view.as_ref()?;
    if pod.groups.is_empty() {
        return None;
    }
    let own = view.metadata.labels.keys().filter(|key| sharing::is_group_label(key));
    let labels: BTreeSet<String> = own.cloned().chain([gpu::GROUP.to_owned()]).collect();
    Some(Undo {
        uid: pod.uid.clone(),
        version: pod.version.clone(),
        labels: labels.into_iter().collect(),
        config_maps: sharing::config_map_names(view),
    })
}

impl Binder {
    pub(super) fn look_at_pod(&mut self, name: &ObjectName, now: Timestamp) {
        if self.repairs.get(name).is_some_and(|repair| repair.busy) {
            return;
        }
        let pod = self.facts.pod(name).filter(|pod| pod.is_ours && pod.life == Life::Alive);
        let wanted = self.facts.requests_of_pod(name).next().is_some();
        let Some(undo) = pod.filter(|_| !wanted).and_then(undo_of) else {
            self.repairs.remove(name);
            return;
        };
        // The request may be there and not told yet.
        let first = Repair { busy: false, tries: 0, not_before: now.plus(PATIENCE) };
        let repair = self.repairs.entry(name.clone()).or_insert(first);
        if now < repair.not_before {
            let moment = repair.not_before;
            self.look_again_at(moment, Item::Pod(name.clone()));
            return;
        }
        repair.busy = true;
        self.orders.push(Order::Repair { pod: name.clone(), undo });
    }

    pub(super) fn repaired(
        &mut self,
        name: &ObjectName,
        ended: Result<Option<Box<view::Pod>>, Failure>,
        now: Timestamp,
    ) {
        self.due.insert(Item::Pod(name.clone()));
        match ended {
            Ok(answer) => {
                tracing::info!(pod = %name, "labels of an interrupted bind were removed");
                self.repairs.remove(name);
                if let Some(pod) = answer {
                    self.facts.take_answer(&pod);
                }
            }
            Err(failure) => {
                tracing::warn!(pod = %name, reason = failure.reason, "labels of an interrupted bind stay");
                if let Some(repair) = self.repairs.get_mut(name) {
                    repair.busy = false;
                    repair.tries += 1;
                    repair.not_before = now.plus(delay(repair.tries));
                }
            }
        }
    }
}
