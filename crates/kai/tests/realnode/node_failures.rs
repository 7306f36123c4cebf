//! Failures on a node: the reason is reported, nothing is left behind, and scheduling continues when the cause is gone.

use kai_settings::binder::ReservationSettings;
use kai_testenv::NodeProgram;
use serde_json::{Value, json};

use crate::in_process::DyingKai;
use crate::sandboxed;
use crate::site::{Gpus, KAI_IMAGE, Site};

const ONE: Gpus = Gpus { count: 1, replicas: 10, mib: 16_000 };

fn half() -> Value {
    json!({"gpu-fraction": "0.5"})
}

#[test]
fn programs_of_the_node_are_restarted() {
    sandboxed("node_failures::programs_of_the_node_are_restarted", async || {
        let mut site = Site::with_runtime("restarts").await;
        site.gpu_node("n1", ONE).await;
        site.start_kai(&[]).await;
        site.share("first", &half()).await;
        site.wait_running("first").await;
        let device = site.devices("first");
        let reservation = site.reservations().await.remove(0);
        // Without its kubelet the node starts nothing; running pods continue.
        site.nodes[0].stop(NodeProgram::Kubelet).expect("it stops");
        site.share("second", &half()).await;
        site.world.wait_bound("second").await;
        site.nodes[0].restart(NodeProgram::Kubelet).expect("it starts");
        site.wait_running("second").await;
        assert_eq!(site.devices("second"), device);
        site.remove("second").await;
        // Without containerd, too.
        site.nodes[0].stop(NodeProgram::Containerd).expect("it stops");
        site.share("third", &half()).await;
        site.nodes[0].restart(NodeProgram::Containerd).expect("it starts");
        site.wait_running("third").await;
        assert_eq!(site.devices("third"), device);
        let reservations = site.reservations().await;
        let uids: Vec<&Value> = reservations.iter().map(|pod| &pod["metadata"]["uid"]).collect();
        assert_eq!(uids, [&reservation["metadata"]["uid"]], "the device was kept all the time");
        for pod in ["first", "third"] {
            site.remove(pod).await;
        }
        site.wait_empty().await;
    });
}

/// Request, reservation, label, two config maps, binding, status, and what is noted on the node: so many writes, about, bind
/// one pod.
const WRITES: usize = 9;

#[test]
fn kai_dies_at_every_step_of_a_reservation() {
    sandboxed("node_failures::kai_dies_at_every_step_of_a_reservation", async || {
        let mut site = Site::with_runtime("deaths").await;
        site.gpu_node("n1", ONE).await;
        let admission = ["--only", "admission", "--gpu-sharing-enabled"];
        site.world.start_admitting("admission", &admission).await;
        let reservations = || ReservationSettings {
            image: KAI_IMAGE.to_owned(),
            ..ReservationSettings::default()
        };
        for writes in 0..=WRITES {
            let pod = format!("p{writes}");
            site.share(&pod, &half()).await;
            let dying = DyingKai::start_with(&site.world, writes, reservations()).await;
            let done = async || dying.is_dead() || site.world.node_of(&pod).await.is_some();
            site.world.wait("it died, or was not needed any more", done).await;
            drop(dying);
            let _next = DyingKai::start_with(&site.world, usize::MAX, reservations()).await;
            site.wait_running(&pod).await;
            assert_eq!(site.reservations().await.len(), 1, "after {writes} writes");
            assert!(site.devices(&pod).starts_with("GPU-00000001"));
            site.remove(&pod).await;
            site.wait_empty().await;
        }
        let requests = "/apis/scheduling.run.ai/v1alpha2";
        site.world
            .wait("no bind request is left", async || {
                site.world.list(requests, "bindrequests").await.is_empty()
            })
            .await;
    });
}

#[test]
fn an_image_or_the_driver_is_missing_for_a_while() {
    sandboxed("node_failures::an_image_or_the_driver_is_missing_for_a_while", async || {
        let mut site = Site::with_runtime("missing").await;
        site.gpu_node("n1", ONE).await;
        site.start_kai(&[]).await;
        let image = site.kai_image();
        site.nodes[0].forget(KAI_IMAGE).expect("it is there");
        site.share("image", &half()).await;
        site.wait_bind_failure("image", "ErrImagePull").await;
        site.nodes[0].import(&image).expect("it is imported");
        site.wait_running("image").await;
        site.remove("image").await;
        site.wait_empty().await;

        site.set_driver_fault(Some("driver-not-loaded"));
        site.share("driver", &half()).await;
        site.wait_bind_failure("driver", "unable to initialize NVML: Driver Not Loaded").await;
        let found = site.doctor();
        let named = found.iter().any(|finding| finding["check"] == "nvml-driver-not-loaded");
        assert!(named, "{found:#?}");
        site.set_driver_fault(None);
        site.wait_running("driver").await;
        site.remove("driver").await;
        site.wait_empty().await;
    });
}
