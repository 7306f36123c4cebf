//! Every check of a cluster has a fixture that it fails on: `fixtures/<check>.json` is laid over `fixtures/healthy.json`, of
//! which nothing is to be said.

use std::fs;
use std::path::PathBuf;

use kai_doctor::check::{Check, Scope};
use kai_doctor::cluster::{ClusterFacts, Expectations, LISTINGS, examine};
use kai_doctor::finding::{Finding, Findings};
use serde_json::{Map, Value, json};

fn fixture(name: &str) -> Value {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.json"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Objects of the same name replace each other; `without` names objects that are not there.
fn lay_over(base: &mut Map<String, Value>, over: &Value) {
    let id = |object: &Value| {
        let metadata = &object["metadata"];
        (metadata["namespace"].clone(), metadata["name"].clone())
    };
    for (part, new) in over.as_object().expect("an object") {
        match (part.as_str(), base.get_mut(part), new) {
            ("without", _, gone) => {
                for (part, names) in gone.as_object().expect("an object") {
                    let names = names.as_array().expect("names");
                    let objects = base[part].as_array_mut().expect("a list");
                    objects.retain(|object| !names.contains(&object["metadata"]["name"]));
                }
            }
            (_, Some(Value::Array(objects)), Value::Array(new)) => {
                objects.retain(|object| new.iter().all(|one| id(one) != id(object)));
                objects.extend(new.iter().cloned());
            }
            _ => {
                base.insert(part.clone(), new.clone());
            }
        }
    }
}

fn found(over: &Value) -> Findings {
    let Value::Object(mut facts) = fixture("healthy") else { panic!("an object") };
    let manifests = facts.remove("manifests").expect("what is installed");
    lay_over(&mut facts, over);
    let facts = ClusterFacts::read(Value::Object(facts)).expect("facts");
    let manifests = manifests.as_array().cloned().expect("objects");
    examine(&facts, &Expectations { manifests, ..Expectations::default() })
}

fn names(findings: &Findings) -> Vec<&'static str> {
    findings.findings.iter().map(|finding| finding.check.name()).collect()
}

#[test]
fn nothing_is_said_of_a_healthy_cluster() {
    assert_eq!(found(&json!({})).findings, []);
}

#[test]
fn every_check_fails_on_its_fixture() {
    for check in Check::all().filter(|check| check.scope() == Scope::Cluster) {
        let found = found(&fixture(check.name()));
        assert!(names(&found).contains(&check.name()), "{}: {found:#?}", check.name());
        for Finding { object, message, fix, .. } in &found.findings {
            assert!(!object.is_empty() && !message.is_empty() && !fix.is_empty(), "{found:#?}");
            assert!(!fix.contains('\n'), "a fix is one line: {fix}");
        }
    }
}

/// What guides for Jetson ask users to check, and the checks that cover it.
#[test]
fn the_troubleshooting_list_of_jetson_is_covered() {
    let list = [
        ("ERROR_LIBRARY_NOT_FOUND", "nvml-library-not-found"),
        ("the volume mount", "tegra-library-mount"),
        ("Driver Not Loaded", "nvml-driver-not-loaded"),
        ("Permission denied", "nvml-permission-denied"),
        ("privileged security context", "tegra-privileged"),
        ("/dev volume mount", "tegra-device-mount"),
        ("image pull errors", "image-missing"),
        ("imagePullPolicy", "pull-policy"),
        ("GPU memory label", "gpu-memory-label"),
        ("scheduler logs", "scheduler-silent"),
    ];
    for (entry, check) in list {
        assert!(names(&found(&fixture(check))).contains(&check), "{entry}");
    }
}

/// The failure that a user sees, the folder that is missing, and the one command that puts both right.
#[test]
fn jetson_without_its_library_is_advised_to_use_the_profile() {
    let found = found(&fixture("tegra-library-mount"));
    assert_eq!(names(&found), ["nvml-library-not-found", "tegra-library-mount"]);
    for finding in &found.findings {
        assert_eq!(finding.fix, "kubectl label node thor kai.scheduler/tegra=on --overwrite");
    }
    assert!(found.has_errors());
}

/// What `kai run` made of a node counts more than what its labels look like.
#[test]
fn the_schedulers_own_word_on_a_node_counts() {
    let node = |status: &str, reason: &str| {
        let mut over = fixture("gpu-memory-label");
        let condition =
            json!({"type": "kai.scheduler/GpusUnderstood", "status": status, "reason": reason});
        over["nodes"][0]["status"]["conditions"] = json!([condition]);
        found(&over)
    };
    assert_eq!(node("True", "Understood").findings, []);
    assert!(node("False", "GpuMemoryUnknown").has_errors());
}

