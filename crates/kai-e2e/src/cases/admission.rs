//! What is refused and what is added when objects are made.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::admission;
use crate::objects::{Pod, merge, pod, queue};
use crate::room::Room;

const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
const BLOCKING: &[&str] = &["--block-nvidia-visible-devices"];

/// Who may reach for devices.
pub(super) const DEVICES: &[(&str, Run)] = &[
    ("devices: nothing is refused by default", |room| Box::pin(by_default(room))),
    ("devices: forbidden values are refused", |room| Box::pin(forbidden(room))),
    ("devices: allowed values are admitted", |room| Box::pin(allowed(room))),
    ("devices: containers without a GPU see none", |room| Box::pin(hidden(room))),
];

/// Which trees of sub-groups make sense.
pub(super) const POD_GROUPS: &[(&str, Run)] = &[
    ("validation: members and sub-groups of a group", |room| {
        let spec =
            json!({"minMember": 2, "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}]});
        Box::pin(refused(
            room,
            spec,
            "minMember and minSubGroup are mutually exclusive: set minMember (2)",
        ))
    }),
    ("validation: sub-groups of a leaf", |room| {
        let spec = json!({"minSubGroup": 1, "subGroups": [{"name": "a", "minSubGroup": 1}]});
        Box::pin(refused(
            room,
            spec,
            "subgroup \"a\": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)",
        ))
    }),
    ("validation: members and sub-groups of a sub-group", |room| {
        let parent = json!({"name": "a", "minMember": 1, "minSubGroup": 1});
        let spec = json!({"minSubGroup": 1, "subGroups": [parent, {"name": "b", "parent": "a", "minMember": 1}]});
        Box::pin(refused(
            room,
            spec,
            "subgroup \"a\": minMember and minSubGroup are mutually exclusive",
        ))
    }),
    ("validation: members of the middle", |room| {
        let tree =
            json!([{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]);
        let spec = json!({"minSubGroup": 1, "subGroups": tree});
        Box::pin(refused(
            room,
            spec,
            "subgroup \"a\": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use minSubGroup instead",
        ))
    }),
    ("validation: more sub-groups than there are", |room| {
        Box::pin(accepted(
            room,
            four_leaves(5),
            &["minSubGroup (5) exceeds the number of direct child SubGroups (4)"],
        ))
    }),
    ("validation: no sub-group is needed", |room| Box::pin(accepted(room, four_leaves(0), &[]))),
    ("validation: a tree that makes sense", |room| Box::pin(accepted(room, four_leaves(3), &[]))),
];

fn pods(room: &Room) -> String {
    format!("/api/v1/namespaces/{}/pods", room.name)
}

/// A pod whose only container sets the variable.
fn reaching(room: &Room, wants: &Pod, value: &str) -> Value {
    let mut object = room.pod_object(wants);
    object["spec"]["containers"][0]["env"] = json!([{"name": VISIBLE, "value": value}]);
    object
}

async fn by_default(room: &Room) -> anyhow::Result<()> {
    let _admission = admission::start(room, &[]).await?;
    room.create(&pods(room), &reaching(room, &pod("p", "q").gpus(1), "all")).await.map(|_| ())
}

async fn forbidden(room: &Room) -> anyhow::Result<()> {
    let _admission = admission::start(room, BLOCKING).await?;
    for value in ["1", "1,2", "all"] {
        let object = reaching(room, &pod("p", "q").gpus(1), value);
        let denial = room.refused(&pods(room), &object).await?;
        let wanted = format!(
            "container main has an environment variable NVIDIA_VISIBLE_DEVICES defined with a value of {value}. This is forbidden"
        );
        ensure!(denial.contains(&wanted), "{denial}");
    }
    Ok(())
}

async fn allowed(room: &Room) -> anyhow::Result<()> {
    let _admission = admission::start(room, BLOCKING).await?;
    for value in ["void", "none"] {
        let object = reaching(room, &pod(value, "q").gpus(1), value);
        room.create(&pods(room), &object).await?;
    }
    Ok(())
}

async fn hidden(room: &Room) -> anyhow::Result<()> {
    let _admission = admission::start(room, BLOCKING).await?;
    let mut object = room.pod_object(&pod("p", "q").gpus(1));
    let first = object["spec"]["containers"][0].take();
    object["spec"]["containers"] = json!([first, {"name": "side", "image": "none"}]);
    let made = room.create(&pods(room), &object).await?;
    let containers = &made["spec"]["containers"];
    ensure!(containers[0]["env"].is_null(), "{}", containers[0]);
    ensure!(
        containers[1]["env"] == json!([{"name": VISIBLE, "value": "void"}]),
        "{}",
        containers[1]
    );
    Ok(())
}

fn four_leaves(needed: usize) -> Value {
    let leaves: Vec<Value> =
        (0..4).map(|at| json!({"name": format!("l{at}"), "minMember": 1})).collect();
    json!({"minSubGroup": needed, "subGroups": leaves})
}

fn group(room: &Room, spec: Value) -> (String, Value) {
    let mut all = json!({"queue": room.queue_name("q")});
    merge(&mut all, spec);
    let object = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": all});
    (format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", room.name), object)
}

async fn refused(room: &Room, spec: Value, why: &str) -> anyhow::Result<()> {
    let _admission = admission::start(room, &[]).await?;
    let (path, object) = group(room, spec);
    let denial = room.refused(&path, &object).await?;
    ensure!(denial.contains(why), "{denial}");
    Ok(())
}

async fn accepted(room: &Room, spec: Value, warnings: &[&str]) -> anyhow::Result<()> {
    room.queue(&queue("q")).await?;
    let _admission = admission::start(room, &[]).await?;
    let (path, object) = group(room, spec);
    let received = room.create_with_warnings(&path, &object).await?;
    ensure!(received == warnings, "{received:?}");
    Ok(())
}
