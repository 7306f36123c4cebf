//! Devices that are claimed.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::Run;
use crate::objects::{Pod, capped, pod, pods, queue, quota};
use crate::test_space::TestSpace;

pub(super) const ALLOCATE: &[(&str, Run)] = &[
    ("DRA: a claim from a template", |space| Box::pin(simple(space))),
    ("DRA: a claim of a class that does not exist", |space| Box::pin(wrong_class(space))),
    ("DRA: a node is filled, the next waits", |space| Box::pin(fill(space))),
    ("DRA: claims count in the sums of their queue", |space| Box::pin(bookkeeping(space))),
    ("DRA: pods share a claim", |space| Box::pin(shared(space))),
    ("DRA extended resource: a claim is made", |space| Box::pin(extended(space))),
    ("DRA extended resource: a node is filled, the next waits", |space| {
        Box::pin(extended_fill(space))
    }),
    ("DRA extended resource: a gang", |space| Box::pin(extended_gang(space))),
    ("DRA extended resource: init containers use what others have", |space| {
        Box::pin(extended_init(space))
    }),
    ("DRA extended resource: a device plugin comes first", |space| Box::pin(device_plugin(space))),
];

pub(super) const CONSOLIDATION: &[(&str, Run)] =
    &[("DRA: two single devices make a pair", |space| Box::pin(consolidation(space)))];

pub(super) const PREEMPT: &[(&str, Run)] = &[
    ("DRA: claims from templates", |space| Box::pin(preempt(space, false))),
    ("DRA: extended resources", |space| Box::pin(preempt(space, true))),
    ("DRA distributed: two whole nodes", |space| Box::pin(distributed(space))),
];

pub(super) const RECLAIM: &[(&str, Run)] = &[
    ("DRA: not beyond the fair share", |space| Box::pin(no_reclaim(space))),
    ("DRA elastic: tasks", |space| Box::pin(elastic(space))),
    ("DRA: priority of queues with weights", |space| Box::pin(weights(space))),
];

const LOW: &str = "train";
const HIGH: &str = "build-preemptible";
/// Not preemptible, high.
const HIGH_FIXED: &str = "inference";

/// The test space's class, templates `one` and `two`, and nodes of so many devices each.
async fn furnished(space: &TestSpace, nodes: &[u32]) -> anyhow::Result<()> {
    space.device_class(None).await?;
    space.claim_template("one", 1, None).await?;
    space.claim_template("two", 2, None).await?;
    for (at, devices) in nodes.iter().enumerate() {
        space.device_node(&format!("n{at}"), *devices).await?;
    }
    Ok(())
}

/// The same with a queue without bounds and `kai` running.
async fn simple_space(space: &TestSpace, nodes: &[u32]) -> anyhow::Result<()> {
    furnished(space, nodes).await?;
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// No device is given twice.
async fn is_sound(space: &TestSpace, devices: usize) -> anyhow::Result<()> {
    let mut given = space.given_devices().await?;
    ensure!(given.len() == devices, "{devices} devices should be given: {given:?}");
    given.dedup();
    ensure!(given.len() == devices, "a device is given twice: {given:?}");
    Ok(())
}

/// KAI's claim is an object of its own; the claim from a template and what becomes of it are ours.
async fn simple(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[1]).await?;
    space.claim("own", "q", 1).await?;
    space.pod(&pod("named", "q").uses_claim("own")).await?;
    space.ready(&["named"]).await?;
    space.delete_pod("named").await?;
    space.until("no device is given", async || Ok(space.given_devices().await?.is_empty())).await?;
    space
        .delete(&format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/own", space.name))
        .await?;
    space.pod(&pod("p", "q").claims("one")).await?;
    space.ready(&["p"]).await?;
    is_sound(space, 1).await?;
    let claims = space.claims().await?;
    let pod_object = space.see_pod("p").await?.unwrap_or_default();
    let status = &claims[0]["status"];
    ensure!(status["reservedFor"][0]["uid"] == pod_object["metadata"]["uid"], "{status}");
    let term = &status["allocation"]["nodeSelector"]["nodeSelectorTerms"][0];
    let node = space.node_name("n0");
    ensure!(term["matchFields"][0]["values"] == json!([node]), "{status}");
    // The claim is deleted with its pod, which frees the device.
    space.delete_pod("p").await?;
    space.until("the claim is gone", async || Ok(space.claims().await?.is_empty())).await?;
    space.pod(&pod("next", "q").claims("one")).await?;
    space.ready(&["next"]).await
}

async fn wrong_class(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[1]).await?;
    space.claim_template("wrong", 1, Some("gpu.unknown.example.com")).await?;
    space.pod(&pod("p", "q").claims("wrong")).await?;
    space.unschedulable(&["p"]).await
}

