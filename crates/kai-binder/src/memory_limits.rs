//! Limits of the GPU memory of sharing pods: what the library in the pod and NVIDIA's driver read when a pod is bound,
//! and whether the limit is kept. The format of the limits file is that of `crates/kai-guard/README.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kai_api::enforcement::Enforcement;
use kai_api::gpu_request::GpuShare;
use kai_api::names::{gpu, guard};
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::gpus::share_mib;
use kai_translate::time::seconds;
use kai_translate::view;

use super::facts::{Life, NodeFacts, PodFacts};
use super::request::Request;
use super::writes::Order;
use super::{Binder, Item, sharing};

/// A text that was written and is not seen on the pod is written again after this time.
const WRITE_AGAIN: Span = seconds(60);
/// The word of a device with the requests of its other pods.
const NEIGHBORS: &str = "neighbors=";

/// What a pod on a node shows about its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodLimits {
    /// Whether the limit is kept.
    pub(super) status: Option<String>,
    /// Key and text of the annotation with the limits.
    pub(super) text: Option<(String, String)>,
    /// MiB that its processes hold, by device; empty: not reported.
    pub(super) used_mib: BTreeMap<String, i64>,
    /// The same as it is written.
    pub(super) used_text: Option<String>,
}

impl PodLimits {
    pub(super) fn read(annotations: &BTreeMap<String, String>) -> Self {
        let is_limits = |key: &str| {
            key.starts_with(guard::CONTAINER_PREFIX) && key.ends_with(guard::LIMITS_SUFFIX)
        };
        let text = annotations.iter().find(|(key, _)| is_limits(key));
        Self {
            status: annotations.get(guard::STATUS).cloned(),
            text: text.map(|(key, text)| (key.clone(), text.clone())),
            used_text: annotations.get(guard::USED).cloned(),
            used_mib: annotations.get(guard::USED).map(|used| read_used(used)).unwrap_or_default(),
        }
    }
}

/// `device=MiB,device=MiB`.
fn read_used(text: &str) -> BTreeMap<String, i64> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(device, mib)| Some((device.to_owned(), mib.parse().ok()?))).collect()
}

/// Request and limit of one pod on each of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amounts {
    request_mib: i64,
    limit_mib: i64,
}

/// A limit above the request, of the pod or of the container.
fn limit_share(pod: &view::Pod, container: &str) -> Option<GpuShare> {
    let annotation = |key: &str| pod.metadata.annotations.get(key);
    if let Some(mib) = annotation(guard::MEMORY_LIMIT) {
        return mib.parse().ok().map(GpuShare::Memory);
    }
    let own = format!("{}{container}{}", guard::CONTAINER_PREFIX, guard::PORTION_LIMIT_SUFFIX);
    let portion = annotation(guard::FRACTION_LIMIT).or_else(|| annotation(&own))?;
    portion.parse().ok().map(GpuShare::Fraction)
}

/// The library was put into the container when the pod was created.
fn has_library(container: &view::Container) -> bool {
    container.volume_mounts.iter().any(|mount| mount.name == guard::LIBRARY_VOLUME)
}

/// CUDA knows the device by this name.
fn is_uuid(device: &str) -> bool {
    let digits = device.strip_prefix("GPU-").or_else(|| device.strip_prefix("MIG-"));
    let hexadecimal = |one: &char| one.is_ascii_hexdigit();
    let is_digit_or_hyphen = |one: char| one == '-' || one.is_ascii_hexdigit();
    digits.is_some_and(|digits| {
        digits.chars().all(is_digit_or_hyphen) && digits.chars().filter(hexadecimal).count() == 32
    })
}

