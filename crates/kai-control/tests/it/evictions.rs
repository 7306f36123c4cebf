//! Evictions: which victims are evicted, when, and what becomes of their preemptor.

use std::time::Duration;

use kai_client::request::EvictBy;
use serde_json::{Value, json};

use crate::virtual_time::{Story, play, requests_of};
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
pub(crate) fn crowd(gangs: &[(&str, usize)], cpu: &str) -> Story {
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
    let log = requests_of(Story { evict_by: EvictBy::Delete, ..preemption() });
    let writes = writes(&log);
    let deleted: Vec<&&str> = writes.iter().filter(|line| line.contains("DELETE ")).collect();
    assert_eq!(deleted.len(), 2, "{writes:#?}");
    assert!(deleted.iter().all(|line| line.contains("\"preconditions\":{\"uid\":\"uid-gang-m")));
    assert!(times(&writes, "/eviction").is_empty());
    assert_eq!(times(&writes, "pods/urgent/binding").len(), 1, "{writes:#?}");
}

/// The preemptor fits the node, but its queue is full: it is bound as soon as its victims no longer count, and they must be
/// evicted all the same.
#[test]
fn victims_that_a_bound_pod_depends_on_are_evicted_although_it_runs() {
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
    let log = requests_of(Story { objects, evict_by, evictions_per_second: Some(1), ..story });
    let writes = writes(&log);
    let bound = times(&writes, "pods/urgent/binding");
    let gone = times(&writes, "DELETE /api/v1/namespaces/a/pods/");
    assert_eq!((bound.len(), gone.len()), (1, 3), "{writes:#?}");
    assert!(bound[0] < gone[2], "{writes:#?}");
}

#[test]
fn victims_that_are_deleted_can_get_a_condition_first() {
    let log = requests_of(Story { evict_by: EvictBy::MarkedDelete, ..preemption() });
    let writes = writes(&log);
    for name in ["gang-m0", "gang-m1"] {
        let at = |what: &str| writes.iter().position(|line| line.contains(what));
        let marked = at(&format!("PATCH /api/v1/namespaces/a/pods/{name}/status"));
        let deleted = at(&format!("DELETE /api/v1/namespaces/a/pods/{name} "));
        assert!(marked.is_some() && marked < deleted, "{writes:#?}");
        let condition =
            r#""reason":"PreemptionByScheduler","status":"True","type":"DisruptionTarget""#;
        assert!(writes[marked.unwrap_or_default()].contains(condition), "{writes:#?}");
    }
}

#[test]
fn a_refused_eviction_is_tried_again_later_and_the_rest_of_its_gang_is_not_repeated() {
    let faults = vec![fault("POST", "gang-m0/eviction", 429, 1)];
    let log = requests_of(Story { faults, ..preemption() });
    let writes = writes(&log);
    let refused = times(&writes, "gang-m0/eviction");
    assert_eq!(refused.len(), 2, "refused, then accepted: {writes:#?}");
    assert!(refused[1] - refused[0] >= 1.0, "not before its back-off: {refused:?}");
    let other = times(&writes, "gang-m1/eviction");
    assert_eq!(other.len(), 1, "sent with the first, counts as done: {writes:#?}");
    assert_eq!(other[0], refused[0], "a gang is sent whole: {writes:#?}");
    assert!(times(&writes, "pods/urgent/binding").is_empty(), "no victim has ended yet");
}

/// Names of many groups of one pod each, in order.
fn singles(number: usize) -> Vec<String> {
    (0..number).map(|at| format!("s{at:03}")).collect()
}

fn lone_pods(names: &[String]) -> Vec<(&str, usize)> {
    names.iter().map(|name| (name.as_str(), 1)).collect()
}

#[test]
fn evictions_are_not_paced_by_default() {
    let names = singles(150);
    let log = requests_of(crowd(&lone_pods(&names), "150"));
    let evicted = times(&writes(&log), "/eviction");
    assert_eq!(evicted.len(), 150, "{evicted:?}");
    assert!(evicted[149] - evicted[0] < 0.1, "{evicted:?}");
}

/// The answers to evictions take this long.
const SLOW: Duration = Duration::from_millis(100);

#[test]
fn evictions_are_sent_in_parallel_through_a_window_that_doubles() {
    let names = singles(150);
    let log = requests_of(Story { eviction_answers: SLOW, ..crowd(&lone_pods(&names), "150") });
    let evicted = times(&writes(&log), "/eviction");
    let rounds = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5].map(|after| {
        let in_round =
            |second: &&f64| (after..after + 0.1).contains(&(**second - evicted[0] + 0.01));
        evicted.iter().filter(in_round).count()
    });
    assert_eq!(rounds, [4, 8, 16, 32, 64, 26], "{evicted:?}");
}

#[test]
fn many_victims_are_evicted_at_the_pace_that_is_set() {
    let names = singles(150);
    let story = crowd(&lone_pods(&names), "150");
    let log = requests_of(Story { evictions_per_second: Some(50), ..story });
    let evicted = times(&writes(&log), "/eviction");
    assert_eq!(evicted.len(), 150, "{evicted:?}");
    let (first, last) = (evicted[0], evicted[149]);
    assert!(evicted[49] - first < 0.1, "a second's worth at once: {evicted:?}");
    assert!((1.9..2.5).contains(&(last - first)), "then fifty per second: {evicted:?}");
}

