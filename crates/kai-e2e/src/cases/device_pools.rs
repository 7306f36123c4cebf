//! Devices that depend on each other or on more than one slice: partitions of a GPU, shares of a device, incomplete and
//! outdated pools, devices that name their nodes, devices beside GPUs of a device plugin. All of them are ours.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{pod, queue};
use crate::room::Room;

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

pub(super) const CASES: &[(&str, Run)] = &[
    ("DRA: a GPU and its partitions are not given at once", |room| Box::pin(partitions(room))),
    ("DRA: devices of an incomplete pool wait for the rest", |room| Box::pin(incomplete(room))),
    ("DRA: a newer generation of a pool replaces the older", |room| Box::pin(generations(room))),
    ("DRA: devices that name their nodes", |room| Box::pin(named_nodes(room))),
    ("DRA: plain GPU pods keep away from nodes that have devices only", |room| {
        Box::pin(devices_only(room))
    }),
    ("DRA: claims share the capacity of a device", |room| Box::pin(shares(room))),
    ("DRA: devices add nothing to the GPUs of a device plugin", |room| Box::pin(beside(room))),
];

/// One slice of a pool.
struct Slice<'a> {
    pool: &'a str,
    /// Generation of the pool, and its number of slices.
    version: (u32, u32),
    /// The rest of its specification.
    spec: Value,
}

impl Room {
    async fn slice(&self, name: &str, slice: Slice<'_>) -> anyhow::Result<()> {
        let (generation, count) = slice.version;
        let pool = json!({"name": self.node_name(slice.pool), "generation": generation, "resourceSliceCount": count});
        let mut spec = json!({"driver": self.device_class_name(), "pool": pool});
        crate::objects::merge(&mut spec, slice.spec);
        let object = json!({"metadata": {"name": self.node_name(name)}, "spec": spec});
        self.create(SLICES, &object).await.map(|_| ())
    }

    /// A template of claims for one device of the room's class with more in its request.
    async fn request_template(&self, name: &str, more: Value) -> anyhow::Result<()> {
        let mut exactly = json!({"deviceClassName": self.device_class_name()});
        crate::objects::merge(&mut exactly, more);
        let devices = json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}});
        let object = json!({"metadata": {"name": name}, "spec": {"spec": devices}});
        let path =
            format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates", self.name);
        self.create(&path, &object).await.map(|_| ())
    }

    /// A template of claims for one device of this kind, by the attribute `kind`.
    async fn kind_template(&self, kind: &str) -> anyhow::Result<()> {
        let driver = self.device_class_name();
        let expression = format!("device.attributes[\"{driver}\"].kind == \"{kind}\"");
        let selectors = json!({"selectors": [{"cel": {"expression": expression}}]});
        self.request_template(kind, selectors).await
    }
}

/// A device of a kind that takes so much of the memory of `gpu-0`.
fn part(name: &str, kind: &str, memory: &str) -> Value {
    let counters = json!({"memory": {"value": memory}});
    let uses = json!([{"counterSet": "gpu-0", "counters": counters}]);
    json!({"name": name, "attributes": {"kind": {"string": kind}}, "consumesCounters": uses})
}

