//! Attacks of a tenant who may write pods, pod groups and claims of one namespace: names, sizes and annotations that other
//! people's workloads must not notice.

use serde_json::{Value, json};

use crate::virtual_time::{Story, play, requests_of};
use crate::{node, pod, queue, times, writes};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";
const JOBS: &str = "/apis/batch/v1/jobs";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

fn owned(mut pod: Value, api_version: &str, kind: &str, name: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": "uid-owner", "controller": true}]);
    pod
}

#[test]
fn owners_named_like_queries_hold_no_permits() {
    let attack = |number: usize| match number % 3 {
        0 => owned(pod(&format!("x{number}"), "1"), "v1", "Pod", "?watch=true"),
        1 => owned(pod(&format!("x{number}"), "1"), "v1", "Pod", ""),
        _ => owned(pod(&format!("x{number}"), "1"), "batch/v1?watch=true", "Job", "j"),
    };
    let mut objects: Vec<(&str, Value)> = (0..48).map(|number| (PODS, attack(number))).collect();
    objects.push((NODES, node("n1", "4")));
    objects.push((QUEUES, queue()));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "a", "uid": "uid-owner"}, "spec": {}});
    objects.push((JOBS, job));
    let later = vec![(20, PODS, owned(pod("honest", "1"), "batch/v1", "Job", "j"))];
    let log = requests_of(Story { objects, later, seconds: 60, ..Story::default() });
    let bound = times(&writes(&log), "pods/honest/binding");
    assert!(matches!(bound[..], [at] if at < 22.0), "{bound:?} {:#?}", writes(&log));
    let hostile: Vec<&String> =
        log.iter().filter(|line| line.contains("pods/?") || line.contains("v1?watch")).collect();
    assert_eq!(hostile, Vec::<&String>::new());
}

/// A pod of the namespace `b`, whose author names the owner of another namespace.
fn thief(name: &str, owner: &str) -> Value {
    let mut pod = owned(pod(name, "1"), "batch/v1", "Job", owner);
    pod["metadata"]["namespace"] = json!("b");
    pod
}

fn job(namespace: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace, "uid": uid}, "spec": {}})
}

#[test]
fn an_owner_with_the_uid_of_another_holds_no_pod_of_that_up() {
    let mut objects: Vec<(&str, Value)> =
        (0..48).map(|number| (PODS, thief(&format!("x{number}"), "mine"))).collect();
    objects.extend([(NODES, node("n1", "4")), (QUEUES, queue())]);
    objects.extend([(JOBS, job("a", "j", "uid-owner")), (JOBS, job("b", "mine", "uid-mine"))]);
    // Attempts are repeated ever more seldom: more pods of the attacker come with the honest one.
    let mut later: Vec<(u64, &str, Value)> =
        (0..16).map(|number| (20, PODS, thief(&format!("y{number}"), "mine"))).collect();
    later.push((20, PODS, owned(pod("honest", "1"), "batch/v1", "Job", "j")));
    let log = requests_of(Story { objects, later, seconds: 60, ..Story::default() });
    let bound = times(&writes(&log), "pods/honest/binding");
    assert!(matches!(bound[..], [at] if at < 22.0), "{bound:?} {:#?}", writes(&log));
}

#[test]
fn an_owner_of_another_namespace_is_not_taken_over() {
    let objects =
        vec![(NODES, node("n1", "4")), (QUEUES, queue()), (JOBS, job("a", "j", "uid-owner"))];
    let later = vec![
        (20, PODS, owned(pod("honest", "1"), "batch/v1", "Job", "j")),
        (21, PODS, thief("thief", "j")),
    ];
    let log = requests_of(Story { objects, later, seconds: 60, ..Story::default() });
    let writes = writes(&log);
    assert_eq!(times(&writes, "pods/honest/binding").len(), 1, "{writes:#?}");
    assert_eq!(times(&writes, "pods/thief/binding"), Vec::<f64>::new(), "{writes:#?}");
    assert!(!writes.iter().any(|line| line.contains("namespaces/b/podgroups")), "{writes:#?}");
}

