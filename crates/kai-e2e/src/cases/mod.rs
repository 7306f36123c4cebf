//! The list: KAI's end-to-end suites, case by case.

mod admission;
mod allocate;
mod api;
mod consolidation;
mod dra;
mod hierarchy;
mod integrations;
mod kubeflow;
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

use crate::room::Room;

/// What a case does with its room.
pub type Run = for<'a> fn(&'a Room) -> LocalBoxFuture<'a, anyhow::Result<()>>;

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// KAI's suite.
    pub suite: &'static str,
    /// What must hold.
    pub name: &'static str,
    /// Plays it.
    pub run: Run,
}

/// Every case, in the order of KAI's suites.
pub fn all() -> Vec<Case> {
    let suites: [(&'static str, &[(&'static str, Run)]); 25] = [
        ("admission", admission::DEVICES),
        ("allocate", allocate::CASES),
        ("allocate", sub_groups::CASES),
        ("allocate", placement::CASES),
        ("allocate", predicates::CASES),
        ("allocate", hierarchy::CASES),
        ("allocate", sharing::CASES),
        ("allocate", topology::CASES),
        ("allocate", dra::ALLOCATE),
        ("allocate", volumes::CASES),
        ("api", api::CASES),
        ("api", admission::POD_GROUPS),
        ("consolidation", consolidation::CASES),
        ("consolidation", dra::CONSOLIDATION),
        ("integrations", integrations::CASES),
        ("integrations", kubeflow::CASES),
        ("integrations", sets::CASES),
        ("integrations", services::CASES),
        ("numa", numa::CASES),
        ("preempt", preempt::CASES),
        ("preempt", dra::PREEMPT),
        ("reclaim", reclaim::CASES),
        ("reclaim", dra::RECLAIM),
        ("reclaim", hierarchy::FAIRNESS),
        ("timeaware", timeaware::CASES),
    ];
    let of_suite = |(suite, cases): (&'static str, &[(&'static str, Run)])| {
        let case = |(name, run): &(&'static str, Run)| Case { suite, name, run: *run };
        cases.iter().map(case).collect::<Vec<_>>()
    };
    suites.into_iter().flat_map(of_suite).collect()
}
