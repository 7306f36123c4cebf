//! What processes really hold of shared devices, as reservation pods measure it, and whether the library limits them.
//!
//! A reservation pod that sees the processes of its node says which pods they belong to: the memory of each pod is known, and
//! its status follows what was observed. Other reservation pods report one sum for the device: it is written on a pod that has
//! the device for itself, and where it exceeds all limits on the device, a program runs without the library.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::gpu_processes::{ObservedGuard, PodProcesses};
use kai_api::names::guard;
use kai_core::input::{ObjectName, Text};
use kai_core::time::{Span, Timestamp};
use kai_translate::time::seconds;

use super::facts::{Facts, Life, PodFacts};
use super::reservation::Reservation;
use super::writes::Order;
use super::{Binder, Item};

/// Reservation pods measure more often than this: what a pod held that left the device is no longer counted then.
const CONFIRMATION: Span = seconds(60);
/// MiB for each pod that NVML shows of no process.
const SLACK_MIB: i64 = 256;
/// A text that was written and is not seen on the pod is written again after this time.
const WRITE_AGAIN: Span = seconds(60);

/// Pods whose processes hold more of a device than limits allow, by node and device: with which pods, and since when.
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

/// Memory of a device that is known to be held by these pods: one pod where processes are observed, else all of the device.
struct MeasuredUse {
    device: Text,
    held_mib: i64,
    pods: BTreeSet<ObjectName>,
    /// Sum of the limits; none: a pod is not limited, or its limit is not known.
    limits_mib: Option<i64>,
}

impl MeasuredUse {
    /// Key of this use among the uses on a node.
    fn place(&self, node: &Text, is_of_one_pod: bool) -> (Text, Text) {
        let place = match self.pods.first().filter(|_| is_of_one_pod) {
            Some(pod) => format!("{} {pod}", self.device).as_str().into(),
            None => self.device.clone(),
        };
        (node.clone(), place)
    }
}

impl Facts {
    fn reservations_on<'a>(
        &'a self,
        node: &'a Text,
        device: &'a str,
    ) -> impl Iterator<Item = &'a Reservation> {
        let all = self.devices_of_node(node).filter_map(|key| self.reservation(key));
        all.map(|(_, one)| one).filter(move |one| one.device.as_deref() == Some(device))
    }

    /// MiB that processes hold of a device, where its reservation pod measures it.
    pub(super) fn held_mib(&self, node: &Text, device: &str) -> Option<i64> {
        self.reservations_on(node, device).find_map(|one| one.held_mib)
    }

    /// Pods whose processes use a device, where its reservation pod observes them.
    fn processes(&self, node: &Text, device: &str) -> Option<Vec<PodProcesses>> {
        self.reservations_on(node, device).find_map(|one| one.processes.clone())
    }

    fn shared_devices(&self, node: &Text) -> BTreeSet<Text> {
        let keys = self.devices_of_node(node);
        keys.filter_map(|key| self.reservation(key)?.1.device.clone()).collect()
    }

    fn tenant_names(&self, node: &Text, device: &Text) -> BTreeSet<ObjectName> {
        let total = self.gpus(node).map_or(0, |gpus| gpus.memory_mib);
        let tenants = self.tenants(node, device, total).into_iter();
        tenants.map(|(name, _)| name.clone()).collect()
    }

    /// Sum of the limits that the library keeps on a device.
    fn limits_mib(&self, pods: &BTreeSet<ObjectName>, device: &str) -> Option<i64> {
        let mut limits = pods.iter().map(|name| limit_mib(self.pod(name)?, device));
        limits.try_fold(0_i64, |sum, mib| Some(sum.saturating_add(mib?)))
    }
}

/// The limit that the library keeps on a device, in MiB, unless it is known not to.
fn limit_mib(pod: &PodFacts, device: &str) -> Option<i64> {
    let status = pod.limits.status.as_deref()?;
    if status != guard::ENFORCED && !status.starts_with(guard::NOT_OBSERVED) {
        return None;
    }
    let (_, text) = pod.limits.text.as_ref().filter(|(_, text)| is_enforcing(text))?;
    let start = format!("device={device},");
    let word = text.split(' ').find_map(|word| word.strip_prefix(&start))?;
    let limit = word.split(',').find_map(|part| part.strip_prefix("limit="))?;
    limit.parse().ok()
}

