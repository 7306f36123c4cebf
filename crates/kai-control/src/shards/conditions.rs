//! How shards fare, as conditions of their objects. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kai_core::time::Timestamp;
use kai_translate::time;
use serde_json::{Value, json};

/// What fares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fared {
    /// The installation.
    Config,
    /// A shard, of which KAI asks for no dependencies.
    Shard,
}

/// How something fares.
pub(super) struct Fares<'a> {
    /// What.
    pub(super) what: Fared,
    /// What about it makes no sense.
    pub(super) problems: &'a [String],
    /// The conditions it shows.
    pub(super) seen: &'a [Condition],
}

type Wanted = (&'static str, &'static str, &'static str, String);

impl Fares<'_> {
    fn wanted(&self) -> Vec<Wanted> {
        let ready = if self.problems.is_empty() {
            ("Ready", "True", "ready", "System is ready".to_owned())
        } else {
            ("Ready", "False", "not_ready", self.problems.join("\n"))
        };
        let done = "Reconciliation completed successfully".to_owned();
        let mut wanted = vec![
            ("Reconciling", "False", "reconciled", done),
            ("Deployed", "True", "deployed", "Resources deployed".to_owned()),
            ("Available", "True", "available", "System available".to_owned()),
        ];
        if self.what == Fared::Config {
            let message = "Dependencies are fulfilled".to_owned();
            wanted.push(("DependenciesFulfilled", "True", "dependencies_fulfilled", message));
        }
        wanted.push(ready);
        wanted
    }

    /// The patch of the status; none where it says so already.
    pub(super) fn patch(&self, generation: Option<i64>, now: Timestamp) -> Option<Value> {
        let generation = generation.unwrap_or(0);
        let (wanted, seen) = (self.wanted(), self.seen);
        let known = |kind: &str| seen.iter().find(|condition| condition.type_ == kind);
        let is_news = |(kind, status, _, message): &Wanted| {
            known(kind).is_none_or(|condition| {
                condition.status != *status
                    || condition.message != *message
                    || condition.observed_generation != Some(generation)
            })
        };
        if !wanted.iter().any(is_news) {
            return None;
        }
        let conditions = wanted.into_iter().map(|(kind, status, reason, message)| {
            let kept = known(kind).filter(|condition| condition.status == status);
            let since = kept.map_or_else(
                || json!(time::format(now)),
                |condition| json!(condition.last_transition_time),
            );
            json!({
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": since,
            })
        });
        Some(json!({"status": {"conditions": conditions.collect::<Vec<_>>()}}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { nanos: 1_767_225_600_000_000_000 };

    fn kinds(patch: &Value) -> Vec<&str> {
        let conditions = patch["status"]["conditions"].as_array().expect("conditions");
        conditions.iter().map(|one| one["type"].as_str().expect("a type")).collect()
    }

    #[test]
    fn conditions_are_written_once_and_name_what_is_wrong() {
        let problems = ["unknown flag: --typo".to_owned()];
        let fares = Fares { what: Fared::Shard, problems: &problems, seen: &[] };
        let told = fares.patch(Some(3), NOW).expect("news");
        assert_eq!(kinds(&told), ["Reconciling", "Deployed", "Available", "Ready"]);
        let ready = &told["status"]["conditions"][3];
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("not_ready")));
        assert_eq!(ready["message"], "unknown flag: --typo");
        let seen: Vec<Condition> =
            serde_json::from_value(told["status"]["conditions"].clone()).expect("conditions");
        let again = Fares { seen: &seen, ..fares };
        assert_eq!(again.patch(Some(3), NOW), None);
        assert!(again.patch(Some(4), NOW).is_some(), "another generation is news");
        assert!(Fares { problems: &[], ..again }.patch(Some(3), NOW).is_some());
    }

    #[test]
    fn an_installation_tells_of_its_dependencies_too() {
        let fares = Fares { what: Fared::Config, problems: &[], seen: &[] };
        let told = fares.patch(Some(1), NOW).expect("news");
        let all = ["Reconciling", "Deployed", "Available", "DependenciesFulfilled", "Ready"];
        assert_eq!(kinds(&told), all);
    }
}
