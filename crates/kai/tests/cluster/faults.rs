//! What may happen while pods that share devices are bound. Afterwards nothing is leaked, nothing is bound twice and no
//! device is over-committed.

use serde_json::Value;

use crate::binder::{cluster, gpu_node, half};
use crate::in_process::DyingKai;
use crate::sharing::{Answer, NodeAgents, device_of};
use crate::world::World;

/// More than the writes of any bind.
const MANY: usize = 30;

/// The pod is bound once, keeps its device, and its objects agree with each other.
async fn assert_sound(world: &World, name: &str, node: &str, what: &str) {
    world.wait_bound(name).await;
    let pod = world.see_pod(name).await.expect("the pod");
    assert_eq!(pod["spec"]["nodeName"], node, "{what}");
    let reservations = world.reservations().await;
    let [reservation] = &reservations[..] else { panic!("{what}: {reservations:#?}") };
    assert_eq!(reservation["spec"]["nodeName"], node, "{what}");
    let group = |object: &Value| object["metadata"]["labels"]["runai-gpu-group"].clone();
    assert_eq!(group(&pod), group(reservation), "{what}");
    let owners = world.owners_of_shared_gpu_config(name).await;
    assert_eq!(owners[0]["uid"], pod["metadata"]["uid"], "{what}: {owners}");
    let config = world.shared_gpu_config(name).await.expect("a config map");
    assert_eq!(
        config["NVIDIA_VISIBLE_DEVICES"].as_str(),
        device_of(reservation).as_deref(),
        "{what}"
    );
    assert!(world.bind_requests().await.is_empty(), "{what}");
}

#[tokio::test]
async fn kai_may_die_between_any_two_writes_of_a_bind() {
    let Some(mut world) = cluster("mortal", 1).await else { return };
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    for writes in 0..MANY {
        let what = format!("killed after {writes} writes");
        let dying = DyingKai::start(&world, writes).await;
        world.create_pod(&half(&world, "p")).await;
        world
            .wait(&format!("{what}, or done"), async || {
                dying.is_dead() || world.node_of("p").await.is_some()
            })
            .await;
        let died = dying.is_dead();
        drop(dying);
        world.start_kai("kai", &[]).await;
        assert_sound(&world, "p", "mortal-n", &what).await;
        world.remove_pod("p").await;
        world.wait_released().await;
        world.kill_kai();
        if !died {
            assert!(writes >= 5, "reservation pod, label, two config maps, binding: {what}");
            return;
        }
    }
    panic!("the bind took more than {MANY} writes");
}

#[tokio::test]
async fn a_node_may_go_while_pods_are_bound_to_it() {
    let Some(mut world) = cluster("node-gone", 1).await else { return };
    world.start_kai("kai", &[]).await;
    world.create_pod(&half(&world, "p")).await;
    world.wait("a device is awaited", async || world.reservations().await.len() == 1).await;
    world.delete("/api/v1/nodes/node-gone-n", &Value::Null).await;
    world.node("m", gpu_node(1)).await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world
        .wait("only the new node is used", async || {
            let reservations = world.reservations().await;
            reservations.len() == 1 && reservations[0]["spec"]["nodeName"] == "node-gone-m"
        })
        .await;
    assert_sound(&world, "p", "node-gone-m", "a node went").await;
}

#[tokio::test]
async fn pod_that_is_created_again_with_the_same_name_is_bound() {
    let Some(mut world) = cluster("again", 1).await else { return };
    world.start_kai("kai", &[]).await;
    world.create_pod(&half(&world, "p")).await;
    world.wait("a device is awaited", async || world.reservations().await.len() == 1).await;
    let first = world.reservations().await[0]["metadata"]["name"].clone();
    world.remove_pod("p").await;
    world.create_pod(&half(&world, "p")).await;
    let _agents = NodeAgents::start(&world, Answer::OwnDevice);
    world
        .wait("the device of the first is released", async || {
            world.reservations().await.iter().all(|one| one["metadata"]["name"] != first)
        })
        .await;
    assert_sound(&world, "p", "again-n", "another pod of the name").await;
    // The garbage collector may not have removed the config maps of the second when the third is bound.
    world.remove_pod("p").await;
    world.create_pod(&half(&world, "p")).await;
    world.wait_bound("p").await;
    world.wait("one reservation is left", async || world.reservations().await.len() == 1).await;
    assert_sound(&world, "p", "again-n", "a third pod of the name").await;
    world.remove_pod("p").await;
    world.wait_released().await;
}
