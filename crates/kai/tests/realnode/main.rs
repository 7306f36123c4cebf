//! `kai` with real nodes: a kubelet and containerd start what was placed. Everything runs in a sandbox of its own; where there
//! can be none the tests say that they were skipped. `KAI_TEST_LOG=1` shows what `kai` logs.

#[allow(dead_code, reason = "what other tests need")]
#[path = "../cluster/installation.rs"]
mod installation;
mod site;
#[allow(dead_code, reason = "what other tests need")]
#[path = "../cluster/world.rs"]
mod world;

use std::future::Future;

use kai_testenv::sandbox::{self, Entered};
use serde_json::json;
use site::{BUSYBOX, Site, is_true};

/// Runs a test inside a sandbox.
fn sandboxed<F: Future<Output = ()>>(test: &'static str, run: impl FnOnce() -> F) {
    match sandbox::enter(test).expect("a sandbox") {
        Entered::Inside => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.expect("a runtime").block_on(run());
        }
        Entered::Ran(output) => {
            let told = [output.stdout, output.stderr]
                .map(|text| String::from_utf8_lossy(&text).into_owned());
            if std::env::var_os("KAI_TEST_LOG").is_some() {
                installation::tell(&told.concat());
            }
            assert!(output.status.success(), "{}", told.concat());
        }
        Entered::Impossible(why) => sandbox::skip(test, &why),
    }
}

#[test]
fn a_node_runs_a_pod_with_a_device() {
    sandboxed("a_node_runs_a_pod_with_a_device", async || {
        let mut site = Site::new("device").await;
        site.node("n1", |_| {}).await;
        site.nodes[0].advertise("00000001", 1, 100).expect("devices");
        site.wait_gpus("n1", 100).await;
        let world = &site.world;
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "nodeName": "n1",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": BUSYBOX, "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        }});
        world.create_pod(&pod).await;
        world
            .wait("the pod runs", async || is_true(&world.see_pod("p").await.expect("it"), "Ready"))
            .await;
        let variables = site.exec("p", &["env"]);
        assert!(
            variables.contains("NVIDIA_VISIBLE_DEVICES=GPU-00000001-0000-4000-8000-000000000000"),
            "{variables}"
        );
        assert_eq!(site.nodes[0].running().expect("containers").len(), 2);
    });
}
