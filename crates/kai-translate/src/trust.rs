//! Which pods are believed, and what of them. Every pod passes here before anything counts it.
//!
//! | pod | counted by |
//! |---|---|
//! | without a node | its request: labels and annotations as they are |
//! | with a placement that was signed for its UID and its node | what the placement says, whatever its metadata says now |
//! | without one, of our scheduler, on devices that reservation pods of its node hold | its labels: another binder, or an older release, bound it. Beyond the memory of a device, the pod counts for what is left: an oversold device is full |
//! | any other | its containers and claims |
//!
//! Without a key everything is believed: offline commands have none.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::gpu_request::GpuShare;
use kai_api::names::{gpu, node as node_names, objects, scheduling};
use kai_core::input::{ObjectName, Text};

use crate::placement::{PlacementKey, SignedPlacement, is_group_label, remove_claims_on_devices};
use crate::{container_memory, pod as pods, view};

/// Shares are added in millionths of a device.
const WHOLE: i64 = 1_000_000;

/// Which pods are believed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustSettings {
    /// The key of placements; none: every pod is believed.
    pub key: Option<PlacementKey>,
    /// GPU groups of every pod of our scheduler are believed: KAI's binder runs beside ours.
    pub trusts_other_binders: bool,
}

/// Pods on nodes whose metadata says something about shared devices.
#[derive(Debug, Default)]
struct SharedNode {
    /// Devices that reservation pods hold, by reservation pod.
    reservations: BTreeMap<ObjectName, Text>,
    /// MiB of a device, where the node reports it.
    memory_mib: Option<i64>,
    /// Shares of pods with a placement.
    attested: BTreeMap<ObjectName, Vec<Share>>,
    /// Pods without one that name groups.
    doubtful: BTreeMap<ObjectName, Doubtful>,
}

/// A part of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    group: Text,
    amount: Amount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Millionths(i64),
    Mib(i64),
}

/// A pod that names groups and has no placement.
#[derive(Debug)]
struct Doubtful {
    pod: Box<view::Pod>,
    /// None: what it names cannot be right.
    shares: Option<Vec<Share>>,
    belief: Belief,
}

/// How much of the shares of a pod without a placement counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    Nothing,
    All,
    /// Its devices were oversold: these millionths of each are left for it.
    Rest(i64),
}

/// Judges pods as they are observed.
#[derive(Debug)]
pub struct PodTrust {
    settings: TrustSettings,
    scheduler_name: String,
    reservation_app: String,
    reservation_namespaces: Vec<String>,
    nodes: BTreeMap<Text, SharedNode>,
    /// The node of each pod that is remembered there.
    homes: BTreeMap<ObjectName, Text>,
}

impl PodTrust {
    /// Judges by these settings.
    pub fn new(settings: TrustSettings, rules: &pods::PodRules) -> Self {
        Self {
            settings,
            scheduler_name: rules.scheduler_name.clone(),
            reservation_app: rules.reservation_app.clone(),
            reservation_namespaces: rules.reservation_namespaces.clone(),
            nodes: BTreeMap::new(),
            homes: BTreeMap::new(),
        }
    }

    /// Every pod is believed.
    fn is_blind(&self) -> bool {
        self.settings.key.is_none()
    }

