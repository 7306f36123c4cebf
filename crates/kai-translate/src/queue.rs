//! Queues.

use std::collections::BTreeMap;

use kai_api::duration::DurationText;
use kai_api::names::{defaults, scheduling};
use kai_api::queue::{Queue, QueueResource};
use kai_core::fairness::Amounts;
use kai_core::input::QueueSpec;
use kai_core::input::queue::GpuTypeBound;
use kai_core::time::{Span, Timestamp};

use crate::problem::{Complaints, Translated, annotation_path};
use crate::selectors::non_empty;

pub fn translate(queue: &Queue) -> Translated<QueueSpec> {
    let name = queue.metadata.name.clone().unwrap_or_default();
    let mut complaints = Complaints::about(format!("Queue {name}"));
    let resources = queue.spec.resources.clone().unwrap_or_default();
    let amounts = |of: fn(&QueueResource) -> Option<f64>, unit_of_memory: bool| {
        let read =
            |resource: Option<QueueResource>| resource.as_ref().and_then(of).unwrap_or_default();
        let memory = read(resources.memory);
        let memory = if unit_of_memory {
            (memory * defaults::QUEUE_MEMORY_UNIT).max(defaults::UNLIMITED)
        } else {
            memory
        };
        Amounts::new(read(resources.cpu), memory, read(resources.gpu))
    };
    let priority = queue.spec.priority.unwrap_or(defaults::QUEUE_PRIORITY);
    let in_range = i32::try_from(priority).map_err(|_| format!("must fit 32 bits, is {priority}"));
    let priority = complaints.check(|| "spec.priority".to_owned(), in_range);
    let spec = QueueSpec {
        name: name.as_str().into(),
        display_name: non_empty(queue.spec.display_name.as_ref()),
        parent: non_empty(queue.spec.parent_queue.as_ref()),
        priority: priority.unwrap_or_default(),
        created: created(queue.metadata.creation_timestamp.as_ref()),
        quota: amounts(|resource| resource.quota, true),
        limit: amounts(|resource| resource.limit, true),
        lending_limit: lending_limit(queue, &mut complaints),
        gpu_types: gpu_types(queue, &mut complaints),
        over_quota_weight: amounts(|resource| resource.over_quota_weight, false),
        preempt_min_runtime: span(
            queue.spec.preempt_min_runtime.as_ref(),
            "spec.preemptMinRuntime",
            &mut complaints,
        ),
        reclaim_min_runtime: span(
            queue.spec.reclaim_min_runtime.as_ref(),
            "spec.reclaimMinRuntime",
            &mut complaints,
        ),
    };
    complaints.only_if_sound(spec)
}

/// How many GPUs of its unused quota other queues may use, from an annotation; the other resources are lent without bound.
fn lending_limit(queue: &Queue, complaints: &mut Complaints) -> Option<Amounts> {
    let text = queue.metadata.annotations.as_ref()?.get(scheduling::GPU_LENDING_LIMIT)?;
    let number = text.trim().parse::<f64>().ok().filter(|gpus| gpus.is_finite() && *gpus >= 0.0);
    let read = number.ok_or_else(|| format!("must be a number of GPUs of at least 0, is {text:?}"));
    let gpus = complaints.check(|| annotation_path(scheduling::GPU_LENDING_LIMIT), read)?;
    Some(Amounts::new(defaults::UNLIMITED, defaults::UNLIMITED, gpus))
}

/// Quotas and limits for single types of GPU, from annotations.
fn gpu_types(queue: &Queue, complaints: &mut Complaints) -> Vec<GpuTypeBound> {
    let mut bounds: BTreeMap<String, GpuTypeBound> = BTreeMap::new();
    let annotations = queue.metadata.annotations.as_ref();
    for key in [scheduling::GPU_TYPE_QUOTAS, scheduling::GPU_TYPE_LIMITS] {
        let Some(text) = annotations.and_then(|annotations| annotations.get(key)) else { continue };
        let read = parse_gpu_types(text);
        for (product, gpus) in complaints.check(|| annotation_path(key), read).unwrap_or_default() {
            let bound = bounds.entry(product.clone()).or_insert_with(|| GpuTypeBound {
                product: product.as_str().into(),
                quota: None,
                limit: None,
            });
            let field = if key == scheduling::GPU_TYPE_QUOTAS {
                &mut bound.quota
            } else {
                &mut bound.limit
            };
            *field = Some(gpus);
        }
    }
    bounds.into_values().collect()
}

fn parse_gpu_types(text: &str) -> Result<Vec<(String, f64)>, String> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (product, gpus) = entry.split_once('=').unwrap_or((entry, ""));
            let gpus = gpus.trim().parse::<f64>().ok();
            let gpus = gpus.filter(|gpus| gpus.is_finite() && (0.0..=1e9).contains(gpus));
            let product = product.trim();
            match gpus.filter(|_| !product.is_empty()) {
                Some(gpus) => Ok((product.to_owned(), gpus)),
                None => {
                    Err(format!("must be TYPE=GPUS,... with GPUS of at least 0, has {entry:?}"))
                }
            }
        })
        .collect()
}

/// A duration; one that cannot be read is complained about.
pub(crate) fn span(
    text: Option<&DurationText>,
    field: &str,
    complaints: &mut Complaints,
) -> Option<Span> {
    let text = text?;
    complaints.check(|| field.to_owned(), text.nanos()).map(|nanos| Span { nanos })
}

/// When an object was created; the beginning of time where it does not say.
pub(crate) fn created(
    time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
) -> Timestamp {
    let nanos = time.map(|time| i64::try_from(time.0.as_nanosecond()).unwrap_or(i64::MAX));
    Timestamp { nanos: nanos.unwrap_or_default() }
}
