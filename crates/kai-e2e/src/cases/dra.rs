//! Devices that are claimed.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, capped, pod, pods, queue, quota};
use crate::room::Room;

pub(super) const ALLOCATE: &[(&str, Run)] = &[
    ("DRA: a claim from a template", |room| Box::pin(simple(room))),
    ("DRA: a claim of a class that does not exist", |room| Box::pin(wrong_class(room))),
    ("DRA: a node is filled, the next waits", |room| Box::pin(fill(room))),
    ("DRA: claims count in the sums of their queue", |room| Box::pin(bookkeeping(room))),
    ("DRA: pods share a claim", |room| Box::pin(shared(room))),
    ("DRA extended resource: a claim is made", |room| Box::pin(extended(room))),
    ("DRA extended resource: a node is filled, the next waits", |room| {
        Box::pin(extended_fill(room))
    }),
    ("DRA extended resource: a gang", |room| Box::pin(extended_gang(room))),
    ("DRA extended resource: init containers use what others have", |room| {
        Box::pin(extended_init(room))
    }),
    ("DRA extended resource: a device plugin comes first", |room| Box::pin(device_plugin(room))),
];

pub(super) const CONSOLIDATION: &[(&str, Run)] =
    &[("DRA: two single devices make a pair", |room| Box::pin(consolidation(room)))];

pub(super) const PREEMPT: &[(&str, Run)] = &[
    ("DRA: claims from templates", |room| Box::pin(preempt(room, false))),
    ("DRA: extended resources", |room| Box::pin(preempt(room, true))),
    ("DRA distributed: two whole nodes", |room| Box::pin(distributed(room))),
];

pub(super) const RECLAIM: &[(&str, Run)] = &[
    ("DRA: not beyond the fair share", |room| Box::pin(no_reclaim(room))),
    ("DRA elastic: tasks", |room| Box::pin(elastic(room))),
    ("DRA: priority of queues with weights", |room| Box::pin(weights(room))),
];

const LOW: &str = "train";
const HIGH: &str = "build-preemptible";
/// Not preemptible, high.
const HIGH_FIXED: &str = "inference";

/// The room's class, templates `one` and `two`, and nodes of so many devices each.
async fn furnished(room: &Room, nodes: &[u32]) -> anyhow::Result<()> {
    room.device_class(None).await?;
    room.claim_template("one", 1, None).await?;
    room.claim_template("two", 2, None).await?;
    for (at, devices) in nodes.iter().enumerate() {
        room.device_node(&format!("n{at}"), *devices).await?;
    }
    Ok(())
}

/// The same with a queue without bounds and `kai` running.
async fn simple_room(room: &Room, nodes: &[u32]) -> anyhow::Result<()> {
    furnished(room, nodes).await?;
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// No device is given twice.
async fn is_sound(room: &Room, devices: usize) -> anyhow::Result<()> {
    let mut given = room.given_devices().await?;
    ensure!(given.len() == devices, "{devices} devices should be given: {given:?}");
    given.dedup();
    ensure!(given.len() == devices, "a device is given twice: {given:?}");
    Ok(())
}

/// KAI's claim is an object of its own; the claim from a template and what becomes of it are ours.
async fn simple(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[1]).await?;
    room.claim("own", "q", 1).await?;
    room.pod(&pod("named", "q").uses_claim("own")).await?;
    room.ready(&["named"]).await?;
    room.delete_pod("named").await?;
    room.until("no device is given", async || Ok(room.given_devices().await?.is_empty())).await?;
    room.delete(&format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/own", room.name))
        .await?;
    room.pod(&pod("p", "q").claims("one")).await?;
    room.ready(&["p"]).await?;
    is_sound(room, 1).await?;
    let claims = room.claims().await?;
    let seen = room.see_pod("p").await?.unwrap_or_default();
    let status = &claims[0]["status"];
    ensure!(status["reservedFor"][0]["uid"] == seen["metadata"]["uid"], "{status}");
    let term = &status["allocation"]["nodeSelector"]["nodeSelectorTerms"][0];
    let node = room.node_name("n0");
    ensure!(term["matchFields"][0]["values"] == json!([node]), "{status}");
    // The claim goes with its pod, and with it the device.
    room.delete_pod("p").await?;
    room.until("the claim is gone", async || Ok(room.claims().await?.is_empty())).await?;
    room.pod(&pod("next", "q").claims("one")).await?;
    room.ready(&["next"]).await
}

async fn wrong_class(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[1]).await?;
    room.claim_template("wrong", 1, Some("gpu.nobody.example.com")).await?;
    room.pod(&pod("p", "q").claims("wrong")).await?;
    room.unschedulable(&["p"]).await
}

