//! Every function in a process of its own, each with nothing but its own rights.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::admission::denial_reason;
use crate::installation::KAI;
use crate::served::{ask, free_port};
use crate::world::World;
use crate::{QUEUE, open};

#[tokio::test]
async fn functions_work_apart_with_their_own_rights() {
    let Some(mut world) = World::alone("apart").await else { return };
    let metrics = free_port();
    let listen = format!("--listen-address=127.0.0.1:{metrics}");
    world.start_admitting("admission", &["--only", "admission", &listen]).await;
    for function in [
        "scheduler",
        "pod-grouper",
        "binder",
        "podgroup-controller",
        "queue-controller",
        "node-scale-adjuster",
    ] {
        world.start_kai(function, &["--only", function, "--leader-elect"]).await;
    }
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}))).await;
    assert_eq!(world.wait_bound("p").await, "apart-n");
    let path = format!("/apis/scheduling.run.ai/v2/queues/{queue}");
    world
        .wait("the queue shows its sums", async || {
            world.get(&path).await.expect("the queue")["status"]["allocated"]["cpu"] == "1"
        })
        .await;
    world
        .wait("the group shows its sums", async || {
            let groups = world.pod_groups().await;
            groups.iter().any(|group| group["status"]["resourcesStatus"]["allocated"]["cpu"] == "1")
        })
        .await;
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/7n7h49uc.kai.scheduler";
    world.wait("KAI's adjuster would wait", async || world.get(lease).await.is_some()).await;
    let nothing = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "nothing"}, "spec": {}});
    let queues = "/apis/scheduling.run.ai/v2/queues";
    world
        .wait("a queue without resources is denied", async || {
            let denial = denial_reason(&world, queues, &nothing).await;
            if denial.is_empty() {
                world.delete(&format!("{queues}/nothing"), &json!({})).await;
            }
            denial.ends_with("denied the request: resources must be specified")
        })
        .await;
    admission_serves_metrics_of_its_requests(metrics);
}

/// The process of admission has no loop; its metrics are about requests.
fn admission_serves_metrics_of_its_requests(port: u16) {
    let (status, page) = ask(port, "GET", "/metrics", "").expect("an answer");
    let page = String::from_utf8(page).expect("text");
    assert_eq!(status, 200, "{page}");
    for path in ["/mutate--v1-pod", "/validate--v1-pod", "/validate-scheduling-run-ai-v2-queue"] {
        let labels = format!("server=\"admission\",path=\"{path}\"");
        let answered = format!("kai_http_requests_total{{{labels},code=\"200\"}} ");
        assert!(page.contains(&answered), "{answered}: {page}");
        let took = format!("kai_http_request_duration_seconds_count{{{labels}}} ");
        assert!(page.contains(&took), "{took}: {page}");
    }
    assert!(page.contains("kai_http_request_panics_total{server=\"admission\"} 0\n"), "{page}");
}

#[tokio::test]
async fn the_api_server_takes_every_deployment() {
    let Some(world) = World::new("deployed").await else { return };
    for deploy in ["process", "functions"] {
        let all = ["manifests", "--numa-agent", "--node-scale-adjuster", "--deploy", deploy];
        let manifests = Command::new(KAI).args(all).output();
        let manifests = manifests.expect("kai manifests runs").stdout;
        let mut child = world
            .kubectl_command(&["apply", "--server-side", "--dry-run=server", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("a pipe").write_all(&manifests).expect("it reads");
        let ended = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{text}");
        let kinds = [
            "deployment.apps/",
            "daemonset.apps/",
            "webhookconfiguration",
            "poddisruptionbudget.policy/",
            "networkpolicy.networking.k8s.io/",
            "validatingadmissionpolicy.",
        ];
        for kind in kinds {
            assert!(text.contains(kind), "{kind}: {text}");
        }
    }
}
