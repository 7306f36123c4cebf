//! Manifests in, pod groups out: every kind, from files under `golden/`.
//!
//! A case has a pod, its owners (its own first), other objects of the cluster, and what is expected. The runner plays the cluster:
//! it answers what the rules ask for from `cluster`, and counts the rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kai_api::view::Pod;
use kai_workloads::config::KindDefaults;
use kai_workloads::object::Object;
use kai_workloads::write::planned_group;
use kai_workloads::{Decision, Facts, GrouperConfig, Need, PodGroupPlan, group_pod};
use serde::Deserialize;
use serde_json::{Value, json};

macro_rules! golden {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(concat!(stringify!($name), ".yaml"), include_str!(concat!("golden/", stringify!($name), ".yaml")));
            }
        )*

        const FILES: &[&str] = &[$(include_str!(concat!("golden/", stringify!($name), ".yaml"))),*];
    };
}

golden! {
    common
    deployment
    grove
    job
    jobset
    karta
    knative
    kubeflow
    lws
    other_kinds
    pod
    pytorch
    ray
    skip_top_owner
    workload_api
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    #[serde(rename = "case")]
    title: String,
    #[serde(default)]
    config: Config,
    pod: Value,
    #[serde(default)]
    owners: Vec<Value>,
    #[serde(default)]
    cluster: Vec<Value>,
    #[serde(default)]
    priority_classes: Vec<String>,
    expect: Value,
}

#[derive(Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Config {
    queue_label_key: Option<String>,
    knative_gang: Option<bool>,
    karta: Option<bool>,
    job_gang_from_parallelism: Option<bool>,
    search_legacy_groups: Option<bool>,
    workload_api: Option<bool>,
    kind_defaults: Option<Value>,
}

impl Config {
    fn build(&self) -> GrouperConfig {
        let mut config = GrouperConfig::default();
        if let Some(key) = &self.queue_label_key {
            config.queue_label_key.clone_from(key);
        }
        config.knative_gang = self.knative_gang.unwrap_or(config.knative_gang);
        config.karta = self.karta.unwrap_or(config.karta);
        config.workload_api = self.workload_api.unwrap_or(config.workload_api);
        config.search_legacy_groups =
            self.search_legacy_groups.unwrap_or(config.search_legacy_groups);
        config.job_gang_from_parallelism =
            self.job_gang_from_parallelism.unwrap_or(config.job_gang_from_parallelism);
        if let Some(defaults) = &self.kind_defaults {
            config.kind_defaults =
                KindDefaults::parse(&defaults.to_string()).expect("defaults per kind");
        }
        config
    }
}

