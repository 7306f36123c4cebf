//! Pods that use the processors of shared devices in different ways, and devices of which the driver keeps a part.

use serde_json::{Value, json};

use crate::virtual_time::{Story, play};
use crate::{labelled_gpu_node, queue, sharing_pod};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const MODE: &str = "nvidia.com/container.c.gpu-compute.mode";

fn sharing(name: &str, mib: u32, mode: Option<&str>) -> Value {
    let mut pod = sharing_pod(name, "100m", ("gpu-memory", &mib.to_string()));
    if let Some(mode) = mode {
        pod["metadata"]["annotations"][MODE] = json!(mode);
    }
    pod
}

fn played(node: Value, pods: Vec<Value>) -> (Vec<String>, Vec<Value>) {
    let mut objects = vec![(NODES, node), ("/apis/scheduling.run.ai/v2/queues", queue())];
    objects.extend(pods.into_iter().map(|pod| (PODS, pod)));
    let story = Story { objects, agents: vec![1], seconds: 120, ..Story::default() };
    let (log, objects) = play(story);
    (log, objects[PODS].clone())
}

/// Devices of a pod of ours; none: it has no node.
fn device(pods: &[Value], name: &str) -> Option<String> {
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name)?;
    pod["spec"]["nodeName"].as_str()?;
    let (_, device) =
        pod["metadata"]["annotations"]["kai.scheduler/gpu-devices"].as_str()?.split_once('=')?;
    Some(device.to_owned())
}

#[test]
fn pods_of_different_compute_modes_get_different_devices() {
    let labels = json!({"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "2"});
    let pods = vec![
        sharing("slicing", 4000, None),
        sharing("sharing", 4000, Some("sm-sharing")),
        sharing("slicing-too", 4000, Some("time-slicing")),
        sharing("sharing-too", 4000, Some("sm-sharing")),
    ];
    let (log, pods) = played(labelled_gpu_node("2", &labels), pods);
    let [slicing, sharing, slicing_too, sharing_too] =
        ["slicing", "sharing", "slicing-too", "sharing-too"].map(|name| device(&pods, name));
    assert!(slicing.is_some() && sharing.is_some(), "{log:#?}");
    assert_ne!(slicing, sharing);
    assert_eq!((slicing, sharing), (slicing_too, sharing_too));
}

#[test]
fn pod_of_another_compute_mode_waits_where_there_is_one_device() {
    let labels = json!({"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "1"});
    let pods = vec![sharing("a", 4000, Some("sm-sharing")), sharing("b", 4000, None)];
    let (log, pods) = played(labelled_gpu_node("1", &labels), pods);
    let bound = ["a", "b"].map(|name| device(&pods, name).is_some());
    assert_eq!(bound.iter().filter(|is_bound| **is_bound).count(), 1, "{log:#?}");
}

#[test]
fn memory_that_the_driver_keeps_is_not_given_out() {
    let labels = |reserve: &str| json!({"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "1", "kai.scheduler/gpu-memory-reserve-mib": reserve});
    let pods = || vec![sharing("a", 16_000, None), sharing("b", 16_600, None)];
    let count = |reserve: &str| {
        let (_, pods) = played(labelled_gpu_node("1", &labels(reserve)), pods());
        ["a", "b"].iter().filter(|name| device(&pods, name).is_some()).count()
    };
    assert_eq!(count("0"), 2, "both fit exactly");
    assert_eq!(count("1"), 1, "one MiB is kept");
}
