//! Bind requests: what a plan decided for a pod that is bound in several steps, in KAI's words.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::{DeviceClaim, DeviceRequest, ExactDeviceRequest};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kai_api::BindRequest;
use kai_api::bind_request::{
    BindRequestSpec, ContainerMapping, ExtendedResourceClaimAllocation, FractionalGpuGroup,
    ReceivedGpu, ResourceClaimAllocation,
};
use kai_api::names::{gpu, guard, scheduling};
use kai_client::write::{named, owned_by_pod};
use kai_core::input::devices::{AllocatedDevice, Allocation};
use kai_core::input::pod::{ComputeMode, GpuRequest};
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{Step, StepKind};
use kai_core::plugins::dynamicresources::{ContainerAsk, EXTENDED_CLAIM};
use kai_core::world::World;
use kai_translate::partition::Partition;

use super::devices::Devices;
use super::pod_entry::PodEntry;

/// Longer values are refused; names of nodes may be longer.
const LONGEST_LABEL: usize = 63;

/// What a bind request is made from.
#[derive(Clone, Copy)]
pub(super) struct BindRequestSource<'a> {
    pub(super) entry: &'a PodEntry,
    pub(super) partition: &'a Partition,
    pub(super) world: &'a World,
    pub(super) devices: &'a Devices,
}

impl BindRequestSource<'_> {
    /// The request of a bind of several steps; none where the step is no bind. `gang` is the number of pods that must be ready
    /// before one is bound.
    pub(super) fn request(&self, step: &Step, gang: Option<u32>) -> Option<BindRequest> {
        let StepKind::Bind { node, gpu_groups, numa_zones, claims } = &step.kind else {
            return None;
        };
        let pod = &step.pod;
        let gpu = &self.entry.base.request.gpu;
        let (count, centi) = self.received_share(gpu, node);
        let portion = format!("{}.{:02}", centi / 100, centi % 100);
        let extended = claims.iter().find(|(name, _)| &**name == EXTENDED_CLAIM);
        let spec = BindRequestSpec {
            pod_name: Some(pod.name.to_string()),
            selected_node: Some(node.to_string()),
            received_resource_type: Some(received(gpu).to_owned()),
            received_gpu: Some(ReceivedGpu { count: Some(count), portion: Some(portion) }),
            // Binders before KAI 0.18 read the first form only.
            selected_gpu_groups: gpu_groups.iter().map(ToString::to_string).collect(),
            selected_fractional_gpu_groups: self.fractional_groups(gpu_groups),
            resource_claim_allocations: self.claim_allocations(pod, claims),
            extended_resource_claim_allocation: extended
                .map(|(_, allocation)| self.extended_allocation(pod, node, allocation)),
            predicted_numa_zones: numa_zones
                .as_ref()
                .and_then(|zones| serde_json::from_str(zones).ok())
                .unwrap_or_default(),
            backoff_limit: None,
        };
        let mut request = BindRequest::new(&pod.name, spec);
        request.metadata = self.metadata(step, node, gang);
        Some(request)
    }

    fn metadata(&self, step: &Step, node: &Text, gang: Option<u32>) -> ObjectMeta {
        let mut labels = BTreeMap::new();
        if node.len() <= LONGEST_LABEL {
            labels.insert(scheduling::SELECTED_NODE.to_owned(), node.to_string());
        }
        if let Some(pool) = self.partition.name() {
            labels.insert(self.partition.key.clone(), pool.to_owned());
        }
        ObjectMeta {
            labels: Some(labels),
            annotations: gang
                .map(|pods| [(scheduling::GANG_SIZE.to_owned(), pods.to_string())].into()),
            owner_references: Some(vec![owned_by_pod(&step.pod, &step.uid)]),
            ..named(&step.pod)
        }
    }

    /// The groups of a sharing pod with the way in which their pods share the processors, as KAI 0.18 writes them.
    fn fractional_groups(&self, groups: &[Text]) -> Vec<FractionalGpuGroup> {
        let mode = match self.entry.base.request.compute_mode {
            ComputeMode::TimeSlicing => guard::TIME_SLICING,
            ComputeMode::SmSharing => guard::SM_SHARING,
        };
        let group = |id: &Text| FractionalGpuGroup {
            id: id.to_string(),
            compute_sharing_mode: Some(mode.to_owned()),
        };
        groups.iter().map(group).collect()
    }

    /// Number of devices, and hundredths of each.
    fn received_share(&self, request: &GpuRequest, node: &Text) -> (i64, i64) {
        let facts = self.world.node_named(node).map(|id| &self.world.node(id).gpus);
        match request {
            GpuRequest::Fraction { portion, devices } => {
                (*devices, (portion * 100.0).round() as i64)
            }
            GpuRequest::Memory { mib, devices } => {
                (*devices, facts.map_or(0, |facts| facts.centi_of_memory(*mib)))
            }
            GpuRequest::Whole { count } => (*count, 100),
            _ => (0, 0),
        }
    }

    /// Devices for each claim of the pod, by the name it has there.
    fn claim_allocations(
        &self,
        pod: &ObjectName,
        claims: &[(Text, Allocation)],
    ) -> Vec<ResourceClaimAllocation> {
        let given = self.entry.claims.iter().filter_map(|(name, object)| {
            let (object, allocation) = claims.iter().find(|(claim, _)| **claim == **object)?;
            let claim = ObjectName { namespace: pod.namespace.clone(), name: object.clone() };
            let result = self.devices.result(allocation, self.devices.requested(&claim));
            Some(ResourceClaimAllocation { name: Some(name.clone()), allocation: Some(result) })
        });
        given.collect()
    }

    /// Devices for extended resources of the pod: the claim that is to be made for them, what it is given, and which
    /// container uses which request of it. A device that an init container shares with others is requested once.
    fn extended_allocation(
        &self,
        pod: &ObjectName,
        node: &Text,
        allocation: &Allocation,
    ) -> ExtendedResourceClaimAllocation {
        let asks = self.world.container_asks(pod, node);
        let device_requests: Vec<DeviceRequest> =
            asks.iter().filter(|ask| ask.own > 0).map(device_request).collect();
        let wanted =
            DeviceClaim { requests: Some(device_requests.clone()), ..DeviceClaim::default() };
        let mut once = Allocation { results: Vec::new(), nodes: allocation.nodes.clone() };
        for result in &allocation.results {
            if owner(&once.results, result).is_none() {
                once.results.push(result.clone());
            }
        }
        let names = &self.entry.containers;
        let mappings = asks.iter().flat_map(|ask| {
            let container = names.get(ask.container).map_or("", |name| &**name);
            let requests = requests_of(ask, allocation, &once.results);
            requests.into_iter().map(move |request| ContainerMapping {
                container_name: container.to_owned(),
                resource_name: ask.resource.to_string(),
                request_name: request.to_string(),
            })
        });
        ExtendedResourceClaimAllocation {
            container_mappings: mappings.collect(),
            allocation: Some(self.devices.result(&once, Some(&wanted))),
            device_requests,
        }
    }
}

