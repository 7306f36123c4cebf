//! Who may use a queue: annotations of the queue, or of a queue above it, list namespaces and priority classes. A queue
//! without them is open to all, as in KAI. Planner and admission ask the same rules. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::queue as names;
use kai_core::input::Text;
use kai_workloads::config::parse_selector;

/// Rules of all queues.
#[derive(Debug, Default)]
pub struct QueueAccess {
    queues: BTreeMap<Text, QueueRule>,
}

/// Who may use one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct QueueRule {
    parent: Option<Text>,
    /// None: namespaces are not listed.
    namespaces: Option<BTreeSet<String>>,
    /// None: namespaces are not selected by their labels. What cannot be read selects no namespace.
    selector: Option<Result<BTreeMap<String, String>, String>>,
    /// None: every class.
    priority_classes: Option<BTreeSet<String>>,
}

/// What wants to use a queue.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    pub namespace: &'a str,
    /// Labels of the namespace; none: they are not known.
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
    /// Name of its priority class; empty: the cluster's default.
    pub priority_class: &'a str,
}

fn listed(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn selected(text: &str) -> Result<BTreeMap<String, String>, String> {
    match parse_selector(text) {
        (labels, unread) if unread.is_empty() && !labels.is_empty() => Ok(labels),
        _ => Err(format!("{text:?} is no selector such as team=a,tier=gold")),
    }
}

impl QueueRule {
    fn of(parent: Option<Text>, annotations: &BTreeMap<String, String>) -> Self {
        let annotation = |key: &str| annotations.get(key).map(String::as_str);
        Self {
            parent,
            namespaces: annotation(names::ALLOWED_NAMESPACES).map(listed),
            selector: annotation(names::ALLOWED_NAMESPACE_SELECTOR).map(selected),
            priority_classes: annotation(names::ALLOWED_PRIORITY_CLASSES).map(listed),
        }
    }

    fn is_open(&self) -> bool {
        self.namespaces.is_none() && self.selector.is_none() && self.priority_classes.is_none()
    }

    /// Why the queue of this name denies the namespace or priority class; none: it does not.
    fn denial(&self, queue: &str, applicant: Applicant<'_>) -> Option<String> {
        let Applicant { namespace, namespace_labels, priority_class } = applicant;
        let is_listed = self.namespaces.as_ref().is_some_and(|all| all.contains(namespace));
        let is_selected = match &self.selector {
            Some(Ok(wanted)) => namespace_labels.is_some_and(|labels| {
                wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
            }),
            _ => false,
        };
        let is_restricted = self.namespaces.is_some() || self.selector.is_some();
        if is_restricted && !is_listed && !is_selected {
            let unread = match &self.selector {
                Some(Err(why)) => {
                    format!("; annotation {}: {why}", names::ALLOWED_NAMESPACE_SELECTOR)
                }
                _ => String::new(),
            };
            return Some(format!(
                "queue {queue} denies namespace {namespace}: its annotations {} and {} do not name it{unread}",
                names::ALLOWED_NAMESPACES,
                names::ALLOWED_NAMESPACE_SELECTOR
            ));
        }
        let classes = self.priority_classes.as_ref()?;
        if priority_class.is_empty() || classes.contains(priority_class) {
            return None;
        }
        Some(format!(
            "queue {queue} denies priority class {priority_class}: its annotation {} does not name it",
            names::ALLOWED_PRIORITY_CLASSES
        ))
    }
}

impl QueueAccess {
    /// Takes a queue over. True when it may deny or admit others than before.
    pub fn set(
        &mut self,
        queue: Text,
        parent: Option<Text>,
        annotations: &BTreeMap<String, String>,
    ) -> bool {
        let rule = QueueRule::of(parent, annotations);
        let is_open = rule.is_open();
        let before = self.queues.insert(queue, rule.clone());
        match before {
            None => !is_open,
            Some(before) => before != rule,
        }
    }

    /// Forgets a queue. True when others may be admitted now.
    pub fn remove(&mut self, queue: &str) -> bool {
        self.queues.remove(queue).is_some_and(|rule| !rule.is_open())
    }

    /// Do labels of namespaces matter?
    pub fn selects_namespaces(&self) -> bool {
        self.queues.values().any(|rule| rule.selector.is_some())
    }

    /// Why the queue, or a parent queue, denies them; none: it does not.
    pub fn denial(&self, queue: &str, applicant: Applicant<'_>) -> Option<Text> {
        let mut next = self.queues.get_key_value(queue);
        // Queues that are above each other are no queues, and end the walk.
        for _ in 0..self.queues.len() {
            let (name, rule) = next?;
            if let Some(why) = rule.denial(name, applicant) {
                return Some(why.into());
            }
            next = rule.parent.as_ref().and_then(|parent| self.queues.get_key_value(parent));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn access(annotations: &[(&str, &str)]) -> QueueAccess {
        let mut access = QueueAccess::default();
        assert!(access.set("department".into(), None, &map(annotations)));
        assert!(!access.set("team".into(), Some("department".into()), &map(&[])));
        access
    }

    fn denial(access: &QueueAccess, namespace: &str, team: &str, class: &str) -> String {
        let labels = map(&[("team", team)]);
        let applicant =
            Applicant { namespace, namespace_labels: Some(&labels), priority_class: class };
        access.denial("team", applicant).map(|why| why.to_string()).unwrap_or_default()
    }

    #[test]
    fn queues_without_annotations_are_open() {
        let access = QueueAccess::default();
        assert_eq!(denial(&access, "a", "x", "inference"), "");
    }

    #[test]
    fn namespaces_are_listed_or_selected_also_above() {
        let listed = access(&[("kai.scheduler/allowed-namespaces", "a, b")]);
        assert_eq!(denial(&listed, "b", "x", ""), "");
        assert!(denial(&listed, "c", "x", "").starts_with("queue department denies namespace c: "));
        let selected = access(&[("kai.scheduler/allowed-namespace-selector", "team=x")]);
        assert_eq!(denial(&selected, "c", "x", ""), "");
        assert!(denial(&selected, "c", "y", "").contains("denies namespace c"));
        let unread = access(&[("kai.scheduler/allowed-namespace-selector", "team in (x)")]);
        assert!(denial(&unread, "c", "x", "").contains("is no selector"));
    }

    #[test]
    fn priority_classes_are_listed() {
        let access = access(&[("kai.scheduler/allowed-priority-classes", "train")]);
        assert_eq!(denial(&access, "a", "x", "train"), "");
        assert_eq!(denial(&access, "a", "x", ""), "");
        assert!(denial(&access, "a", "x", "inference").contains("denies priority class inference"));
    }
}
