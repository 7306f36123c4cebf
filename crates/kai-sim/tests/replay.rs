//! Judges the judge: what the reference scheduler was recorded to do must satisfy every expectation of
//! every recorded scenario, and the runner must arrive at the recorded states between cycles.

use kai_sim::format::{Scenario, Status};
use kai_sim::replay::ReplayPlanner;
use kai_sim::run::{Planner, RunOptions};
use kai_sim::shared::SharedFolder;
use kai_sim::suite::{Settings, Verdict, discover, run_files};

const RECORDED: usize = 456;
const WITH_EXPECTATIONS: usize = 452;

/// A replay holds on to its record, so the record lives as long as the test.
fn replay_planner(scenario: &Scenario) -> Box<dyn Planner> {
    let reference = scenario.reference.clone().expect("recorded scenarios have a reference");
    Box::new(ReplayPlanner::new(Box::leak(Box::new(reference))))
}

#[test]
fn recorded_outcomes_satisfy_their_own_expectations() {
    let Some(shared) = SharedFolder::find_or_skip("replay of recorded scenarios") else { return };
    let found = discover(&[shared.recorded()]);
    assert_eq!(found.files.len(), RECORDED);
    let settings = Settings { options: RunOptions { strict: true }, ..Settings::default() };
    let suite = run_files(found, &settings, replay_planner, &());

    let failures: Vec<_> = suite
        .scenarios
        .iter()
        .filter_map(|scenario| match &scenario.verdict {
            Verdict::Failed(difference) => Some(format!("{}: {difference}", scenario.id)),
            Verdict::Passed | Verdict::WithoutExpectations => None,
        })
        .collect();
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!(suite.errors, []);
    assert_eq!(suite.passed(), WITH_EXPECTATIONS);
    assert_eq!(suite.without_expectations(), RECORDED - WITH_EXPECTATIONS);
}

/// A record in which every task ends the last cycle in a state no scheduler leaves it in.
fn falsified_planner(scenario: &Scenario) -> Box<dyn Planner> {
    let mut reference = scenario.reference.clone().expect("recorded scenarios have a reference");
    let first = reference.cycles[0].tasks.clone();
    let last = reference.cycles.last_mut().expect("a record has cycles");
    for (name, mut task) in first {
        task.status = Status::Unknown;
        last.changed_tasks.insert(name, task);
    }
    Box::new(ReplayPlanner::new(Box::leak(Box::new(reference))))
}

#[test]
fn falsified_records_are_found_out() {
    let Some(shared) = SharedFolder::find_or_skip("replay of falsified records") else { return };
    let files = discover(&[shared.recorded()]);
    let suite = run_files(files, &Settings::default(), falsified_planner, &());
    let names_a_state = |id: &str| {
        let text = std::fs::read_to_string(shared.recorded().join(format!("{id}.json"))).unwrap();
        let expect = Scenario::from_json(&text).unwrap().expect.unwrap_or_default();
        !expect.jobs.is_empty() || !expect.tasks.is_empty() || !expect.counts.is_empty()
    };
    let believed: Vec<_> = suite
        .scenarios
        .iter()
        .filter(|scenario| scenario.verdict == Verdict::Passed && names_a_state(&scenario.id))
        .map(|scenario| &scenario.id)
        .collect();
    assert_eq!(believed, Vec::<&String>::new());
    assert!(suite.failed() > RECORDED * 9 / 10);
}
