//! Attacks from the network and by objects that cost much, against `kai run` with its webhooks behind a real API server:
//! probes answer, pods are created and bound meanwhile, and memory stays bounded.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::encrypted::{Tls, connect, trusting};
use crate::served::{ask, free_port};
use crate::world::World;
use crate::{QUEUE, open};

/// Seconds of CPU time that one review may cost, in a build without optimisation. A rule that looks at all pairs of sub-groups takes
/// minutes.
const MOST_CPU_OF_A_REVIEW: f64 = 5.0;
/// Clock ticks per second in `/proc/PID/stat`.
const TICKS: f64 = 100.0;
/// Memory that attacks may cost at their height: 64 MiB of large bodies, twice as bytes and as JSON, and buffers.
const MOST_GROWTH_KIB: u64 = 400 << 10;
/// Webhooks by which pods and pod groups come.
const PATHS: [&str; 3] =
    ["/validate--v1-pod", "/mutate--v1-pod", "/validate-scheduling-run-ai-v2alpha2-podgroup"];

/// `kai run` under attack.
struct Target {
    webhooks: u16,
    probes: u16,
    metrics: u16,
    tls: Arc<ClientConfig>,
}

impl Target {
    async fn start(world: &mut World) -> Self {
        let [webhooks, probes, metrics] = [free_port(), free_port(), free_port()];
        let arguments = [
            format!("--webhook-addr={webhooks}"),
            format!("--webhook-url=https://127.0.0.1:{webhooks}"),
            format!("--health-probe-bind-address=127.0.0.1:{probes}"),
            format!("--listen-address=127.0.0.1:{metrics}"),
        ];
        world.start_kai("kai", &arguments.each_ref().map(String::as_str)).await;
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kai-podgroup-validation-v2alpha2";
        let bundle = async || {
            let registered = world.get(path).await?;
            let bundle = registered["webhooks"][0]["clientConfig"]["caBundle"].as_str()?;
            (!bundle.is_empty()).then(|| bundle.to_owned())
        };
        world.wait("admission is registered", async || bundle().await.is_some()).await;
        let tls = trusting(&bundle().await.expect("a bundle"));
        let target = Self { webhooks, probes, metrics, tls };
        world.wait("it is ready", async || target.probe("/readyz") == Some(200)).await;
        target
    }

    fn probe(&self, path: &str) -> Option<u16> {
        ask(self.probes, "GET", path, "").map(|(status, _)| status)
    }

    /// Probes answer.
    fn assert_healthy(&self, during: &str) {
        assert_eq!(self.probe("/healthz"), Some(200), "{during}");
    }

    /// An encrypted connection to the webhooks; none where it is closed at once.
    fn connect(&self) -> Option<Tls> {
        connect(&self.tls, "127.0.0.1", self.webhooks)
    }

    /// Posts a body; the status of the answer and its text.
    fn post(&self, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = self.connect()?;
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: kai\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
    }

