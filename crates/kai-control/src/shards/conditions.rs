//! Conditions of `Config` and `SchedulingShard` objects. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kai_core::time::Timestamp;
use kai_translate::time;

/// Conditions of a `Config` or a `SchedulingShard`. Both have the same types: clients of KAI wait for all of them.
pub(super) struct SettingsConditions<'a> {
    /// Fields that are not honoured, and why.
    pub(super) problems: &'a [String],
    /// Conditions that the object shows.
    pub(super) observed: &'a [Condition],
}

type Wanted = (&'static str, &'static str, &'static str, String);

impl SettingsConditions<'_> {
    fn wanted(&self) -> Vec<Wanted> {
        let ready = if self.problems.is_empty() {
            ("Ready", "True", "ready", "System is ready".to_owned())
        } else {
            ("Ready", "False", "not_ready", self.problems.join("\n"))
        };
        let done = "Reconciliation completed successfully".to_owned();
        let fulfilled = "Dependencies are fulfilled".to_owned();
        vec![
            ("Reconciling", "False", "reconciled", done),
            ("Deployed", "True", "deployed", "Resources deployed".to_owned()),
            ("Available", "True", "available", "System available".to_owned()),
            ("DependenciesFulfilled", "True", "dependencies_fulfilled", fulfilled),
            ready,
        ]
    }

    /// The conditions to write; none where the object shows them already.
    pub(super) fn wanted_conditions(
        &self,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Option<Vec<Condition>> {
        let generation = generation.unwrap_or(0);
        let (wanted, observed) = (self.wanted(), self.observed);
        let known = |kind: &str| observed.iter().find(|condition| condition.type_ == kind);
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
            let since = kept.map(|condition| condition.last_transition_time.clone());
            Condition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message,
                observed_generation: Some(generation),
                last_transition_time: since.unwrap_or_else(|| Time(time::on_calendar(now))),
            }
        });
        Some(conditions.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { nanos: 1_767_225_600_000_000_000 };

    #[test]
    fn conditions_are_written_once_and_name_what_is_wrong() {
        let problems = ["unknown flag: --typo".to_owned()];
        let conditions = SettingsConditions { problems: &problems, observed: &[] };
        let written = conditions.wanted_conditions(Some(3), NOW).expect("news");
        let kinds: Vec<&str> = written.iter().map(|one| one.type_.as_str()).collect();
        let all = ["Reconciling", "Deployed", "Available", "DependenciesFulfilled", "Ready"];
        assert_eq!(kinds, all, "clients of KAI wait for each of them");
        let ready = &written[4];
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "not_ready"));
        assert_eq!(ready.message, "unknown flag: --typo");
        let again = SettingsConditions { observed: &written, ..conditions };
        assert_eq!(again.wanted_conditions(Some(3), NOW), None);
        assert!(again.wanted_conditions(Some(4), NOW).is_some(), "another generation is news");
        let repaired = SettingsConditions { problems: &[], ..again };
        assert!(repaired.wanted_conditions(Some(3), NOW).is_some());
    }
}
