//! Nodes whose GPUs have to be found out: rungs of reservation pods, CDI, unified memory, what is written on nodes.

use serde_json::{Value, json};

use crate::virtual_time::{Story, play};
use crate::{fault, labelled_gpu_node, queue, sharing_pod, times, writes};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
const POLICIES: &str = "/apis/nvidia.com/v1/clusterpolicies";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

fn known() -> Value {
    json!({"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "1"})
}

fn sharing(name: &str, mib: u32) -> Value {
    sharing_pod(name, "100m", ("gpu-memory", &mib.to_string()))
}

fn story(node: Value, pods: Vec<Value>) -> Story {
    let mut objects = vec![(NODES, node), ("/apis/scheduling.run.ai/v2/queues", queue())];
    objects.extend(pods.into_iter().map(|pod| (PODS, pod)));
    Story { objects, agents: vec![1], seconds: 120, ..Story::default() }
}

fn bound(pods: &[Value]) -> usize {
    let ours = pods.iter().filter(|pod| pod["metadata"]["namespace"] == "a");
    ours.filter(|pod| pod["spec"]["nodeName"] == "n1").count()
}

fn annotation(node: &Value, key: &str) -> Value {
    let text = node["metadata"]["annotations"][key].as_str();
    serde_json::from_str(text.unwrap_or("null")).expect("JSON")
}

#[test]
fn a_runtime_class_that_the_node_does_not_have_is_given_up_and_the_rung_that_works_is_kept() {
    let mut story = story(labelled_gpu_node("1", &known()), vec![sharing("p", 8000)]);
    story.objects.push((CLASSES, json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"})));
    story.agents = vec![1000, 1]; // the first never starts
    let (log, objects) = play(story);
    assert_eq!(bound(&objects[PODS]), 1, "{log:#?}");
    let ladder = annotation(&objects[NODES][0], "kai.scheduler/reservation-ladder");
    assert_eq!(ladder["platform"], "standard");
    assert_eq!(ladder["rungs"], json!(["runtime-class", "plain"]));
    assert_eq!(ladder["works"], "plain");
    let reservation = objects[PODS].iter().find(|pod| pod["metadata"]["namespace"] != "a");
    assert!(reservation.expect("a reservation")["spec"].get("runtimeClassName").is_none());
}

/// Reservation pods, the earliest first.
fn reservations(pods: &[Value]) -> Vec<&Value> {
    pods.iter().filter(|pod| pod["metadata"]["namespace"] != "a").collect()
}

fn is_privileged(reservation: &Value) -> bool {
    reservation["spec"]["containers"][0]["securityContext"]["privileged"] == true
}

#[test]
fn what_worked_before_the_node_became_a_jetson_is_not_kept() {
    // It becomes one while a device is shared, and its reservation runs on.
    let node = || {
        labelled_gpu_node(
            "2",
            &json!({"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "2"}),
        )
    };
    let mut jetson = node();
    jetson["metadata"]["labels"]["kai.scheduler/tegra"] = json!("on");
    let mut running = story(node(), vec![sharing("before", 30_000)]);
    running.later = vec![(30, NODES, jetson.clone()), (40, PODS, sharing("after", 30_000))];
    let (log, objects) = play(running);
    assert_eq!(bound(&objects[PODS]), 2, "{log:#?}");
    let privileged: Vec<bool> =
        reservations(&objects[PODS]).into_iter().map(is_privileged).collect();
    assert_eq!(privileged, [false, true]);
    let ladder = annotation(&objects[NODES][0], "kai.scheduler/reservation-ladder");
    assert_eq!((&ladder["platform"], &ladder["works"]), (&json!("tegra"), &json!("privileged")));

    // It became one unobserved: what stands on it is about something else.
    let remembered = json!({"platform": "standard", "rungs": ["plain"], "works": "plain"});
    jetson["metadata"]["annotations"] =
        json!({"kai.scheduler/reservation-ladder": remembered.to_string()});
    let (_, objects) = play(story(jetson.clone(), vec![sharing("p", 8000)]));
    assert!(is_privileged(reservations(&objects[PODS])[0]));
    // What stands on it about a Jetson counts.
    let remembered = json!({"platform": "tegra", "works": "plain"});
    jetson["metadata"]["annotations"] =
        json!({"kai.scheduler/reservation-ladder": remembered.to_string()});
    let (_, objects) = play(story(jetson, vec![sharing("p", 8000)]));
    assert!(!is_privileged(reservations(&objects[PODS])[0]));
}

#[test]
fn a_node_without_the_runtime_of_the_class_says_so_until_its_devices_are_found() {
    let mut node = labelled_gpu_node("1", &known());
    node["status"]["runtimeHandlers"] = json!([{"name": ""}, {"name": "runc"}]);
    let mut story = story(node, vec![sharing("p", 8000)]);
    story.objects.push((CLASSES, json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"})));
    story.agents = vec![1000, 1]; // the first never reports
    let (log, objects) = play(story);
    assert_eq!(bound(&objects[PODS]), 1, "{log:#?}");
    let first = writes(&log)
        .into_iter()
        .find(|line| line.contains("POST") && line.contains("gpu-reservation"));
    assert!(first.is_some_and(|line| !line.contains("runtimeClassName")), "{log:#?}");
    let said = |reason: &str| times(&writes(&log), reason).first().copied();
    let (missing, found) = (said("RuntimeNotOnNode"), said(r#""reason":"Found""#));
    assert!(missing.is_some() && missing < found, "{log:#?}");
    let conditions = objects[NODES][0]["status"]["conditions"].to_string();
    assert!(conditions.contains("kai.scheduler/GpusFound"), "{conditions}");
}

#[test]
fn what_a_namespace_does_not_allow_is_followed_by_something_else() {
    let mut story = story(labelled_gpu_node("1", &known()), vec![sharing("p", 8000)]);
    story.objects.push((CLASSES, json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"})));
    story.faults = vec![fault("POST", "kai-resource-reservation/pods", 403, 1)];
    let (log, objects) = play(story);
    assert_eq!(bound(&objects[PODS]), 1, "{log:#?}");
    let ladder = annotation(&objects[NODES][0], "kai.scheduler/reservation-ladder");
    assert_eq!(ladder["works"], "plain");
    let given_up = times(&writes(&log), r#"\"failed\":{\"runtime-class\":"#);
    assert!(!given_up.is_empty(), "{log:#?}");
}

#[test]
fn on_nodes_that_are_made_up_reservation_pods_only_sleep_and_others_are_as_ever() {
    let mut made_up = labelled_gpu_node("1", &known());
    made_up["metadata"]["labels"]["run.ai/fake.gpu"] = json!("true");
    let mut real = labelled_gpu_node("1", &known());
    real["metadata"]["name"] = json!("n2");
    let on = |name: &str, node: &str| {
        let mut pod = sharing(name, 30_000);
        pod["spec"]["nodeName"] = json!(null);
        pod["spec"]["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}});
        pod
    };
    let mut story = story(made_up, vec![on("a", "n1"), on("b", "n2")]);
    story.objects.push((NODES, real));
    let (log, objects) = play(story);
    let place = |name: &str| {
        let pod = objects[PODS].iter().find(|pod| pod["metadata"]["name"] == name);
        pod.expect("the pod")["spec"]["nodeName"].clone()
    };
    assert_eq!((place("a"), place("b")), (json!("n1"), json!("n2")), "{log:#?}");
    for reservation in reservations(&objects[PODS]) {
        let container = &reservation["spec"]["containers"][0];
        let sleeps = container["args"] == json!(["sleep", "infinity"]);
        assert_eq!(sleeps, reservation["spec"]["nodeName"] == "n1", "{reservation:#}");
        assert_eq!(container["image"] == "ubuntu", sleeps);
    }
    let ladders =
        objects[NODES].iter().map(|node| annotation(node, "kai.scheduler/reservation-ladder"));
    assert_eq!(
        ladders.map(|ladder| ladder["works"].clone()).collect::<Vec<_>>(),
        [json!(null), json!("plain")]
    );
}

#[test]
fn the_operator_decides_about_cdi_as_long_as_it_is_there() {
    let policy = |enabled: bool| json!({"metadata": {"name": "p", "labels": {"app.kubernetes.io/version": "v25.10.1"}}, "spec": {"cdi": {"enabled": enabled}}});
    let uses_cdi = |setup: &dyn Fn(&mut Story)| {
        // Pods come one after the other, each after something happened to the operator.
        let mut story = story(labelled_gpu_node("1", &known()), vec![sharing("p0", 8000)]);
        story.later = vec![(50, PODS, sharing("p50", 8000)), (100, PODS, sharing("p100", 8000))];
        story.seconds = 150;
        setup(&mut story);
        let (_, objects) = play(story);
        ["p0", "p50", "p100"].map(|name| {
            let ours = |map: &&Value| {
                map["metadata"]["name"]
                    .as_str()
                    .is_some_and(|map| map.starts_with(&format!("{name}-")))
            };
            let mut maps = objects[CONFIG_MAPS].iter().filter(ours);
            let devices = maps.find_map(|map| map["data"]["NVIDIA_VISIBLE_DEVICES"].as_str());
            devices.expect("devices").starts_with("k8s.device-plugin.nvidia.com/gpu=")
        })
    };
    let no_crd = || fault("GET", "clusterpolicies", 404, u32::MAX);
    assert_eq!(uses_cdi(&|story| story.faults = vec![no_crd()]), [false; 3], "there is none");
    assert_eq!(
        uses_cdi(&|story| {
            story.faults = vec![fault("GET", "clusterpolicies", 404, 1)];
            story.later.push((40, POLICIES, policy(true)));
        }),
        [false, true, true],
        "it comes later"
    );
    assert_eq!(
        uses_cdi(&|story| {
            story.objects.push((POLICIES, policy(true)));
            story.later.push((40, POLICIES, policy(false)));
            story.later.push((90, POLICIES, policy(true)));
        }),
        [true, false, true],
        "it is toggled"
    );
    assert_eq!(
        uses_cdi(&|story| {
            story.objects.push((POLICIES, policy(true)));
            story.faults = vec![fault("GET", "clusterpolicies", 403, u32::MAX)];
        }),
        [false; 3],
        "we may not look"
    );
}

#[test]
fn unified_memory_is_given_away_once() {
    // 131072 MiB by label: four of five pods of 30 GiB run. GPU memory is not charged as RAM beside: the pods ask for none.
    let labels = json!({"nvidia.com/gpu.memory": "131072", "nvidia.com/gpu.count": "1"});
    let pods = || ["a", "b", "c", "d", "e"].map(|name| sharing(name, 30_720)).to_vec();
    let mut thor = labelled_gpu_node("100", &labels);
    thor["status"]["nodeInfo"] = json!({"architecture": "arm64", "kernelVersion": "6.8.12-tegra"});
    thor["status"]["capacity"] = json!({"memory": "125772Mi"});
    let (_, objects) = play(story(thor.clone(), pods()));
    assert_eq!(bound(&objects[PODS]), 4);
    let reservation = objects[PODS].iter().find(|pod| pod["metadata"]["namespace"] != "a");
    let container = &reservation.expect("a reservation")["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["privileged"], true);
    // Without labels the memory of the node, less what the system needs.
    thor["metadata"]["labels"] = json!({});
    let (_, objects) = play(story(thor, pods()));
    assert_eq!(bound(&objects[PODS]), 4);
    let shares = annotation(&objects[NODES][0], "kai.scheduler/gpu-shares");
    assert_eq!(shares["GPU-0"]["total_mib"], 123_724, "{shares}");
}

#[test]
fn shares_are_written_on_the_node_every_ten_seconds_at_most() {
    let mut story = story(labelled_gpu_node("100", &known()), vec![sharing("p0", 1000)]);
    story.later = vec![
        (20, PODS, sharing("p20", 1000)),
        (22, PODS, sharing("p22", 1000)),
        (24, PODS, sharing("p24", 1000)),
        (26, PODS, sharing("p26", 1000)),
    ];
    let (log, objects) = play(story);
    let shares = annotation(&objects[NODES][0], "kai.scheduler/gpu-shares");
    let pods = json!({"a/p0": 1000, "a/p20": 1000, "a/p22": 1000, "a/p24": 1000, "a/p26": 1000});
    assert_eq!(shares, json!({"GPU-0": {"total_mib": 32_600, "pods": pods}}));
    let written = times(&writes(&log), "PATCH /api/v1/nodes/n1 ");
    // Seconds are read from a text: 11.002 less 1.002 is a little less than ten.
    assert!(written.windows(2).all(|pair| pair[1] - pair[0] > 9.999), "{written:?}");
    assert!(written.len() <= 5, "{written:?}");
}

#[test]
fn shares_of_pods_that_are_gone_are_removed() {
    let mut story = story(labelled_gpu_node("100", &known()), vec![sharing("p", 1000)]);
    story.gone = vec![(40, "/api/v1/namespaces/a/pods/p")];
    let (_, objects) = play(story);
    let shown = &objects[NODES][0]["metadata"]["annotations"];
    assert!(shown.get("kai.scheduler/gpu-shares").is_none(), "{shown}");
    assert_eq!(objects[PODS].len(), 0);
}

#[test]
fn a_node_that_is_not_understood_says_so_until_it_is() {
    let labels = json!({"nvidia.com/gpu.product": "Strange-SHARED"});
    let mut story = story(labelled_gpu_node("10", &labels), vec![sharing("p", 1000)]);
    let mut labelled = labelled_gpu_node(
        "10",
        &json!({"nvidia.com/gpu.product": "Strange-SHARED", "nvidia.com/gpu.count": "1"}),
    );
    story.later = vec![(30, NODES, labelled.clone())];
    labelled["metadata"]["labels"]["nvidia.com/gpu.memory"] = json!("32600");
    story.later.push((60, NODES, labelled));
    let (log, objects) = play(story);
    let said = |reason: &str| times(&writes(&log), reason).first().copied();
    assert!(said("PhysicalGpuCountUnknown").is_some_and(|at| at < 30.0), "{log:#?}");
    assert!(said("GpuMemoryUnknown").is_some_and(|at| (30.0..60.0).contains(&at)), "{log:#?}");
    let conditions = objects[NODES][0]["status"]["conditions"].as_array().cloned();
    let conditions = conditions.expect("conditions");
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    assert_eq!(ready.expect("it is ready")["status"], "True");
    // Labels that come late take effect at once.
    let binding = times(&writes(&log), "/pods/p/binding");
    assert!(binding.first().is_some_and(|at| (60.0..70.0).contains(at)), "{binding:?}");
}

/// Without a restart, a reservation is given what `Config` says by then.
#[test]
fn what_jetsons_are_given_is_read_from_config_while_running() {
    const CONFIGS: &str = "/apis/kai.scheduler/v1/configs";
    let config = |generation: i64, mode: &str| {
        json!({"apiVersion": "kai.scheduler/v1", "kind": "Config",
            "metadata": {"name": "kai-config", "generation": generation},
            "spec": {"binder": {"resourceReservation": {"tegra": {"mode": mode}}}}})
    };
    let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "spec": {},
        "metadata": {"name": "default", "generation": 1}});
    for (mode, privileged) in [("on", true), ("off", false)] {
        let mut story = story(labelled_gpu_node("1", &known()), Vec::new());
        story.objects.push((CONFIGS, config(1, "auto")));
        story.objects.push(("/apis/kai.scheduler/v1/schedulingshards", shard.clone()));
        story.later = vec![(30, CONFIGS, config(2, mode)), (60, PODS, sharing("late", 8000))];
        story.divided = true;
        let (log, objects) = play(story);
        assert_eq!(bound(&objects[PODS]), 1, "{log:#?}");
        let reservation = objects[PODS].iter().find(|pod| pod["metadata"]["namespace"] != "a");
        let container = &reservation.expect("a reservation")["spec"]["containers"][0];
        assert_eq!(container["securityContext"]["privileged"] == true, privileged, "{container}");
    }
}