    /// The pod as it is to be counted, first; then others of which something else is believed now.
    pub fn set_pod(&mut self, mut pod: view::Pod) -> Vec<view::Pod> {
        container_memory::read(&mut pod.metadata.annotations);
        let Some(key) = &self.settings.key else { return vec![pod] };
        let placement = pod.metadata.annotations.remove(scheduling::PLACEMENT);
        let name = pods::name(&pod);
        let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
        let Some(node) = node.map(Text::from) else {
            pod.metadata.annotations.remove(gpu::DEVICES);
            let mut all = self.forget(&name);
            all.insert(0, pod);
            return all;
        };
        let placement = placement.as_deref().and_then(|text| SignedPlacement::decode(text, key));
        let placement = placement.filter(|one| one.uid == pod.metadata.uid && *one.node == *node);
        if let Some(placement) = &placement {
            pod.lacks_group_labels = !placement.has_group_labels(&pod.metadata);
            placement.restore(&mut pod.metadata);
        }
        let mut others = self.move_home(&name, &node);
        let ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let is_ours = pod.spec.scheduler_name.as_deref() == Some(self.scheduler_name.as_str());
        if self.is_reservation(&pod) {
            let group = pod.metadata.labels.get(gpu::GROUP).map(|group| group.as_str().into());
            self.remember(&name, &node, |home, name| {
                home.reservations.remove(&name);
                home.reservations.extend(group.map(|group| (name, group)));
            });
        } else if placement.is_some() {
            let shares = shares(&pod).filter(|_| !ended).unwrap_or_default();
            if shares.is_empty() {
                others.extend(self.forget(&name));
            } else {
                self.remember(&name, &node, |home, name| {
                    home.doubtful.remove(&name);
                    home.attested.insert(name, shares);
                });
            }
        } else if is_ours && self.settings.trusts_other_binders {
            pod.metadata.annotations.remove(gpu::DEVICES);
        } else if is_ours && !ended && pod.metadata.labels.keys().any(|key| is_group_label(key)) {
            pod.metadata.annotations.remove(gpu::DEVICES);
            return self.doubt(&name, &node, pod, others);
        } else {
            remove_claims_on_devices(&mut pod.metadata);
            others.extend(self.forget(&name));
        }
        others.extend(self.judge(&node, None));
        others.insert(0, pod);
        others
    }

    /// A pod is gone; others of which something else is believed now.
    pub fn remove_pod(&mut self, name: &ObjectName) -> Vec<view::Pod> {
        self.forget(name)
    }

    /// A node is as it is now; pods of which something else is believed.
    pub fn set_node(&mut self, node: &view::Node) -> Vec<view::Pod> {
        let name = Text::from(node.metadata.name.as_str());
        let label = node.metadata.labels.get(node_names::GPU_MEMORY);
        let memory_mib = label.and_then(|text| text.parse().ok());
        let known = self.nodes.get(&name).and_then(|home| home.memory_mib);
        if self.is_blind() || known == memory_mib {
            return Vec::new();
        }
        self.nodes.entry(name.clone()).or_default().memory_mib = memory_mib;
        self.judge(&name, None)
    }

    /// A node is gone. Its pods follow on their own.
    pub fn remove_node(&mut self, name: &Text) {
        if let Some(home) = self.nodes.get_mut(name) {
            home.memory_mib = None;
        }
        self.drop_empty(name);
    }

    fn is_reservation(&self, pod: &view::Pod) -> bool {
        self.reservation_namespaces.contains(&pod.metadata.namespace)
            && pod.metadata.labels.get(objects::APP) == Some(&self.reservation_app)
    }

    fn remember(
        &mut self,
        name: &ObjectName,
        node: &Text,
        change: impl FnOnce(&mut SharedNode, ObjectName),
    ) {
        let home = self.nodes.entry(node.clone()).or_default();
        change(home, name.clone());
        self.homes.insert(name.clone(), node.clone());
    }

    fn doubt(
        &mut self,
        name: &ObjectName,
        node: &Text,
        pod: view::Pod,
        mut others: Vec<view::Pod>,
    ) -> Vec<view::Pod> {
        let doubtful =
            Doubtful { shares: shares(&pod), pod: Box::new(pod), belief: Belief::Nothing };
        self.remember(name, node, |home, name| {
            home.attested.remove(&name);
            home.doubtful.insert(name, doubtful);
        });
        let mut all = self.judge(node, Some(name));
        all.append(&mut others);
        all
    }

    /// A pod on another node than before is another pod.
    fn move_home(&mut self, name: &ObjectName, node: &Text) -> Vec<view::Pod> {
        if self.homes.get(name).is_some_and(|home| home != node) {
            return self.forget(name);
        }
        Vec::new()
    }

    fn forget(&mut self, name: &ObjectName) -> Vec<view::Pod> {
        let Some(node) = self.homes.remove(name) else { return Vec::new() };
        if let Some(home) = self.nodes.get_mut(&node) {
            home.reservations.remove(name);
            home.attested.remove(name);
            home.doubtful.remove(name);
        }
        let others = self.judge(&node, None);
        self.drop_empty(&node);
        others
    }

    fn drop_empty(&mut self, node: &Text) {
        let is_empty = self.nodes.get(node).is_some_and(|home| {
            home.reservations.is_empty()
                && home.attested.is_empty()
                && home.doubtful.is_empty()
                && home.memory_mib.is_none()
        });
        if is_empty {
            self.nodes.remove(node);
        }
    }

