//! Columns of built-in objects.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::kinds::Resource;
use crate::object::{entries, has_condition, is_terminating, items, name, read_moment, text};

/// A column: its name, 0 or 1 for wide tables, and what it shows of an object.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) priority: i64,
    pub(super) cell: fn(&Value, Timestamp) -> Value,
}

const fn column(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column { name, priority: 0, cell }
}

const fn wide(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column { name, priority: 1, cell }
}

const NAME: Column = column("Name", |object, _| json!(name(object)));
const AGE: Column =
    column("Age", |object, now| since(&object["metadata"]["creationTimestamp"], now));

/// How long ago a moment was.
fn since(moment: &Value, now: Timestamp) -> Value {
    json!(read_moment(moment).map_or_else(|| "<unknown>".to_owned(), |moment| age(now, moment)))
}

fn number(value: &Value) -> Value {
    json!(value.as_i64().unwrap_or_default())
}

fn or(value: &Value, or: &str) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => json!(text),
        Value::Number(number) => json!(number.to_string()),
        _ => json!(or),
    }
}

/// The columns of a resource.
pub(super) fn of(resource: &Resource) -> &'static [Column] {
    match (&*resource.id.group, &*resource.id.plural) {
        ("", "pods") => PODS,
        ("", "nodes") => NODES,
        ("", "namespaces") => NAMESPACES,
        ("" | "events.k8s.io", "events") => EVENTS,
        ("", "configmaps") => CONFIG_MAPS,
        ("", "secrets") => SECRETS,
        ("", "serviceaccounts") => ACCOUNTS,
        ("", "services") => SERVICES,
        ("", "persistentvolumeclaims") => VOLUME_CLAIMS,
        ("", "persistentvolumes") => VOLUMES,
        ("storage.k8s.io", "storageclasses") => STORAGE_CLASSES,
        ("resource.k8s.io", "resourceclaims") => DEVICE_CLAIMS,
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => ROLES,
        ("rbac.authorization.k8s.io", _) => ROLE_BINDINGS,
        ("apps", "deployments") => DEPLOYMENTS,
        ("apps", "replicasets") => REPLICA_SETS,
        ("apps", "statefulsets") => STATEFUL_SETS,
        ("batch", "jobs") => JOBS,
        ("batch", "cronjobs") => CRON_JOBS,
        ("policy", "poddisruptionbudgets") => BUDGETS,
        ("scheduling.k8s.io", "priorityclasses") => PRIORITY_CLASSES,
        ("coordination.k8s.io", "leases") => LEASES,
        ("apiextensions.k8s.io", "customresourcedefinitions") => DEFINITIONS,
        _ => OTHERS,
    }
}

const OTHERS: &[Column] = &[NAME, AGE];

const ROLES: &[Column] =
    &[NAME, column("Created At", |role, _| or(&role["metadata"]["creationTimestamp"], ""))];

const ROLE_BINDINGS: &[Column] = &[
    NAME,
    column("Role", |binding, _| {
        let role = &binding["roleRef"];
        json!(format!("{}/{}", text(&role["kind"]), text(&role["name"])))
    }),
    AGE,
];

const VOLUMES: &[Column] = &[
    NAME,
    column("Capacity", |volume, _| or(&volume["spec"]["capacity"]["storage"], "")),
    column("Access Modes", |volume, _| json!(access_modes(&volume["spec"]["accessModes"]))),
    column("Reclaim Policy", |volume, _| or(&volume["spec"]["persistentVolumeReclaimPolicy"], "")),
    column("Status", |volume, _| or(&volume["status"]["phase"], "")),
    column("Claim", |volume, _| {
        let claim = &volume["spec"]["claimRef"];
        let named = format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]));
        json!(if claim.is_null() { String::new() } else { named })
    }),
    column("StorageClass", |volume, _| or(&volume["spec"]["storageClassName"], "")),
    AGE,
    wide("VolumeMode", |volume, _| or(&volume["spec"]["volumeMode"], "<unset>")),
];

/// Modes by their initials, as `RWO`.
fn access_modes(modes: &Value) -> String {
    let initials =
        |mode: &Value| -> String { text(mode).chars().filter(char::is_ascii_uppercase).collect() };
    items(modes).map(initials).collect::<Vec<_>>().join(",")
}

const STORAGE_CLASSES: &[Column] = &[
    NAME,
    column("Provisioner", |class, _| or(&class["provisioner"], "")),
    column("ReclaimPolicy", |class, _| or(&class["reclaimPolicy"], "Delete")),
    column("VolumeBindingMode", |class, _| or(&class["volumeBindingMode"], "Immediate")),
    column("AllowVolumeExpansion", |class, _| json!(class["allowVolumeExpansion"] == true)),
    AGE,
];

