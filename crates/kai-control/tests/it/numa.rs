//! The agent of a node in virtual time: it writes what the kubelet reports, once, and restores what others overwrote.

use std::sync::Arc;

use kai_client::env::Env;
use kai_node::kubelet::CallError;
use kai_node::kubelet::pod_resources::{ContainerResources, Kubelet, PodResources};
use kai_node::numa_agent::zones::Zones;
use kai_node::numa_agent::{NumaAgentSettings, run};
use kai_translate::time::seconds;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::api::{Api, Fault};
use crate::virtual_time::{client, env, in_virtual_time, new_api};
use crate::{fault, running, times, writes};

const OBSERVED: &str = "kai.scheduler/numa-placement-observed";
const PODS: &str = "/api/v1/pods";

/// What the kubelet answers after so many seconds.
struct Played {
    begin: Instant,
    answers: Arc<dyn Fn(u64) -> Result<Vec<PodResources>, CallError> + Send + Sync>,
}

impl Kubelet for Played {
    async fn list(&self, _: &Env) -> Result<Vec<PodResources>, CallError> {
        (self.answers)(self.begin.elapsed().as_secs())
    }
}

fn holder(name: &str, cores: &[i64]) -> PodResources {
    let container = ContainerResources { cores: cores.to_vec(), ..ContainerResources::default() };
    PodResources { name: name.to_owned(), namespace: "a".to_owned(), containers: vec![container] }
}

/// At first the kubelet does not answer; at 20 s one of two pods has cores of the other zone; at 40 s one is gone. At 70 s
/// another writer overwrites what was reported.
fn story(faults: Vec<Fault>) -> (Vec<String>, Api) {
    in_virtual_time(async {
        let begin = Instant::now();
        let api = new_api(begin, faults);
        for name in ["first", "second"] {
            api.set(PODS, running(name, "2", "n1"));
        }
        let kubelet = Played {
            begin,
            answers: Arc::new(|second| match second {
                0..3 => Err(CallError::Unreadable),
                3..20 => Ok(vec![holder("first", &[0, 1]), holder("second", &[4, 5])]),
                20..40 => Ok(vec![holder("first", &[4, 1]), holder("second", &[4, 5])]),
                _ => Ok(vec![holder("first", &[4, 1])]),
            }),
        };
        let settings = NumaAgentSettings {
            node: "n1".to_owned(),
            poll: seconds(1),
            resync: Some(seconds(60)),
        };
        let zones = Zones::of_cores((0..8).map(|core| (core, core / 4)));
        let foreign = api.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(70)).await;
            let mut pod = running("first", "2", "n1");
            pod["metadata"]["annotations"] = json!({OBSERVED: "[]"});
            foreign.set(PODS, pod);
        });
        let end = sleep(Duration::from_secs(150));
        run(client(&api), env(begin), kubelet, settings, zones, end).await;
        (api.log(), api)
    })
}

#[test]
fn observed_zones_are_reported_once_and_corrected_and_the_same_story_gives_the_same_requests() {
    let (log, api) = story(Vec::new());
    assert_eq!(log, story(Vec::new()).0);
    let writes = writes(&log);
    let first = times(&writes, "PATCH /api/v1/namespaces/a/pods/first ");
    assert_eq!(first, [3.0, 20.0, 120.0], "written, changed, and restored: {writes:#?}");
    assert_eq!(times(&writes, "PATCH /api/v1/namespaces/a/pods/second "), [3.0], "{writes:#?}");
    let pods = &api.objects()[PODS];
    let first = pods.iter().find(|pod| pod["metadata"]["name"] == "first").expect("the pod");
    let zones = first["metadata"]["annotations"][OBSERVED].as_str().expect("a text");
    assert!(zones.contains("node-0") && zones.contains("node-1"), "{zones}");
}

#[test]
fn denied_report_is_written_again_at_the_next_look() {
    for code in [409, 429, 500] {
        let refused = vec![fault("PATCH", "/pods/first", code, 2)];
        let (log, _) = story(refused.clone());
        assert_eq!(log, story(refused).0);
        let patches = times(&writes(&log), "PATCH /api/v1/namespaces/a/pods/first ");
        assert_eq!(patches, [3.0, 4.0, 5.0, 20.0, 120.0], "{code}");
    }
}
