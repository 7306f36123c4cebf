//! What each case should take, and what the reference scheduler takes on the same machine.

use kai_sim::bench::{Case, Family};

/// A time of the reference scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Reference {
    pub(super) seconds: f64,
    /// It was given up after that time, or had not ended.
    pub(super) at_least: bool,
}

/// The most milliseconds a cycle should take, where the size has a goal.
pub(super) fn target_ms(case: Case) -> Option<f64> {
    let milliseconds = match (case.family, case.size) {
        (Family::Allocate, 500) => 30.0,
        (Family::Gang, _) => 15.0,
        (Family::ReclaimLarge | Family::ReclaimNo, 500) => 50.0,
        (Family::ReclaimMany, 500) | (Family::Mixed, _) => 200.0,
        (Family::Consolidate, 500) => 500.0,
        (Family::Steady, 5000) => 0.3,
        (Family::Steady, 20_000) => 0.6,
        _ => return None,
    };
    Some(milliseconds)
}

/// What the reference scheduler takes, where that was measured.
pub(super) fn reference(case: Case) -> Option<Reference> {
    let ended = |seconds| Some(Reference { seconds, at_least: false });
    let gave_up = |seconds| Some(Reference { seconds, at_least: true });
    match (case.family, case.size) {
        (Family::Allocate, 500) => ended(3.3),
        (Family::Allocate, 1000) => ended(12.2),
        (Family::ReclaimLarge, 500) => ended(10.6),
        (Family::ReclaimMany, 500) => ended(159.0),
        (Family::ReclaimNo, 100) => gave_up(23.0),
        (Family::ReclaimNo, 500) => gave_up(124.0),
        (Family::Mixed, 60) => ended(201.0),
        (Family::Mixed, 51) => gave_up(25.0),
        _ => None,
    }
}

/// The most that instructions may grow by when the size doubles.
const MOST_GROWTH_PER_DOUBLING: f64 = 2.1;

/// The most that instructions may grow by from the size below, where that has a goal.
pub(super) fn most_growth(case: Case) -> Option<f64> {
    let times_the_size_below: f64 = match case.size {
        1000 => 2.0,
        5000 => 5.0,
        20_000 => 4.0,
        _ => return None,
    };
    Some(MOST_GROWTH_PER_DOUBLING.powf(times_the_size_below.log2()))
}
