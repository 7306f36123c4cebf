//! The definitions, the types and the list of our additions say the same.

mod shape;

use std::collections::{BTreeMap, BTreeSet};

use kai_api::crds::CRDS;
use kube::Resource;
use serde_json::Value;

const SURFACE: &str = include_str!("data/kai-surface.txt");
const ADDITIONS: &str = include_str!("../../../deploy/crds/README.md");

/// Kubernetes types that are embedded whole: the list of KAI's fields does not unfold them.
const EMBEDDED: [&str; 8] = [
    "affinity",
    "securityContext",
    "tolerations",
    "daemonsetsTolerations",
    "reservationPodSecurityContext",
    "reservationContainerSecurityContext",
    "allocation",
    "deviceRequests",
];

fn definitions() -> BTreeMap<String, Value> {
    CRDS.iter()
        .map(|(file, text)| {
            let crd: Value = serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{file}: {e}"));
            (crd["spec"]["names"]["kind"].as_str().expect("a kind").to_owned(), crd)
        })
        .collect()
}

fn schema<'a>(crd: &'a Value, part: &str) -> &'a Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
}

/// Path and type of every node of a schema.
fn unfold(node: &Value, path: &str, stop: &[&str], out: &mut BTreeMap<String, String>) {
    let kind = match node["type"].as_str() {
        _ if node["x-kubernetes-int-or-string"] == true => "int-or-string",
        _ if node["x-kubernetes-preserve-unknown-fields"] == true => "any",
        Some(kind) => kind,
        None => panic!("{path} has no type"),
    };
    out.insert(path.to_owned(), kind.to_owned());
    let last = path.rsplit('.').next().unwrap_or_default().trim_end_matches(['[', ']', '{', '}']);
    if stop.contains(&last) {
        return;
    }
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        unfold(child, &format!("{path}.{name}"), stop, out);
    }
    if node["items"].is_object() {
        unfold(&node["items"], &format!("{path}[]"), stop, out);
    }
    if node["additionalProperties"].is_object() {
        unfold(&node["additionalProperties"], &format!("{path}{{}}"), stop, out);
    }
}

fn compare<T: serde::de::DeserializeOwned>(crd: &Value, kind: &str, part: &str) {
    let mut file = BTreeMap::new();
    unfold(schema(crd, part), &format!("{kind}.{part}"), &[], &mut file);
    let types = shape::of::<T>(&format!("{kind}.{part}"));
    let differing: Vec<_> = file
        .keys()
        .chain(types.keys())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|path| file.get(*path) != types.get(*path))
        .map(|path| format!("{path}: file {:?}, type {:?}", file.get(path), types.get(path)))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn types_have_exactly_the_fields_of_the_files() {
    let crds = definitions();
    compare::<kai_api::queue::QueueSpec>(&crds["Queue"], "Queue", "spec");
    compare::<kai_api::queue::QueueStatus>(&crds["Queue"], "Queue", "status");
    compare::<kai_api::pod_group::PodGroupSpec>(&crds["PodGroup"], "PodGroup", "spec");
    compare::<kai_api::pod_group::PodGroupStatus>(&crds["PodGroup"], "PodGroup", "status");
    compare::<kai_api::bind_request::BindRequestSpec>(&crds["BindRequest"], "BindRequest", "spec");
    compare::<kai_api::bind_request::BindRequestStatus>(
        &crds["BindRequest"],
        "BindRequest",
        "status",
    );
    compare::<kai_api::topology::TopologySpec>(&crds["Topology"], "Topology", "spec");
    compare::<kai_api::shard::SchedulingShardSpec>(
        &crds["SchedulingShard"],
        "SchedulingShard",
        "spec",
    );
    compare::<kai_api::shard::SchedulingShardStatus>(
        &crds["SchedulingShard"],
        "SchedulingShard",
        "status",
    );
    compare::<kai_api::config::ConfigSpec>(&crds["Config"], "Config", "spec");
    compare::<kai_api::config::ConfigStatus>(&crds["Config"], "Config", "status");
}

