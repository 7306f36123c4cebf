//! Every recorded call of the fairness functions, in both modes.
//!
//! The recordings are not part of the repository: they are looked for in the folder that the environment
//! variable `KAI_SHARED` names, or beside the workspace.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kai_core::compatibility::Compatibility;
use kai_core::fairness::{
    Amounts, CapacityViolation, Contender, QueueNode, QueueResource, QueueShares, QueueTree,
    ReclaimValidator, Reclaimer, UNLIMITED, can_reclaim, check_limit, check_non_preemptible_quota,
    compare, divide_among_siblings, guarantees_deserved_quota, involved_resources,
    maintains_fair_share, may_be_victim, text,
};
use kai_core::ids::QueueId;
use kai_core::time::Timestamp;
use kai_sim::vectors::{
    CanReclaimVector, CapacityVector, FairShareVector, FilterVictimVector, QueueOrderVector,
    ReclaimableVector, StrategyVector, VectorAmounts, VectorContender, VectorFile, VectorQueue,
    VectorReclaimer, VectorResource, VectorShare, Vectors, read_folder,
};

const RECORDED: usize = 226;

fn shared_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("KAI_SHARED").map_or_else(|| workspace.join("../shared"), PathBuf::from)
}

#[test]
fn all_recorded_vectors_agree_in_both_modes() {
    let folder = shared_folder().join("scenarios/vectors");
    if !folder.is_dir() {
        // Written past the capture of test output: a skipped check must be visible.
        let _ = writeln!(std::io::stderr(), "SKIPPED vectors: {} not found", folder.display());
        return;
    }
    let files = read_folder(&folder).unwrap();
    let count: usize = files.iter().map(|file| file.vectors.len()).sum();
    assert_eq!(count, RECORDED, "vectors in {}", folder.display());
    let mut failures = Vec::new();
    for mode in [Compatibility::Right, Compatibility::Kai] {
        for file in &files {
            check_file(file, mode, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{} disagree:\n{}", failures.len(), failures.join("\n"));
    eprintln!("vectors: {count} agree in both modes");
}

/// What was expected and found, when they differ.
type Verdict = Result<(), String>;

fn check_file(file: &VectorFile, mode: Compatibility, failures: &mut Vec<String>) {
    let mut note = |index: usize, at: &str, verdict: Verdict| {
        if let Err(difference) = verdict {
            let path = file.path.display();
            failures.push(format!("{path}: entries[{index}] ({at}, {mode:?}): {difference}"));
        }
    };
    macro_rules! check_each {
        ($entries:expr, $check:expr) => {
            for (index, entry) in $entries.iter().enumerate() {
                note(index, &entry.at, $check(entry));
            }
        };
    }
    match &file.vectors {
        Vectors::FairShare(entries) => check_each!(entries, |entry| fair_share(entry, mode)),
        Vectors::CanReclaim(entries) => check_each!(entries, |entry: &CanReclaimVector| {
            let forest = Forest::new(&entry.queues);
            let reclaimer = forest.reclaimer(&entry.reclaimer, mode);
            same(&entry.result, &can_reclaim(&forest.tree, &reclaimer).is_ok())
        }),
        Vectors::Reclaimable(entries) => check_each!(entries, |entry| reclaimable(entry, mode)),
        Vectors::FilterVictim(entries) => check_each!(entries, |entry: &FilterVictimVector| {
            let forest = Forest::new(&entry.queues);
            let reclaimer = forest.reclaimer(&entry.reclaimer, mode);
            let victim = forest.ids[entry.reclaimee_queue.as_str()];
            same(&entry.result, &may_be_victim(&forest.tree, &reclaimer, victim))
        }),
        Vectors::MaintainFairShare(entries) => check_each!(entries, |entry: &StrategyVector| {
            let victim = shares(&entry.reclaimee_queue);
            same(&entry.result, &maintains_fair_share(&victim, &amounts(entry.reclaimee_remaining)))
        }),
        Vectors::GuaranteeDeservedQuota(entries) => check_each!(entries, guarantee),
        Vectors::QueueOrder(entries) => check_each!(entries, queue_order),
        Vectors::OverLimit(entries) => {
            check_each!(entries, |entry: &CapacityVector| { capacity(entry, mode, check_limit) })
        }
        Vectors::NonPreemptibleOverQuota(entries) => {
            check_each!(entries, |entry: &CapacityVector| {
                capacity(entry, mode, |tree, queue, request| {
                    if entry.preemptible {
                        return Ok(());
                    }
                    check_non_preemptible_quota(tree, queue, request)
                })
            });
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(expected: &T, found: &T) -> Verdict {
    if expected == found { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}")) }
}

fn amounts(from: VectorAmounts) -> Amounts {
    Amounts::new(from.cpu, from.memory, from.gpu)
}

fn shares(queue: &VectorQueue) -> QueueShares {
    let by_resource = &queue.shares;
    let pick = |number: fn(&VectorShare) -> f64| {
        Amounts::new(
            number(&by_resource.cpu),
            number(&by_resource.memory),
            number(&by_resource.gpu),
        )
    };
    QueueShares {
        deserved: pick(|share| share.deserved),
        max_allowed: pick(|share| share.max_allowed),
        lending_limit: None,
        over_quota_weight: pick(|share| share.over_quota_weight),
        allocated: pick(|share| share.allocated),
        allocated_non_preemptible: pick(|share| share.allocated_not_preemptible),
        request: pick(|share| share.request),
        usage: pick(|share| share.usage),
        fair_share: pick(|share| share.fair_share),
        priority: queue.priority,
        created: Timestamp::from_seconds(queue.created_unix),
        tolerance: 0.0,
    }
}

fn node(name: &str, parent: Option<QueueId>, shares: QueueShares) -> QueueNode {
    let name: Arc<str> = Arc::from(name);
    let display_name = Arc::clone(&name);
    QueueNode { name, display_name, parent, children: Vec::new(), shares, live: true }
}

struct Forest<'a> {
    tree: QueueTree,
    ids: BTreeMap<&'a str, QueueId>,
}

impl<'a> Forest<'a> {
    fn new(queues: &'a BTreeMap<String, VectorQueue>) -> Self {
        let ids: BTreeMap<_, _> = queues
            .keys()
            .enumerate()
            .map(|(slot, name)| (name.as_str(), QueueId::new(slot)))
            .collect();
        let mut tree = QueueTree::default();
        for (name, queue) in queues {
            let parent = ids.get(queue.parent.as_str()).copied();
            tree.queues.push(node(name, parent, shares(queue)));
        }
        for slot in 0..tree.queues.len() {
            if let Some(parent) = tree.queues[slot].parent {
                tree.queues[parent.index()].children.push(QueueId::new(slot));
            }
        }
        Self { tree, ids }
    }

    fn reclaimer(&self, from: &VectorReclaimer, mode: Compatibility) -> Reclaimer {
        let required = amounts(from.required);
        Reclaimer {
            queue: self.ids[from.queue.as_str()],
            required,
            involved: involved_resources(&required, required[QueueResource::Gpu], mode),
            preemptible: from.is_preemptible,
        }
    }
}

fn fair_share(entry: &FairShareVector, mode: Compatibility) -> Verdict {
    let resource = match entry.resource {
        VectorResource::Cpu => QueueResource::Cpu,
        VectorResource::Memory => QueueResource::Memory,
        VectorResource::Gpu => QueueResource::Gpu,
    };
    let of_resource = |number: f64| {
        let mut amounts = Amounts::ZERO;
        amounts[resource] = number;
        amounts
    };
    let mut tree = QueueTree::default();
    for (name, queue) in &entry.queues {
        let shares = QueueShares {
            deserved: of_resource(queue.deserved),
            max_allowed: of_resource(queue.max_allowed),
            over_quota_weight: of_resource(queue.over_quota_weight),
            request: of_resource(queue.request),
            usage: of_resource(queue.usage),
            fair_share: of_resource(queue.fair_share_before),
            priority: queue.priority,
            created: Timestamp::from_seconds(queue.created_unix),
            ..QueueShares::default()
        };
        tree.queues.push(node(name, None, shares));
    }
    let siblings: Vec<_> = (0..tree.queues.len()).map(QueueId::new).collect();
    let remaining =
        divide_among_siblings(&mut tree, &siblings, resource, entry.total, entry.k, mode);
    let found: Vec<_> = tree.queues.iter().map(|node| node.shares.fair_share[resource]).collect();
    let expected: Vec<_> = entry.queues.values().map(|queue| queue.fair_share_after).collect();
    same(&(expected, entry.remaining.max(0.0)), &(found, remaining))
}

fn reclaimable(entry: &ReclaimableVector, mode: Compatibility) -> Verdict {
    let forest = Forest::new(&entry.queues);
    let reclaimer = forest.reclaimer(&entry.reclaimer, mode);
    let mut validator = ReclaimValidator::new(&forest.tree, reclaimer, entry.saturation_multiplier);
    let mut acceptable = true;
    for (queue, units) in &entry.reclaimees {
        for unit in units {
            let unit = amounts(*unit);
            let involved = involved_resources(&unit, unit[QueueResource::Gpu], mode);
            let queue = forest.ids[queue.as_str()];
            acceptable =
                acceptable && validator.try_unit(&forest.tree, queue, &unit, involved).is_ok();
        }
    }
    same(&entry.result, &(acceptable && validator.finish(&forest.tree).is_ok()))
}

fn guarantee(entry: &StrategyVector) -> Verdict {
    let (reclaimer, victim) = (shares(&entry.reclaimer_queue), shares(&entry.reclaimee_queue));
    let remaining = amounts(entry.reclaimee_remaining);
    let required = amounts(entry.required);
    same(&entry.result, &guarantees_deserved_quota(&required, &reclaimer, &victim, &remaining))
}

fn queue_order(entry: &QueueOrderVector) -> Verdict {
    let prepare = |side: &VectorContender| {
        let victims = side.victims.iter().fold(Amounts::ZERO, |sum, victim| sum + amounts(*victim));
        (node("same", None, shares(&side.queue)), amounts(side.job_request), victims)
    };
    let (left, right) = (prepare(&entry.left), prepare(&entry.right));
    let order = compare(
        &Contender { queue: &left.0, job: Some(&left.1), victims: Some(&left.2) },
        &Contender { queue: &right.0, job: Some(&right.1), victims: Some(&right.2) },
        &amounts(entry.total),
    );
    // Queues alike in everything: the reference puts the right one first.
    same(&entry.result, &(if order == Ordering::Less { -1 } else { 1 }))
}

fn capacity(
    entry: &CapacityVector,
    mode: Compatibility,
    check: impl Fn(&QueueTree, QueueId, &Amounts) -> Result<(), CapacityViolation>,
) -> Verdict {
    let forest = Forest::new(&entry.queues);
    let queue = forest.ids[entry.queue.as_str()];
    let result = check(&forest.tree, queue, &amounts(entry.requested));
    let violation = result.err();
    if let Some(violation) = &violation {
        assert_ne!(violation.bound, UNLIMITED);
    }
    let reason = violation.map(|violation| violation.kind.reason().to_owned());
    let message = violation.map(|violation| text::capacity_message(&forest.tree, &violation, mode));
    let expected = (entry.schedulable, entry.reason.clone(), entry.message.clone());
    same(&expected, &(violation.is_none(), reason, message))
}
