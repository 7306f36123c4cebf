//! How containers get at devices: runtime classes and CDI.

use kai_api::names::node as names;

use super::{ClusterFacts, Expectations};
use crate::check::Check;
use crate::finding::{Finding, Severity};

const CLASS: &str = "nvidia";
/// What `kai run` says of a node without the runtime of the class.
const NOT_ON_NODE: &str = "RuntimeNotOnNode";
/// What the kubelet says of a runtime that containerd does not know.
const UNKNOWN_RUNTIME: &str = "no runtime for ";

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut all = Vec::new();
    let has_gpus =
        facts.nodes.iter().any(|node| node.status.allocatable.contains_key("nvidia.com/gpu"));
    let has_class = facts.runtime_classes.iter().any(|class| class.metadata.name == CLASS);
    if has_gpus && !has_class && facts.was_read("runtimeClasses") {
        all.push(Finding {
            check: Check::RuntimeClass,
            severity: Severity::Warning,
            object: format!("RuntimeClass {CLASS}"),
            message: "it does not exist: pods that share a GPU, and reservation pods, see no device unless every pod runs with NVIDIA's runtime".to_owned(),
            fix: "printf 'apiVersion: node.k8s.io/v1\\nkind: RuntimeClass\\nmetadata: {name: nvidia}\\nhandler: nvidia\\n' | kubectl apply -f -".to_owned(),
        });
    }
    all.extend(facts.events.iter().filter(|event| event.message.contains(UNKNOWN_RUNTIME)).map(
        |event| {
            let object = &event.involved_object;
            let pod = facts.pods.iter().find(|pod| {
                pod.metadata.name == object.name && pod.metadata.namespace == object.namespace
            });
            let node = pod.map_or("NODE", |pod| pod.spec.node_name.as_str());
            let message = format!("its node {node} does not have its runtime: {}", event.message);
            not_on_node(facts, node, format!("Pod {}/{}", object.namespace, object.name), message)
        },
    ));
    all.extend(facts.nodes.iter().filter_map(|node| {
        let mut conditions = node.status.conditions.iter();
        let said = conditions.find(|one| {
            one.kind == names::GPUS_FOUND && one.status == "False" && one.reason == NOT_ON_NODE
        })?;
        let name = &node.metadata.name;
        Some(not_on_node(facts, name, format!("Node {name}"), said.message.clone()))
    }));
    all.extend(cdi(facts, expected));
    all
}

fn not_on_node(facts: &ClusterFacts, node: &str, object: String, message: String) -> Finding {
    let restart = if is_k3s(facts, node) { "k3s" } else { "containerd" };
    let fix = format!(
        "sudo nvidia-ctk runtime configure --runtime=containerd && sudo systemctl restart {restart}  # on {node}"
    );
    Finding { check: Check::RuntimeNotOnNode, severity: Severity::Error, object, message, fix }
}

fn is_k3s(facts: &ClusterFacts, node: &str) -> bool {
    facts.node(node).is_some_and(|node| node.status.node_info.kubelet_version.contains("k3s"))
}

/// A setting says on or off, and the GPU operator does the other.
fn cdi(facts: &ClusterFacts, _: &Expectations) -> Option<Finding> {
    let policy = facts.cluster_policies.first()?;
    let config = facts.configs.first()?;
    let wanted = config.spec.binder.cdi_enabled?;
    let cdi = &policy.spec.cdi;
    let is_on = cdi.enabled && (cdi.default || is_without_default(policy));
    (wanted != is_on).then(|| Finding {
        check: Check::CdiMismatch,
        severity: Severity::Warning,
        object: format!("Config {}", config.metadata.name),
        message: format!(
            "spec.binder.cdiEnabled is {wanted}, but ClusterPolicy {} has CDI {}",
            policy.metadata.name,
            if is_on { "on" } else { "off" }
        ),
        fix: format!(
            "kubectl patch config.kai.scheduler {} --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/binder/cdiEnabled\"}}]'",
            config.metadata.name
        ),
    })
}

/// From v25.10 on the GPU operator has no default of CDI any more.
fn is_without_default(policy: &super::objects::ClusterPolicy) -> bool {
    let version = policy.metadata.labels.get("app.kubernetes.io/version");
    let Some(version) = version.and_then(|text| text.strip_prefix('v')) else { return false };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (25, 10)
}
