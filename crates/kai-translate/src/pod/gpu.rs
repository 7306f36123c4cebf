//! What a pod asks of GPUs: containers first, annotations override.

use std::collections::BTreeMap;

use kai_api::names::{gpu, guard};
use kai_core::input::Text;
use kai_core::input::pod::{ComputeMode, GpuRequest};

use crate::problem::{Complaints, annotation_path};
use crate::view;

/// What a pod asks of GPUs.
pub(super) struct Wanted {
    pub(super) gpu: GpuRequest,
    pub(super) legacy_mig: bool,
    pub(super) compute_mode: ComputeMode,
}

pub(super) fn request(
    pod: &view::Pod,
    count: i64,
    mig: BTreeMap<Text, i64>,
    complaints: &mut Complaints,
) -> Wanted {
    let compute_mode = compute_mode(pod, complaints);
    let legacy = legacy_mig(pod, complaints);
    let legacy_mig = legacy.is_some();
    let mig = legacy.unwrap_or_else(|| mig.into_iter().filter(|(_, count)| *count != 0).collect());
    if !mig.is_empty() || legacy_mig {
        return Wanted { gpu: GpuRequest::Mig(mig), legacy_mig, compute_mode };
    }
    let gpu = shared(pod, complaints).unwrap_or(match count {
        0 => GpuRequest::None,
        count => GpuRequest::Whole { count },
    });
    Wanted { gpu, legacy_mig, compute_mode }
}

/// How the pod shares the processors of its devices, by the annotation of one of its containers.
fn compute_mode(pod: &view::Pod, complaints: &mut Complaints) -> ComputeMode {
    let is_mode = |key: &str| {
        key.starts_with(guard::NVIDIA_CONTAINER_PREFIX)
            && key.ends_with(guard::NVIDIA_COMPUTE_SUFFIX)
    };
    let annotation = pod.metadata.annotations.iter().find(|(key, _)| is_mode(key));
    let Some((key, text)) = annotation else { return ComputeMode::default() };
    let read = match text.as_str() {
        guard::TIME_SLICING => Ok(ComputeMode::TimeSlicing),
        guard::SM_SHARING => Ok(ComputeMode::SmSharing),
        other => {
            Err(format!("must be {} or {}, is {other:?}", guard::TIME_SLICING, guard::SM_SHARING))
        }
    };
    complaints.check(|| annotation_path(key), read).unwrap_or_default()
}

/// A part of each of several devices.
fn shared(pod: &view::Pod, complaints: &mut Complaints) -> Option<GpuRequest> {
    let annotation = |key: &str| pod.metadata.annotations.get(key);
    let devices = match annotation(gpu::FRACTION_NUM_DEVICES) {
        Some(text) => {
            let read = positive(text);
            complaints.check(|| annotation_path(gpu::FRACTION_NUM_DEVICES), read)?
        }
        None => 1,
    };
    if let Some(text) = annotation(gpu::FRACTION) {
        let portion = complaints.check(|| annotation_path(gpu::FRACTION), portion(text))?;
        return Some(GpuRequest::Fraction { portion, devices });
    }
    let text = annotation(gpu::MEMORY)?;
    let mib = complaints.check(|| annotation_path(gpu::MEMORY), positive(text))?;
    Some(GpuRequest::Memory { mib, devices })
}

fn portion(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| format!("must be a number above 0 and at most 1, is {text:?}"))
}

fn positive(text: &str) -> Result<i64, String> {
    let number = text.parse::<i64>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("must be a whole number above 0, is {text:?}"))
}

/// MIG instances asked for by annotation, as older releases did.
fn legacy_mig(pod: &view::Pod, complaints: &mut Complaints) -> Option<Vec<(Text, i64)>> {
    let annotations = pod.metadata.annotations.iter();
    let mig = annotations.filter(|(key, _)| key.starts_with(gpu::MIG_PREFIX));
    let profiles: Vec<(Text, i64)> = mig
        .filter_map(|(key, text)| {
            let count = complaints.check(|| annotation_path(key), positive(text))?;
            Some((key.as_str().into(), count))
        })
        .collect();
    (!profiles.is_empty()).then_some(profiles)
}