async fn fill(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[4]).await?;
    space.pods(&pods(4, |at| pod(format!("p-{at}"), "q").claims("one"))).await?;
    space.counts("p-", 4, 0).await?;
    is_sound(space, 4).await?;
    space.pod(&pod("next", "q").claims("one")).await?;
    space.unschedulable(&["next"]).await?;
    space.delete_pod("p-2").await?;
    space.ready(&["next"]).await
}

async fn bookkeeping(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[4]).await?;
    space.group("g", "q", json!({"minMember": 2})).await?;
    space.pod(&pod("p-1", "q").of_group("g").claims("one")).await?;
    space.pod(&pod("p-2", "q").of_group("g").claims("two")).await?;
    space.ready(&["p-1", "p-2"]).await?;
    let path = format!("/apis/scheduling.run.ai/v2/queues/{}", space.queue_name("q"));
    let class = space.device_class_name();
    let counted = async || {
        let queue = space.see(&path).await?.unwrap_or_default();
        let is_three = |part: &str| queue["status"][part][class.as_str()] == "3";
        Ok(is_three("requested") && is_three("allocated"))
    };
    space.until("the queue counts three devices", counted).await
}

async fn shared(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[1, 1]).await?;
    space.claim("shared", "q", 1).await?;
    space.pods(&pods(2, |at| pod(format!("p-{at}"), "q").uses_claim("shared"))).await?;
    space.ready(&["p-0", "p-1"]).await?;
    ensure!(space.node_of("p-0").await? == space.node_of("p-1").await?, "one device, two nodes");
    is_sound(space, 1).await?;
    let users =
        |claims: Vec<Value>| claims[0]["status"]["reservedFor"].as_array().map_or(0, Vec::len);
    ensure!(users(space.claims().await?) == 2, "both use the claim");
    // The device is free when the last of them is gone.
    space.delete_pod("p-0").await?;
    space.delete_pod("p-1").await?;
    space.until("no device is given", async || Ok(space.given_devices().await?.is_empty())).await
}

/// A test space whose class stands behind an extended resource.
async fn extended_space(space: &TestSpace, nodes: &[u32]) -> anyhow::Result<()> {
    space.device_class(Some(&space.extended_resource())).await?;
    for (at, devices) in nodes.iter().enumerate() {
        space.device_node(&format!("n{at}"), *devices).await?;
    }
    space.queue(&queue("q")).await?;
    space.start(&[]).await
}

/// Asks for devices as if a device plugin offered them.
fn asks(space: &TestSpace, pod: Pod, count: u32) -> Pod {
    pod.asks(&space.extended_resource(), count.to_string())
}

async fn extended(space: &TestSpace) -> anyhow::Result<()> {
    extended_space(space, &[2]).await?;
    space.pod(&asks(space, pod("p", "q"), 2)).await?;
    space.ready(&["p"]).await?;
    is_sound(space, 2).await?;
    let claim = space.claims().await?.remove(0);
    let annotation = "resource.kubernetes.io/extended-resource-claim";
    ensure!(claim["metadata"]["annotations"][annotation] == "true", "{claim}");
    let named =
        space.see_pod("p").await?.unwrap_or_default()["status"]["extendedResourceClaimStatus"]
            .clone();
    ensure!(named["resourceClaimName"] == claim["metadata"]["name"], "{named}");
    let mapping = &named["requestMappings"][0];
    ensure!(mapping["containerName"] == "main", "{named}");
    ensure!(mapping["resourceName"] == space.extended_resource(), "{named}");
    ensure!(mapping["requestName"] == claim["spec"]["devices"]["requests"][0]["name"], "{named}");
    space.delete_pod("p").await?;
    space.until("the claim is gone", async || Ok(space.claims().await?.is_empty())).await
}

