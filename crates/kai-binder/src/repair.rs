//! What a bind did to a pod that has no node, so that it can be undone; pods that were left so when a bind was interrupted for
//! good; and labels of GPU groups that the API server did not take from a bind.

use std::collections::BTreeSet;

use kai_api::names::gpu;
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;
use kai_translate::view;

use super::facts::{Life, PodFacts};
use super::volumes::FreeVolume;
use super::writes::{Order, Undo, Written};
use super::{Binder, Item, PATIENCE, delay, request, sharing};
use kai_client::write::Outcome;
use kai_settings::binder::BinderPlugin;

/// What is remembered of such a pod.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    busy: bool,
    tries: u32,
    not_before: Timestamp,
}

/// Labels of shared devices that a pod has.
fn group_labels(pod: &PodFacts, view: &view::Pod) -> Vec<String> {
    if pod.groups.is_empty() {
        return Vec::new();
    }
    let own = view.metadata.labels.keys().filter(|key| sharing::is_group_label(key));
    let labels: BTreeSet<String> = own.cloned().chain([gpu::GROUP.to_owned()]).collect();
    labels.into_iter().collect()
}

impl Binder {
    /// What binds did to a pod that has no node; none: nothing that is visible. `written` are the config maps of the bind that failed;
    /// those of a process that is gone are visible by the pod's labels only, else the next bind writes them anew.
    pub(super) fn undo_of(
        &self,
        pod: &PodFacts,
        volumes: Vec<FreeVolume>,
        written: &[String],
    ) -> Option<Undo> {
        let view = pod.view.as_ref()?;
        let labels = group_labels(pod, view);
        let made_maps = self.settings.plugins.has(BinderPlugin::GpuSharing) && !labels.is_empty();
        let config_maps =
            if made_maps { sharing::config_map_names(view) } else { written.to_vec() };
        let undo = Undo {
            uid: pod.uid.clone(),
            version: pod.version.clone(),
            labels,
            config_maps,
            claims: self.facts.claims.to_free(&pod.uid),
            names_claim: view.status.extended_resource_claim_status.is_some(),
            volumes,
        };
        undo.is_something().then_some(undo)
    }

    pub(super) fn look_at_pod(&mut self, name: &ObjectName, now: Timestamp) {
        if self.repairs.get(name).is_some_and(|repair| repair.busy) {
            return;
        }
        let pod = self.facts.pod(name).filter(|pod| pod.is_ours && pod.life == Life::Alive);
        if let Some(pod) = pod.filter(|pod| pod.lacks_group_labels) {
            let groups: Vec<&str> = pod.groups.iter().map(|group| &**group).collect();
            let labels = request::group_labels(&groups).into_iter();
            let labels = labels.map(|(key, value)| (key, Some(value))).collect();
            let order = Order::Label { pod: name.clone(), uid: pod.uid.clone(), labels };
            self.repair_when_due(name, order, now, now);
            return;
        }
        let wanted = self.facts.requests_of_pod(name).next().is_some();
        let undo = pod.filter(|_| !wanted).and_then(|pod| self.undo_of(pod, Vec::new(), &[]));
        let Some(undo) = undo else {
            self.repairs.remove(name);
            return;
        };
        if self.attempts.values().any(|attempt| attempt.is_writing(name)) {
            return; // it may be bound by that, and is looked at when the write ends
        }
        // The request may be there and not observed yet.
        let order = Order::Repair { pod: name.clone(), undo };
        self.repair_when_due(name, order, now.plus(PATIENCE), now);
    }

    /// Orders the repair of a pod, for the first time at the moment `first`, later when the latest order allows.
    fn repair_when_due(
        &mut self,
        name: &ObjectName,
        order: Order,
        first: Timestamp,
        now: Timestamp,
    ) {
        let first = Repair { busy: false, tries: 0, not_before: first };
        let repair = self.repairs.entry(name.clone()).or_insert(first);
        if now < repair.not_before {
            let moment = repair.not_before;
            self.look_again_at(moment, Item::Pod(name.clone()));
            return;
        }
        repair.busy = true;
        self.orders.push(order);
    }

    /// A bind of the pod would meet the removal of what an earlier one left: labels and config maps of the new bind would go.
    pub(super) fn is_being_repaired(&self, pod: &ObjectName) -> bool {
        self.repairs.get(pod).is_some_and(|repair| repair.busy)
    }

    pub(super) fn repaired(&mut self, name: &ObjectName, ended: Written, now: Timestamp) {
        self.due.insert(Item::Pod(name.clone()));
        self.due.extend(self.facts.requests_of_pod(name).cloned().map(Item::Request));
        match ended {
            Ok(answer) => {
                tracing::info!(pod = %name, "an interrupted bind was undone");
                self.repairs.remove(name);
                self.take_answer(answer);
            }
            Err(failure) => {
                tracing::warn!(pod = %name, reason = %failure, "an interrupted bind was not undone");
                self.repair_again(name, now);
            }
        }
    }

    /// Labels of a bound pod were written, or not. Unless the watch shows them soon, they are written again.
    pub(super) fn labelled(&mut self, name: &ObjectName, ended: Outcome<()>, now: Timestamp) {
        self.due.insert(Item::Pod(name.clone()));
        self.due.extend(self.facts.requests_of_pod(name).cloned().map(Item::Request));
        if let Err(failure) = ended {
            tracing::warn!(pod = %name, reason = %failure, "failed to label a pod with its GPU groups");
        }
        self.repair_again(name, now);
    }

    fn repair_again(&mut self, name: &ObjectName, now: Timestamp) {
        if let Some(repair) = self.repairs.get_mut(name) {
            repair.busy = false;
            repair.tries += 1;
            repair.not_before = now.plus(delay(repair.tries));
        }
    }
}
