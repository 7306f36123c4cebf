//! Pods: defaults, priority, overhead, and what may not be changed.

use kai_api::quantity::Quantity;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::failure::{Failure, FieldFault};
use crate::kinds::{PODS, PRIORITY_CLASSES, SERVICE_ACCOUNTS, id};
use crate::object::{self, Key, at, entries, field, items, name, namespace, set_default, text};
use crate::store::ResourceId;

/// Taints that every pod tolerates for a while.
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATED_SECONDS: i64 = 300;

pub(super) fn fill_new(cluster: &Cluster, pod: &mut Value) -> Result<(), Failure> {
    fill(pod);
    fill_account(cluster, pod)?;
    fill_priority(cluster, pod)?;
    fill_overhead(cluster, pod)?;
    tolerate(pod);
    let quality = quality(pod);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality});
    if items(at(pod, &["spec", "schedulingGates"])).next().is_some() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        object::set_condition(pod, "PodScheduled", false, "SchedulingGated", message, cluster.now);
    }
    Ok(())
}

/// Defaults that do not depend on the cluster.
pub(super) fn fill(pod: &mut Value) {
    fill_spec(&mut pod["spec"]);
    set_default(pod, &["spec", "enableServiceLinks"], json!(true));
}

/// Defaults of the spec of a pod or of a template of pods.
pub(super) fn fill_spec(spec: &mut Value) {
    set_default(spec, &["restartPolicy"], json!("Always"));
    set_default(spec, &["terminationGracePeriodSeconds"], json!(30));
    set_default(spec, &["dnsPolicy"], json!("ClusterFirst"));
    set_default(spec, &["securityContext"], json!({}));
    set_default(spec, &["schedulerName"], json!("default-scheduler"));
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            fill_container(container);
        }
    }
}

fn fill_container(container: &mut Value) {
    set_default(container, &["resources"], json!({}));
    set_default(container, &["terminationMessagePath"], json!("/dev/termination-log"));
    set_default(container, &["terminationMessagePolicy"], json!("File"));
    let image = text(field(container, "image")).to_owned();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let pull = if tag.ends_with(":latest") || !tag.contains([':', '@']) {
        "Always"
    } else {
        "IfNotPresent"
    };
    set_default(container, &["imagePullPolicy"], json!(pull));
    if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
        for port in ports {
            set_default(port, &["protocol"], json!("TCP"));
        }
    }
    canonical_amounts(container);
    // What has a limit and no request asks for its limit.
    let limits = at(container, &["resources", "limits"]).clone();
    for (resource, amount) in limits.as_object().into_iter().flatten() {
        set_default(container, &["resources", "requests", resource], amount.clone());
    }
}

/// Amounts are stored as the real one writes them: numbers as texts, `1000m` as `1`.
fn canonical_amounts(container: &mut Value) {
    for list in ["limits", "requests"] {
        let Some(amounts) = container["resources"].get_mut(list).and_then(Value::as_object_mut)
        else {
            continue;
        };
        for amount in amounts.values_mut() {
            let written = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            if let Ok(quantity) = Quantity::parse(&written) {
                *amount = Value::from(quantity.to_string());
            }
        }
    }
}

fn fill_account(cluster: &Cluster, pod: &mut Value) -> Result<(), Failure> {
    set_default(pod, &["spec", "serviceAccountName"], json!("default"));
    let account = text(at(pod, &["spec", "serviceAccountName"])).to_owned();
    set_default(pod, &["spec", "serviceAccount"], account.as_str().into());
    let key = Key::new(namespace(pod), account.as_str());
    if cluster.store.get(&id(SERVICE_ACCOUNTS), &key).is_none() {
        let why =
            format!("error looking up service account {key}: serviceaccount {account:?} not found");
        return Err(Failure::forbidden(&id(PODS), name(pod), &why));
    }
    Ok(())
}

/// The priority of a class, or of the default class.
fn fill_priority(cluster: &Cluster, pod: &mut Value) -> Result<(), Failure> {
    let classes = id(PRIORITY_CLASSES);
    let wanted = text(at(pod, &["spec", "priorityClassName"])).to_owned();
    let class = match wanted.as_str() {
        "" => cluster.store.all(&classes).find(|class| *field(class, "globalDefault") == true),
        "system-node-critical" | "system-cluster-critical" => {
            let critical =
                if wanted == "system-node-critical" { 2_000_001_000 } else { 2_000_000_000 };
            object::set(pod, &["spec", "priority"], json!(critical));
            set_default(pod, &["spec", "preemptionPolicy"], json!("PreemptLowerPriority"));
            return Ok(());
        }
        wanted => {
            let class = cluster.store.get(&classes, &Key::new("", wanted));
            if class.is_none() {
                let why = format!("no PriorityClass with name {wanted} was found");
                return Err(Failure::forbidden(&id(PODS), name(pod), &why));
            }
            class
        }
    };
    let value = class.map_or(json!(0), |class| class["value"].clone());
    let policy = class
        .and_then(|class| field(class, "preemptionPolicy").as_str())
        .unwrap_or("PreemptLowerPriority");
    if let Some(class) = class {
        object::set(pod, &["spec", "priorityClassName"], name(class).into());
    }
    object::set(pod, &["spec", "priority"], value);
    set_default(pod, &["spec", "preemptionPolicy"], policy.into());
    Ok(())
}