#[test]
fn types_and_files_agree_on_names() {
    fn check<K: Resource<DynamicType = ()>>(crds: &BTreeMap<String, Value>, namespaced: bool) {
        let crd = &crds[K::kind(&()).as_ref()];
        assert_eq!(crd["spec"]["group"], K::group(&()).as_ref());
        assert_eq!(crd["spec"]["versions"][0]["name"], K::version(&()).as_ref());
        assert_eq!(crd["spec"]["versions"].as_array().unwrap().len(), 1);
        assert_eq!(crd["spec"]["names"]["plural"], K::plural(&()).as_ref());
        let scope = if namespaced { "Namespaced" } else { "Cluster" };
        assert_eq!(crd["spec"]["scope"], scope);
        assert_eq!(crd["metadata"]["name"], format!("{}.{}", K::plural(&()), K::group(&())));
    }
    let crds = definitions();
    check::<kai_api::Queue>(&crds, false);
    check::<kai_api::PodGroup>(&crds, true);
    check::<kai_api::BindRequest>(&crds, true);
    check::<kai_api::Topology>(&crds, false);
    check::<kai_api::SchedulingShard>(&crds, false);
    check::<kai_api::Config>(&crds, false);
    assert_eq!(crds["PodGroup"]["spec"]["names"]["shortNames"], serde_json::json!(["pg"]));
}

#[test]
fn files_are_kais_surface_and_the_listed_additions() {
    let kai: BTreeSet<&str> = SURFACE.lines().filter(|line| !line.starts_with('#')).collect();
    let mut ours = BTreeSet::new();
    let mut additions = BTreeSet::new();
    for (kind, crd) in definitions() {
        for part in ["spec", "status"] {
            if schema(&crd, part).is_null() {
                continue;
            }
            let mut nodes = BTreeMap::new();
            unfold(schema(&crd, part), &format!("{kind}.{part}"), &EMBEDDED, &mut nodes);
            ours.extend(nodes.into_iter().map(|(path, kind)| match kind.as_str() {
                "any" => format!("{path} object"),
                kind => format!("{path} {kind}"),
            }));
        }
        if !schema(&crd, "spec")["default"].is_null() {
            additions.insert(format!("{kind} default spec"));
        }
        for column in
            crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().into_iter().flatten()
        {
            if kind != "Queue" {
                additions.insert(format!("{kind} column {}", column["name"].as_str().unwrap()));
            }
        }
    }
    let missing: Vec<_> = kai.iter().filter(|line| !ours.contains(**line)).collect();
    assert!(missing.is_empty(), "fields of KAI that the files lack: {missing:#?}");
    additions.extend(
        ours.iter().filter(|line| !kai.contains(line.as_str())).map(|line| format!("field {line}")),
    );
    let listed: BTreeSet<String> =
        ADDITIONS.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect();
    assert_eq!(additions, listed);
}

#[test]
fn queue_columns_are_kais() {
    let crds = definitions();
    let columns: Vec<(&str, &str, &str)> =
        crds["Queue"]["spec"]["versions"][0]["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                (
                    column["name"].as_str().unwrap(),
                    column["type"].as_str().unwrap(),
                    column["jsonPath"].as_str().unwrap(),
                )
            })
            .collect();
    assert_eq!(
        columns,
        [
            ("Priority", "string", ".spec.priority"),
            ("Parent", "string", ".spec.parentQueue"),
            ("Children", "string", ".status.childQueues"),
            ("DisplayName", "string", ".spec.displayName"),
        ]
    );
}

/// Everything a schema demands of values, but types and the notation of quantities.
fn demands(node: &Value, path: &str, stop: &[&str], out: &mut Vec<String>) {
    let last = path.rsplit('.').next().unwrap_or_default().trim_end_matches(['[', ']', '{', '}']);
    if stop.contains(&last) {
        return;
    }
    let keys = ["required", "enum", "default", "minimum", "exclusiveMinimum", "maximum"];
    let keys = keys.iter().chain(&["minItems", "maxItems", "minLength", "maxLength", "pattern"]);
    for key in keys.filter(|key| !node[**key].is_null()) {
        if *key != "pattern" || node["x-kubernetes-int-or-string"] != true {
            out.push(format!("{path} {key} {}", node[*key]));
        }
    }
    for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
        out.push(format!("{path} rule {}", rule["message"]));
    }
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        demands(child, &format!("{path}.{name}"), stop, out);
    }
    for (inner, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if node[inner].is_object() {
            demands(&node[inner], &format!("{path}{sign}"), stop, out);
        }
    }
}

