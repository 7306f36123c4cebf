//! Single requests and their answers.

use std::sync::Arc;

use kai_embed::Cluster;
use kai_embed::api::{Answer, Request, WatchLine};
use kai_embed::store::Log;
use serde_json::{Value, json};

fn now() -> k8s_openapi::jiff::Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn send(cluster: &mut Cluster, request: &Request) -> (u16, Value) {
    match cluster.request(request, now()) {
        Answer::Object { code, object, .. } => (code, Arc::unwrap_or_clone(object)),
        other => panic!("{other:?}"),
    }
}

fn post(cluster: &mut Cluster, path: &str, object: &Value) -> (u16, Value) {
    send(cluster, &Request::send("POST", path, object))
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn objects_are_made_read_changed_and_deleted() {
    let mut cluster = Cluster::new(1, now());
    let (code, made) =
        post(&mut cluster, CONFIG_MAPS, &json!({"metadata": {"name": "m"}, "data": {"a": "1"}}));
    assert_eq!((code, &made["kind"]), (201, &json!("ConfigMap")));
    assert_eq!(
        post(&mut cluster, CONFIG_MAPS, &json!({"metadata": {"name": "m"}})).1["message"],
        "configmaps \"m\" already exists"
    );
    let path = format!("{CONFIG_MAPS}/m");
    let (_, found) = send(&mut cluster, &Request::get(&path));
    assert_eq!(found, made);
    let mut changed = made.clone();
    changed["data"]["a"] = json!("2");
    let (code, changed) = send(&mut cluster, &Request::send("PUT", &path, &changed));
    assert_eq!((code, &changed["data"]["a"]), (200, &json!("2")));
    let (code, rejected) = send(&mut cluster, &Request::send("PUT", &path, &made));
    assert_eq!((code, &rejected["reason"]), (409, &json!("Conflict")));
    let patch = Request::send("PATCH", &path, &json!({"data": {"b": "3"}}))
        .of_type("application/merge-patch+json");
    assert_eq!(send(&mut cluster, &patch).1["data"], json!({"a": "2", "b": "3"}));
    let wrong = json!({"preconditions": {"uid": "other"}});
    assert_eq!(send(&mut cluster, &Request::send("DELETE", &path, &wrong)).0, 409);
    assert_eq!(
        send(&mut cluster, &Request::send("DELETE", &path, &json!({}))).1["status"],
        "Success"
    );
    let (code, gone) = send(&mut cluster, &Request::get(&path));
    assert_eq!((code, &gone["message"]), (404, &json!("configmaps \"m\" not found")));
    assert_eq!(
        post(
            &mut cluster,
            "/api/v1/namespaces/none/configmaps",
            &json!({"metadata": {"name": "m"}})
        )
        .1["message"],
        "namespaces \"none\" not found"
    );
}

#[test]
fn lists_come_by_the_page_and_show_one_moment() {
    let mut cluster = Cluster::new(1, now());
    for at in 0..5 {
        post(
            &mut cluster,
            CONFIG_MAPS,
            &json!({"metadata": {"name": format!("m{at}"), "labels": {"even": (at % 2 == 0).to_string()}}}),
        );
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().expect("items").iter();
        items.map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (_, first) = send(&mut cluster, &Request::get(&format!("{CONFIG_MAPS}?limit=2")));
    assert_eq!(names(&first), ["m0", "m1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    send(&mut cluster, &Request::send("DELETE", &format!("{CONFIG_MAPS}/m3"), &json!({})));
    let token = first["metadata"]["continue"].as_str().expect("more").replace('/', "%2F");
    let (_, rest) =
        send(&mut cluster, &Request::get(&format!("{CONFIG_MAPS}?limit=9&continue={token}")));
    assert_eq!(names(&rest), ["m2", "m3", "m4"]);
    assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let (_, even) =
        send(&mut cluster, &Request::get(&format!("{CONFIG_MAPS}?labelSelector=even%3Dtrue")));
    assert_eq!(names(&even), ["m0", "m2", "m4"]);
    let (code, _) =
        send(&mut cluster, &Request::get(&format!("{CONFIG_MAPS}?fieldSelector=data.a%3D1")));
    assert_eq!(code, 400);
}

fn lines(cluster: &mut Cluster, path: &str) -> impl FnMut(&Cluster) -> Vec<String> + use<> {
    let Answer::Watch(mut watch) = cluster.request(&Request::get(path), now()) else {
        panic!("no watch")
    };
    move |cluster| {
        let mut lines = Vec::new();
        while let WatchLine::Event(event) = watch.next(cluster, now()) {
            let name = event.object["metadata"]["name"].as_str().unwrap_or_default();
            lines.push(format!("{} {name}", event.kind));
        }
        lines
    }
}

#[test]
fn watches_report_objects_that_start_matching_change_and_stop_matching() {
    let mut cluster = Cluster::new(1, now());
    let version = cluster.version();
    let mut all =
        lines(&mut cluster, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}"));
    let mut red = lines(
        &mut cluster,
        &format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}&labelSelector=colour%3Dred"),
    );
    let put = |cluster: &mut Cluster, colour: &str| {
        let patch = json!({"metadata": {"labels": {"colour": colour}}});
        send(
            cluster,
            &Request::send("PATCH", &format!("{CONFIG_MAPS}/m"), &patch)
                .of_type("application/merge-patch+json"),
        );
    };
    post(&mut cluster, CONFIG_MAPS, &json!({"metadata": {"name": "m"}}));
    put(&mut cluster, "red");
    put(&mut cluster, "red");
    put(&mut cluster, "blue");
    send(&mut cluster, &Request::send("DELETE", &format!("{CONFIG_MAPS}/m"), &json!({})));
    assert_eq!(all(&cluster), ["ADDED m", "MODIFIED m", "MODIFIED m", "DELETED m"]);
    assert_eq!(red(&cluster), ["ADDED m", "DELETED m"]);
    let mut initial = lines(
        &mut cluster,
        "/api/v1/namespaces?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
    );
    assert_eq!(
        initial(&cluster),
        [
            "ADDED default",
            "ADDED kube-node-lease",
            "ADDED kube-public",
            "ADDED kube-system",
            "BOOKMARK "
        ]
    );
}

#[test]
fn watch_from_an_expired_version_is_rejected() {
    let mut cluster = Cluster::new(1, now());
    post(&mut cluster, CONFIG_MAPS, &json!({"metadata": {"name": "m"}}));
    for at in 0..Log::CAPACITY {
        let patch = json!({"data": {"a": at.to_string()}});
        send(
            &mut cluster,
            &Request::send("PATCH", &format!("{CONFIG_MAPS}/m"), &patch)
                .of_type("application/merge-patch+json"),
        );
    }
    let mut old = lines(&mut cluster, &format!("{CONFIG_MAPS}?watch=true&resourceVersion=1"));
    assert_eq!(old(&cluster), ["ERROR "]);
}

#[test]
fn dependents_are_deleted_with_their_owner_and_objects_with_their_namespace() {
    let mut cluster = Cluster::new(1, now());
    let (_, owner) = post(&mut cluster, CONFIG_MAPS, &json!({"metadata": {"name": "owner"}}));
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    post(
        &mut cluster,
        CONFIG_MAPS,
        &json!({"metadata": {"name": "owned", "ownerReferences": reference}}),
    );
    post(
        &mut cluster,
        CONFIG_MAPS,
        &json!({"metadata": {"name": "held", "finalizers": ["a.b/c"]}}),
    );
    send(&mut cluster, &Request::send("DELETE", &format!("{CONFIG_MAPS}/owner"), &json!({})));
    assert_eq!(send(&mut cluster, &Request::get(&format!("{CONFIG_MAPS}/owned"))).0, 404);
    let (_, going) =
        send(&mut cluster, &Request::send("DELETE", "/api/v1/namespaces/default", &json!({})));
    assert_eq!(going["status"]["phase"], "Terminating");
    let (code, held) = send(&mut cluster, &Request::get(&format!("{CONFIG_MAPS}/held")));
    assert_eq!(code, 200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let patch = Request::send(
        "PATCH",
        &format!("{CONFIG_MAPS}/held"),
        &json!({"metadata": {"finalizers": null}}),
    );
    send(&mut cluster, &patch.of_type("application/merge-patch+json"));
    assert_eq!(send(&mut cluster, &Request::get("/api/v1/namespaces/default")).0, 404);
}

#[test]
fn appliers_own_what_they_apply() {
    let mut cluster = Cluster::new(1, now());
    let apply = |cluster: &mut Cluster, manager: &str, data: Value, force: bool| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        let path = format!("{CONFIG_MAPS}/m?fieldManager={manager}&force={force}");
        send(
            cluster,
            &Request::send("PATCH", &path, &object).of_type("application/apply-patch+yaml"),
        )
    };
    assert_eq!(apply(&mut cluster, "one", json!({"a": "1", "b": "1"}), false).0, 201);
    let (code, conflict) = apply(&mut cluster, "two", json!({"b": "2", "c": "2"}), false);
    assert_eq!(
        (code, &conflict["message"]),
        (409, &json!("Apply failed with 1 conflict: conflict with \"one\" using v1: .data.b"))
    );
    let (_, both) = apply(&mut cluster, "two", json!({"b": "2", "c": "2"}), true);
    assert_eq!(both["data"], json!({"a": "1", "b": "2", "c": "2"}));
    let version = cluster.version();
    apply(&mut cluster, "two", json!({"b": "2", "c": "2"}), true);
    assert_eq!(cluster.version(), version, "nothing changed");
    let (_, fewer) = apply(&mut cluster, "one", json!({}), false);
    assert_eq!(fewer["data"], json!({"b": "2", "c": "2"}));
}

#[test]
fn only_pods_have_no_managers_where_those_of_pods_are_skipped() {
    let mut cluster = Cluster::new(1, now());
    cluster.skip_managers_of_pods();
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (code, made) = post(&mut cluster, "/api/v1/namespaces/default/pods", &pod);
    assert_eq!((code, &made["metadata"]["managedFields"]), (201, &Value::Null), "{made}");
    let status = json!({"status": {"phase": "Running"}});
    let path = "/api/v1/namespaces/default/pods/p/status";
    let patch =
        Request::send("PATCH", path, &status).of_type("application/strategic-merge-patch+json");
    let (code, running) = send(&mut cluster, &patch);
    assert_eq!((code, &running["status"]["phase"]), (200, &json!("Running")), "{running}");
    assert_eq!(running["metadata"]["managedFields"], Value::Null);
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "1"}});
    let (_, map) = post(&mut cluster, CONFIG_MAPS, &map);
    assert!(map["metadata"]["managedFields"].is_array(), "{map}");
}
