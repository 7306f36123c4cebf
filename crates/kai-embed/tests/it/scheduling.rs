//! `kai run`'s own code on the embedded cluster.

use kai_embed::api::Request;
use serde_json::{Value, json};

use crate::world::{World, play};

#[test]
fn pods_are_bound_run_and_end() {
    play(async |world: World| {
        world.node("n", 2);
        world.queue("q", 2, -1);
        let mut short = crate::world::pod("short", "q", "train", 1);
        short["metadata"]["annotations"] = json!({"kai.scheduler/sim-duration": "30s"});
        world.make(&short);
        world.pod("long", "q", "train", 1);
        world.seconds(2).await;
        world.pod("late", "q", "train", 1);
        world.seconds(3).await;
        assert_eq!(
            ["short", "long", "late"].map(|name| world.phase(name)),
            ["Running", "Running", "Pending"]
        );
        let pod = world.see("short");
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["annotations"]["received-resource-type"], "Regular");
        let devices = world.cluster.with(|cluster, _| cluster.devices("n"));
        assert_eq!(devices.iter().map(|device| device.users.len()).collect::<Vec<_>>(), [1, 1]);
        world.seconds(30).await;
        assert_eq!(
            ["short", "long", "late"].map(|name| world.phase(name)),
            ["Succeeded", "Running", "Running"]
        );
    });
}

/// Pods of one group.
fn member(name: &str, group: &str) -> Value {
    let mut pod = crate::world::pod(name, "q", "train", 1);
    pod["metadata"]["annotations"] = json!({"pod-group-name": group});
    pod
}

#[test]
fn a_gang_waits_until_all_of_it_fits() {
    play(async |world: World| {
        world.node("n", 1);
        world.queue("q", 4, -1);
        world.make(&json!({
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "gang", "namespace": "default"},
            "spec": {"minMember": 2, "queue": "q", "priorityClassName": "train"},
        }));
        world.make(&member("a", "gang"));
        world.make(&member("b", "gang"));
        world.seconds(10).await;
        assert_eq!(["a", "b"].map(|name| world.phase(name)), ["Pending", "Pending"]);
        world.node("more", 1);
        world.seconds(2).await;
        assert_eq!(["a", "b"].map(|name| world.phase(name)), ["Running", "Running"]);
    });
}

#[test]
fn victim_is_evicted_unless_its_budget_forbids_it() {
    play(async |world: World| {
        world.node("n", 1);
        world.queue("q", 1, 1);
        let mut low = crate::world::pod("low", "q", "train", 1);
        low["metadata"]["labels"]["app"] = json!("kept");
        world.make(&low);
        world.seconds(2).await;
        assert_eq!(world.phase("low"), "Running");
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
        });
        world.make(&budget);
        world.seconds(1).await;
        world.pod("high", "q", "build", 1);
        world.seconds(20).await;
        assert_eq!(["low", "high"].map(|name| world.phase(name)), ["Running", "Pending"]);
        let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep";
        let (code, _) = world.send(&Request::send("DELETE", path, &json!({})));
        assert_eq!(code, 200);
        world.seconds(20).await;
        assert_eq!(["low", "high"].map(|name| world.phase(name)), ["gone", "Running"]);
    });
}

#[test]
fn the_same_story_gives_the_same_versions() {
    let run_once = || {
        let mut outcome = (0, String::new());
        play(async |world: World| {
            world.node("n", 2);
            world.queue("q", 2, -1);
            for at in 0..4 {
                world.pod(&format!("p{at}"), "q", "train", 1);
            }
            world.seconds(30).await;
            outcome = world.cluster.with(|cluster, _| {
                let pods: Vec<String> =
                    cluster.list(("", "pods")).map(ToString::to_string).collect();
                (cluster.version(), pods.join("\n"))
            });
        });
        outcome
    };
    assert_eq!(run_once(), run_once());
}
