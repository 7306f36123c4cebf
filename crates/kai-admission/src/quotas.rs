//! Quotas of a queue beside those of its relatives: what does not add up is warned of. Pure.
//!
//! A quota without bound (-1) is compared with nothing.

use kai_api::Queue;
use kai_api::queue::{QueueResource, QueueResources};

use super::Verdict;
use super::queues::{name, parent};

/// The share of one resource.
type Field = fn(&QueueResources) -> Option<&QueueResource>;

/// A resource: its name in messages, its field, and digits after the point.
const RESOURCES: [(&str, Field, usize); 3] = [
    ("CPU", |all| all.cpu.as_ref(), 0),
    ("GPU", |all| all.gpu.as_ref(), 2),
    ("Memory", |all| all.memory.as_ref(), 0),
];

/// A queue that is created or changed, among all queues.
pub fn check(queue: &Queue, queues: &[Queue]) -> Verdict {
    let own = name(queue);
    let others = || queues.iter().filter(|other| name(other) != own);
    let mut warnings = Vec::new();
    if let Some(above) = parent(queue) {
        let Some(found) = others().find(|other| name(other) == above) else {
            return Verdict::deny(format!("failed to get parent queue {above}: not found"));
        };
        if found.spec.resources.is_none() {
            return Verdict::deny(format!("parent queue {above} has no resources defined"));
        }
        let siblings = others().filter(|other| parent(other) == Some(above));
        let family: Vec<&Queue> = siblings.chain([queue]).collect();
        with_parent(queue, (above, found), &family, &mut warnings);
    }
    let children: Vec<&Queue> = others().filter(|other| parent(other) == Some(own)).collect();
    with_children(queue, &children, &mut warnings);
    Verdict { denial: None, warnings }
}

fn with_parent(
    queue: &Queue,
    (name, parent): (&str, &Queue),
    family: &[&Queue],
    warnings: &mut Vec<String>,
) {
    for (resource, field, digits) in RESOURCES {
        let Some(bound) = quota(parent, field) else { continue };
        let over =
            |amount: f64| (amount > bound).then(|| (shown(amount, digits), shown(bound, digits)));
        if let Some((own, bound)) = quota(queue, field).and_then(over) {
            warnings.push(format!(
                "child queue {resource} quota ({own}) exceeds parent queue {name} {resource} quota ({bound})"
            ));
        }
        if let Some((sum, bound)) = over(total(family, field)) {
            warnings.push(format!(
                "total children {resource} quota ({sum}) exceeds parent queue {name} {resource} quota ({bound})"
            ));
        }
    }
}

fn with_children(queue: &Queue, children: &[&Queue], warnings: &mut Vec<String>) {
    for (resource, field, digits) in RESOURCES {
        let Some(bound) = quota(queue, field) else { continue };
        let over =
            |amount: f64| (amount > bound).then(|| (shown(amount, digits), shown(bound, digits)));
        for child in children {
            let name = name(child);
            if let Some((own, bound)) = quota(child, field).and_then(over) {
                warnings.push(format!(
                    "child queue {name} {resource} quota ({own}) exceeds parent {resource} quota ({bound})"
                ));
            }
        }
        if let Some((sum, bound)) = over(total(children, field)) {
            warnings.push(format!(
                "total children {resource} quota ({sum}) exceeds parent {resource} quota ({bound})"
            ));
        }
    }
}

/// A quota; none where it has no bound. One that is left out is 0.
fn quota(queue: &Queue, field: Field) -> Option<f64> {
    let resource = queue.spec.resources.as_ref().and_then(field);
    let quota = resource.and_then(|resource| resource.quota).unwrap_or_default();
    (quota >= 0.0).then_some(quota)
}

fn total(queues: &[&Queue], field: Field) -> f64 {
    queues.iter().filter_map(|queue| quota(queue, field)).sum()
}

fn shown(amount: f64, digits: usize) -> String {
    format!("{amount:.digits$}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(name: &str, parent: Option<&str>, resources: &Value) -> Queue {
        let object = json!({
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"parentQueue": parent, "resources": resources},
        });
        serde_json::from_value(object).expect("a queue")
    }

    fn queue(name: &str, parent: Option<&str>, cpu: f64, gpu: f64) -> Queue {
        let resources =
            json!({"cpu": {"quota": cpu}, "gpu": {"quota": gpu}, "memory": {"quota": -1}});
        read(name, parent, &resources)
    }

    #[test]
    fn a_child_beside_its_parent() {
        let all = [queue("p", None, 1000.0, -1.0), queue("a", Some("p"), 600.0, 4.0)];
        assert_eq!(check(&queue("b", Some("p"), 400.0, 99.0), &all), Verdict::default());
        let verdict = check(&queue("b", Some("p"), 1200.0, 99.0), &all);
        assert_eq!(
            verdict.warnings,
            [
                "child queue CPU quota (1200) exceeds parent queue p CPU quota (1000)",
                "total children CPU quota (1800) exceeds parent queue p CPU quota (1000)",
            ]
        );
        assert_eq!(verdict.denial, None, "quotas only warn");
        let changed = check(&queue("a", Some("p"), 1000.0, 4.0), &all);
        assert_eq!(changed, Verdict::default(), "what it was does not count");
    }

    #[test]
    fn a_parent_beside_its_children() {
        let all = [queue("a", Some("p"), 0.0, 1.5), queue("b", Some("p"), 0.0, 3.0)];
        let verdict = check(&queue("p", None, 0.0, 2.25), &all);
        assert_eq!(
            verdict.warnings,
            [
                "child queue b GPU quota (3.00) exceeds parent GPU quota (2.25)",
                "total children GPU quota (4.50) exceeds parent GPU quota (2.25)",
            ]
        );
    }

    #[test]
    fn a_parent_must_be_there_and_have_resources() {
        let lost = queue("a", Some("p"), 0.0, 0.0);
        let verdict = check(&lost, &[]);
        assert_eq!(verdict.denial.as_deref(), Some("failed to get parent queue p: not found"));
        let verdict = check(&lost, &[read("p", None, &Value::Null)]);
        assert_eq!(verdict.denial.as_deref(), Some("parent queue p has no resources defined"));
    }
}
