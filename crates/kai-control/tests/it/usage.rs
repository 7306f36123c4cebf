//! Past usage: recorded by ourselves in virtual time, and asked of a Prometheus that answers over a real connection.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use kai_client::env::Env;
use kai_control::run::{Connections, run};
use kai_control::usage::prometheus::{connect, fetch};
use kai_core::fairness::QueueResource;
use kai_core::time::Timestamp;
use kai_serve::http::{Asked, Limits, Plain, content, serve};
use kai_serve::request_metrics::RequestMetrics;
use kai_settings::planner::Settings;
use kai_settings::usage::{Environment, Source, UsageSettings, read};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::channel;
use tokio::time::{Duration, Instant};

use crate::api::Api;
use crate::virtual_time::{Story, client, play};
use crate::{node, pod, running, times, writes};

fn settings(config: Value) -> UsageSettings {
    let config = serde_json::from_value(config).expect("a configuration");
    read(&config, &Environment { variable: &|_| None, prometheus: None }).expect("settings")
}

/// Half a minute counts, and what is fifteen seconds old counts half.
fn recorder() -> UsageSettings {
    settings(json!({"clientType": "recorder", "usageParams": {
        "windowSize": "30s", "halfLifePeriod": "15s", "fetchInterval": "5s"}}))
}

fn weighing(name: &str, weight: u32) -> Value {
    let all = json!({"quota": 0, "limit": -1, "overQuotaWeight": weight});
    json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
        "spec": {"resources": {"cpu": all, "gpu": all, "memory": all}}})
}

fn of_queue(queue: &str, mut pod: Value) -> Value {
    pod["metadata"]["labels"]["kai.scheduler/queue"] = json!(queue);
    pod
}

/// A heavy queue holds the only node; a pod of a light one waits.
fn contest(stored: Option<Value>, seconds: u64) -> Story {
    let mut objects = vec![
        ("/api/v1/nodes", node("n1", "2")),
        ("/apis/scheduling.run.ai/v2/queues", weighing("heavy", 10_000)),
        ("/apis/scheduling.run.ai/v2/queues", weighing("light", 1)),
        ("/api/v1/pods", of_queue("heavy", running("held-0", "1", "n1"))),
        ("/api/v1/pods", of_queue("heavy", running("held-1", "1", "n1"))),
        ("/api/v1/pods", of_queue("light", pod("late", "1"))),
    ];
    objects.extend(stored.map(|stored| ("/api/v1/configmaps", stored)));
    Story { objects, usage: Some(recorder()), k_value: Some("10000"), seconds, ..Story::default() }
}

#[test]
fn who_used_much_gives_way_in_time() {
    let (log, objects) = play(contest(None, 400));
    let writes = writes(&log);
    let evicted = times(&writes, "/eviction");
    assert!(!evicted.is_empty(), "{writes:#?}");
    assert!((5.0..60.0).contains(&evicted[0]), "not before its use is known: {evicted:?}");
    let stored = times(&writes, "configmaps/kai-scheduler-usage?");
    assert_eq!(stored.len(), 2, "after five minutes and at the end: {stored:?}");
    assert!((300.0..310.0).contains(&stored[0]) && stored[1] >= 400.0, "{stored:?}");
    let maps = &objects["/api/v1/configmaps"];
    let record = maps.iter().find(|map| map["metadata"]["name"] == "kai-scheduler-usage");
    let text = record.expect("a record")["data"]["usage.json"].as_str().expect("a text");
    assert!(text.contains("\"heavy\""), "{text}");
}

#[test]
fn without_a_record_no_queue_gives_way() {
    let log = play(Story { usage: None, ..contest(None, 400) }).0;
    assert!(times(&writes(&log), "/eviction").is_empty());
}

#[test]
fn what_an_earlier_process_recorded_counts_at_once() {
    let second = |second: i64| (1_767_225_600 + second) * 1000;
    let bucket = json!({"from": second(-10), "until": second(0), "capacity": [20_000.0, 8e10, 0.0],
        "queues": {"heavy": [20_000.0, 0.0, 0.0]}});
    let record = json!({"metadata": {"name": "kai-scheduler-usage", "namespace": "kai-scheduler"},
        "data": {"usage.json": json!({"buckets": [bucket]}).to_string()}});
    let log = play(contest(Some(record), 20)).0;
    let evicted = times(&writes(&log), "/eviction");
    assert!(evicted.first().is_some_and(|first| *first < 1.0), "{evicted:?} {log:#?}");
}

