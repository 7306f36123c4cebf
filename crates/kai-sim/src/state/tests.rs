//! Defaults that depend on other parts of a document, and names that lead nowhere.

use serde_json::{Value, json};

use super::*;
use crate::format::{Amount, MigStrategy, Preemptibility, Status};

fn scenario(cluster: &Value, run: &Value) -> Scenario {
    let document = json!({
        "schema": "scenario/v1",
        "title": "a test",
        "config": {"actions": ["allocate"], "params": {"default_staleness_grace_s": 7}},
        "cluster": cluster,
        "run": run,
    });
    Scenario::from_json(&document.to_string()).unwrap()
}

fn resolve(cluster: &Value) -> Result<ClusterState, FormatError> {
    ClusterState::from_scenario(&scenario(cluster, &json!({"mode": "cycle"})))
}

fn small() -> Value {
    json!({
        "nodes": [{"name": "node0", "allocatable": {"gpus": 2}}],
        "queues": [{"name": "red"}, {"name": "blue", "gpu": {"quota": 1}}],
        "jobs": [
            {"name": "old", "queue": "red", "tasks": [{"status": "Running", "node": "node0"}]},
            {"name": "new", "queue": "blue", "priority": 100, "tasks": [{}, {}]}
        ]
    })
}

fn path_of_error(cluster: &Value) -> String {
    resolve(cluster).unwrap_err().path
}

#[test]
fn defaults_of_jobs_depend_on_position_and_tasks() {
    let state = resolve(&small()).unwrap();
    let (old, new) = (&state.jobs[0], &state.jobs[1]);
    assert_eq!((old.created_at_s, new.created_at_s), (-120.0, -60.0));
    assert_eq!((old.started_at_s, new.started_at_s), (Some(-60.0), None));
    assert_eq!(old.preemptibility, Preemptibility::Preemptible);
    assert_eq!(new.preemptibility, Preemptibility::NonPreemptible);
    assert_eq!(new.sub_groups.pod_sets[0].min_available, 2);
    assert_eq!(new.tasks[1].name, "new-1");
    assert_eq!(new.tasks[1].request.memory_bytes, 1_000_000_000);
}

#[test]
fn queues_without_parents_are_under_an_implicit_root() {
    let state = resolve(&small()).unwrap();
    let names: Vec<_> = state.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["default", "red", "blue"]);
    let (root, blue) = (&state.queues[0], &state.queues[2]);
    assert_eq!(root.gpu.over_quota_weight, -1.0);
    assert_eq!(root.gpu.quota, Amount::Unlimited);
    assert_eq!(blue.parent.as_deref(), Some("default"));
    assert_eq!(blue.created_at_s, 60.0);
    assert_eq!(blue.gpu.quota, Amount::Limited(1.0));
    assert_eq!(blue.gpu.over_quota_weight, 0.0);
    assert_eq!(blue.cpu_milli.quota, Amount::Unlimited);
    assert_eq!(blue.cpu_milli.over_quota_weight, 1.0);
}

#[test]
fn queues_are_taken_as_they_are_once_one_has_a_parent_or_no_root_is_wanted() {
    let mut cluster = small();
    cluster["implicit_root_queue"] = json!(false);
    assert_eq!(resolve(&cluster).unwrap().queues.len(), 2);

    let mut cluster = small();
    cluster["queues"] = json!([{"name": "red"}, {"name": "blue", "parent": "red"}]);
    assert_eq!(resolve(&cluster).unwrap().queues[0].parent, None);
}

#[test]
fn a_queue_with_the_name_of_the_root_is_the_root() {
    let mut cluster = small();
    cluster["queues"] = json!([{"name": "red"}, {"name": "blue"}, {"name": "default"}]);
    let state = resolve(&cluster).unwrap();
    assert_eq!(state.queues.len(), 3);
    assert_eq!(state.queue("red").unwrap().parent.as_deref(), Some("default"));
    assert_eq!(state.queue("default").unwrap().parent, None);
}

