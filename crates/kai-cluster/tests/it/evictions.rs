//! Victims: who is told to go, when, and what becomes of those for whom they go.

use kai_cluster::orders::EvictBy;
use serde_json::{Value, json};

use crate::virtual_time::{Story, tell};
use crate::{class, fault, node, of_class, queue, running, times, writes};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const GROUPS: &str = "/apis/scheduling.run.ai/v2alpha2/podgroups";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// A group of so many pods, of low priority.
fn gang(name: &str, members: usize) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": "2025-12-31T00:00:00Z"},
        "spec": {"minMember": members, "queue": "q", "priorityClassName": "train"}})
}

/// A pod of a gang that runs on the node.
fn member(name: &str, gang: &str) -> Value {
    let mut pod = running(name, "1", "n1");
    pod["metadata"]["annotations"] = json!({"pod-group-name": gang});
    pod
}

/// A node that these groups fill with so many pods each, and a pod that is more urgent and needs all of it.
fn crowd(gangs: &[(&str, usize)], cpu: &str) -> Story {
    let mut place = node("n1", cpu);
    place["status"]["allocatable"]["pods"] = json!("1000");
    let mut objects = vec![
        (NODES, place),
        (QUEUES, queue()),
        (CLASSES, class("train", 50)),
        (CLASSES, class("urgent", 75)),
    ];
    for (name, members) in gangs {
        objects.push((GROUPS, gang(name, *members)));
        let pods = (0..*members).map(|number| member(&format!("{name}-m{number}"), name));
        objects.extend(pods.map(|pod| (PODS, pod)));
    }
    objects.push((PODS, of_class("urgent", cpu, "urgent")));
    Story { objects, seconds: 30, ..Story::default() }
}

/// A gang of two that fills the node, and a pod that is more urgent.
pub(crate) fn preemption() -> Story {
    crowd(&[("gang", 2)], "2")
}

#[test]
fn victims_are_deleted_where_that_is_configured() {
    let log = tell(Story { evict_by: EvictBy::Delete, ..preemption() });
    let writes = writes(&log);
    let deleted: Vec<&&str> = writes.iter().filter(|line| line.contains("DELETE ")).collect();
    assert_eq!(deleted.len(), 2, "{writes:#?}");
    assert!(deleted.iter().all(|line| line.contains("\"preconditions\":{\"uid\":\"uid-gang-m")));
    assert!(times(&writes, "/eviction").is_empty());
    assert_eq!(times(&writes, "pods/urgent/binding").len(), 1, "{writes:#?}");
}

/// There is room on the node, but the queue is full: whoever preempts is bound as soon as its victims no longer count, and
/// they must go all the same.
#[test]
fn victims_that_somebody_counts_on_go_although_he_runs_already() {
    let story = crowd(&[("a", 2), ("b", 2), ("c", 2)], "6");
    let mut full = queue();
    full["spec"]["resources"]["cpu"]["limit"] = json!(6000);
    let mut objects = story.objects.clone();
    for (list, object) in &mut objects {
        match *list {
            NODES => object["status"]["allocatable"]["cpu"] = json!("8"),
            QUEUES => *object = full.clone(),
            GROUPS => object["spec"]["minMember"] = json!(1),
            PODS if object["metadata"]["name"] == "urgent" => {
                *object = of_class("urgent", "3", "urgent");
            }
            _ => {}
        }
    }
    let evict_by = EvictBy::Delete;
    let log = tell(Story { objects, evict_by, evictions_per_second: Some(1), ..story });
    let writes = writes(&log);
    let bound = times(&writes, "pods/urgent/binding");
    let gone = times(&writes, "DELETE /api/v1/namespaces/a/pods/");
    assert_eq!((bound.len(), gone.len()), (1, 3), "{writes:#?}");
    assert!(bound[0] < gone[2], "{writes:#?}");
}

#[test]
fn victims_that_are_deleted_can_be_told_why_first() {
    let log = tell(Story { evict_by: EvictBy::MarkedDelete, ..preemption() });
    let writes = writes(&log);
    for name in ["gang-m0", "gang-m1"] {
        let at = |what: &str| writes.iter().position(|line| line.contains(what));
        let marked = at(&format!("PATCH /api/v1/namespaces/a/pods/{name}/status"));
        let deleted = at(&format!("DELETE /api/v1/namespaces/a/pods/{name} "));
        assert!(marked.is_some() && marked < deleted, "{writes:#?}");
        let condition =
            r#""type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler""#;
        assert!(writes[marked.unwrap_or_default()].contains(condition), "{writes:#?}");
    }
}

