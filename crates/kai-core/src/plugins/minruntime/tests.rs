//! The rules against a tree of queues with minimums here and there.

use super::*;
use crate::compatibility::Compatibility;
use crate::config::{Config, PluginSpec};
use crate::input::pod_group::DEFAULT_LEAF;
use crate::input::{Object, ObjectName};
use crate::plugins::predicates::testing::{Cluster, NAMESPACE, group, node, pod, queue};
use Cause::{Preempt, Reclaim};

/// ```text
/// dev (preempt 10, reclaim 11)     prod (reclaim 21)            bare
///   dev-a (preempt 12)               prod-a (preempt 22)          bare-a
///   dev-b (reclaim 14)               prod-b                         bare-a-x
///     dev-b-x
/// ```
fn cluster(arguments: &[(&str, &str)], compatibility: Compatibility) -> Cluster {
    let mut config = Config { compatibility, ..Config::default() };
    config.plugins.retain(|plugin| &*plugin.name != "minruntime");
    let mut plugin = PluginSpec::named("minruntime");
    let defaults = [("defaultPreemptMinRuntime", "2s"), ("defaultReclaimMinRuntime", "1s")];
    for (key, value) in defaults.iter().chain(arguments) {
        plugin.arguments.insert((*key).into(), (*value).into());
    }
    config.plugins.push(plugin);
    let mut cluster = Cluster::of(config);
    cluster.queue(queue("dev").preempt_after(10.0).reclaim_after(11.0));
    cluster.queue(queue("dev-a").under("dev").preempt_after(12.0));
    cluster.queue(queue("dev-b").under("dev").reclaim_after(14.0));
    cluster.queue(queue("dev-b-x").under("dev-b"));
    cluster.queue(queue("prod").reclaim_after(21.0));
    cluster.queue(queue("prod-a").under("prod").preempt_after(22.0));
    cluster.queue(queue("prod-b").under("prod"));
    cluster.queue(queue("bare"));
    cluster.queue(queue("bare-a").under("bare"));
    cluster.queue(queue("bare-a-x").under("bare-a"));
    cluster
}

/// A job of one leaf in `queue`, started at second 100, with `pods` running pods.
fn job(cluster: &mut Cluster, queue: &str, min_available: u32, pods: usize) -> JobId {
    let name = format!("job-{queue}");
    let mut spec = group(&name, queue, &[(DEFAULT_LEAF, min_available)]);
    spec.last_start = Some(Timestamp::from_seconds(100.0));
    cluster.set(Object::PodGroup(Box::new(spec)));
    cluster.node(node("n"));
    for at in 0..pods {
        cluster.pod(pod(&format!("{name}-{at}")).of(&name).on("n"));
    }
    cluster.world.job_named(&ObjectName::new(NAMESPACE, name)).unwrap()
}

