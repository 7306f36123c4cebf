//! GPU request of a pod in the planner's words.

use kai_api::gpu_request::{self, GpuAnnotations, GpuReading, GpuResources, GpuShare, is_device};
use kai_api::names::guard;
use kai_core::input::Text;
use kai_core::input::pod::{ComputeMode, GpuRequest};

use crate::amounts::Amounts;
use crate::problem::{Complaints, annotation_path};
use crate::view;

/// What a pod asks of GPUs.
pub(super) struct Wanted {
    pub(super) gpu: GpuRequest,
    pub(super) legacy_mig: bool,
    pub(super) compute_mode: ComputeMode,
}

/// The request of a pod whose containers request these amounts.
pub(super) fn request(pod: &view::Pod, amounts: &Amounts, complaints: &mut Complaints) -> Wanted {
    let compute_mode = compute_mode(pod, complaints);
    let mig = amounts.mig.iter().map(|(name, count)| (name.to_string(), *count));
    let resources = GpuResources { whole: amounts.gpus, mig: mig.collect(), ..resources(pod) };
    let reading = GpuAnnotations::of(&pod.metadata.annotations).read(resources);
    for problem in reading.problems {
        complaints.add(problem.field, problem.message);
    }
    let legacy_mig =
        matches!(reading.request, gpu_request::GpuRequest::Mig { by_annotation: true, .. });
    Wanted { gpu: planned(reading.request), legacy_mig, compute_mode }
}

/// The share of devices that a pod requests, with what is wrong with it; none for a pod that requests no share. Amounts of
/// other devices are not read.
pub fn shared_gpus(pod: &view::Pod) -> Option<GpuReading> {
    let annotations = GpuAnnotations::of(&pod.metadata.annotations);
    annotations.request_share().then(|| annotations.read(resources(pod)))
}

/// What the pod names beside its annotations, without amounts.
fn resources(pod: &view::Pod) -> GpuResources {
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let is_named = containers.any(|container| {
        let lists = [&container.resources.requests, &container.resources.limits];
        lists.into_iter().flat_map(|list| list.keys()).any(|name| is_device(name))
    });
    let has_claims = !pod.spec.resource_claims.is_empty();
    GpuResources { is_named, has_claims, ..GpuResources::default() }
}

/// The request in the planner's words. Claims are planned by their own objects.
fn planned(request: gpu_request::GpuRequest) -> GpuRequest {
    use gpu_request::GpuRequest as Read;
    match request {
        Read::None | Read::Claim => GpuRequest::None,
        Read::Whole { count } => GpuRequest::Whole { count },
        Read::Shared { share: GpuShare::Fraction(portion), devices } => {
            GpuRequest::Fraction { portion, devices }
        }
        Read::Shared { share: GpuShare::Memory(mib), devices } => {
            GpuRequest::Memory { mib, devices }
        }
        Read::Mig { instances, .. } => {
            let named = instances.into_iter().map(|(name, count)| (Text::from(name), count));
            GpuRequest::Mig(named.collect())
        }
    }
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
