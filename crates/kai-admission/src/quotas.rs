//! Quotas of a queue beside those of its relatives: what does not add up is warned of. Pure.
//!
//! A quota without bound (-1) is compared with nothing.

use serde_json::Value;

use super::Verdict;

/// A resource: its name in messages, its field, and digits after the point.
const RESOURCES: [(&str, &str, usize); 3] =
    [("CPU", "cpu", 0), ("GPU", "gpu", 2), ("Memory", "memory", 0)];

/// A queue that is created or changed, among all queues.
pub fn check(queue: &Value, queues: &[Value]) -> Verdict {
    let name = queue["metadata"]["name"].as_str().unwrap_or_default();
    let others = || queues.iter().filter(|other| other["metadata"]["name"] != name);
    let mut warnings = Vec::new();
    if let Some(parent) = queue["spec"]["parentQueue"].as_str().filter(|name| !name.is_empty()) {
        let Some(above) = others().find(|other| other["metadata"]["name"] == parent) else {
            return Verdict::refused(format!("failed to get parent queue {parent}: not found"));
        };
        if !above["spec"]["resources"].is_object() {
            return Verdict::refused(format!("parent queue {parent} has no resources defined"));
        }
        let siblings = others().filter(|other| other["spec"]["parentQueue"] == parent);
        let family: Vec<&Value> = siblings.chain([queue]).collect();
        with_parent(queue, (parent, above), &family, &mut warnings);
    }
    let children: Vec<&Value> =
        others().filter(|other| other["spec"]["parentQueue"] == name).collect();
    with_children(queue, &children, &mut warnings);
    Verdict { refused: None, warnings }
}

fn with_parent(
    queue: &Value,
    (name, parent): (&str, &Value),
    family: &[&Value],
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

fn with_children(queue: &Value, children: &[&Value], warnings: &mut Vec<String>) {
    for (resource, field, digits) in RESOURCES {
        let Some(bound) = quota(queue, field) else { continue };
        let over =
            |amount: f64| (amount > bound).then(|| (shown(amount, digits), shown(bound, digits)));
        for child in children {
            let name = child["metadata"]["name"].as_str().unwrap_or_default();
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
fn quota(queue: &Value, field: &str) -> Option<f64> {
    let quota = queue["spec"]["resources"][field]["quota"].as_f64().unwrap_or_default();
    (quota >= 0.0).then_some(quota)
}

fn total(queues: &[&Value], field: &str) -> f64 {
    queues.iter().filter_map(|queue| quota(queue, field)).sum()
}

fn shown(amount: f64, digits: usize) -> String {
    format!("{amount:.digits$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(name: &str, parent: Option<&str>, cpu: f64, gpu: f64) -> Value {
        let mut queue = json!({
            "metadata": {"name": name},
            "spec": {"resources": {"cpu": {"quota": cpu}, "gpu": {"quota": gpu}, "memory": {"quota": -1}}},
        });
        if let Some(parent) = parent {
            queue["spec"]["parentQueue"] = json!(parent);
        }
        queue
    }

    #[test]
    fn a_child_beside_its_parent() {
        let all = [queue("p", None, 1000.0, -1.0), queue("a", Some("p"), 600.0, 4.0)];
        assert_eq!(check(&queue("b", Some("p"), 400.0, 99.0), &all), Verdict::default());
        let told = check(&queue("b", Some("p"), 1200.0, 99.0), &all);
        assert_eq!(
            told.warnings,
            [
                "child queue CPU quota (1200) exceeds parent queue p CPU quota (1000)",
                "total children CPU quota (1800) exceeds parent queue p CPU quota (1000)",
            ]
        );
        assert_eq!(told.refused, None, "quotas only warn");
        let changed = check(&queue("a", Some("p"), 1000.0, 4.0), &all);
        assert_eq!(changed, Verdict::default(), "what it was does not count");
    }

    #[test]
    fn a_parent_beside_its_children() {
        let all = [queue("a", Some("p"), 0.0, 1.5), queue("b", Some("p"), 0.0, 3.0)];
        let told = check(&queue("p", None, 0.0, 2.25), &all);
        assert_eq!(
            told.warnings,
            [
                "child queue b GPU quota (3.00) exceeds parent GPU quota (2.25)",
                "total children GPU quota (4.50) exceeds parent GPU quota (2.25)",
            ]
        );
    }

    #[test]
    fn a_parent_must_be_there_and_have_resources() {
        let lost = queue("a", Some("p"), 0.0, 0.0);
        let told = check(&lost, &[]);
        assert_eq!(told.refused.as_deref(), Some("failed to get parent queue p: not found"));
        let told = check(&lost, &[json!({"metadata": {"name": "p"}, "spec": {}})]);
        assert_eq!(told.refused.as_deref(), Some("parent queue p has no resources defined"));
    }
}
