//! When changes are planned: those that come together are planned together, and a change after a quiet time is planned almost at
//! once.

use kai_core::time::{Span, Timestamp};

/// Shortest time from a plan to the next one.
const BETWEEN_PLANS: Span = Span { nanos: 20_000_000 };
/// How long a change waits for others after a quiet time: the watches show the objects of one request one after another.
const AFTER_QUIET: Span = Span { nanos: 2_000_000 };

/// Collects changes until they are planned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanWindow {
    /// When the changes received so far are planned; none while no plan is due.
    end: Option<Timestamp>,
    /// Before that, no change is planned.
    next_plan: Timestamp,
}

impl PlanWindow {
    /// A plan is due: changes from now on are planned together with those that made it due.
    pub(crate) fn open(&mut self, now: Timestamp) {
        if self.end.is_none() {
            // A clock that stepped back must not postpone the plan.
            let latest = now.plus(BETWEEN_PLANS);
            self.end = Some(self.next_plan.max(now.plus(AFTER_QUIET)).min(latest));
        }
    }

    pub(crate) fn end(&self) -> Option<Timestamp> {
        self.end
    }

    /// A plan was made; it ended `now`.
    pub(crate) fn close(&mut self, now: Timestamp) {
        *self = Self { end: None, next_plan: now.plus(BETWEEN_PLANS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: i64) -> Timestamp {
        Timestamp { nanos: count * 1_000_000 }
    }

    #[test]
    fn change_after_a_quiet_time_waits_for_the_shorter_window() {
        let mut window = PlanWindow::default();
        assert_eq!(window.end(), None);
        window.open(ms(1000));
        window.open(ms(1001));
        assert_eq!(window.end(), Some(ms(1002)), "the first change decides");
    }

    #[test]
    fn changes_after_a_plan_wait_for_the_longer_window() {
        let mut window = PlanWindow::default();
        window.open(ms(1000));
        window.close(ms(1005));
        assert_eq!(window.end(), None);
        window.open(ms(1006));
        assert_eq!(window.end(), Some(ms(1025)));
        window.close(ms(1030));
        window.open(ms(1049));
        assert_eq!(window.end(), Some(ms(1051)));
    }

    #[test]
    fn clock_that_steps_back_postpones_no_plan() {
        let mut window = PlanWindow::default();
        window.close(ms(3_600_000));
        window.open(ms(1000));
        assert_eq!(window.end(), Some(ms(1020)));
    }
}
