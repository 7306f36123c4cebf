//! Which processes apply their definitions of custom resources.

use kai_api::crds::CRDS;
use kai_control::bootstrap::{self, Bootstrap};
use serde_json::json;
use tokio::time::Instant;

use crate::api::Fault;
use crate::fault;
use crate::virtual_time::{client, env, in_virtual_time, new_api};

const DEFINITIONS: &str = "PATCH /apis/apiextensions.k8s.io/v1/customresourcedefinitions/";

/// How many definitions a process with this image applies where the Deployment asks for `wanted`.
fn applied(image: Option<&str>, wanted: Option<&str>, faults: Vec<Fault>) -> usize {
    in_virtual_time(async {
        let begin = Instant::now();
        let api = new_api(begin, faults);
        if let Some(wanted) = wanted {
            let sidecar = json!({"image": "proxy:3"});
            let containers = json!([{"image": wanted}, sidecar]);
            let deployment = json!({
                "metadata": {"name": "scheduler", "namespace": "kai-scheduler"},
                "spec": {"template": {"spec": {"containers": containers}}},
            });
            api.set("/apis/apps/v1/deployments", deployment);
        }
        let bootstrap = Bootstrap {
            upgrade_crds: true,
            namespace: "kai-scheduler".to_owned(),
            image: image.map(str::to_owned),
            queues: Vec::new(),
        };
        bootstrap::run(client(&api), env(begin), bootstrap).await;
        api.log().iter().filter(|line| line.contains(DEFINITIONS)).count()
    })
}

#[test]
fn replica_that_a_roll_out_replaces_applies_no_definitions() {
    assert_eq!(applied(Some("kai:1"), Some("kai:2"), Vec::new()), 0);
}

#[test]
fn version_that_the_deployment_asks_for_applies_its_definitions() {
    assert_eq!(applied(Some("kai:1"), Some("kai:1"), Vec::new()), CRDS.len());
    assert_eq!(applied(Some("kai:1"), None, Vec::new()), CRDS.len(), "no Deployment");
    assert_eq!(applied(None, Some("kai:2"), Vec::new()), CRDS.len(), "started by hand");
}

#[test]
fn deployment_that_cannot_be_read_now_is_read_again() {
    let busy = vec![fault("GET", "/deployments/scheduler", 503, 2)];
    assert_eq!(applied(Some("kai:1"), Some("kai:2"), busy), 0);
    let forbidden = vec![fault("GET", "/deployments/scheduler", 403, u32::MAX)];
    assert_eq!(applied(Some("kai:1"), Some("kai:2"), forbidden), CRDS.len(), "older roles");
}
