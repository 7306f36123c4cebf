//! `Config` on a real API server: read live, honoured or refused by name.

use serde_json::{Value, json};

use crate::admission::refusal;
use crate::world::World;
use crate::{QUEUE, open};

const CONFIGS: &str = "/apis/kai.scheduler/v1/configs";

async fn condition(world: &World, kind: &str) -> Value {
    let config = world.get(&format!("{CONFIGS}/kai-config")).await.expect("the Config");
    let conditions = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

#[tokio::test]
async fn config_is_read_live_and_tells_how_it_fares() {
    let Some(mut world) = World::alone("configured").await else { return };
    let spec = json!({
        "binder": {"plugins": {"magic": {"enabled": true}}},
        "admission": {"gpuSharing": false, "gpuFractionRuntimeClassName": ""},
    });
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": spec});
    world.create(CONFIGS, &config).await;
    world.start_admitting("kai", &[]).await;
    world.queue("q", open(), open()).await;
    world
        .wait("what is refused is named", async || {
            let ready = condition(&world, "Ready").await;
            ready["message"] == "spec.binder.plugins.magic: there is no such plugin"
                && ready["status"] == "False"
        })
        .await;
    assert_eq!(condition(&world, "Available").await["status"], "True");
    let fulfilled = condition(&world, "DependenciesFulfilled").await;
    assert_eq!(fulfilled["reason"], "dependencies_fulfilled");
    let queue = world.queue_name("q");
    let mut half = world.pod("half", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    half["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    let pods = format!("/api/v1/namespaces/{}/pods", world.name);
    world
        .wait("shares are refused", async || {
            let told = refusal(&world, &pods, &half).await;
            if told.is_empty() {
                world.delete(&format!("{pods}/half"), &json!({"gracePeriodSeconds": 0})).await;
            }
            told.contains("GPU sharing is disabled")
        })
        .await;
    let change = json!({"spec": {"binder": {"plugins": null}, "admission": {"gpuSharing": true}}});
    world.patch(&format!("{CONFIGS}/kai-config"), &change).await;
    world.wait("all is well", async || condition(&world, "Ready").await["status"] == "True").await;
    world.wait("shares are let in", async || refusal(&world, &pods, &half).await.is_empty()).await;
}
