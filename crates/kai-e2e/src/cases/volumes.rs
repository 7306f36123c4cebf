//! Volumes that pods mount.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, pods, queue};
use crate::provisioner;
use crate::test_space::TestSpace;

pub(super) const CASES: &[(&str, Run)] = &[
    ("volumes: a claim that has its volume", |space| Box::pin(bound_before(space))),
    ("volumes: a claim takes a volume of the pod's node", |space| Box::pin(by_hand(space))),
    ("volumes: two claims need two volumes", |space| Box::pin(two_claims(space))),
    ("volumes: one is made for the pod's node", |space| Box::pin(made(space))),
    ("volumes: one is made for the pod alone", |space| Box::pin(ephemeral(space))),
    ("volumes: a gang with volumes", |space| Box::pin(gang(space))),
    ("volumes: more than there is space for", |space| Box::pin(no_space(space))),
];

const BY_HAND: &str = "kubernetes.io/no-provisioner";

impl TestSpace {
    /// The full name of a storage class.
    fn class_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    async fn storage_class(&self, name: &str, provisioner: &str, mode: &str) -> anyhow::Result<()> {
        let object = json!({"metadata": {"name": self.class_name(name)}, "provisioner": provisioner, "volumeBindingMode": mode});
        self.create("/apis/storage.k8s.io/v1/storageclasses", &object).await.map(|_| ())
    }

    /// A volume of 1 GiB that a node of the test space can use.
    async fn volume(&self, name: &str, class: &str, node: &str) -> anyhow::Result<()> {
        let more = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        let class = json!(self.class_name(class));
        let name = format!("{}-{name}", self.name);
        let object = provisioner::volume(&name, &class, &self.node_name(node), &more);
        self.create("/api/v1/persistentvolumes", &object).await.map(|_| ())
    }

    fn claim_spec(&self, class: &str, size: &str) -> Value {
        json!({"storageClassName": self.class_name(class), "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}})
    }

    async fn volume_claim(&self, name: &str, class: &str, size: &str) -> anyhow::Result<()> {
        let object = json!({"metadata": {"name": name}, "spec": self.claim_spec(class, size)});
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.name);
        self.create(&path, &object).await.map(|_| ())
    }

    async fn see_volume_claim(&self, name: &str) -> anyhow::Result<Value> {
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", self.name);
        Ok(self.see(&path).await?.unwrap_or_default())
    }
}

/// Gives the pod one volume per claim.
fn mounts(pod: Pod, claims: &[&str]) -> Pod {
    let volume =
        |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod.with(json!({"volumes": claims.iter().map(volume).collect::<Vec<_>>()}))
}

async fn two_nodes(space: &TestSpace) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        space.node(name, json!({}), json!({})).await?;
    }
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// A volume of any node, of a class that has no object, and a pod that comes before its claim is bound. The second half is
/// ours: the volume is of one node, and so is the pod.
async fn bound_before(space: &TestSpace) -> anyhow::Result<()> {
    two_nodes(space).await?;
    let name = format!("{}-any", space.name);
    let spec = json!({"storageClassName": space.class_name("manual"), "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10k"}, "hostPath": {"path": "/tmp"}});
    space
        .create("/api/v1/persistentvolumes", &json!({"metadata": {"name": name}, "spec": spec}))
        .await?;
    space.volume_claim("any", "manual", "1k").await?;
    space.pod(&mounts(pod("early", "q"), &["any"])).await?;
    space.scheduled(&["early"]).await?;
    space.storage_class("now", BY_HAND, "Immediate").await?;
    space.volume("v", "now", "n1").await?;
    space.volume_claim("data", "now", "1Gi").await?;
    let bound = async || Ok(space.see_volume_claim("data").await?["status"]["phase"] == "Bound");
    space.until("the claim is bound", bound).await?;
    space.pod(&mounts(pod("p", "q"), &["data"])).await?;
    space.ready(&["p"]).await?;
    ensure!(space.node_of("p").await? == "n1", "its volume is elsewhere");
    Ok(())
}

