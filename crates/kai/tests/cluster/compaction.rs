//! etcd forgets the past while watches are cut: the API server answers 410 to watches that resume from there. Nothing that
//! happened meanwhile is missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::{BodyDataStream, BodyExt, StreamBody};
use hyper::body::Frame;
use kai_settings::binder::ReservationSettings;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::disruptions::is_watch;
use crate::in_process::InProcessKai;
use crate::installation::plane_with;
use crate::world::World;
use crate::{QUEUE, open};

/// A gate before watches. While it is closed, running watches are cut and new ones are rejected.
#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    /// Number of watches that are open.
    running: AtomicUsize,
    /// How often the server answered 410.
    gone: AtomicUsize,
}

impl Gate {
    async fn until(&self, closed: bool) {
        while self.closed.load(Ordering::SeqCst) != closed {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn see(&self, text: &[u8]) {
        let code = br#""code":410"#;
        if text.windows(code.len()).any(|part| part == code) {
            self.gone.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A watch that runs.
struct Run(Arc<Gate>);

impl Run {
    fn new(gate: &Arc<Gate>) -> Self {
        gate.running.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(gate))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn gated(client: Client, gate: Arc<Gate>) -> Client {
    let transport = tower::service_fn(move |request: Request<Body>| {
        let (client, gate) = (client.clone(), Arc::clone(&gate));
        async move {
            if !is_watch(&request) {
                let answer = client.send(request).await?;
                return Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
            }
            gate.until(false).await;
            let run = Run::new(&gate);
            let answer = client.send(request).await?;
            if answer.status() == StatusCode::GONE {
                gate.gone.fetch_add(1, Ordering::SeqCst);
            }
            Ok::<_, BoxError>(answer.map(|body| {
                let closing = Arc::clone(&gate);
                let cut = Box::pin(async move { closing.until(true).await });
                let frames = BodyDataStream::new(body).take_until(cut).map(move |chunk| {
                    let _still = &run;
                    let chunk = chunk.map_err(BoxError::from)?;
                    gate.see(&chunk);
                    Ok::<_, BoxError>(Frame::data(chunk))
                });
                StreamBody::new(frames).boxed_unsync()
            }))
        }
    });
    Client::new(transport, "default")
}

/// How a server comes to forget what etcd has forgotten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    /// It remembers nothing itself.
    WithoutCache,
    /// The API server restarts, which empties its watch cache.
    Restarted,
}

#[tokio::test]
async fn what_happens_while_etcd_forgets_the_past_is_not_missed() {
    for (server, name) in
        [(Server::WithoutCache, "compacted"), (Server::Restarted, "compacted-and-restarted")]
    {
        let arguments: &[&str] = match server {
            Server::WithoutCache => &["--watch-cache=false"],
            Server::Restarted => &[],
        };
        let plane = match plane_with(arguments).await {
            Ok(plane) => plane,
            Err(why) => return why.skip("compaction of etcd"),
        };
        let world = World::on(plane, name, None).await;
        nothing_is_missed(&world, server).await;
    }
}

fn node(cpu: &str) -> Value {
    json!({"cpu": cpu, "memory": "8Gi", "pods": "10"})
}

async fn nothing_is_missed(world: &World, server: Server) {
    let gate = Arc::new(Gate::default());
    world.queue("q", open(), open()).await;
    world.node("stays", node("4")).await;
    world.node("goes", node("8")).await;
    let wrap = {
        let gate = Arc::clone(&gate);
        move |client| gated(client, gate)
    };
    let _kai = InProcessKai::start(world, ReservationSettings::default(), wrap).await;
    let queue = world.queue_name("q");
    // A pod for one node, or for any.
    let pod = |name: &str, cpu: &str, node: &str| {
        let mut pod = world.pod(name, &[(QUEUE, &queue)], &json!({"cpu": cpu}));
        if !node.is_empty() {
            let name = format!("{}-{node}", world.name);
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}});
        }
        pod
    };
    world.create_pod(&pod("holder", "3", "stays")).await;
    world.wait_bound("holder").await;
    world.create_pod(&pod("waits", "3", "stays")).await;
    world.wait("it has a group", async || !world.pod_groups().await.is_empty()).await;

    gate.closed.store(true, Ordering::SeqCst);
    world.wait("no watch runs", async || gate.running.load(Ordering::SeqCst) == 0).await;
    world.remove_pod("holder").await;
    world.delete(&format!("/api/v1/nodes/{}-goes", world.name), &Value::Null).await;
    world.create_pod(&pod("small", "500m", "stays")).await;
    world.compact_store();
    if server == Server::Restarted {
        world.restart_server().await;
    }
    gate.closed.store(false, Ordering::SeqCst);

    let [stays, comes] = ["stays", "comes"].map(|node| format!("{}-{node}", world.name));
    assert_eq!(world.wait_bound("waits").await, stays, "its place is free");
    assert_eq!(world.wait_bound("small").await, stays);
    assert!(gate.gone.load(Ordering::SeqCst) > 0, "no watch got 410");
    // A pod bound to a node that was added later shows that all nodes were observed; before, pods may be observed sooner than nodes.
    world.node("probe", node("1")).await;
    world.create_pod(&pod("probe", "500m", "probe")).await;
    world.wait_bound("probe").await;
    world.create_pod(&pod("large", "7", "")).await;
    let has_group = async || {
        let groups = world.pod_groups().await;
        groups.iter().any(|group| group["metadata"]["ownerReferences"][0]["name"] == "large")
    };
    world.wait("it has waited", has_group).await;
    assert_eq!(world.node_of("large").await, None, "the only node that is large enough is gone");
    world.node("comes", node("8")).await;
    assert_eq!(world.wait_bound("large").await, comes);
}
