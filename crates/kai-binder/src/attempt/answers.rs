//! What came of the writes of an attempt.

use kai_api::bind_request::BindRequestStatus;
use kai_core::input::ObjectName;
use kai_core::time::Timestamp;

use super::{Attempt, Outcome, Stage, failed_in};
use crate::request::Request;
use crate::writes::{Answer, Written};
use crate::{Binder, EndedBind, Item, TRIES, delay};
use kai_client::failure::Failure;
use kai_settings::binder::BinderPlugin;

impl Binder {
    /// Takes over what came of a write.
    pub(crate) fn wrote(&mut self, name: &ObjectName, ended: Written, now: Timestamp) {
        let Some(mut attempt) = self.attempts.remove(name) else { return };
        attempt.busy = false;
        let taken = attempt.taking.take();
        self.due.insert(Item::Request(name.clone()));
        let request = self.facts.request(name).cloned();
        let request = request.filter(|request| request.id == attempt.request);
        match ended {
            Ok(answer) => {
                self.take_answer(answer);
                self.written(name, request.as_ref(), &mut attempt, now);
            }
            Err(failure) => self.refused(request.as_ref(), &mut attempt, &failure, now),
        }
        if let Some(claim) = taken {
            self.facts.claims.end_to_give(&claim);
        }
        if attempt.orphan || request.is_none() {
            self.ended(Some(&attempt));
            return;
        }
        if let (Some(reason), Some(request)) = (attempt.cancelled.take(), &request)
            && !attempt.is_failing()
            && !matches!(attempt.stage, Stage::Report(_))
        {
            self.enter(request, &mut attempt, Stage::Undo(reason), now);
        }
        self.attempts.insert(name.clone(), attempt);
    }

    /// What the API server answered is known before the watch reports it.
    pub(crate) fn take_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Nothing => {}
            Answer::Pod(pod) => self.facts.take_answer(&pod),
            Answer::Object(object) => self.facts.apply(&object), // the watch may have reported more by now
        }
    }

    fn written(
        &mut self,
        name: &ObjectName,
        request: Option<&Request>,
        attempt: &mut Attempt,
        now: Timestamp,
    ) {
        let stage = match &attempt.stage {
            Stage::Reserve => return,
            Stage::Volumes | Stage::Claims => {
                attempt.tries = 0; // there may be more to write
                return;
            }
            Stage::Label => Stage::Configure,
            Stage::Configure => Stage::Bind,
            Stage::Bind => {
                let Attempt { pod, pod_uid, node, .. } = &*attempt;
                tracing::info!(%pod, %node, "bound");
                self.facts.assume_bound(pod, pod_uid, node, attempt.devices());
                Stage::Report(Outcome::Bound)
            }
            Stage::Undo(reason) => Stage::Report(Outcome::Failed(reason.clone())),
            Stage::Report(outcome) => {
                self.status_written(name, request, &outcome.clone(), attempt, now);
                return;
            }
        };
        match request {
            Some(request) => self.enter(request, attempt, stage, now),
            None => attempt.enter(stage),
        }
    }

    /// The status of the request says how it ended.
    fn status_written(
        &mut self,
        name: &ObjectName,
        request: Option<&Request>,
        outcome: &Outcome,
        attempt: &mut Attempt,
        now: Timestamp,
    ) {
        let Some(request) = request else { return };
        self.report_end(request, outcome);
        match outcome {
            Outcome::Bound => {
                let failures = request.failed_attempts;
                self.facts.assume_status(name, BindRequestStatus::SUCCEEDED, failures);
            }
            Outcome::Failed(_) => {
                let failures = request.failed_attempts + 1;
                self.facts.assume_status(name, BindRequestStatus::FAILED, failures);
                if request.may_try_again(failures) {
                    *attempt = Attempt::new(attempt.id, request, now);
                    let again = delay(u32::try_from(failures).unwrap_or(1));
                    attempt.not_before = Some(now.plus(again));
                }
            }
        }
    }

    /// How the bind ended is reported by the rest of the process.
    pub(crate) fn report_end(&mut self, request: &Request, outcome: &Outcome) {
        let Some(subject) = self.facts.subject(request) else { return };
        let failure = match outcome {
            Outcome::Bound => None,
            Outcome::Failed(reason) => Some(reason.clone()),
        };
        self.ended.push(EndedBind {
            request: request.id.clone(),
            pod: request.pod.clone(),
            uid: subject.uid.clone(),
            node: request.node.clone(),
            failure,
        });
    }

    fn refused(
        &mut self,
        request: Option<&Request>,
        attempt: &mut Attempt,
        failure: &Failure,
        now: Timestamp,
    ) {
        attempt.tries += 1;
        if failure.may_pass() && attempt.tries < TRIES {
            attempt.not_before = Some(now.plus(delay(attempt.tries)));
            tracing::debug!(pod = %attempt.pod, reason = %failure, "a write is tried again");
            return;
        }
        let pod = &attempt.pod;
        let reason = failure.to_string();
        let next = match &attempt.stage {
            Stage::Reserve => return,
            Stage::Volumes => Stage::Undo(failed_in(
                BinderPlugin::VolumeBinding,
                &format!("binding volumes: {reason}"),
            )),
            Stage::Claims => {
                let cause = format!("failed to update claims for pod {pod}: {reason}");
                Stage::Undo(failed_in(BinderPlugin::DynamicResources, &cause))
            }
            Stage::Label => {
                Stage::Undo(format!("failed to patch pod <{pod}> with GPU group label: {reason}"))
            }
            Stage::Configure => Stage::Undo(format!(
                "failed to update gpu sharing configmap for pod <{pod}>: {reason}"
            )),
            Stage::Bind => {
                let node = &attempt.node;
                Stage::Undo(format!("failed to bind pod <{pod}> to node <{node}>: {reason}"))
            }
            Stage::Undo(cause) => {
                tracing::warn!(%pod, reason, "a failed bind was not undone");
                Stage::Report(Outcome::Failed(cause.clone()))
            }
            Stage::Report(outcome) => {
                tracing::warn!(%pod, reason, "failed to write the status of a bind request");
                attempt.not_before = Some(now.plus(delay(attempt.tries)));
                attempt.stage = Stage::Report(outcome.clone());
                return;
            }
        };
        match request {
            Some(request) => self.enter(request, attempt, next, now),
            None => attempt.enter(next),
        }
    }
}
