//! Every part of an expectation, met and not met.

use serde_json::{Value, json};

use super::*;
use crate::run::Planner;
use crate::scripted::{Decision, ScriptedPlanner, bind, bind_shared, scenario};

fn cluster() -> Value {
    let half = json!({"request": {"cpu_milli": 500, "gpu": {"fraction": 0.5}}});
    json!({
        "nodes": [
            {"name": "node0", "allocatable": {"gpus": 2}, "labels": {"rack": "a"}},
            {"name": "node1", "allocatable": {"gpus": 2}, "labels": {"rack": "b"}}
        ],
        "queues": [{"name": "team"}, {"name": "other"}],
        "jobs": [
            {"name": "run", "queue": "team", "tasks": [
                {"status": "Running", "node": "node0", "gpu_groups": ["x"],
                 "request": {"gpu": {"fraction": 0.5}}}
            ]},
            {"name": "pair", "queue": "team", "tasks": [half, half]},
            {"name": "wait", "queue": "other", "tasks": [{"request": {"gpu": {"count": 3}}}]}
        ]
    })
}

/// The mismatch between `expect` and a cycle that makes `decisions`.
fn mismatch(decisions: Vec<Decision>, expect: &Value) -> Option<String> {
    let scenario = scenario(&cluster(), &json!({"mode": "cycle"}), expect);
    let state = ClusterState::from_scenario(&scenario).unwrap();
    let mut planner = ScriptedPlanner::new([decisions]);
    planner.fit_errors = "\nNoCapacity.\nno capacity.".to_owned();
    let outcome = planner.cycle(&state, &state.config.actions, 0.0).unwrap();
    let expect = scenario.expect.as_ref().unwrap();
    states(expect, &state, &outcome, 0.0).err().map(|mismatch| mismatch.to_string())
}

fn both_on(first: &'static str, second: &'static str) -> Vec<Decision> {
    vec![bind_shared("pair-0", first, "x"), bind_shared("pair-1", second, "y")]
}

#[track_caller]
fn assert_met(expect: &Value) {
    assert_eq!(mismatch(both_on("node0", "node0"), expect), None);
}

#[track_caller]
fn assert_broken(expect: &Value, text: &str) {
    assert_eq!(mismatch(both_on("node0", "node0"), expect).as_deref(), Some(text));
}

#[test]
fn status_and_node_hold_for_every_task() {
    assert_met(&json!({"jobs": {"pair": {"status": "Binding", "node": "node0"}}}));
    assert_broken(
        &json!({"jobs": {"wait": {"status": "Binding", "node": "node1"}}}),
        "task wait-0: status expected Binding on node1, got Pending",
    );
    let apart = mismatch(
        both_on("node0", "node1"),
        &json!({"jobs": {"pair": {"status": "Binding", "node": "node0"}}}),
    );
    assert_eq!(apart.as_deref(), Some("task pair-1: node expected node0, got node1"));
}

#[test]
fn results_must_name_something_that_exists() {
    assert_broken(
        &json!({"jobs": {"missing": {"status": "Pending"}}}),
        "job missing: existence expected a job, got none",
    );
    assert_broken(
        &json!({"tasks": {"missing-0": {"status": "Pending"}}}),
        "task missing-0: existence expected a task, got none",
    );
}

#[test]
fn sums_are_over_the_tasks_of_the_result() {
    let sums = |devices: f64, cpu_milli: f64| {
        json!({"jobs": {"pair": {"status": "Binding", "gpus_requested": devices,
            "cpu_milli_requested": cpu_milli, "memory_bytes_requested": 2e9}}})
    };
    assert_met(&sums(1.0, 1000.0));
    assert_broken(&sums(0.5, 1000.0), "job pair: devices requested expected 0.5, got 1");
    assert_broken(&sums(1.0, 500.0), "job pair: millicores requested expected 500, got 1000");
    assert_met(&json!({"tasks": {"pair-1": {"status": "Binding", "gpus_requested": 0.5}}}));
}

#[test]
fn a_start_may_have_to_be_old_enough() {
    let start = |least_s: f64| json!({"jobs": {"run": {"status": "Running", "started_at_least_s_ago": least_s}}});
    assert_met(&start(60.0));
    assert_broken(&start(61.0), "job run: start time expected at least 61 s ago, got 60 s ago");
    assert_broken(
        &json!({"jobs": {"wait": {"status": "Pending", "started_at_least_s_ago": 0}}}),
        "job wait: start time expected one, got none",
    );
}

#[test]
fn fit_errors_are_compared_exactly_and_messages_by_content() {
    assert_met(&json!({
        "jobs": {"wait": {"status": "Pending", "error_message": "\nNoCapacity.\nno capacity."}},
        "messages": {"wait": ["no capacity", "NoCapacity"]}
    }));
    assert_broken(
        &json!({"messages": {"wait": ["no rain"]}}),
        r#"job wait: fit error expected one that contains "no rain", got "NoCapacity.\nno capacity.""#,
    );
    let exact = json!({"jobs": {"wait": {"status": "Pending", "error_message": "no capacity"}}});
    assert!(mismatch(Vec::new(), &exact).unwrap().contains("fit errors expected \"no capacity\""));
}