fn runtime(cluster: &mut Cluster, cause: Cause, taker: &str, victim: &str) -> f64 {
    let taker = job(cluster, taker, 1, 0);
    let victim = job(cluster, victim, 1, 0);
    min_runtime(&cluster.world, cause, taker, victim).unwrap().as_seconds()
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

#[test]
fn preemption_looks_upwards_from_the_victims_queue() {
    let mut cluster = cluster(&[], Compatibility::Right);
    let cases = [
        ("dev-a", 12.0),
        ("dev-b", 10.0),
        ("dev-b-x", 10.0),
        ("prod-a", 22.0),
        ("prod-b", 2.0),
        ("bare-a-x", 2.0),
    ];
    for (victim, expected) in cases {
        assert_eq!(runtime(&mut cluster, Preempt, "dev-a", victim), expected, "{victim}");
    }
}

#[test]
fn reclaim_by_queue_looks_upwards_from_the_victims_queue() {
    let mut cluster = cluster(&[("reclaimResolveMethod", "queue")], Compatibility::Right);
    let cases = [("dev-b-x", 14.0), ("dev-a", 11.0), ("prod-b", 21.0), ("bare-a-x", 1.0)];
    for (victim, expected) in cases {
        assert_eq!(runtime(&mut cluster, Reclaim, "prod-a", victim), expected, "{victim}");
    }
}

#[test]
fn reclaim_by_common_ancestor_looks_upwards_from_below_it() {
    let mut cluster = cluster(&[], Compatibility::Right);
    let cases = [
        ("other tops: the victim's top", "dev-a", "prod-a", 21.0),
        ("other tops: not what is below the top", "prod-a", "dev-b-x", 11.0),
        ("other tops: the default where the top has none", "dev-a", "bare-a-x", 1.0),
        ("siblings: the victim's own", "dev-a", "dev-b", 14.0),
        ("siblings: the parent's where it has none", "dev-b", "dev-a", 11.0),
        ("deeper victim: the queue below the common one", "dev-a", "dev-b-x", 14.0),
        ("same queue: its own", "dev-b", "dev-b", 14.0),
        ("same queue without one: upwards", "prod-b", "prod-b", 21.0),
        ("no queue has one: the default", "bare-a", "bare-a-x", 1.0),
    ];
    for (name, taker, victim, expected) in cases {
        assert_eq!(runtime(&mut cluster, Reclaim, taker, victim), expected, "{name}");
    }
}

#[test]
fn the_methods_differ() {
    let mut by_ancestor = cluster(&[], Compatibility::Right);
    let mut by_queue = cluster(&[("reclaimResolveMethod", "queue")], Compatibility::Right);
    assert_eq!(runtime(&mut by_ancestor, Reclaim, "prod-a", "dev-b-x"), 11.0);
    assert_eq!(runtime(&mut by_queue, Reclaim, "prod-a", "dev-b-x"), 14.0);
    let mut invalid = cluster(&[("reclaimResolveMethod", "nearest")], Compatibility::Right);
    assert_eq!(runtime(&mut invalid, Reclaim, "prod-a", "dev-b-x"), 11.0);
}

#[test]
fn queues_that_are_missing_or_orphans_have_the_default_or_their_own() {
    let mut cluster = cluster(&[], Compatibility::Right);
    assert_eq!(runtime(&mut cluster, Preempt, "dev-a", "no such queue"), 2.0);
    assert_eq!(runtime(&mut cluster, Reclaim, "no such queue", "dev-a"), 1.0);
    cluster.queue(queue("orphan").under("no such queue").reclaim_after(7.0).preempt_after(8.0));
    assert_eq!(runtime(&mut cluster, Reclaim, "dev-a", "orphan"), 7.0);
    assert_eq!(runtime(&mut cluster, Preempt, "dev-a", "orphan"), 8.0);
    assert_eq!(runtime(&mut cluster, Reclaim, "orphan", "dev-a"), 11.0);
}

#[test]
fn a_zero_minimum_of_a_queue_wins_over_the_queues_above() {
    let mut cluster = cluster(&[], Compatibility::Right);
    cluster.queue(queue("dev-a").under("dev").preempt_after(0.0));
    let taker = job(&mut cluster, "dev-b", 1, 0);
    let victim = job(&mut cluster, "dev-a", 1, 1);
    assert_eq!(min_runtime(&cluster.world, Preempt, taker, victim), Some(Span::ZERO));
    assert_eq!(protected_until(&cluster.world, Preempt, taker, victim), None);
}

#[test]
fn arguments_that_are_no_positive_durations_are_zero() {
    for bad in ["5", "abc", "1h-30m", "-5s", "-3w", ""] {
        let keys = [("defaultPreemptMinRuntime", bad), ("defaultReclaimMinRuntime", bad)];
        let cluster = cluster(&keys, Compatibility::Right);
        let arguments = cluster.world.policy.min_runtime.clone().unwrap();
        assert_eq!(arguments.default_preempt, Span::ZERO, "{bad}");
        assert_eq!(arguments.default_reclaim, Span::ZERO, "{bad}");
    }
    let cluster = cluster(&[("defaultReclaimMinRuntime", "1w2d")], Compatibility::Right);
    let arguments = cluster.world.policy.min_runtime.clone().unwrap();
    assert_eq!(arguments.default_reclaim, Span::from_seconds(9.0 * 86_400.0));
}

#[test]
fn a_job_is_protected_until_its_minimum_is_over() {
    let mut cluster = cluster(&[], Compatibility::Right);
    let taker = job(&mut cluster, "prod-a", 1, 0);
    let victim = job(&mut cluster, "dev-a", 1, 1);
    let world = &cluster.world;
    assert_eq!(protected_until(world, Preempt, taker, victim), Some(at(112.0)));
    assert_eq!(protected_until(world, Reclaim, taker, victim), Some(at(111.0)));
    for (now, protected) in [(100.0, true), (111.9, true), (112.0, false), (200.0, false)] {
        assert_eq!(is_protected(world, at(now), Preempt, taker, victim), protected, "{now}");
        assert_eq!(may_be_victim(world, at(now), Preempt, taker, victim), !protected, "{now}");
    }
    assert!(is_protected(world, at(110.9), Reclaim, taker, victim));
    assert!(!is_protected(world, at(111.0), Reclaim, taker, victim));
}

#[test]
fn without_a_start_or_without_the_plugin_nothing_is_protected() {
    let mut with = cluster(&[], Compatibility::Right);
    let victim = job(&mut with, "dev-a", 1, 1);
    with.set(Object::PodGroup(Box::new(group("job-dev-a", "dev-a", &[(DEFAULT_LEAF, 1)]))));
    assert_eq!(protected_until(&with.world, Preempt, victim, victim), None);
    assert!(may_be_victim(&with.world, at(100.0), Preempt, victim, victim));

    let mut config = Config::default();
    config.plugins.retain(|plugin| &*plugin.name != "minruntime");
    let mut without = Cluster::of(config);
    without.queue(queue("q").preempt_after(1000.0));
    let victim = job(&mut without, "q", 1, 1);
    assert!(may_be_victim(&without.world, at(100.0), Preempt, victim, victim));
}

#[test]
fn elastic_jobs_are_always_considered() {
    let mut cluster = cluster(&[], Compatibility::Right);
    let taker = job(&mut cluster, "prod-a", 1, 0);
    let victim = job(&mut cluster, "dev-a", 1, 3);
    for cause in [Preempt, Reclaim] {
        assert!(is_protected(&cluster.world, at(101.0), cause, taker, victim));
        assert!(may_be_victim(&cluster.world, at(101.0), cause, taker, victim));
    }
}

/// Three pods of which `needed` are needed; the scenario names `named` of them as victims, evicts them all, and
/// the last `stayed` of those get their place back.
fn scenario(mode: Compatibility, needed: u32, named: usize, stayed: usize, now: f64) -> bool {
    let mut cluster = cluster(&[], mode);
    let taker = job(&mut cluster, "prod-a", 1, 0);
    let victim = job(&mut cluster, "dev-a", needed, 3);
    let tasks: Vec<TaskId> = cluster.world.job(victim).tasks().take(named).collect();
    for task in &tasks {
        cluster.world.evict(*task);
    }
    for task in tasks.iter().rev().take(stayed) {
        cluster.world.unevict(*task, Status::Running, false);
    }
    let [preempt, reclaim] = [Preempt, Reclaim]
        .map(|cause| allows_victims(&cluster.world, at(now), cause, taker, victim, &tasks));
    assert_eq!(preempt, reclaim);
    preempt
}

#[test]
fn a_protected_elastic_job_keeps_what_its_leaf_needs() {
    for mode in [Compatibility::Right, Compatibility::Kai] {
        assert!(scenario(mode, 1, 1, 0, 101.0), "one of three, one needed");
        assert!(scenario(mode, 1, 2, 0, 101.0), "two of three, one needed");
        assert!(!scenario(mode, 2, 2, 0, 101.0), "two of three, two needed");
        assert!(!scenario(mode, 1, 3, 0, 101.0), "all of three, one needed");
        assert!(scenario(mode, 1, 3, 0, 200.0), "no longer protected");
        assert!(scenario(mode, 3, 3, 0, 101.0), "not elastic: the filter has decided");
    }
}

#[test]
fn only_kai_counts_victims_that_stayed() {
    assert!(scenario(Compatibility::Right, 2, 2, 1, 101.0));
    assert!(!scenario(Compatibility::Kai, 2, 2, 1, 101.0));
    assert!(scenario(Compatibility::Right, 1, 3, 3, 101.0));
    assert!(!scenario(Compatibility::Kai, 1, 3, 3, 101.0));
}

#[test]
fn pods_that_were_releasing_before_are_not_kept() {
    for (mode, allowed) in [(Compatibility::Right, false), (Compatibility::Kai, true)] {
        let mut cluster = cluster(&[], mode);
        let taker = job(&mut cluster, "prod-a", 1, 0);
        let victim = job(&mut cluster, "dev-a", 2, 4);
        let releasing = pod("job-dev-a-0").of("job-dev-a").on("n").status(Status::Releasing);
        let releasing = cluster.pod(releasing);
        let tasks: Vec<TaskId> =
            cluster.world.job(victim).tasks().filter(|task| *task != releasing).take(2).collect();
        for task in &tasks {
            cluster.world.evict(*task);
        }
        let answer = allows_victims(&cluster.world, at(101.0), Preempt, taker, victim, &tasks);
        assert_eq!(answer, allowed, "{mode:?}");
    }
}

#[test]
fn every_leaf_that_loses_pods_is_looked_at() {
    let mut cluster = cluster(&[], Compatibility::Right);
    let taker = job(&mut cluster, "prod-a", 1, 0);
    let mut spec = group("job", "dev-a", &[("head", 1), ("workers", 1)]);
    spec.last_start = Some(at(100.0));
    cluster.set(Object::PodGroup(Box::new(spec)));
    let head = cluster.pod(pod("head").of("job").leaf("head").on("n"));
    let worker = cluster.pod(pod("w0").of("job").leaf("workers").on("n"));
    cluster.pod(pod("w1").of("job").leaf("workers").on("n"));
    let victim = cluster.world.job_named(&ObjectName::new(NAMESPACE, "job")).unwrap();
    let mut allows = |tasks: &[TaskId]| {
        let checkpoint = cluster.world.checkpoint();
        for task in tasks {
            cluster.world.evict(*task);
        }
        let answer = allows_victims(&cluster.world, at(101.0), Preempt, taker, victim, tasks);
        cluster.world.rollback(checkpoint);
        answer
    };
    assert!(allows(&[worker]));
    assert!(!allows(&[head]));
    assert!(!allows(&[worker, head]));
    assert!(allows(&[]));
}
