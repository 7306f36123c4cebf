//! Two processes with the same functions: one acts, the other takes over warm.

use kai_client::lease::Election;
use kai_control::run::{Connections, run};
use kai_settings::planner::Settings;
use tokio::sync::mpsc::channel;
use tokio::time::{Duration, Instant, sleep};

use crate::api::Api;
use crate::virtual_time::{client, env, in_virtual_time, new_api};
use crate::{node, pod, queue};

pub(crate) fn candidate(
    api: &Api,
    begin: Instant,
    name: &'static str,
    seconds: u64,
) -> impl Future<Output = ()> {
    let settings = Settings {
        election: Some(Election {
            identity: name.to_owned(),
            namespace: "kai-scheduler".to_owned(),
        }),
        ..Settings::default()
    };
    let (client, env) = (client(&api.of(name)), env(begin));
    async move {
        let (_silence, questions) = channel(1);
        let connections = Connections::new(client, env, questions);
        run(connections, settings, sleep(Duration::from_secs(seconds))).await;
    }
}

/// Pods appear at 5 and at 27 seconds; from 20 on the first of two candidates cannot renew its leases. Requests of both.
fn two_candidates() -> Vec<String> {
    in_virtual_time(async {
        let begin = Instant::now();
        let api = new_api(begin, Vec::new());
        api.set("/api/v1/nodes", node("n1", "4"));
        api.set("/apis/scheduling.run.ai/v2/queues", queue());
        let story = async {
            sleep(Duration::from_secs(5)).await;
            api.set("/api/v1/pods", pod("early", "1"));
            sleep(Duration::from_secs(15)).await;
            api.cut_off(Some(" one"));
            sleep(Duration::from_secs(7)).await;
            api.set("/api/v1/pods", pod("late", "1"));
            sleep(Duration::from_secs(30)).await;
            api.cut_off(None);
        };
        let second = async {
            sleep(Duration::from_secs(1)).await;
            candidate(&api, begin, " two", 100).await;
        };
        tokio::join!(candidate(&api, begin, " one", 90), second, story);
        api.log()
    })
}

/// When, and by whom, a request was made.
pub(crate) fn requests<'a>(log: &'a [String], what: &str) -> Vec<(f64, &'a str)> {
    let found = log.iter().filter(|line| line.contains(what));
    let split = |line: &'a String| {
        let mut words = line.split(' ');
        let time = words.next().expect("a time").parse().expect("seconds");
        (time, words.next().expect("a caller"))
    };
    found.map(split).collect()
}

#[test]
fn a_lost_lease_stops_writing_and_the_other_takes_over() {
    let log = two_candidates();
    let early = requests(&log, "pods/early/binding");
    assert!(matches!(early[..], [(time, "one")] if time < 5.1), "{early:?}");
    let late = requests(&log, "pods/late/binding");
    let [(bound, "two")] = late[..] else { panic!("{late:?}") };
    let taken = requests(
        &log,
        "PUT /apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/kai-scheduler ",
    );
    let taken = taken.iter().find(|(_, caller)| *caller == "two").expect("two takes over").0;
    assert!((30.0..45.0).contains(&taken), "after the lease ran out: {taken}");
    assert!(bound - taken < 1.0, "the other is warm: acquired {taken}, bound {bound}");
    // Ten seconds after its last renewal the first one writes nothing but tries for its leases.
    let writes = log.iter().filter(|line| !line.contains(" GET ") && !line.contains("/leases"));
    let by_one = writes.filter(|line| line.contains(" one "));
    let last =
        by_one.filter_map(|line| line.split(' ').next()?.parse::<f64>().ok()).fold(0.0, f64::max);
    assert!(last <= 30.0, "the last write is at {last}");
}

#[test]
fn every_function_has_its_lease_and_gives_it_back() {
    let log = two_candidates();
    for lease in [
        "kai-scheduler",
        "54dff599.kai.scheduler",
        "o1x22tjj.kai.scheduler",
        "ov3xj497.kai.scheduler",
    ] {
        let created = requests(&log, &format!("\"name\":\"{lease}\",\"namespace\""));
        assert_eq!(created.first().map(|(_, caller)| *caller), Some("one"), "{lease}");
        let path =
            format!("PUT /apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/{lease} ");
        let line = log
            .iter()
            .rfind(|line| line.contains(&path) && line.contains(" two "))
            .expect("a write");
        assert!(line.contains("\"holderIdentity\":\"\""), "given back at the end: {line}");
    }
    assert!(log == two_candidates(), "the same story gives the same requests");
}
