//! Devices of decisions that the cluster does not show yet.

use super::*;
use crate::plan::{assume, plan};
use crate::plugins::testing::queue;
use crate::time::Timestamp;

/// Two pods that want the one GPU there is, in a queue that may use it.
fn two_for_one() -> World {
    let mut world = cluster(Compatibility::Right, &[1]);
    set(&mut world, Object::Queue(queue("queue")));
    for (pod, claim) in [("a", "c"), ("b", "d")] {
        set(&mut world, Object::Claim(gpu_claim(claim, 1)));
        put_pod(&mut world, using(pod, &[claim]));
    }
    world
}

#[test]
fn decisions_in_flight_hold_their_devices() {
    let mut world = two_for_one();
    let now = Timestamp::default();
    let made = plan(&mut world, now);
    assert_eq!(made.steps.len(), 1, "{:?}", made.steps);
    assert_eq!(made.steps[0].pod, named("a"));
    assume(&mut world, &made);
    assert_eq!(devices_of(&world, "c"), ["0"], "as if the claim said so");
    assert_eq!(world.describe(), world.rebuilt().describe());
    assert!(plan(&mut world, now).steps.is_empty(), "the device is taken");
    world.forget(&named("a"));
    assert_eq!(plan(&mut world, now).steps, made.steps, "it was refused: once more");
}

#[test]
fn another_pod_of_the_name_ends_a_decision_in_flight() {
    let mut world = two_for_one();
    let made = plan(&mut world, Timestamp::default());
    assume(&mut world, &made);
    let mut other = using("a", &["c"]);
    other.uid = "another".into();
    put_pod(&mut world, other);
    assert!(devices_of(&world, "c").is_empty());
}