#[test]
fn labels_about_the_node_are_added_unless_written_or_unwanted() {
    let mut cluster = small();
    cluster["nodes"] = json!([
        {"name": "node0", "allocatable": {"gpus": 4}, "gpu_memory_mib": 40_960},
        {"name": "sliced", "allocatable": {"gpus": 100},
         "labels": {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "32768",
                    "nvidia.com/mig.strategy": "mixed"}},
        {"name": "bare", "allocatable": {"gpus": 8}, "gpu_labels": false}
    ]);
    let state = resolve(&cluster).unwrap();
    let [plain, sliced, bare] = &state.nodes[..] else { panic!("three nodes") };
    assert_eq!(plain.labels["kai.scheduler/type"], "node0");
    assert_eq!(plain.labels["nvidia.com/gpu.count"], "4");
    assert_eq!(plain.labels["nvidia.com/gpu.memory"], "40960");
    assert_eq!((plain.gpu_memory_mib, plain.gpu_memory_known), (40_960, true));
    assert_eq!(sliced.labels["nvidia.com/gpu.count"], "1");
    assert_eq!(sliced.gpu_memory_mib, 32_768);
    assert_eq!(sliced.mig_strategy, Some(MigStrategy::Mixed));
    assert!(!bare.labels.contains_key("nvidia.com/gpu.count"));
    assert!(!bare.gpu_memory_known);
}

#[test]
fn gates_and_bind_requests_decide_the_status_of_a_task_that_has_none() {
    let mut cluster = small();
    cluster["jobs"][1]["tasks"] = json!([
        {"gates": ["quota"]},
        {"bind_request": {"node": "node0", "gpu_groups": ["a"]}},
        {"bind_request": {"node": "node0", "phase": "failed"}}
    ]);
    let state = resolve(&cluster).unwrap();
    let tasks = &state.jobs[1].tasks;
    let statuses: Vec<_> = tasks.iter().map(|task| task.status).collect();
    assert_eq!(statuses, [Status::Gated, Status::Binding, Status::Pending]);
    assert_eq!(tasks[1].node.as_deref(), Some("node0"));
    assert_eq!(tasks[1].gpu_groups, ["a"]);
    assert_eq!(tasks[2].node, None);
}

#[test]
fn alternatives_of_node_affinity_include_what_always_holds() {
    let mut cluster = small();
    let demand = |key: &str| json!({"key": key, "op": "Exists"});
    cluster["jobs"][1]["tasks"] = json!([{
        "node_affinity": [demand("always")],
        "node_affinity_any": [[demand("one")], [], [demand("two")]]
    }]);
    let state = resolve(&cluster).unwrap();
    let keys: Vec<Vec<_>> = state.jobs[1].tasks[0]
        .node_affinity
        .iter()
        .map(|demands| demands.iter().map(|demand| demand.key.as_str()).collect())
        .collect();
    assert_eq!(keys, [vec!["always", "one"], vec![], vec!["always", "two"]]);
}

#[test]
fn settings_are_laid_over_the_profile() {
    let config = resolve(&small()).unwrap().config;
    assert_eq!(config.params.default_staleness_grace_s, 7.0);
    assert!(config.params.allow_consolidating_reclaim);
    assert_eq!(config.plugins.len(), 20);
    assert_eq!(config.search_budgets, None);
    assert_eq!(config.params.max_consolidation_preemptees, None);
}

#[test]
fn an_unknown_profile_is_an_error() {
    let mut scenario = scenario(&small(), &json!({"mode": "cycle"}));
    scenario.config.profile = Some("mine".to_owned());
    let error = ClusterState::from_scenario(&scenario).unwrap_err();
    assert_eq!(error.path, "config.profile");
    assert!(error.message.contains("expected `kai-test-default`"));
}