#[test]
fn a_refused_eviction_spares_the_rest_and_is_tried_again_later() {
    let faults = vec![fault("POST", "/eviction", 429, 1)];
    let log = tell(Story { faults, ..preemption() });
    let writes = writes(&log);
    let mut evictions = times(&writes, "/eviction");
    assert_eq!(evictions.len(), 3, "one refused, then both: {writes:#?}");
    assert!(evictions[1] - evictions[0] >= 1.0, "not before a while: {evictions:?}");
    evictions.dedup();
    assert_eq!(evictions.len(), 2, "{evictions:?}");
    assert!(times(&writes, "pods/urgent/binding").is_empty(), "nobody has left yet");
}

/// Names of many groups of one pod each, in order.
fn singles(number: usize) -> Vec<String> {
    (0..number).map(|at| format!("s{at:03}")).collect()
}

fn lone_pods(names: &[String]) -> Vec<(&str, usize)> {
    names.iter().map(|name| (name.as_str(), 1)).collect()
}

#[test]
fn many_victims_do_not_go_at_once() {
    let names = singles(150);
    let log = tell(crowd(&lone_pods(&names), "150"));
    let evicted = times(&writes(&log), "/eviction");
    assert_eq!(evicted.len(), 150, "{evicted:?}");
    let (first, last) = (evicted[0], evicted[149]);
    assert!(evicted[49] - first < 0.1, "a second's worth at once: {evicted:?}");
    assert!((1.9..2.5).contains(&(last - first)), "then fifty per second: {evicted:?}");
}

#[test]
fn a_gang_goes_as_a_whole_however_large_it_is() {
    let log = tell(crowd(&[("one", 60), ("two", 60)], "120"));
    let writes = writes(&log);
    let of = |gang: &str| times(&writes, &format!("pods/{gang}-m"));
    let (one, two) = (of("one"), of("two"));
    assert_eq!((one.len(), two.len()), (60, 60), "{writes:#?}");
    let (first, second) = if one[0] < two[0] { (one, two) } else { (two, one) };
    assert!(first[59] - first[0] < 0.1 && second[59] - second[0] < 0.1, "{first:?} {second:?}");
    assert!(second[0] - first[0] >= 0.19, "but not both at once: {first:?} {second:?}");
}

#[test]
fn those_who_wait_for_their_turn_stay_when_nobody_needs_their_places() {
    let names = singles(150);
    let gone = vec![(1, "/api/v1/namespaces/a/pods/urgent")];
    let log = tell(Story { gone, ..crowd(&lone_pods(&names), "150") });
    let evicted = times(&writes(&log), "/eviction");
    assert!((90..110).contains(&evicted.len()), "{evicted:?}");
    assert!(evicted.iter().all(|second| *second < 1.1), "{evicted:?}");
}

#[test]
fn a_refusal_ends_the_whole_eviction_plan_and_spares_the_victim_for_a_while() {
    // Whoever goes last of three gangs is refused: what was told before has gone, what would follow stays.
    let gangs = [("one", 2), ("two", 2), ("three", 2)];
    let faults = vec![fault("POST", "-m1/eviction", 429, 1)];
    let log = tell(Story { faults, ..crowd(&gangs, "6") });
    let writes = writes(&log);
    let evicted = times(&writes, "/eviction");
    let at_first = evicted.iter().filter(|second| **second < 0.9).count();
    assert_eq!(at_first, 2, "one, and the one that was refused: {writes:#?}");
    assert!(evicted.iter().filter(|second| **second >= 1.0).count() >= 5, "{writes:#?}");
}

const VICTIMS: [&str; 2] =
    ["/api/v1/namespaces/a/pods/gang-m0", "/api/v1/namespaces/a/pods/gang-m1"];

/// Where the urgent pod goes when both its victims have gone and another node comes at the same moment.
fn place_after(mut story: Story) -> String {
    story.gone.extend(VICTIMS.map(|victim| (70, victim)));
    story.later.push((70, NODES, node("n0", "2")));
    story.seconds = 80;
    let log = tell(story);
    let writes = writes(&log);
    let bound: Vec<&&str> = writes.iter().filter(|line| line.contains("urgent/binding")).collect();
    let [bound] = bound[..] else { panic!("{writes:#?}") };
    if bound.contains("\"n1\"") { "n1".to_owned() } else { "n0".to_owned() }
}

#[test]
fn who_made_others_go_keeps_the_promise_of_their_place_until_it_lapses() {
    assert_eq!(place_after(preemption()), "n1", "where its victims were");
    // For more than a minute no plan may give it anything.
    let mut closed = queue();
    closed["spec"]["resources"]["cpu"]["limit"] = json!(0);
    let later = vec![(5, QUEUES, closed), (66, NODES, node("tiny", "0")), (70, QUEUES, queue())];
    assert_eq!(place_after(Story { later, ..preemption() }), "n0", "the promise has lapsed");
}