fn sharing(name: &str, config_maps: &str) -> Value {
    let mut pod = pod(name, "1");
    pod["metadata"]["annotations"] =
        json!({"gpu-fraction": "0.5", "runai/shared-gpu-configmap": config_maps});
    // As admission completes it: maps to which the pod does not refer are not written.
    pod["spec"]["containers"][0]["envFrom"] =
        json!([{"configMapRef": {"name": format!("{config_maps}-0-evar")}}]);
    pod["spec"]["volumes"] =
        json!([{"name": "shared", "configMap": {"name": format!("{config_maps}-0")}}]);
    pod
}

#[test]
fn config_maps_that_the_pod_does_not_own_stay_as_they_are() {
    let mut gpus = node("n1", "8");
    gpus["metadata"]["labels"] =
        json!({"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "1"});
    gpus["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    let map = |name: &str, owners: &[(&str, &str)]| {
        let owners =
            owners.iter().map(|(kind, name)| json!({"kind": kind, "name": name, "uid": "another"}));
        let metadata = json!({"name": name, "namespace": "a", "uid": format!("uid-{name}"), "ownerReferences": owners.collect::<Vec<_>>()});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "value"}})
    };
    let of_others = [("Pod", "hostile"), ("Service", "hostile")];
    let maps = || {
        let names = ["important", "important-0", "important-0-evar"];
        [map(names[0], &[]), map(names[1], &[("Pod", "p")]), map(names[2], &of_others)]
    };
    for prefix in ["important", "important?x=", "../b/configmaps/important"] {
        let mut objects =
            vec![(NODES, gpus.clone()), (QUEUES, queue()), (PODS, sharing("hostile", prefix))];
        objects.extend(maps().map(|map| (CONFIG_MAPS, map)));
        let story = Story { objects, agents: vec![1], seconds: 120, ..Story::default() };
        let (log, objects) = play(story);
        let data: Vec<&Value> = objects[CONFIG_MAPS].iter().map(|map| &map["data"]).collect();
        assert_eq!(data, [&json!({"key": "value"}); 3], "{prefix}: {:#?}", writes(&log));
        let touched: Vec<&str> = writes(&log)
            .into_iter()
            .filter(|line| line.contains("/api/v1/namespaces/a/configmaps/"))
            .collect();
        assert_eq!(touched, Vec::<&str>::new());
        let failed = writes(&log).into_iter().any(|line| line.contains("config map"));
        assert!(failed, "the bind request says why: {:#?}", writes(&log));
    }
}

#[test]
fn a_queue_denies_namespaces_and_priority_classes_that_it_does_not_name() {
    let closed = |key: &str, value: &str| {
        let mut queue = queue();
        queue["metadata"]["annotations"] = json!({key: value});
        queue
    };
    let mut hasty = pod("hostile", "1");
    hasty["spec"]["priorityClassName"] = json!("inference");
    let class = json!({"metadata": {"name": "inference"}, "value": 75});
    let denied = [
        (closed("kai.scheduler/allowed-namespaces", "b,c"), "denies namespace a"),
        (closed("kai.scheduler/allowed-namespace-selector", "team=b"), "denies namespace a"),
        (
            closed("kai.scheduler/allowed-priority-classes", "train"),
            "denies priority class inference",
        ),
    ];
    for (queue, why) in denied {
        let objects = vec![
            (NODES, node("n1", "4")),
            (QUEUES, queue),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", class.clone()),
            (PODS, hasty.clone()),
        ];
        let log = requests_of(Story { objects, seconds: 60, ..Story::default() });
        let writes = writes(&log);
        assert_eq!(times(&writes, "/binding"), Vec::<f64>::new(), "{writes:#?}");
        assert!(writes.iter().any(|line| line.contains(why)), "{why}: {writes:#?}");
    }
    let open = [
        closed("kai.scheduler/allowed-namespaces", "a"),
        closed("kai.scheduler/allowed-priority-classes", "inference"),
    ];
    for queue in open {
        let objects = vec![
            (NODES, node("n1", "4")),
            (QUEUES, queue),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", class.clone()),
            (PODS, hasty.clone()),
        ];
        let log = requests_of(Story { objects, seconds: 60, ..Story::default() });
        assert_eq!(times(&writes(&log), "/binding").len(), 1, "{log:#?}");
    }
}

const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/resourceclaims";

