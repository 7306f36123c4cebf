//! The texts people read about queues, rendered from data and never on the way to a decision.
//!
//! Rules: numbers are in cores, GB and GPUs, rounded to six and then cut to three decimals, without trailing
//! zeros; −1 reads `Unlimited`. The reference shows some GPU numbers through a type made for pods, which
//! cuts numbers from one upwards to whole devices and shows unlimited as 0, and shows the GPUs of a refused
//! non-preemptible job with all their digits. That is kept under [`Compatibility::Kai`] only.

use std::fmt::Write as _;

use super::amounts::{Amounts, QueueResource, UNLIMITED};
use super::capacity::{CapacityViolation, ViolationKind};
use super::shares::{QueueNode, QueueTree};
use crate::compatibility::Compatibility;
use crate::ids::QueueId;

impl ViolationKind {
    /// Machine-readable reason of the violation, as KAI writes it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::OverLimit => "OverLimit",
            Self::NonPreemptibleOverQuota => "NonPreemptibleOverQuota",
            Self::OverLendingLimit => "OverLendingLimit",
        }
    }
}

/// How many native units make one shown unit.
fn shown_unit(resource: QueueResource) -> f64 {
    match resource {
        QueueResource::Cpu => 1e3,
        QueueResource::Memory => 1e9,
        QueueResource::Gpu => 1.0,
    }
}

/// An amount or bound as people read it.
pub fn shown_amount(amount: f64, resource: QueueResource) -> String {
    if amount == UNLIMITED {
        return "Unlimited".to_owned();
    }
    cut_to_three_decimals(amount / shown_unit(resource))
}

fn cut_to_three_decimals(number: f64) -> String {
    let mut text = format!("{number:.6}");
    text.truncate(text.len() - 3);
    let length = text.trim_end_matches('0').trim_end_matches('.').len();
    text.truncate(length);
    text
}

