//! Plays a CSI provisioner: makes a volume for every claim of its classes for which a node was chosen.

use kube::Client;
use serde_json::{Value, json};

use crate::test_space::send;

/// The provisioner of classes whose volumes are made here.
pub const NAME: &str = "provisioner.e2e.example.com";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// Makes the volumes that are waited for now.
pub async fn attend(client: &Client) {
    let path = "/api/v1/persistentvolumeclaims";
    let Ok(list) = send(client, "GET", path, "application/json", &Value::Null).await else {
        return; // retried at the next poll
    };
    for claim in list["items"].as_array().into_iter().flatten() {
        let annotations = &claim["metadata"]["annotations"];
        let is_ours = annotations[PROVISIONER] == NAME && claim["spec"]["volumeName"].is_null();
        if let (true, Some(node)) = (is_ours, annotations[SELECTED_NODE].as_str()) {
            let volumes = "/api/v1/persistentvolumes";
            // One that is there already was made at an earlier look.
            let _ =
                send(client, "POST", volumes, "application/json", &volume_for(claim, node)).await;
        }
    }
}

fn volume_for(claim: &Value, node: &str) -> Value {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    let name = format!("pvc-{}", metadata["uid"].as_str().unwrap_or_default());
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
    });
    volume(
        &name,
        &spec["storageClassName"],
        node,
        &json!({
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "claimRef": reference,
        }),
    )
}

/// A volume of a class that one node can use.
pub(crate) fn volume(name: &str, class: &Value, node: &str, more: &Value) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let mut spec = json!({
        "storageClassName": class,
        "csi": {"driver": NAME, "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "persistentVolumeReclaimPolicy": "Retain",
    });
    crate::objects::merge(&mut spec, more.clone());
    let annotations = json!({"pv.kubernetes.io/provisioned-by": NAME});
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec})
}