async fn fill(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[4]).await?;
    room.pods(&pods(4, |at| pod(format!("p-{at}"), "q").claims("one"))).await?;
    room.counts("p-", 4, 0).await?;
    is_sound(room, 4).await?;
    room.pod(&pod("next", "q").claims("one")).await?;
    room.unschedulable(&["next"]).await?;
    room.delete_pod("p-2").await?;
    room.ready(&["next"]).await
}

async fn bookkeeping(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[4]).await?;
    room.group("g", "q", json!({"minMember": 2})).await?;
    room.pod(&pod("p-1", "q").of_group("g").claims("one")).await?;
    room.pod(&pod("p-2", "q").of_group("g").claims("two")).await?;
    room.ready(&["p-1", "p-2"]).await?;
    let path = format!("/apis/scheduling.run.ai/v2/queues/{}", room.queue_name("q"));
    let class = room.device_class_name();
    let counted = async || {
        let queue = room.see(&path).await?.unwrap_or_default();
        let is_three = |part: &str| queue["status"][part][class.as_str()] == "3";
        Ok(is_three("requested") && is_three("allocated"))
    };
    room.until("the queue counts three devices", counted).await
}

async fn shared(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[1, 1]).await?;
    room.claim("shared", "q", 1).await?;
    room.pods(&pods(2, |at| pod(format!("p-{at}"), "q").uses_claim("shared"))).await?;
    room.ready(&["p-0", "p-1"]).await?;
    ensure!(room.node_of("p-0").await? == room.node_of("p-1").await?, "one device, two nodes");
    is_sound(room, 1).await?;
    let users =
        |claims: Vec<Value>| claims[0]["status"]["reservedFor"].as_array().map_or(0, Vec::len);
    ensure!(users(room.claims().await?) == 2, "both use the claim");
    // The device is free when the last of them is gone.
    room.delete_pod("p-0").await?;
    room.delete_pod("p-1").await?;
    room.until("no device is given", async || Ok(room.given_devices().await?.is_empty())).await
}

/// A room whose class stands behind an extended resource.
async fn extended_room(room: &Room, nodes: &[u32]) -> anyhow::Result<()> {
    room.device_class(Some(&room.extended_resource())).await?;
    for (at, devices) in nodes.iter().enumerate() {
        room.device_node(&format!("n{at}"), *devices).await?;
    }
    room.queue(&queue("q")).await?;
    room.start(&[]).await
}

/// Asks for devices as if a device plugin offered them.
fn asks(room: &Room, pod: Pod, count: u32) -> Pod {
    pod.asks(&room.extended_resource(), count.to_string())
}

async fn extended(room: &Room) -> anyhow::Result<()> {
    extended_room(room, &[2]).await?;
    room.pod(&asks(room, pod("p", "q"), 2)).await?;
    room.ready(&["p"]).await?;
    is_sound(room, 2).await?;
    let claim = room.claims().await?.remove(0);
    let annotation = "resource.kubernetes.io/extended-resource-claim";
    ensure!(claim["metadata"]["annotations"][annotation] == "true", "{claim}");
    let named =
        room.see_pod("p").await?.unwrap_or_default()["status"]["extendedResourceClaimStatus"]
            .clone();
    ensure!(named["resourceClaimName"] == claim["metadata"]["name"], "{named}");
    let mapping = &named["requestMappings"][0];
    ensure!(mapping["containerName"] == "main", "{named}");
    ensure!(mapping["resourceName"] == room.extended_resource(), "{named}");
    ensure!(mapping["requestName"] == claim["spec"]["devices"]["requests"][0]["name"], "{named}");
    room.delete_pod("p").await?;
    room.until("the claim is gone", async || Ok(room.claims().await?.is_empty())).await
}

