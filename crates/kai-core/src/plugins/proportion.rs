//! proportion: queues have quotas, limits and weights; the cluster is divided by them. The rules themselves are in
//! `fairness`; here are the arguments.

use crate::config::PluginSpec;
use crate::plugins::Policy;

/// Arguments of the plugin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arguments {
    /// How much fuller a reclaimer may get than the queue it takes from.
    pub saturation_multiplier: f64,
    /// Weight of past use.
    pub k_value: f64,
}

/// KAI's spelling, and those a person would try.
const MULTIPLIER_KEYS: [&str; 3] = [
    "relcaimerSaturationMultiplier",
    "reclaimerSaturationMultiplier",
    "reclaimerUtilizationMultiplier",
];

pub(super) fn register(policy: &mut Policy, plugin: &PluginSpec) {
    let number = |key: &str| plugin.argument(key).and_then(|text| text.parse::<f64>().ok());
    let multiplier = MULTIPLIER_KEYS.iter().find_map(|key| number(key)).unwrap_or(1.0);
    let k_value = number("kValue").unwrap_or(1.0);
    policy.proportion = Some(Arguments {
        saturation_multiplier: if multiplier < 1.0 { 1.0 } else { multiplier },
        k_value: k_value.max(0.0),
    });
}
