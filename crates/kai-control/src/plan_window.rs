//! When changes are planned: those that come together are planned together, and a change after a quiet time is planned almost at
//! once.

use kai_core::time::{Span, Timestamp};

/// The time from the end of a plan to the next one is at least as long as the plan took, within these bounds: a plan of a few changes
/// costs a fraction of a millisecond, and a long one must not follow another at once.
const SHORTEST_PAUSE: Span = Span { nanos: 5_000_000 };
const LONGEST_PAUSE: Span = Span { nanos: 20_000_000 };
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
            let latest = now.plus(LONGEST_PAUSE);
            self.end = Some(self.next_plan.max(now.plus(AFTER_QUIET)).min(latest));
        }
    }

    pub(crate) fn end(&self) -> Option<Timestamp> {
        self.end
    }

    /// A plan was made from `begin` to `end`.
    pub(crate) fn close(&mut self, begin: Timestamp, end: Timestamp) {
        let pause = end.since(begin).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        *self = Self { end: None, next_plan: end.plus(pause) };
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
    fn pause_after_a_plan_is_as_long_as_the_plan_within_bounds() {
        for (took, pause) in [(0, 5), (8, 8), (3000, 20)] {
            let mut window = PlanWindow::default();
            let end = 10_000 + took;
            window.close(ms(10_000), ms(end));
            assert_eq!(window.end(), None);
            window.open(ms(end + 1));
            assert_eq!(window.end(), Some(ms(end + pause)), "after a plan of {took} ms");
        }
    }

    #[test]
    fn change_at_the_end_of_the_pause_waits_for_the_shorter_window() {
        let mut window = PlanWindow::default();
        window.close(ms(1000), ms(1000));
        window.open(ms(1004));
        assert_eq!(window.end(), Some(ms(1006)));
    }

    #[test]
    fn clock_that_steps_back_postpones_no_plan() {
        let mut window = PlanWindow::default();
        window.close(ms(3_600_000), ms(3_600_000));
        window.open(ms(1000));
        assert_eq!(window.end(), Some(ms(1020)));
    }
}