/// A node, the room's class, templates `whole` and `half`, and `kai` running.
async fn start(room: &Room) -> anyhow::Result<()> {
    room.device_class(None).await?;
    room.kind_template("whole").await?;
    room.kind_template("half").await?;
    room.node("n", json!({}), json!({})).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// A GPU of 40 GiB as a whole and as two halves.
async fn partitioned_devices(room: &Room) -> anyhow::Result<()> {
    let devices = [
        part("whole", "whole", "40Gi"),
        part("half-a", "half", "20Gi"),
        part("half-b", "half", "20Gi"),
    ];
    let spec = json!({"nodeName": room.node_name("n"), "devices": devices});
    room.slice("devices", Slice { pool: "n", version: (1, 2), spec }).await
}

async fn counters(room: &Room) -> anyhow::Result<()> {
    let sets = json!([{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]);
    let spec = json!({"nodeName": room.node_name("n"), "sharedCounters": sets});
    room.slice("counters", Slice { pool: "n", version: (1, 2), spec }).await
}

async fn partitions(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    counters(room).await?;
    partitioned_devices(room).await?;
    room.pod(&pod("a", "q").claims("half")).await?;
    room.ready(&["a"]).await?;
    room.pod(&pod("all", "q").claims("whole")).await?;
    room.unschedulable(&["all"]).await?;
    room.pod(&pod("b", "q").claims("half")).await?;
    room.ready(&["b"]).await?;
    room.delete_pod("a").await?;
    room.delete_pod("b").await?;
    room.ready(&["all"]).await?;
    room.pod(&pod("c", "q").claims("half")).await?;
    room.unschedulable(&["c"]).await
}

async fn incomplete(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    partitioned_devices(room).await?;
    room.pod(&pod("p", "q").claims("half")).await?;
    room.unschedulable(&["p"]).await?;
    counters(room).await?;
    room.ready(&["p"]).await
}

async fn generations(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let device = |kind: &str| {
        let device = json!({"name": kind, "attributes": {"kind": {"string": kind}}});
        json!({"nodeName": room.node_name("n"), "devices": [device]})
    };
    room.slice("old", Slice { pool: "n", version: (1, 1), spec: device("whole") }).await?;
    room.slice("new", Slice { pool: "n", version: (2, 1), spec: device("half") }).await?;
    room.pod(&pod("gone", "q").claims("whole")).await?;
    room.unschedulable(&["gone"]).await?;
    room.pod(&pod("there", "q").claims("half")).await?;
    room.ready(&["there"]).await
}

async fn named_nodes(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    room.node("m", json!({}), json!({})).await?;
    let device = |node: &str, kind: &str| json!({"name": kind, "nodeName": room.node_name(node), "attributes": {"kind": {"string": kind}}});
    let devices = [device("n", "whole"), device("m", "half")];
    let spec = json!({"perDeviceNodeSelection": true, "devices": devices});
    room.slice("both", Slice { pool: "both", version: (1, 1), spec }).await?;
    room.pod(&pod("on-n", "q").claims("whole")).await?;
    room.pod(&pod("on-m", "q").claims("half")).await?;
    room.ready(&["on-n", "on-m"]).await?;
    let nodes = (room.node_of("on-n").await?, room.node_of("on-m").await?);
    ensure!(nodes == ("n".to_owned(), "m".to_owned()), "{nodes:?}");
    Ok(())
}

async fn devices_only(room: &Room) -> anyhow::Result<()> {
    room.device_class(None).await?;
    room.device_node("n", 8).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pod(&pod("p", "q").gpus(1)).await?;
    room.unschedulable(&["p"]).await?;
    room.gpu_node("m", 1).await?;
    room.ready(&["p"]).await?;
    ensure!(room.node_of("p").await? == "m", "no kubelet can serve it");
    Ok(())
}

async fn shares(room: &Room) -> anyhow::Result<()> {
    start(room).await?;
    let capacity = json!({"memory": {"value": "40Gi"}});
    let device = json!({"name": "gpu-0", "allowMultipleAllocations": true, "capacity": capacity});
    let spec = json!({"nodeName": room.node_name("n"), "devices": [device]});
    room.slice("devices", Slice { pool: "n", version: (1, 1), spec }).await?;
    let wanted = json!({"capacity": {"requests": {"memory": "20Gi"}}});
    room.request_template("share", wanted).await?;
    room.pod(&pod("a", "q").claims("share")).await?;
    room.pod(&pod("b", "q").claims("share")).await?;
    room.ready(&["a", "b"]).await?;
    room.pod(&pod("c", "q").claims("share")).await?;
    room.unschedulable(&["c"]).await?;
    room.delete_pod("a").await?;
    room.ready(&["c"]).await
}

/// The kubelet serves requests for GPUs from those of the device plugin, however many devices the node offers.
async fn beside(room: &Room) -> anyhow::Result<()> {
    room.device_class(None).await?;
    room.gpu_node("n", 8).await?;
    let devices: Vec<Value> = (0..8).map(|at| json!({"name": format!("gpu-{at}")})).collect();
    let spec = json!({"nodeName": room.node_name("n"), "devices": devices});
    room.slice("devices", Slice { pool: "n", version: (1, 1), spec }).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await?;
    room.pod(&pod("first", "q").gpus(8)).await?;
    room.ready(&["first"]).await?;
    room.pod(&pod("second", "q").gpus(8)).await?;
    room.unschedulable(&["second"]).await?;
    room.delete_pod("first").await?;
    room.ready(&["second"]).await
}
