//! Past usage of queues, which bends their fair shares (KAI's time-based fair share): queried from Prometheus, or recorded by
//! ourselves.
//!
//! | module | subject |
//! |---|---|
//! | [`prometheus`] | asks a Prometheus |
//! | [`history`] | our own record |
//! | [`store`] | where the record is kept between two processes |

pub mod history;
pub mod prometheus;
pub mod store;

use std::collections::BTreeMap;

use kai_client::env::Env;
use kai_core::fairness::Amounts;
use kai_core::input::Text;
use kai_core::time::Timestamp;
use tokio::sync::mpsc::Sender;

use crate::orders::Report;
use kai_settings::usage::{PrometheusSettings, UsageSettings};

/// An amount of each resource by queue.
pub type Usages = BTreeMap<Text, Amounts>;

/// Asks Prometheus again and again and reports, while reports are received. What was learnt counts until more is.
pub(crate) async fn follow(
    env: Env,
    source: Box<PrometheusSettings>,
    settings: UsageSettings,
    reports: Sender<Report>,
) {
    let client = match prometheus::connect(&source) {
        Ok(client) => client,
        Err(error) => return tracing::error!(%error, "past usage is not looked at"),
    };
    let mut latest: Option<Timestamp> = None;
    let mut is_reported_stale = false;
    loop {
        let begin = env.now();
        let fetched = tokio::select! { biased;
            () = reports.closed() => return,
            fetched = prometheus::fetch(&client, &source, &settings, begin) => Some(fetched),
            () = env.sleep(source.timeout) => None,
        };
        match fetched {
            Some(Ok(usages)) => {
                (latest, is_reported_stale) = (Some(begin), false);
                let latency = env.now().since(begin);
                let _ = reports.send(Report::Usage { usages, latency }).await;
            }
            Some(Err(error)) => tracing::warn!(%error, "failed to query past usage"),
            None => tracing::warn!("the query of past usage timed out"),
        }
        let age = latest.map(|latest| env.now().since(latest));
        if age.is_some_and(|age| age > settings.staleness) && !is_reported_stale {
            is_reported_stale = true;
            tracing::warn!("past usage is stale: the latest answer still counts");
        }
        tokio::select! { biased;
            () = reports.closed() => return,
            () = env.sleep(settings.fetch_interval) => {}
        }
    }
}
