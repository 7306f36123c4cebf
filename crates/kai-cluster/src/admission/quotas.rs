//! Quotas of queues against those of the queues above and below (`--enable-quota-validation`). Pure.

use serde_json::Value;

use super::Verdict;

/// The quota that nothing exceeds.
const UNLIMITED: f64 = -1.0;

/// Looks at a queue that is created or changed among those that exist. A parent that is missing or has no resources is
/// refused; quotas that do not add up are warned of.
pub fn check(queue: &Value, queues: &[Value]) -> Verdict {
    let mut verdict = Verdict::default();
    let name = name_of(queue);
    if let Some(parent) = parent_of(queue) {
        let Some(above) = queues.iter().find(|one| name_of(one) == parent) else {
            let why = format!("failed to get parent queue {parent}: it does not exist");
            return Verdict::refused(why);
        };
        if !above["spec"]["resources"].is_object() {
            return Verdict::refused(format!("parent queue {parent} has no resources defined"));
        }
        let siblings =
            queues.iter().filter(|one| parent_of(one) == Some(parent) && name_of(one) != name);
        let children: Vec<&Value> = siblings.chain([queue]).collect();
        verdict.warnings.extend(own(queue, above));
        verdict.warnings.extend(all(above, &children));
    }
    let children: Vec<&Value> = queues.iter().filter(|one| parent_of(one) == Some(name)).collect();
    verdict.warnings.extend(all(queue, &children));
    verdict
}

fn name_of(queue: &Value) -> &str {
    queue["metadata"]["name"].as_str().unwrap_or_default()
}

fn parent_of(queue: &Value) -> Option<&str> {
    queue["spec"]["parentQueue"].as_str().filter(|parent| !parent.is_empty())
}

/// The resources, how they are called, and how many digits behind the point they are shown with.
const RESOURCES: [(&str, &str, usize); 3] =
    [("cpu", "CPU", 0), ("gpu", "GPU", 2), ("memory", "memory", 0)];

fn quota(queue: &Value, resource: &str) -> f64 {
    queue["spec"]["resources"][resource]["quota"].as_f64().unwrap_or(0.0)
}

fn exceeds(quota: f64, bound: f64) -> bool {
    bound != UNLIMITED && (quota == UNLIMITED || quota > bound)
}

/// Where a queue has more than the one above it.
fn own(queue: &Value, above: &Value) -> Vec<String> {
    let told = RESOURCES.iter().filter_map(|(resource, shown, digits)| {
        let (quota, bound) = (quota(queue, resource), quota(above, resource));
        exceeds(quota, bound).then(|| {
            format!(
                "{shown} quota {quota:.digits$} of queue {} exceeds the {shown} quota {bound:.digits$} of its parent queue {}",
                name_of(queue),
                name_of(above)
            )
        })
    });
    told.collect()
}

/// Where the queues below have more together than the one above them. One without a bound is told of by itself.
fn all(above: &Value, children: &[&Value]) -> Vec<String> {
    let told = RESOURCES.iter().filter_map(|(resource, shown, digits)| {
        let bound = quota(above, resource);
        let quotas = children.iter().map(|child| quota(child, resource));
        let sum: f64 = quotas.filter(|quota| *quota != UNLIMITED).sum();
        (children.len() > 1 && exceeds(sum, bound)).then(|| {
            format!(
                "{shown} quotas of the children of queue {} add up to {sum:.digits$}, its own is {bound:.digits$}",
                name_of(above)
            )
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue(name: &str, parent: &str, cpu: f64) -> Value {
        json!({"metadata": {"name": name}, "spec": {"parentQueue": parent, "resources": {
            "cpu": {"quota": cpu}, "gpu": {"quota": 0}, "memory": {"quota": 0}}}})
    }

    #[test]
    fn a_parent_must_exist_and_have_resources() {
        let told = check(&queue("a", "p", 1.0), &[]);
        assert_eq!(
            told.refused.as_deref(),
            Some("failed to get parent queue p: it does not exist")
        );
        let bare = json!({"metadata": {"name": "p"}, "spec": {}});
        let told = check(&queue("a", "p", 1.0), &[bare]);
        assert_eq!(told.refused.as_deref(), Some("parent queue p has no resources defined"));
        assert_eq!(check(&queue("a", "", 1.0), &[]), Verdict::default());
    }

    #[test]
    fn quotas_that_do_not_add_up_are_warned_of() {
        let all = [queue("p", "", 1000.0), queue("a", "p", 600.0), queue("b", "p", 300.0)];
        assert_eq!(check(&queue("a", "p", 700.0), &all), Verdict::default(), "a queue counts once");
        let told = check(&queue("c", "p", 1200.0), &all);
        assert_eq!(
            told.warnings,
            [
                "CPU quota 1200 of queue c exceeds the CPU quota 1000 of its parent queue p",
                "CPU quotas of the children of queue p add up to 2100, its own is 1000",
            ]
        );
        let told = check(&queue("p", "", 800.0), &all);
        let less = ["CPU quotas of the children of queue p add up to 900, its own is 800"];
        assert_eq!(told.warnings, less);
        let open = check(&queue("p", "", UNLIMITED), &all);
        assert_eq!(open, Verdict::default(), "without a bound nothing is too much");
        assert_eq!(check(&queue("a", "p", UNLIMITED), &all).warnings.len(), 1);
    }
}
