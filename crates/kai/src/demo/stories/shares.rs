//! Two departments, idle quota borrowed and reclaimed.

use kai_embed::nodes::NodeProfile;

use super::super::stage::Stage;

pub(super) const ABOUT: &str = "One node with 8 GPUs. Two departments, research and product, have a quota of 4 each; \
each has one team. What one does not use the other may borrow, until the owner wants it back.";

const QUEUES: &str = "
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: research}
spec: {resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: product}
spec: {resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: vision}
spec: {parentQueue: research, resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: search}
spec: {parentQueue: product, resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
";

const VISION: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: vision, namespace: default, labels: {kai.scheduler/queue: vision}}
spec:
  parallelism: 8
  completions: 8
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
      - {name: train, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

const SEARCH: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: search, namespace: default, labels: {kai.scheduler/queue: search}}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
      - {name: train, image: 'train:1', resources: {limits: {nvidia.com/gpu: 1}}}
";

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    stage.nodes(&[NodeProfile::with_gpus("node-1", 8)])?;
    stage.set_up(QUEUES)?;
    stage
        .apply("Vision requests 8 GPUs. Search requests none yet: vision borrows the 4 GPUs of product.", VISION)
        .await?;
    stage
        .apply(
            "Search requests the 4 GPUs of its department's quota: 4 pods of vision are evicted.",
            SEARCH,
        )
        .await
}
