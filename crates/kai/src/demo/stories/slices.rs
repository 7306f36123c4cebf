//! One GPU that is advertised as a hundred: its memory is given away once.

use kai_embed::nodes::{NodeProfile, Sharing};

use super::super::stage::Stage;
use super::OPEN_QUEUE;

pub(super) const ABOUT: &str = "One GPU of 32,600 MiB, time-sliced into 100. Five pods want 8,000 MiB each, in a queue \
without limits. A scheduler that counts slices would run all five; only four fit the device.";

const FOUR: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: four, namespace: default, labels: {kai.scheduler/queue: team}}
spec:
  parallelism: 4
  completions: 4
  template:
    metadata: {labels: {kai.scheduler/queue: team}, annotations: {gpu-memory: '8000'}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
      - {name: main, image: 'ubuntu:1'}
";

const FIFTH: &str = "
apiVersion: v1
kind: Pod
metadata: {name: fifth, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-memory: '8000'}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'ubuntu:1'}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    let node = NodeProfile {
        gpu_memory_mib: 32_600,
        sharing: Sharing::TimeSliced(100),
        ..NodeProfile::with_gpus("node-1", 1)
    };
    stage.nodes(&[node])?;
    stage.set_up(OPEN_QUEUE)?;
    stage.apply("Four pods of 8,000 MiB share the device.", FOUR).await?;
    stage.apply("The fifth is pending, and its condition says why.", FIFTH).await
}
