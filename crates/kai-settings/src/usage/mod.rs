//! KAI's `usageDBConfig` in our words. What makes no sense is said; then past usage is not looked at. Pure.

pub mod window;

use kai_api::cron::Cron;
use kai_api::duration::{DurationText, Units, parse_duration};
use kai_api::shard::{UsageDbConfig, UsageParams};
use kai_core::fairness::QueueResource;
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use window::Window;

/// Where past usage comes from, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSettings {
    /// Where it comes from.
    pub source: Source,
    /// Which part of the past counts.
    pub window: Window,
    /// After this time use counts half; none: all of the window counts alike.
    pub half_life: Option<Span>,
    /// How often past usage is brought into plans.
    pub fetch_interval: Span,
    /// After this time without news a warning is logged.
    pub staleness: Span,
    /// How long the first plan waits for the first answer.
    pub wait: Span,
}

/// Where past usage comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A Prometheus that scrapes queues and nodes.
    Prometheus(Box<PrometheusSettings>),
    /// Usage that `kai` records itself.
    Recorder,
}

/// How Prometheus is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusSettings {
    /// Where it is. Not for logs: it may hold a password.
    pub address: String,
    /// Longest time for all queries of one look.
    pub timeout: Span,
    /// Time between two samples.
    pub resolution: Span,
    /// Expression of what queues use, and of what there is, per resource.
    pub metrics: [(QueueResource, String, String); 3],
}

/// KAI's name of the Prometheus client.
const PROMETHEUS: &str = "prometheus";
/// Our own record: nothing else is needed.
pub const RECORDER: &str = "recorder";

/// What of the environment a configuration may refer to.
pub struct Environment<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The Prometheus of the installation.
    pub prometheus: Option<&'a str>,
}

/// Reads a configuration; what makes no sense otherwise.
pub fn read(config: &UsageDbConfig, around: &Environment<'_>) -> Result<UsageSettings, String> {
    let params = config.usage_params.clone().unwrap_or_default();
    let source = match config.client_type.as_str() {
        PROMETHEUS => Source::Prometheus(Box::new(prometheus(config, &params, around)?)),
        RECORDER => Source::Recorder,
        other => {
            return Err(format!(
                "usageDBConfig.clientType: {other:?} is neither {PROMETHEUS} nor {RECORDER}"
            ));
        }
    };
    let fetch_interval = positive("fetchInterval", params.fetch_interval.as_ref(), seconds(60))?;
    let staleness = positive("stalenessPeriod", params.staleness_period.as_ref(), seconds(300))?;
    Ok(UsageSettings {
        source,
        window: window(&params)?,
        half_life: half_life(&params)?,
        fetch_interval,
        staleness: staleness.max(fetch_interval),
        wait: positive("waitTimeout", params.wait_timeout.as_ref(), seconds(60))?,
    })
}

fn prometheus(
    config: &UsageDbConfig,
    params: &UsageParams,
    around: &Environment<'_>,
) -> Result<PrometheusSettings, String> {
    let extra = |key: &str, usual: &str| {
        params.extra_params.get(key).map_or_else(|| usual.to_owned(), Clone::clone)
    };
    let span = |key: &str, usual: Span| {
        let text = params.extra_params.get(key).map(|text| DurationText(text.clone()));
        positive(&format!("extraParams.{key}"), text.as_ref(), usual)
    };
    let metric = |resource: QueueResource, name: &str, allocated: &str, node: &str| {
        let capacity = format!("sum(kube_node_status_capacity{{resource=\"{node}\"}})");
        let allocated = extra(&format!("{name}AllocationMetric"), allocated);
        (resource, allocated, extra(&format!("{name}CapacityMetric"), &capacity))
    };
    Ok(PrometheusSettings {
        address: address(config, around)?,
        timeout: span("usageQueryTimeout", seconds(10))?,
        resolution: span("queryResolution", seconds(60))?,
        metrics: [
            metric(QueueResource::Gpu, "gpu", "kai_queue_allocated_gpus", "nvidia_com_gpu"),
            metric(QueueResource::Cpu, "cpu", "kai_queue_allocated_cpu_cores", "cpu"),
            metric(QueueResource::Memory, "memory", "kai_queue_allocated_memory_bytes", "memory"),
        ],
    })
}