#[test]
fn a_gang_goes_as_a_whole_however_large_it_is() {
    let story = crowd(&[("one", 60), ("two", 60)], "120");
    let log = requests_of(Story { evictions_per_second: Some(50), ..story });
    let writes = writes(&log);
    let of = |gang: &str| times(&writes, &format!("pods/{gang}-m"));
    let (one, two) = (of("one"), of("two"));
    assert_eq!((one.len(), two.len()), (60, 60), "{writes:#?}");
    let (first, second) = if one[0] < two[0] { (one, two) } else { (two, one) };
    assert!(first[59] - first[0] < 0.1 && second[59] - second[0] < 0.1, "{first:?} {second:?}");
    assert!(second[0] - first[0] >= 0.19, "but not both at once: {first:?} {second:?}");
}

#[test]
fn victims_that_were_not_sent_stay_when_the_preemptor_is_gone() {
    let names = singles(150);
    let gone = vec![(1, "/api/v1/namespaces/a/pods/urgent")];
    let story = crowd(&lone_pods(&names), "150");
    let log = requests_of(Story { gone, evictions_per_second: Some(50), ..story });
    let evicted = times(&writes(&log), "/eviction");
    assert!((90..110).contains(&evicted.len()), "{evicted:?}");
    assert!(evicted.iter().all(|second| *second < 1.1), "{evicted:?}");
}

#[test]
fn a_refusal_ends_the_eviction_plan_and_spares_what_was_not_sent() {
    // Two gangs fill the first window; the third is not sent before the first answer, which is a refusal.
    let gangs = [("one", 2), ("two", 2), ("three", 2)];
    let faults = vec![fault("POST", "-m0/eviction", 429, 1)];
    let log = requests_of(Story { faults, eviction_answers: SLOW, ..crowd(&gangs, "6") });
    let writes = writes(&log);
    let evicted = times(&writes, "/eviction");
    let at_first = evicted.iter().filter(|second| **second < 0.9).count();
    assert_eq!(at_first, 4, "the two gangs of the first window: {writes:#?}");
    let later = evicted.iter().filter(|second| **second >= 1.0).count();
    assert_eq!(later, 3, "the refused victim and the third gang: {writes:#?}");
}

/// Whatever is refused, and whenever the preemptor goes: no victim is evicted twice, a gang is never cut by our own choice,
/// nothing is sent once the preemptor is gone, and everything goes in the end while it stays.
#[test]
fn evictions_keep_their_guarantees_under_refusals_and_when_the_preemptor_goes() {
    let gangs = [("one", 1), ("two", 3), ("three", 2), ("four", 5), ("five", 1), ("six", 4)];
    for (refused, preemptor_stays) in (0..8).flat_map(|times| [(times, true), (times, false)]) {
        let faults = vec![fault("POST", "-m0/eviction", 429, refused)];
        let gone =
            if preemptor_stays { vec![] } else { vec![(1, "/api/v1/namespaces/a/pods/urgent")] };
        let story = crowd(&gangs, "16");
        let (log, objects) =
            play(Story { faults, gone, eviction_answers: SLOW, seconds: 300, ..story });
        let writes = writes(&log);
        let what = format!("{refused} refused, stays {preemptor_stays}: {writes:#?}");
        let evicted = times(&writes, "/eviction");
        let ends = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
        let ended = objects[PODS].iter().filter(ends).count();
        assert!(evicted.len() - ended <= refused as usize, "an eviction was repeated: {what}");
        if preemptor_stays {
            assert_eq!((ended, evicted.len()), (16, 16 + refused as usize), "{what}");
        } else {
            assert!(evicted.iter().all(|second| *second < 1.1), "{what}");
        }
    }
}

const VICTIMS: [&str; 2] =
    ["/api/v1/namespaces/a/pods/gang-m0", "/api/v1/namespaces/a/pods/gang-m1"];

/// Where the urgent pod goes when both its victims have gone and another node comes at the same moment.
fn place_after(mut story: Story) -> String {
    story.gone.extend(VICTIMS.map(|victim| (70, victim)));
    story.later.push((70, NODES, node("n0", "2")));
    story.seconds = 80;
    let log = requests_of(story);
    let writes = writes(&log);
    let bound: Vec<&&str> = writes.iter().filter(|line| line.contains("urgent/binding")).collect();
    let [bound] = bound[..] else { panic!("{writes:#?}") };
    if bound.contains("\"n1\"") { "n1".to_owned() } else { "n0".to_owned() }
}

#[test]
fn a_preemptor_stays_nominated_to_its_node_until_the_nomination_expires() {
    assert_eq!(place_after(preemption()), "n1", "where its victims were");
    // For more than a minute no plan may give it anything.
    let mut closed = queue();
    closed["spec"]["resources"]["cpu"]["limit"] = json!(0);
    let later = vec![(5, QUEUES, closed), (66, NODES, node("tiny", "0")), (70, QUEUES, queue())];
    assert_eq!(place_after(Story { later, ..preemption() }), "n0", "the nomination has expired");
}
