//! Whether a device has enough free memory: it is summed per physical device, over all groups that are on it, before every bind.
//! The plan did so too; but it knew groups, and only reservations say which devices those are.

use kai_api::gpu_request::GpuShare;
use kai_core::compatibility::Compatibility;
use kai_core::input::node::WholeGpuPolicy;
use kai_core::input::{ObjectName, Text};
use kai_core::world::gpu_facts::GpuFacts;
use kai_translate::gpus::share_mib;
use kai_translate::node;

use super::attempt::Attempt;
use super::facts::{Facts, PodFacts};
use super::request::Request;
use super::{Binder, DeviceKey};
use kai_settings::binder::BinderPlugin;

impl Facts {
    /// What is known of the GPUs of a node.
    pub(super) fn gpus(&self, name: &Text) -> Option<GpuFacts> {
        let view = &self.node(name)?.view;
        let spec = node::translate(view, &self.reserved.probed(name)).object?;
        let policy = WholeGpuPolicy::default();
        Some(GpuFacts::of(&spec, Compatibility::Right, policy, self.reserve_mib))
    }

    /// Pods on a physical device of a node, with what each has of it in MiB.
    pub(super) fn tenants(
        &self,
        node: &Text,
        device: &Text,
        total: i64,
    ) -> Vec<(&ObjectName, i64)> {
        let mut tenants = Vec::new();
        for (key, users) in self.users_on(node) {
            for name in users {
                let Some(pod) = self.pod(name) else { continue };
                if self.device_of(pod, key) == Some(device) {
                    tenants.push((name, pod.share.map_or(0, |share| share_mib(share, total))));
                }
            }
        }
        tenants
    }

    /// The device that a pod of the group is on: the one it was given, or the one that its group has.
    fn device_of<'a>(&'a self, pod: &'a PodFacts, key: &DeviceKey) -> Option<&'a Text> {
        let given = pod.given.get(&key.group);
        given.or_else(|| self.reservation(key).and_then(|(_, one)| one.device.as_ref()))
    }
}

impl Binder {
    /// Why the devices of the request, by group, lack the capacity for its pod.
    pub(super) fn lacks_capacity(
        &self,
        request: &Request,
        pod: &PodFacts,
        devices: &[(Text, Text)],
    ) -> Option<String> {
        let total = self.facts.gpus(&request.node)?.memory_mib;
        let wanted = share_mib(pod.share?, total);
        let lacking = |device: &Text| {
            let tenants = self.facts.tenants(&request.node, device, total);
            let granted: i64 = tenants.iter().map(|(_, mib)| mib).sum();
            let used = granted + self.mib_of_binds_under_way(request, device, total);
            (used + wanted > total).then(|| {
                let node = &request.node;
                let oversold = if granted > total {
                    "; more of it was given away than it has: nothing more fits"
                } else {
                    ""
                };
                format!(
                    "GPU {device} of node <{node}>: {used} of {total} MiB used by {} pods, {wanted} MiB requested{oversold}",
                    tenants.len()
                )
            })
        };
        devices.iter().find_map(|(_, device)| lacking(device))
    }

    /// MiB of each device that the containers of the pod may use, where config maps say so. A limit that is not known is not
    /// left out silently.
    pub(super) fn memory_limit(
        &self,
        request: &Request,
        pod: &PodFacts,
    ) -> Result<Option<i64>, String> {
        let limited = self.settings.plugins.has(BinderPlugin::HamiCore);
        let Some(share) = pod.share.filter(|_| limited) else {
            return Ok(None);
        };
        if let GpuShare::Memory(mib) = share {
            return Ok(Some(mib));
        }
        let gpus = self.facts.gpus(&request.node).filter(|gpus| gpus.memory_known);
        let node = &request.node;
        let gpus = gpus.ok_or_else(|| format!("node <{node}> does not report its GPU memory"))?;
        Ok(Some(share_mib(share, gpus.memory_mib)))
    }

    /// MiB of pods that are being bound to the device and do not show it yet.
    fn mib_of_binds_under_way(&self, request: &Request, device: &Text, total: i64) -> i64 {
        let of_node = self.facts.requests_of_node(&request.node);
        let under_way = of_node.filter(|name| self.attempts.get(*name).is_some_and(Attempt::binds));
        let others = under_way.filter_map(|name| self.facts.request(name));
        let others = others.filter(|other| other.pod != request.pod);
        let mut sum = 0;
        for other in others {
            let Some(pod) = self.facts.subject(other).filter(|pod| pod.node.is_none()) else {
                continue;
            };
            let on_it = other.devices().any(|key| self.facts.device_of(pod, &key) == Some(device));
            sum += pod.share.filter(|_| on_it).map_or(0, |share| share_mib(share, total));
        }
        sum
    }
}
