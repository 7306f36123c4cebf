//! Statuses as the cluster shows them.

use k8s_openapi::api::core::v1::PodCondition;
use kai_api::names::components::BINDER;
use kai_api::names::status::{BINDING_ERROR, BOUND, POD_BOUND, POD_SCHEDULED};
use kai_api::queue::QueueStatus;
use kai_binder::EndedBind;
use kai_client::kinds::Kind;
use kai_client::observed::Observed;
use kai_client::watch::Change;
use kai_core::input::{ObjectName, Text};
use kai_core::time::Timestamp;
use kai_translate::{time, view};

use super::events::{Event, Severity, Subject};
use super::render::ObservedCondition;
use super::schedule::Target;
use super::write::StatusWrite;
use super::{Events, Statuses};

impl Statuses {
    /// Takes over an observed change. `by_request`: a binder carries out a request for the bind of the pod.
    pub fn observe(
        &mut self,
        change: &Change,
        by_request: impl Fn(&ObjectName) -> bool,
        now: Timestamp,
    ) {
        if let Change::Gone(kind, name) = change {
            self.set_problem(*kind, name, "", None);
        }
        match change {
            Change::Pod(pod) => self.observe_pod(pod, by_request, now),
            Change::Object(name, Observed::Queue(queue)) => {
                self.observe_queue(&name.name, queue.status.clone().unwrap_or_default(), now);
            }
            Change::Object(name, Observed::PodGroup(_)) => {
                self.schedule.request(Target::Group(name.clone()), now);
            }
            Change::Gone(Kind::Pod, pod) => {
                self.forget_pod(pod);
                self.binding.remove(pod);
                self.evicting.remove(pod);
            }
            Change::Gone(Kind::PodGroup, group) => {
                let target = Target::Group(group.clone());
                self.schedule.drop(&target);
                self.announced.remove(&target);
            }
            Change::Gone(Kind::Queue, queue) => {
                self.observed_queues.remove(&queue.name);
                self.schedule.drop(&Target::Queue(queue.name.clone()));
            }
            _ => {}
        }
    }

    fn observe_pod(
        &mut self,
        pod: &view::Pod,
        by_request: impl Fn(&ObjectName) -> bool,
        now: Timestamp,
    ) {
        let name = kai_translate::pod::name(pod);
        if pod.spec.scheduler_name.as_deref() != Some(&*self.scheduler) {
            return;
        }
        let placed = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
        if let Some(node) = placed {
            self.forget_pod(&name);
            let ordered = self.binding.get(&name);
            let ours = ordered.is_some_and(|bind| *bind.uid == *pod.metadata.uid);
            if ours {
                self.note_bound(&name, now);
            }
            self.binding.remove(&name);
            if ours && self.settings.events == Events::All && !by_request(&name) {
                self.report_bound(&name, &pod.metadata.uid, node, now);
            }
            return;
        }
        let conditions = &pod.status.conditions;
        let condition = conditions.iter().find(|one| one.type_ == POD_SCHEDULED);
        let condition = condition.map(|one| ObservedCondition {
            status: one.status.clone(),
            reason: one.reason.clone(),
            message: one.message.clone(),
        });
        let observed = (pod.metadata.uid.as_str().into(), condition.unwrap_or_default());
        let old = self.observed_pods.insert(name.clone(), observed.clone());
        if self.pods.contains_key(&name) && old.is_some_and(|old| old != observed) {
            self.schedule.request(Target::Pod(name), now);
        }
    }

    /// A bind request was carried out here, or could not be. Success is reported where settings require it; failure also
    /// where the scheduler, which reports it as well, is another process.
    pub fn note_ended_bind(&mut self, ended: &EndedBind, now: Timestamp) {
        let EndedBind { pod, uid, node, failure, .. } = ended;
        let all = self.settings.events == Events::All;
        match failure {
            None if all => self.report_bound(pod, uid, node, now),
            Some(reason) if all || !self.settings.duties.verdicts => {
                let message = format!("Failed to bind pod {pod} to node {node}: {reason}");
                self.report_bind(pod, uid, (Severity::Warning, BINDING_ERROR), &message, now);
            }
            None | Some(_) => {}
        }
    }

    /// KAI's habit: an event and a condition for a bind that went well.
    fn report_bound(&mut self, pod: &ObjectName, uid: &str, node: &str, now: Timestamp) {
        let message = format!("Pod bound successfully to node {node}");
        self.report_bind(pod, uid, (Severity::Normal, BOUND), &message, now);
    }

    /// An event and a condition in the name of the binder.
    fn report_bind(
        &mut self,
        pod: &ObjectName,
        uid: &str,
        (severity, reason): (Severity, &'static str),
        message: &str,
        now: Timestamp,
    ) {
        let subject = Subject::Pod(pod.clone(), uid.into());
        let mut event = Event::new(subject, severity, reason, message);
        event.component = Some(BINDER);
        self.events.push(event, now);
        let status = match severity {
            Severity::Normal => "True",
            Severity::Warning => "False",
        };
        let condition = PodCondition {
            type_: POD_BOUND.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(time::api_time(now)),
            ..PodCondition::default()
        };
        self.extra.push_back(StatusWrite::pod_note(pod, uid, condition));
    }

    fn observe_queue(&mut self, name: &Text, status: QueueStatus, now: Timestamp) {
        if self.observed_queues.insert(name.clone(), status.clone()) != Some(status) {
            self.schedule.request(Target::Queue(name.clone()), now);
        }
    }

    /// What the condition of a pod without a node says.
    pub fn condition_of(&self, pod: &ObjectName) -> Option<&str> {
        self.observed_pods.get(pod).map(|(_, condition)| condition.message.as_str())
    }

    /// The pod waits no longer.
    pub(super) fn forget_pod(&mut self, pod: &ObjectName) {
        let target = Target::Pod(pod.clone());
        self.schedule.drop(&target);
        self.announced.remove(&target);
        self.pods.remove(pod);
        self.observed_pods.remove(pod);
    }
}