#[test]
fn names_that_lead_nowhere_are_errors_with_their_place() {
    let changes = [
        ("/jobs/0/queue", json!("green"), "cluster.jobs[0].queue"),
        ("/jobs/0/tasks/0/node", json!("node9"), "cluster.jobs[0].tasks[0].node"),
        ("/jobs/1/tasks/1", json!({"sub_group": "w"}), "cluster.jobs[1].tasks[1].sub_group"),
        (
            "/jobs/1/tasks/0",
            json!({"request": {"gpu": {"claims": ["c"]}}}),
            "cluster.jobs[1].tasks[0].request.gpu.claims[0]",
        ),
        ("/queues/1", json!({"name": "blue", "parent": "x"}), "cluster.queues[1].parent"),
        ("/queues/1", json!({"name": "blue", "parent": "blue"}), "cluster.queues[1].parent"),
        ("/nodes/0", json!({"name": ""}), "cluster.jobs[0].tasks[0].node"),
        ("/jobs/1/tasks/1", json!({"name": "old-0"}), "cluster.jobs[1].tasks[1].name"),
        ("/jobs/1/name", json!("old"), "cluster.jobs"),
    ];
    for (pointer, value, path) in changes {
        let mut cluster = small();
        *cluster.pointer_mut(pointer).unwrap() = value;
        assert_eq!(path_of_error(&cluster), path);
    }
}

#[test]
fn a_topology_that_does_not_exist_is_an_error_wherever_it_is_named() {
    let mut cluster = small();
    cluster["jobs"][1]["sub_groups"] = json!({
        "groups": [{"name": "g", "pod_sets": [
            {"name": "default", "min_available": 1, "topology": {"topology": "rack"}}
        ]}]
    });
    let place = "cluster.jobs[1].sub_groups.groups[0].pod_sets[0].topology.topology";
    assert_eq!(path_of_error(&cluster), place);
    cluster["topologies"] = json!([{"name": "rack", "levels": []}]);
    assert!(resolve(&cluster).is_ok());
}

#[test]
fn a_job_in_a_queue_with_children_is_fine() {
    let mut cluster = small();
    cluster["queues"] = json!([{"name": "red"}, {"name": "blue", "parent": "red"}]);
    assert!(resolve(&cluster).is_ok());
}

#[test]
fn operations_of_a_timeline_are_checked_before_anything_runs() {
    let wrong = [
        (json!([{"at_s": 5}, {"at_s": 4}]), "run.steps[1].at_s"),
        (json!([{"do": [{"delete_job": "x"}]}]), "run.steps[0].do[0]"),
        (json!([{"do": [{"set_task": {"task": "x", "status": "Failed"}}]}]), "run.steps[0].do[0]"),
        (json!([{"do": [{"add_node": {"name": "node0"}}]}]), "run.steps[0].do[0]"),
        (
            json!([{"do": [{"add_job": {"name": "x", "queue": "x", "tasks": []}}]}]),
            "run.steps[0].do[0].add_job.queue",
        ),
    ];
    for (steps, path) in wrong {
        let run = json!({"mode": "timeline", "steps": steps});
        let error = ClusterState::from_scenario(&scenario(&small(), &run)).unwrap_err();
        assert_eq!(error.path, path);
    }
}

#[test]
fn operations_change_the_state() {
    let run = json!({"mode": "timeline", "steps": [{"do": [
        {"remove_node": "node0"},
        {"add_node": {"name": "node1"}},
        {"set_node_labels": {"node": "node1", "labels": {"rack": "a"}}},
        {"add_job": {"name": "late", "queue": "red", "tasks": [{}]}},
        {"delete_job": "new"},
        {"set_queue": {"name": "green", "priority": 7}}
    ]}]});
    let scenario = scenario(&small(), &run);
    let mut state = ClusterState::from_scenario(&scenario).unwrap();
    let Run::Timeline(steps) = &scenario.run else { panic!("a timeline") };
    for operation in &steps[0].operations {
        state.carry_out(operation, 30.0, "here").unwrap();
    }
    assert_eq!(state.task("old-0").unwrap().1.status, Status::Failed);
    assert_eq!(state.task("old-0").unwrap().1.node, None);
    let node = state.node("node1").unwrap();
    assert_eq!(
        (node.labels["rack"].as_str(), node.labels["kai.scheduler/type"].as_str()),
        ("a", "node1")
    );
    assert_eq!(state.job("late").unwrap().created_at_s, 30.0);
    assert!(state.job("new").is_none());
    let green = state.queue("green").unwrap();
    assert_eq!((green.parent.as_deref(), green.created_at_s), (Some("default"), 30.0));
}
