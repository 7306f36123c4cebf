//! Bind requests: what a plan decided for a pod that is bound in several steps, in KAI's words.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::DeviceClaim;
use kai_api::json;
use kai_api::names::{gpu, guard, scheduling};
use kai_core::input::devices::{AllocatedDevice, Allocation};
use kai_core::input::pod::{ComputeMode, GpuRequest};
use kai_core::input::{ObjectName, Text};
use kai_core::plan::{Step, StepKind};
use kai_core::plugins::dynamicresources::{ContainerAsk, EXTENDED_CLAIM};
use kai_core::world::World;
use kai_translate::partition::Partition;
use serde_json::{Value, json};

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
    /// The object that requests a bind of several steps. `gang` is the number of pods that must be ready before one is bound.
    pub(super) fn object(&self, step: &Step, gang: Option<u32>) -> Value {
        let StepKind::Bind { node, gpu_groups, numa_zones, claims } = &step.kind else {
            return Value::Null;
        };
        let pod = &step.pod;
        let request = &self.entry.base.request.gpu;
        let mut labels = BTreeMap::new();
        if node.len() <= LONGEST_LABEL {
            labels.insert(scheduling::SELECTED_NODE.to_owned(), node.to_string());
        }
        if let Some(pool) = self.partition.name() {
            labels.insert(self.partition.key.clone(), pool.to_owned());
        }
        let (count, centi) = self.received_share(request, node);
        let mut object = json!({
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": {
                "name": &*pod.name,
                "namespace": &*pod.namespace,
                "labels": labels,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": &*pod.name, "uid": &*step.uid}],
            },
            "spec": {
                "podName": &*pod.name,
                "selectedNode": &**node,
                "receivedResourceType": received(request),
                "receivedGPU": {"count": count, "portion": format!("{}.{:02}", centi / 100, centi % 100)},
                // Binders before KAI 0.18 read the first form only.
                "selectedGPUGroups": gpu_groups.iter().map(|group| &**group).collect::<Vec<_>>(),
            },
        });
        if !gpu_groups.is_empty() {
            let groups = self.fractional_groups(gpu_groups);
            json::set(&mut object, &["spec", "selectedFractionalGpuGroups"], groups);
        }
        if let Some(pods) = gang {
            let annotations = json!({scheduling::GANG_SIZE: pods.to_string()});
            json::set(&mut object, &["metadata", "annotations"], annotations);
        }
        let zones = numa_zones.as_ref().map(|zones| serde_json::from_str::<Value>(zones));
        if let Some(Ok(zones)) = zones {
            json::set(&mut object, &["spec", "predictedNUMAZones"], zones);
        }
        let allocations = self.claim_allocations(pod, claims);
        if !allocations.is_empty() {
            json::set(&mut object, &["spec", "resourceClaimAllocations"], json!(allocations));
        }
        let extended = claims.iter().find(|(name, _)| &**name == EXTENDED_CLAIM);
        if let Some((_, allocation)) = extended {
            let extended = self.extended_allocation(pod, node, allocation);
            json::set(&mut object, &["spec", "extendedResourceClaimAllocation"], extended);
        }
        object
    }

    /// The groups of a sharing pod with the way in which their pods share the processors, as KAI 0.18 writes them.
    fn fractional_groups(&self, groups: &[Text]) -> Value {
        let mode = match self.entry.base.request.compute_mode {
            ComputeMode::TimeSlicing => guard::TIME_SLICING,
            ComputeMode::SmSharing => guard::SM_SHARING,
        };
        groups.iter().map(|id| json!({"id": &**id, "computeSharingMode": mode})).collect()
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
    fn claim_allocations(&self, pod: &ObjectName, claims: &[(Text, Allocation)]) -> Vec<Value> {
        let given = self.entry.claims.iter().filter_map(|(name, object)| {
            let (object, allocation) = claims.iter().find(|(claim, _)| **claim == **object)?;
            let claim = ObjectName { namespace: pod.namespace.clone(), name: object.clone() };
            let result = self.devices.result(allocation, self.devices.requested(&claim));
            Some(json!({"name": name, "allocation": result}))
        });
        given.collect()
    }

    /// Devices for extended resources of the pod: the claim that is to be made for them, what it is given, and which
    /// container uses which request of it. A device that an init container shares with others is requested once.
    fn extended_allocation(&self, pod: &ObjectName, node: &Text, allocation: &Allocation) -> Value {
        let asks = self.world.container_asks(pod, node);
        let requests = asks.iter().filter(|ask| ask.own > 0).map(|ask| {
            let exactly = json!({"deviceClassName": &*ask.class, "allocationMode": "ExactCount", "count": ask.own});
            json!({"name": &*ask.request, "exactly": exactly})
        });
        let requests = json!(requests.collect::<Vec<_>>());
        let wanted: DeviceClaim =
            serde_json::from_value(json!({"requests": requests})).unwrap_or_default();
        let mut once = Allocation { results: Vec::new(), nodes: allocation.nodes.clone() };
        for result in &allocation.results {
            if owner(&once.results, result).is_none() {
                once.results.push(result.clone());
            }
        }
        let names = &self.entry.containers;
        let mappings = asks.iter().flat_map(|ask| {
            let container = names.get(ask.container).map_or("", |name| &**name);
            requests_of(ask, allocation, &once.results).into_iter().map(move |request| {
                json!({"containerName": container, "resourceName": &*ask.resource, "requestName": &*request})
            })
        });
        json!({
            "allocation": self.devices.result(&once, Some(&wanted)),
            "deviceRequests": requests,
            "containerMappings": mappings.collect::<Vec<_>>(),
        })
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
