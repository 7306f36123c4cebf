//! Which queues are refused, and which are let through with a warning.

use serde_json::Value;

use super::Verdict;

/// A queue that is created or changed.
pub fn validate(queue: &Value) -> Verdict {
    let resources = &queue["spec"]["resources"];
    if !resources.is_object() {
        let text = "resources must be specified".to_owned();
        return Verdict { refused: Some(text.clone()), warnings: vec![text] };
    }
    let mut warnings = Vec::new();
    for resource in ["cpu", "memory", "gpu"] {
        if resources[resource]["limit"].is_null() {
            warnings.push(format!(
                "spec.resources.{resource}.limit is left out: it is 0, and pods that ask for {resource} are not placed"
            ));
        }
    }
    if queue["spec"]["parentQueue"].is_string()
        && queue["spec"]["parentQueue"] == queue["metadata"]["name"]
    {
        warnings.push("spec.parentQueue names the queue itself: it is never used".to_owned());
    }
    Verdict { refused: None, warnings }
}

/// A queue that is deleted.
pub fn validate_deletion(queue: &Value) -> Verdict {
    let children = queue["status"]["childQueues"].as_array();
    let children: Vec<&str> = children.into_iter().flatten().filter_map(Value::as_str).collect();
    let name = queue["metadata"]["name"].as_str().unwrap_or_default();
    let refused = (!children.is_empty()).then(|| {
        format!("cannot delete queue {name}: it has child queues [{}]", children.join(" "))
    });
    Verdict { refused, warnings: Vec::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn queues_need_resources() {
        let told = validate(&json!({"spec": {}}));
        assert_eq!(told.refused.as_deref(), Some("resources must be specified"));
        assert_eq!(told.warnings, ["resources must be specified"]);
        let open = json!({"quota": 0, "limit": -1});
        let told =
            validate(&json!({"spec": {"resources": {"cpu": open, "memory": open, "gpu": open}}}));
        assert_eq!(told, Verdict::default());
    }

    #[test]
    fn what_is_left_out_is_warned_of() {
        let told = validate(
            &json!({"metadata": {"name": "q"}, "spec": {"parentQueue": "q", "resources": {"gpu": {"limit": 1}}}}),
        );
        assert_eq!(told.refused, None);
        assert_eq!(told.warnings.len(), 3, "{told:?}");
    }

    #[test]
    fn a_queue_with_children_stays() {
        let told = validate_deletion(
            &json!({"metadata": {"name": "q"}, "status": {"childQueues": ["a", "b"]}}),
        );
        assert_eq!(
            told.refused.as_deref(),
            Some("cannot delete queue q: it has child queues [a b]")
        );
        assert_eq!(validate_deletion(&json!({"metadata": {"name": "q"}})), Verdict::default());
    }
}
