//! Past usage from a Prometheus that scrapes queues and nodes: one query per resource for what queues used, one for what
//! there was. A window that began at a certain moment is source for by its length up to now.

use kai_client::path::escape;
use kai_core::fairness::{Amounts, QueueResource};
use kai_core::time::{Span, Timestamp};
use kube::{Client, Config};
use serde::Deserialize;

use super::Usages;
use kai_settings::usage::{PrometheusSettings, UsageSettings};

/// Why there is no answer. Never says where Prometheus is: the address may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The address makes no sense.
    #[error("the connection string is no address such as http://prometheus:9090")]
    Address,
    /// There is no client for the address.
    #[error("there is no client for the connection string")]
    Client,
    /// No answer, or a refusal.
    #[error("query {query}: {why}")]
    Refused {
        /// The query, in the language of Prometheus.
        query: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The answer is of a form that nothing can be read from.
    #[error("query {0}: unexpected query result: got {1}, expected vector")]
    Form(String, String),
    /// Nothing is known of what there is.
    #[error("no data returned for cluster capacity metric {0}")]
    NoCapacity(String),
}

/// A client for the address.
pub fn connect(settings: &PrometheusSettings) -> Result<Client, QueryError> {
    let address = settings.address.trim_end_matches('/');
    let mut config = Config::new(address.parse().map_err(|_| QueryError::Address)?);
    config.default_retry = false;
    Client::try_from(config).map_err(|_| QueryError::Client)
}

/// Share of what there was that each queue used, per resource.
pub async fn fetch(
    client: &Client,
    source: &PrometheusSettings,
    settings: &UsageSettings,
    now: Timestamp,
) -> Result<Usages, QueryError> {
    let mut usages = Usages::new();
    for (resource, allocated, capacity) in &source.metrics {
        let query = expression(capacity, source, settings, now);
        let all = vector(client, &query, now).await?;
        let all = all.first().ok_or(QueryError::NoCapacity(query))?.number();
        let query = expression(allocated, source, settings, now);
        for sample in vector(client, &query, now).await? {
            add(&mut usages, *resource, &sample, all);
        }
    }
    Ok(usages)
}

fn add(usages: &mut Usages, resource: QueueResource, sample: &Sample, all: f64) {
    let share = sample.number() / all;
    if share.is_finite() && share > 0.0 {
        let queue = sample.metric.queue_name.as_str().into();
        usages.entry(queue).or_insert(Amounts::ZERO)[resource] = share;
    }
}

/// The sum of a metric over the window, later samples counting more where use decays.
fn expression(
    metric: &str,
    source: &PrometheusSettings,
    settings: &UsageSettings,
    now: Timestamp,
) -> String {
    let decayed = match settings.half_life {
        None => metric.to_owned(),
        Some(life) => {
            let (now, life) = (now.nanos / 1_000_000_000, life.as_seconds());
            format!("(({metric}) * (0.5^(({now} - time()) / {life:.6})))")
        }
    };
    let resolution = source.resolution;
    let window = now.since(settings.window.began(now)).max(resolution);
    format!("sum_over_time(({decayed})[{}:{}])", shown(window), shown(resolution))
}

/// A span as Prometheus reads it.
fn shown(span: Span) -> String {
    let millis = span.nanos / 1_000_000;
    if millis % 1000 == 0 { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct Sample {
    metric: Metric,
    /// When, and how much as text.
    value: (f64, String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metric {
    queue_name: String,
}

impl Sample {
    fn number(&self) -> f64 {
        self.value.1.parse().unwrap_or(f64::NAN)
    }
}

async fn vector(client: &Client, query: &str, now: Timestamp) -> Result<Vec<Sample>, QueryError> {
    let refused = |why: String| QueryError::Refused { query: query.to_owned(), why };
    let time = now.nanos as f64 / 1e9;
    let uri = format!("/api/v1/query?query={}&time={time:.3}", escape(query));
    let request = http::Request::get(uri).body(Vec::new());
    let request = request.map_err(|error| refused(error.to_string()))?;
    let answered = client.request::<Answer>(request).await;
    let data = answered.map_err(|error| refused(reason(&error)))?.data;
    let form = |form: &str| QueryError::Form(query.to_owned(), form.to_owned());
    if data.result_type != "vector" {
        return Err(form(&data.result_type));
    }
    serde_json::from_value(data.result).map_err(|_| form("samples that cannot be read"))
}

/// What went wrong, without the address.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        kube::Error::SerdeError(error) => format!("the answer cannot be read: {error}"),
        _ => "no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kai_api::cron::Cron;
    use kai_translate::time::seconds;

    use super::*;
    use kai_settings::usage::Source;
    use kai_settings::usage::window::Window;

    const NOW: Timestamp = Timestamp { nanos: 1_767_229_200_000_000_000 };

    fn expression_of(window: Window, half_life: Option<Span>) -> String {
        let source = PrometheusSettings {
            address: String::new(),
            timeout: seconds(10),
            resolution: seconds(60),
            metrics: QueueResource::ALL.map(|resource| (resource, String::new(), String::new())),
        };
        let settings = UsageSettings {
            source: Source::Recorder,
            window,
            half_life,
            fetch_interval: seconds(60),
            staleness: seconds(300),
            wait: seconds(60),
        };
        expression("m", &source, &settings, NOW)
    }

    #[test]
    fn every_window_is_asked_for_by_its_length() {
        let week = Window::Sliding(seconds(604_800));
        assert_eq!(expression_of(week.clone(), None), "sum_over_time((m)[604800s:60s])");
        assert_eq!(
            expression_of(week, Some(seconds(15))),
            "sum_over_time((((m) * (0.5^((1767229200 - time()) / 15.000000))))[604800s:60s])"
        );
        let start = Timestamp { nanos: NOW.nanos - 100_500_000_000 };
        let tumbling = Window::Tumbling { start, size: seconds(3600) };
        assert_eq!(expression_of(tumbling, None), "sum_over_time((m)[100500ms:60s])");
        let daily = Window::Cron(Cron::parse("@daily").expect("an expression"));
        assert_eq!(expression_of(daily, None), "sum_over_time((m)[3600s:60s])");
        let hourly = Window::Cron(Cron::parse("@hourly").expect("an expression"));
        assert_eq!(
            expression_of(hourly, None),
            "sum_over_time((m)[60s:60s])",
            "one sample at least"
        );
    }
}