    /// Pods of the node of which something else is believed now, and the one that is asked for, first.
    fn judge(&mut self, node: &Text, asked: Option<&ObjectName>) -> Vec<view::Pod> {
        let Some(home) = self.nodes.get_mut(node) else { return Vec::new() };
        let beliefs = home.beliefs();
        let mut changed = Vec::new();
        for (name, doubtful) in &mut home.doubtful {
            let belief = beliefs.get(name).copied().unwrap_or(Belief::Nothing);
            let is_asked = asked == Some(name);
            if belief == doubtful.belief && !is_asked {
                continue;
            }
            doubtful.belief = belief;
            let mut pod = view::Pod::clone(&doubtful.pod);
            match belief {
                Belief::All => {}
                Belief::Nothing => remove_claims_on_devices(&mut pod.metadata),
                Belief::Rest(millionths) => {
                    let portion = format!("{:.6}", millionths as f64 / WHOLE as f64);
                    pod.metadata.annotations.remove(gpu::MEMORY);
                    pod.metadata.annotations.insert(gpu::FRACTION.to_owned(), portion);
                }
            }
            changed.insert(if is_asked { 0 } else { changed.len() }, pod);
        }
        changed
    }
}

impl SharedNode {
    /// What counts of pods without a placement whose groups exist, oldest first.
    fn beliefs(&self) -> BTreeMap<ObjectName, Belief> {
        if self.doubtful.is_empty() {
            return BTreeMap::new();
        }
        let held: BTreeSet<&Text> = self.reservations.values().collect();
        let mut used: BTreeMap<&Text, i64> = BTreeMap::new();
        for share in self.attested.values().flatten() {
            *used.entry(&share.group).or_default() += self.millionths(share.amount).unwrap_or(0);
        }
        let mut waiting: Vec<(&ObjectName, &Doubtful)> = self.doubtful.iter().collect();
        waiting.sort_by_key(|(name, one)| (&one.pod.metadata.creation_timestamp, *name));
        let mut beliefs = BTreeMap::new();
        for (name, one) in waiting {
            let Some(shares) = &one.shares else { continue };
            let left = |share: &Share| {
                let used = used.get(&share.group).copied().unwrap_or_default();
                held.contains(&share.group).then(|| (WHOLE - used).max(0))
            };
            let Some(least) = shares.iter().map(left).min().flatten() else { continue };
            let amount = shares.first().and_then(|share| self.millionths(share.amount));
            let belief = match amount {
                Some(amount) if amount <= least => Belief::All,
                Some(_) if least > 0 => Belief::Rest(least),
                _ => continue,
            };
            for share in shares {
                *used.entry(&share.group).or_default() += amount.unwrap_or_default().min(least);
            }
            beliefs.insert(name.clone(), belief);
        }
        beliefs
    }

    fn millionths(&self, amount: Amount) -> Option<i64> {
        match amount {
            Amount::Millionths(number) => Some(number),
            Amount::Mib(mib) => {
                let total = self.memory_mib.filter(|total| *total > 0)?;
                i64::try_from(i128::from(mib) * i128::from(WHOLE) / i128::from(total)).ok()
            }
        }
    }
}

