//! GPUs that pods claim, by device class, so that sums can count them. As in KAI a class is about GPUs when its name says so,
//! and a claim that several pods share counts with each of them.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::input::devices::{DeviceAlternative, DeviceCount, DeviceRequest};
use kai_core::input::{ClaimSpec, ObjectName, Text};

use super::amounts::Sum;

/// What claims stand for, and who uses them.
#[derive(Default)]
pub(super) struct Claimed {
    sums: BTreeMap<ObjectName, Sum>,
    users: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
}

impl Claimed {
    /// Takes a claim over, gone where it is none; gives the pods whose sums change.
    pub(super) fn set(&mut self, name: &ObjectName, claim: Option<&ClaimSpec>) -> Vec<ObjectName> {
        let new = claim.map(sum_of).unwrap_or_default();
        let old = if new == Sum::default() {
            self.sums.remove(name)
        } else {
            self.sums.insert(name.clone(), new.clone())
        };
        if old.unwrap_or_default() == new {
            return Vec::new();
        }
        self.users.get(name).into_iter().flatten().cloned().collect()
    }

    /// A pod uses these claims of its namespace.
    pub(super) fn add_user(&mut self, pod: &ObjectName, claims: &[Text]) {
        for claim in names(pod, claims) {
            self.users.entry(claim).or_default().insert(pod.clone());
        }
    }

    /// A pod no longer uses them.
    pub(super) fn remove_user(&mut self, pod: &ObjectName, claims: &[Text]) {
        for claim in names(pod, claims) {
            if let Some(users) = self.users.get_mut(&claim) {
                users.remove(pod);
                if users.is_empty() {
                    self.users.remove(&claim);
                }
            }
        }
    }

    /// What the claims of a pod stand for.
    pub(super) fn sum(&self, pod: &ObjectName, claims: &[Text]) -> Sum {
        let mut total = Sum::default();
        for claim in names(pod, claims) {
            if let Some(sum) = self.sums.get(&claim) {
                total.add(sum);
            }
        }
        total
    }
}

fn names(pod: &ObjectName, claims: &[Text]) -> impl Iterator<Item = ObjectName> {
    claims.iter().map(|claim| ObjectName { namespace: pod.namespace.clone(), name: claim.clone() })
}

fn sum_of(claim: &ClaimSpec) -> Sum {
    let mut sum = Sum::default();
    if claim.for_extended_resource {
        return sum; // the pod's own request counts it
    }
    for request in &claim.requests {
        let given = given(claim, request);
        let chosen = given.first().and_then(|name| {
            request.alternatives.iter().find(|one| one.name.as_deref() == Some(*name))
        });
        let Some(chosen) = chosen.or_else(|| request.alternatives.first()) else { continue };
        if chosen.admin_access || !chosen.class.to_ascii_lowercase().contains("gpu") {
            continue;
        }
        let count = if given.is_empty() { requested_count(chosen) } else { given.len() as i64 };
        sum.add_whole(&chosen.class, count);
    }
    sum
}

/// One entry per device that a request was given: the alternative it was given for.
fn given<'a>(claim: &'a ClaimSpec, request: &DeviceRequest) -> Vec<&'a str> {
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    let own = results.filter_map(|result| {
        let (name, alternative) = result.request.split_once('/').unwrap_or((&result.request, ""));
        (*name == *request.name).then_some(alternative)
    });
    own.collect()
}

fn requested_count(alternative: &DeviceAlternative) -> i64 {
    match alternative.count {
        DeviceCount::Exactly(count) => count.max(1),
        DeviceCount::All => 1,
    }
}