async fn by_hand(space: &TestSpace) -> anyhow::Result<()> {
    two_nodes(space).await?;
    space.storage_class("hand", BY_HAND, "WaitForFirstConsumer").await?;
    space.volume("v", "hand", "n1").await?;
    space.volume_claim("data", "hand", "1Gi").await?;
    space.pod(&mounts(pod("p", "q"), &["data"])).await?;
    space.ready(&["p"]).await?;
    ensure!(space.node_of("p").await? == "n1", "its volume is elsewhere");
    let claim = space.see_volume_claim("data").await?;
    ensure!(claim["spec"]["volumeName"] == format!("{}-v", space.name), "{claim}");
    ensure!(claim["status"]["phase"] == "Bound", "{claim}");
    Ok(())
}

async fn two_claims(space: &TestSpace) -> anyhow::Result<()> {
    two_nodes(space).await?;
    space.storage_class("hand", BY_HAND, "WaitForFirstConsumer").await?;
    space.volume("v", "hand", "n0").await?;
    space.volume_claim("one", "hand", "1Gi").await?;
    space.volume_claim("two", "hand", "1Gi").await?;
    space.pod(&mounts(pod("p", "q"), &["one", "two"])).await?;
    space.unschedulable(&["p"]).await?;
    let claim = space.see_volume_claim("one").await?;
    ensure!(claim["spec"]["volumeName"].is_null(), "nothing is bound without need: {claim}");
    space.volume("w", "hand", "n0").await?;
    space.ready(&["p"]).await
}

async fn made(space: &TestSpace) -> anyhow::Result<()> {
    two_nodes(space).await?;
    space.storage_class("made", provisioner::NAME, "WaitForFirstConsumer").await?;
    space.volume_claim("data", "made", "1Gi").await?;
    space.pod(&mounts(pod("p", "q"), &["data"])).await?;
    space.ready(&["p"]).await?;
    let claim = space.see_volume_claim("data").await?;
    let selected = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
    ensure!(*selected == space.node_name(&space.node_of("p").await?), "{claim}");
    ensure!(claim["status"]["phase"] == "Bound", "{claim}");
    Ok(())
}

async fn ephemeral(space: &TestSpace) -> anyhow::Result<()> {
    two_nodes(space).await?;
    space.storage_class("made", provisioner::NAME, "WaitForFirstConsumer").await?;
    let template = json!({"spec": space.claim_spec("made", "1Gi")});
    let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": template}});
    space.pod(&pod("p", "q").with(json!({"volumes": [volume]}))).await?;
    space.ready(&["p"]).await?;
    ensure!(space.see_volume_claim("p-data").await?["status"]["phase"] == "Bound", "it is bound");
    Ok(())
}

async fn gang(space: &TestSpace) -> anyhow::Result<()> {
    two_nodes(space).await?;
    space.storage_class("made", provisioner::NAME, "WaitForFirstConsumer").await?;
    space.group("g", "q", json!({"minMember": 3})).await?;
    space.volume_claim("a", "made", "1Gi").await?;
    space.volume_claim("b", "made", "1Gi").await?;
    let member = |at: usize| pod(format!("p-{at}"), "q").of_group("g");
    space.pods(&pods(1, member)).await?;
    space.pod(&mounts(member(1), &["a"])).await?;
    space.pod(&mounts(member(2), &["b"])).await?;
    space.ready(&["p-0", "p-1", "p-2"]).await
}

async fn no_space(space: &TestSpace) -> anyhow::Result<()> {
    let driver = format!("csi.{}.example.com", space.name);
    let object = json!({"metadata": {"name": driver}, "spec": {"storageCapacity": true}});
    space.create("/apis/storage.k8s.io/v1/csidrivers", &object).await?;
    space.storage_class("csi", &driver, "WaitForFirstConsumer").await?;
    let topology = json!({"matchLabels": {"kubernetes.io/hostname": space.node_name("n0")}});
    let capacity = json!({"metadata": {"name": "space"}, "storageClassName": space.class_name("csi"), "nodeTopology": topology, "capacity": "1Gi"});
    let path = format!("/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities", space.name);
    space.create(&path, &capacity).await?;
    space.volume_claim("data", "csi", "2Gi").await?;
    two_nodes(space).await?;
    space.pod(&mounts(pod("p", "q"), &["data"])).await?;
    space.unschedulable(&["p"]).await
}
