//! Our webhooks on an embedded cluster: registered as after an install, answered in this process.

use anyhow::Context;
use kai_admission::{registration, review};
use kai_embed::Cluster;
use kai_embed::admission::Webhooks;
use kai_settings::admission::{AdmissionSettings, PodRules};
use serde::Deserialize;

/// How admission is set up in an install in which pods may share GPUs.
pub(super) fn usual() -> AdmissionSettings {
    AdmissionSettings {
        pods: PodRules { gpu_sharing: true, ..PodRules::default() },
        ..AdmissionSettings::default()
    }
}

/// Answers for the webhooks from now on, and registers them; earlier registrations are replaced.
pub(super) fn start(cluster: &mut Cluster, settings: &AdmissionSettings) -> anyhow::Result<()> {
    let (scheduler, pods) = (settings.scheduler_name.clone(), settings.pods.clone());
    cluster.set_webhooks(Webhooks::new(move |path, asked| {
        let known = review::Known { scheduler: &scheduler, rules: &pods, queues: None };
        review::answer(path, &review::Review::deserialize(asked).ok()?, &known)
    }));
    // Nobody calls over a network, so there is nobody whose certificate must be trusted.
    for (_, configuration) in registration::configurations(settings, None) {
        let written = match cluster.make(&configuration) {
            Err(failure) if failure.reason == "AlreadyExists" => cluster.replace(&configuration),
            made => made,
        };
        written.context("a webhook configuration was not written")?;
    }
    Ok(())
}
