//! States become objects, and changes of states become few changes of objects.

use kai_core::status::Status;
use serde_json::{Value, json};

use super::*;
use crate::scripted::scenario;

fn state(cluster: &Value) -> ClusterState {
    ClusterState::from_scenario(&scenario(cluster, &json!({"mode": "cycle"}), &json!({}))).unwrap()
}

fn cluster() -> Value {
    json!({
        "nodes": [
            {"name": "node0", "allocatable": {"gpus": 2, "extended": {"example.com/port": 3}},
             "conditions": {"Ready": "Unknown", "DiskPressure": "False", "PIDPressure": "True"}},
            {"name": "node1", "mig_strategy": "single"}
        ],
        "queues": [{"name": "team", "gpu": {"quota": 1, "over_quota_weight": 2}}],
        "jobs": [{"name": "job", "namespace": "ns", "queue": "team", "tasks": [
            {"bind_request": {"node": "node0", "gpu_groups": ["g"]}},
            {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]}
        ]}],
        "foreign_pods": [{"name": "other", "node": "node0"}],
        "pvcs": [{"name": "data", "phase": "Bound", "volume": "v"}],
        "resource_claims": [{"name": "c", "requests": [
            {"name": "r", "device_class": "gpu", "count": 2}
        ]}]
    })
}

fn pod<'a>(objects: &'a BTreeMap<ObjectKey, Object>, name: &str) -> &'a kai_core::input::PodSpec {
    let found = objects.values().find_map(|object| match object {
        Object::Pod(pod) if &*pod.name.name == name => Some(pod),
        _ => None,
    });
    found.expect("the pod was translated")
}

fn node<'a>(objects: &'a BTreeMap<ObjectKey, Object>, name: &str) -> &'a kai_core::input::NodeSpec {
    match &objects[&ObjectKey::Node(name.into())] {
        Object::Node(node) => node,
        other => panic!("no node: {other:?}"),
    }
}

#[test]
fn conditions_and_amounts_of_nodes_are_said_in_the_core_s_words() {
    let objects = objects(&state(&cluster()));
    let node0 = node(&objects, "node0");
    let conditions: Vec<_> = node0.bad_conditions.iter().map(|kind| &**kind).collect();
    assert_eq!(conditions, ["NotReady", "PIDPressure"]);
    assert_eq!(node0.allocatable.other, [("example.com/port".into(), 3000)]);
    let node1 = node(&objects, "node1");
    assert_eq!(&*node1.labels["nvidia.com/mig.strategy"], "single");
    assert_eq!(&*node1.labels["node-role.kubernetes.io/mig-enabled"], "true");
}

#[test]
fn a_binding_in_flight_is_known_by_its_request() {
    let objects = objects(&state(&cluster()));
    let bound = pod(&objects, "job-0");
    assert_eq!((bound.status, &bound.node), (Status::Pending, &None));
    let requests = objects.keys().filter(|key| matches!(key, ObjectKey::BindRequest(_)));
    assert_eq!(requests.count(), 1);
    let tolerations = &pod(&objects, "job-1").constraints.tolerations;
    assert_eq!((&tolerations[0].key, &tolerations[0].value), (&None, &None));
    assert_eq!(tolerations[1].value.as_deref(), Some("b"));
}

#[test]
fn only_what_changed_is_handed_over() {
    let mut later = state(&cluster());
    let before = objects(&later);
    assert_eq!(changes(&before, &before), []);
    later.foreign_pods.clear();
    later.jobs[0].tasks[1].status = crate::format::Status::Succeeded;
    let deltas = changes(&before, &objects(&later));
    assert_eq!(deltas.len(), 2);
    assert!(matches!(&deltas[0], Delta::Remove(ObjectKey::Pod(name)) if &*name.name == "other"));
    assert!(matches!(&deltas[1], Delta::Set(Object::Pod(pod)) if &*pod.name.name == "job-1"));
}

#[test]
fn the_core_accepts_translated_objects() {
    let mut planner = CorePlanner::default();
    assert!(planner.update(&state(&cluster())).is_ok());
}

#[test]
fn statuses_keep_their_names_and_back_offs_are_gates_in_documents() {
    for status in Status::ALL {
        let expected = match status {
            Status::BackingOff => Status::Gated,
            other => other,
        };
        assert_eq!(status_name(jobs::status_back(status)), format!("{expected:?}"));
    }
}

fn status_name(status: crate::format::Status) -> String {
    status.to_string()
}

#[test]
fn the_core_accepts_every_recorded_cluster() {
    let Some(shared) = crate::shared::SharedFolder::find_or_skip("recorded clusters") else {
        return;
    };
    let found = crate::suite::discover(&[shared.recorded()]);
    for file in found.files {
        let text = std::fs::read_to_string(&file.file).unwrap();
        let scenario = crate::format::Scenario::from_json(&text).unwrap();
        let state = ClusterState::from_scenario(&scenario).unwrap();
        let refused = CorePlanner::default().update(&state).err();
        assert_eq!(refused, None, "{}", file.default_id);
    }
}
