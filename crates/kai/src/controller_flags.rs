//! Flags of KAI's controllers that its scheduler does not have: command lines written for them keep working.

use anyhow::{anyhow, bail};
use clap::Args;
use kai_control::grouper::parse_selector;
use kai_settings::flags::{Flagged, address};
use kai_settings::metrics::QueueLabel;

/// Flags of KAI's controllers.
#[derive(Args, Default)]
#[command(next_help_heading = "Flags of KAI's controllers")]
pub(crate) struct ControllerFlags {
    /// Address of the metrics; another name of --listen-address
    #[arg(long, visible_alias = "metrics-listen-address", value_name = "ADDRESS")]
    metrics_bind_address: Option<String>,

    /// Labels of queues that become labels of their metrics
    #[arg(long, value_name = "QUEUE_LABEL=METRIC_LABEL,...")]
    queue_label_to_metric_label: Option<String>,

    /// Values of these metric labels for queues without the label
    #[arg(long, value_name = "QUEUE_LABEL=VALUE,...")]
    queue_label_to_default_metric_value: Option<String>,

    #[arg(long, hide = true, value_name = "NUMBER")]
    max_concurrent_reconciles: Option<String>,

    #[arg(long, hide = true, value_name = "SECONDS")]
    rate_limiter_base_delay: Option<String>,

    #[arg(long, hide = true, value_name = "SECONDS")]
    rate_limiter_max_delay: Option<String>,

    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    fake_gpu_nodes: Option<String>,

    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    skip_controller_name_validation: Option<String>,
}

impl ControllerFlags {
    /// Applies the flags that the scheduler's flags do not set; returns notices of flags without an effect.
    pub(crate) fn apply(
        &self,
        flagged: &mut Flagged,
        names_listen_address: bool,
    ) -> anyhow::Result<Vec<String>> {
        if let Some(text) = self.metrics_bind_address.as_deref().filter(|_| !names_listen_address) {
            flagged.listen = address(text).map_err(|why| {
                anyhow!("invalid value {text:?} for --metrics-bind-address: {why}")
            })?;
        }
        let labels = self.queue_labels()?;
        if !labels.is_empty() {
            flagged.settings.metrics.queue_labels = labels;
        }
        Ok(self.notices())
    }

    fn queue_labels(&self) -> anyhow::Result<Vec<QueueLabel>> {
        let read = |flag: &str, text: &Option<String>| {
            let (pairs, bad) = parse_selector(text.as_deref().unwrap_or_default());
            match bad.first() {
                Some(part) => bail!("invalid value for --{flag}: {part:?} is not KEY=VALUE"),
                None => Ok(pairs),
            }
        };
        let labels = read("queue-label-to-metric-label", &self.queue_label_to_metric_label)?;
        let defaults =
            read("queue-label-to-default-metric-value", &self.queue_label_to_default_metric_value)?;
        let label = |(key, label): (String, String)| {
            let default = defaults.get(&key).cloned().unwrap_or_default();
            QueueLabel { key, label, default }
        };
        Ok(labels.into_iter().map(label).collect())
    }

    fn notices(&self) -> Vec<String> {
        let unneeded = [
            (
                "max-concurrent-reconciles",
                &self.max_concurrent_reconciles,
                "writes that do not hinder each other run in parallel",
            ),
            ("rate-limiter-base-delay", &self.rate_limiter_base_delay, "failed binds back off"),
            ("rate-limiter-max-delay", &self.rate_limiter_max_delay, "failed binds back off"),
            ("fake-gpu-nodes", &self.fake_gpu_nodes, "fake nodes are recognized by their labels"),
            (
                "skip-controller-name-validation",
                &self.skip_controller_name_validation,
                "controllers have no names that could clash",
            ),
        ];
        unneeded
            .into_iter()
            .filter(|(_, given, _)| given.is_some())
            .map(|(name, _, why)| format!("--{name} has no meaning here: {why}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ControllerFlags,
    }

    fn read(arguments: &[&str]) -> (Flagged, Vec<String>) {
        let line = Line::parse_from([&["kai"], arguments].concat());
        let mut flagged = Flagged::default();
        let notices = line.flags.apply(&mut flagged, false).expect("flags");
        (flagged, notices)
    }

    #[test]
    fn flags_of_controllers_set_what_they_mean_and_the_others_are_named() {
        let (flagged, notices) =
            read(&["--metrics-listen-address=127.0.0.1:9", "--fake-gpu-nodes"]);
        assert_eq!(flagged.listen.map(|at| at.to_string()).as_deref(), Some("127.0.0.1:9"));
        assert_eq!(
            notices,
            ["--fake-gpu-nodes has no meaning here: fake nodes are recognized by their labels"]
        );
        let arguments = [
            "--queue-label-to-metric-label=team=owner",
            "--queue-label-to-default-metric-value=team=none",
            "--max-concurrent-reconciles=3",
            "--rate-limiter-base-delay=1",
            "--rate-limiter-max-delay=60",
            "--skip-controller-name-validation",
        ];
        let (flagged, notices) = read(&arguments);
        assert_eq!(notices.len(), 4);
        let labels = flagged.settings.metrics.queue_labels;
        assert_eq!((labels[0].label.as_str(), labels[0].default.as_str()), ("owner", "none"));
    }

    #[test]
    fn a_bad_value_names_its_flag() {
        let line = Line::parse_from(["kai", "--metrics-bind-address=nowhere"]);
        let error = line.flags.apply(&mut Flagged::default(), false).expect_err("a bad address");
        assert!(error.to_string().contains("--metrics-bind-address"), "{error}");
    }
}