async fn extended_fill(space: &TestSpace) -> anyhow::Result<()> {
    extended_space(space, &[2]).await?;
    space.pods(&pods(2, |at| asks(space, pod(format!("p-{at}"), "q"), 1))).await?;
    space.counts("p-", 2, 0).await?;
    is_sound(space, 2).await?;
    space.pod(&asks(space, pod("next", "q"), 1)).await?;
    space.unschedulable(&["next"]).await
}

async fn extended_gang(space: &TestSpace) -> anyhow::Result<()> {
    extended_space(space, &[1, 1]).await?;
    space.group("g", "q", json!({"minMember": 2})).await?;
    space.pods(&pods(2, |at| asks(space, pod(format!("p-{at}"), "q").of_group("g"), 1))).await?;
    space.ready(&["p-0", "p-1"]).await?;
    is_sound(space, 2).await
}

async fn extended_init(space: &TestSpace) -> anyhow::Result<()> {
    extended_space(space, &[2]).await?;
    let amounts = json!({space.extended_resource(): "2"});
    let resources = json!({"requests": amounts, "limits": amounts});
    let first = json!({"name": "first", "image": "none", "resources": resources});
    space.pod(&asks(space, pod("p", "q"), 2).with(json!({"initContainers": [first]}))).await?;
    space.ready(&["p"]).await?;
    is_sound(space, 2).await
}

async fn device_plugin(space: &TestSpace) -> anyhow::Result<()> {
    extended_space(space, &[1]).await?;
    let offered = json!({space.extended_resource(): "1"});
    space.node("plugin", json!({"plugin": "true"}), offered).await?;
    space.pod(&asks(space, pod("p", "q").on("plugin", "true"), 1)).await?;
    space.ready(&["p"]).await?;
    let none = async || Ok(space.claims().await?.is_empty());
    space.stays("no claim is made", Duration::from_secs(2), none).await
}

/// Makes a job of one pod that is made again where it is evicted.
async fn job(space: &TestSpace, name: &str, pod: &Pod) -> anyhow::Result<()> {
    let template = space.pod_object(pod);
    let labels = &template["metadata"]["labels"];
    let mut spec = template["spec"].clone();
    spec["restartPolicy"] = json!("Never");
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let object = json!({"metadata": {"name": name, "labels": labels}, "spec": {"backoffLimit": 10, "template": template}});
    space
        .create(&format!("/apis/batch/v1/namespaces/{}/jobs", space.name), &object)
        .await
        .map(|_| ())
}

async fn consolidation(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[2, 2]).await?;
    for at in 0..4 {
        job(space, &format!("one-{at}"), &pod("x", "q").claims("one")).await?;
    }
    space.counts("one-", 4, 0).await?;
    for node in ["n0", "n1"] {
        let pods = space.pods_named("one-").await?;
        let full = space.node_name(node);
        let first = pods.iter().find(|pod| pod["spec"]["nodeName"] == full.as_str());
        let owner = first.and_then(|pod| pod["metadata"]["labels"]["job-name"].as_str());
        let owner = owner.unwrap_or_default();
        space.delete(&format!("/apis/batch/v1/namespaces/{}/jobs/{owner}", space.name)).await?;
    }
    space.left("one-", 2).await?;
    space.pod(&pod("pair", "q").claims("two")).await?;
    space.ready(&["pair"]).await?;
    space.counts("one-", 2, 0).await?;
    is_sound(space, 4).await
}

/// Changed: the pod of high priority wants both devices; KAI's wants one of all.
async fn preempt(space: &TestSpace, is_extended: bool) -> anyhow::Result<()> {
    let wants = |pod: Pod, count: u32| match (is_extended, count) {
        (true, _) => asks(space, pod, count),
        (false, 1) => pod.claims("one"),
        (false, _) => pod.claims("two"),
    };
    if is_extended {
        extended_space(space, &[2]).await?;
    } else {
        simple_space(space, &[2]).await?;
    }
    space.pods(&pods(2, |at| wants(pod(format!("low-{at}"), "q").class(LOW), 1))).await?;
    space.counts("low-", 2, 0).await?;
    space.pod(&wants(pod("same", "q").class(LOW), 1)).await?;
    space.unschedulable(&["same"]).await?;
    space.delete_pod("same").await?;
    space.pod(&wants(pod("high", "q").class(HIGH), 2)).await?;
    space.ready(&["high"]).await?;
    is_sound(space, 2).await
}