/// A number with all its digits, in exponent form when very small or very large.
fn all_digits(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// The number of GPUs of a queue as shown in condition details and reclaim messages.
pub fn shown_gpus(gpus: f64, compatibility: Compatibility) -> f64 {
    if !compatibility.is_kai() {
        gpus
    } else if gpus >= 1.0 {
        gpus.trunc()
    } else if gpus > 0.0 {
        (gpus * 100.0).round() / 100.0
    } else {
        0.0
    }
}

/// Part of the message about a broken limit.
const AT_LIMIT: &str = "quota has reached the allowable limit of";
/// Start of the message about a broken quota of non-preemptible work.
const OVER_QUOTA: &str = "Non-preemptible workload is over quota.";

/// The message says that a limit or quota of a queue keeps a workload from running: more nodes would not help.
pub fn is_about_capacity(message: &str) -> bool {
    message.contains(AT_LIMIT) || message.contains(OVER_QUOTA)
}

/// Why a request does not fit into a queue.
pub fn capacity_message(
    tree: &QueueTree,
    violation: &CapacityViolation,
    compatibility: Compatibility,
) -> String {
    let queue = &tree.node(violation.queue).display_name;
    let resource = violation.resource;
    let shown = |amount| shown_amount(amount, resource);
    let (bound, allocated) = (shown(violation.bound), shown(violation.allocated));
    match violation.kind {
        ViolationKind::OverLimit => {
            let (of, unit) = match resource {
                QueueResource::Cpu => ("CPU cores", "cores"),
                QueueResource::Memory => ("memory", "GB"),
                QueueResource::Gpu => ("GPUs", "GPUs"),
            };
            let requested = shown(violation.requested);
            format!(
                "{queue} {AT_LIMIT} {of}. Limit is {bound} {unit}, \
                 currently {allocated} {unit} allocated and workload requested {requested} {unit}"
            )
        }
        ViolationKind::OverLendingLimit => {
            let unit = match resource {
                QueueResource::Cpu => "cores",
                QueueResource::Memory => "GB",
                QueueResource::Gpu => "GPUs",
            };
            let requested = shown(violation.requested);
            format!(
                "{queue} would use quota that other queues do not lend. It can hold {bound} {unit} at present, \
                 currently {allocated} {unit} allocated and workload requested {requested} {unit}"
            )
        }
        ViolationKind::NonPreemptibleOverQuota => {
            let (asked, unit) = match resource {
                QueueResource::Cpu => ("CPU cores", "cores"),
                QueueResource::Memory => ("GB memory", "GB"),
                QueueResource::Gpu => ("GPUs", "GPUs"),
            };
            let requested = if resource == QueueResource::Gpu && compatibility.is_kai() {
                all_digits(violation.requested)
            } else {
                shown(violation.requested)
            };
            format!(
                "{OVER_QUOTA} Workload requested {requested} {asked}, \
                 but {queue} quota is {bound} {unit}, while {allocated} {unit} are already allocated \
                 for non-preemptible pods. Use a preemptible workload to go over quota."
            )
        }
    }
}

/// The amounts of a queue on one line.
pub fn amounts_line(amounts: &Amounts, compatibility: Compatibility) -> String {
    let gpus = shown_gpus(amounts[QueueResource::Gpu], compatibility);
    format!(
        "GPU: {}, CPU: {} (cores), memory: {} (GB)",
        shown_amount(gpus, QueueResource::Gpu),
        shown_amount(amounts[QueueResource::Cpu], QueueResource::Cpu),
        shown_amount(amounts[QueueResource::Memory], QueueResource::Memory),
    )
}

/// What a queue holds and its fair share, as reported to workloads that lost a pod.
pub fn queue_line(queue: &QueueNode, compatibility: Compatibility) -> String {
    let shares = &queue.shares;
    format!(
        "{} uses <{}> with a quota of <{}>, fair-share of <{}> and queue priority of <{}>.",
        queue.display_name,
        amounts_line(&shares.allocated, compatibility),
        amounts_line(&shares.deserved, compatibility),
        amounts_line(&shares.fair_share, compatibility),
        shares.priority,
    )
}

/// The queues that a reclaim message speaks of, for a victim in the leaf `victim_queue` and a reclaimer in
/// `reclaimer_queue`: the leaves where they are siblings, otherwise the queue above each, if any.
pub fn queues_of_message(
    tree: &QueueTree,
    victim_queue: QueueId,
    reclaimer_queue: QueueId,
) -> (QueueId, QueueId) {
    let (victim_parent, reclaimer_parent) =
        (tree.parent(victim_queue), tree.parent(reclaimer_queue));
    if victim_parent == reclaimer_parent {
        return (victim_queue, reclaimer_queue);
    }
    (victim_parent.unwrap_or(victim_queue), reclaimer_parent.unwrap_or(reclaimer_queue))
}

/// Why a pod was evicted by reclaim. `pod` and `workload` are namespace and name.
pub fn reclaim_message(
    tree: &QueueTree,
    pod: (&str, &str),
    victim_queue: QueueId,
    workload: (&str, &str),
    reclaimer_queue: QueueId,
    compatibility: Compatibility,
) -> String {
    let mut message =
        format!("Pod {}/{} was preempted by workload {}/{}.", pod.0, pod.1, workload.0, workload.1);
    let (victim, reclaimer) = queues_of_message(tree, victim_queue, reclaimer_queue);
    for queue in [victim, reclaimer] {
        let line = queue_line(tree.node(queue), compatibility);
        // Writing to a string cannot fail.
        let _ = write!(message, "\n{line}");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cut_not_rounded_and_lose_trailing_zeros() {
        assert_eq!(cut_to_three_decimals(1.9999), "1.999");
        assert_eq!(cut_to_three_decimals(1.999_999_9), "2");
        assert_eq!(cut_to_three_decimals(0.5), "0.5");
        assert_eq!(cut_to_three_decimals(100.0), "100");
        assert_eq!(cut_to_three_decimals(0.0), "0");
        assert_eq!(shown_amount(1100.0, QueueResource::Cpu), "1.1");
        assert_eq!(shown_amount(2.5e9, QueueResource::Memory), "2.5");
        assert_eq!(shown_amount(UNLIMITED, QueueResource::Memory), "Unlimited");
    }

    #[test]
    fn all_digits_use_exponents_only_at_the_ends() {
        assert_eq!(all_digits(1.2), "1.2");
        assert_eq!(all_digits(10.0), "10");
        assert_eq!(all_digits(0.1 + 0.2), "0.30000000000000004");
        assert_eq!(all_digits(0.00001), "1e-05");
        assert_eq!(all_digits(1.5e21), "1.5e+21");
    }

    #[test]
    fn gpus_of_queues_lose_their_fraction_only_like_the_reference() {
        let allocated = Amounts::new(-1.0, 3e9, 2.5);
        let unlimited = Amounts::UNBOUNDED;
        let line = |amounts: &Amounts, mode| amounts_line(amounts, mode);
        assert_eq!(
            line(&allocated, Compatibility::Kai),
            "GPU: 2, CPU: Unlimited (cores), memory: 3 (GB)"
        );
        assert_eq!(
            line(&allocated, Compatibility::Right),
            "GPU: 2.5, CPU: Unlimited (cores), memory: 3 (GB)"
        );
        assert!(line(&unlimited, Compatibility::Kai).starts_with("GPU: 0, "));
        assert!(line(&unlimited, Compatibility::Right).starts_with("GPU: Unlimited, "));
        assert_eq!(shown_gpus(0.126, Compatibility::Kai), 0.13);
    }
}