fn address(config: &UsageDbConfig, around: &Environment<'_>) -> Result<String, String> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match (given(&config.connection_string), given(&config.connection_string_env_var)) {
        (Some(_), Some(_)) => Err("usageDBConfig: connectionString and connectionStringEnvVar \
                                   are both set, one is wanted"
            .to_owned()),
        (Some(address), None) => Ok(address),
        (None, Some(variable)) => (around.variable)(&variable)
            .filter(|address| !address.is_empty())
            .ok_or_else(|| format!("usageDBConfig: the variable {variable} is not set")),
        (None, None) => around.prometheus.map(str::to_owned).ok_or_else(|| {
            "prometheus connection string not configured: either enable internal prometheus or \
             configure external TSDB connection URL"
                .to_owned()
        }),
    }
}

fn window(params: &UsageParams) -> Result<Window, String> {
    let text = params.window_size.as_deref().filter(|text| !text.is_empty()).unwrap_or("1w");
    let size = prometheus_duration(text).filter(|size| size.nanos > 0).ok_or_else(|| {
        format!("usageParams.windowSize: {text:?} is no duration such as 1w or 36h")
    })?;
    match params.window_type.as_deref().filter(|text| !text.is_empty()).unwrap_or("sliding") {
        "sliding" => Ok(Window::Sliding(size)),
        "tumbling" => {
            let start = params.tumbling_window_start_time.as_ref().ok_or(
                "prometheus client window type is set as 'tumbling', but the tumblingWindowStartTime is null",
            )?;
            let nanos = i64::try_from(start.0.as_nanosecond()).unwrap_or_default();
            Ok(Window::Tumbling { start: Timestamp { nanos }, size })
        }
        "cron" => {
            let text = params.cron_string.as_deref().unwrap_or_default();
            let cron = Cron::parse(text);
            cron.map(Window::Cron).map_err(|why| format!("usageParams.cronString: {text:?} {why}"))
        }
        other => {
            Err(format!("usageParams.windowType: {other:?} is none of sliding, tumbling and cron"))
        }
    }
}

fn half_life(params: &UsageParams) -> Result<Option<Span>, String> {
    let Some(text) = &params.half_life_period else { return Ok(None) };
    let span = duration("halfLifePeriod", text)?;
    Ok(Some(span).filter(|span| span.nanos > 0))
}

fn positive(field: &str, text: Option<&DurationText>, usual: Span) -> Result<Span, String> {
    let Some(text) = text else { return Ok(usual) };
    let span = duration(field, text)?;
    if span.nanos > 0 {
        Ok(span)
    } else {
        Err(format!("usageParams.{field}: must be more than nothing, is {}", text.0))
    }
}

fn duration(field: &str, text: &DurationText) -> Result<Span, String> {
    let nanos = parse_duration(&text.0, Units::Go);
    nanos.map(|nanos| Span { nanos }).map_err(|error| format!("usageParams.{field}: {error}"))
}

