//! Devices on a server that has `resource.k8s.io` in an older version only.

use serde_json::{Value, json};

use crate::installation::plane_with;
use crate::world::World;
use crate::{QUEUE, open};

const VERSIONS: &str = "--runtime-config=resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true";
const API: &str = "/apis/resource.k8s.io/v1beta1";
const DRIVER: &str = "versions.example.com";

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn devices_are_claimed_in_the_version_that_the_server_has() {
    let Ok(plane) = plane_with(&[VERSIONS]).await.map_err(|why| why.skip("versions")) else {
        return;
    };
    let mut world = World::on(plane, "versions", None).await;
    let class = object("DeviceClass", DRIVER, &json!({}));
    world.create(&format!("{API}/deviceclasses"), &class).await;
    let device = |name: &str, model: &str| json!({"name": name, "basic": {"attributes": {"model": {"string": model}}}});
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let slice = json!({"driver": DRIVER, "nodeName": "versions-n", "pool": pool, "devices": [device("d0", "a"), device("d1", "b")]});
    let slice = object("ResourceSlice", "versions", &slice);
    world.create(&format!("{API}/resourceslices"), &slice).await;
    let selector =
        json!({"cel": {"expression": format!("device.attributes['{DRIVER}'].model == 'b'")}});
    let request = json!({"name": "one", "deviceClassName": DRIVER, "selectors": [selector]});
    let claims = format!("{API}/namespaces/versions/resourceclaims");
    let claim = object("ResourceClaim", "c", &json!({"devices": {"requests": [request]}}));
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
    assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["device"], "d1", "{claim}");
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "p", "{claim}");
}
