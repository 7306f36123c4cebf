//! The two questions as a whole: what is asked, in which order, and how objections are reported.

use std::sync::Arc;

use super::testing::{Cluster, NAMESPACE, gpu_node, node, pod, queue};
use super::{TaskContext, check_task, check_task_beyond_eviction};
use crate::compatibility::Compatibility;
use crate::input::node::{Taint, TaintEffect};
use crate::input::pod::{GpuRequest, HostPort, PodRole, RetryAfter};
use crate::input::pod_group::Preemptibility;
use crate::input::selectors::{NodeTerm, Operator};
use crate::input::{Delta, Object, ObjectName};
use crate::plugins::predicates::testing::requirement;
use crate::report::refusal::NodeRefusal;
use crate::status::Status;

#[test]
fn a_plain_pod_on_a_plain_node_is_not_asked_more() {
    let mut cluster = Cluster::new();
    cluster.node(node("n"));
    let task = cluster.pod(pod("p"));
    assert!(check_task(&cluster.world, task).is_ok());
    assert!(!TaskContext::new(&cluster.world, task).has_more);
    assert_eq!(cluster.refusal(task, "n"), None);
}

#[test]
fn config_maps_must_exist_in_the_pods_namespace() {
    let mut cluster = Cluster::new();
    cluster.node(node("n"));
    cluster.set(Object::ConfigMap(ObjectName::new("elsewhere", "b")));
    cluster.set(Object::ConfigMap(ObjectName::new(NAMESPACE, "c")));
    let task =
        cluster.pod(pod("p").config_map("b").config_map("a").config_map("c").config_map("b"));
    assert_eq!(
        &*check_task(&cluster.world, task).unwrap_err().text,
        "Scheduling conditions were not met for pod ns/p:\n\
         ConfigMap: Missing required configmaps: [a b].\n"
    );
    assert_eq!(
        &*check_task_beyond_eviction(&cluster.world, task).unwrap_err().text,
        "Missing required configmaps: [a b]"
    );
    let mut set = |name: &str| {
        let map = Object::ConfigMap(ObjectName::new(NAMESPACE, name));
        cluster.world.apply(Delta::Set(map)).changed
    };
    assert!(set("a") && set("b"), "a plan is due");
    assert!(!set("z"), "no pod requires it");
    assert!(check_task(&cluster.world, task).is_ok());
}

#[test]
fn all_objections_are_reported_at_once_and_victims_change_only_some() {
    let mut cluster = Cluster::new();
    cluster.node(node("n"));
    let named = |name: &str| requirement("metadata.name", Operator::In, &[name]);
    let mut hopeless = pod("p").gpus(1).config_map("a").mounting("data");
    Arc::make_mut(&mut hopeless.spec.constraints).node_terms =
        vec![NodeTerm { labels: Vec::new(), fields: vec![named("n"), named("m")] }];
    let task = cluster.pod(hopeless);
    assert_eq!(
        &*check_task(&cluster.world, task).unwrap_err().text,
        "Scheduling conditions were not met for pod ns/p:\n\
         NodeAffinity: pod affinity terms conflict.\n\
         VolumeBinding: persistentvolumeclaim \"data\" not found.\n\
         MaxNodePoolResources: The pod ns/p requires GPU: 1, CPU: 1 (cores), memory: 1 (GB), \
         pods: 1. No node in the default node-pool has GPU resources.\n\
         ConfigMap: Missing required configmaps: [a].\n"
    );
    assert_eq!(
        &*check_task_beyond_eviction(&cluster.world, task).unwrap_err().text,
        "persistentvolumeclaim \"data\" not found"
    );
    let conflict_only = {
        let mut pod = pod("q");
        Arc::make_mut(&mut pod.spec.constraints).node_terms =
            vec![NodeTerm { labels: Vec::new(), fields: vec![named("n"), named("m")] }];
        cluster.pod(pod)
    };
    assert!(check_task(&cluster.world, conflict_only).is_err());
    assert!(check_task_beyond_eviction(&cluster.world, conflict_only).is_ok());
}

#[test]
fn nodes_on_which_a_bind_failed_are_avoided() {
    let mut cluster = Cluster::new();
    cluster.node(node("n"));
    cluster.node(node("m"));
    let mut failed = pod("p");
    Arc::make_mut(&mut failed.spec.constraints).avoided_nodes = vec!["n".into()];
    let task = cluster.pod(failed);
    let text = "node(s) failed to bind the Pod a moment ago";
    assert_eq!(cluster.refusal(task, "n").unwrap(), text);
    assert_eq!(cluster.refusal(task, "m"), None);
}

#[test]
fn pod_that_backs_off_is_held_back_as_a_gated_pod_is() {
    let mut cluster = Cluster::new();
    cluster.node(node("n"));
    let mut failed = pod("p");
    failed.spec.backoff.retry_after = Some(RetryAfter::Cleanup);
    let task = cluster.pod(failed);
    assert_eq!(cluster.world.task(task).state.status, Status::BackingOff);
    let mut gated = pod("q").status(Status::Gated);
    gated.spec.backoff.retry_after = Some(RetryAfter::Cleanup);
    let task = cluster.pod(gated);
    assert_eq!(cluster.world.task(task).state.status, Status::Gated);
}

