//! Limits and quotas of a queue that are lowered below what the queue has. Pure.
//!
//! A limit is compared with what the queue has allocated, a quota with what its pods have that cannot be preempted, both as the status
//! of the queue says. Only a bound that the change lowers counts, so that other fields of a queue can always be changed. -1 is no
//! bound.

use kai_api::quantity::Quantity;
use kai_settings::admission::ReductionRule;
use serde_json::Value;

use super::Verdict;

/// A resource of a queue: its field, its name in messages, and how much of the status one unit of the field is.
const RESOURCES: [(&str, &str, f64); 3] =
    [("gpu", "GPUs", 1.0), ("cpu", "cores", 0.001), ("memory", "bytes of memory", 1_000_000.0)];
/// A bound and the part of the status that it must not fall below, with its name in messages.
const BOUNDS: [(&str, &str, &str); 2] = [
    ("limit", "allocated", "the queue has allocated"),
    ("quota", "allocatedNonPreemptible", "its non-preemptible pods have"),
];
const UNLIMITED: f64 = -1.0;
/// Bounds that differ by less are equal.
const PRECISION: f64 = 1e-4;

/// A queue that is changed.
pub fn check(queue: &Value, old: &Value, rule: ReductionRule) -> Verdict {
    if rule == ReductionRule::None || old.is_null() {
        return Verdict::default();
    }
    let found = violations(queue, old);
    match rule {
        ReductionRule::Block if !found.is_empty() => Verdict::deny(found.join("; ")),
        _ => Verdict { denial: None, warnings: found },
    }
}

fn violations(queue: &Value, old: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (field, unit, factor) in RESOURCES {
        for (bound, part, holder) in BOUNDS {
            let value = |queue: &Value| {
                queue["spec"]["resources"][field][bound].as_f64().unwrap_or_default()
            };
            let (before, now) = (value(old), value(queue));
            let is_lowered = now != UNLIMITED && (before == UNLIMITED || now < before);
            let now = now * factor;
            let held = held(&old["status"][part], field);
            if is_lowered && now + PRECISION < held {
                found.push(format!(
                    "spec.resources.{field}.{bound}: {} {unit} are less than the {} {unit} that {holder}",
                    shown(now), shown(held)
                ));
            }
        }
    }
    found
}

fn shown(amount: f64) -> String {
    let rounded = (amount / PRECISION).round() * PRECISION;
    format!("{rounded:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What a part of the status has of a resource; GPUs are those of all vendors, MIG instances by their slices and devices of claims.
fn held(amounts: &Value, field: &str) -> f64 {
    let amounts = amounts.as_object().into_iter().flatten();
    amounts
        .filter_map(|(name, amount)| {
            let weight =
                if field == "gpu" { gpu_weight(name)? } else { f64::from(u8::from(name == field)) };
            let amount = match amount {
                Value::String(text) => Quantity::parse(text).ok()?.as_f64(),
                other => other.as_f64()?,
            };
            Some(weight * amount)
        })
        .sum()
}

/// How many GPUs one of a resource is; none where it is no GPU.
fn gpu_weight(name: &str) -> Option<f64> {
    if let Some(profile) = name.strip_prefix("nvidia.com/mig-") {
        return profile.split('g').next()?.parse().ok();
    }
    let is_device_class = !name.contains('/') && name.contains('.');
    (name.ends_with("/gpu") || is_device_class).then_some(1.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(limit: f64, quota: f64) -> Value {
        json!({
            "spec": {"resources": {
                "gpu": {"limit": limit, "quota": quota},
                "cpu": {"limit": 4000, "quota": 4000},
                "memory": {"limit": -1, "quota": 0},
            }},
            "status": {
                "allocated": {"nvidia.com/gpu": "3500m", "nvidia.com/mig-2g.10gb": "1", "gpu.example.com": "1", "cpu": "3", "memory": "8G"},
                "allocatedNonPreemptible": {"nvidia.com/gpu": "2", "cpu": "1"},
            },
        })
    }

    #[test]
    fn a_limit_below_what_is_allocated_and_a_quota_below_what_cannot_be_preempted() {
        let warnings_of =
            |queue: &Value, old: &Value| check(queue, old, ReductionRule::Warning).warnings;
        assert_eq!(warnings_of(&queue(7.0, 2.0), &queue(-1.0, 8.0)), Vec::<String>::new());
        assert_eq!(
            warnings_of(&queue(6.0, 1.0), &queue(-1.0, 8.0)),
            [
                "spec.resources.gpu.limit: 6 GPUs are less than the 6.5 GPUs that the queue has allocated",
                "spec.resources.gpu.quota: 1 GPUs are less than the 2 GPUs that its non-preemptible pods have",
            ]
        );
        let (mut lower, old) = (queue(8.0, 8.0), queue(8.0, 8.0));
        lower["spec"]["resources"]["cpu"]["limit"] = json!(2500);
        assert_eq!(
            warnings_of(&lower, &old),
            [
                "spec.resources.cpu.limit: 2.5 cores are less than the 3 cores that the queue has allocated"
            ]
        );
    }

    #[test]
    fn only_what_the_change_lowers_counts_and_the_rule_decides() {
        let (old, same) = (queue(2.0, 1.0), queue(2.0, 1.0));
        assert_eq!(check(&same, &old, ReductionRule::Block), Verdict::default());
        assert_eq!(check(&queue(-1.0, 1.0), &old, ReductionRule::Block), Verdict::default());
        let denied = check(&queue(1.0, 1.0), &old, ReductionRule::Block);
        assert!(denied.denial.is_some_and(|text| text.starts_with("spec.resources.gpu.limit: 1 ")));
        assert_eq!(check(&queue(1.0, 1.0), &old, ReductionRule::None), Verdict::default());
        assert_eq!(check(&queue(0.0, 0.0), &Value::Null, ReductionRule::Block), Verdict::default());
    }
}