async fn extended_fill(room: &Room) -> anyhow::Result<()> {
    extended_room(room, &[2]).await?;
    room.pods(&pods(2, |at| asks(room, pod(format!("p-{at}"), "q"), 1))).await?;
    room.counts("p-", 2, 0).await?;
    is_sound(room, 2).await?;
    room.pod(&asks(room, pod("next", "q"), 1)).await?;
    room.unschedulable(&["next"]).await
}

async fn extended_gang(room: &Room) -> anyhow::Result<()> {
    extended_room(room, &[1, 1]).await?;
    room.group("g", "q", json!({"minMember": 2})).await?;
    room.pods(&pods(2, |at| asks(room, pod(format!("p-{at}"), "q").of_group("g"), 1))).await?;
    room.ready(&["p-0", "p-1"]).await?;
    is_sound(room, 2).await
}

async fn extended_init(room: &Room) -> anyhow::Result<()> {
    extended_room(room, &[2]).await?;
    let amounts = json!({room.extended_resource(): "2"});
    let resources = json!({"requests": amounts, "limits": amounts});
    let first = json!({"name": "first", "image": "none", "resources": resources});
    room.pod(&asks(room, pod("p", "q"), 2).with(json!({"initContainers": [first]}))).await?;
    room.ready(&["p"]).await?;
    is_sound(room, 2).await
}

async fn device_plugin(room: &Room) -> anyhow::Result<()> {
    extended_room(room, &[1]).await?;
    let offered = json!({room.extended_resource(): "1"});
    room.node("plugin", json!({"plugin": "true"}), offered).await?;
    room.pod(&asks(room, pod("p", "q").on("plugin", "true"), 1)).await?;
    room.ready(&["p"]).await?;
    let none = async || Ok(room.claims().await?.is_empty());
    room.stays("no claim is made", Duration::from_secs(2), none).await
}

/// Makes a job of one pod that is made again where it is evicted.
async fn job(room: &Room, name: &str, pod: &Pod) -> anyhow::Result<()> {
    let template = room.pod_object(pod);
    let labels = &template["metadata"]["labels"];
    let mut spec = template["spec"].clone();
    spec["restartPolicy"] = json!("Never");
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 10, "template": template}});
    room.create(&format!("/apis/batch/v1/namespaces/{}/jobs", room.name), &object).await.map(|_| ())
}

async fn consolidation(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[2, 2]).await?;
    for at in 0..4 {
        job(room, &format!("one-{at}"), &pod("x", "q").claims("one")).await?;
    }
    room.counts("one-", 4, 0).await?;
    for node in ["n0", "n1"] {
        let pods = room.pods_named("one-").await?;
        let full = room.node_name(node);
        let first = pods.iter().find(|pod| pod["spec"]["nodeName"] == full.as_str());
        let owner = first.and_then(|pod| pod["metadata"]["labels"]["job-name"].as_str());
        let owner = owner.unwrap_or_default();
        room.delete(&format!("/apis/batch/v1/namespaces/{}/jobs/{owner}", room.name)).await?;
    }
    room.left("one-", 2).await?;
    room.pod(&pod("pair", "q").claims("two")).await?;
    room.ready(&["pair"]).await?;
    room.counts("one-", 2, 0).await?;
    is_sound(room, 4).await
}

/// Changed: the pod of high priority wants both devices; KAI's wants one of all.
async fn preempt(room: &Room, is_extended: bool) -> anyhow::Result<()> {
    let wants = |pod: Pod, count: u32| match (is_extended, count) {
        (true, _) => asks(room, pod, count),
        (false, 1) => pod.claims("one"),
        (false, _) => pod.claims("two"),
    };
    if is_extended {
        extended_room(room, &[2]).await?;
    } else {
        simple_room(room, &[2]).await?;
    }
    room.pods(&pods(2, |at| wants(pod(format!("low-{at}"), "q").class(LOW), 1))).await?;
    room.counts("low-", 2, 0).await?;
    room.pod(&wants(pod("same", "q").class(LOW), 1)).await?;
    room.unschedulable(&["same"]).await?;
    room.delete_pod("same").await?;
    room.pod(&wants(pod("high", "q").class(HIGH), 2)).await?;
    room.ready(&["high"]).await?;
    is_sound(room, 2).await
}