fn device_request(ask: &ContainerAsk) -> DeviceRequest {
    DeviceRequest {
        name: ask.request.to_string(),
        exactly: Some(ExactDeviceRequest {
            device_class_name: ask.class.to_string(),
            allocation_mode: Some("ExactCount".to_owned()),
            count: Some(ask.own),
            ..ExactDeviceRequest::default()
        }),
        ..DeviceRequest::default()
    }
}

/// The result that has the device already.
fn owner<'a>(
    results: &'a [AllocatedDevice],
    result: &AllocatedDevice,
) -> Option<&'a AllocatedDevice> {
    results.iter().find(|known| known.device == result.device)
}

/// The requests whose devices a container uses.
fn requests_of(ask: &ContainerAsk, given: &Allocation, once: &[AllocatedDevice]) -> Vec<Text> {
    let mut requests: Vec<Text> = Vec::new();
    for result in given.results.iter().filter(|result| result.request == ask.request) {
        let request = owner(once, result).map(|owner| owner.request.clone());
        requests.extend(request.filter(|request| !requests.contains(request)));
    }
    requests
}

/// The kind of GPU resources that a pod received, as its annotation names it.
pub(super) fn received(request: &GpuRequest) -> &'static str {
    match request {
        GpuRequest::Fraction { .. } | GpuRequest::Memory { .. } => gpu::RECEIVED_FRACTION,
        GpuRequest::Mig(_) => gpu::RECEIVED_MIG,
        GpuRequest::None | GpuRequest::Whole { .. } => gpu::RECEIVED_REGULAR,
    }
}
