//! Checks that what the planner counts agrees with a recount, and that the cluster keeps its rules: on a timer while nothing is
//! planned, when `/debug/check` asks, and in debug builds after every cycle.

use kai_core::check::{Severity, Violation, miscounts, violations};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::Planner;

/// Time between two checks.
const PERIOD: Span = seconds(300);

impl Planner {
    /// When the next check is due; none before everything is listed.
    pub fn check_at(&self) -> Option<Timestamp> {
        self.is_ready().then_some(self.check_at).flatten()
    }

    /// Checks where that is due and nothing is to be planned.
    pub fn check_if_due(&mut self, now: Timestamp) {
        match self.check_at {
            Some(due) if due <= now && !self.is_dirty() && self.is_ready() => {
                self.metrics.note_violations(&logged(violations(&self.world)));
                self.check_at = Some(now.plus(PERIOD));
            }
            None => self.check_at = Some(now.plus(PERIOD)),
            Some(_) => {}
        }
    }

    /// Everything that is wrong, one line each.
    pub(super) fn checked(&self) -> Vec<String> {
        violations(&self.world).iter().map(line).collect()
    }

    /// Ends a debug build whose counts a recount contradicts.
    pub(super) fn check_counts_in_debug_builds(&self) {
        if cfg!(debug_assertions) {
            let wrong = logged(miscounts(&self.world));
            debug_assert!(wrong.is_empty(), "the planner's counts are wrong: {}", lines(&wrong));
        }
    }
}

fn line(violation: &Violation) -> String {
    match violation.severity {
        Severity::Cluster => format!("cluster: {violation}"),
        Severity::Books => format!("planner: {violation}"),
    }
}

fn lines(violations: &[Violation]) -> String {
    violations.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Logs violations: what the cluster breaks can be the work of other schedulers, what the counts break is a fault of `kai`.
fn logged(violations: Vec<Violation>) -> Vec<Violation> {
    for violation in &violations {
        match violation.severity {
            Severity::Cluster => tracing::warn!(%violation, "the cluster breaks a rule"),
            Severity::Books => tracing::error!(%violation, "a count of the planner is wrong"),
        }
    }
    violations
}
