//! Events about pods, and pods that no scheduler takes.

use serde_json::{Value, json};

use super::templates::write;
use crate::api::Part;
use crate::cluster::Cluster;
use crate::ids::Ids;
use crate::kinds::{EVENTS, PODS, id};
use crate::object::{
    self, Key, at, field, is_terminating, items, moment, name, namespace, text, uid,
};

/// Records an event about a pod. The same event is recorded once.
pub(crate) fn record(
    cluster: &mut Cluster,
    pod: &Value,
    severity: &str,
    reason: &str,
    message: &str,
    component: &str,
) {
    let seed = [uid(pod), reason, message]
        .concat()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let event_name = format!("{}.{seed:016x}", name(pod));
    let key = Key::new(namespace(pod), event_name.as_str());
    if cluster.store.get(&id(EVENTS), &key).is_some() {
        return;
    }
    let now = moment(cluster.now);
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": event_name, "namespace": namespace(pod), "uid": Ids::new(seed).uid(),
            "creationTimestamp": now,
        },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "name": name(pod), "namespace": namespace(pod),
            "uid": uid(pod),
        },
        "reason": reason,
        "message": message,
        "type": severity,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
    });
    cluster.store.put(&id(EVENTS), event);
}

/// Reports on a pod whose scheduler does not run in this cluster that it stays pending.
pub(super) fn report_missing_scheduler(cluster: &mut Cluster, pod: &Value) {
    let scheduler = text(at(pod, &["spec", "schedulerName"]));
    if cluster.schedulers.as_ref().is_none_or(|names| names.contains(scheduler)) {
        return;
    }
    let is_bound = !text(at(pod, &["spec", "nodeName"])).is_empty();
    let is_reported = items(at(pod, &["status", "conditions"]))
        .any(|condition| *field(condition, "type") == "PodScheduled");
    if is_bound || is_reported || is_terminating(pod) {
        return;
    }
    let known: Vec<&str> = cluster.schedulers.iter().flatten().map(String::as_str).collect();
    let message = format!(
        "no scheduler named {scheduler:?} runs in this cluster; set spec.schedulerName to {}",
        known.join(" or ")
    );
    let mut new = pod.clone();
    let now = cluster.now;
    object::set_condition(&mut new, "PodScheduled", false, "Unschedulable", &message, now);
    write(cluster, &id(PODS), new, Part::Status);
    record(cluster, pod, "Warning", "FailedScheduling", &message, "kai-embed");
}
