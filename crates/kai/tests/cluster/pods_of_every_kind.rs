//! Pods of every kind of bind at once, and what must hold of them whatever happened while they were bound: all are bound,
//! no device is given twice, no gang is split, and when they are gone nothing is left of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::binder::{gpu_node, half};
use crate::world::World;
use crate::{QUEUE, gang, open};

const DEVICES: &str = "/apis/resource.k8s.io/v1";

/// Pods of every kind, and where they can go.
pub(crate) struct PodsOfEveryKind {
    pods: Vec<String>,
}

impl World {
    /// Our device class and driver.
    fn device_class(&self) -> String {
        format!("gpu.{}.example.com", self.name)
    }

    /// A node with devices that are claimed, their class, and the template `one` of claims.
    pub(crate) async fn devices(&self, count: u32) {
        let class = self.device_class();
        let selector = json!({"cel": {"expression": format!("device.driver == \"{class}\"")}});
        let object = json!({"metadata": {"name": class}, "spec": {"selectors": [selector]}});
        self.create(&format!("{DEVICES}/deviceclasses"), &object).await;
        self.node("devices", json!({"cpu": "8", "memory": "8Gi", "pods": "20"})).await;
        let node = format!("{}-devices", self.name);
        let devices: Vec<Value> =
            (0..count).map(|number| json!({"name": format!("gpu-{number}")})).collect();
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": class, "nodeName": node, "pool": pool, "devices": devices});
        let object = json!({"metadata": {"name": node}, "spec": spec});
        self.create(&format!("{DEVICES}/resourceslices"), &object).await;
        let exactly = json!({"deviceClassName": class});
        let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}});
        let object = json!({"metadata": {"name": "one"}, "spec": {"spec": spec}});
        let path = format!("{DEVICES}/namespaces/{}/resourceclaimtemplates", self.name);
        self.create(&path, &object).await;
    }

    /// A pod that claims a device.
    pub(crate) fn claiming_pod(&self, name: &str) -> Value {
        let mut pod = self.pod(name, &[(QUEUE, &self.queue_name("q"))], &json!({"cpu": "10m"}));
        pod["spec"]["resourceClaims"] =
            json!([{"name": "device", "resourceClaimTemplateName": "one"}]);
        pod
    }

    pub(crate) async fn claims(&self) -> Vec<Value> {
        self.list(DEVICES, "resourceclaims").await
    }

    /// A volume on the node with devices, and a claim that waits for its pod's node.
    pub(crate) async fn volume(&self, name: &str) {
        let class = format!("{}-{name}", self.name);
        let object = json!({"metadata": {"name": class}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
        self.create("/apis/storage.k8s.io/v1/storageclasses", &object).await;
        let field = json!({"key": "metadata.name", "operator": "In", "values": [format!("{}-devices", self.name)]});
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchFields": [field]}]}});
        let object = json!({"metadata": {"name": class}, "spec": {"storageClassName": class, "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"}, "nodeAffinity": affinity}});
        self.create("/api/v1/persistentvolumes", &object).await;
        let object = json!({"metadata": {"name": name}, "spec": {"storageClassName": class,
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        self.create(&format!("/api/v1/namespaces/{}/persistentvolumeclaims", self.name), &object)
            .await;
    }

    /// A pod that claims a device and mounts a volume.
    pub(crate) fn laden_pod(&self, name: &str, volume: &str) -> Value {
        let mut pod = self.claiming_pod(name);
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": volume}}]);
        pod
    }
}

impl PodsOfEveryKind {
    /// Nodes and queue; no pod yet.
    pub(crate) async fn prepare(world: &World) {
        world.queue("q", open(), open()).await;
        world.node("n", gpu_node(1)).await;
        world.devices(2).await;
        world.volume("data").await;
    }

    /// A gang, two halves of a device, two pods with claims, one of which mounts a volume, and plain ones.
    pub(crate) async fn create(world: &World) -> Self {
        let queue = world.queue_name("q");
        let mut pods: Vec<String> = gang(world, &queue).await.map(str::to_owned).into();
        let others = [
            half(world, "half-0"),
            half(world, "half-1"),
            world.claiming_pod("claims"),
            world.laden_pod("laden", "data"),
            world.pod("plain-0", &[(QUEUE, &queue)], &json!({"cpu": "100m"})),
            world.pod("plain-1", &[(QUEUE, &queue)], &json!({"cpu": "100m"})),
        ];
        for pod in others {
            world.create_pod(&pod).await;
            pods.push(pod["metadata"]["name"].as_str().expect("a name").to_owned());
        }
        Self { pods }
    }

    /// Waits until all is as if nothing had happened.
    pub(crate) async fn assert_sound(&self, world: &World) {
        for pod in &self.pods {
            world.wait_bound(pod).await;
        }
        world
            .wait("every request is done", async || {
                let requests = world.bind_requests().await;
                requests.iter().all(|one| one["status"]["phase"] == "Succeeded")
            })
            .await;
        let mut given = BTreeSet::new();
        let claims = world.claims().await;
        for result in claims.iter().flat_map(|claim| {
            claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten()
        }) {
            assert!(
                given.insert(result["device"].to_string()),
                "a device is given twice: {claims:#?}"
            );
        }
        assert_eq!(given.len(), 2, "{claims:#?}");
        let reservations = world.reservations().await;
        assert_eq!(reservations.len(), 1, "two halves of one device: {reservations:#?}");
    }

    /// Removes all pods; waits until nothing is left of them.
    pub(crate) async fn assert_nothing_left(self, world: &World) {
        for pod in &self.pods {
            world.remove_pod(pod).await;
        }
        world.wait_released().await;
        world
            .wait("claims and requests are gone", async || {
                world.claims().await.is_empty() && world.bind_requests().await.is_empty()
            })
            .await;
    }
}
