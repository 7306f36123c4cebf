//! Devices of nodes as a DRA driver would publish them, and pods that claim them. Class, driver and extended resource are the
//! test space's own: devices of other test spaces are not visible.

use serde_json::{Value, json};

use crate::objects::Pod;
use crate::test_space::TestSpace;

const API: &str = "/apis/resource.k8s.io/v1";
/// The name of a pod's only claim.
const CLAIM: &str = "devices";

impl Pod {
    /// Claims what a template says.
    #[must_use]
    pub fn claims(self, template: &str) -> Self {
        self.with(
            json!({"resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": template}]}),
        )
    }

    /// Uses a claim that is there.
    #[must_use]
    pub fn uses_claim(self, claim: &str) -> Self {
        self.with(json!({"resourceClaims": [{"name": CLAIM, "resourceClaimName": claim}]}))
    }
}

/// What a claim of one request wants.
fn wanted(class: &str, count: u32) -> Value {
    let exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
}

impl TestSpace {
    /// The test space's class of devices, which counts as GPUs by its name; also its driver.
    pub fn device_class_name(&self) -> String {
        format!("gpu.{}.example.com", self.name)
    }

    /// The extended resource that the test space's class can stand behind.
    pub fn extended_resource(&self) -> String {
        format!("{}.example.com/gpu", self.name)
    }

    /// Makes the test space's class of devices; with a resource, it stands behind that.
    pub async fn device_class(&self, extended_resource: Option<&str>) -> anyhow::Result<()> {
        let class = self.device_class_name();
        let selector = json!({"cel": {"expression": format!("device.driver == \"{class}\"")}});
        let mut spec = json!({"selectors": [selector]});
        if let Some(resource) = extended_resource {
            spec["extendedResourceName"] = json!(resource);
        }
        let object = json!({"metadata": {"name": class}, "spec": spec});
        self.create(&format!("{API}/deviceclasses"), &object).await.map(|_| ())
    }

    /// A node with devices that are to be claimed.
    pub async fn device_node(&self, name: &str, devices: u32) -> anyhow::Result<()> {
        self.node(name, json!({}), json!({})).await?;
        let node = self.node_name(name);
        let devices: Vec<Value> =
            (0..devices).map(|number| json!({"name": format!("gpu-{number}")})).collect();
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": self.device_class_name(), "nodeName": node, "pool": pool, "devices": devices});
        let object = json!({"metadata": {"name": node}, "spec": spec});
        self.create(&format!("{API}/resourceslices"), &object).await.map(|_| ())
    }

    /// A template of claims for this many devices of the test space's class, or of another.
    pub async fn claim_template(
        &self,
        name: &str,
        count: u32,
        class: Option<&str>,
    ) -> anyhow::Result<()> {
        let class = class.map_or_else(|| self.device_class_name(), str::to_owned);
        let object = json!({"metadata": {"name": name}, "spec": {"spec": wanted(&class, count)}});
        let path = format!("{API}/namespaces/{}/resourceclaimtemplates", self.name);
        self.create(&path, &object).await.map(|_| ())
    }

    /// A claim for this many devices of the test space's class, charged to a queue.
    pub async fn claim(&self, name: &str, queue: &str, count: u32) -> anyhow::Result<()> {
        let labels = json!({"kai.scheduler/queue": self.queue_name(queue)});
        let spec = wanted(&self.device_class_name(), count);
        let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        let path = format!("{API}/namespaces/{}/resourceclaims", self.name);
        self.create(&path, &object).await.map(|_| ())
    }

    /// Claims of the test space.
    pub async fn claims(&self) -> anyhow::Result<Vec<Value>> {
        self.list(API, "resourceclaims").await
    }

    /// Devices that claims of the test space have, with repetitions.
    pub async fn given_devices(&self) -> anyhow::Result<Vec<String>> {
        let claims = self.claims().await?;
        let results = claims.iter().flat_map(|claim| {
            let results = claim["status"]["allocation"]["devices"]["results"].as_array();
            results.into_iter().flatten()
        });
        let mut devices: Vec<String> =
            results.map(|one| format!("{}/{}", one["pool"], one["device"])).collect();
        devices.sort();
        Ok(devices)
    }
}
