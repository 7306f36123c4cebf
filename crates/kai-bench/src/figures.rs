//! What was measured, under the names that scripts read. A case that did not run has no figure.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

/// All figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Number of nodes of eight GPUs.
    pub nodes: usize,
    /// Load average of the last minute before the run and after it.
    pub load: [f64; 2],
    /// One-GPU pods until the cluster is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// 50 pods per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_50: Option<Latency>,
    /// The same where the load client binds each pod itself: the limit of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_50_alone: Option<Latency>,
    /// Last create to last bind of a gang of 512 one-GPU pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_512_s: Option<f64>,
    /// The same where the load client binds the gang itself: the limit of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_512_alone_s: Option<f64>,
    /// Last create to last bind of a gang of 512 half-GPU pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_512_halves_s: Option<f64>,
    /// Last create to last bind of a gang that reclaims two fifths of a full cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_gang_s: Option<f64>,
    /// As many evictions by the API server alone, while no victim ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_gang_evictions_alone_s: Option<f64>,
    /// The victims' own end, by the API server alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_gang_ends_alone_s: Option<f64>,
    /// As many evictions, the end of the victims and the binds of the gang by the API server alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_gang_alone_s: Option<f64>,
    /// Entries that kai logged during the reclaim, per victim and pod of the gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_gang_log_entries_per_pod: Option<f64>,
    /// Create to bind of a pod that reclaims one GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_one_s: Option<f64>,
    /// Last create of a gang that fits nowhere to its reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang_no_s: Option<f64>,
    /// Half-GPU pods until the cluster is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_fill: Option<SharedFill>,
    /// A full cluster with 400 pods that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_400: Option<Idle>,
    /// Resident memory of kai with 500 nodes of eight running pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_500_mib: Option<f64>,
    /// Resident memory of kai after the reclaim by the gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_500_after_reclaim_mib: Option<f64>,
    /// Resident memory of kai with 5,000 nodes of eight running pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_5000_mib: Option<f64>,
    /// SIGTERM to the end of kai on a full cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Start of kai to the bind of a pod that reclaims one GPU of a full cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_start_s: Option<f64>,
    /// Removal of a full node to the bind of the pods that replace its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_loss_s: Option<f64>,
    /// End of the kai that leads to a bind by the one that stands by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_over: Option<FailOver>,
    /// Two sizes on a fake API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// CPU time of the API server per pod of the fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_cpu_ms_per_pod: Option<f64>,
    /// Writes of kai per pod of the fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes_per_pod: Option<f64>,
}

/// Figures of the fill.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fill {
    /// First create to last bind by kai.
    pub pods_per_s: f64,
    /// The same where the load client binds each pod itself: the limit of the API server.
    pub raw_pods_per_s: f64,
    /// The same by kube-scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_scheduler_pods_per_s: Option<f64>,
    /// The same by a client that binds each pod once its watch shows it: the limit of any scheduler.
    pub watching_client: WatchingClient,
    /// Create to answered bind of the load client, median: what `p50_ms` is where nothing has to be observed or planned.
    pub raw_p50_ms: f64,
    /// The same of all but one in a hundred.
    pub raw_p99_ms: f64,
    /// `pods_per_s` divided by `raw_pods_per_s`; 1 is as fast as the API server allows.
    pub ratio_to_raw: f64,
    /// Create to the event that shows the new pod, median: before that no scheduler can know of it.
    pub shown_p50_ms: f64,
    /// Create to bind, median.
    pub p50_ms: f64,
    /// Create to bind of all but one in a hundred.
    pub p99_ms: f64,
    /// CPU time of kai.
    pub scheduler_cpu_s: f64,
}

/// Figures of a client that binds each pod once its watch shows it, to a node that it need not choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WatchingClient {
    /// First create to last bind.
    pub pods_per_s: f64,
    /// Create to bind as a watch shows it, median.
    pub p50_ms: f64,
    /// The same of all but one in a hundred.
    pub p99_ms: f64,
}

/// Time from the create of a pod to its bind, as a watch shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Median in milliseconds.
    pub p50_ms: f64,
    /// All but one in a hundred.
    pub p99_ms: f64,
}

/// Figures of half-GPU pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SharedFill {
    /// First create to last bind.
    pub pods_per_s: f64,
    /// The same where the load client makes the writes itself: the limit of the API server.
    pub raw_pods_per_s: f64,
    /// `pods_per_s` divided by `raw_pods_per_s`.
    pub ratio_to_raw: f64,
    /// Writes of kai per pod.
    pub requests_per_pod: f64,
    /// Create to bind, median.
    pub p50_ms: f64,
    /// CPU time of the API server per pod.
    pub api_cpu_ms_per_pod: f64,
    /// Resident memory of kai afterwards.
    pub rss_mib: f64,
}

