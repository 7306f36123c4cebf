//! The list: KAI's end-to-end suites, case by case.

mod admission;
mod allocate;
mod api;
mod consolidation;
mod device_pools;
mod dra;
mod hierarchy;
mod integrations;
mod kubeflow;
mod no_claims;
mod numa;
mod placement;
mod predicates;
mod preempt;
mod reclaim;
mod services;
mod sets;
mod sharing;
mod sub_groups;
mod timeaware;
mod topology;
mod volumes;

use futures::future::LocalBoxFuture;

use crate::test_space::TestSpace;

/// What a case does with its test space.
pub type Run = for<'a> fn(&'a TestSpace) -> LocalBoxFuture<'a, anyhow::Result<()>>;

/// One case of the list.
#[derive(Clone, Copy)]
pub struct Case {
    /// KAI's suite that the case comes from.
    pub suite: &'static str,
    /// Behaviour that the case checks; the name in `suites.md`.
    pub name: &'static str,
    /// Runs the case in its test space.
    pub run: Run,
}

/// Why a server without `resource.k8s.io/v1` does not play cases with device claims.
pub const WITHOUT_CLAIMS: &str =
    "needs resource.k8s.io, which this server has in no version: pods with claims wait there";

/// A list of cases and their suite.
type Suite = (&'static str, &'static [(&'static str, Run)]);

/// The longest case runs first, so that no run ends with that case alone.
const EVERYWHERE: [Suite; 21] = [
    ("timeaware", timeaware::CASES),
    ("admission", admission::DEVICES),
    ("allocate", allocate::CASES),
    ("allocate", sub_groups::CASES),
    ("allocate", placement::CASES),
    ("allocate", predicates::CASES),
    ("allocate", hierarchy::CASES),
    ("allocate", sharing::CASES),
    ("allocate", topology::CASES),
    ("allocate", volumes::CASES),
    ("api", api::CASES),
    ("api", admission::POD_GROUPS),
    ("consolidation", consolidation::CASES),
    ("integrations", integrations::CASES),
    ("integrations", kubeflow::CASES),
    ("integrations", sets::CASES),
    ("integrations", services::CASES),
    ("numa", numa::CASES),
    ("preempt", preempt::CASES),
    ("reclaim", reclaim::CASES),
    ("reclaim", hierarchy::FAIRNESS),
];

const WITH_CLAIMS: [Suite; 5] = [
    ("allocate", dra::ALLOCATE),
    ("allocate", device_pools::CASES),
    ("consolidation", dra::CONSOLIDATION),
    ("preempt", dra::PREEMPT),
    ("reclaim", dra::RECLAIM),
];

/// Every case of every suite.
pub fn all() -> Vec<Case> {
    [of(&EVERYWHERE), with_claims()].concat()
}

/// Cases in which devices are claimed.
pub fn with_claims() -> Vec<Case> {
    of(&WITH_CLAIMS)
}

/// Every case that a server can carry on which no devices can be claimed, and what pods with claims do there.
pub fn without_claims() -> Vec<Case> {
    [of(&EVERYWHERE), of(&[("allocate", no_claims::CASES)])].concat()
}

fn of(suites: &[Suite]) -> Vec<Case> {
    let of_suite = |(suite, cases): &Suite| {
        let case = |(name, run): &(&'static str, Run)| Case { suite, name, run: *run };
        cases.iter().map(case).collect::<Vec<_>>()
    };
    suites.iter().flat_map(of_suite).collect()
}
