//! `train` gives way to `build` in a queue that may have one GPU.

use kai_embed::nodes::NodeProfile;

use super::super::stage::Stage;

pub(super) const ABOUT: &str = "A queue that may have one GPU and no more, on a node with two. Work of the class train \
may be preempted; an interactive build of the same queue comes first.";

const QUEUE: &str = "
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 1, limit: 1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
";

const TRAIN: &str = "
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default, labels: {kai.scheduler/queue: team, priorityClassName: train}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

const SECOND: &str = "
apiVersion: v1
kind: Pod
metadata: {name: train-2, namespace: default, labels: {kai.scheduler/queue: team, priorityClassName: train}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

const BUILD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: build, namespace: default, labels: {kai.scheduler/queue: team, priorityClassName: build}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'build:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    stage.nodes(&[NodeProfile::with_gpus("node-1", 2)])?;
    stage.set_up(QUEUE)?;
    stage.apply("A training pod takes the GPU of its queue.", TRAIN).await?;
    stage
        .apply(
            "A second one is pending, although a GPU is free: the limit of the queue is one.",
            SECOND,
        )
        .await?;
    stage.apply("A build comes: the training pod is evicted.", BUILD).await
}
