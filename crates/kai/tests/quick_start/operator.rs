//! Simulates Kubeflow's training operator: creates the pods of a `PyTorchJob`, and marks it as running when they run.

use std::time::Duration;

use kai_e2e::foreign::owned_by;
use kai_e2e::test_space::send;
use kube::Client;
use serde_json::{Value, json};

const JOBS: &str = "/apis/kubeflow.org/v1/pytorchjobs";
const POLL: Duration = Duration::from_millis(200);
const LABELS: &str = "training.kubeflow.org";

/// Plays until it is dropped.
pub(crate) async fn play(client: Client) {
    loop {
        // A failed list is retried.
        if let Ok(jobs) = send(&client, "GET", JOBS, "application/json", &Value::Null).await {
            for job in jobs["items"].as_array().into_iter().flatten() {
                attend(&client, job).await;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Makes the pods that are missing; what fails is tried again at the next look.
async fn attend(client: &Client, job: &Value) {
    let text = |key: &str| job["metadata"][key].as_str().unwrap_or_default();
    if job["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    let (namespace, name) = (text("namespace"), text("name"));
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let mut running = true;
    for (role, spec) in job["spec"]["pytorchReplicaSpecs"].as_object().into_iter().flatten() {
        for index in 0..spec["replicas"].as_u64().unwrap_or_default() {
            let role = role.to_lowercase();
            let pod = format!("{name}-{role}-{index}");
            let pod_object = send(client, "GET", &format!("{pods}/{pod}"), "", &Value::Null).await;
            running &= pod_object.is_ok_and(|object| object["status"]["phase"] == "Running");
            let labels = json!({
                format!("{LABELS}/job-name"): name, format!("{LABELS}/replica-type"): role,
                format!("{LABELS}/replica-index"): index.to_string(),
            });
            let metadata = json!({"name": pod, "labels": labels, "ownerReferences": owned_by(job)});
            let object = json!({"metadata": metadata, "spec": spec["template"]["spec"]});
            let _ = send(client, "POST", &pods, "application/json", &object).await;
        }
    }
    if running {
        let condition = json!({"type": "Running", "status": "True"});
        let patch = json!({"status": {"conditions": [condition]}});
        let path = format!("/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs/{name}");
        let _ = send(client, "PATCH", &path, "application/merge-patch+json", &patch).await;
    }
}
