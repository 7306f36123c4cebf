//! Every metric of KAI's scheduler and queue controller, with its type and labels, is on our page, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use kai_core::config::SearchBudgets;
use kai_core::input::{Delta, Object, QueueSpec};
use kai_core::plan::plan;
use kai_core::report::searches::{GeneratorRun, RunResult, SearchReport, SetCounts};
use kai_core::world::World;

use kai_settings::metrics::QueueLabel;

use super::*;

const QUEUE: &[&str] = &["queue_name", "queue_metadata_name", "queue_display_name"];
const MAPPED: &[&str] = &["queue_name", "queue_metadata_name", "queue_display_name", "crew"];
const RUN: &[&str] = &["action", "generator", "result"];

/// KAI's metrics: name, type and labels.
const METRICS: &[(&str, &str, &[&str])] = &[
    // Queue controller.
    ("queue_info", "gauge", MAPPED),
    ("queue_deserved_gpus", "gauge", MAPPED),
    ("queue_quota_cpu_cores", "gauge", MAPPED),
    ("queue_quota_memory_bytes", "gauge", MAPPED),
    ("queue_allocated_gpus", "gauge", MAPPED),
    ("queue_allocated_cpu_cores", "gauge", MAPPED),
    ("queue_allocated_memory_bytes", "gauge", MAPPED),
    // Scheduler.
    ("e2e_scheduling_latency_milliseconds", "gauge", &[]),
    ("open_session_latency_milliseconds", "gauge", &[]),
    ("close_session_latency_milliseconds", "gauge", &[]),
    ("plugin_scheduling_latency_milliseconds", "gauge", &["plugin", "OnSession"]),
    ("action_scheduling_latency_milliseconds", "gauge", &["action"]),
    ("task_scheduling_latency_milliseconds", "histogram", &[]),
    ("task_bind_latency_milliseconds", "histogram", &[]),
    ("podgroups_scheduled_by_action", "counter", &["action"]),
    ("podgroups_acted_on_by_action", "counter", &["action"]),
    ("scenarios_simulation_by_action", "counter", &["action"]),
    ("scenarios_filtered_by_action", "counter", &["action"]),
    ("total_preemption_attempts", "counter", &[]),
    ("world_violations", "gauge", &["of"]),
    ("planner_panics_total", "counter", &[]),
    ("grouping_panics_total", "counter", &[]),
    ("queue_fair_share_cpu_cores", "gauge", QUEUE),
    ("queue_fair_share_memory_gb", "gauge", QUEUE),
    ("queue_fair_share_gpu", "gauge", QUEUE),
    ("queue_cpu_usage", "gauge", QUEUE),
    ("queue_memory_usage", "gauge", QUEUE),
    ("queue_gpu_usage", "gauge", QUEUE),
    ("usage_query_latency_milliseconds", "histogram", &[]),
    (
        "pod_group_evicted_pods_total",
        "counter",
        &["podgroup", "namespace", "uid", "nodepool", "action"],
    ),
    ("scenario_search_jobs_total", "counter", &["action", "result", "reduced_budget"]),
    ("scenario_search_action_budget_configured_seconds", "gauge", &["action"]),
    ("scenario_search_job_budget_configured_seconds", "gauge", &[]),
    ("scenario_search_generator_budget_configured_seconds", "gauge", &["generator"]),
    ("scenario_search_action_budget_exhausted_total", "counter", &["action"]),
    ("scenario_search_duration_seconds", "histogram", RUN),
    ("scenario_search_scenarios_total", "counter", &["action", "generator", "state"]),
];

fn queue() -> QueueSpec {
    QueueSpec {
        display_name: Some("Queue".into()),
        quota: Amounts::from_fn(|_| 1.0),
        ..QueueSpec::unbounded("q")
    }
}

