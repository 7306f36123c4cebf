//! Flags of the node scale adjuster, most of them KAI's.

use clap::Args;
use kai_api::names::defaults::SCALE_ADJUST_MEMORY_RATIO;
use kai_api::names::objects::{SCALE_ADJUST, SCALING_POD, SCALING_POD_IMAGE};
use kai_core::time::Span;
use kai_settings::planner::Settings;
use kai_settings::scale_adjuster::ScaleAdjusterSettings;

use crate::duration_flag::span;

/// Flags of the node scale adjuster.
#[derive(Args)]
#[command(next_help_heading = "Node scale adjuster")]
pub(crate) struct ScalingArguments {
    /// Also run the node scale adjuster: scaling pods make autoscalers add nodes for pods that share GPUs.
    #[arg(long)]
    node_scale_adjuster: bool,

    /// Image of scaling pods.
    #[arg(long, default_value = SCALING_POD_IMAGE, value_name = "IMAGE")]
    scaling_pod_image: String,

    /// Namespace of scaling pods; the binder reads it too.
    #[arg(long, default_value = SCALE_ADJUST, value_name = "NAME")]
    scale_adjust_namespace: String,

    /// Service account of scaling pods.
    #[arg(long, default_value = SCALE_ADJUST, value_name = "NAME")]
    scaling_pod_service_account: String,

    /// Value of the label `app` of scaling pods.
    #[arg(long, default_value = SCALING_POD, value_name = "TEXT")]
    scaling_pod_app_label: String,

    /// GPU fraction that a GPU memory request counts as.
    #[arg(long, default_value_t = SCALE_ADJUST_MEMORY_RATIO, value_parser = ratio, value_name = "NUMBER")]
    gpu_memory_to_fraction_ratio: f64,

    /// How long a pod must be unschedulable before a scaling pod is created for it.
    #[arg(long, default_value = "5s", value_parser = span, value_name = "DURATION")]
    unschedulable_grace_period: Span,
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "must be a number above 0 and at most 1".to_owned())
}

impl ScalingArguments {
    /// It runs beside the other functions.
    pub(crate) const fn is_requested(&self) -> bool {
        self.node_scale_adjuster
    }

    pub(crate) fn settings(&self, around: &Settings) -> ScaleAdjusterSettings {
        ScaleAdjusterSettings {
            scheduler_name: around.rules.scheduler_name.clone(),
            node_pool_label_key: around.partition.key.clone(),
            namespace: self.scale_adjust_namespace.clone(),
            service_account: self.scaling_pod_service_account.clone(),
            app_label: self.scaling_pod_app_label.clone(),
            image: around.own_image_or(&self.scaling_pod_image, SCALING_POD_IMAGE),
            memory_ratio: self.gpu_memory_to_fraction_ratio,
            grace: self.unschedulable_grace_period,
            ..ScaleAdjusterSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        scaling: ScalingArguments,
    }

    #[test]
    fn without_flags_the_adjuster_has_its_default_settings() {
        let Line { scaling } = Line::parse_from(["kai"]);
        let around = kai_settings::flags::Flagged::default().settings;
        assert_eq!(scaling.settings(&around), ScaleAdjusterSettings::default());
    }
}
