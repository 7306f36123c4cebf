//! The control plane starts, knows its accounts, and keeps to the rules of RBAC.

use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kai_testenv::ControlPlane;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

#[tokio::test]
async fn starts_and_denies_unknown_users() {
    let plane = match ControlPlane::start().await.expect("a control plane") {
        Ok(plane) => plane,
        Err(why) => return why.skip("starts_and_denies_unknown_users"),
    };
    let admin = plane.admin().await.expect("a client");
    let version = admin.apiserver_version().await.expect("a version");
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    assert!(namespaces.get("default").await.is_ok());
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, "default");
    let account = serde_json::from_value(serde_json::json!({"metadata": {"name": "an-account"}}))
        .expect("an account");
    accounts.create(&PostParams::default(), &account).await.expect("it is created");
    let file = plane.account_kubeconfig("default", "an-account").await.expect("a kubeconfig");
    let kubeconfig = Kubeconfig::read_from(file).expect("a readable kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a config");
    let stranger = Client::try_from(config).expect("a client");
    let secrets: Api<Secret> = Api::all(stranger);
    match secrets.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => assert!(status.is_forbidden(), "{status:?}"),
        other => panic!("expected to be denied, got {other:?}"),
    }
}