/// A page on which everything happened.
fn full_page() -> String {
    let config = Config {
        budgets: Some(SearchBudgets::default()),
        ..kai_settings::planner::Settings::default().config
    };
    let queue_labels =
        vec![QueueLabel { key: "team".into(), label: "crew".into(), default: "none".into() }];
    let settings = MetricsSettings { queue_labels, ..MetricsSettings::default() };
    let mut metrics = Metrics::new(settings, "default", &config);
    let mut accounts = Accounts::default();
    accounts.observe(&Delta::Set(Object::Queue(queue())));
    metrics.observe_queue(&"q".into(), &BTreeMap::new());
    metrics.note_action(ActionKind::Allocate, Span { nanos: 1 });
    metrics.note_usage(&[("q".into(), Amounts::from_fn(|_| 0.5))].into());
    let mut world = World::new(config);
    world.apply(Delta::Set(Object::Queue(queue())));
    let mut made = plan(&mut world, Timestamp::default());
    let evict =
        StepKind::Evict { for_job: None, batch: 1, message: "go".into(), overrides_budget: None };
    made.steps.push(Step {
        action: ActionKind::Reclaim,
        pod: ObjectName::new("a", "p"),
        uid: "u".into(),
        group: Some(ObjectName::new("a", "g")),
        kind: evict,
    });
    let sets = SetCounts { emitted: 3, simulated: 2, refused: 1, duplicate: 1 };
    made.searches.push(SearchReport {
        action: ActionKind::Reclaim,
        result: SearchResult::DeadlineExhausted,
        reduced_budget: true,
        action_budget_spent: true,
        runs: vec![GeneratorRun {
            generator: "NodeLocalGreedy",
            result: RunResult::DeadlineExhausted,
            sets,
            work_units: 2_000,
        }],
    });
    metrics.note_plan(&made, |_| None, |_| None, Timestamp::default());
    metrics.page(&accounts).finish()
}

#[test]
fn panics_of_grouping_are_counted() {
    let config = Config::default();
    let mut metrics = Metrics::new(MetricsSettings::default(), "default", &config);
    metrics.count_grouping_panic();
    let page = metrics.page(&Accounts::default()).finish();
    assert!(page.contains("kai_grouping_panics_total 1\n"), "{page}");
}

/// Names of metrics on a page with type and labels.
fn shape(page: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut found: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let mut name = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE kai_") {
            let (metric, kind) = rest.split_once(' ').expect("a type");
            metric.clone_into(&mut name);
            found.insert(name.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&format!("kai_{name}")), "{line}");
            let labels = line.split_once('{').map_or("", |(_, rest)| rest);
            let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
            let keys = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
            let keys = keys.map(|(key, _)| key.to_owned()).filter(|key| key != "le");
            found.get_mut(&name).expect("a head").1.extend(keys);
        }
    }
    found
}

#[test]
fn every_metric_has_kais_name_type_and_labels() {
    let page = full_page();
    let wanted: BTreeMap<String, (String, BTreeSet<String>)> = METRICS
        .iter()
        .map(|(name, kind, labels)| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            ((*name).to_owned(), ((*kind).to_owned(), labels))
        })
        .collect();
    assert_eq!(wanted.len(), METRICS.len());
    pretty_equal(&shape(&page), &wanted);
}

fn pretty_equal<V: PartialEq + std::fmt::Debug>(
    found: &BTreeMap<String, V>,
    wanted: &BTreeMap<String, V>,
) {
    let names: BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    for name in names {
        assert_eq!(found.get(name), wanted.get(name), "{name}");
    }
}

#[test]
fn a_search_is_counted_by_generator_result_and_state() {
    let page = full_page();
    for line in [
        "kai_scenario_search_jobs_total{action=\"reclaim\",result=\"deadline_exhausted\",reduced_budget=\"true\"} 1",
        "kai_scenario_search_action_budget_exhausted_total{action=\"reclaim\"} 1",
        "kai_scenario_search_duration_seconds_bucket{action=\"reclaim\",generator=\"NodeLocalGreedy\",result=\"deadline_exhausted\",le=\"0.001\"} 0",
        "kai_scenario_search_duration_seconds_bucket{action=\"reclaim\",generator=\"NodeLocalGreedy\",result=\"deadline_exhausted\",le=\"32.768\"} 1",
        "kai_scenario_search_duration_seconds_sum{action=\"reclaim\",generator=\"NodeLocalGreedy\",result=\"deadline_exhausted\"} 0.002",
        "kai_scenario_search_scenarios_total{action=\"reclaim\",generator=\"NodeLocalGreedy\",state=\"duplicate\"} 1",
        "kai_scenario_search_scenarios_total{action=\"reclaim\",generator=\"NodeLocalGreedy\",state=\"validator_rejected\"} 1",
        "kai_podgroups_acted_on_by_action{action=\"reclaim\"} 1",
        "kai_scenarios_simulation_by_action{action=\"reclaim\"} 2",
        "kai_queue_info{queue_name=\"q\",queue_metadata_name=\"q\",queue_display_name=\"Queue\",crew=\"none\"} 1",
        "kai_queue_gpu_usage{queue_name=\"Queue\",queue_metadata_name=\"q\",queue_display_name=\"Queue\"} 0.5",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}