async fn distributed(space: &TestSpace) -> anyhow::Result<()> {
    simple_space(space, &[4, 4]).await?;
    space.claim_template("four", 4, None).await?;
    let pinned = |at: usize| {
        let low = pod(format!("low-{at}"), "q").claims("one").class(LOW);
        low.on("kubernetes.io/hostname", &space.node_name(&format!("n{}", at / 4)))
    };
    space.pods(&pods(8, pinned)).await?;
    space.counts("low-", 8, 0).await?;
    space.group("g", "q", json!({"minMember": 2, "priorityClassName": HIGH_FIXED})).await?;
    let member = |at| pod(format!("high-{at}"), "q").of_group("g").claims("four").class(HIGH_FIXED);
    space.pods(&pods(2, member)).await?;
    space.ready(&["high-0", "high-1"]).await?;
    is_sound(space, 8).await
}

/// A parent with all of `total`, and two children with their quotas and weight 2.
async fn family(space: &TestSpace, (total, gives, takes): (f64, f64, f64)) -> anyhow::Result<()> {
    furnished(space, &[8]).await?;
    space.queue(&queue("parent").gpu(capped(total))).await?;
    space.queue(&queue("gives").below("parent").gpu(quota(gives).weighing(2.0))).await?;
    space.queue(&queue("takes").below("parent").gpu(quota(takes).weighing(2.0))).await?;
    space.start(&[]).await
}

async fn no_reclaim(space: &TestSpace) -> anyhow::Result<()> {
    family(space, (4.0, 1.0, 1.0)).await?;
    space.pod(&pod("held-0", "gives").claims("two")).await?;
    space.pod(&pod("held-1", "gives").claims("one")).await?;
    space.pod(&pod("held-2", "gives").claims("one")).await?;
    space.ready(&["held-0", "held-1", "held-2"]).await?;
    space.pod(&pod("taken-0", "takes").claims("one")).await?;
    space.ready(&["taken-0"]).await?;
    space.pod(&pod("taken-1", "takes").claims("two")).await?;
    space.unschedulable(&["taken-1"]).await?;
    space.left("held-", 2).await
}

async fn elastic(space: &TestSpace) -> anyhow::Result<()> {
    family(space, (4.0, 2.0, 2.0)).await?;
    for name in ["a", "b"] {
        space.group(name, "gives", json!({"minMember": 1})).await?;
        let member = |at| pod(format!("{name}-{at}"), "gives").of_group(name).claims("one");
        space.pods(&pods(2, member)).await?;
        space.counts(&format!("{name}-"), 2, 0).await?;
    }
    space.pod(&pod("taker", "takes").claims("two")).await?;
    space.ready(&["taker"]).await?;
    space.left("a-", 1).await?;
    space.left("b-", 1).await
}

/// Changed: pods that exist before the scheduler starts, instead of Jobs.
async fn weights(space: &TestSpace) -> anyhow::Result<()> {
    furnished(space, &[]).await?;
    space.claim_template("three", 3, None).await?;
    space.queue(&queue("parent").gpu(capped(8.0))).await?;
    let gives =
        |name: &str, weight: f64| queue(name).below("parent").gpu(quota(1.0).weighing(weight));
    space.queue(&gives("light", 1.0)).await?;
    space.queue(&gives("heavy", 2.0)).await?;
    let takes = queue("takes").below("parent").gpu(quota(0.0)).with(json!({"priority": 101}));
    space.queue(&takes).await?;
    for name in ["light", "heavy"] {
        space.pods(&pods(10, |at| pod(format!("{name}-{at}"), name).claims("one"))).await?;
    }
    let all_made = async || Ok(space.claims().await?.len() == 20);
    space.until("every claim is made", all_made).await?;
    space.start(&[]).await?;
    // `kai` knows all pods before there is a device: it would give pods that it knows first what others then take back.
    space.counts("light-", 0, 10).await?;
    space.counts("heavy-", 0, 10).await?;
    space.device_node("n0", 8).await?;
    space.counts("light-", 3, 7).await?;
    space.counts("heavy-", 5, 5).await?;
    space.pod(&pod("taker", "takes").claims("three")).await?;
    space.ready(&["taker"]).await?;
    space.counts("light-", 2, 7).await?;
    space.counts("heavy-", 3, 5).await
}
