//! Which queues are denied, and which are admitted with a warning.

use kai_api::Queue;
use kai_api::queue::QueueResource;

use super::Verdict;

/// A queue that is created or changed.
pub fn validate(queue: &Queue) -> Verdict {
    let Some(resources) = &queue.spec.resources else {
        let text = "resources must be specified".to_owned();
        return Verdict { denial: Some(text.clone()), warnings: vec![text] };
    };
    let mut warnings = Vec::new();
    let named = [("cpu", &resources.cpu), ("memory", &resources.memory), ("gpu", &resources.gpu)];
    for (name, resource) in named {
        let has_limit = |resource: &QueueResource| resource.limit.is_some();
        if !resource.as_ref().is_some_and(has_limit) {
            warnings.push(format!(
                "spec.resources.{name}.limit is left out: it is 0, and pods that ask for {name} are not placed"
            ));
        }
    }
    Verdict { denial: None, warnings }
}

/// Denies a parent queue that is the queue itself or below it. A queue that had this parent before is admitted with a
/// warning, so that its other fields can be changed.
pub fn validate_parent(queue: &Queue, old: Option<&Queue>, queues: &[Queue]) -> Verdict {
    let Some(cycle) = cycle_of(queue, queues) else { return Verdict::default() };
    let text = match cycle.as_slice() {
        [own] => format!("spec.parentQueue: queue {own} cannot be its own parent queue"),
        _ => format!(
            "spec.parentQueue: the parent queues form a cycle: {}; pods of these queues are never scheduled",
            cycle.join(" -> ")
        ),
    };
    if old.is_some_and(|old| old.spec.parent_queue == queue.spec.parent_queue) {
        return Verdict { denial: None, warnings: vec![text] };
    }
    Verdict::deny(text)
}

/// The queues of the cycle that goes through `queue`, which comes first; the last one's parent is the first.
fn cycle_of(queue: &Queue, queues: &[Queue]) -> Option<Vec<String>> {
    let own = name(queue);
    let mut path = vec![own.to_owned()];
    let mut parent = parent(queue)?;
    while parent != own {
        if path.iter().any(|known| known == parent) {
            return None; // a cycle above the queue, which does not go through it
        }
        path.push(parent.to_owned());
        let above = queues.iter().find(|other| name(other) == parent)?;
        parent = self::parent(above)?;
    }
    Some(path)
}

/// The name of a queue; empty where it has none.
pub(super) fn name(queue: &Queue) -> &str {
    queue.metadata.name.as_deref().unwrap_or_default()
}

/// The parent of a queue; none for a root.
pub(super) fn parent(queue: &Queue) -> Option<&str> {
    queue.spec.parent_queue.as_deref().filter(|parent| !parent.is_empty())
}

/// A queue that is deleted. `queues` are all queues, where the deletion of parent queues is denied.
pub fn validate_deletion(queue: &Queue, denied_among: Option<&[Queue]>) -> Verdict {
    let status = queue.status.iter();
    let children: Vec<&str> =
        status.flat_map(|status| &status.child_queues).map(String::as_str).collect();
    if children.is_empty() {
        return Verdict::default();
    }
    let (name, children) = (name(queue), children.join(" "));
    match denied_among {
        // No queue of a cycle could be deleted before its children.
        Some(queues) if cycle_of(queue, queues).is_none() => {
            Verdict::deny(format!("cannot delete queue {name}: it has child queues [{children}]"))
        }
        _ => Verdict {
            denial: None,
            warnings: vec![format!(
                "queue {name} has child queues [{children}]: their pods are not scheduled until they have another parent queue"
            )],
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(mut object: Value) -> Queue {
        let fields = object.as_object_mut().expect("an object");
        for (key, value) in [("metadata", json!({})), ("spec", json!({}))] {
            fields.entry(key).or_insert(value);
        }
        fields.insert("apiVersion".to_owned(), json!("scheduling.run.ai/v2"));
        fields.insert("kind".to_owned(), json!("Queue"));
        serde_json::from_value(object).expect("a queue")
    }

    fn queue(name: &str, parent: &str) -> Queue {
        read(json!({"metadata": {"name": name}, "spec": {"parentQueue": parent}}))
    }

    #[test]
    fn queues_need_resources() {
        let verdict = validate(&read(json!({"spec": {}})));
        assert_eq!(verdict.denial.as_deref(), Some("resources must be specified"));
        assert_eq!(verdict.warnings, ["resources must be specified"]);
        let open = json!({"quota": 0, "limit": -1});
        let resources = json!({"cpu": open, "memory": open, "gpu": open});
        let verdict = validate(&read(json!({"spec": {"resources": resources}})));
        assert_eq!(verdict, Verdict::default());
    }

    #[test]
    fn what_is_left_out_is_warned_of() {
        let resources = json!({"gpu": {"limit": 1}});
        let verdict = validate(&read(json!({"spec": {"resources": resources}})));
        assert_eq!(verdict.denial, None);
        assert_eq!(verdict.warnings.len(), 2, "{verdict:?}");
    }

    #[test]
    fn a_cycle_of_parents_is_denied_with_its_queues() {
        let queues = [queue("a", "b"), queue("b", "c"), queue("c", ""), queue("d", "missing")];
        let denied = |new: &Queue| validate_parent(new, None, &queues).denial;
        assert_eq!(
            denied(&queue("c", "a")).as_deref(),
            Some(
                "spec.parentQueue: the parent queues form a cycle: c -> a -> b; pods of these queues are never scheduled"
            )
        );
        assert_eq!(
            denied(&queue("x", "x")).as_deref(),
            Some("spec.parentQueue: queue x cannot be its own parent queue")
        );
        for fine in [queue("x", "a"), queue("x", "d"), queue("x", "unknown"), queue("c", "")] {
            assert_eq!(denied(&fine), None, "{fine:?}");
        }
    }

    #[test]
    fn a_queue_below_a_cycle_and_an_old_cycle_are_admitted() {
        let queues = [queue("a", "b"), queue("b", "a")];
        assert_eq!(validate_parent(&queue("x", "a"), None, &queues), Verdict::default());
        let verdict = validate_parent(&queue("a", "b"), Some(&queue("a", "b")), &queues);
        assert_eq!((verdict.denial, verdict.warnings.len()), (None, 1));
    }

    #[test]
    fn deleting_a_parent_queue_is_a_warning_unless_it_is_denied() {
        let parent =
            read(json!({"metadata": {"name": "q"}, "status": {"childQueues": ["a", "b"]}}));
        let verdict = validate_deletion(&parent, None);
        assert_eq!(verdict.denial, None);
        assert!(verdict.warnings[0].starts_with("queue q has child queues [a b]"), "{verdict:?}");
        let verdict = validate_deletion(&parent, Some(&[]));
        assert_eq!(
            verdict.denial.as_deref(),
            Some("cannot delete queue q: it has child queues [a b]")
        );
        let alone = validate_deletion(&queue("q", ""), Some(&[]));
        assert_eq!(alone, Verdict::default());
    }

    #[test]
    fn queues_of_a_cycle_can_always_be_deleted() {
        let one = json!({"metadata": {"name": "a"}, "spec": {"parentQueue": "b"}, "status": {"childQueues": ["b"]}});
        let one = read(one);
        let verdict = validate_deletion(&one, Some(&[queue("b", "a")]));
        assert_eq!(verdict.denial, None);
    }
}