/// A pod with a claim whose selector is this expression, and what it needs.
fn claiming(expression: &str) -> Vec<(&'static str, Value)> {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}});
    let pool = json!({"name": "n1", "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "d0"}]});
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec});
    let selectors = json!([{"cel": {"expression": expression}}]);
    let requests =
        json!([{"name": "one", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}]);
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "a", "uid": "uid-c"}, "spec": {"devices": {"requests": requests}}});
    let mut pod = pod("p", "1");
    pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": "c"}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "device"}]);
    vec![
        (NODES, node("n1", "4")),
        (QUEUES, queue()),
        (CLASSES, class),
        (SLICES, slice),
        (CLAIMS, claim),
        (PODS, pod),
    ]
}

#[test]
fn claim_whose_selector_costs_too_much_or_nests_too_deeply_says_so() {
    let list = "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]";
    let expensive =
        (0..8).fold("true".to_owned(), |inner, level| format!("{list}.all(x{level}, {inner})"));
    let deep = format!("{}true{}", "(".repeat(300), ")".repeat(300));
    for (expression, why) in [(expensive, "exceeds the cost limit"), (deep, "nests deeper than")] {
        let log =
            requests_of(Story { objects: claiming(&expression), seconds: 60, ..Story::default() });
        let writes = writes(&log);
        let events: Vec<&&str> =
            writes.iter().filter(|line| line.contains("DeviceSelectorRejected")).collect();
        assert_eq!(events.len(), 1, "one event: {writes:#?}");
        assert!(events[0].contains(r#""kind":"ResourceClaim""#), "{events:?}");
        assert!(events[0].contains("spec.devices.requests[0]"), "{events:?}");
        assert!(events[0].contains(why), "{events:?}");
        let named = writes.iter().any(|line| {
            line.contains("pods/p/status")
                && line.contains("ResourceClaim a/c")
                && line.contains(why)
        });
        assert!(named, "the pod names the claim: {writes:#?}");
    }
    let fine = requests_of(Story { objects: claiming("true"), seconds: 60, ..Story::default() });
    assert!(!fine.iter().any(|line| line.contains("DeviceSelectorRejected")), "{fine:#?}");
}

/// Pods that no plan should be delayed by, with what is said of each.
fn greedy_pods() -> [(Value, &'static str); 3] {
    let greedy = |name: &str| pod(name, "1");
    let mut resources = greedy("resources");
    for number in 0..1000 {
        let requests = &mut resources["spec"]["containers"][0]["resources"]["requests"];
        requests[format!("example.com/r{number}")] = json!("1");
    }
    let expression =
        |key: &str, value: String| json!({"key": key, "operator": "In", "values": [value]});
    let term = |number: usize| json!({"matchExpressions": [expression("kubernetes.io/hostname", format!("v{number}"))]});
    let terms: Vec<Value> = (0..600).map(term).collect();
    let mut nodes = greedy("nodes");
    nodes["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": terms});
    let away = |number: usize| json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"x": format!("v{number}")}}});
    let mut pods = greedy("pods");
    pods["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        (0..600).map(away).collect();
    [
        (
            resources,
            "spec.containers: the pod requests 1000 different resources, at most 64 are supported",
        ),
        (
            nodes,
            "spec.affinity.nodeAffinity: has 1200 terms and expressions, at most 1000 are supported",
        ),
        (
            pods,
            "spec.affinity.podAffinity: has 1200 terms and expressions, at most 1000 are supported",
        ),
    ]
}

#[test]
fn pods_with_too_many_resources_or_expressions_say_so_and_delay_no_other() {
    let mut objects = vec![(NODES, node("n1", "4")), (QUEUES, queue())];
    objects.extend(greedy_pods().map(|(pod, _)| (PODS, pod)));
    objects.push((PODS, pod("honest", "1")));
    let log = requests_of(Story { objects, seconds: 60, ..Story::default() });
    let writes = writes(&log);
    assert_eq!(times(&writes, "pods/honest/binding").len(), 1, "{writes:#?}");
    for (pod, said) in greedy_pods() {
        let name = format!(r#""name":{}"#, pod["metadata"]["name"]);
        let is_said = writes.iter().any(|line| line.contains(&name) && line.contains(said));
        assert!(is_said, "{said}: {writes:#?}");
    }
}