/// Use of a cluster in which nothing happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Idle {
    /// Cores that kai uses.
    pub scheduler_cores: f64,
    /// Cores that the API server uses.
    pub apiserver_cores: f64,
}

/// Seconds without a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FailOver {
    /// After SIGTERM, with which the lease is released.
    pub stopped_s: f64,
    /// After SIGKILL: the lease expires.
    pub killed_s: f64,
}

/// Figures of two sizes, and how they grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scale {
    /// The smaller size.
    pub small: ScaleFigures,
    /// Twice as many nodes and pods.
    pub large: ScaleFigures,
    /// Each figure of the larger size divided by the same figure of the smaller one.
    pub growth: ScaleFigures,
}

/// Figures of one size: nodes of ten GPUs, filled with one-GPU pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScaleFigures {
    /// Number of nodes.
    pub nodes: f64,
    /// Number of pods, all of which run.
    pub pods: f64,
    /// First create to last bind of all pods.
    pub fill_s: f64,
    /// Pods bound per second meanwhile.
    pub fill_pods_per_s: f64,
    /// CPU time of kai meanwhile.
    pub fill_cpu_s: f64,
    /// Resident memory of kai once all pods run.
    pub rss_mib: f64,
    /// Create to bind of a pod that replaces a deleted one, on average.
    pub replace_ms: f64,
    /// The longest of these times: a single stall shows here.
    pub replace_longest_ms: f64,
    /// CPU time of kai per replacement: the end of a pod, the create of another, its bind and its start.
    pub replace_cpu_ms: f64,
    /// Start of kai on the full cluster to the bind of a pending pod that fits.
    pub cold_start_s: f64,
    /// CPU time of kai meanwhile.
    pub cold_start_cpu_s: f64,
}

impl Scale {
    pub(crate) fn of(small: ScaleFigures, large: ScaleFigures) -> Self {
        Self { small, large, growth: large.divided_by(&small) }
    }
}

impl ScaleFigures {
    fn divided_by(&self, other: &Self) -> Self {
        let ratio = |figure: fn(&Self) -> f64| figure(self) / figure(other);
        Self {
            nodes: ratio(|size| size.nodes),
            pods: ratio(|size| size.pods),
            fill_s: ratio(|size| size.fill_s),
            fill_pods_per_s: ratio(|size| size.fill_pods_per_s),
            fill_cpu_s: ratio(|size| size.fill_cpu_s),
            rss_mib: ratio(|size| size.rss_mib),
            replace_ms: ratio(|size| size.replace_ms),
            replace_longest_ms: ratio(|size| size.replace_longest_ms),
            replace_cpu_ms: ratio(|size| size.replace_cpu_ms),
            cold_start_s: ratio(|size| size.cold_start_s),
            cold_start_cpu_s: ratio(|size| size.cold_start_cpu_s),
        }
    }
}

impl Latency {
    /// Of these latencies, in milliseconds.
    pub(crate) fn of(mut millis: Vec<f64>) -> Self {
        millis.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let last = millis.len().saturating_sub(1);
            let index = (last as f64 * part).round() as usize;
            millis.get(index).copied().unwrap_or_default()
        };
        Self { p50_ms: at(0.5), p99_ms: at(0.99) }
    }
}

impl Figures {
    /// One line per figure.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let value = serde_json::to_value(self).unwrap_or_default();
        add_lines(&mut text, "", &value);
        text
    }
}

fn add_lines(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                add_lines(text, &name, field);
            }
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            let _ = writeln!(text, "{name:<36} {number:>10.3}");
        }
        other => {
            let _ = writeln!(text, "{name:<36} {other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_off_in_order() {
        let latency = Latency::of((1..=101).rev().map(f64::from).collect());
        assert_eq!(latency, Latency { p50_ms: 51.0, p99_ms: 100.0 });
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }

    #[test]
    fn growth_is_the_ratio_of_each_figure() {
        let small = ScaleFigures { nodes: 5000.0, fill_cpu_s: 4.0, ..ScaleFigures::default() };
        let large = ScaleFigures { nodes: 10_000.0, fill_cpu_s: 6.0, ..ScaleFigures::default() };
        let scale = Scale::of(small, large);
        assert_eq!((scale.growth.nodes, scale.growth.fill_cpu_s), (2.0, 1.5));
        let figures = Figures { scale: Some(scale), ..Figures::default() };
        assert!(figures.table().contains("scale.growth.fill_cpu_s"), "{}", figures.table());
    }

    #[test]
    fn cases_that_did_not_run_have_no_line() {
        let figures = Figures { nodes: 500, fill: Some(Fill::default()), ..Figures::default() };
        let table = figures.table();
        assert!(table.contains("fill.pods_per_s") && table.contains("nodes"), "{table}");
        assert!(!table.contains("gang_512_s"), "{table}");
    }
}