/// What a Prometheus is asked and what it answers.
#[derive(Clone, Default)]
struct Prometheus {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Prometheus {
    fn answer(&self, asked: &Asked) -> (StatusCode, Value) {
        let query = asked.request.uri().query().unwrap_or_default().to_owned();
        let vector = |result: Value| json!({"status": "success", "data": {"resultType": "vector", "result": result}});
        let of_queue = |queue: &str, value: &str| json!({"metric": {"queue_name": queue}, "value": [1.5, value]});
        let answer = if query.contains("kube_node_status_capacity") {
            (StatusCode::OK, vector(json!([{"metric": {}, "value": [1.5, "200"]}])))
        } else if query.contains("kai_queue_allocated_gpus") {
            (
                StatusCode::OK,
                vector(json!([of_queue("a", "50"), of_queue("b", "0"), of_queue("c", "NaN")])),
            )
        } else if query.contains("kai_queue_allocated_cpu_cores") {
            (StatusCode::OK, vector(json!([of_queue("heavy", "200")])))
        } else if query.contains("broken") {
            (
                StatusCode::UNPROCESSABLE_ENTITY,
                json!({"status": "error", "errorType": "execution", "error": "too many samples"}),
            )
        } else if query.contains("matrix") {
            (
                StatusCode::OK,
                json!({"status": "success", "data": {"resultType": "matrix", "result": []}}),
            )
        } else {
            (StatusCode::OK, vector(json!([])))
        };
        self.asked
            .lock()
            .expect("the list")
            .push(format!("{} {query}", asked.request.uri().path()));
        answer
    }
}

/// Starts a Prometheus; where it is.
async fn start(prometheus: &Prometheus) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let prometheus = prometheus.clone();
    let answer = move |asked: Asked| {
        let (status, body) = prometheus.answer(&asked);
        async move { content(status, "application/json", body.to_string()) }
    };
    let metrics = Arc::new(RequestMetrics::default()).server("prometheus", &[]);
    let limits = Limits::QUESTIONS;
    tokio::spawn(serve(Env::real(), listener, Arc::new(Plain), limits, metrics, answer));
    format!("http://{address}/prefix/")
}

#[tokio::test]
async fn prometheus_is_asked_and_understood() {
    let prometheus = Prometheus::default();
    let address = start(&prometheus).await;
    let ask = async |extra: Value| {
        let settings = settings(json!({"clientType": "prometheus", "connectionString": address,
            "usageParams": {"windowSize": "1h", "halfLifePeriod": "10m", "extraParams": extra}}));
        let Source::Prometheus(asked) = settings.source.clone() else { panic!("not Prometheus") };
        let client = connect(&asked).expect("a client");
        fetch(&client, &asked, &settings, Timestamp { nanos: 1_767_225_600_000_000_000 }).await
    };
    let usages = ask(json!({})).await.expect("an answer");
    assert_eq!(usages.len(), 2, "{usages:?}");
    assert_eq!(usages["heavy"][QueueResource::Cpu], 1.0);
    assert_eq!(usages["a"][QueueResource::Gpu], 0.25);
    let asked = prometheus.asked.lock().expect("the list").clone();
    assert_eq!(asked.len(), 6, "what there was and what was used, of three resources");
    assert!(asked[0].starts_with("/prefix/api/v1/query query=sum_over_time%28"), "{}", asked[0]);
    assert!(asked[0].ends_with("%5B3600s%3A60s%5D%29&time=1767225600.000"), "{}", asked[0]);
    let refused = ask(json!({"cpuAllocationMetric": "broken"})).await.expect_err("a refusal");
    let refused = refused.to_string();
    assert!(refused.contains("too many samples") && !refused.contains("127.0.0.1"), "{refused}");
    let matrix = ask(json!({"cpuAllocationMetric": "matrix"})).await.expect_err("another form");
    assert!(matrix.to_string().ends_with("got matrix, expected vector"), "{matrix}");
    let empty = ask(json!({"gpuCapacityMetric": "nothing"})).await.expect_err("no capacity");
    assert!(empty.to_string().starts_with("no data returned for cluster capacity metric"));
}

#[tokio::test]
async fn plans_follow_the_answers_of_prometheus() {
    let prometheus = Prometheus::default();
    let address = start(&prometheus).await;
    let usage = settings(json!({"clientType": "prometheus", "connectionString": address,
        "usageParams": {"windowSize": "1h", "fetchInterval": "1s"}}));
    let story = contest(None, 0);
    let begin = Instant::now();
    let clock = Arc::new(move || begin.elapsed().as_secs_f64());
    let api = Api::new(clock, story.faults, story.agents, story.devices);
    for (path, object) in story.objects {
        api.set(path, object);
    }
    let mut wanted = Settings { usage: Some(usage), ..Settings::default() };
    for plugin in wanted.config.plugins.iter_mut().filter(|one| *one.name == *"proportion") {
        plugin.arguments.insert("kValue".into(), "10000".into());
    }
    let evicts = async {
        let evicted = || api.log().iter().any(|line| line.contains("/eviction"));
        while !evicted() && begin.elapsed() < Duration::from_mins(1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(evicted(), "{:#?}", api.log());
    };
    let (_silence, questions) = channel(1);
    let connections = Connections::new(client(&api), Env::real(), questions);
    run(connections, wanted, evicts).await;
    assert!(prometheus.asked.lock().expect("the list").len() >= 6);
}
