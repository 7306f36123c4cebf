//! Flags about which pods are believed.

use clap::Args;
use kai_api::names::scheduling::PLACEMENT_KEY;
use kai_client::env::Env;
use kai_client::placement_key;
use kai_settings::planner::Settings;
use kai_translate::placement::PlacementKey;
use kube::Client;

/// Key of clusters in memory, which have one user.
const EMBEDDED_KEY: &[u8] = b"placements of an embedded cluster";

/// Which pods are believed.
#[derive(Args)]
#[command(next_help_heading = "Trust")]
pub(crate) struct TrustArguments {
    /// Secret in the namespace of this process with the key that signs placements; an empty name turns signing off, and GPU groups,
    /// fractions and queues of bound pods are then read from labels and annotations that their authors can change
    #[arg(long, default_value = PLACEMENT_KEY.0, value_name = "NAME")]
    placement_key_secret: String,

    /// Namespaces whose pods count as GPU reservation pods; the label of reservation pods is ignored elsewhere
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "kai-resource-reservation,runai-reservation",
        value_name = "NAMES"
    )]
    trusted_reservation_namespaces: Vec<String>,

    /// Trust the GPU groups of every pod of the scheduler, also without a reservation pod; needed while KAI's binder runs
    /// beside this one
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true, value_name = "BOOL", action = clap::ArgAction::Set)]
    trust_kai_binder: bool,
}

impl TrustArguments {
    /// Takes over what needs no key.
    pub(crate) fn apply(&self, reservation_namespace: &str, settings: &mut Settings) {
        settings.rules.reservation_namespaces.clone_from(&self.trusted_reservation_namespaces);
        settings.rules.trust_reservations_in(reservation_namespace);
        settings.trust.trusts_other_binders = self.trust_kai_binder;
    }

    /// Reads the key, where placements are signed.
    pub(crate) async fn load_key(&self, client: &Client, env: &Env, settings: &mut Settings) {
        let secret = &self.placement_key_secret;
        if !secret.is_empty() && !settings.functions.is_empty() {
            let key = placement_key::load(client, env, &settings.namespace, secret);
            settings.trust.key = key.await;
        }
    }

    /// Takes the key of clusters in memory.
    pub(crate) fn use_embedded_key(&self, settings: &mut Settings) {
        if !self.placement_key_secret.is_empty() {
            settings.trust.key = Some(PlacementKey::new(EMBEDDED_KEY));
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kai_api::names::objects::RESERVATION_NAMESPACES;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        trust: TrustArguments,
    }

    #[test]
    fn without_flags_the_known_reservation_namespaces_are_trusted() {
        let Line { trust } = Line::parse_from(["kai"]);
        assert_eq!(trust.trusted_reservation_namespaces, RESERVATION_NAMESPACES);
    }
}
