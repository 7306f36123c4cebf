//! Claims and volumes of pods in the binder: bound for KAI's scheduler too, and released if a bind fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, StatusCode};
use kai_settings::binder::ReservationSettings;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use crate::disruptions::error_response;
use crate::in_process::InProcessKai;
use crate::world::World;
use crate::{QUEUE, gang, open};

async fn with_devices(name: &'static str, devices: u32) -> Option<World> {
    let world = World::new(name).await?;
    world.queue("q", open(), open()).await;
    world.devices(devices).await;
    Some(world)
}

fn has_nothing(claim: &Value) -> bool {
    let finalizers = claim["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    claim["status"]["allocation"].is_null()
        && claim["status"]["reservedFor"].is_null()
        && finalizers == 0
}

#[tokio::test]
async fn a_request_of_kais_scheduler_is_carried_out_with_its_claims() {
    let Some(mut world) = with_devices("kais-request", 1).await else { return };
    world.start_kai("binder", &["--only", "binder"]).await; // with no rights but its own
    world.create_pod(&world.claiming_pod("p")).await;
    world
        .wait("the claim is made", async || {
            let pod = world.see_pod("p").await.expect("the pod");
            pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].is_string()
        })
        .await;
    let uid = world.see_pod("p").await.expect("the pod")["metadata"]["uid"].clone();
    let node = "kais-request-devices";
    let result = json!({"request": "gpu", "driver": "gpu.kais-request.example.com", "pool": node, "device": "gpu-0"});
    let request = json!({
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}]},
        "spec": {"podName": "p", "selectedNode": node, "receivedResourceType": "Regular",
            "resourceClaimAllocations": [{"name": "device", "allocation": {"devices": {"results": [result]}}}]},
    });
    let path = "/apis/scheduling.run.ai/v1alpha2/namespaces/kais-request/bindrequests";
    world.create(path, &request).await;
    assert_eq!(world.wait_bound("p").await, node);
    let claim = world.claims().await.remove(0);
    assert_eq!(claim["status"]["allocation"]["devices"]["results"], json!([result]));
    assert_eq!(claim["status"]["reservedFor"][0]["uid"], uid);
    // A second bind request names the same device.
    world.create_pod(&world.claiming_pod("other")).await;
    world.wait("its claim is made", async || world.claims().await.len() == 2).await;
    let mut second = request.clone();
    second["metadata"] = json!({"name": "other"});
    second["spec"]["podName"] = json!("other");
    world.create(path, &second).await;
    let is_rejected = async || {
        let requests = world.bind_requests().await;
        let reason = |one: &Value| one["status"]["reason"].as_str().unwrap_or_default().to_owned();
        requests.iter().any(|one| {
            one["status"]["phase"] == "Failed" && reason(one).contains("is that of claim")
        })
    };
    world.wait("no device is allocated twice", is_rejected).await;
    assert_eq!(world.node_of("other").await, None);
}

/// Binds are denied while the flag is set.
fn unbinding(client: Client, denies_binds: Arc<AtomicBool>) -> Client {
    let transport = tower::service_fn(move |request: Request<Body>| {
        let (client, denies_binds) = (client.clone(), Arc::clone(&denies_binds));
        async move {
            let binds =
                request.method() == Method::POST && request.uri().path().ends_with("/binding");
            if binds && denies_binds.load(Ordering::SeqCst) {
                return Ok(error_response(StatusCode::FORBIDDEN));
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(transport, "default")
}

#[tokio::test]
async fn a_failed_bind_gives_devices_back() {
    let Some(world) = with_devices("giving-back", 1).await else { return };
    let denies_binds = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&denies_binds);
    let _kai = InProcessKai::start(&world, ReservationSettings::default(), move |client| {
        unbinding(client, flag)
    })
    .await;
    world.create_pod(&world.claiming_pod("p")).await;
    let claim = async || world.claims().await.pop().unwrap_or_default();
    world
        .wait("the claim is taken", async || claim().await["status"]["allocation"].is_object())
        .await;
    world.wait("the claim is as it was", async || has_nothing(&claim().await)).await;
    denies_binds.store(false, Ordering::SeqCst);
    world.wait_bound("p").await;
    assert!(claim().await["status"]["allocation"].is_object());
}

#[tokio::test]
async fn volume_that_cannot_be_provisioned_fails_the_bind_and_is_requested_again() {
    let Some(mut world) = with_devices("unmade", 1).await else { return };
    let class = json!({"metadata": {"name": "unmade"}, "provisioner": "absent.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    world.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": "unmade",
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    world.create("/api/v1/namespaces/unmade/persistentvolumeclaims", &claim).await;
    world.start_kai("kai", &[]).await;
    world.create_pod(&world.laden_pod("p", "data")).await;
    let path = "/api/v1/namespaces/unmade/persistentvolumeclaims/data";
    let annotation = "volume.kubernetes.io/selected-node";
    let selected = async || {
        let claim = world.get(path).await.expect("the claim");
        claim["metadata"]["annotations"][annotation] == "unmade-devices"
    };
    world.wait("a volume is requested", selected).await;
    // The provisioner gives up, as it does where a node has no space.
    world.patch(path, &json!({"metadata": {"annotations": {annotation: null}}})).await;
    let is_reported = async || {
        let pod = world.see_pod("p").await.expect("the pod");
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| {
            one["message"].as_str().is_some_and(|text| text.contains("provisioning failed"))
        })
    };
    world.wait("the pod has the reason", is_reported).await;
    world.wait("it is requested again", selected).await;
    assert_eq!(world.node_of("p").await, None);
}

#[tokio::test]
async fn every_bind_has_a_bind_request_if_configured() {
    let Some(mut world) = with_devices("requests", 1).await else { return };
    world.start_kai("kai", &["--bind-requests", "always"]).await;
    let queue = world.queue_name("q");
    world.create_pod(&world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "100m"}))).await;
    let members = gang(&world, &queue).await;
    for pod in members.into_iter().chain(["p"]) {
        world.wait_bound(pod).await;
    }
    world
        .wait("each has a request that is done", async || {
            let requests = world.bind_requests().await;
            requests.len() == 4 && requests.iter().all(|one| one["status"]["phase"] == "Succeeded")
        })
        .await;
}
