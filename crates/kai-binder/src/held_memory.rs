//! What processes really hold of shared devices, as reservation pods measure it: written on pods that have a device for
//! themselves, and compared with the limits. Where processes hold more than the limits on a device allow, a program runs
//! without the library, and the pods no longer claim that their limits are enforced.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::names::guard;
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::facts::{Facts, Life, PodFacts};
use super::writes::Order;
use super::{Binder, Item};

/// Reservation pods measure more often than this: what a pod held that left the device is no longer counted then.
const CONFIRMATION: Span = seconds(60);
/// MiB for each pod that NVML shows of no process.
const SLACK_MIB: i64 = 256;
/// A text that was written and is not seen on the pod is written again after this time.
const WRITE_AGAIN: Span = seconds(60);

/// Devices on which processes hold more than limits allow: with which pods, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct ExceededLimits(BTreeMap<(Text, Text), (BTreeSet<ObjectName>, Timestamp)>);

impl ExceededLimits {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Since when these pods exceed their limits on the device.
    fn since(
        &mut self,
        device: (Text, Text),
        pods: BTreeSet<ObjectName>,
        now: Timestamp,
    ) -> Timestamp {
        let known = self.0.entry(device).or_insert_with(|| (pods.clone(), now));
        if known.0 != pods {
            *known = (pods, now);
        }
        known.1
    }
}

/// Pods on a device, and what is known of their memory.
struct DeviceUse {
    device: Text,
    held_mib: i64,
    pods: BTreeSet<ObjectName>,
    /// Sum of the limits; none: a pod on the device is not limited, or its limit is not known.
    limits_mib: Option<i64>,
}

impl Facts {
    /// MiB that processes hold of a device, where its reservation pod measures it.
    pub(super) fn held_mib(&self, node: &Text, device: &str) -> Option<i64> {
        let reservations = self.devices_of_node(node).filter_map(|key| self.reservation(key));
        let mut own = reservations.filter(|(_, one)| one.device.as_deref() == Some(device));
        own.find_map(|(_, one)| one.held_mib)
    }

    fn device_uses(&self, node: &Text) -> Vec<DeviceUse> {
        let keys = self.devices_of_node(node);
        let devices: BTreeSet<Text> =
            keys.filter_map(|key| self.reservation(key)?.1.device.clone()).collect();
        let total = self.gpus(node).map_or(0, |gpus| gpus.memory_mib);
        let of = |device: Text| {
            let held_mib = self.held_mib(node, &device)?;
            let tenants = self.tenants(node, &device, total);
            let pods: BTreeSet<ObjectName> =
                tenants.into_iter().map(|(name, _)| name.clone()).collect();
            let mut limits = pods.iter().map(|name| enforced_mib(self.pod(name)?, &device));
            let limits_mib = limits.try_fold(0_i64, |sum, mib| Some(sum.saturating_add(mib?)));
            Some(DeviceUse { device, held_mib, pods, limits_mib })
        };
        devices.into_iter().filter_map(of).collect()
    }
}

/// The limit that the library keeps on a device, in MiB.
fn enforced_mib(pod: &PodFacts, device: &str) -> Option<i64> {
    if pod.limits.status.as_deref() != Some(guard::ENFORCED) {
        return None;
    }
    let (_, text) = pod.limits.text.as_ref()?;
    let start = format!("device={device},");
    let word = text.split(' ').find_map(|word| word.strip_prefix(&start))?;
    let limit = word.split(',').find_map(|part| part.strip_prefix("limit="))?;
    limit.parse().ok()
}

impl Binder {
    /// Writes on pods what their processes hold, and corrects the status of pods whose limits are exceeded.
    pub(super) fn compare_held_memory(&mut self, node: &Text, now: Timestamp) {
        let uses = self.facts.device_uses(node);
        let mut wanted: BTreeMap<(ObjectName, &str), String> = BTreeMap::new();
        for DeviceUse { device, held_mib, pods, limits_mib } in uses {
            if let Some(only) = pods.first().filter(|_| pods.len() == 1) {
                let used = wanted.entry((only.clone(), guard::USED)).or_default();
                let comma = if used.is_empty() { "" } else { "," };
                *used = format!("{used}{comma}{device}={held_mib}");
            }
            let place = (node.clone(), device.clone());
            let slack_mib = SLACK_MIB * pods.len() as i64;
            let Some(limits_mib) =
                limits_mib.filter(|mib| held_mib > mib.saturating_add(slack_mib))
            else {
                self.exceeded.0.remove(&place);
                continue;
            };
            let since = self.exceeded.since(place, pods.clone(), now);
            if now < since.plus(CONFIRMATION) {
                self.look_again_at(since.plus(CONFIRMATION), Item::Node(node.clone()));
                continue;
            }
            let status = exceeded(&device, held_mib, limits_mib, pods.len());
            wanted.extend(pods.into_iter().map(|pod| ((pod, guard::STATUS), status.clone())));
        }
        for ((pod, key), text) in wanted {
            self.annotate_tenant(pod, key, text, now);
        }
    }

    /// Writes an annotation on a pod that does not show it yet.
    fn annotate_tenant(&mut self, name: ObjectName, key: &str, text: String, now: Timestamp) {
        let Some(pod) = self.facts.pod(&name).filter(|pod| pod.life == Life::Alive) else { return };
        let shown = match key {
            guard::USED => pod.limits.used_text.as_ref(),
            _ => pod.limits.status.as_ref(),
        };
        let place = (name.clone(), key.to_owned());
        if shown == Some(&text) {
            self.limits_written.remove(&place);
            return;
        }
        let known = self.limits_written.get(&place);
        if known.is_some_and(|(written, again)| *written == text && now < *again) {
            return;
        }
        let (uid, key) = (pod.uid.clone(), key.to_owned());
        self.limits_written.insert(place, (text.clone(), now.plus(WRITE_AGAIN)));
        self.orders.push(Order::Limit { pod: name, uid, key, text });
    }
}

