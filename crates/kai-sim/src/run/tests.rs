//! The three modes, driven by a script.

use serde_json::{Value, json};

use super::*;
use crate::compare::Moment;
use crate::scripted::{ScriptedPlanner, bind, evict, pipeline, scenario};

/// One running job and one that waits.
fn cluster() -> Value {
    json!({
        "nodes": [{"name": "node0", "allocatable": {"gpus": 1}}],
        "queues": [{"name": "team"}],
        "jobs": [
            {"name": "old", "queue": "team", "tasks": [
                {"status": "Running", "node": "node0", "gpu_groups": ["x"],
                 "request": {"gpu": {"fraction": 0.5}}}
            ]},
            {"name": "new", "queue": "team", "tasks": [{"request": {"gpu": {"count": 1}}}]}
        ]
    })
}

fn run_script(run_section: &Value, expect: &Value, planner: &mut ScriptedPlanner) -> RunResult {
    let scenario = scenario(&cluster(), run_section, expect);
    let state = ClusterState::from_scenario(&scenario).unwrap();
    run(&scenario, state, planner, RunOptions::default()).unwrap()
}

fn statuses(cycle: &CycleStates) -> Vec<Status> {
    cycle.values().map(|(status, _)| *status).collect()
}

#[test]
fn one_cycle_is_compared_live() {
    let mut planner = ScriptedPlanner::new([vec![bind("new-0", "node0")]]);
    let expect = json!({"jobs": {"new": {"status": "Binding", "node": "node0"}}});
    let result = run_script(&json!({"mode": "cycle"}), &expect, &mut planner);
    assert_eq!(result.difference, None);
    assert_eq!(result.cycles.len(), 1);
    assert_eq!(result.cycles[0]["new-0"], (Status::Binding, Some("node0".to_owned())));
}

#[test]
fn rounds_compare_what_settled_and_then_every_cycle() {
    // Reclaim in miniature: evict and nominate, place, rest.
    let script =
        [vec![evict("old-0", "node0"), pipeline("new-0", "node0")], vec![bind("new-0", "node0")]];
    let mut planner = ScriptedPlanner::new(script);
    let expect = json!({
        "jobs": {"old": {"status": "Pending"}, "new": {"status": "Running", "node": "node0"}},
        "calls_per_cycle": {"bind_max": 1, "evict_max": 1, "pipeline_max": 1}
    });
    let rounds = json!({"mode": "rounds", "before_check": 2, "after_check": 3});
    let result = run_script(&rounds, &expect, &mut planner);
    assert_eq!(result.difference, None);
    let states: Vec<_> = result.cycles.iter().map(statuses).collect();
    assert_eq!(states[0], [Status::Pipelined, Status::Releasing]);
    assert_eq!(states[1], [Status::Binding, Status::Pending]);
    assert_eq!(states[2..], vec![vec![Status::Running, Status::Pending]; 3]);
    assert_eq!(planner.times_s, [0.0; 5]);
}

#[test]
fn a_cycle_after_the_check_that_moves_anything_is_a_difference() {
    let script = [vec![], vec![pipeline("new-0", "node0")], vec![]];
    let mut planner = ScriptedPlanner::new(script);
    let expect = json!({"jobs": {"new": {"status": "Pending"}}});
    let rounds = json!({"mode": "rounds", "before_check": 1, "after_check": 2});
    let result = run_script(&rounds, &expect, &mut planner);
    let difference = result.difference.unwrap();
    assert_eq!(difference.moment, Moment::DuringCycle(2));
    assert_eq!(
        difference.to_string(),
        "cycle 2: task new-0: status expected Pending, got Pipelined on node0\n  \
         script: pipeline new-0 on node0"
    );
    assert_eq!(result.cycles.len(), 3, "the run goes on after a difference");
}

#[test]
fn calls_are_bounded_in_cycles_that_are_not_compared_too() {
    let mut planner = ScriptedPlanner::new([vec![bind("new-0", "node0")]]);
    let expect = json!({"calls_per_cycle": {"bind_max": 0}});
    let rounds = json!({"mode": "rounds", "before_check": 2, "after_check": 0});
    let difference = run_script(&rounds, &expect, &mut planner).difference.unwrap();
    assert_eq!(difference.moment, Moment::DuringCycle(1));
    assert_eq!(difference.mismatch.to_string(), "cycle: bind calls expected at most 0, got 1");
}