const DEVICE_CLAIMS: &[Column] = &[
    NAME,
    column("State", |claim, _| {
        let is_reserved = items(&claim["status"]["reservedFor"]).next().is_some();
        json!(match (claim["status"]["allocation"].is_object(), is_reserved) {
            (false, _) => "pending",
            (true, false) => "allocated",
            (true, true) => "allocated,reserved",
        })
    }),
    AGE,
];

const PODS: &[Column] = &[
    NAME,
    column("Ready", |pod, _| {
        let statuses = items(&pod["status"]["containerStatuses"]);
        let ready = statuses.filter(|status| status["ready"] == true).count();
        json!(format!("{ready}/{}", items(&pod["spec"]["containers"]).count()))
    }),
    column("Status", |pod, _| json!(pod_status(pod))),
    column("Restarts", |pod, _| {
        let statuses = items(&pod["status"]["containerStatuses"]);
        let restarts: i64 = statuses.filter_map(|status| status["restartCount"].as_i64()).sum();
        json!(restarts.to_string())
    }),
    AGE,
    wide("IP", |pod, _| or(&pod["status"]["podIP"], "<none>")),
    wide("Node", |pod, _| or(&pod["spec"]["nodeName"], "<none>")),
    wide("Nominated Node", |pod, _| or(&pod["status"]["nominatedNodeName"], "<none>")),
    wide("Readiness Gates", |_, _| json!("<none>")),
];

/// Status of a pod in one word.
fn pod_status(pod: &Value) -> &str {
    if is_terminating(pod) {
        return "Terminating";
    }
    if let Some(reason) = pod["status"]["reason"].as_str() {
        return reason;
    }
    let gated = items(&pod["status"]["conditions"])
        .any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
    match text(&pod["status"]["phase"]) {
        _ if gated => "SchedulingGated",
        "Succeeded" => "Completed",
        "Failed" => "Error",
        "Pending" if !text(&pod["spec"]["nodeName"]).is_empty() => "ContainerCreating",
        phase => phase,
    }
}

