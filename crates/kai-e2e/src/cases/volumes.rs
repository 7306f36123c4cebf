//! Volumes that pods mount.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, pod, pods, queue};
use crate::provisioner;
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("volumes: a claim that has its volume", |room| Box::pin(bound_before(room))),
    ("volumes: a claim takes a volume of the pod's node", |room| Box::pin(by_hand(room))),
    ("volumes: two claims need two volumes", |room| Box::pin(two_claims(room))),
    ("volumes: one is made for the pod's node", |room| Box::pin(made(room))),
    ("volumes: one is made for the pod alone", |room| Box::pin(ephemeral(room))),
    ("volumes: a gang with volumes", |room| Box::pin(gang(room))),
    ("volumes: more than there is space for", |room| Box::pin(no_space(room))),
];

const BY_HAND: &str = "kubernetes.io/no-provisioner";

impl Room {
    /// The full name of a storage class.
    fn class_name(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    async fn storage_class(&self, name: &str, provisioner: &str, mode: &str) -> anyhow::Result<()> {
        let object = json!({"metadata": {"name": self.class_name(name)}, "provisioner": provisioner, "volumeBindingMode": mode});
        self.create("/apis/storage.k8s.io/v1/storageclasses", &object).await.map(|_| ())
    }

    /// A volume of 1 GiB that a node of the room can use.
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

/// Mounts claims.
fn mounts(pod: Pod, claims: &[&str]) -> Pod {
    let volume =
        |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod.with(json!({"volumes": claims.iter().map(volume).collect::<Vec<_>>()}))
}

async fn two_nodes(room: &Room) -> anyhow::Result<()> {
    for name in ["n0", "n1"] {
        room.node(name, json!({}), json!({})).await?;
    }
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// A volume of any node, of a class that has no object, and a pod that comes before its claim is bound. The second half is
/// ours: the volume is of one node, and so is the pod.
async fn bound_before(room: &Room) -> anyhow::Result<()> {
    two_nodes(room).await?;
    let name = format!("{}-any", room.name);
    let spec = json!({"storageClassName": room.class_name("manual"), "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10k"}, "hostPath": {"path": "/tmp"}});
    room.create("/api/v1/persistentvolumes", &json!({"metadata": {"name": name}, "spec": spec}))
        .await?;
    room.volume_claim("any", "manual", "1k").await?;
    room.pod(&mounts(pod("early", "q"), &["any"])).await?;
    room.scheduled(&["early"]).await?;
    room.storage_class("now", BY_HAND, "Immediate").await?;
    room.volume("v", "now", "n1").await?;
    room.volume_claim("data", "now", "1Gi").await?;
    let bound = async || Ok(room.see_volume_claim("data").await?["status"]["phase"] == "Bound");
    room.until("the claim is bound", bound).await?;
    room.pod(&mounts(pod("p", "q"), &["data"])).await?;
    room.ready(&["p"]).await?;
    ensure!(room.node_of("p").await? == "n1", "its volume is elsewhere");
    Ok(())
}

async fn by_hand(room: &Room) -> anyhow::Result<()> {
    two_nodes(room).await?;
    room.storage_class("hand", BY_HAND, "WaitForFirstConsumer").await?;
    room.volume("v", "hand", "n1").await?;
    room.volume_claim("data", "hand", "1Gi").await?;
    room.pod(&mounts(pod("p", "q"), &["data"])).await?;
    room.ready(&["p"]).await?;
    ensure!(room.node_of("p").await? == "n1", "its volume is elsewhere");
    let claim = room.see_volume_claim("data").await?;
    ensure!(claim["spec"]["volumeName"] == format!("{}-v", room.name), "{claim}");
    ensure!(claim["status"]["phase"] == "Bound", "{claim}");
    Ok(())
}

async fn two_claims(room: &Room) -> anyhow::Result<()> {
    two_nodes(room).await?;
    room.storage_class("hand", BY_HAND, "WaitForFirstConsumer").await?;
    room.volume("v", "hand", "n0").await?;
    room.volume_claim("one", "hand", "1Gi").await?;
    room.volume_claim("two", "hand", "1Gi").await?;
    room.pod(&mounts(pod("p", "q"), &["one", "two"])).await?;
    room.unschedulable(&["p"]).await?;
    let claim = room.see_volume_claim("one").await?;
    ensure!(claim["spec"]["volumeName"].is_null(), "nothing is bound without need: {claim}");
    room.volume("w", "hand", "n0").await?;
    room.ready(&["p"]).await
}

async fn made(room: &Room) -> anyhow::Result<()> {
    two_nodes(room).await?;
    room.storage_class("made", provisioner::NAME, "WaitForFirstConsumer").await?;
    room.volume_claim("data", "made", "1Gi").await?;
    room.pod(&mounts(pod("p", "q"), &["data"])).await?;
    room.ready(&["p"]).await?;
    let claim = room.see_volume_claim("data").await?;
    let selected = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
    ensure!(*selected == room.node_name(&room.node_of("p").await?), "{claim}");
    ensure!(claim["status"]["phase"] == "Bound", "{claim}");
    Ok(())
}

async fn ephemeral(room: &Room) -> anyhow::Result<()> {
    two_nodes(room).await?;
    room.storage_class("made", provisioner::NAME, "WaitForFirstConsumer").await?;
    let template = json!({"spec": room.claim_spec("made", "1Gi")});
    let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": template}});
    room.pod(&pod("p", "q").with(json!({"volumes": [volume]}))).await?;
    room.ready(&["p"]).await?;
    ensure!(room.see_volume_claim("p-data").await?["status"]["phase"] == "Bound", "it is bound");
    Ok(())
}

async fn gang(room: &Room) -> anyhow::Result<()> {
    two_nodes(room).await?;
    room.storage_class("made", provisioner::NAME, "WaitForFirstConsumer").await?;
    room.group("g", "q", json!({"minMember": 3})).await?;
    room.volume_claim("a", "made", "1Gi").await?;
    room.volume_claim("b", "made", "1Gi").await?;
    let member = |at: usize| pod(format!("p-{at}"), "q").of_group("g");
    room.pods(&pods(1, member)).await?;
    room.pod(&mounts(member(1), &["a"])).await?;
    room.pod(&mounts(member(2), &["b"])).await?;
    room.ready(&["p-0", "p-1", "p-2"]).await
}

async fn no_space(room: &Room) -> anyhow::Result<()> {
    let driver = format!("csi.{}.example.com", room.name);
    let object = json!({"metadata": {"name": driver}, "spec": {"storageCapacity": true}});
    room.create("/apis/storage.k8s.io/v1/csidrivers", &object).await?;
    room.storage_class("csi", &driver, "WaitForFirstConsumer").await?;
    let topology = json!({"matchLabels": {"kubernetes.io/hostname": room.node_name("n0")}});
    let space = json!({"metadata": {"name": "space"}, "storageClassName": room.class_name("csi"), "nodeTopology": topology, "capacity": "1Gi"});
    let path = format!("/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities", room.name);
    room.create(&path, &space).await?;
    room.volume_claim("data", "csi", "2Gi").await?;
    two_nodes(room).await?;
    room.pod(&mounts(pod("p", "q"), &["data"])).await?;
    room.unschedulable(&["p"]).await
}
