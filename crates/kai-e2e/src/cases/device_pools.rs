//! Devices that depend on each other or on more than one slice: partitions of a GPU, shares of a device, incomplete and
//! outdated pools, devices that name their nodes, devices beside GPUs of a device plugin. All of them are ours.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{pod, queue};
use crate::test_space::TestSpace;

const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

pub(super) const CASES: &[(&str, Run)] = &[
    ("DRA: a GPU and its partitions are not given at once", |space| Box::pin(partitions(space))),
    ("DRA: devices of an incomplete pool wait for the rest", |space| Box::pin(incomplete(space))),
    ("DRA: a newer generation of a pool replaces the older", |space| Box::pin(generations(space))),
    ("DRA: devices that name their nodes", |space| Box::pin(named_nodes(space))),
    ("DRA: plain GPU pods keep away from nodes that have devices only", |space| {
        Box::pin(devices_only(space))
    }),
    ("DRA: claims share the capacity of a device", |space| Box::pin(shares(space))),
    ("DRA: devices add nothing to the GPUs of a device plugin", |space| Box::pin(beside(space))),
];

/// One slice of a pool.
struct Slice<'a> {
    pool: &'a str,
    /// Generation of the pool, and its number of slices.
    version: (u32, u32),
    /// The rest of its specification.
    spec: Value,
}

impl TestSpace {
    async fn slice(&self, name: &str, slice: Slice<'_>) -> anyhow::Result<()> {
        let (generation, count) = slice.version;
        let pool = json!({"name": self.node_name(slice.pool), "generation": generation, "resourceSliceCount": count});
        let mut spec = json!({"driver": self.device_class_name(), "pool": pool});
        crate::objects::merge(&mut spec, slice.spec);
        let object = json!({"metadata": {"name": self.node_name(name)}, "spec": spec});
        self.create(SLICES, &object).await.map(|_| ())
    }

    /// A template of claims for one device of the test space's class with more in its request.
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

/// A node, the test space's class, templates `whole` and `half`, and `kai` running.
async fn start(space: &TestSpace) -> anyhow::Result<()> {
    space.device_class(None).await?;
    space.kind_template("whole").await?;
    space.kind_template("half").await?;
    space.node("n", json!({}), json!({})).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// A GPU of 40 GiB as a whole and as two halves.
async fn partitioned_devices(space: &TestSpace) -> anyhow::Result<()> {
    let devices = [
        part("whole", "whole", "40Gi"),
        part("half-a", "half", "20Gi"),
        part("half-b", "half", "20Gi"),
    ];
    let spec = json!({"nodeName": space.node_name("n"), "devices": devices});
    space.slice("devices", Slice { pool: "n", version: (1, 2), spec }).await
}

async fn counters(space: &TestSpace) -> anyhow::Result<()> {
    let sets = json!([{"name": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}]);
    let spec = json!({"nodeName": space.node_name("n"), "sharedCounters": sets});
    space.slice("counters", Slice { pool: "n", version: (1, 2), spec }).await
}

async fn partitions(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    counters(space).await?;
    partitioned_devices(space).await?;
    space.pod(&pod("a", "q").claims("half")).await?;
    space.ready(&["a"]).await?;
    space.pod(&pod("all", "q").claims("whole")).await?;
    space.unschedulable(&["all"]).await?;
    space.pod(&pod("b", "q").claims("half")).await?;
    space.ready(&["b"]).await?;
    space.delete_pod("a").await?;
    space.delete_pod("b").await?;
    space.ready(&["all"]).await?;
    space.pod(&pod("c", "q").claims("half")).await?;
    space.unschedulable(&["c"]).await
}

async fn incomplete(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    partitioned_devices(space).await?;
    space.pod(&pod("p", "q").claims("half")).await?;
    space.unschedulable(&["p"]).await?;
    counters(space).await?;
    space.ready(&["p"]).await
}

async fn generations(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let device = |kind: &str| {
        let device = json!({"name": kind, "attributes": {"kind": {"string": kind}}});
        json!({"nodeName": space.node_name("n"), "devices": [device]})
    };
    space.slice("old", Slice { pool: "n", version: (1, 1), spec: device("whole") }).await?;
    space.slice("new", Slice { pool: "n", version: (2, 1), spec: device("half") }).await?;
    space.pod(&pod("gone", "q").claims("whole")).await?;
    space.unschedulable(&["gone"]).await?;
    space.pod(&pod("there", "q").claims("half")).await?;
    space.ready(&["there"]).await
}

async fn named_nodes(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    space.node("m", json!({}), json!({})).await?;
    let device = |node: &str, kind: &str| json!({"name": kind, "nodeName": space.node_name(node), "attributes": {"kind": {"string": kind}}});
    let devices = [device("n", "whole"), device("m", "half")];
    let spec = json!({"perDeviceNodeSelection": true, "devices": devices});
    space.slice("both", Slice { pool: "both", version: (1, 1), spec }).await?;
    space.pod(&pod("on-n", "q").claims("whole")).await?;
    space.pod(&pod("on-m", "q").claims("half")).await?;
    space.ready(&["on-n", "on-m"]).await?;
    let nodes = (space.node_of("on-n").await?, space.node_of("on-m").await?);
    ensure!(nodes == ("n".to_owned(), "m".to_owned()), "{nodes:?}");
    Ok(())
}

async fn devices_only(space: &TestSpace) -> anyhow::Result<()> {
    space.device_class(None).await?;
    space.device_node("n", 8).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pod(&pod("p", "q").gpus(1)).await?;
    space.unschedulable(&["p"]).await?;
    space.gpu_node("m", 1).await?;
    space.ready(&["p"]).await?;
    ensure!(space.node_of("p").await? == "m", "no kubelet can serve it");
    Ok(())
}

async fn shares(space: &TestSpace) -> anyhow::Result<()> {
    start(space).await?;
    let capacity = json!({"memory": {"value": "40Gi"}});
    let device = json!({"name": "gpu-0", "allowMultipleAllocations": true, "capacity": capacity});
    let spec = json!({"nodeName": space.node_name("n"), "devices": [device]});
    space.slice("devices", Slice { pool: "n", version: (1, 1), spec }).await?;
    let wanted = json!({"capacity": {"requests": {"memory": "20Gi"}}});
    space.request_template("share", wanted).await?;
    space.pod(&pod("a", "q").claims("share")).await?;
    space.pod(&pod("b", "q").claims("share")).await?;
    space.ready(&["a", "b"]).await?;
    space.pod(&pod("c", "q").claims("share")).await?;
    space.unschedulable(&["c"]).await?;
    space.delete_pod("a").await?;
    space.ready(&["c"]).await
}

/// The kubelet serves GPU requests from the device plugin's GPUs, however many devices the node offers.
async fn beside(space: &TestSpace) -> anyhow::Result<()> {
    space.device_class(None).await?;
    space.gpu_node("n", 8).await?;
    let devices: Vec<Value> = (0..8).map(|at| json!({"name": format!("gpu-{at}")})).collect();
    let spec = json!({"nodeName": space.node_name("n"), "devices": devices});
    space.slice("devices", Slice { pool: "n", version: (1, 1), spec }).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await?;
    space.pod(&pod("first", "q").gpus(8)).await?;
    space.ready(&["first"]).await?;
    space.pod(&pod("second", "q").gpus(8)).await?;
    space.unschedulable(&["second"]).await?;
    space.delete_pod("first").await?;
    space.ready(&["second"]).await
}
