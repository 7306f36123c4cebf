//! The rules of a lease, as client-go has them: the holder renews it; one that was not renewed for its whole duration
//! is free. A candidate trusts only its own uptime: a lease counts from when the candidate saw it change. Pure.

use kai_api::json;
use kai_core::input::ObjectName;
use kai_core::time::{Span, Timestamp};
use kai_translate::time;
use serde_json::{Value, json};

use crate::path::Resource;

/// Times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease is valid after its last renewal.
    pub duration: Span,
    /// How long a holder that cannot renew its lease may still write.
    pub renew_deadline: Span,
    /// Time between two tries.
    pub retry: Span,
}

impl Timing {
    /// Times of KAI's scheduler.
    pub const SCHEDULER: Self = Self {
        duration: time::seconds(15),
        renew_deadline: time::seconds(10),
        retry: time::seconds(5),
    };
    /// Times of KAI's other components.
    pub const CONTROLLER: Self = Self { retry: time::seconds(2), ..Self::SCHEDULER };
}

/// What a candidate does about a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// There is none: create this.
    Create(Value),
    /// It is ours or free: write this.
    Update(Value),
    /// Another candidate holds it.
    Wait,
}

/// A candidate for a lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    name: String,
    namespace: String,
    timing: Timing,
    /// The lease as it was last observed to change, and the uptime then.
    observed: Option<(Value, Span)>,
}

impl Candidate {
    /// A candidate for a lease.
    pub fn new(identity: &str, namespace: &str, name: &str, timing: Timing) -> Self {
        let (identity, namespace, name) = (identity.to_owned(), namespace.to_owned(), name.into());
        Self { identity, name, namespace, timing, observed: None }
    }

    /// The times of its election.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The path of the lease.
    pub fn path(&self) -> String {
        Resource::LEASES.object(&ObjectName::new(self.namespace.as_str(), self.name.as_str()))
    }

    /// The path of leases of the namespace.
    pub fn list_path(&self) -> String {
        Resource::LEASES.collection(&self.namespace)
    }

    /// What to do about the lease as it is. `now` is what is written into it, `uptime` what decides.
    pub fn step(&mut self, lease: Option<&Value>, now: Timestamp, uptime: Span) -> Step {
        let Some(lease) = lease else {
            return Step::Create(self.written(&json!({}), true, 0, now));
        };
        let spec = &lease["spec"];
        if self.observed.as_ref().is_none_or(|(observed, _)| observed != spec) {
            self.observed = Some((spec.clone(), uptime));
        }
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let ours = holder == self.identity;
        if !ours && !holder.is_empty() && self.is_respected(spec, uptime) {
            return Step::Wait;
        }
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0);
        let transitions = if ours { transitions } else { transitions + 1 };
        Step::Update(self.written(lease, !ours, transitions, now))
    }

    /// The lease in its released form; none if another process holds it.
    pub fn released(&self, lease: &Value, now: Timestamp) -> Option<Value> {
        if lease["spec"]["holderIdentity"] != self.identity.as_str() {
            return None;
        }
        let mut lease = lease.clone();
        json::set(&mut lease, &["spec", "holderIdentity"], "");
        json::set(&mut lease, &["spec", "leaseDurationSeconds"], 1);
        json::set(&mut lease, &["spec", "renewTime"], micro_time(now));
        json::set(&mut lease, &["spec", "acquireTime"], micro_time(now));
        Some(lease)
    }

    fn is_respected(&self, spec: &Value, uptime: Span) -> bool {
        let seconds = spec["leaseDurationSeconds"].as_i64().unwrap_or(0);
        let since = self.observed.as_ref().map_or(uptime, |(_, since)| *since);
        since.nanos + time::seconds(seconds).nanos > uptime.nanos
    }

    fn written(&self, lease: &Value, acquired: bool, transitions: i64, now: Timestamp) -> Value {
        let mut lease = lease.clone();
        json::set(&mut lease, &["apiVersion"], "coordination.k8s.io/v1");
        json::set(&mut lease, &["kind"], "Lease");
        json::set(&mut lease, &["metadata", "name"], self.name.as_str());
        json::set(&mut lease, &["metadata", "namespace"], self.namespace.as_str());
        json::set(&mut lease, &["spec", "holderIdentity"], self.identity.as_str());
        json::set(
            &mut lease,
            &["spec", "leaseDurationSeconds"],
            self.timing.duration.nanos / 1_000_000_000,
        );
        json::set(&mut lease, &["spec", "renewTime"], micro_time(now));
        json::set(&mut lease, &["spec", "leaseTransitions"], transitions);
        if acquired {
            json::set(&mut lease, &["spec", "acquireTime"], micro_time(now));
        }
        lease
    }
}

/// A moment with six digits behind the point, which leases insist on.
fn micro_time(moment: Timestamp) -> String {
    let micros = moment.nanos.rem_euclid(1_000_000_000) / 1000;
    let seconds = time::format(moment);
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp { nanos: 1_767_225_600_000_000_000 + second * 1_000_000_000 }
    }

    fn candidate(identity: &str) -> Candidate {
        Candidate::new(identity, "kai-scheduler", "lease", Timing::SCHEDULER)
    }

    fn written(step: Step) -> Value {
        match step {
            Step::Create(lease) | Step::Update(lease) => lease,
            Step::Wait => panic!("another candidate holds it"),
        }
    }

    #[test]
    fn a_lease_that_is_renewed_stays_with_its_holder() {
        let (mut one, mut two) = (candidate("one"), candidate("two"));
        let mut lease = written(one.step(None, at(0), time::seconds(0)));
        assert_eq!(lease["spec"]["acquireTime"], "2026-01-01T00:00:00.000000Z");
        for second in [5, 10, 15, 20, 25] {
            assert_eq!(two.step(Some(&lease), at(second), time::seconds(second)), Step::Wait);
            lease = written(one.step(Some(&lease), at(second), time::seconds(second)));
        }
        assert_eq!(lease["spec"]["leaseTransitions"], 0);
        assert_eq!(lease["spec"]["acquireTime"], "2026-01-01T00:00:00.000000Z");
    }

    #[test]
    fn a_lease_is_valid_from_the_observed_change_on() {
        let (mut one, mut two) = (candidate("one"), candidate("two"));
        let lease = written(one.step(None, at(0), time::seconds(0)));
        assert_eq!(
            two.step(Some(&lease), at(100), time::seconds(100)),
            Step::Wait,
            "observed for the first time"
        );
        assert_eq!(two.step(Some(&lease), at(114), time::seconds(114)), Step::Wait);
        let taken = written(two.step(Some(&lease), at(115), time::seconds(115)));
        assert_eq!(taken["spec"]["holderIdentity"], "two");
        assert_eq!(taken["spec"]["leaseTransitions"], 1);
        assert_eq!(one.step(Some(&taken), at(116), time::seconds(116)), Step::Wait);
    }

    #[test]
    fn a_lease_given_back_is_free_at_once() {
        let (mut one, mut two) = (candidate("one"), candidate("two"));
        let lease = written(one.step(None, at(0), time::seconds(0)));
        let released = one.released(&lease, at(3)).expect("it is ours");
        assert_eq!(two.released(&lease, at(3)), None);
        assert_eq!(
            written(two.step(Some(&released), at(3), time::seconds(3)))["spec"]["holderIdentity"],
            "two"
        );
    }
}