fn run(file: &str, text: &str) {
    let cases: Vec<Case> = serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{file}: {e}"));
    assert!(!cases.is_empty());
    let failures: Vec<String> = cases.iter().filter_map(|case| check(file, case)).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn check(file: &str, case: &Case) -> Option<String> {
    let got = outcome(case);
    let expected = case.expect.as_object().expect("expectations").clone();
    let wrong: Vec<String> = expected
        .into_iter()
        .filter(|(key, value)| got.get(key) != Some(value))
        .map(|(key, value)| {
            format!(
                "    {key}: expected {value}\n    {:>2$}  got {}",
                "",
                got.get(&key).unwrap_or(&Value::Null),
                key.len()
            )
        })
        .collect();
    let details = if wrong.iter().any(|line| line.contains("got null")) {
        format!("\n    all: {got:?}")
    } else {
        String::new()
    };
    (!wrong.is_empty()).then(|| format!("{file}: {}\n{}{details}", case.title, wrong.join("\n")))
}

/// Every value of every object of every case, replaced by values that make no sense there: whatever the answer, there is one, and it
/// is the same twice.
#[test]
fn mutilated_objects_get_an_answer() {
    let nonsense = [
        Value::Null,
        json!(-1),
        json!(i64::MAX),
        json!(i32::MAX),
        json!("x"),
        json!(""),
        json!([null]),
        json!({}),
    ];
    let mut runs = 0;
    for text in FILES {
        let cases: Vec<Case> = serde_saphyr::from_str(text).expect("cases");
        for case in cases {
            for place in places(&case.pod["metadata"], "") {
                for value in ["", "x", "-1", "0", "7", "2147483647", "9223372036854775807"] {
                    let mut broken = case.clone();
                    match broken.pod["metadata"].pointer_mut(&place) {
                        Some(Value::String(text)) if place != "/name" => value.clone_into(text),
                        _ => continue,
                    }
                    assert_eq!(
                        outcome(&broken),
                        outcome(&broken),
                        "{}: {place} = {value}",
                        case.title
                    );
                    runs += 1;
                }
            }
            let objects = case.owners.len() + case.cluster.len();
            for index in 0..objects {
                let places = places(object(&case, index), "");
                for place in places.iter().filter(|place| !place.starts_with("/metadata/name")) {
                    for value in &nonsense {
                        let mut broken = case.clone();
                        *object_mut(&mut broken, index).pointer_mut(place).expect("a place") =
                            value.clone();
                        assert_eq!(
                            outcome(&broken),
                            outcome(&broken),
                            "{}: {place} = {value}",
                            case.title
                        );
                        runs += 1;
                    }
                }
            }
        }
    }
    assert!(runs > 10_000, "{runs} runs");
}

fn object(case: &Case, index: usize) -> &Value {
    case.owners.get(index).unwrap_or_else(|| &case.cluster[index - case.owners.len()])
}

fn object_mut(case: &mut Case, index: usize) -> &mut Value {
    let owners = case.owners.len();
    if index < owners { &mut case.owners[index] } else { &mut case.cluster[index - owners] }
}

/// JSON pointers to everything below the top.
fn places(value: &Value, path: &str) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    let mut out = Vec::new();
    for (key, child) in children {
        let path = format!("{path}/{key}");
        out.push(path.clone());
        out.extend(places(child, &path));
    }
    out
}

/// What came out, in the words of the files.
fn outcome(case: &Case) -> BTreeMap<String, Value> {
    let config = case.config.build();
    let owners: Vec<Arc<Value>> =
        case.owners.iter().map(|owner| Arc::new(in_namespace(owner))).collect();
    let mut pod = read_pod(&case.pod);
    pod.metadata.owner_references =
        owners.first().map(|owner| Object::new(owner).reference()).into_iter().collect();
    let cluster: Vec<Value> = case.cluster.iter().map(in_namespace).collect();
    let mut facts = Facts { priority_classes: classes(case), ..Facts::default() };
    for rounds in 1..6 {
        match group_pod(&pod, &owners, &facts, &config) {
            Ok(Decision::Fetch(needs)) => {
                for need in needs {
                    answer(&mut facts, need, &cluster, &pod);
                }
            }
            Ok(Decision::Skip(reason)) => {
                return BTreeMap::from([("skip".to_owned(), json!(format!("{reason:?}")))]);
            }
            Err(error) => return BTreeMap::from([("error".to_owned(), json!(error.to_string()))]),
            Ok(Decision::Group(plan)) => {
                let mut out = describe(&plan, rounds);
                out.insert("alone".to_owned(), json!(plan.is_own_group_of(&pod)));
                return out;
            }
        }
    }
    panic!("{}: no end of questions", case.title);
}

fn classes(case: &Case) -> BTreeSet<String> {
    let shipped = ["train", "build-preemptible", "build", "inference"].map(str::to_owned);
    case.priority_classes.iter().cloned().chain(shipped).collect()
}

fn in_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    let cluster_scoped = object["kind"] == "Karta";
    let Some(metadata) = object["metadata"].as_object_mut() else { return object };
    if !cluster_scoped {
        metadata.entry("namespace").or_insert_with(|| json!("ns"));
    }
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    metadata.entry("uid").or_insert_with(|| json!(format!("{name}-uid")));
    object
}

fn read_pod(value: &Value) -> Pod {
    try_read_pod(value).expect("a pod")
}

