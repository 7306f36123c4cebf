//! The quick start, command by command, with the real kubectl on a real API server: what a user types, and what they must see.
//! The training operator, the nodes and the installation with Helm are played.

#[path = "../cluster/installation.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod installation;
mod operator;
mod terminal;

use std::sync::Arc;

use kai_e2e::kubelet::{self, Ends};
use serde_json::json;
use terminal::{Line, Terminal};

/// A node of two GPUs, which the device plugin has labelled.
const NODE: &str = "gpu-node";
const SHARING: &[&str] = &["--gpu-sharing-enabled"];

// A polling loop keeps a thread busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_start() -> anyhow::Result<()> {
    let plane = match installation::new_plane().await {
        Ok(plane) => plane,
        Err(why) => {
            why.skip("the quick start");
            return Ok(());
        }
    };
    let ends = Arc::new(Ends::default());
    let client = plane.admin().await?;
    let playing = (client.clone(), Arc::clone(&ends));
    let kubelets = tokio::spawn(async move { kubelet::play_with(playing.0, &playing.1).await });
    let operator = tokio::spawn(operator::play(client.clone()));
    let mut user = Terminal::new(plane, client);
    user.add_node(NODE, "2").await?;
    user.install(&[]).await?;
    user.kubectl("create namespace sandbox")?;

    queues(&user)?;
    batch(&user)?;
    priority(&user, &ends)?;
    clean_up(&user)?;
    sharing(&mut user).await?;
    operator.abort();
    kubelets.abort();
    Ok(())
}

fn queues(user: &Terminal) -> anyhow::Result<()> {
    let made = user.kubectl("create -f docs/quickstart/queues.yaml")?;
    assert_eq!(made.lines().count(), 2, "{made}");
    Ok(())
}

/// Both pods of the job run; its pods carry no queue label.
fn batch(user: &Terminal) -> anyhow::Result<()> {
    user.kubectl("create -f docs/batch/pytorch-job.yaml")?;
    user.kubectl(
        "wait pytorchjob/pytorch-dist-mnist-nccl --for=condition=Running --timeout=600s -n sandbox",
    )?;
    let pods = user.pods("get pods -l training.kubeflow.org/job-name=pytorch-dist-mnist-nccl")?;
    let running = [
        ("pytorch-dist-mnist-nccl-master-0", "1/1", "Running"),
        ("pytorch-dist-mnist-nccl-worker-0", "1/1", "Running"),
    ];
    assert_eq!(pods, running.map(Line::from));
    assert_eq!(user.pods("get pods -l runai/queue=test")?, [], "the job alone names the queue");
    let queue = user.kubectl("get podgroups -o jsonpath={.items[*].spec.queue}")?;
    assert_eq!(queue, "test", "one group, of the queue of the job");
    user.kubectl("delete pytorchjob pytorch-dist-mnist-nccl")?;
    user.until("its pods are gone", || Ok(user.pods("get pods")?.is_empty()))
}

/// With one GPU for the queue, `build` runs while `train` is still terminating.
fn priority(user: &Terminal, ends: &Ends) -> anyhow::Result<()> {
    user.kubectl("apply -f docs/priority/example/limited-queue.yaml")?;
    user.kubectl("create -f docs/priority/example/train-priority-pod.yaml")?;
    user.until("train runs", || {
        let pods = user.pods("get pods -l runai/queue=test")?;
        Ok(pods == [Line::from(("train-pod", "1/1", "Running"))])
    })?;
    ends.never();
    user.kubectl("create -f docs/priority/example/build-priority-pod.yaml")?;
    let wanted = [("build-pod", "1/1", "Running"), ("train-pod", "1/1", "Terminating")];
    let wanted = wanted.map(Line::from);
    user.until("build runs while train terminates", || {
        Ok(user.pods("get pods -l runai/queue=test")? == wanted)
    })?;
    ends.at_once();
    Ok(())
}

fn clean_up(user: &Terminal) -> anyhow::Result<()> {
    user.kubectl("delete pods --all -n sandbox")?;
    user.kubectl("apply -f docs/quickstart/queues.yaml")?;
    let limit = user.kubectl("get queue test -o jsonpath={.spec.resources.gpu.limit}")?;
    assert_eq!(limit, "-1");
    Ok(())
}

/// Half a GPU, once sharing is enabled; the node shows all it has.
async fn sharing(user: &mut Terminal) -> anyhow::Result<()> {
    let share = "create -f docs/gpu-sharing/gpu-sharing.yaml";
    let denial = user.denied(share)?;
    assert!(denial.contains("while GPU sharing is disabled"), "{denial}");
    user.install(SHARING).await?;
    user.until("the upgrade is effective", || Ok(user.kubectl(share).is_ok()))?;
    user.until("half a GPU is used", || {
        let pods = user.pods("get pods -l runai/queue=test -n sandbox")?;
        Ok(pods == [Line::from(("gpu-sharing", "1/1", "Running"))])
    })?;
    let devices =
        user.kubectl("get pod gpu-sharing -o jsonpath={.metadata.labels.runai-gpu-group}")?;
    assert!(!devices.is_empty(), "it has a device group");
    let question = "get node --selector=nvidia.com/gpu.product=NVIDIA-L4-SHARED -o jsonpath-as-json={.items[0].status.allocatable}";
    let allocatable: serde_json::Value = serde_json::from_str(&user.kubectl(question)?)?;
    assert_eq!(allocatable[0]["nvidia.com/gpu"], json!("2"), "{allocatable}");
    Ok(())
}
