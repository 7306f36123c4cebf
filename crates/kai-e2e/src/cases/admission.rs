//! What admission denies and what it adds when objects are created.

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::admission;
use crate::objects::{Pod, merge, pod, queue};
use crate::test_space::TestSpace;

const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
const BLOCKING: &[&str] = &["--block-nvidia-visible-devices"];

/// Containers that choose devices themselves.
pub(super) const DEVICES: &[(&str, Run)] = &[
    ("devices: nothing is denied by default", |space| Box::pin(by_default(space))),
    ("devices: forbidden values are denied", |space| Box::pin(forbidden(space))),
    ("devices: allowed values are admitted", |space| Box::pin(allowed(space))),
    ("devices: containers without a GPU see none", |space| Box::pin(hidden(space))),
];

/// Which trees of sub-groups are valid.
pub(super) const POD_GROUPS: &[(&str, Run)] = &[
    ("validation: members and sub-groups of a group", |space| {
        let spec =
            json!({"minMember": 2, "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}]});
        Box::pin(denied(
            space,
            spec,
            "minMember and minSubGroup are mutually exclusive: set minMember (2)",
        ))
    }),
    ("validation: sub-groups of a leaf", |space| {
        let spec = json!({"minSubGroup": 1, "subGroups": [{"name": "a", "minSubGroup": 1}]});
        Box::pin(denied(
            space,
            spec,
            "subgroup \"a\": minSubGroup cannot be set on a leaf SubGroup (no child SubGroups)",
        ))
    }),
    ("validation: members and sub-groups of a sub-group", |space| {
        let parent = json!({"name": "a", "minMember": 1, "minSubGroup": 1});
        let spec = json!({"minSubGroup": 1, "subGroups": [parent, {"name": "b", "parent": "a", "minMember": 1}]});
        Box::pin(denied(
            space,
            spec,
            "subgroup \"a\": minMember and minSubGroup are mutually exclusive",
        ))
    }),
    ("validation: members of the middle", |space| {
        let tree =
            json!([{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]);
        let spec = json!({"minSubGroup": 1, "subGroups": tree});
        Box::pin(denied(
            space,
            spec,
            "subgroup \"a\": minMember cannot be set on a mid-level SubGroup (has child SubGroups); use minSubGroup instead",
        ))
    }),
    ("validation: more sub-groups than there are", |space| {
        Box::pin(accepted(
            space,
            four_leaves(5),
            &["minSubGroup (5) exceeds the number of direct child SubGroups (4)"],
        ))
    }),
    ("validation: no sub-group is needed", |space| Box::pin(accepted(space, four_leaves(0), &[]))),
    ("validation: a valid tree", |space| Box::pin(accepted(space, four_leaves(3), &[]))),
];

fn pods(space: &TestSpace) -> String {
    format!("/api/v1/namespaces/{}/pods", space.name)
}

/// A pod whose only container sets the variable.
fn reaching(space: &TestSpace, wants: &Pod, value: &str) -> Value {
    let mut object = space.pod_object(wants);
    object["spec"]["containers"][0]["env"] = json!([{"name": VISIBLE, "value": value}]);
    object
}

async fn by_default(space: &TestSpace) -> anyhow::Result<()> {
    let _admission = admission::start(space, &[]).await?;
    space.create(&pods(space), &reaching(space, &pod("p", "q").gpus(1), "all")).await.map(|_| ())
}

async fn forbidden(space: &TestSpace) -> anyhow::Result<()> {
    let _admission = admission::start(space, BLOCKING).await?;
    for value in ["1", "1,2", "all"] {
        let object = reaching(space, &pod("p", "q").gpus(1), value);
        let denial = space.denied(&pods(space), &object).await?;
        let wanted = format!(
            "container main has an environment variable NVIDIA_VISIBLE_DEVICES defined with a value of {value}. This is forbidden"
        );
        ensure!(denial.contains(&wanted), "{denial}");
    }
    Ok(())
}

async fn allowed(space: &TestSpace) -> anyhow::Result<()> {
    let _admission = admission::start(space, BLOCKING).await?;
    for value in ["void", "none"] {
        let object = reaching(space, &pod(value, "q").gpus(1), value);
        space.create(&pods(space), &object).await?;
    }
    Ok(())
}

async fn hidden(space: &TestSpace) -> anyhow::Result<()> {
    let _admission = admission::start(space, BLOCKING).await?;
    let mut object = space.pod_object(&pod("p", "q").gpus(1));
    let first = object["spec"]["containers"][0].take();
    object["spec"]["containers"] = json!([first, {"name": "side", "image": "none"}]);
    let made = space.create(&pods(space), &object).await?;
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

fn group(space: &TestSpace, spec: Value) -> (String, Value) {
    let mut all = json!({"queue": space.queue_name("q")});
    merge(&mut all, spec);
    let object = json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": all});
    (format!("/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups", space.name), object)
}

async fn denied(space: &TestSpace, spec: Value, why: &str) -> anyhow::Result<()> {
    let _admission = admission::start(space, &[]).await?;
    let (path, object) = group(space, spec);
    let denial = space.denied(&path, &object).await?;
    ensure!(denial.contains(why), "{denial}");
    Ok(())
}

async fn accepted(space: &TestSpace, spec: Value, warnings: &[&str]) -> anyhow::Result<()> {
    space.queue(&queue("q")).await?;
    let _admission = admission::start(space, &[]).await?;
    let (path, object) = group(space, spec);
    let received = space.create_with_warnings(&path, &object).await?;
    ensure!(received == warnings, "{received:?}");
    Ok(())
}
