//! A `PyTorchJob` starts as a whole or not at all.

use kai_embed::nodes::NodeProfile;

use super::super::stage::Stage;

pub(super) const ABOUT: &str = "Two nodes with 8 GPUs each. A PyTorchJob needs a master and three workers with 4 GPUs \
each; one of the 16 GPUs is taken. Three of the four would fit. A scheduler that looks at pods would start \
them, and they would wait for the fourth with 12 GPUs in hand.";

const OTHER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: notebook, namespace: default, labels: {kai.scheduler/queue: default-queue}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

const JOB: &str = "
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: llm, namespace: default, labels: {kai.scheduler/queue: default-queue}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          schedulerName: kai-scheduler
          containers:
          - {name: pytorch, image: 'train:1', resources: {limits: {nvidia.com/gpu: 4}}}
    Worker:
      replicas: 3
      template:
        spec:
          schedulerName: kai-scheduler
          containers:
          - {name: pytorch, image: 'train:1', resources: {limits: {nvidia.com/gpu: 4}}}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    stage.nodes(&[NodeProfile::with_gpus("node-1", 8), NodeProfile::with_gpus("node-2", 8)])?;
    stage.apply("A notebook uses one GPU.", OTHER).await?;
    stage
        .apply("The PyTorchJob comes. Three of its four pods would fit; none starts.", JOB)
        .await?;
    stage
        .act("A third node joins: all four start together.", |cluster| {
            cluster.add_node(&NodeProfile::with_gpus("node-3", 8))
        })
        .await
}
