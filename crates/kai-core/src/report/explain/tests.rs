//! Every reason reads as a sentence.

use super::*;
use crate::config::ActionKind;
use crate::input::pod_group::DEFAULT_LEAF;
use crate::input::{Object, ObjectName};
use crate::plan::plan;
use crate::plugins::predicates::testing::{Cluster, NAMESPACE, group, node, pod, queue};
use crate::report::victims::{NotEnough, TooLittleFree};
use crate::time::Timestamp;

/// A department with two teams, one of which hangs below a queue that does not exist.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node(node("n"));
    cluster.queue(queue("dept"));
    cluster.queue(queue("team").under("dept"));
    cluster.queue(queue("orphan").under("nowhere"));
    cluster.queue(queue("chicken").under("egg"));
    cluster.queue(queue("egg").under("chicken"));
    cluster
}

fn id(cluster: &Cluster, queue: &str) -> QueueId {
    cluster.world.queue_ids[queue]
}

/// The explanation of a job of `queue` with one pod, which names `sub_group`.
fn explanation(queue: &str, sub_group: Option<&str>, schedulable: bool) -> String {
    let mut cluster = cluster();
    let mut spec = group("job", queue, &[(DEFAULT_LEAF, 1)]);
    spec.schedulable = schedulable;
    cluster.set(Object::PodGroup(Box::new(spec)));
    let mut pod = pod("job-0").of("job");
    pod.spec.sub_group = sub_group.map(Into::into);
    pod.spec.request.cpu_milli = 1 << 50;
    cluster.pod(pod);
    let plan = plan(&mut cluster.world, Timestamp::from_seconds(1000.0));
    let name = ObjectName::new(NAMESPACE, "job");
    let report = plan.waiting.iter().find(|report| report.job == name).expect("the job waits");
    job(report)
}

#[test]
fn jobs_that_are_not_tried_say_why() {
    let contains = |text: String, part: &str| assert!(text.contains(part), "{part} in {text}");
    contains(
        explanation("orphan", None, true),
        "Queue orphan is out of use: a parent queue does not",
    );
    contains(
        explanation("egg", None, true),
        "Queue egg is out of use: its parent queues form a cycle",
    );
    contains(
        explanation("missing", None, true),
        "QueueDoesNotExist: Queue 'missing' does not exist",
    );
    contains(explanation("dept", None, true), "Queue dept has queues below it");
    contains(explanation("team", None, false), "asks not to be tried again");
    contains(
        explanation("team", Some("other"), true),
        "1 of its pods are left out: they name sub-groups",
    );
    contains(explanation("team", None, true), "MaxNodePoolResources");
}

#[test]
fn every_refusal_of_a_reclaim_reads_as_a_sentence() {
    let cluster = cluster();
    let (team, dept) = (id(&cluster, "team"), id(&cluster, "dept"));
    let rendered = |refusal| reclaim_refusal(&cluster.world, &refusal);
    let above = ReclaimRefusal::AboveFairShare {
        queue: team,
        resource: QueueResource::Cpu,
        fair_share: 1500.0,
        would_hold: 2000.0,
    };
    assert_eq!(
        rendered(above),
        "queue team would hold 2 CPU cores, more than its fair share of 1.5"
    );
    let for_good = ReclaimRefusal::NonPreemptibleAboveQuota {
        queue: dept,
        resource: QueueResource::Gpu,
        deserved: 1.0,
        would_hold: 2.5,
    };
    assert_eq!(
        rendered(for_good),
        "pods of queue dept that may not be preempted would hold 2.5 GPUs, more than its quota of 1"
    );
    let unlimited = crate::fairness::UNLIMITED;
    let guarded = ReclaimRefusal::VictimQueueProtected {
        victim_level: team,
        remaining: Amounts::new(3000.0, 2e9, 2.0),
        protected: Amounts::new(unlimited, 4e9, 3.0),
    };
    assert_eq!(
        rendered(guarded),
        "queue team holds no more than what is guaranteed to it: 2 of 4 GB of memory, 2 of 3 GPUs"
    );
    let fuller = ReclaimRefusal::MoreSaturatedThanSibling {
        queue: team,
        sibling: dept,
        resource: QueueResource::Gpu,
        saturation: 1.5,
        sibling_saturation: 1.25,
    };
    assert_eq!(
        rendered(fuller),
        "queue team would hold 1.50 times its fair share of GPUs, its sibling dept only 1.25 times"
    );
}

#[test]
fn victims_are_listed_by_queue_and_verdict_with_few_examples() {
    let mut considered = VictimsConsidered::new(ActionKind::Reclaim);
    for at in 0..5 {
        let name = ObjectName::new("ns", format!("v{at}"));
        considered.note(&"b".into(), VictimVerdict::NotPreemptible, &name);
    }
    let lone = ObjectName::new("ns", "lone");
    considered.note(&"a".into(), VictimVerdict::TakenInVain, &lone);
    considered.simulations = 1;
    considered.refused = 1;
    considered.not_enough = Some(NotEnough {
        needed: Amounts::new(0.0, 0.0, 4.0),
        takeable: Amounts::new(1000.0, 0.0, 3.0),
    });
    considered.too_little_free =
        Some(TooLittleFree { needed_centi: 250, free_centi: 200, needed_mib: 0, free_mib: 0 });
    considered.budget_spent = true;
    let expected = [
        "reclaim spared 5 running jobs and tried 1 set of victims without success",
        "1 job of queue a: taking them does not help (ns/lone)",
        "5 jobs of queue b: they may not be preempted (ns/v0, ns/v1, ns/v2 and 2 more)",
        "the rules of the action refused 1",
        "all that may be taken is too little: 4 GPUs are needed, 1 CPU cores, 3 GPUs may be taken",
        "all free GPUs together are too few: 2.5 are needed, 2 are free",
        "the search ended early: its budget was spent",
    ];
    assert_eq!(victims(&considered), expected);
}

#[test]
fn a_bound_names_its_level() {
    let rendered = |levels_above, kind| {
        let bound = BrokenBound {
            queue: "dept".into(),
            levels_above,
            resource: QueueResource::Gpu,
            kind,
            bound: 4.0,
            allocated: 3.5,
            requested: 1.0,
        };
        broken_bound("team", &bound)
    };
    assert_eq!(
        rendered(0, ViolationKind::OverLimit),
        "Queue dept has a limit of 4 GPUs: 3.5 held, 1 asked for, 0.5 too many"
    );
    assert_eq!(
        rendered(1, ViolationKind::NonPreemptibleOverQuota),
        "Queue dept (above team) has a quota of 4 GPUs: 3.5 held by pods that may not be preempted, \
         1 asked for, 0.5 too many"
    );
    assert!(
        rendered(2, ViolationKind::OverLimit).starts_with("Queue dept (2 levels above team) has")
    );
}
