//! Disruption budgets: how many pods may be evicted.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::kinds::{self, PODS};
use crate::object::{self, Key, at, has_condition, is_terminating, namespace, text};
use crate::selectors::LabelSelector;
use crate::store::ResourceId;

/// The resource id of disruption budgets.
pub(crate) fn id() -> ResourceId {
    ResourceId::new("policy", "poddisruptionbudgets")
}

/// The budgets of a pod.
pub(crate) fn of_pod(cluster: &Cluster, pod: &Value) -> Vec<Arc<Value>> {
    let budgets = cluster.store.of_namespace(&id(), namespace(pod));
    let ours =
        budgets.filter(|budget| LabelSelector::of(at(budget, &["spec", "selector"])).matches(pod));
    ours.cloned().collect()
}

/// A pod changed: budgets of its namespace are counted again.
pub(super) fn notice_pod(cluster: &mut Cluster, namespace: &str) {
    let budgets: Vec<Key> =
        cluster.store.of_namespace(&id(), namespace).map(|budget| Key::of(budget)).collect();
    for key in budgets {
        cluster.look_at(&id(), key);
    }
}

pub(super) fn sync(cluster: &mut Cluster, key: &Key) {
    let Some(budget) = cluster.store.get(&id(), key).cloned() else { return };
    let selector = LabelSelector::of(at(&budget, &["spec", "selector"]));
    let pods: Vec<&Arc<Value>> = cluster
        .store
        .of_namespace(&kinds::id(PODS), &key.namespace)
        .filter(|pod| selector.matches(pod))
        .filter(|pod| !matches!(text(at(pod, &["status", "phase"])), "Succeeded" | "Failed"))
        .collect();
    let expected = pods.len() as i64;
    let disrupted = at(&budget, &["status", "disruptedPods"]).as_object();
    let still_disrupted: serde_json::Map<String, Value> = disrupted
        .into_iter()
        .flatten()
        .filter(|(name, _)| {
            pods.iter().any(|pod| object::name(pod) == *name && !is_terminating(pod))
        })
        .map(|(name, time)| (name.clone(), time.clone()))
        .collect();
    let healthy = pods
        .iter()
        .filter(|pod| has_condition(pod, "Ready") && !is_terminating(pod))
        .filter(|pod| !still_disrupted.contains_key(object::name(pod)))
        .count() as i64;
    let desired = match (
        share(at(&budget, &["spec", "minAvailable"]), expected),
        share(at(&budget, &["spec", "maxUnavailable"]), expected),
    ) {
        (Some(least), _) => least,
        (None, Some(most)) => (expected - most).max(0),
        (None, None) => expected - 1,
    };
    let allowed = if expected == 0 { 0 } else { (healthy - desired).max(0) };
    let mut new = Value::clone(&budget);
    object::set(&mut new, &["status", "currentHealthy"], json!(healthy));
    object::set(&mut new, &["status", "desiredHealthy"], json!(desired));
    object::set(&mut new, &["status", "expectedPods"], json!(expected));
    object::set(&mut new, &["status", "disruptionsAllowed"], json!(allowed));
    object::set(
        &mut new,
        &["status", "observedGeneration"],
        at(&budget, &["metadata", "generation"]).clone(),
    );
    if still_disrupted.is_empty() {
        object::remove(&mut new, &["status", "disruptedPods"]);
    } else {
        object::set(&mut new, &["status", "disruptedPods"], Value::Object(still_disrupted));
    }
    let (reason, is_allowed) =
        if allowed > 0 { ("SufficientPods", true) } else { ("InsufficientPods", false) };
    object::set_condition(&mut new, "DisruptionAllowed", is_allowed, reason, "", cluster.now);
    if new != *budget {
        cluster.store.put(&id(), new);
    }
}

/// A number, or a share of `all` rounded up.
fn share(value: &Value, all: i64) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    Some((all * percent + 99) / 100)
}