fn is_enforcing(limits: &str) -> bool {
    limits.split(' ').any(|word| word == "mode=enforce")
}

/// The status says that no process used the GPU so far: it may still become anything.
fn is_of_unused_gpu(status: &str) -> bool {
    let reason = status.strip_prefix(guard::NOT_ENFORCEABLE);
    status.starts_with(guard::NOT_OBSERVED)
        || reason.is_some_and(|reason| [guard::NO_LIBRARY, guard::NO_CUDA].contains(&reason))
}

/// The status of a pod that follows from its processes. None: what it shows stays. A pod that used the GPU without the
/// library can do so again, so that it never becomes enforced.
fn observed_status(pod: &PodFacts, processes_of_pod: &PodProcesses) -> Option<String> {
    let (_, limits) = pod.limits.text.as_ref()?;
    let shown = pod.limits.status.as_deref().unwrap_or_default();
    let is_unused = is_of_unused_gpu(shown);
    if (shown.starts_with(guard::NOT_ENFORCEABLE) && !is_unused) || shown == guard::OFF {
        return None;
    }
    Some(match processes_of_pod.guard {
        ObservedGuard::Idle if is_unused => format!("{}{}", guard::NOT_OBSERVED, guard::UNUSED),
        ObservedGuard::NoCuda if is_unused => {
            format!("{}{}", guard::NOT_ENFORCEABLE, guard::NO_CUDA)
        }
        ObservedGuard::NoLibrary if is_unused => {
            format!("{}{}", guard::NOT_ENFORCEABLE, guard::NO_LIBRARY)
        }
        ObservedGuard::Enforcing if is_enforcing(limits) => guard::ENFORCED.to_owned(),
        ObservedGuard::Enforcing | ObservedGuard::Reporting => guard::REPORTED.to_owned(),
        ObservedGuard::Failed | ObservedGuard::Absent => {
            format!("{}{}", guard::NOT_ENFORCEABLE, processes_of_pod.why)
        }
        ObservedGuard::Unknown if shown.starts_with(guard::NOT_OBSERVED) => {
            format!("{}{}", guard::NOT_OBSERVED, processes_of_pod.why)
        }
        ObservedGuard::Off
        | ObservedGuard::Unknown
        | ObservedGuard::Idle
        | ObservedGuard::NoCuda
        | ObservedGuard::NoLibrary => return None,
    })
}