/// Reads `1w2d`, `36h`, `500ms`: whole numbers, units from the largest to the smallest, each at most once.
fn prometheus_duration(text: &str) -> Option<Span> {
    const UNITS: [(&str, i64); 7] = [
        ("y", 365 * 86_400_000),
        ("w", 7 * 86_400_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let mut units = UNITS.iter();
    let (mut rest, mut total) = (text, 0_i64);
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|at| *at > 0)?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, millis) = units.by_ref().find(|(name, _)| *name == unit)?;
        total = number.parse::<i64>().ok()?.checked_mul(*millis)?.checked_add(total)?;
        rest = tail;
    }
    let nanos = total.checked_mul(1_000_000)?;
    (!text.is_empty()).then_some(Span { nanos })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn configured(config: &Value) -> Result<UsageSettings, String> {
        let config = serde_json::from_value(config.clone()).expect("a configuration");
        let variable = |name: &str| (name == "DB").then(|| "http://db".to_owned());
        read(&config, &Environment { variable: &variable, prometheus: None })
    }

    #[test]
    fn what_is_left_out_is_as_kai_has_it() {
        let settings =
            configured(&json!({"clientType": "prometheus", "connectionString": "http://p"}));
        let settings = settings.expect("settings");
        assert_eq!(settings.window, Window::Sliding(seconds(7 * 86_400)));
        assert_eq!((settings.half_life, settings.fetch_interval), (None, seconds(60)));
        assert_eq!((settings.staleness, settings.wait), (seconds(300), seconds(60)));
        let Source::Prometheus(asked) = settings.source else { panic!("not Prometheus") };
        assert_eq!(asked.timeout, seconds(10));
        assert_eq!(asked.resolution, seconds(60));
        let (_, allocated, capacity) = &asked.metrics[0];
        assert_eq!(allocated, "kai_queue_allocated_gpus");
        assert_eq!(capacity, "sum(kube_node_status_capacity{resource=\"nvidia_com_gpu\"})");
    }

    #[test]
    fn everything_can_be_said() {
        let settings = configured(&json!({"clientType": "recorder", "usageParams": {
            "halfLifePeriod": "15s", "windowSize": "30s", "fetchInterval": "10m", "stalenessPeriod": "1m",
            "windowType": "tumbling", "tumblingWindowStartTime": "2026-01-01T00:00:00Z",
        }}));
        let settings = settings.expect("settings");
        assert_eq!(settings.source, Source::Recorder);
        assert_eq!(settings.half_life, Some(seconds(15)));
        assert_eq!(settings.staleness, seconds(600), "not less than the time between two looks");
        let start = Timestamp::default().plus(seconds(1_767_225_600));
        assert_eq!(settings.window, Window::Tumbling { start, size: seconds(30) });
        let by_variable =
            configured(&json!({"clientType": "prometheus", "connectionStringEnvVar": "DB"}));
        let Ok(Source::Prometheus(asked)) = by_variable.map(|settings| settings.source) else {
            panic!("not Prometheus")
        };
        assert_eq!(asked.address, "http://db");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let with = |params: Value| json!({"clientType": "recorder", "usageParams": params});
        for (config, why) in [
            (json!({"clientType": "fake"}), "\"fake\" is neither prometheus nor recorder"),
            (json!({"clientType": "prometheus"}), "connection string not configured"),
            (
                json!({"clientType": "prometheus", "connectionStringEnvVar": "NONE"}),
                "the variable NONE is not set",
            ),
            (
                json!({"clientType": "prometheus", "connectionString": "a", "connectionStringEnvVar": "DB"}),
                "are both set",
            ),
            (with(json!({"windowSize": "5x"})), "windowSize: \"5x\""),
            (with(json!({"windowSize": "1h1w"})), "windowSize: \"1h1w\""),
            (with(json!({"windowType": "rolling"})), "windowType: \"rolling\""),
            (with(json!({"windowType": "tumbling"})), "tumblingWindowStartTime is null"),
            (with(json!({"windowType": "cron", "cronString": "* *"})), "cronString: \"* *\""),
            (with(json!({"fetchInterval": "0s"})), "fetchInterval: must be more than nothing"),
        ] {
            let error = configured(&config).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn durations_are_those_of_prometheus() {
        for (text, span) in [
            ("1w", Some(seconds(604_800))),
            ("1d12h", Some(seconds(129_600))),
            ("1y", Some(seconds(365 * 86_400))),
            ("250ms", Some(Span { nanos: 250_000_000 })),
            ("5m30s", Some(seconds(330))),
            ("1m1m", None),
            ("", None),
            ("7", None),
            ("-1s", None),
        ] {
            assert_eq!(prometheus_duration(text), span, "{text}");
        }
    }
}