/// What a pod has of each of its devices; none: its metadata does not name as many groups as it asks for devices.
fn shares(pod: &view::Pod) -> Option<Vec<Share>> {
    let (share, devices) = pods::shared_gpus(pod)?.request.shared()?;
    let amount = match share {
        GpuShare::Fraction(portion) => Amount::Millionths((portion * WHOLE as f64).round() as i64),
        GpuShare::Memory(mib) => Amount::Mib(mib),
    };
    let groups = pods::gpu_groups(pod);
    let shares = groups.into_iter().map(|group| Share { group, amount }).collect::<Vec<_>>();
    usize::try_from(devices).is_ok_and(|devices| shares.len() == devices).then_some(shares)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::placement::PlacementSigner;
    use crate::pod::PodRules;

    fn key() -> PlacementKey {
        PlacementKey::new(b"0123456789abcdef0123456789abcdef")
    }

    fn trust() -> PodTrust {
        trust_with(false)
    }

    fn trust_with(trusts_other_binders: bool) -> PodTrust {
        let settings = TrustSettings { key: Some(key()), trusts_other_binders };
        PodTrust::new(settings, &PodRules::default())
    }

    /// A pod of our scheduler on node `n`.
    fn pod(name: &str, group: &str, fraction: &str) -> view::Pod {
        let object = json!({
            "metadata": {
                "name": name, "namespace": "a", "uid": format!("uid of {name}"), "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"runai-gpu-group": group, "kai.scheduler/queue": "q"},
                "annotations": {"gpu-fraction": fraction},
            },
            "spec": {"nodeName": "n", "schedulerName": "kai-scheduler"},
        });
        serde_json::from_value(object).expect("a pod")
    }

    fn reservation(namespace: &str, group: &str) -> view::Pod {
        let object = json!({
            "metadata": {
                "name": format!("reserve-{group}"), "namespace": namespace,
                "labels": {"app": "kai-resource-reservation", "runai-gpu-group": group},
            },
            "spec": {"nodeName": "n"},
        });
        serde_json::from_value(object).expect("a pod")
    }

    fn attest(pod: &mut view::Pod, node: &str) {
        let signer = PlacementSigner {
            key: Some(key()),
            label_keys: vec!["kai.scheduler/queue".to_owned()],
        };
        let groups: Vec<(String, String)> = pods::gpu_groups(pod)
            .iter()
            .map(|group| (gpu::GROUP.to_owned(), group.to_string()))
            .collect();
        let text = signer.sign(&pod.metadata, node, &groups, &BTreeMap::new());
        pod.metadata.annotations.extend(text.map(|text| (scheduling::PLACEMENT.to_owned(), text)));
    }

    /// Group and fraction by which the first is counted.
    fn counted(pods: &[view::Pod]) -> (Vec<Text>, Option<&str>) {
        let fraction = pods[0].metadata.annotations.get(gpu::FRACTION).map(String::as_str);
        (pods::gpu_groups(&pods[0]), fraction)
    }

    #[test]
    fn attested_pod_is_counted_as_bound_whatever_its_metadata_says() {
        let mut forged = pod("p", "g", "0.9");
        attest(&mut forged, "n");
        forged.metadata.labels.clear();
        forged.metadata.labels.insert("kai.scheduler/queue".to_owned(), "other".to_owned());
        forged.metadata.annotations.insert(gpu::FRACTION.to_owned(), "0.01".to_owned());
        forged.metadata.annotations.insert(gpu::DEVICES.to_owned(), "g=FAKE".to_owned());
        let seen = trust().set_pod(forged);
        assert_eq!(counted(&seen), (vec!["g".into()], Some("0.9")));
        assert_eq!(seen[0].metadata.labels["kai.scheduler/queue"], "q");
        assert!(!seen[0].metadata.annotations.contains_key(gpu::DEVICES));
        assert!(!seen[0].metadata.annotations.contains_key(scheduling::PLACEMENT), "it is long");
    }

    #[test]
    fn placement_of_another_pod_or_node_attests_nothing() {
        let mut copied = pod("p", "g", "0.5");
        attest(&mut copied, "n");
        let text = copied.metadata.annotations[scheduling::PLACEMENT].clone();
        let mut other = pod("other", "g", "0.5");
        other.metadata.annotations.insert(scheduling::PLACEMENT.to_owned(), text);
        assert_eq!(counted(&trust().set_pod(other)), (vec![], None));
        let mut moved = pod("p", "g", "0.5");
        attest(&mut moved, "m");
        assert_eq!(counted(&trust().set_pod(moved)), (vec![], None));
    }

    #[test]
    fn pod_of_another_binder_counts_once_its_reservation_is_there() {
        let mut trust = trust();
        assert_eq!(counted(&trust.set_pod(pod("p", "g", "0.5"))), (vec![], None));
        assert_eq!(trust.set_pod(reservation("a", "g")).len(), 1, "anybody can make that one");
        let seen = trust.set_pod(reservation("kai-resource-reservation", "g"));
        assert_eq!(seen.len(), 2);
        assert_eq!(counted(&seen[1..]), (vec!["g".into()], Some("0.5")));
        let name = ObjectName::new("kai-resource-reservation", "reserve-g");
        assert_eq!(counted(&trust.remove_pod(&name)), (vec![], None));
        assert!(trust.remove_pod(&ObjectName::new("a", "p")).is_empty());
        assert!(trust.homes.len() <= 1 && trust.nodes.is_empty(), "{trust:?}");
    }

    #[test]
    fn a_pod_without_the_labels_of_its_placement_counts_the_same_and_is_marked() {
        let mut labelled = pod("p", "g", "0.5");
        attest(&mut labelled, "n");
        let mut unlabelled = labelled.clone();
        unlabelled.metadata.labels.remove(gpu::GROUP);
        for (pod, lacks) in [(labelled, false), (unlabelled, true)] {
            let seen = trust().set_pod(pod);
            assert_eq!(counted(&seen), (vec!["g".into()], Some("0.5")));
            assert_eq!(seen[0].lacks_group_labels, lacks);
        }
    }

    #[test]
    fn only_as_much_is_believed_as_the_device_has() {
        let mut trust = trust();
        trust.set_pod(reservation("kai-resource-reservation", "g"));
        let mut attested = pod("attested", "g", "0.5");
        attest(&mut attested, "n");
        trust.set_pod(attested);
        let group = || vec![Text::from("g")];
        assert_eq!(counted(&trust.set_pod(pod("b", "g", "0.5"))), (group(), Some("0.5")));
        assert_eq!(counted(&trust.set_pod(pod("c", "g", "0.1"))), (vec![], None));
        // The order in which pods are observed does not matter: the oldest counts, then the first by name.
        let seen = trust.set_pod(pod("a", "g", "0.4"));
        assert_eq!(counted(&seen), (group(), Some("0.4")));
        assert_eq!(&*seen[1].metadata.name, "b");
        assert_eq!(counted(&seen[1..]), (group(), Some("0.100000")), "what is left");
        // Another binder sold more than there is: the device stays full until enough of its pods have ended.
        let seen = trust.remove_pod(&ObjectName::new("a", "a"));
        assert_eq!(counted(&seen), (group(), Some("0.5")));
    }

    #[test]
    fn memory_is_believed_where_the_node_reports_its_amount() {
        let mut trust = trust();
        trust.set_pod(reservation("kai-resource-reservation", "g"));
        let mut sharing = pod("p", "g", "0.5");
        sharing.metadata.annotations = [(gpu::MEMORY.to_owned(), "30000".to_owned())].into();
        assert!(pods::gpu_groups(&trust.set_pod(sharing)[0]).is_empty());
        let node = json!({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": "40000"}}});
        let seen = trust.set_node(&serde_json::from_value(node).expect("a node"));
        assert_eq!(pods::gpu_groups(&seen[0]), ["g".into()]);
    }

    #[test]
    fn many_groups_other_schedulers_and_tenants_reservations_are_not_believed() {
        let mut trust = trust();
        trust.set_pod(reservation("kai-resource-reservation", "g"));
        let mut many = pod("many", "g", "0.1");
        for number in 0..2_000 {
            let label = (format!("runai-gpu-group/{number}"), number.to_string());
            many.metadata.labels.extend([label]);
        }
        assert_eq!(counted(&trust.set_pod(many)), (vec![], None));
        let mut foreign = pod("foreign", "g", "0.1");
        foreign.spec.scheduler_name = Some("default-scheduler".to_owned());
        assert_eq!(counted(&trust.set_pod(foreign)), (vec![], None));
    }

    #[test]
    fn settings_may_trust_other_binders_or_everybody() {
        let mut trust = trust_with(true);
        assert_eq!(counted(&trust.set_pod(pod("p", "g", "0.5"))), (vec!["g".into()], Some("0.5")));
        let mut blind = PodTrust::new(TrustSettings::default(), &PodRules::default());
        let mut foreign = pod("foreign", "g", "0.1");
        foreign.spec.scheduler_name = None;
        assert_eq!(blind.set_pod(foreign.clone()), [foreign]);
    }

    #[test]
    fn requests_of_pods_without_a_node_are_taken_as_they_are() {
        let mut pending = pod("p", "g", "0.5");
        pending.spec.node_name = None;
        pending.metadata.annotations.insert(gpu::DEVICES.to_owned(), "g=FAKE".to_owned());
        let seen = trust().set_pod(pending);
        assert_eq!(counted(&seen), (vec!["g".into()], Some("0.5")));
        assert!(!seen[0].metadata.annotations.contains_key(gpu::DEVICES));
    }
}