/// Annotations that pods should have.
type Wanted = BTreeMap<(ObjectName, &'static str), String>;

/// A pod holds so much of a device, beside what it holds of others.
fn add_use(wanted: &mut Wanted, pod: &ObjectName, device: &Text, mib: i64) {
    let used = wanted.entry((pod.clone(), guard::USED)).or_default();
    let comma = if used.is_empty() { "" } else { "," };
    *used = format!("{used}{comma}{device}={mib}");
}

/// The worst status counts.
fn add_status(wanted: &mut Wanted, pod: &ObjectName, status: String) {
    let known = wanted.entry((pod.clone(), guard::STATUS)).or_insert_with(|| status.clone());
    if !known.starts_with(guard::NOT_ENFORCEABLE) {
        *known = status;
    }
}

impl Binder {
    /// Writes on pods what their processes hold and whether they were observed with the library, and corrects the status of
    /// pods whose limits are exceeded.
    pub(super) fn compare_measured_memory(&mut self, node: &Text, now: Timestamp) {
        let mut wanted = Wanted::new();
        for device in self.facts.shared_devices(node) {
            let pods = self.facts.tenant_names(node, &device);
            if let Some(processes) = self.facts.processes(node, &device) {
                self.compare_observed(node, &device, pods, &processes, &mut wanted, now);
            } else if let Some(held_mib) = self.facts.held_mib(node, &device) {
                if let Some(only) = pods.first().filter(|_| pods.len() == 1) {
                    add_use(&mut wanted, only, &device, held_mib);
                }
                let limits_mib = self.facts.limits_mib(&pods, &device);
                let measured = MeasuredUse { device, held_mib, pods, limits_mib };
                let place = measured.place(node, false);
                self.compare_with_limits(place, &measured, &mut wanted, now);
            }
        }
        for ((pod, key), text) in wanted {
            self.annotate_tenant(pod, key, text, now);
        }
    }

    /// The pods of a device whose processes are observed.
    fn compare_observed(
        &mut self,
        node: &Text,
        device: &Text,
        pods: BTreeSet<ObjectName>,
        processes: &[PodProcesses],
        wanted: &mut Wanted,
        now: Timestamp,
    ) {
        for name in pods {
            let Some(pod) = self.facts.pod(&name) else { continue };
            let of_pod = processes.iter().find(|one| one.uid == *pod.uid);
            let held_mib = of_pod.map_or(0, |one| i64::try_from(one.mib).unwrap_or(i64::MAX));
            add_use(wanted, &name, device, held_mib);
            if let Some(status) = of_pod.and_then(|one| observed_status(pod, one)) {
                add_status(wanted, &name, status);
            }
            let pods = BTreeSet::from([name]);
            let limits_mib = self.facts.limits_mib(&pods, device);
            let measured = MeasuredUse { device: device.clone(), held_mib, pods, limits_mib };
            self.compare_with_limits(measured.place(node, true), &measured, wanted, now);
        }
    }

    /// Where processes hold more than their limits for long enough, the status says so.
    fn compare_with_limits(
        &mut self,
        place: (Text, Text),
        measured: &MeasuredUse,
        wanted: &mut Wanted,
        now: Timestamp,
    ) {
        let MeasuredUse { device, held_mib, pods, limits_mib } = measured;
        let slack_mib = SLACK_MIB * pods.len() as i64;
        let Some(limits_mib) = limits_mib.filter(|mib| *held_mib > mib.saturating_add(slack_mib))
        else {
            self.exceeded.0.remove(&place);
            return;
        };
        let node = place.0.clone();
        let since = self.exceeded.since(place, pods.clone(), now);
        if now < since.plus(CONFIRMATION) {
            self.look_again_at(since.plus(CONFIRMATION), Item::Node(node));
            return;
        }
        let status = exceeded(device, *held_mib, limits_mib, pods.len());
        for pod in pods {
            add_status(wanted, pod, status.clone());
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
        observing(version, held_mib, None)
    }

    /// A reservation pod that sees these processes.
    fn observing(version: &str, held_mib: &str, processes: Option<&Value>) -> Change {
        let mut annotations = json!({"run.ai/reserve_for_gpu_index": "GPU-1", "kai.scheduler/gpu-memory-held-mib": held_mib});
        if let Some(processes) = processes {
            annotations["kai.scheduler/gpu-processes"] = json!(processes.to_string());
        }
        pod(json!({
            "metadata": {"name": "r", "namespace": "kai-resource-reservation", "uid": "r", "resourceVersion": version,
                "labels": {"app": "kai-resource-reservation", "runai-gpu-group": "g"},
                "annotations": annotations},
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

    const NOT_YET: &str = "not yet observed: no process of the pod uses the GPU";

    #[test]
    fn each_pod_shows_what_its_own_processes_hold_and_whether_the_library_is_in_them() {
        let observed = json!([
            {"uid": "p", "mib": 3000, "guard": "enforcing"},
            {"uid": "q", "mib": 700, "guard": "absent", "why": "process serve uses the GPU without the library"},
            {"uid": "of another scheduler", "mib": 5, "guard": "absent", "why": ""},
        ]);
        let pods = [tenant("p", NOT_YET), tenant("q", NOT_YET), tenant("r", NOT_YET)];
        let [p, q, r] = pods;
        let mut binder = binder(&[observing("1", "3705", Some(&observed)), p, q, r]);
        let texts: Vec<(String, String)> =
            written(&mut binder, 0).into_iter().map(|(pod, _, text)| (pod, text)).collect();
        let expected = [
            ("p", "enforced"),
            ("p", "GPU-1=3000"),
            ("q", "not enforceable: process serve uses the GPU without the library"),
            ("q", "GPU-1=700"),
            ("r", "GPU-1=0"),
        ];
        assert_eq!(texts, expected.map(|(pod, text)| (pod.to_owned(), text.to_owned())));
        assert_eq!(written(&mut binder, 30), [], "once");
    }

    #[test]
    fn pods_that_ran_without_the_library_never_become_enforced() {
        let observed = json!([{"uid": "p", "mib": 10, "guard": "enforcing"}]);
        for status in ["not enforceable: process serve uses the GPU without the library", "off"] {
            let mut binder = binder(&[observing("1", "10", Some(&observed)), tenant("p", status)]);
            let keys: Vec<String> =
                written(&mut binder, 0).into_iter().map(|(_, key, _)| key).collect();
            assert_eq!(keys, [guard::USED], "{status}");
        }
    }

    #[test]
    fn status_of_a_pod_that_does_not_use_the_gpu_follows_its_processes() {
        let no_library = format!("{}{}", guard::NOT_ENFORCEABLE, guard::NO_LIBRARY);
        let no_cuda = format!("{}{}", guard::NOT_ENFORCEABLE, guard::NO_CUDA);
        for (shown, state, expected) in [
            (NOT_YET, "nolibrary", Some(&*no_library)),
            (NOT_YET, "nocuda", Some(&*no_cuda)),
            (NOT_YET, "idle", Some(NOT_YET)),
            (&no_library, "nocuda", Some(&*no_cuda)),
            (&no_cuda, "idle", Some(NOT_YET)),
            (&no_library, "enforcing", Some(guard::ENFORCED)),
            (guard::ENFORCED, "nolibrary", None),
            ("not enforceable: process serve uses the GPU without the library", "nocuda", None),
        ] {
            let observed = json!([{"uid": "p", "mib": 0, "guard": state}]);
            let mut binder = binder(&[observing("1", "0", Some(&observed)), tenant("p", shown)]);
            let written = written(&mut binder, 0).into_iter();
            let status = written.filter(|(_, key, _)| key == guard::STATUS).map(|(.., text)| text);
            let status: Vec<String> = status.collect();
            let expected = expected.filter(|expected| *expected != shown);
            assert_eq!(status.first().map(String::as_str), expected, "{shown}, {state}");
        }
    }

    #[test]
    fn processes_that_cannot_be_looked_into_prove_nothing() {
        let why = "the memory map of its process cannot be read";
        let observed = json!([{"uid": "p", "mib": 10, "guard": "unknown", "why": why}]);
        let mut unobserved = binder(&[observing("1", "10", Some(&observed)), tenant("p", NOT_YET)]);
        let status = ("p".to_owned(), guard::STATUS.to_owned(), format!("not yet observed: {why}"));
        assert!(written(&mut unobserved, 0).contains(&status));
    }

    #[test]
    fn observed_pod_that_exceeds_its_limit_is_named_alone() {
        let observed = json!([
            {"uid": "p", "mib": 4000, "guard": "enforcing"},
            {"uid": "q", "mib": 6000, "guard": "enforcing"},
        ]);
        let mut two = binder(&[
            observing("1", "10000", Some(&observed)),
            tenant("p", "enforced"),
            tenant("q", "enforced"),
        ]);
        written(&mut two, 0);
        let corrected = written(&mut two, 60);
        let statuses: Vec<&(String, String, String)> =
            corrected.iter().filter(|(_, key, _)| key == guard::STATUS).collect();
        assert_eq!(statuses.len(), 1, "{corrected:?}");
        assert_eq!(statuses[0].0, "q");
        assert!(statuses[0].2.contains("hold 6000 MiB of GPU-1, its limit is 4000 MiB"));
    }
}
