//! What `OpenShift` needs: `SecurityContextConstraints` for every account, and no fixed user id where they assign one.

use kai_api::json;
use kai_api::names::components::NUMA_PLACEMENT_EXPORTER;
use kai_api::names::objects::{NAMESPACE, RESERVATION, SCALE_ADJUST};
use serde_json::{Value, json};

/// Security context of reservation containers: that of other clusters without the user id.
pub fn reservation_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "runAsNonRoot": true,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// Constraints of the accounts of Deployments, of reservation and scaling pods, and of the NUMA agent.
pub(crate) fn constraints(accounts: &[String], numa_agent: bool, observes: bool) -> Vec<Value> {
    let user =
        |namespace: &str, account: &str| format!("system:serviceaccount:{namespace}:{account}");
    let mut all: Vec<Value> = accounts
        .iter()
        .map(|account| restricted(&format!("kai-{account}"), &user(NAMESPACE, account)))
        .collect();
    let reservation = user(RESERVATION, RESERVATION);
    all.push(if observes {
        observer(RESERVATION, &reservation)
    } else {
        restricted(RESERVATION, &reservation)
    });
    all.push(restricted(SCALE_ADJUST, &user(SCALE_ADJUST, SCALE_ADJUST)));
    if numa_agent {
        let name = NUMA_PLACEMENT_EXPORTER;
        all.push(node_agent(&format!("kai-{name}"), &user(NAMESPACE, name)));
    }
    all
}

/// Volumes of pods that touch nothing of the node.
const OWN_VOLUMES: [&str; 5] = ["configMap", "downwardAPI", "emptyDir", "projected", "secret"];

/// No privileges, and a user id of the namespace's range.
fn restricted(name: &str, user: &str) -> Value {
    object(name, user, "MustRunAsRange", &OWN_VOLUMES)
}

/// Root that sees the processes of the node and what is mapped into them.
fn observer(name: &str, user: &str) -> Value {
    let mut constraints = object(name, user, "RunAsAny", &OWN_VOLUMES);
    json::set(&mut constraints, &["allowHostPID"], json!(true));
    json::set(&mut constraints, &["allowedCapabilities"], json!(["SYS_PTRACE"]));
    constraints
}

/// Root without capabilities, and folders of the node: the kubelet answers to root only.
fn node_agent(name: &str, user: &str) -> Value {
    object(name, user, "RunAsAny", &["configMap", "hostPath", "projected", "secret"])
}

fn object(name: &str, user: &str, run_as: &str, volumes: &[&str]) -> Value {
    json!({
        "apiVersion": "security.openshift.io/v1",
        "kind": "SecurityContextConstraints",
        "metadata": {"name": name},
        "allowHostDirVolumePlugin": volumes.contains(&"hostPath"),
        "allowHostIPC": false,
        "allowHostNetwork": false,
        "allowHostPID": false,
        "allowHostPorts": false,
        "allowPrivilegeEscalation": false,
        "allowPrivilegedContainer": false,
        "allowedCapabilities": null,
        "defaultAddCapabilities": null,
        "requiredDropCapabilities": ["ALL"],
        "readOnlyRootFilesystem": false,
        "fsGroup": {"type": "MustRunAs"},
        "runAsUser": {"type": run_as},
        "seLinuxContext": {"type": "MustRunAs"},
        "supplementalGroups": {"type": "RunAsAny"},
        "seccompProfiles": ["runtime/default"],
        "users": [user],
        "groups": [],
        "volumes": volumes,
    })
}