/// The text with the requests of others on each device; a device without that word stays as it is.
fn with_neighbors(text: &str, neighbors_mib: impl Fn(&str) -> Option<i64>) -> String {
    let word = |word: &str| {
        let device = word.strip_prefix("device=").and_then(|rest| rest.split(',').next());
        let Some(mib) = device.and_then(&neighbors_mib) else { return word.to_owned() };
        let parts = word.split(',').map(|part| match part.strip_prefix(NEIGHBORS) {
            Some(_) => format!("{NEIGHBORS}{mib}"),
            None => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join(",")
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl Binder {
    /// Annotations about limits of GPU memory that a sharing pod is bound with. Its devices are given by group.
    pub(super) fn limit_annotations(
        &self,
        request: &Request,
        pod: &PodFacts,
        devices: &[(Text, Text)],
    ) -> BTreeMap<Cow<'static, str>, String> {
        let mut annotations = BTreeMap::new();
        let Some(view) = &pod.view else { return annotations };
        let Some(container) = sharing::sharing_container(view) else { return annotations };
        let amounts = self.amounts(request, pod, &container.name);
        let driver_limits = match (&amounts, self.facts.node(&request.node)) {
            (Ok(amounts), Some(node)) if self.driver_limits_memory(node) => {
                annotations.extend(self.nvidia_annotations(node, container, *amounts, devices));
                true
            }
            _ => false,
        };
        let said = view.metadata.annotations.get(guard::ENFORCEMENT);
        let said = said.and_then(|said| Enforcement::named(said)).unwrap_or_default();
        let mode = said.max(self.settings.enforcement);
        let judged = amounts
            .and_then(|amounts| library_problem(container, devices, mode).map_or(Ok(amounts), Err));
        let status = match &judged {
            _ if driver_limits => guard::ENFORCED.to_owned(),
            _ if mode == Enforcement::Off => guard::OFF.to_owned(),
            Err(why) => format!("{}{why}", guard::NOT_ENFORCEABLE),
            Ok(_) => format!("{}{}", guard::NOT_OBSERVED, self.why_not_observed()),
        };
        annotations.insert(guard::STATUS.into(), status);
        if has_library(container) {
            let text = match judged {
                Ok(amounts) => self.limits_text(request, mode, amounts, devices),
                Err(_) => format!("v1 mode={}", Enforcement::Off.name()),
            };
            annotations.insert(guard::limits_annotation(&container.name).into(), text);
        }
        annotations
    }

    /// Why it is not known whether the library limits the processes of a pod that is bound now.
    fn why_not_observed(&self) -> &'static str {
        if self.settings.observes_processes() {
            guard::UNUSED
        } else {
            "reservation pods do not see processes, set resourceReservation.observeProcesses"
        }
    }

    fn amounts(
        &self,
        request: &Request,
        pod: &PodFacts,
        container: &str,
    ) -> Result<Amounts, String> {
        let share = pod.share.ok_or("the pod asks for no GPU memory")?;
        let limit = pod.view.as_ref().and_then(|view| limit_share(view, container));
        let gpus = self.facts.gpus(&request.node).filter(|gpus| gpus.memory_known);
        let Some(gpus) = gpus else {
            return match (share, limit) {
                (GpuShare::Memory(mib), None) => Ok(Amounts { request_mib: mib, limit_mib: mib }),
                _ => Err(format!("node {} does not report its GPU memory", request.node)),
            };
        };
        let request_mib = share_mib(share, gpus.memory_mib);
        let limit_mib = limit.map_or(request_mib, |limit| share_mib(limit, gpus.memory_mib));
        Ok(Amounts { request_mib, limit_mib: limit_mib.min(gpus.memory_mib).max(request_mib) })
    }

    /// The limits file of the container. What others request of a device is written only where the pod may burst.
    fn limits_text(
        &self,
        request: &Request,
        mode: Enforcement,
        amounts: Amounts,
        devices: &[(Text, Text)],
    ) -> String {
        let Amounts { request_mib, limit_mib } = amounts;
        let device = |(_, device): &(Text, Text)| {
            let limit = format!("device={device},limit={limit_mib}");
            if limit_mib == request_mib {
                return limit;
            }
            let neighbors = self.mib_of_others(&request.node, device, &request.pod);
            format!("{limit},request={request_mib},{NEIGHBORS}{neighbors}")
        };
        let words: Vec<String> = devices.iter().map(device).collect();
        format!("v1 mode={} {}", mode.name(), words.join(" "))
    }

    /// MiB that pods other than this one request of a device.
    fn mib_of_others(&self, node: &Text, device: &Text, pod: &ObjectName) -> i64 {
        let total = self.facts.gpus(node).map_or(0, |gpus| gpus.memory_mib);
        let tenants = self.facts.tenants(node, device, total).into_iter();
        tenants.filter(|(name, _)| *name != pod).map(|(_, mib)| mib).sum()
    }

    /// NVIDIA's driver on the node keeps limits itself, and is asked to.
    fn driver_limits_memory(&self, node: &NodeFacts) -> bool {
        let label = node.view.metadata.labels.get(guard::DRIVER_MAJOR);
        let major: Option<u32> = label.and_then(|text| text.parse().ok());
        self.settings.nv_fractions && major.is_some_and(|one| one >= guard::FIRST_LIMITING_DRIVER)
    }

    /// What NVIDIA's driver support reads.
    fn nvidia_annotations(
        &self,
        node: &NodeFacts,
        container: &view::Container,
        amounts: Amounts,
        devices: &[(Text, Text)],
    ) -> [(Cow<'static, str>, String); 3] {
        let prefix = if self.uses_cdi(node) { gpu::CDI_DEVICE_PREFIX } else { "" };
        let names: Vec<String> = devices.iter().map(|(_, one)| format!("{prefix}{one}")).collect();
        let key = |suffix: &str| {
            Cow::from(format!("{}{}{suffix}", guard::NVIDIA_CONTAINER_PREFIX, container.name))
        };
        [
            (key(guard::NVIDIA_REQUEST_SUFFIX), format!("{}Mi", amounts.request_mib)),
            (key(guard::NVIDIA_LIMIT_SUFFIX), format!("{}Mi", amounts.limit_mib)),
            (key(guard::NVIDIA_DEVICES_SUFFIX), names.join(",")),
        ]
    }

    /// Pods on the node that may burst learn what their neighbours request now.
    pub(super) fn refresh_limits(&mut self, node: &Text, now: Timestamp) {
        let mut wanted: BTreeMap<ObjectName, (Text, String, String)> = BTreeMap::new();
        for (_, users) in self.facts.users_on(node) {
            for name in users {
                let Some(pod) = self.facts.pod(name).filter(|pod| pod.life == Life::Alive) else {
                    continue;
                };
                let Some((key, shown)) = &pod.limits.text else { continue };
                if !shown.contains(NEIGHBORS) {
                    continue;
                }
                let others = |device: &str| Some(self.mib_of_others(node, &device.into(), name));
                let text = with_neighbors(shown, others);
                if text == *shown {
                    self.limits_written.remove(&(name.clone(), key.clone()));
                } else {
                    wanted.insert(name.clone(), (pod.uid.clone(), key.clone(), text));
                }
            }
        }
        for (pod, (uid, key, text)) in wanted {
            let place = (pod.clone(), key.clone());
            let known = self.limits_written.get(&place);
            if known.is_some_and(|(written, again)| *written == text && now < *again) {
                continue;
            }
            let again = now.plus(WRITE_AGAIN);
            self.limits_written.insert(place, (text.clone(), again));
            self.look_again_at(again, Item::Node(node.clone()));
            self.orders.push(Order::Limit { pod, uid, key, text });
        }
    }
}

/// Why the library cannot keep the limit.
fn library_problem(
    container: &view::Container,
    devices: &[(Text, Text)],
    mode: Enforcement,
) -> Option<String> {
    if mode == Enforcement::Off {
        return None;
    }
    if !has_library(container) {
        let name = &container.name;
        return Some(format!("container {name} was created without the library"));
    }
    let (_, device) = devices.iter().find(|(_, device)| !is_uuid(device))?;
    Some(format!("device {device} has no UUID"))
}

#[cfg(test)]
mod tests {
    use kai_client::kinds::Kind;
    use kai_client::watch::Change;
    use kai_settings::binder::BinderSettings;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_of_neighbours_are_replaced_by_device() {
        let text =
            "v1 mode=enforce device=GPU-a,limit=9,request=4,neighbors=1 device=GPU-b,limit=9";
        let changed = with_neighbors(text, |device| (device == "GPU-a").then_some(7));
        assert_eq!(
            changed,
            "v1 mode=enforce device=GPU-a,limit=9,request=4,neighbors=7 device=GPU-b,limit=9"
        );
        assert_eq!(with_neighbors(text, |_| None), text);
    }

    const DEVICE: &str = "GPU-00000001-0000-4000-8000-000000000000";

    /// Annotations of NVIDIA's driver support that a pod is bound with.
    fn nvidia_annotations(
        driver: &str,
        nv_fractions: bool,
        pod: &Value,
    ) -> BTreeMap<String, String> {
        let settings = BinderSettings { nv_fractions, ..BinderSettings::default() };
        let mut binder = Binder::new(settings);
        let node = json!({
            "metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": "32600", guard::DRIVER_MAJOR: driver}},
            "status": {"allocatable": {"nvidia.com/gpu": "1"}},
        });
        binder.apply(&Change::Node(Box::new(serde_json::from_value(node).expect("a node"))));
        let pod = json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "u", "annotations": pod},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]},
        });
        binder.apply(&Change::Pod(Box::new(serde_json::from_value(pod).expect("a pod"))));
        let request = json!({
            "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
            "metadata": {"name": "r", "namespace": "a"},
            "spec": {"podName": "p", "selectedNode": "n", "receivedResourceType": "Fraction", "selectedGPUGroups": ["g"]},
        });
        binder.apply(&Change::decode(Kind::BindRequest, request));
        let request = binder.facts.request(&ObjectName::new("a", "r")).expect("the request");
        let pod = binder.facts.pod(&ObjectName::new("a", "p")).expect("the pod");
        let devices = [("g".into(), DEVICE.into())];
        let all = binder.limit_annotations(request, pod, &devices).into_iter();
        let nvidia = all.filter(|(key, _)| key.starts_with(guard::NVIDIA_CONTAINER_PREFIX));
        nvidia.map(|(key, text)| (key.into_owned(), text)).collect()
    }

    #[test]
    fn drivers_that_limit_memory_receive_request_limit_and_devices() {
        let requested = json!({"gpu-memory": "4000", "gpu-memory.limit": "8000"});
        let written = nvidia_annotations("615", true, &requested);
        let expected = [
            ("nvidia.com/container.main.gpu-memory.limit", "8000Mi"),
            ("nvidia.com/container.main.gpu-memory.request", "4000Mi"),
            ("nvidia.com/container.main.gpus.devices", DEVICE),
        ];
        let expected = expected.map(|(key, text)| (key.to_owned(), text.to_owned()));
        assert_eq!(written, BTreeMap::from(expected));
        let half = nvidia_annotations("620", true, &json!({"gpu-fraction": "0.5"}));
        assert_eq!(half["nvidia.com/container.main.gpu-memory.request"], "16300Mi");
        for (driver, nv_fractions) in [("580", true), ("", true), ("615", false)] {
            let none = nvidia_annotations(driver, nv_fractions, &requested);
            assert!(none.is_empty(), "driver {driver:?}, NvFractions {nv_fractions}: {none:?}");
        }
    }

    #[test]
    fn only_names_that_cuda_knows_are_uuids() {
        assert!(is_uuid("GPU-00000001-0000-4000-8000-000000000000"));
        assert!(is_uuid("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"));
        assert!(
            !is_uuid("GPU-1")
                && !is_uuid("0")
                && !is_uuid("GPU-0000000g-0000-4000-8000-000000000000")
        );
    }
}
