//! How shards fare, as conditions of their objects. Pure.

use kai_api::SchedulingShard;
use kai_core::time::Timestamp;
use kai_translate::time;
use serde_json::{Value, json};

/// The patch of a shard's status; none where it says so already.
pub(super) fn patch(shard: &SchedulingShard, problems: &[String], now: Timestamp) -> Option<Value> {
    let generation = shard.metadata.generation.unwrap_or(0);
    let ready = if problems.is_empty() {
        ("Ready", "True", "ready", "System is ready".to_owned())
    } else {
        ("Ready", "False", "not_ready", problems.join("\n"))
    };
    let wanted = [
        ("Reconciling", "False", "reconciled", "Reconciliation completed successfully".to_owned()),
        ("Deployed", "True", "deployed", "Resources deployed".to_owned()),
        ("Available", "True", "available", "System available".to_owned()),
        ready,
    ];
    let seen = shard.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let known = |kind: &str| seen.iter().find(|condition| condition.type_ == kind);
    let is_news = |(kind, status, _, message): &(&str, &str, &str, String)| {
        known(kind).is_none_or(|condition| {
            condition.status != *status
                || condition.message != *message
                || condition.observed_generation != Some(generation)
        })
    };
    if !wanted.iter().any(is_news) {
        return None;
    }
    let conditions = wanted.map(|(kind, status, reason, message)| {
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
    Some(json!({"status": {"conditions": conditions}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { nanos: 1_767_225_600_000_000_000 };

    #[test]
    fn conditions_are_written_once_and_name_what_is_wrong() {
        let mut shard = SchedulingShard::default();
        shard.metadata.generation = Some(3);
        let told = patch(&shard, &["unknown flag: --typo".to_owned()], NOW).expect("news");
        let ready = &told["status"]["conditions"][3];
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("not_ready")));
        assert_eq!(ready["message"], "unknown flag: --typo");
        shard.status = serde_json::from_value(told["status"].clone()).expect("a status");
        assert_eq!(patch(&shard, &["unknown flag: --typo".to_owned()], NOW), None);
        assert!(patch(&shard, &[], NOW).is_some());
    }
}