#[test]
fn fit_errors_of_the_last_cycle_are_compared_when_states_have_settled() {
    let mut planner = ScriptedPlanner::new([]);
    planner.fit_errors = "\nNoCapacity.\nno capacity.".to_owned();
    let expect = json!({
        "jobs": {"new": {"status": "Pending", "error_message": "\nNoCapacity.\nno capacity."}},
        "messages": {"new": ["no capacity"]}
    });
    let rounds = json!({"mode": "rounds", "before_check": 1, "after_check": 1});
    assert_eq!(run_script(&rounds, &expect, &mut planner).difference, None);
}

#[test]
fn devices_of_an_evicted_task_stay_as_they_were() {
    let scenario = scenario(&cluster(), &json!({"mode": "cycle"}), &json!({}));
    let mut state = ClusterState::from_scenario(&scenario).unwrap();
    let mut planner = ScriptedPlanner::new([vec![evict("old-0", "node0")]]);
    let actions = state.config.actions.clone();
    let outcome = planner.cycle(&state, &actions, 0.0).unwrap();
    advance::advance(&mut state, &outcome, advance::Clock::Frozen);
    let (job, task) = state.task("old-0").unwrap();
    assert_eq!((task.status, &task.node), (Status::Pending, &None));
    assert_eq!(task.gpu_groups, ["x"]);
    assert_eq!(job.started_at_s, None, "a job without allocated tasks has not started");
}

#[test]
fn a_job_that_is_kept_keeps_its_evicted_tasks() {
    let mut cluster = cluster();
    cluster["jobs"][0]["on_evict"] = json!("hold");
    let rounds = json!({"mode": "rounds", "before_check": 2, "after_check": 1});
    let expect = json!({"tasks": {"old-0": {"status": "Releasing", "node": "node0"}}});
    let scenario = scenario(&cluster, &rounds, &expect);
    let state = ClusterState::from_scenario(&scenario).unwrap();
    let mut planner = ScriptedPlanner::new([vec![evict("old-0", "node0")]]);
    let result = run(&scenario, state, &mut planner, RunOptions::default()).unwrap();
    assert_eq!(result.difference, None);
}

#[test]
fn a_timeline_moves_the_clock_and_lets_evicted_tasks_take_their_time() {
    let steps = json!([
        {"at_s": 10, "expect": {"tasks": {"old-0": {"status": "Releasing"}}}},
        {"at_s": 39, "expect": {"tasks": {"old-0": {"status": "Releasing"}}}},
        {"at_s": 40, "cycles": 2, "do": [{"set_task": {"task": "new-0", "status": "Succeeded"}}],
         "expect": {"tasks": {
            "old-0": {"status": "Running", "node": "node0", "started_at_least_s_ago": 0},
            "new-0": {"status": "Succeeded"}
         }}}
    ]);
    let mut scenario =
        scenario(&cluster(), &json!({"mode": "timeline", "steps": steps}), &json!({}));
    scenario.config.params.eviction_grace_s = Some(30.0);
    let state = ClusterState::from_scenario(&scenario).unwrap();
    let script = [vec![evict("old-0", "node0")], vec![], vec![bind("old-0", "node0")]];
    let mut planner = ScriptedPlanner::new(script);
    let result = run(&scenario, state, &mut planner, RunOptions::default()).unwrap();
    assert_eq!(result.difference, None);
    assert_eq!(planner.times_s, [10.0, 39.0, 40.0, 40.0]);
}

#[test]
fn a_planner_that_gives_up_ends_the_run() {
    let mut planner = ScriptedPlanner::new([vec![bind("missing-0", "node0")]]);
    let result = run_script(&json!({"mode": "cycle"}), &json!({}), &mut planner);
    assert_eq!(result.planner_error.unwrap().to_string(), "there is no task missing-0");
}
