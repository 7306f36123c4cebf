//! The three modes of a run.

use super::advance::{Clock, advance, finish_evictions};
use super::{Explanation, Planner, PlannerError, RunOptions, RunResult};
use crate::compare::{self, Difference, Mismatch, Moment};
use crate::format::{CompatibilityChoice, Expectation, FormatError, Run, Scenario, Step};
use crate::outcome::{CycleOutcome, Event};
use crate::state::ClusterState;
use crate::strict::RecordedStates;

/// Why a run ended early.
enum Stop {
    Planner(PlannerError),
    Document(FormatError),
}

impl From<PlannerError> for Stop {
    fn from(error: PlannerError) -> Self {
        Self::Planner(error)
    }
}

impl From<FormatError> for Stop {
    fn from(error: FormatError) -> Self {
        Self::Document(error)
    }
}

/// One run under way.
pub(super) struct Runner<'a> {
    scenario: &'a Scenario,
    state: ClusterState,
    planner: &'a mut dyn Planner,
    now_s: f64,
    recorded: Option<RecordedStates<'a>>,
    last: CycleOutcome,
    result: RunResult,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        state: ClusterState,
        planner: &'a mut dyn Planner,
        options: RunOptions,
    ) -> Self {
        let reference = scenario.reference.as_ref();
        let comparable = reference.filter(|reference| options.strict && reference.stable);
        Self {
            scenario,
            state,
            planner,
            now_s: 0.0,
            recorded: comparable.map(RecordedStates::new),
            last: CycleOutcome::default(),
            result: RunResult::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<RunResult, FormatError> {
        let scenario = self.scenario;
        let ended = match &scenario.run {
            Run::Cycle => self.cycle_and_compare(),
            Run::Rounds { before_check, after_check } => self.rounds(*before_check, *after_check),
            Run::Timeline(steps) => self.timeline(steps),
        };
        match ended {
            Ok(()) => {}
            Err(Stop::Planner(error)) => self.result.planner_error = Some(error),
            Err(Stop::Document(error)) => return Err(error),
        }
        Ok(self.result)
    }

    /// What must hold at the end.
    fn expect(&self) -> Option<&'a Expectation> {
        self.chosen(self.scenario.expect.as_ref(), self.scenario.expect_kai.as_ref())
    }

    /// Of two expectations the one for the scheduler that runs.
    fn chosen<'e>(
        &self,
        right: Option<&'e Expectation>,
        kai: Option<&'e Expectation>,
    ) -> Option<&'e Expectation> {
        match self.state.config.params.compatibility {
            CompatibilityChoice::Right => right,
            CompatibilityChoice::Kai => kai.or(right),
        }
    }

    fn rounds(&mut self, before_check: u32, after_check: u32) -> Result<(), Stop> {
        for _ in 0..before_check {
            self.cycle()?;
            advance(&mut self.state, &self.last, Clock::Frozen);
        }
        self.look(self.expect())?;
        for _ in 0..after_check {
            self.cycle_and_compare()?;
            advance(&mut self.state, &self.last, Clock::Frozen);
        }
        Ok(())
    }

    fn timeline(&mut self, steps: &[Step]) -> Result<(), Stop> {
        for (index, step) in steps.iter().enumerate() {
            self.now_s = step.at_s.unwrap_or(self.now_s);
            for (position, operation) in step.operations.iter().enumerate() {
                let path = format!("run.steps[{index}].do[{position}]");
                self.state.carry_out(operation, self.now_s, &path)?;
            }
            let expect = self.chosen(step.expect.as_ref(), step.expect_kai.as_ref());
            for _ in 0..step.cycles {
                finish_evictions(&mut self.state, self.now_s);
                self.cycle()?;
                if let Some(expect) = expect {
                    self.check_calls(expect);
                }
                advance(&mut self.state, &self.last, Clock::Running { now_s: self.now_s });
            }
            if expect.is_some() {
                self.look(expect)?;
            }
        }
        if let Some(expect) = self.expect() {
            self.look(Some(expect))?;
        }
        Ok(())
    }

    /// One cycle, and the checks that hold for every cycle.
    fn cycle(&mut self) -> Result<(), Stop> {
        let actions = self.state.config.actions.clone();
        self.last = self.planner.cycle(&self.state, &actions, self.now_s)?;
        let states = self.last.tasks.iter();
        let states = states.map(|(name, task)| (name.clone(), (task.status, task.node.clone())));
        self.result.cycles.push(states.collect());
        self.keep_explanations();
        self.compare_with_record(self.moment());
        if let Some(expect) = self.expect() {
            self.check_calls(expect);
        }
        Ok(())
    }

    fn keep_explanations(&mut self) {
        let cycle = self.result.cycles.len();
        for (name, job) in self.last.jobs.iter().filter(|(_, job)| !job.explanation.is_empty()) {
            let explanation = Explanation { cycle, text: job.explanation.clone() };
            self.result.explanations.insert(name.clone(), explanation);
        }
    }

    fn cycle_and_compare(&mut self) -> Result<(), Stop> {
        self.cycle()?;
        if let Some(expect) = self.expect() {
            let compared = compare::states(expect, &self.state, &self.last, self.now_s);
            self.note(self.moment(), compared);
        }
        Ok(())
    }

    /// Compares the states as they have settled, without a cycle. Fit errors are those of the last
    /// cycle: without a cycle there are none.
    fn look(&mut self, expect: Option<&Expectation>) -> Result<(), Stop> {
        let mut settled = self.planner.cycle(&self.state, &[], self.now_s)?;
        for (name, job) in &mut settled.jobs {
            if let Some(last) = self.last.jobs.get(name) {
                job.fit_errors.clone_from(&last.fit_errors);
                job.task_fit_errors.clone_from(&last.task_fit_errors);
                job.explanation.clone_from(&last.explanation);
            }
        }
        settled.events.clone_from(&self.last.events);
        settled.wake_at_s = self.last.wake_at_s;
        self.last = settled;
        let moment = Moment::AfterCycle(self.result.cycles.len());
        self.compare_with_record(moment);
        if let Some(expect) = expect {
            let compared = compare::states(expect, &self.state, &self.last, self.now_s);
            self.note(moment, compared);
        }
        Ok(())
    }

    fn check_calls(&mut self, expect: &Expectation) {
        let compared = compare::calls(expect.calls_per_cycle, &self.last.events);
        self.note(self.moment(), compared);
    }

    fn moment(&self) -> Moment {
        Moment::DuringCycle(self.result.cycles.len())
    }

    fn note(&mut self, moment: Moment, compared: Result<(), Mismatch>) {
        if let Err(mismatch) = compared {
            let events = &self.last.events;
            self.result.difference.get_or_insert_with(|| difference(moment, mismatch, events));
        }
    }

    fn compare_with_record(&mut self, moment: Moment) {
        let Some(recorded) = &mut self.recorded else { return };
        if let Err(mismatch) = recorded.compare_next(&self.last) {
            let events = &self.last.events;
            let found = &mut self.result.recorded_difference;
            found.get_or_insert_with(|| difference(moment, mismatch, events));
        }
    }
}

fn difference(moment: Moment, mismatch: Mismatch, events: &[Event]) -> Difference {
    Difference { moment, mismatch, events: events.to_vec() }
}