fn exceeded(device: &str, held_mib: i64, limits_mib: i64, pods: usize) -> String {
    let whose = if pods == 1 {
        "its limit is".to_owned()
    } else {
        format!("the limits of {pods} pods sum to")
    };
    format!(
        "{}processes hold {held_mib} MiB of {device}, {whose} {limits_mib} MiB: a program runs without the library (static, musl, or a loader of its own)",
        guard::NOT_ENFORCEABLE
    )
}

#[cfg(test)]
mod tests {
    use kai_client::watch::Change;
    use kai_translate::view;
    use serde_json::{Value, json};

    use super::*;
    use crate::BinderSettings;
    use crate::facts::NEEDED;

    fn pod(object: Value) -> Change {
        Change::Pod(Box::new(serde_json::from_value::<view::Pod>(object).expect("a pod")))
    }

    fn reservation(version: &str, held_mib: &str) -> Change {
        pod(json!({
            "metadata": {"name": "r", "namespace": "kai-resource-reservation", "uid": "r", "resourceVersion": version,
                "labels": {"app": "kai-resource-reservation", "runai-gpu-group": "g"},
                "annotations": {"run.ai/reserve_for_gpu_index": "GPU-1", "kai.scheduler/gpu-memory-held-mib": held_mib}},
            "spec": {"nodeName": "n"},
        }))
    }

    fn tenant(name: &str, status: &str) -> Change {
        let limits = "v1 mode=enforce device=GPU-1,limit=4000";
        pod(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": "1", "labels": {"runai-gpu-group": "g"},
                "annotations": {"gpu-memory": "4000", "kai.scheduler/gpu-devices": "g=GPU-1",
                    "kai.scheduler/gpu-memory-enforcement-status": status,
                    "kai.scheduler/container.main.gpu-memory-limits": limits}},
            "spec": {"nodeName": "n", "schedulerName": "kai-scheduler"},
        }))
    }

    fn binder(pods: &[Change]) -> Binder {
        let mut binder = Binder::new(BinderSettings::default());
        let node = json!({
            "metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": "32600", "nvidia.com/gpu.count": "1"}},
            "status": {"allocatable": {"nvidia.com/gpu": "1"}},
        });
        binder.apply(&Change::Node(Box::new(serde_json::from_value(node).expect("a node"))));
        let listed = NEEDED.map(Change::Listed);
        for change in pods.iter().chain(&listed) {
            binder.apply(change);
        }
        binder
    }

    /// Annotations that are written on pods at this moment.
    fn written(binder: &mut Binder, second: i64) -> Vec<(String, String, String)> {
        binder.step(Timestamp { nanos: second * 1_000_000_000 });
        let orders = binder.take_orders().into_iter();
        let annotations = orders.filter_map(|order| match order {
            Order::Limit { pod, key, text, .. } => Some((pod.name.to_string(), key, text)),
            _ => None,
        });
        annotations.collect()
    }

    #[test]
    fn pod_that_exceeds_its_limit_for_a_minute_is_not_enforceable() {
        let mut binder = binder(&[reservation("1", "9000"), tenant("p", "enforced")]);
        let used = ("p".to_owned(), guard::USED.to_owned(), "GPU-1=9000".to_owned());
        assert_eq!(written(&mut binder, 0), [used], "what another pod held may not be freed yet");
        assert_eq!(written(&mut binder, 59), []);
        let corrected = written(&mut binder, 60);
        assert_eq!(
            corrected
                .iter()
                .map(|(_, key, text)| (key.as_str(), text.as_str()))
                .collect::<Vec<_>>(),
            [
                (
                    guard::STATUS,
                    "not enforceable: processes hold 9000 MiB of GPU-1, its limit is 4000 MiB: a program runs without the library (static, musl, or a loader of its own)"
                ),
                (guard::USED, "GPU-1=9000"),
            ]
        );
    }

    #[test]
    fn memory_that_is_freed_in_time_and_memory_within_limits_correct_nothing() {
        let mut freed = binder(&[reservation("1", "9000"), tenant("p", "enforced")]);
        written(&mut freed, 0);
        freed.apply(&reservation("2", "4100"));
        assert!(written(&mut freed, 30).iter().all(|(_, key, _)| key == guard::USED));
        assert!(written(&mut freed, 120).iter().all(|(_, key, _)| key == guard::USED));
        let two = [reservation("1", "8200"), tenant("p", "enforced"), tenant("q", "enforced")];
        let mut two = binder(&two);
        assert_eq!(written(&mut two, 0), [], "two pods: which of them holds it is not known");
        assert_eq!(written(&mut two, 100), []);
        two.apply(&reservation("2", "12000"));
        written(&mut two, 101);
        let corrected = written(&mut two, 161);
        assert_eq!(corrected.len(), 2, "{corrected:?}");
        assert!(corrected[0].2.contains("the limits of 2 pods sum to 8000 MiB"), "{corrected:?}");
    }

    #[test]
    fn pods_beside_a_pod_without_limit_stay_enforced() {
        let mut mixed =
            binder(&[reservation("1", "30000"), tenant("p", "enforced"), tenant("q", "off")]);
        written(&mut mixed, 0);
        assert_eq!(written(&mut mixed, 100), []);
    }
}
