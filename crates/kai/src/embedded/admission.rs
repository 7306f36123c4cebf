//! Our webhooks on an embedded cluster: registered as after an install, answered in this process.

use anyhow::Context;
use kai_admission::{guard, registration, review};
use kai_api::Queue;
use kai_api::names::admission as paths;
use kai_api::names::guard::ENFORCEMENT;
use kai_embed::admission::{Question, Webhooks};
use kai_embed::{Cluster, Key};
use kai_settings::admission::{AdmissionSettings, GuardRules, PodRules};
use serde::Deserialize;

/// The address under which webhooks are registered. No such host exists: calls do not leave the process, and there is no
/// Service that an endpoint could be missing of.
const ADDRESS: &str = "https://kai.invalid";

/// How admission is set up in an install in which pods may share GPUs.
pub(super) fn usual() -> AdmissionSettings {
    let guard = GuardRules { image: Some("kai".to_owned()), ..GuardRules::OFF };
    AdmissionSettings {
        pods: PodRules { gpu_sharing: true, guard, ..PodRules::default() },
        url: Some(ADDRESS.to_owned()),
        ..AdmissionSettings::default()
    }
}

/// Answers for the webhooks from now on, and registers them; earlier registrations are replaced.
pub(super) fn start(cluster: &mut Cluster, settings: &AdmissionSettings) -> anyhow::Result<()> {
    let (scheduler, pods) = (settings.scheduler_name.clone(), settings.pods.clone());
    let queue_rules = settings.queue_rules;
    cluster.set_webhooks(Webhooks::new(move |question, cluster| {
        let queues: Option<Vec<Queue>> = (question.path == paths::VALIDATE_QUEUE_PATH).then(|| {
            let all = cluster.list(("scheduling.run.ai", "queues"));
            all.filter_map(|one| Queue::deserialize(&**one).ok()).collect()
        });
        let queues = queues.as_deref();
        let asked = review::Review::of(subject(question));
        let label = asked.namespace_to_read(&pods).and_then(|name| {
            let found = cluster.get(("", "namespaces"), &Key::new("", name))?;
            found["metadata"]["labels"][ENFORCEMENT].as_str().map(str::to_owned)
        });
        let rules = guard::narrow(&pods, label.as_deref());
        let known = review::Known { scheduler: &scheduler, rules: &rules, queues, queue_rules };
        review::answer(question.path, &asked, &known)
    }));
    // Webhooks are not called over a network, so no certificate is needed.
    for (_, configuration) in registration::configurations(settings, None) {
        let written = match cluster.make(&configuration) {
            Err(failure) if failure.reason == "AlreadyExists" => cluster.replace(&configuration),
            made => made,
        };
        written.context("a webhook configuration was not written")?;
    }
    Ok(())
}

/// A question of the embedded API in the words of our webhooks.
fn subject<'a>(question: &Question<'a>) -> review::Subject<'a> {
    let Question { uid, operation, namespace, object, old_object, .. } = *question;
    review::Subject { uid, operation, namespace, object, old_object }
}