/// What the sandbox of a runtime class costs.
fn fill_overhead(cluster: &Cluster, pod: &mut Value) -> Result<(), Failure> {
    let Some(wanted) = at(pod, &["spec", "runtimeClassName"]).as_str() else { return Ok(()) };
    let classes = ResourceId::new("node.k8s.io", "runtimeclasses");
    let Some(class) = cluster.store.get(&classes, &Key::new("", wanted)) else {
        let why = format!("pod rejected: RuntimeClass {wanted:?} not found");
        return Err(Failure::forbidden(&id(PODS), name(pod), &why));
    };
    let overhead = at(class, &["overhead", "podFixed"]).clone();
    if overhead.is_object() {
        object::set(pod, &["spec", "overhead"], overhead);
    }
    Ok(())
}

fn tolerate(pod: &mut Value) {
    let tolerations =
        object::map_at(pod, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for key in TOLERATED {
        let known = |one: &Value| {
            (*field(one, "key") == key || field(one, "key").is_null())
                && (*field(one, "effect") == "NoExecute" || field(one, "effect").is_null())
        };
        if !tolerations.iter().any(known) {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}));
        }
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`.
fn quality(pod: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let containers = || lists.iter().flat_map(|list| items(&pod["spec"][*list]));
    let asks = |container: &Value| {
        ["cpu", "memory"].iter().any(|resource| {
            !container["resources"]["requests"][resource].is_null()
                || !container["resources"]["limits"][resource].is_null()
        })
    };
    let guaranteed = |container: &Value| {
        let (requests, limits) = (
            entries(at(container, &["resources", "requests"])),
            entries(at(container, &["resources", "limits"])),
        );
        ["cpu", "memory"].iter().all(|resource| {
            limits.get(resource).is_some_and(|limit| requests.get(resource) == Some(limit))
        })
    };
    if !containers().any(asks) {
        "BestEffort"
    } else if containers().all(guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The priority of a pod was decided when it was made.
pub(super) fn keep_priority(old: &Value, new: &mut Value) {
    for field in ["priority", "preemptionPolicy", "serviceAccount", "serviceAccountName"] {
        if let Some(value) = old["spec"].get(field) {
            set_default(new, &["spec", field], value.clone());
        }
    }
}

pub(super) fn check(old: Option<&Value>, pod: &Value) -> Vec<FieldFault> {
    let mut faults = check_spec("spec", field(pod, "spec"));
    if let Some(old) = old {
        faults.extend(check_change(old, pod));
    }
    faults
}

/// What every pod needs; `path` leads to the spec.
pub(super) fn check_spec(path: &str, spec: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if items(field(spec, "containers")).next().is_none() {
        faults.push(FieldFault::required(format!("{path}.containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        for (at, container) in items(field(spec, list)).enumerate() {
            let place = format!("{path}.{list}[{at}]");
            if text(field(container, "name")).is_empty() {
                faults.push(FieldFault::required(format!("{place}.name"), ""));
            }
            if text(field(container, "image")).is_empty() {
                faults.push(FieldFault::required(format!("{place}.image"), ""));
            }
            faults.extend(check_amounts(&place, field(container, "resources")));
        }
    }
    faults
}

fn check_amounts(place: &str, resources: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for list in ["limits", "requests"] {
        for (resource, amount) in resources[list].as_object().into_iter().flatten() {
            let field = format!("{place}.resources.{list}[{resource}]");
            let written = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            let Ok(quantity) = Quantity::parse(&written) else {
                let why = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
                faults.push(FieldFault::invalid(field, amount, why));
                continue;
            };
            let is_extended = resource.contains('/') && !resource.starts_with("kubernetes.io/");
            if quantity.as_f64() < 0.0 {
                faults.push(FieldFault::invalid(
                    field,
                    amount,
                    "must be greater than or equal to 0",
                ));
            } else if is_extended && quantity.milli() % 1000 != 0 {
                faults.push(FieldFault::invalid(field, amount, "must be an integer"));
            } else if is_extended
                && list == "requests"
                && resources["limits"].get(resource).is_none()
            {
                let why = "Limit must be set for non overcommitable resources";
                let field = format!("{place}.resources.limits");
                faults.push(FieldFault::required(field, why));
            }
        }
    }
    faults
}

/// Only a few fields of a pod's spec may change.
fn check_change(old: &Value, new: &Value) -> Vec<FieldFault> {
    if object::equal(field(old, "spec"), field(new, "spec")) {
        return Vec::new();
    }
    let fixed = |pod: &Value| {
        let mut spec = field(pod, "spec").clone();
        for field in [
            "tolerations",
            "activeDeadlineSeconds",
            "schedulingGates",
            "terminationGracePeriodSeconds",
        ] {
            object::remove(&mut spec, &[field]);
        }
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
            {
                object::remove(container, &["image"]);
                object::remove(container, &["imagePullPolicy"]);
            }
        }
        // Gated pods may still choose their nodes.
        if items(at(pod, &["spec", "schedulingGates"])).next().is_some() {
            object::remove(&mut spec, &["nodeSelector"]);
            object::remove(&mut spec, &["affinity"]);
        }
        spec
    };
    if fixed(old) == fixed(new) {
        return Vec::new();
    }
    let why = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    vec![FieldFault::forbidden("spec", why)]
}
