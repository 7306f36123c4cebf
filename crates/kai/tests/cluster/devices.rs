//! Devices are claimed in whichever version of `resource.k8s.io` the server has. `KAI_TEST_APISERVER` turns versions off.

use serde_json::{Value, json};

use crate::world::World;
use crate::{QUEUE, open};

const GROUP: &str = "/apis/resource.k8s.io";

/// The newest version that is served and that we speak.
async fn served(world: &World) -> Option<&'static str> {
    let group = world.get(GROUP).await?;
    let versions = group["versions"].as_array().expect("versions");
    let has = |name: &str| versions.iter().any(|version| version["version"] == name);
    ["v1", "v1beta2", "v1beta1"].into_iter().find(|name| has(name))
}

/// A device and a request, as the version has them.
fn shapes(version: &str) -> (Value, Value) {
    let attributes = json!({"model": {"string": "a"}});
    let asked = json!({"deviceClassName": "versions.example.com", "selectors": [{"cel": {"expression": "device.attributes['versions.example.com'].model == 'a'"}}]});
    if version == "v1beta1" {
        let mut request = asked;
        request["name"] = json!("one");
        return (json!({"name": "d0", "basic": {"attributes": attributes}}), request);
    }
    (json!({"name": "d0", "attributes": attributes}), json!({"name": "one", "exactly": asked}))
}

#[tokio::test]
async fn devices_are_claimed_in_the_version_that_the_server_has() {
    let Some(mut world) = World::new("versions").await else { return };
    let Some(version) = served(&world).await else {
        eprintln!("SKIPPED: the server has no version of resource.k8s.io that we speak");
        return;
    };
    let (device, request) = shapes(version);
    let api = format!("{GROUP}/{version}");
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": kind, "metadata": {"name": name}, "spec": spec});
    world
        .create(
            &format!("{api}/deviceclasses"),
            &object("DeviceClass", "versions.example.com", json!({})),
        )
        .await;
    let slice = json!({"driver": "versions.example.com", "nodeName": "versions-n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [device]});
    world
        .create(&format!("{api}/resourceslices"), &object("ResourceSlice", "versions", slice))
        .await;
    let claims = format!("{api}/namespaces/versions/resourceclaims");
    let claim = object("ResourceClaim", "c", json!({"devices": {"requests": [request]}}));
    world.create(&claims, &claim).await;
    world.queue("q", open(), open()).await;
    world.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"})).await;
    world.start_kai("kai", &[]).await;
    let queue = world.queue_name("q");
    let mut pod = world.pod("p", &[(QUEUE, &queue)], &json!({"cpu": "1"}));
    pod["spec"]["resourceClaims"] = json!([{"name": "device", "resourceClaimName": "c"}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "device"}]);
    world.create_pod(&pod).await;
    assert_eq!(world.wait_bound("p").await, "versions-n");
    let claim = world.get(&format!("{claims}/c")).await.expect("the claim");
    assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "d0", "{claim}");
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "p", "{claim}");
}
