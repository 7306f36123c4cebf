//! Health, metrics and snapshots of a running `kai`.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

pub(crate) fn free_port() -> u16 {
    kai_testenv::free_port().expect("a port")
}

/// Status and body of an answer; none where no server answers.
pub(crate) fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: kai\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer[end + 4..].to_vec()))
}

/// The only file of an archive that is not compressed.
fn unzipped(archive: &[u8]) -> Value {
    let number = |at: usize| usize::from(u16::from_le_bytes([archive[at], archive[at + 1]]));
    let length = u32::from_le_bytes(archive[22..26].try_into().expect("four bytes")) as usize;
    let name = number(26);
    assert_eq!(&archive[30..30 + name], b"snapshot.json");
    serde_json::from_slice(&archive[30 + name..30 + name + length]).expect("JSON")
}

#[tokio::test]
async fn health_metrics_and_a_snapshot_are_served() {
    let Some(mut world) = World::new("served").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let [metrics, probes, local] = [free_port(), free_port(), free_port()];
    let listen = [
        format!("--listen-address=127.0.0.1:{metrics}"),
        format!("--health-probe-bind-address=127.0.0.1:{probes}"),
        format!("--plugin-server-port={local}"),
    ];
    let conf = std::env::temp_dir().join(format!("kai-served-{}.yaml", std::process::id()));
    let plugins = ["predicates", "proportion", "priority", "nodeavailability", "reflectjoborder"];
    let plugins = json!({"tiers": [{"plugins": plugins.map(|name| json!({"name": name}))}]});
    std::fs::write(&conf, plugins.to_string()).expect("a file");
    let conf = conf.to_string_lossy().into_owned();
    let arguments = [&listen.each_ref().map(String::as_str)[..], &["--scheduler-conf", &conf]];
    world.start_kai("kai", &arguments.concat()).await;
    world
        .wait("it is ready", async || {
            ask(probes, "GET", "/readyz", "").is_some_and(|(status, _)| status == 200)
        })
        .await;
    assert_eq!(ask(probes, "GET", "/healthz", "").expect("an answer").0, 200);
    let queue = world.queue_name("q");
    let mut pod = world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    pod["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": "hunter2"}]);
    world.create_pod(&pod).await;
    world.wait_bound("p").await;
    let allocated = format!(
        "kai_queue_allocated_cpu_cores{{queue_name=\"{queue}\",queue_metadata_name=\"{queue}\",queue_display_name=\"\"}} 1\n"
    );
    let page = || {
        let (_, page) = ask(metrics, "GET", "/metrics", "").expect("an answer");
        String::from_utf8(page).expect("text")
    };
    world.wait("the metrics show it", async || page().contains(&allocated)).await;
    let page = page();
    assert!(page.contains("kai_podgroups_scheduled_by_action{action=\"allocate\"} 1\n"), "{page}");
    assert!(page.contains("kai_task_bind_latency_milliseconds_count 1\n"), "{page}");
    assert!(
        page.contains("kai_action_scheduling_latency_milliseconds{action=\"allocate\"} "),
        "{page}"
    );
    let plugin = "kai_plugin_scheduling_latency_milliseconds{plugin=\"proportion\",OnSession=\"OnSessionOpen\"} 0\n";
    assert!(page.contains(plugin), "{page}");
    let (status, archive) = ask(local, "GET", "/get-snapshot", "").expect("an answer");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&archive));
    assert!(!archive.windows(7).any(|at| at == b"hunter2"), "values of variables are left out");
    let snapshot = unzipped(&archive);
    assert_eq!(snapshot["schedulerParams"]["schedulerName"], "served");
    assert!(snapshot["config"]["actions"].as_str().expect("a text").starts_with("allocate, "));
    let pods = snapshot["rawObjects"]["pods"].as_array().expect("pods");
    assert!(pods.iter().any(|pod| pod["metadata"]["name"] == "p"));
    assert!(snapshot["discovery"]["serverVersion"]["minor"].is_string());
    let big = world.pod("big", &[(QUEUE, &queue)], &json!({"cpu": "100"}));
    world.create_pod(&big).await;
    let order = || {
        let (status, body) = ask(local, "GET", "/get-job-order", "").expect("an answer");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice::<Value>(&body).expect("JSON")
    };
    let is_big = |job: &Value| job["id"].as_str().is_some_and(|id| id.starts_with("pg-big-"));
    world.wait("the order of jobs", async || is_big(&order()["global_order"][0])).await;
    assert!(is_big(&order()["queue_order"][&queue][0]), "{}", order());
    assert_eq!(ask(local, "GET", "/get-snapshot?shard=none", "").expect("an answer").0, 200);
    assert_eq!(ask(metrics, "GET", "/get-snapshot", "").expect("an answer").0, 200);
    assert_eq!(ask(local, "PUT", "/debug/flags/v", "5").expect("an answer").0, 200);
    assert_eq!(ask(local, "PUT", "/debug/flags/v", "much").expect("an answer").0, 400);
    assert_eq!(ask(local, "GET", "/nothing", "").expect("an answer").0, 404);
}

#[tokio::test]
async fn debug_check_lists_violated_rules() {
    let Some(mut world) = World::alone("checked").await else { return };
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let local = free_port();
    world.start_kai("kai", &[&format!("--plugin-server-port={local}")]).await;
    let check = || {
        let (status, body) = ask(local, "GET", "/debug/check", "")?;
        Some((status, String::from_utf8_lossy(&body).into_owned()))
    };
    world.wait("every rule holds", async || check().is_some_and(|(status, _)| status == 200)).await;
    // Another scheduler gives away more than the node has.
    let mut pod = world.pod("foreign", &[], &json!({"cpu": "100"}));
    pod["spec"]["schedulerName"] = json!("other");
    pod["spec"]["nodeName"] = json!("checked-n");
    world.create_pod(&pod).await;
    world
        .wait("the node is named", async || {
            check().is_some_and(|(status, body)| {
                status == 500
                    && body.contains("cluster: NodeAmount: ")
                    && body.contains("checked-n")
            })
        })
        .await;
}