#[test]
fn what_is_demanded_of_values_is_what_kai_demands() {
    let name = r#"pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$""#;
    let label = r#"pattern "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$""#;
    let window = r#"pattern "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$""#;
    let expected: [(&str, Vec<String>); 5] = [
        ("Queue", vec!["spec default {}".into()]),
        (
            "PodGroup",
            [
                "spec default {}",
                "spec.minMember minimum 0",
                "spec.minSubGroup minimum 0",
                r#"spec.preemptibility enum ["preemptible","non-preemptible","semi-preemptible"]"#,
                r#"spec.subGroups[] required ["name"]"#,
                "spec.subGroups[].minMember minimum 0",
                "spec.subGroups[].minSubGroup minimum 0",
                "spec.subGroups[].name minLength 1",
                &format!("spec.subGroups[].name {name}"),
                &format!("spec.subGroups[].parent {name}"),
            ]
            .map(str::to_owned)
            .into(),
        ),
        (
            "BindRequest",
            [
                "spec default {}",
                r#"spec.extendedResourceClaimAllocation.containerMappings[] required ["containerName","requestName","resourceName"]"#,
                r#"spec.predictedNUMAZones[] required ["amount","zone"]"#,
            ]
            .map(str::to_owned)
            .into(),
        ),
        (
            "Topology",
            [
                r#"spec required ["levels"]"#,
                "spec.levels minItems 1",
                "spec.levels maxItems 16",
                r#"spec.levels rule "nodeLabel structure is immutable; only aliases may be edited""#,
                r#"spec.levels rule "nodeLabel must be unique""#,
                r#"spec.levels rule "the kubernetes.io/hostname label can only be used at the lowest level of topology""#,
                r#"spec.levels[] required ["nodeLabel"]"#,
                "spec.levels[].alias minLength 1",
                "spec.levels[].alias maxLength 316",
                &format!("spec.levels[].alias {label}"),
                "spec.levels[].nodeLabel minLength 1",
                "spec.levels[].nodeLabel maxLength 316",
                &format!("spec.levels[].nodeLabel {label}"),
            ]
            .map(str::to_owned)
            .into(),
        ),
        (
            "SchedulingShard",
            [
                "spec default {}",
                "spec.goMemLimitRatio minimum 0",
                "spec.goMemLimitRatio exclusiveMinimum true",
                "spec.goMemLimitRatio maximum 1",
                r#"spec.usageDBConfig required ["clientType"]"#,
                &format!("spec.usageDBConfig.usageParams.windowSize {window}"),
            ]
            .map(str::to_owned)
            .into(),
        ),
    ];
    let crds = definitions();
    for (kind, wanted) in expected {
        let mut found = Vec::new();
        demands(schema(&crds[kind], "spec"), "spec", &EMBEDDED, &mut found);
        assert_eq!(found, wanted, "{kind}");
    }
}

/// An object with every field of the schema, of the type the schema gives it.
fn full_object(node: &Value) -> Value {
    if node["x-kubernetes-int-or-string"] == true {
        return "1".into();
    }
    if node["x-kubernetes-preserve-unknown-fields"] == true {
        return serde_json::json!({"anything": {"goes": [1, "two"]}});
    }
    if let Some(first) = node["enum"].get(0) {
        return first.clone();
    }
    match node["type"].as_str().expect("a type") {
        "string" if node["format"] == "date-time" => "2026-01-01T00:00:00Z".into(),
        "string" => "a".into(),
        "boolean" => true.into(),
        "integer" => 1.into(),
        "number" => 0.5.into(),
        "array" => vec![full_object(&node["items"])].into(),
        "object" if node["additionalProperties"].is_object() => {
            serde_json::json!({"key": full_object(&node["additionalProperties"])})
        }
        "object" => node["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, child)| (name.clone(), full_object(child)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => panic!("type {other}"),
    }
}

#[test]
fn full_objects_round_trip() {
    fn check<K>(crds: &BTreeMap<String, Value>)
    where
        K: Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned,
    {
        let crd = &crds[K::kind(&()).as_ref()];
        let mut object = serde_json::json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": "x"},
            "spec": full_object(schema(crd, "spec")),
        });
        if !schema(crd, "status").is_null() {
            object["status"] = full_object(schema(crd, "status"));
        }
        let typed: K = serde_json::from_value(object.clone()).unwrap();
        let back = serde_json::to_value(&typed).unwrap();
        assert_eq!(sorted(&back), sorted(&object), "{}", K::kind(&()));
    }
    fn sorted(value: &Value) -> String {
        match value {
            Value::Object(map) => {
                let fields: BTreeMap<_, _> = map.iter().map(|(k, v)| (k, sorted(v))).collect();
                format!("{fields:?}")
            }
            Value::Array(items) => format!("{:?}", items.iter().map(sorted).collect::<Vec<_>>()),
            other => other.to_string(),
        }
    }
    let crds = definitions();
    check::<kai_api::Queue>(&crds);
    check::<kai_api::PodGroup>(&crds);
    check::<kai_api::BindRequest>(&crds);
    check::<kai_api::Topology>(&crds);
    check::<kai_api::SchedulingShard>(&crds);
    check::<kai_api::Config>(&crds);
}
