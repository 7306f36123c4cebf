//! Flags of authenticated metrics.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use kai_admission::certificates::{self, Bundle, CertificateError, Making, Place, SystemKeys};
use kai_api::function::Function;
use kai_api::names::admission::METRICS_TLS_SECRET;
use kai_client::env::Env;
use kai_control::serve::MetricsReaders;
use kai_translate::time::seconds;
use kube::Client;

/// How metrics are served.
#[derive(Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsFlags {
    /// Serve metrics over TLS, and only to accounts that have the verb get on the non-resource URL /metrics
    #[arg(long)]
    metrics_authentication: bool,
}

/// How often the validity of the certificate is checked.
const LOOK_AGAIN: kai_core::time::Span = seconds(60 * 60);

impl MetricsFlags {
    /// Access control of metrics, with a certificate from the Secret of the namespace that is renewed from now on; none: metrics
    /// are open to all clients.
    pub(crate) async fn readers(
        &self,
        client: &Client,
        env: &Env,
        namespace: &str,
    ) -> anyhow::Result<Option<Arc<MetricsReaders>>> {
        if !self.metrics_authentication {
            return Ok(None);
        }
        let bundle = current(client, env, namespace)
            .await
            .context("metrics need a certificate with --metrics-authentication")?;
        let readers =
            MetricsReaders::new(client.clone(), env.clone(), &bundle.certificate, &bundle.key)?;
        let readers = Arc::new(readers);
        let renewed =
            renew(client.clone(), env.clone(), namespace.to_owned(), Arc::clone(&readers));
        env.spawn("certificates", renewed);
        Ok(Some(readers))
    }
}

/// The certificate that all processes of the installation share: it has the names of all their Services.
async fn current(client: &Client, env: &Env, namespace: &str) -> Result<Bundle, CertificateError> {
    let name = |function: Function| format!("{}.{namespace}.svc", function.name());
    let names: BTreeSet<String> = Function::ALL.into_iter().map(name).collect();
    let making = Making { names: &names, keys: &SystemKeys, now: env.now() };
    let place = Place { namespace, secret: METRICS_TLS_SECRET };
    certificates::current(client, place, making).await
}

async fn renew(client: Client, env: Env, namespace: String, readers: Arc<MetricsReaders>) {
    loop {
        env.sleep(LOOK_AGAIN).await;
        let renewed = match current(&client, &env, &namespace).await {
            Ok(bundle) => {
                readers.renew(&bundle.certificate, &bundle.key).map_err(|why| why.to_string())
            }
            Err(why) => Err(why.to_string()),
        };
        if let Err(error) = renewed {
            tracing::warn!(error, "failed to renew the certificate of metrics");
        }
    }
}
