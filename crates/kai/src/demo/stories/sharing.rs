//! Halves of a GPU and megabytes of one, side by side.

use kai_embed::nodes::NodeProfile;

use super::super::stage::Stage;
use super::OPEN_QUEUE;

pub(super) const ABOUT: &str = "One GPU, and pods that need only a part of it: two by fraction, one by memory. The \
node's allocatable shows whole GPUs only; what is really left of the device is in the bars.";

const HALF: &str = "
apiVersion: v1
kind: Pod
metadata: {name: half, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: '0.5'}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1'}
";

const MEMORY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: memory, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-memory: '20000'}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1'}
";

const SECOND_HALF: &str = "
apiVersion: v1
kind: Pod
metadata: {name: second-half, namespace: default, labels: {kai.scheduler/queue: team}, annotations: {gpu-fraction: '0.5'}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: main, image: 'notebook:1'}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    stage.nodes(&[NodeProfile::with_gpus("node-1", 1)])?;
    stage.set_up(OPEN_QUEUE)?;
    stage.apply("Half a GPU.", HALF).await?;
    stage.apply("20,000 MiB more, on the same device.", MEMORY).await?;
    stage.apply("Another half would exceed the device: it is pending.", SECOND_HALF).await
}