#[test]
fn a_node_that_says_that_it_lacks_the_runtime_is_believed() {
    let name = fixture("gpu-memory-label")["nodes"][0]["metadata"]["name"].clone();
    let condition = json!({"type": "kai.scheduler/GpusFound", "status": "False", "reason": "RuntimeNotOnNode", "message": "why"});
    let node = json!({"metadata": {"name": name}, "status": {"conditions": [condition]}});
    let found = found(&json!({"nodes": [node]}));
    let mut findings = found.findings.iter();
    let finding = findings.find(|one| one.check == Check::RuntimeNotOnNode).expect("a finding");
    assert_eq!(
        (format!("Node {}", name.as_str().expect("a name")), "why"),
        (finding.object.clone(), finding.message.as_str())
    );
}

#[test]
fn a_namespace_must_allow_what_asking_the_kubelet_takes() {
    let mut over = fixture("pod-security");
    let Value::Object(healthy) = fixture("healthy") else { panic!("an object") };
    let names = |part: &str| -> Vec<Value> {
        let objects = healthy[part].as_array().expect("a list").iter();
        objects.map(|object| object["metadata"]["name"].clone()).collect()
    };
    over["without"] = json!({"nodes": names("nodes")});
    assert!(!self::names(&found(&over)).contains(&"pod-security"), "no pod needs more");
    let binder =
        json!({"resourceReservation": {"kubeletPodResources": "/var/lib/kubelet/pod-resources"}});
    over["configs"] = json!([{"metadata": {"name": "kai-config"}, "spec": {"binder": binder}}]);
    assert!(self::names(&found(&over)).contains(&"pod-security"));
}

/// The reservation pod is gone by then.
#[test]
fn failed_bind_reports_the_error_of_its_reservation_pod() {
    let waiting = json!({
        "metadata": {"name": "p", "namespace": "a", "annotations": {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p"}},
        "spec": {"schedulerName": "kai-scheduler"},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    });
    let event = json!({
        "involvedObject": {"kind": "Pod", "namespace": "a", "name": "p"},
        "reason": "FailedBinding",
        "message": "Failed to bind pod a/p to node gpu-1. failed to reserve GPUs: unable to initialize NVML: ERROR_LIBRARY_NOT_FOUND",
    });
    let over = json!({"pods": [waiting], "events": [event]});
    let found = found(&over);
    assert_eq!(names(&found), ["nvml-library-not-found"]);
    assert_eq!(found.findings[0].object, "Pod a/p");
    assert!(found.findings[0].fix.contains("nvidia-ctk runtime configure"), "{found:?}");
}

/// An unreadable list says nothing about its objects: the one finding is that it cannot be read.
#[test]
fn an_unreadable_list_is_not_taken_for_missing_objects() {
    let Value::Object(healthy) = fixture("healthy") else { panic!("an object") };
    for listing in LISTINGS {
        let names: Vec<Value> =
            healthy.get(listing.part).and_then(Value::as_array).map_or_else(Vec::new, |objects| {
                objects.iter().map(|object| object["metadata"]["name"].clone()).collect()
            });
        let mut over = json!({"unreadable": {listing.path: "forbidden"}});
        if !names.is_empty() {
            over["without"] = json!({listing.part: names});
        }
        let found = found(&over);
        assert_eq!(self::names(&found), ["unreadable"], "{}: {found:#?}", listing.path);
    }
}

#[test]
fn a_fix_names_a_deployment_only_where_there_is_one() {
    let fixes = |over: &Value| -> Vec<String> {
        found(over).findings.into_iter().map(|finding| finding.fix).collect()
    };
    let mut over = fixture("webhook-certificate");
    over["without"] = json!({"deployments": ["admission"]});
    assert!(fixes(&over).iter().all(|fix| fix.starts_with("kai run --only admission")));
    over["without"] = json!({});
    assert!(fixes(&over).iter().all(|fix| fix.contains("rollout restart deployment admission")));
}

#[test]
fn findings_have_the_documented_json_form() {
    let found = found(&fixture("unknown-queue"));
    let text = serde_json::to_value(&found).expect("JSON");
    let finding = &text["findings"][0];
    let keys: Vec<&String> = finding.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["check", "severity", "object", "message", "fix"]);
    assert_eq!(finding["check"], "unknown-queue");
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["object"], "Pod team-a/lost");
}
