//! Webhooks that `kai manifests` prints, on a real API server: before they are served, after, and applied again.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::admission::denial_reason;
use crate::installation::KAI;
use crate::world::World;

const API: &str = "/apis/admissionregistration.k8s.io/v1";
const NAMES: [(&str, &str); 4] = [
    ("mutatingwebhookconfigurations", "mutating-kai-admission"),
    ("validatingwebhookconfigurations", "validating-kai-admission"),
    ("validatingwebhookconfigurations", "kai-queue-validation-v2"),
    ("validatingwebhookconfigurations", "kai-podgroup-validation-v2alpha2"),
];

/// Applies everything that is printed, without forcing anything.
fn apply(world: &World) {
    let manifests = Command::new(KAI)
        .args([
            "manifests",
            "--numa-agent",
            "--node-scale-adjuster",
            "--scheduler-name",
            world.name,
        ])
        .output()
        .expect("kai manifests runs")
        .stdout;
    let mut child = world
        .kubectl_command(&["apply", "--server-side", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("kubectl starts");
    child.stdin.take().expect("a pipe").write_all(&manifests).expect("it reads");
    assert!(child.wait().expect("it ends").success());
}

/// Every hook of ours.
async fn hooks(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for (plural, name) in NAMES {
        let object = world.get(&format!("{API}/{plural}/{name}")).await.expect(name);
        all.extend(object["webhooks"].as_array().cloned().expect("hooks"));
    }
    all
}

fn bundles(hooks: &[Value]) -> Vec<&str> {
    hooks.iter().filter_map(|hook| hook["clientConfig"]["caBundle"].as_str()).collect()
}

#[tokio::test]
async fn printed_webhooks_deny_no_pods_of_other_schedulers_and_keep_what_kai_adds() {
    let Some(mut world) = World::alone("printed").await else { return };
    apply(&world);
    assert_eq!((hooks(&world).await.len(), bundles(&hooks(&world).await).len()), (9, 0));
    // They are not served: pods of other schedulers are created, ours are denied.
    let pods = format!("/api/v1/namespaces/{}/pods", world.name);
    let mut pod = world.pod("other", &[], &json!({"cpu": "1"}));
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    // Webhooks may take effect a moment after they are written.
    world
        .wait("ours are denied", async || {
            let mut ours = pod.clone();
            ours["spec"]["schedulerName"] = json!(world.name);
            ours["metadata"]["generateName"] = json!("ours-");
            ours["metadata"]["name"] = Value::Null;
            denial_reason(&world, &pods, &ours).await.contains("failed calling webhook")
        })
        .await;
    assert_eq!(denial_reason(&world, &pods, &pod).await, "");
    let path = format!("{pods}/other");
    world.patch(&path, &json!({"metadata": {"labels": {"changed": "yes"}}})).await;
    // `kai run` adds its certificate, and applying the manifests again keeps it.
    let serve = ["--only", "admission", "--gpu-sharing-enabled"];
    let port =
        TcpListener::bind(("127.0.0.1", 0)).and_then(|one| one.local_addr()).expect("a port");
    let address = format!("--webhook-addr={}", port.port());
    world.start_kai("admission", &[&serve[..], &[address.as_str()]].concat()).await;
    world.wait("they are trusted", async || bundles(&hooks(&world).await).len() == 9).await;
    let before = hooks(&world).await;
    apply(&world);
    assert_eq!(hooks(&world).await, before);
    // One that is reached by an address takes over from the Service.
    world.kill_kai();
    world.start_admitting("admission", &serve).await;
    world
        .wait("invalid pods are denied", async || {
            let mut bad = world.pod("bad", &[], &json!({"cpu": "1"}));
            bad["metadata"]["annotations"] = json!({"gpu-fraction": "1.5"});
            let denial = denial_reason(&world, &pods, &bad).await;
            denial.ends_with(
                "gpu-fraction annotation value must be a positive number smaller than 1.0",
            )
        })
        .await;
    world
        .wait("no hook names the Service any more", async || {
            hooks(&world).await.iter().all(|hook| hook["clientConfig"]["service"].is_null())
        })
        .await;
}
