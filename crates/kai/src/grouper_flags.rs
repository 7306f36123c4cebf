//! Flags of the pod grouper, under KAI's names.

use clap::Args;
use kai_cluster::grouper::GrouperConfig;

/// How pods are grouped.
#[derive(Args)]
#[command(next_help_heading = "Pod grouper")]
pub(crate) struct GrouperArguments {
    /// A Knative revision is one group; otherwise each of its pods is.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    knative_gang_schedule: bool,

    /// Kinds without a rule may be described by `Karta` objects.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    generic_karta_fallback: bool,

    /// Groups that older releases made are looked for and kept.
    #[arg(long, num_args = 0..=1, default_value_t = true, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    search_legacy_pg: bool,
}

impl GrouperArguments {
    /// Takes the flags over.
    pub(crate) fn apply(&self, config: &mut GrouperConfig) {
        config.knative_gang = self.knative_gang_schedule;
        config.karta = self.generic_karta_fallback;
        config.search_legacy_groups = self.search_legacy_pg;
    }
}
