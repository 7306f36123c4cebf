//! Running pods move together so that a larger one fits.

use serde_json::json;

use super::Run;
use crate::objects::{pod, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] =
    &[("nodes: two single GPUs make a pair", |room| Box::pin(nodes(room)))];

async fn nodes(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.gpu_node(name, 2).await?;
    }
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    // Jobs make their pods again where they are told to go.
    for at in 0..4 {
        let name = format!("one-{at}");
        let template = room.pod_object(&pod("x", "q").gpus(1));
        let metadata = json!({"labels": template["metadata"]["labels"]});
        let mut spec = template["spec"].clone();
        spec["restartPolicy"] = json!("Never");
        let labels = &template["metadata"]["labels"];
        let job = json!({"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 10, "template": {"metadata": metadata, "spec": spec}}});
        room.create(&format!("/apis/batch/v1/namespaces/{}/jobs", room.name), &job).await?;
    }
    room.counts("one-", 4, 0).await?;
    // One GPU becomes free on each node.
    for node in ["n0", "n1"] {
        let pods = room.pods_named("one-").await?;
        let full = room.node_name(node);
        let first = pods.iter().find(|pod| pod["spec"]["nodeName"] == full.as_str());
        let owner = first.and_then(|pod| pod["metadata"]["labels"]["job-name"].as_str());
        let owner = owner.unwrap_or_default();
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{owner}", room.name);
        room.delete(&path).await?;
    }
    room.left("one-", 2).await?;
    room.pod(&pod("pair", "q").gpus(2)).await?;
    room.scheduled(&["pair"]).await?;
    room.counts("one-", 2, 0).await
}
