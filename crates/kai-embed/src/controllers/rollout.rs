//! How many replicas each replica set of a deployment has in the next step of a rollout.

use serde_json::Value;

use super::templates::wanted;
use crate::object::text;

/// A replica set of a deployment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Replicas in its spec.
    pub(super) replicas: i64,
    /// Pods of the set that are ready.
    pub(super) ready: i64,
    /// Pods of the set that exist.
    pub(super) existing: i64,
}

impl Share {
    pub(super) fn of(set: &Value) -> Self {
        let status = |field: &str| set["status"][field].as_i64().unwrap_or_default();
        Self {
            replicas: wanted(set, "replicas", 0),
            ready: status("readyReplicas"),
            existing: status("replicas"),
        }
    }
}

/// Replicas of the new set, then of the old ones.
pub(super) fn goals(deployment: &Value, new: Share, old: &[Share]) -> Vec<i64> {
    let replicas = wanted(deployment, "replicas", 1).max(0);
    let strategy = &deployment["spec"]["strategy"];
    if text(&strategy["type"]) == "Recreate" {
        let is_clear = old.iter().all(|set| set.existing == 0 && set.replicas == 0);
        let none = old.iter().map(|_| 0);
        return std::iter::once(if is_clear { replicas } else { 0 }).chain(none).collect();
    }
    let rolling = &strategy["rollingUpdate"];
    let surge = part(&rolling["maxSurge"], replicas, true);
    let mut unavailable = part(&rolling["maxUnavailable"], replicas, false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1; // otherwise nothing could ever change
    }
    let replicas_in_all: i64 = new.replicas + old.iter().map(|set| set.replicas).sum::<i64>();
    let added = (replicas + surge - replicas_in_all).clamp(0, (replicas - new.replicas).max(0));
    let grown = (new.replicas + added).min(replicas);
    let mut goals = vec![grown];
    let replicas_in_all = replicas_in_all + grown - new.replicas;
    let least = replicas - unavailable;
    // Pods that are not ready go first: nothing is lost with them.
    let mut spare = (replicas_in_all - least - (grown - new.ready).max(0)).max(0);
    let mut shrunk: Vec<Share> = old.to_vec();
    for set in &mut shrunk {
        let gone = (set.replicas - set.ready).clamp(0, spare);
        set.replicas -= gone;
        spare -= gone;
    }
    let ready: i64 =
        new.ready.min(grown) + shrunk.iter().map(|set| set.ready.min(set.replicas)).sum::<i64>();
    let mut spare = (ready - least).max(0);
    for set in &mut shrunk {
        let gone = set.replicas.min(spare);
        set.replicas -= gone;
        spare -= gone;
    }
    goals.extend(shrunk.iter().map(|set| set.replicas));
    goals
}

/// A number, or a share of `all`.
fn part(value: &Value, all: i64, rounds_up: bool) -> i64 {
    let percent = match (value.as_i64(), value.as_str()) {
        (Some(number), _) => return number.max(0),
        (None, Some(text)) => text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok()),
        (None, None) => None,
    };
    let scaled = all * percent.unwrap_or(25).max(0);
    if rounds_up { (scaled + 99) / 100 } else { scaled / 100 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn share(replicas: i64, ready: i64) -> Share {
        Share { replicas, ready, existing: replicas }
    }

    #[test]
    fn a_rollout_keeps_the_minimum_available() {
        let deployment = json!({"spec": {"replicas": 8, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}});
        let (mut new, mut old) = (share(0, 0), share(8, 8));
        let mut steps = 0;
        while new.ready < 8 || old.replicas > 0 {
            let goals = goals(&deployment, new, &[old]);
            assert!(goals[0] + goals[1] <= 10, "{goals:?}");
            // Pods of the old set end at once, pods of the new set are ready at the next step.
            old = share(goals[1], goals[1]);
            assert!(new.ready + old.ready >= 6, "{goals:?}");
            new = share(goals[0], goals[0]);
            steps += 1;
            assert!(steps < 20, "the rollout does not end");
        }
        assert!(steps > 2, "not all at once");
    }

    #[test]
    fn a_rollout_that_cannot_start_pods_keeps_the_old_ones() {
        let deployment = json!({"spec": {"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}}});
        let first = goals(&deployment, share(0, 0), &[share(4, 4)]);
        assert_eq!(first, [1, 3]);
        assert_eq!(goals(&deployment, share(1, 0), &[share(3, 3)]), [2, 3]);
        assert_eq!(goals(&deployment, share(2, 0), &[share(3, 3)]), [2, 3]);
    }

    #[test]
    fn recreate_waits_until_the_old_pods_are_gone() {
        let deployment = json!({"spec": {"replicas": 2, "strategy": {"type": "Recreate"}}});
        assert_eq!(goals(&deployment, share(0, 0), &[share(2, 2)]), [0, 0]);
        let going = Share { replicas: 0, ready: 0, existing: 1 };
        assert_eq!(goals(&deployment, share(0, 0), &[going]), [0, 0]);
        assert_eq!(goals(&deployment, share(0, 0), &[share(0, 0)]), [2, 0]);
    }

    #[test]
    fn a_single_set_has_all_replicas() {
        let deployment = json!({"spec": {"replicas": 3}});
        assert_eq!(goals(&deployment, share(1, 1), &[]), [3]);
        assert_eq!(goals(&deployment, share(5, 5), &[]), [3]);
    }
}