const NODES: &[Column] = &[
    NAME,
    column("Status", |node, _| {
        let ready = if has_condition(node, "Ready") { "Ready" } else { "NotReady" };
        let cordoned = node["spec"]["unschedulable"] == true;
        json!(if cordoned { format!("{ready},SchedulingDisabled") } else { ready.to_owned() })
    }),
    column("Roles", |node, _| {
        let labels = entries(&node["metadata"]["labels"]);
        let roles: Vec<&str> =
            labels.keys().filter_map(|key| key.strip_prefix("node-role.kubernetes.io/")).collect();
        json!(if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") })
    }),
    AGE,
    column("Version", |node, _| or(&node["status"]["nodeInfo"]["kubeletVersion"], "")),
    wide("Internal-IP", |node, _| {
        let mut addresses = items(&node["status"]["addresses"]);
        let own = addresses.find(|address| address["type"] == "InternalIP");
        or(own.map_or(&Value::Null, |own| &own["address"]), "<none>")
    }),
    wide("External-IP", |_, _| json!("<none>")),
    wide("OS-Image", |node, _| or(&node["status"]["nodeInfo"]["osImage"], "<unknown>")),
    wide("Kernel-Version", |node, _| or(&node["status"]["nodeInfo"]["kernelVersion"], "<unknown>")),
    wide("Container-Runtime", |node, _| {
        or(&node["status"]["nodeInfo"]["containerRuntimeVersion"], "<unknown>")
    }),
];

const NAMESPACES: &[Column] =
    &[NAME, column("Status", |object, _| or(&object["status"]["phase"], "")), AGE];

const EVENTS: &[Column] = &[
    column("Last Seen", |event, now| {
        let last = [&event["lastTimestamp"], &event["eventTime"], &event["firstTimestamp"]];
        let known = last.into_iter().find(|moment| moment.is_string());
        since(known.unwrap_or(&event["metadata"]["creationTimestamp"]), now)
    }),
    column("Type", |event, _| or(&event["type"], "")),
    column("Reason", |event, _| or(&event["reason"], "")),
    column("Object", |event, _| {
        let about = [&event["involvedObject"], &event["regarding"]];
        let about = about.into_iter().find(|one| one.is_object()).unwrap_or(&Value::Null);
        json!(format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"])))
    }),
    wide("Subobject", |event, _| or(&event["involvedObject"]["fieldPath"], "")),
    wide("Source", |event, _| {
        or(&event["source"]["component"], text(&event["reportingComponent"]))
    }),
    column("Message", |event, _| or(&event["message"], text(&event["note"]))),
    wide("First Seen", |event, now| since(&event["metadata"]["creationTimestamp"], now)),
    wide("Count", |event, _| json!(event["count"].as_i64().unwrap_or(1))),
    wide("Name", |event, _| json!(name(event))),
];

fn size(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

const CONFIG_MAPS: &[Column] = &[
    NAME,
    column("Data", |object, _| json!(size(&object["data"]) + size(&object["binaryData"]))),
    AGE,
];

const SECRETS: &[Column] = &[
    NAME,
    column("Type", |object, _| or(&object["type"], "Opaque")),
    column("Data", |object, _| json!(size(&object["data"]))),
    AGE,
];

const ACCOUNTS: &[Column] =
    &[NAME, column("Secrets", |object, _| json!(items(&object["secrets"]).count())), AGE];

const SERVICES: &[Column] = &[
    NAME,
    column("Type", |object, _| or(&object["spec"]["type"], "ClusterIP")),
    column("Cluster-IP", |object, _| or(&object["spec"]["clusterIP"], "<none>")),
    column("External-IP", |_, _| json!("<none>")),
    column("Port(s)", |object, _| {
        let ports: Vec<String> = items(&object["spec"]["ports"])
            .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")))
            .collect();
        json!(ports.join(","))
    }),
    AGE,
];

const VOLUME_CLAIMS: &[Column] = &[
    NAME,
    column("Status", |object, _| or(&object["status"]["phase"], "")),
    column("Volume", |object, _| or(&object["spec"]["volumeName"], "")),
    column("Capacity", |object, _| or(&object["status"]["capacity"]["storage"], "")),
    column("Access Modes", |object, _| {
        let modes: Vec<&str> = items(&object["status"]["accessModes"]).map(text).collect();
        json!(modes.join(","))
    }),
    column("StorageClass", |object, _| or(&object["spec"]["storageClassName"], "")),
    AGE,
];

const DEPLOYMENTS: &[Column] = &[
    NAME,
    column("Ready", |object, _| json!(ready_of(object))),
    column("Up-to-date", |object, _| number(&object["status"]["updatedReplicas"])),
    column("Available", |object, _| number(&object["status"]["availableReplicas"])),
    AGE,
];

/// How many of how many are ready.
fn ready_of(object: &Value) -> String {
    let ready = object["status"]["readyReplicas"].as_i64().unwrap_or_default();
    format!("{ready}/{}", object["spec"]["replicas"].as_i64().unwrap_or(1))
}

const REPLICA_SETS: &[Column] = &[
    NAME,
    column("Desired", |object, _| number(&object["spec"]["replicas"])),
    column("Current", |object, _| number(&object["status"]["replicas"])),
    column("Ready", |object, _| number(&object["status"]["readyReplicas"])),
    AGE,
];

const STATEFUL_SETS: &[Column] = &[NAME, column("Ready", |object, _| json!(ready_of(object))), AGE];

const JOBS: &[Column] = &[
    NAME,
    column("Status", |job, _| {
        let states = [("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")];
        let state = states.into_iter().find(|(condition, _)| has_condition(job, condition));
        json!(state.map_or("Running", |(_, state)| state))
    }),
    column("Completions", |job, _| {
        let done = job["status"]["succeeded"].as_i64().unwrap_or_default();
        let wanted = job["spec"]["completions"].as_i64().unwrap_or(1);
        json!(format!("{done}/{wanted}"))
    }),
    column("Duration", |job, now| {
        let end = read_moment(&job["status"]["completionTime"]).unwrap_or(now);
        json!(
            read_moment(&job["status"]["startTime"]).map_or(String::new(), |start| age(end, start))
        )
    }),
    AGE,
];

const CRON_JOBS: &[Column] = &[
    NAME,
    column("Schedule", |job, _| or(&job["spec"]["schedule"], "")),
    column("Timezone", |job, _| or(&job["spec"]["timeZone"], "<none>")),
    column("Suspend", |job, _| json!((job["spec"]["suspend"] == true).to_string())),
    column("Active", |job, _| json!(items(&job["status"]["active"]).count())),
    column("Last Schedule", |job, now| match read_moment(&job["status"]["lastScheduleTime"]) {
        Some(moment) => json!(age(now, moment)),
        None => json!("<none>"),
    }),
    AGE,
];

const BUDGETS: &[Column] = &[
    NAME,
    column("Min Available", |object, _| or(&object["spec"]["minAvailable"], "N/A")),
    column("Max Unavailable", |object, _| or(&object["spec"]["maxUnavailable"], "N/A")),
    column("Allowed Disruptions", |object, _| number(&object["status"]["disruptionsAllowed"])),
    AGE,
];

const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    column("Value", |object, _| number(&object["value"])),
    column("Global-Default", |object, _| json!(object["globalDefault"] == true)),
    AGE,
    column("PreemptionPolicy", |object, _| or(&object["preemptionPolicy"], "")),
];

const LEASES: &[Column] =
    &[NAME, column("Holder", |object, _| or(&object["spec"]["holderIdentity"], "")), AGE];

const DEFINITIONS: &[Column] =
    &[NAME, column("Created At", |object, _| or(&object["metadata"]["creationTimestamp"], ""))];