fn groups(run: &str, first: &str, second: &str) -> Value {
    json!({
        "jobs": {"run": {"status": "Running", "gpu_groups": [run]}},
        "tasks": {
            "pair-0": {"status": "Binding", "gpu_groups": [first]},
            "pair-1": {"status": "Binding", "gpu_groups": [second]}
        }
    })
}

#[test]
fn device_labels_are_a_renaming_on_each_node() {
    assert_met(&groups("a", "a", "b"));
    assert_broken(
        &groups("a", "b", "b"),
        "node node0: shared devices expected equal labels for equal devices and different ones for \
         different devices, got run-0 a is x, pair-0 b is x, pair-1 b is y",
    );
    assert!(mismatch(both_on("node0", "node0"), &groups("a", "a", "a")).is_some());
    // On another node the same label is another device.
    assert_eq!(mismatch(both_on("node0", "node1"), &groups("a", "a", "a")), None);
    let mut unchecked = groups("a", "b", "b");
    unchecked["gpu_groups_checked"] = json!(false);
    assert_met(&unchecked);
}

#[test]
fn several_devices_of_a_task_may_be_listed_in_any_order() {
    let mut cluster = cluster();
    let two = json!({"request": {"gpu": {"fraction": 0.5, "devices": 2}}});
    cluster["jobs"][1]["tasks"] = json!([two, two]);
    let expect = |first: [&str; 2], second: [&str; 2]| {
        let expect = json!({"tasks": {
            "pair-0": {"status": "Running", "gpu_groups": first},
            "pair-1": {"status": "Running", "gpu_groups": second},
        }});
        let mut cluster = cluster.clone();
        for (task, groups) in [["x", "y"], ["z", "x"]].iter().enumerate() {
            let task = &mut cluster["jobs"][1]["tasks"][task];
            task["status"] = json!("Running");
            task["node"] = json!("node0");
            task["gpu_groups"] = json!(groups);
        }
        let scenario = scenario(&cluster, &json!({"mode": "cycle"}), &expect);
        let state = ClusterState::from_scenario(&scenario).unwrap();
        let outcome = ScriptedPlanner::default().cycle(&state, &[], 0.0).unwrap();
        states(scenario.expect.as_ref().unwrap(), &state, &outcome, 0.0).is_ok()
    };
    assert!(expect(["a", "b"], ["a", "c"]));
    assert!(expect(["a", "b"], ["c", "b"]));
    assert!(!expect(["a", "b"], ["c", "d"]));
    assert!(!expect(["a", "b"], ["b", "a"]));
}

#[test]
fn nodes_are_compared_exactly() {
    assert_met(&json!({"nodes": {"node0": {"idle_gpus": 2, "releasing_gpus": 0}}}));
    assert_broken(
        &json!({"nodes": {"node0": {"idle_gpus": 1}}}),
        "node node0: idle devices expected 1, got 2",
    );
    assert_broken(
        &json!({"nodes": {"node0": {"numa_available": {"0": {"cpu_milli": 1}}}}}),
        "node node0: cpu_milli available in zone 0 expected 1, got no such zone",
    );
}

#[test]
fn placements_are_sets_of_label_values_and_nodes() {
    let placed = |part: Value| {
        let mut placement = json!({"job": "pair", "label": "rack"});
        placement.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        mismatch(both_on("node0", "node1"), &json!({"placements": [placement]}))
    };
    assert_eq!(placed(json!({"values": ["b", "a"], "nodes": ["node1", "node0"]})), None);
    assert_eq!(placed(json!({"values_subset_of": ["a", "b", "c"], "distinct_values": 2})), None);
    let broken = [
        (json!({"values": ["a"]}), "job pair: rack expected a, got a, b"),
        (json!({"values_subset_of": ["a"]}), "job pair: rack expected only a, got a, b"),
        (json!({"distinct_values": 1}), "job pair: rack expected 1 different values, got a, b"),
        (json!({"nodes": ["node0"]}), "job pair: nodes expected node0, got node0, node1"),
    ];
    for (part, text) in broken {
        assert_eq!(placed(part).as_deref(), Some(text));
    }
}

#[test]
fn counts_are_of_tasks_with_a_status_and_an_owner() {
    assert_met(&json!({"counts": [
        {"status": "Binding", "equals": 2},
        {"status": "Binding", "job": "pair", "node": "node0", "at_least": 2, "at_most": 2},
        {"status": "Pending", "queue": "team", "equals": 0},
        {"status": "Pending", "queue": "other", "equals": 1}
    ]}));
    assert_broken(
        &json!({"counts": [{"status": "Binding", "queue": "team", "at_most": 1}]}),
        "tasks of queue team: number that are Binding expected at most 1, got 2",
    );
}

#[test]
fn calls_are_bounded_from_above() {
    let limits = CallLimits { bind_max: Some(1), ..CallLimits::default() };
    let scenario = scenario(&cluster(), &json!({"mode": "cycle"}), &json!({}));
    let state = ClusterState::from_scenario(&scenario).unwrap();
    let mut planner =
        ScriptedPlanner::new([vec![bind("pair-0", "node0")], both_on("node0", "node0")]);
    let mut next = || planner.cycle(&state, &state.config.actions, 0.0).unwrap().events;
    assert_eq!(calls(limits, &next()), Ok(()));
    assert!(calls(limits, &next()).is_err());
}