#[test]
fn pod_slots_count_what_is_becoming_free() {
    let full = "node(s) pod number exceeded";
    let mut cluster = Cluster::new();
    cluster.node(node("n").pods(2));
    cluster.pod(pod("a").on("n"));
    cluster.pod(pod("b").on("n"));
    let task = cluster.pod(pod("p"));
    assert_eq!(cluster.refusal(task, "n").unwrap(), full);
    cluster.pod(pod("b").on("n").status(Status::Releasing));
    assert_eq!(cluster.refusal(task, "n"), None);
}

#[test]
fn opening_a_device_needs_a_slot_for_its_reservation() {
    let mut cluster = Cluster::new();
    cluster.node(gpu_node("n", 2).pods(2));
    cluster.pod(pod("a").on("n"));
    let task = cluster.pod(pod("p").gpu(GpuRequest::Fraction { portion: 0.5, devices: 1 }));
    let context = TaskContext::new(&cluster.world, task);
    let node = cluster.world.node_named("n").unwrap();
    assert!(context.check_node(&cluster.world, node, 1).is_err());
    assert!(context.check_node(&cluster.world, node, 0).is_ok());
}

/// A node with three slots: one pod of it is being bound to a device that has no reservation yet, which is one more.
#[test]
fn the_slot_of_a_reservation_that_is_still_to_come_is_taken() {
    for (compatibility, full) in [(Compatibility::Right, true), (Compatibility::Kai, false)] {
        let mut cluster = Cluster::with(compatibility);
        cluster.node(gpu_node("n", 2).pods(3));
        let half = || GpuRequest::Fraction { portion: 0.5, devices: 1 };
        let sharing = |name: &str| {
            let mut pod = pod(name).gpu(half()).on("n");
            pod.spec.gpu_groups = vec!["g".into()];
            pod
        };
        cluster.pod(sharing("a").status(Status::Binding));
        cluster.pod(pod("b").on("n"));
        let task = cluster.pod(pod("p"));
        assert_eq!(cluster.refusal(task, "n").is_some(), full, "{compatibility:?}");
        let mut reservation = pod("r").on("n");
        reservation.spec.role = PodRole::Reservation;
        reservation.spec.gpu_groups = vec!["g".into()];
        cluster.node(gpu_node("n", 2).pods(4));
        cluster.pod(reservation);
        assert_eq!(cluster.refusal(task, "n"), None, "the reservation counts itself");
        cluster.node(gpu_node("n", 2).pods(3));
        cluster.pod(pod("r"));
        cluster.pod(sharing("a"));
        assert_eq!(cluster.refusal(task, "n"), None, "a pod that runs has one");
    }
}

#[test]
fn unwell_nodes_say_why() {
    let mut cluster = Cluster::new();
    let mut cordoned = node("cordoned");
    cordoned.spec.unschedulable = true;
    cluster.node(cordoned);
    let mut unwell = node("unwell");
    unwell.spec.bad_conditions.push("NotReady".into());
    cluster.node(unwell);
    let task = cluster.pod(pod("p"));
    assert_eq!(cluster.refusal(task, "cordoned").unwrap(), "node is unschedulable");
    assert_eq!(cluster.refusal(task, "unwell").unwrap(), "node has NotReady condition");
}

/// Every rule is broken; they are mended one by one in the order they are asked.
#[test]
fn the_first_broken_rule_in_kais_order_is_reported() {
    let mut cluster = Cluster::new();
    cluster.queue(queue("q").limit_gpus(0.0));
    cluster.job("job", "q", 1, Preemptibility::Preemptible);
    let port = HostPort { port: 80, protocol: "TCP".into(), ip: "".into() };
    let mut bad = gpu_node("n", 1).pods(1).taint(Taint {
        key: "k".into(),
        value: "v".into(),
        effect: TaintEffect::NoSchedule,
    });
    bad.spec.unschedulable = true;
    cluster.node(bad);
    cluster.pod(pod("holder").port(port.clone()).on("n"));
    let demanding = || {
        let mig = GpuRequest::Mig(vec![("nvidia.com/mig-1g.5gb".into(), 1)]);
        pod("p").of("job").gpu(mig).port(port.clone()).selecting("disk", "ssd").mounting("data")
    };
    let task = cluster.pod(demanding());
    assert!(matches!(cluster.check(task, "n"), Err(NodeRefusal::QueueCapacity(_))));

    cluster.queue(queue("q"));
    assert!(cluster.refusal(task, "n").unwrap().starts_with("MIG job"));
    let task = cluster.pod(demanding().gpus(1));
    assert_eq!(cluster.refusal(task, "n").unwrap(), "node(s) pod number exceeded");
    let taint = Taint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoSchedule };
    let mut cordoned = gpu_node("n", 1).taint(taint.clone());
    cordoned.spec.unschedulable = true;
    cluster.node(cordoned);
    assert_eq!(cluster.refusal(task, "n").unwrap(), "node is unschedulable");
    cluster.node(gpu_node("n", 1).taint(taint));
    assert!(cluster.refusal(task, "n").unwrap().contains("free ports"));
    cluster.pod(pod("holder").on("n"));
    assert!(cluster.refusal(task, "n").unwrap().contains("taint"));
    cluster.node(gpu_node("n", 1));
    assert!(cluster.refusal(task, "n").unwrap().contains("affinity/selector"));
    cluster.node(gpu_node("n", 1).label("disk", "ssd"));
    assert_eq!(cluster.refusal(task, "n"), None);
}
