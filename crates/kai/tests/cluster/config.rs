//! `Config` on a real API server: read live, honoured or rejected by name.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::admission::denial_reason;
use crate::world::World;
use crate::{QUEUE, open};

const CONFIGS: &str = "/apis/kai.scheduler/v1/configs";

async fn condition(world: &World, kind: &str) -> Value {
    let config = world.get(&format!("{CONFIGS}/kai-config")).await.expect("the Config");
    let conditions = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default()
}

#[tokio::test]
async fn config_is_read_live_and_its_status_reports_errors() {
    let Some(mut world) = World::alone("configured").await else { return };
    let spec = json!({
        "binder": {"plugins": {"magic": {"enabled": true}}},
        "admission": {"gpuSharing": false, "gpuFractionRuntimeClassName": ""},
    });
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}, "spec": spec});
    world.create(CONFIGS, &config).await;
    let log = Log::new(&mut world);
    world.start_admitting("kai", &["--v=3"]).await;
    world.queue("q", open(), open()).await;
    world
        .wait("rejected fields are named", async || {
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
        .wait("GPU fractions are denied", async || {
            let denial = denial_reason(&world, &pods, &half).await;
            if denial.is_empty() {
                world.delete(&format!("{pods}/half"), &json!({"gracePeriodSeconds": 0})).await;
            }
            denial.contains("GPU sharing is disabled")
        })
        .await;
    let change = json!({"spec": {"binder": {"plugins": null}, "admission": {"gpuSharing": true}}});
    world.patch(&format!("{CONFIGS}/kai-config"), &change).await;
    world.wait("all is well", async || condition(&world, "Ready").await["status"] == "True").await;
    world
        .wait("GPU fractions are admitted", async || {
            denial_reason(&world, &pods, &half).await.is_empty()
        })
        .await;
    the_form_of_the_log_changes(&world, &log).await;
}

/// What `kai` logs, in a file that is removed with the test.
struct Log(PathBuf);

impl Log {
    fn new(world: &mut World) -> Self {
        let name = format!("kai-{}-{}.log", world.name, std::process::id());
        let path = std::env::temp_dir().join(name);
        world.log_to(&path);
        Self(path)
    }

    /// Lines about binds; whether each is JSON.
    fn binds(&self) -> Vec<bool> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let binds = whole.lines().filter(|line| line.contains("bound"));
        binds.map(|line| serde_json::from_str::<Value>(line).is_ok()).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Text at first; JSON while `Config` says so, and text again when it says nothing.
async fn the_form_of_the_log_changes(world: &World, log: &Log) {
    world.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"})).await;
    let queue = world.queue_name("q");
    for (name, wanted) in [("text", Value::Null), ("json", json!(true)), ("again", Value::Null)] {
        let change = json!({"spec": {"global": {"jsonLog": wanted}}});
        world.patch(&format!("{CONFIGS}/kai-config"), &change).await;
        // Nothing reports when the change is observed: binds are logged until one has the form.
        let mut count = 0;
        world
            .wait(&format!("the log is {name}"), async || {
                let before = log.binds().len();
                let pod = format!("{name}-{count}");
                count += 1;
                world.create_pod(&world.pod(&pod, &[(QUEUE, &queue)], &json!({"cpu": "1m"}))).await;
                world.wait("its bind is logged", async || log.binds().len() > before).await;
                world.remove_pod(&pod).await;
                log.binds().last() == Some(&(name == "json"))
            })
            .await;
    }
}
