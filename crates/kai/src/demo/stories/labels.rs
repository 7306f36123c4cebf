//! A cluster without GPU Operator: a device plugin and two labels are enough.

use kai_embed::nodes::NodeProfile;

use super::super::stage::Stage;
use super::OPEN_QUEUE;

pub(super) const ABOUT: &str = "The GPU Operator is not installed: a device plugin advertises one GPU, and no label says \
what it is. Whole GPUs need nothing more. To share one by memory its size must be known: two labels on the node, \
nvidia.com/gpu.count and nvidia.com/gpu.memory, written by hand, do what the operator would.";

const WHOLE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: whole, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/sim-duration: 10s}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

const MEMORY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: memory, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-memory: '8000'}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1'}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    let node = NodeProfile { discovered: false, ..NodeProfile::with_gpus("node-1", 1) };
    stage.nodes(&[node])?;
    stage.set_up(OPEN_QUEUE)?;
    stage.apply("A pod that requests a whole GPU runs, and ends after ten seconds.", WHOLE).await?;
    stage
        .apply(
            "8,000 MiB of a GPU of unknown size: the pod is pending, and its condition says why.",
            MEMORY,
        )
        .await?;
    let labels = [("nvidia.com/gpu.count", "1"), ("nvidia.com/gpu.memory", "32600")];
    stage
        .act(
            "kubectl label node node-1 nvidia.com/gpu.count=1 nvidia.com/gpu.memory=32600",
            |cluster| cluster.label_node("node-1", &labels),
        )
        .await
}
