//! Documents that are right, and what is said about those that are not.

use super::*;

/// A document with the smallest cluster, in which `place` is replaced by `with`.
fn document(place: &str, with: &str) -> String {
    let text = r#"{
        "schema": "scenario/v1",
        "title": "smallest",
        "config": {"actions": ["allocate"]},
        "cluster": {
            "nodes": [{"name": "node0"}],
            "queues": [{"name": "team"}],
            "jobs": [{"name": "job", "queue": "team", "tasks": [{}]}]
        },
        "run": {"mode": "cycle"}
    }"#;
    assert!(text.contains(place), "the document has no {place}");
    text.replace(place, with)
}

fn error_of(place: &str, with: &str) -> (String, String) {
    let error = Scenario::from_json(&document(place, with)).unwrap_err();
    (error.path, error.message)
}

#[test]
fn unknown_keys_are_errors_wherever_they_are() {
    let (path, message) = error_of("[{}]", r#"[{"colour": "red"}]"#);
    assert_eq!(path, "cluster.jobs[0].tasks[0].colour");
    assert!(message.starts_with("unknown field `colour`, expected one of `name`"), "{message}");

    let (path, _) = error_of(r#"{"mode": "cycle"}"#, r#"{"mode": "cycle", "speed": 1}"#);
    assert_eq!(path, "run.speed");

    let (path, _) = error_of(r#"["allocate"]}"#, r#"["allocate"], "params": {"speed": 1}}"#);
    assert_eq!(path, "config.params.speed");
}

#[test]
fn missing_and_mistyped_keys_are_errors_with_their_place() {
    let (path, message) = error_of(r#""queue": "team", "#, "");
    assert_eq!(path, "cluster.jobs[0]");
    assert!(message.starts_with("missing field `queue`"), "{message}");

    let (path, message) =
        error_of(r#"{"name": "team"}"#, r#"{"name": "team", "gpu": {"quota": "some"}}"#);
    assert_eq!(path, "cluster.queues[0].gpu.quota");
    assert!(message.contains(r#"expected a number of at least 0 or "unlimited""#), "{message}");

    let (path, message) = error_of(r#"["allocate"]"#, r#"["allocate", "dance"]"#);
    assert_eq!(path, "config.actions[1]");
    assert!(message.contains("expected one of `allocate`, `consolidation`"), "{message}");
}

#[test]
fn another_schema_is_an_error() {
    let (path, message) = error_of("scenario/v1", "scenario/v9");
    assert_eq!(path, "schema");
    assert!(message.contains("expected `scenario/v1`"), "{message}");
}

#[test]
fn text_after_the_document_is_an_error() {
    let text = document("smallest", "smallest") + " {}";
    assert!(Scenario::from_json(&text).unwrap_err().message.contains("trailing characters"));
}

#[test]
fn a_gpu_request_has_exactly_one_form() {
    let gpu = |form: &str| {
        let task = format!(r#"[{{"request": {{"gpu": {form}}}}}]"#);
        Scenario::from_json(&document("[{}]", &task))
            .map(|scenario| scenario.cluster.jobs[0].tasks[0].request.gpu.clone().unwrap())
            .map_err(|error| error.message)
    };
    assert_eq!(gpu(r#"{"count": 2}"#), Ok(GpuRequest::Count(2)));
    assert_eq!(
        gpu(r#"{"fraction": 0.5, "devices": 2}"#),
        Ok(GpuRequest::Fraction { fraction: 0.5, devices: 2 })
    );
    assert_eq!(gpu(r#"{"memory_mib": 50}"#), Ok(GpuRequest::Memory { mib: 50, devices: 1 }));
    for wrong in [
        "{}",
        r#"{"count": 1, "fraction": 0.5}"#,
        r#"{"count": 0}"#,
        r#"{"count": 1, "devices": 1}"#,
        r#"{"fraction": 0}"#,
        r#"{"fraction": 1.5}"#,
        r#"{"memory_mib": 1, "devices": 0}"#,
    ] {
        let message = gpu(wrong).unwrap_err();
        assert!(message.contains("expected") || message.contains("goes with"), "{message}");
    }
}

#[test]
fn devices_requested_are_counted_in_hundredths() {
    let third = GpuRequest::Fraction { fraction: 0.333, devices: 3 };
    assert_eq!(third.devices_requested(), 0.99);
    assert_eq!(GpuRequest::Memory { mib: 50, devices: 1 }.devices_requested(), 0.0);
}

#[test]
fn parts_of_a_unit_count_as_a_unit() {
    let text = document("[{}]", r#"[{"request": {"cpu_milli": 0.5, "memory_bytes": 1e9}}]"#);
    let request = Scenario::from_json(&text).unwrap().cluster.jobs[0].tasks[0].request.clone();
    assert_eq!((request.cpu_milli, request.memory_bytes), (1, 1_000_000_000));
}

#[test]
fn budgets_that_are_null_differ_from_absent_ones() {
    let budgets = |with: &str| {
        let config = format!(r#"["allocate"]{with}}}"#);
        let scenario = Scenario::from_json(&document(r#"["allocate"]}"#, &config)).unwrap();
        scenario.config.search_budgets
    };
    assert_eq!(budgets(""), BudgetSetting::Unsaid);
    assert_eq!(budgets(r#", "search_budgets": null"#), BudgetSetting::Unbounded);
    let bounds = BudgetLayer { job_s: Some(2.0), ..BudgetLayer::default() };
    assert_eq!(budgets(r#", "search_budgets": {"job_s": 2}"#), BudgetSetting::Bounds(bounds));
}

#[test]
fn keys_of_another_mode_are_errors() {
    for run in [
        r#"{"mode": "cycle", "before_check": 1}"#,
        r#"{"mode": "rounds", "steps": []}"#,
        r#"{"mode": "rounds", "before_check": 0}"#,
        r#"{"mode": "timeline"}"#,
    ] {
        let (path, _) = error_of(r#"{"mode": "cycle"}"#, run);
        assert_eq!(path, "run");
    }
    let rounds = document(r#"{"mode": "cycle"}"#, r#"{"mode": "rounds"}"#);
    let run = Scenario::from_json(&rounds).unwrap().run;
    assert!(matches!(run, Run::Rounds { before_check: 2, after_check: 5 }));
}

#[test]
fn an_error_inside_a_step_has_its_place() {
    let steps = r#"{"mode": "timeline", "steps": [{}, {"do": [{"add_job": {"name": "late"}}]}]}"#;
    let (path, _) = error_of(r#"{"mode": "cycle"}"#, steps);
    assert_eq!(path, "run.steps[1].do[0].add_job");
}

#[test]
fn a_bind_request_fails_for_good_at_its_limit() {
    let request = |failed_attempts, backoff_limit| BindRequest {
        node: "node0".to_owned(),
        phase: BindPhase::Failed,
        failed_attempts,
        backoff_limit,
        gpu_groups: Vec::new(),
    };
    assert!(request(1, None).has_failed());
    assert!(!request(1, Some(3)).has_failed());
    assert!(request(3, Some(3)).has_failed());
    assert!(!BindRequest { phase: BindPhase::Pending, ..request(3, Some(3)) }.has_failed());
}

#[test]
fn every_extension_is_understood() {
    let text = r#"{
        "schema": "scenario/v1",
        "title": "all extensions",
        "config": {"actions": ["allocate"], "params": {
            "gpu_memory_reserve_mib": 256, "whole_gpu_policy": "replica", "compatibility": "kai"}},
        "cluster": {
            "nodes": [{
                "name": "node0", "gpu_labels": false, "unschedulable": true,
                "allocatable": {"extended": {"example.com/port": 2}},
                "annotations": {"kai.scheduler/gpu-count": "2"}, "gpu_uuids_seen": ["GPU-1"],
                "taints": [{"key": "a", "effect": "NoExecute"}],
                "conditions": {"Ready": "Unknown"}, "whole_gpu_policy": "physical"
            }],
            "queues": [{"name": "team", "usage": {"gpu": 0.5}}],
            "jobs": [{"name": "job", "queue": "team", "last_eviction_ago_s": 5, "tasks": [{
                "request": {"extended": {"example.com/port": 1}},
                "node_selector": {"a": "b"}, "node_affinity_any": [[{"key": "a", "op": "Exists"}]],
                "pod_affinity": [{"topology_key": "t", "match_labels": {}, "namespaces": ["n"]}],
                "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
                "host_ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "ip": "10.0.0.1"}],
                "gates": ["g"], "config_maps": ["settings"], "nominated_node": "node0",
                "bind_request": {"node": "node0", "phase": "failed", "backoff_limit": 2}
            }]}],
            "pvcs": [{"name": "c", "phase": "Bound", "volume": "v", "owner": "job-0"}],
            "pvs": [{"name": "v", "node_affinity": [[{"key": "a", "op": "In", "values": ["b"]}]],
                     "claim": {"name": "c"}}],
            "storage_classes": [{"name": "s", "provisioner": "p",
                                 "binding_mode": "WaitForFirstConsumer"}],
            "csi_drivers": [{"name": "p", "storage_capacity": true}],
            "csi_capacities": [{"name": "k", "storage_class": "s", "capacity_bytes": 1e9}],
            "config_maps": [{"namespace": "n", "name": "settings"}],
            "foreign_pods": [{"name": "f", "node": "node0", "host_ports": [{"port": 80}]}],
            "disruption_budgets": [{"name": "d", "match_labels": {"a": "b"}, "allowed": 1}]
        },
        "run": {"mode": "cycle"}
    }"#;
    let scenario = Scenario::from_json(text).unwrap();
    let task = &scenario.cluster.jobs[0].tasks[0];
    assert_eq!(
        (task.host_ports[0].protocol, task.host_ports[0].ip.as_str()),
        (Protocol::Tcp, "0.0.0.0")
    );
    assert_eq!(scenario.cluster.queues[0].usage, Usage { gpu: 0.5, cpu: 0.0, memory: 0.0 });
    assert!(crate::state::ClusterState::from_scenario(&scenario).is_ok());
}
