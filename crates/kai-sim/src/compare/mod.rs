//! Expectations against an outcome. The first difference is data that a person can act on.

mod devices;
mod places;
mod results;

use std::fmt;

use crate::format::{Call, CallLimits, Expectation};
use crate::outcome::{CycleOutcome, Event};
use crate::state::ClusterState;

/// One expectation that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What the expectation is about, such as `task a-0`.
    pub subject: String,
    /// Which property of it.
    pub property: String,
    /// Expected value, as text.
    pub expected: String,
    /// Value of the outcome, as text.
    pub actual: String,
}

impl Mismatch {
    /// An expectation about `property` of `subject` that did not hold.
    pub fn new(
        subject: impl Into<String>,
        property: impl Into<String>,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Self {
        Self {
            subject: subject.into(),
            property: property.into(),
            expected: expected.to_string(),
            actual: actual.to_string(),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, property, expected, actual } = self;
        write!(formatter, "{subject}: {property} expected {expected}, got {actual}")
    }
}

/// When a comparison was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At the end of this cycle, before anything advanced.
    DuringCycle(usize),
    /// After this cycle, when everything had advanced.
    AfterCycle(usize),
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuringCycle(cycle) => write!(formatter, "cycle {cycle}"),
            Self::AfterCycle(cycle) => write!(formatter, "after cycle {cycle}"),
        }
    }
}

/// The first mismatch of a run: when, what, and what the cycle had done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// When it was found.
    pub moment: Moment,
    /// Expectation that did not hold.
    pub mismatch: Mismatch,
    /// What the last cycle did.
    pub events: Vec<Event>,
}

/// Longer lists of events are cut; the first ones show what went wrong.
const EVENTS_SHOWN: usize = 12;

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.moment, self.mismatch)?;
        if self.events.is_empty() {
            write!(formatter, "\n  the cycle did nothing")?;
        }
        for event in self.events.iter().take(EVENTS_SHOWN) {
            write!(formatter, "\n  {event}")?;
        }
        if self.events.len() > EVENTS_SHOWN {
            write!(formatter, "\n  and {} more", self.events.len() - EVENTS_SHOWN)?;
        }
        Ok(())
    }
}

/// Compares everything in `expect` but the bounds on calls. `state` is the cluster the outcome began
/// with, `now_s` the time of the comparison.
pub fn states(
    expect: &Expectation,
    state: &ClusterState,
    outcome: &CycleOutcome,
    now_s: f64,
) -> Result<(), Mismatch> {
    results::check(expect, state, outcome, now_s)?;
    if expect.gpu_groups_checked {
        devices::check(expect, state, outcome)?;
    }
    places::check_nodes(expect, outcome)?;
    places::check_placements(expect, state, outcome)?;
    places::check_counts(expect, state, outcome)
}

/// Compares the calls of one cycle with their bounds.
pub fn calls(limits: CallLimits, events: &[Event]) -> Result<(), Mismatch> {
    let bounds = [
        (Call::Bind, limits.bind_max),
        (Call::Evict, limits.evict_max),
        (Call::Pipeline, limits.pipeline_max),
    ];
    for (call, bound) in bounds {
        let made = events.iter().filter(|event| event.call == call).count();
        if let Some(bound) = bound.filter(|&bound| made > bound) {
            let property = format!("{call} calls");
            return Err(Mismatch::new("cycle", property, format!("at most {bound}"), made));
        }
    }
    Ok(())
}

/// Amounts are sums of floating-point numbers, so equal means equal at the format's resolution.
fn same_amount(expected: f64, actual: f64) -> bool {
    (expected - actual).abs() < 1e-6 * expected.abs().max(1.0)
}

#[cfg(test)]
mod tests;