fn try_read_pod(value: &Value) -> Option<Pod> {
    let mut value = in_namespace(value);
    if !value["spec"].is_object() {
        value["spec"] = json!({});
    }
    value["spec"]
        .as_object_mut()
        .expect("a spec")
        .entry("schedulerName")
        .or_insert_with(|| json!("kai-scheduler"));
    serde_json::from_value(value).ok()
}

fn answer(facts: &mut Facts, need: Need, cluster: &[Value], pod: &Pod) {
    match need {
        Need::Object(key) => {
            let found = cluster.iter().find(|object| {
                let view = Object::new(object);
                view.api_version() == key.api_version
                    && view.kind() == key.kind
                    && view.name() == key.name
                    && view.namespace() == key.namespace
            });
            facts.objects.insert(key, found.cloned());
        }
        Need::Pods(query) => {
            let pods =
                cluster.iter().filter(|object| object["kind"] == "Pod").filter_map(try_read_pod);
            let matches = |pod: &Pod| {
                query.labels.iter().all(|(key, value)| pod.label(key) == Some(value.as_str()))
            };
            let found = pods.chain([pod.clone()]).filter(matches).collect();
            facts.pods.insert(query, found);
        }
        Need::Kartas(gvk) => {
            let found =
                cluster.iter().filter(|object| object["kind"] == "Karta").cloned().collect();
            facts.kartas.insert(gvk, found);
        }
    }
}

fn describe(plan: &PodGroupPlan, rounds: usize) -> BTreeMap<String, Value> {
    let object = serde_json::to_value(planned_group(plan)).expect("JSON");
    let spec = &object["spec"];
    let mut out = BTreeMap::from([
        ("name".to_owned(), json!(plan.name)),
        ("namespace".to_owned(), json!(plan.namespace)),
        ("owner".to_owned(), json!(format!("{}/{}", plan.owner.kind, plan.owner.name))),
        ("queue".to_owned(), json!(plan.queue)),
        ("priorityClass".to_owned(), json!(plan.priority_class_name)),
        ("labels".to_owned(), json!(plan.labels)),
        ("annotations".to_owned(), json!(plan.annotations)),
        ("annotationKeys".to_owned(), json!(plan.annotations.keys().collect::<Vec<_>>())),
        ("podSubGroup".to_owned(), json!(plan.pod_sub_group)),
        ("rounds".to_owned(), json!(rounds)),
        (
            "notices".to_owned(),
            json!(plan.notices.iter().map(ToString::to_string).collect::<Vec<_>>()),
        ),
        ("ownerReference".to_owned(), object["metadata"]["ownerReferences"][0].clone()),
    ]);
    for field in
        ["minMember", "minSubGroup", "preemptibility", "preemptionDelay", "stalenessGracePeriod"]
    {
        out.insert(field.to_owned(), spec[field].clone());
    }
    out.insert("topology".to_owned(), json!(constraint(&spec["topologyConstraint"])));
    let groups = spec["subGroups"].as_array().into_iter().flatten();
    let groups: Vec<String> = groups.map(sub_group).collect();
    out.insert("subGroups".to_owned(), json!(groups));
    out
}

/// `name 2`, `name of 3`, `parent/name 2`, followed by the constraint.
fn sub_group(group: &Value) -> String {
    let name = group["name"].as_str().expect("a name");
    let name =
        group["parent"].as_str().map_or(name.to_owned(), |parent| format!("{parent}/{name}"));
    let minimum = match (group["minMember"].as_i64(), group["minSubGroup"].as_i64()) {
        (Some(members), None) => format!("{members}"),
        (None, Some(groups)) => format!("of {groups}"),
        both => panic!("{name} has minimums {both:?}"),
    };
    format!("{name} {minimum} {}", constraint(&group["topologyConstraint"])).trim_end().to_owned()
}

/// `topology required=level preferred=level`.
fn constraint(value: &Value) -> String {
    let text = |key: &str| value[key].as_str();
    let mut parts: Vec<String> = text("topology").into_iter().map(str::to_owned).collect();
    parts.extend(text("requiredTopologyLevel").map(|level| format!("required={level}")));
    parts.extend(text("preferredTopologyLevel").map(|level| format!("preferred={level}")));
    parts.join(" ")
}
