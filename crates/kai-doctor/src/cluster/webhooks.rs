//! Webhooks: pods that want a share are completed by one when they are made.

use kai_api::names::{admission, gpu};

use super::objects::{Pod, ServiceRef, Webhook, WebhookConfiguration};
use super::{ClusterFacts, Expectations, is_live, wants_share};
use crate::check::Check;
use crate::finding::{Finding, Severity};

const OURS: [&str; 4] = [
    admission::MUTATING_PODS,
    admission::VALIDATING_PODS,
    admission::VALIDATING_QUEUES,
    admission::VALIDATING_POD_GROUPS,
];
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

pub(super) fn findings(facts: &ClusterFacts, expected: &Expectations) -> Vec<Finding> {
    let mut all = Vec::new();
    let registered = facts.mutating.iter().any(|one| one.metadata.name == admission::MUTATING_PODS);
    if !registered && facts.was_read("mutating") {
        all.push(Finding {
            check: Check::WebhookMissing,
            severity: Severity::Error,
            object: format!("MutatingWebhookConfiguration {}", admission::MUTATING_PODS),
            message: "it does not exist: pods that request a GPU share are not completed and see no device".to_owned(),
            fix: "kai run --only admission --gpu-sharing-enabled  # or admission beside the others; it registers itself".to_owned(),
        });
    }
    let configurations = facts.mutating.iter().chain(&facts.validating);
    for configuration in configurations.filter(|one| OURS.contains(&one.metadata.name.as_str())) {
        all.extend(of_configuration(facts, configuration, expected));
    }
    let waiting = facts.pods.iter().filter(|pod| is_ours(pod, expected));
    all.extend(waiting.filter_map(not_admitted));
    all
}

fn is_ours(pod: &Pod, expected: &Expectations) -> bool {
    pod.spec.scheduler_name == expected.scheduler_name && is_live(pod)
}

fn of_configuration(
    facts: &ClusterFacts,
    configuration: &WebhookConfiguration,
    expected: &Expectations,
) -> Vec<Finding> {
    let mut all = Vec::new();
    let name = &configuration.metadata.name;
    let finding = |check: Check, message: String| Finding {
        check,
        severity: Severity::Error,
        object: format!("WebhookConfiguration {name}"),
        message,
        fix: restart(facts, expected),
    };
    let lacks_bundle = |webhook: &Webhook| {
        // Without one, the API server trusts the authorities of its own host, which sign no certificates of Services.
        webhook.client_config.ca_bundle.is_empty() && webhook.client_config.service.is_some()
    };
    if configuration.webhooks.iter().any(lacks_bundle) {
        let message =
            "the caBundle is empty, so the API server rejects the webhook's certificate".to_owned();
        all.push(finding(Check::WebhookCertificate, message));
    }
    let services =
        configuration.webhooks.iter().filter_map(|one| one.client_config.service.as_ref());
    let dead = services.into_iter().find(|service| !answers(facts, service));
    let dead = dead.filter(|_| facts.was_read("endpointSlices"));
    if let Some(ServiceRef { namespace, name }) = dead {
        let message = format!(
            "the service {namespace}/{name} has no ready endpoint, so the API server rejects pods of this scheduler"
        );
        all.push(finding(Check::WebhookUnreachable, message));
    }
    all
}

/// Restarts admission where it runs as a Deployment, and starts it where it does not.
fn restart(facts: &ClusterFacts, expected: &Expectations) -> String {
    let (namespace, name) = (&expected.namespace, kai_api::names::components::ADMISSION);
    let is_deployed = facts.deployments.iter().any(|deployment| {
        deployment.metadata.name == name && deployment.metadata.namespace == *namespace
    });
    if is_deployed || !facts.was_read("deployments") {
        format!("kubectl --namespace {namespace} rollout restart deployment {name}")
    } else {
        "kai run --only admission --gpu-sharing-enabled  # it registers itself".to_owned()
    }
}

fn answers(facts: &ClusterFacts, service: &ServiceRef) -> bool {
    let slices = facts.endpoint_slices.iter().filter(|slice| {
        slice.metadata.namespace == service.namespace
            && slice.metadata.labels.get(SERVICE_LABEL) == Some(&service.name)
    });
    let mut endpoints = slices.flat_map(|slice| &slice.endpoints);
    endpoints.any(|endpoint| endpoint.conditions.ready != Some(false))
}

fn not_admitted(pod: &Pod) -> Option<Finding> {
    let complete = pod.metadata.annotations.contains_key(gpu::SHARED_CONFIG_MAP);
    (wants_share(pod) && !complete).then(|| {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        Finding {
            check: Check::FractionNotAdmitted,
            severity: Severity::Error,
            object: format!("Pod {}", pod.metadata.path()),
            message: "it requests a GPU share and was created while no webhook completed it: its container will see no device".to_owned(),
            fix: format!(
                "kubectl get pod --namespace {namespace} {name} -o yaml | kubectl replace --force -f -  # or let its owner create it again"
            ),
        }
    })
}