async fn distributed(room: &Room) -> anyhow::Result<()> {
    simple_room(room, &[4, 4]).await?;
    room.claim_template("four", 4, None).await?;
    let pinned = |at: usize| {
        let low = pod(format!("low-{at}"), "q").claims("one").class(LOW);
        low.on("kubernetes.io/hostname", &room.node_name(&format!("n{}", at / 4)))
    };
    room.pods(&pods(8, pinned)).await?;
    room.counts("low-", 8, 0).await?;
    room.group("g", "q", json!({"minMember": 2, "priorityClassName": HIGH_FIXED})).await?;
    let member = |at| pod(format!("high-{at}"), "q").of_group("g").claims("four").class(HIGH_FIXED);
    room.pods(&pods(2, member)).await?;
    room.ready(&["high-0", "high-1"]).await?;
    is_sound(room, 8).await
}

/// A parent with all of `total`, and two children with their quotas and weight 2.
async fn family(room: &Room, (total, gives, takes): (f64, f64, f64)) -> anyhow::Result<()> {
    furnished(room, &[8]).await?;
    room.queue(&queue("parent").gpu(capped(total))).await?;
    room.queue(&queue("gives").below("parent").gpu(quota(gives).weighing(2.0))).await?;
    room.queue(&queue("takes").below("parent").gpu(quota(takes).weighing(2.0))).await?;
    room.start(&[]).await
}

async fn no_reclaim(room: &Room) -> anyhow::Result<()> {
    family(room, (4.0, 1.0, 1.0)).await?;
    room.pod(&pod("held-0", "gives").claims("two")).await?;
    room.pod(&pod("held-1", "gives").claims("one")).await?;
    room.pod(&pod("held-2", "gives").claims("one")).await?;
    room.ready(&["held-0", "held-1", "held-2"]).await?;
    room.pod(&pod("taken-0", "takes").claims("one")).await?;
    room.ready(&["taken-0"]).await?;
    room.pod(&pod("taken-1", "takes").claims("two")).await?;
    room.unschedulable(&["taken-1"]).await?;
    room.left("held-", 2).await
}

async fn elastic(room: &Room) -> anyhow::Result<()> {
    family(room, (4.0, 2.0, 2.0)).await?;
    for name in ["a", "b"] {
        room.group(name, "gives", json!({"minMember": 1})).await?;
        let member = |at| pod(format!("{name}-{at}"), "gives").of_group(name).claims("one");
        room.pods(&pods(2, member)).await?;
        room.counts(&format!("{name}-"), 2, 0).await?;
    }
    room.pod(&pod("taker", "takes").claims("two")).await?;
    room.ready(&["taker"]).await?;
    room.left("a-", 1).await?;
    room.left("b-", 1).await
}

/// Changed: pods that exist before the scheduler starts, instead of Jobs.
async fn weights(room: &Room) -> anyhow::Result<()> {
    furnished(room, &[8]).await?;
    room.claim_template("three", 3, None).await?;
    room.queue(&queue("parent").gpu(capped(8.0))).await?;
    let gives =
        |name: &str, weight: f64| queue(name).below("parent").gpu(quota(1.0).weighing(weight));
    room.queue(&gives("light", 1.0)).await?;
    room.queue(&gives("heavy", 2.0)).await?;
    let takes = queue("takes").below("parent").gpu(quota(0.0)).with(json!({"priority": 101}));
    room.queue(&takes).await?;
    for name in ["light", "heavy"] {
        room.pods(&pods(10, |at| pod(format!("{name}-{at}"), name).claims("one"))).await?;
    }
    let all_made = async || Ok(room.claims().await?.len() == 20);
    room.until("every claim is made", all_made).await?;
    room.start(&[]).await?;
    room.counts("light-", 3, 7).await?;
    room.counts("heavy-", 5, 5).await?;
    room.pod(&pod("taker", "takes").claims("three")).await?;
    room.ready(&["taker"]).await?;
    room.counts("light-", 2, 7).await?;
    room.counts("heavy-", 3, 5).await
}
