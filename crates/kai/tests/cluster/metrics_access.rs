//! Metrics that only some accounts may read, by the rights that a real API server knows.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::encrypted::{connect, get, trusting};
use crate::served::{ask, free_port};
use crate::world::World;

/// Name of the certificate.
const NAME: &str = "scheduler.kai-scheduler.svc";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

impl World {
    /// The token of a new account of our namespace.
    async fn new_token(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.name);
        self.create(&path, &json!({"metadata": {"name": account}})).await;
        let kubeconfig = self.account_kubeconfig(self.name, account).await;
        let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let kubeconfig: Value = serde_json::from_str(&text).expect("JSON");
        kubeconfig["users"][0]["user"]["token"].as_str().expect("a token").to_owned()
    }

    /// A client that trusts the authority of metrics, once there is one.
    async fn metrics_client(&self) -> Arc<ClientConfig> {
        let path = "/api/v1/namespaces/kai-scheduler/secrets/kai-metrics-tls-secret";
        let mut authority = String::new();
        self.wait("metrics have a certificate", async || {
            let secret = self.get(path).await.unwrap_or_default();
            secret["data"]["ca.crt"].as_str().unwrap_or_default().clone_into(&mut authority);
            !authority.is_empty()
        })
        .await;
        trusting(&authority)
    }
}

#[tokio::test]
async fn metrics_are_read_by_accounts_with_the_right_only() {
    let Some(mut world) = World::new("readers").await else { return };
    let rights = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/metrics-authentication.yaml")
        .display()
        .to_string();
    world.kubectl(&["apply", "-f", &rights]);
    let [port, probes] = [free_port(), free_port()];
    let arguments = [
        "--metrics-authentication".to_owned(),
        format!("--listen-address=127.0.0.1:{port}"),
        format!("--health-probe-bind-address=127.0.0.1:{probes}"),
    ];
    world.start_kai("kai", &arguments.each_ref().map(String::as_str)).await;
    let client = world.metrics_client().await;
    let ready = async || ask(probes, "GET", "/readyz", "").is_some_and(|(code, _)| code == 200);
    world.wait("it is ready, in clear text", ready).await;
    let read = |token: Option<&str>| {
        let header = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        get(connect(&client, NAME, port)?, "/metrics", &header.unwrap_or_default())
    };
    let code = |token: Option<&str>| read(token).map(|(code, _)| code);
    assert_eq!(code(None), Some(401));
    assert_eq!(code(Some("forged")), Some(401));
    let stranger = world.new_token("stranger").await;
    let (forbidden, why) = read(Some(&stranger)).expect("an answer");
    assert_eq!(forbidden, 403);
    assert!(why.contains("may not get /metrics"), "{why}");
    let prometheus = world.new_token("prometheus").await;
    let binding = json!({
        "metadata": {"name": "readers-prometheus"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kai-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": world.name}],
    });
    world.create(RBAC, &binding).await;
    let may_read = world.kubectl_command(&[
        "auth",
        "can-i",
        "get",
        "/metrics",
        "--as",
        "system:serviceaccount:readers:prometheus",
    ]);
    let may_read = std::cell::RefCell::new(may_read);
    world
        .wait("the API server knows the right", async || {
            may_read.borrow_mut().output().is_ok_and(|output| output.status.success())
        })
        .await;
    let (allowed, page) = read(Some(&prometheus)).expect("an answer");
    assert_eq!(allowed, 200, "{page}");
    assert!(page.contains("kai_"), "{page}");
    assert_eq!(code(Some(&stranger)), Some(403), "the right is that of one account");
    let plain = ask(port, "GET", "/metrics", "").map(|(code, _)| code);
    assert_ne!(plain, Some(200), "nothing is served in clear text");
}