    /// A body that is announced and never ends.
    fn post_forever(&self, path: &str) -> Option<Tls> {
        let mut stream = self.connect()?;
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: kai\r\nContent-Length: 8000000\r\n\r\n{{");
        stream.write_all(head.as_bytes()).ok()?;
        stream.flush().ok()?;
        Some(stream)
    }

    /// A file of the process below `/proc`.
    fn process_file(&self, name: &str) -> String {
        let flag = format!("--webhook-addr={}", self.webhooks);
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        let ours = processes.map(|entry| entry.path()).find(|path| {
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|part| part == flag.as_bytes())
        });
        let file = ours.expect("the process").join(name);
        std::fs::read_to_string(file).expect("a file of the process")
    }

    /// Seconds of CPU time that the process has used. Unlike time on the clock it does not depend on what else the machine does.
    fn cpu_s(&self) -> f64 {
        let stat = self.process_file("stat");
        let (_, after_name) = stat.rsplit_once(')').expect("the name of the program");
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
        (ticks(11) + ticks(12)) / TICKS
    }

    /// KiB of memory that the process held at most.
    fn peak_kib(&self) -> u64 {
        let status = self.process_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

/// A review of a pod group with so many sub-groups, each below the one before.
fn chained(sub_groups: usize) -> String {
    let mut list = String::new();
    for number in 0..sub_groups {
        let parent =
            if number == 0 { String::new() } else { format!(r#","parent":"s{}""#, number - 1) };
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(list, r#"{comma}{{"name":"s{number}","minMember":1{parent}}}"#);
    }
    format!(
        r#"{{"request":{{"uid":"u","operation":"CREATE","object":{{"metadata":{{"name":"g"}},"spec":{{"minMember":1,"subGroups":[{list}]}}}}}}}}"#
    )
}

/// Creates a pod, which passes the webhooks, and waits until it is bound.
async fn assert_serves(world: &World, name: &str) {
    let queue = world.queue_name("q");
    world.create_pod(&world.pod(name, &[(QUEUE, &queue)], &json!({"cpu": "100m"}))).await;
    world.wait_bound(name).await;
}

#[tokio::test]
async fn attacks_from_the_network_do_not_affect_probes_and_pods() {
    let Some(mut world) = World::alone("besieged").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "50"})).await;
    let target = Target::start(&mut world).await;
    assert_serves(&world, "before").await;
    let before = target.peak_kib();

    let malformed = [
        r#"{"request":{"uid":"u","operation":"CREATE","object":{"metadata":1,"spec":{"schedulerName":"besieged"}}}}"#,
        r#"{"request":{"uid":"u","operation":"CREATE","object":{"metadata":{"annotations":{"gpu-fraction":"0.5"}},"spec":{"schedulerName":"besieged","containers":["x"]}}}}"#,
        r#"{"request":{"uid":"u","operation":"UPDATE","object":"x","oldObject":7}}"#,
        r#"{"request":[]}"#,
        "[",
    ];
    for path in PATHS {
        for body in malformed {
            let (status, answer) = target.post(path, body).expect("an answer");
            // No rule for pod groups looks at these fields.
            let denied = answer.contains(r#""allowed":false"#) || path == PATHS[2];
            assert!(status == 400 || (status == 200 && denied), "{path} {body}: {answer}");
        }
    }
    target.assert_healthy("malformed reviews");

    let review = chained(12_000);
    for _ in 0..3 {
        let begin = target.cpu_s();
        let (status, answer) = target.post(PATHS[2], &review).expect("an answer");
        assert!(status == 200 && answer.contains(r#""allowed":false"#), "{status} {answer:.300}");
        let cpu_s = target.cpu_s() - begin;
        assert!(cpu_s < MOST_CPU_OF_A_REVIEW, "{cpu_s} s of CPU time");
        target.assert_healthy("chained sub-groups");
    }

    let silent: Vec<TcpStream> =
        (0..1000).filter_map(|_| TcpStream::connect(("127.0.0.1", target.webhooks)).ok()).collect();
    assert!(silent.len() > 900, "{}", silent.len());
    target.assert_healthy("silent connections");
    assert_serves(&world, "beside-silence").await;

    let unfinished: Vec<Tls> =
        (0..300).filter_map(|at| target.post_forever(PATHS[at % PATHS.len()])).collect();
    target.assert_healthy("unfinished bodies");
    assert_serves(&world, "beside-bodies").await;
    drop((silent, unfinished));

    let large = "x".repeat(8 << 20);
    for number in 0..60 {
        // It is rejected before it is read.
        let answer = ask(target.metrics, "POST", "/metrics", &large);
        assert!(answer.is_none_or(|(status, _)| status >= 400), "body {number}");
    }
    target.assert_healthy("large bodies");
    assert_serves(&world, "after").await;
    let growth = target.peak_kib() - before;
    assert!(growth < MOST_GROWTH_KIB, "{growth} KiB more than before the attacks");
}

#[tokio::test]
async fn an_expensive_claim_delays_no_other_pod() {
    const API: &str = "/apis/resource.k8s.io/v1";
    let Some(mut world) = World::alone("costly").await else { return };
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let driver = "costly.example.com";
    world.create(&format!("{API}/deviceclasses"), &object("DeviceClass", driver, json!({}))).await;
    let devices: Vec<Value> = (0..16).map(|at| json!({"name": format!("d{at}")})).collect();
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let slice = json!({"driver": driver, "nodeName": "costly-n", "pool": pool, "devices": devices});
    world.create(&format!("{API}/resourceslices"), &object("ResourceSlice", "costly", slice)).await;
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "50"})).await;
    let list = "[1,2,3,4,5,6,7,8,9,10]";
    let nested =
        (0..4).fold("1 > 0".to_owned(), |inner, level| format!("{list}.all(x{level}, {inner})"));
    let selector = |at: usize| json!({"cel": {"expression": format!("{at} >= 0 && {nested}")}});
    let selectors: Vec<Value> = (0..32).map(selector).collect();
    let requests =
        json!([{"name": "one", "exactly": {"deviceClassName": driver, "selectors": selectors}}]);
    let claim = object("ResourceClaim", "c", json!({"devices": {"requests": requests}}));
    let claims = format!("{API}/namespaces/costly/resourceclaims");
    world.create(&claims, &claim).await;
    let target = Target::start(&mut world).await;
    let queue = world.queue_name("q");
    let mut pod = world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "100m"}));
    pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": "c"}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "device"}]);
    world.create_pod(&pod).await;
    for number in 0..5 {
        target.assert_healthy("an expensive claim");
        assert_serves(&world, &format!("honest-{number}")).await;
    }
}
