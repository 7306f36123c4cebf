//! Deltas into the world. Total: bad input is reported and leaves the rest as it was, never a panic.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{JobId, NodeId};
use crate::input::{
    BindRequestSpec, Delta, NodeSpec, Object, ObjectKey, ObjectName, PodGroupSpec, PodSpec,
    QueueSpec, Text, TopologySpec,
};
use crate::plugins::numa::NumaState;
use crate::status::Status;
use crate::world::World;
use crate::world::in_flight::Assumed;
use crate::world::node::Node;
use crate::world::validate::{self, InputProblem};

/// What a delta did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effect {
    /// The world is different now.
    pub changed: bool,
    /// What was wrong with the object; it was not taken over.
    pub problems: Vec<InputProblem>,
}

impl Effect {
    fn changed() -> Self {
        Self { changed: true, problems: Vec::new() }
    }

    fn unchanged() -> Self {
        Self::default()
    }
}

impl World {
    /// Takes one change of the cluster over.
    pub fn apply(&mut self, delta: Delta) -> Effect {
        debug_assert!(self.log.is_empty(), "deltas come between cycles");
        match delta {
            Delta::Set(object) => match validate::problems(&object) {
                problems if problems.is_empty() => self.set(object),
                problems => Effect { changed: false, problems },
            },
            Delta::Remove(key) => self.remove(&key),
        }
    }

    fn set(&mut self, object: Object) -> Effect {
        match object {
            Object::Node(spec) => self.set_node(spec),
            Object::Numa(spec) => {
                let node = spec.node.clone();
                if self.numa_specs.get(&node) == Some(&spec) {
                    return Effect::unchanged();
                }
                self.numa_specs.insert(node.clone(), spec);
                self.count_zones();
                self.refresh_node(&node)
            }
            Object::Queue(spec) => self.set_queue(&spec),
            Object::Usage(spec) => put(&mut self.usage, spec.queue.clone(), spec),
            Object::PodGroup(spec) => self.set_pod_group(spec),
            Object::Pod(spec) => self.set_pod(*spec),
            Object::BindRequest(spec) => self.set_bind_request(spec),
            Object::Topology(spec) => self.set_topology(spec),
            Object::DeviceClass(spec) => self.change_devices(|claims| claims.set_class(spec)),
            Object::Slice(spec) => self.change_devices(|claims| claims.set_slice(spec)),
            Object::Claim(spec) => self.change_devices(|claims| claims.set_claim(spec)),
            Object::Storage(object) => effect_of(self.volumes.set(object)),
            Object::ConfigMap(name) => {
                let matters = self.shapes.some_require_config_map(&name.name);
                effect_of(self.config_maps.insert(name) && matters)
            }
            Object::Budget(spec) => put(&mut self.budgets, spec.name.clone(), spec),
            Object::Namespace(spec) => put(&mut self.namespaces, spec.name.clone(), spec),
        }
    }

    fn remove(&mut self, key: &ObjectKey) -> Effect {
        match key {
            ObjectKey::Node(name) => self.remove_node(name),
            ObjectKey::Numa(name) => match self.numa_specs.remove(name) {
                Some(_) => {
                    self.count_zones();
                    self.refresh_node(name)
                }
                None => Effect::unchanged(),
            },
            ObjectKey::Queue(name) => self.remove_queue(name),
            ObjectKey::Usage(name) => effect_of(self.usage.remove(name).is_some()),
            ObjectKey::PodGroup(name) => self.remove_pod_group(name),
            ObjectKey::Pod(name) => {
                self.assumed.remove(name);
                self.remove_pod(name)
            }
            ObjectKey::BindRequest(name) => match self.bind_requests.remove(name) {
                Some(_) => self.refresh_bound_pod(name),
                None => Effect::unchanged(),
            },
            ObjectKey::Topology(name) => {
                let existed = self.topologies.remove(name).is_some();
                self.trees.invalidate();
                effect_of(existed)
            }
            ObjectKey::DeviceClass(name) => self.change_devices(|claims| claims.remove_class(name)),
            ObjectKey::Slice(name) => self.change_devices(|claims| claims.remove_slice(name)),
            ObjectKey::Claim(name) => self.change_devices(|claims| claims.remove_claim(name)),
            ObjectKey::Storage(key) => effect_of(self.volumes.remove(key)),
            ObjectKey::ConfigMap(name) => {
                let matters = self.shapes.some_require_config_map(&name.name);
                effect_of(self.config_maps.remove(name) && matters)
            }
            ObjectKey::Budget(name) => effect_of(self.budgets.remove(name).is_some()),
            ObjectKey::Namespace(name) => effect_of(self.namespaces.remove(name).is_some()),
        }
    }

    fn set_node(&mut self, spec: Box<NodeSpec>) -> Effect {
        let name = spec.name.clone();
        if let Some(id) = self.node_ids.get(&name).copied() {
            if self.node(id).spec == spec {
                return Effect::unchanged();
            }
            self.renew_node(id, spec);
        } else {
            self.insert_node(spec);
        }
        Effect::changed()
    }

    fn insert_node(&mut self, spec: Box<NodeSpec>) {
        let name = spec.name.clone();
        let node = self.fresh_node(spec);
        let id = if let Some(id) = self.free_node_slots.pop() {
            self.nodes[id.index()] = node;
            id
        } else {
            self.nodes.push(node);
            NodeId::new(self.nodes.len() - 1)
        };
        self.node_ids.insert(name, id);
        self.count_node(id);
        self.nodes_came_or_went();
        self.refill_node(id);
    }

    pub(crate) fn renew_node(&mut self, id: NodeId, spec: Box<NodeSpec>) {
        self.empty_node(id);
        self.uncount_node(id);
        let rank = self.node(id).rank;
        let mut node = self.fresh_node(spec);
        node.rank = rank;
        self.nodes[id.index()] = node;
        self.count_node(id);
        self.trees.invalidate();
        self.refill_node(id);
    }

    fn remove_node(&mut self, name: &Text) -> Effect {
        let Some(id) = self.node_ids.get(name).copied() else {
            return Effect::unchanged();
        };
        self.empty_node(id);
        self.uncount_node(id);
        self.node_ids.remove(name);
        self.nodes[id.index()].live = false;
        self.free_node_slots.push(id);
        self.nodes_came_or_went();
        self.reattach_pods_of(name);
        Effect::changed()
    }

    /// Reads the node's facts anew after something beside its own object changed.
    fn refresh_node(&mut self, name: &Text) -> Effect {
        let Some(id) = self.node_ids.get(name).copied() else {
            return Effect::changed();
        };
        let spec = self.node(id).spec.clone();
        self.renew_node(id, spec);
        Effect::changed()
    }

    fn fresh_node(&mut self, spec: Box<NodeSpec>) -> Node {
        let claimable =
            if self.config.params.dynamic_resources { self.claims.gpus_on(&spec.name) } else { 0 };
        let numa = self
            .numa_specs
            .get(&spec.name)
            .map(|zones| Box::new(NumaState::new(zones, &mut self.names)));
        Node::new(
            spec,
            claimable,
            numa,
            &self.config.params,
            self.config.compatibility,
            &mut self.names,
            &mut self.node_classes,
        )
    }

    fn set_queue(&mut self, spec: &QueueSpec) -> Effect {
        if let Some(id) = self.queue_ids.get(&spec.name)
            && self.queue_specs[id.index()] == *spec
        {
            return Effect::unchanged();
        }
        let is_new = !self.queue_ids.contains_key(&spec.name);
        self.queue_slot(spec);
        self.rebuild_queue_tree();
        if is_new {
            self.rejoin_jobs_of_queue(&spec.name);
        }
        Effect::changed()
    }

    fn remove_queue(&mut self, name: &Text) -> Effect {
        let Some(id) = self.queue_ids.get(name).copied() else {
            return Effect::unchanged();
        };
        self.leave_jobs_of_queue(name);
        self.queue_ids.remove(name);
        self.free_queue_slots.push(id);
        self.rebuild_queue_tree();
        Effect::changed()
    }

    fn set_pod_group(&mut self, spec: Box<PodGroupSpec>) -> Effect {
        if let Some(id) = self.job_ids.get(&spec.name).copied() {
            if self.job(id).spec == spec {
                return Effect::unchanged();
            }
            self.dissolve_job(id);
            self.form_job(id, spec);
        } else {
            let id = self.free_job_slots.pop().unwrap_or_else(|| JobId::new(self.jobs.len()));
            self.job_ids.insert(spec.name.clone(), id);
            self.form_job(id, spec);
        }
        Effect::changed()
    }

    fn remove_pod_group(&mut self, name: &ObjectName) -> Effect {
        let Some(id) = self.job_ids.remove(name) else {
            return Effect::unchanged();
        };
        self.dissolve_job(id);
        self.jobs[id.index()].vacate(self.job_trees.empty());
        self.free_job_slots.push(id);
        Effect::changed()
    }

    fn set_pod(&mut self, spec: PodSpec) -> Effect {
        let name = spec.name.clone();
        if let Some(id) = self.task_ids.get(&name).copied()
            && *self.task(id).spec == spec
        {
            return Effect::unchanged();
        }
        self.settle_assumption(&spec);
        self.remove_pod(&name);
        self.insert_pod(spec);
        Effect::changed()
    }

    fn set_bind_request(&mut self, spec: BindRequestSpec) -> Effect {
        let pod = spec.pod.clone();
        if self.bind_requests.get(&pod) == Some(&spec) {
            return Effect::unchanged();
        }
        self.bind_requests.insert(pod.clone(), spec);
        self.refresh_bound_pod(&pod)
    }

    /// A bind under way came, changed or went: it says where the pod is and what its claims have.
    pub(crate) fn refresh_bound_pod(&mut self, name: &ObjectName) -> Effect {
        if let Some(id) = self.task_ids.get(name).copied() {
            let spec = Arc::clone(&self.task(id).spec);
            let sharing = self.assume_claims(&spec, spec.status);
            self.reattach_sharing(&sharing, id);
            self.reattach(id);
        }
        Effect::changed()
    }

    fn set_topology(&mut self, spec: TopologySpec) -> Effect {
        let effect = put(&mut self.topologies, spec.name.clone(), spec);
        if effect.changed {
            self.trees.invalidate();
        }
        effect
    }

    /// A pod that shows what was decided for it, or that is another pod of the name, ends the assumption.
    fn settle_assumption(&mut self, spec: &PodSpec) {
        let settled = match self.assumed.get(&spec.name) {
            Some(Assumed::Bind { uid, .. }) => {
                let waits = spec.status == Status::Pending && spec.backoff.retry_after.is_none();
                *uid != spec.uid || spec.node.is_some() || !waits
            }
            Some(Assumed::Eviction { uid, .. }) => *uid != spec.uid || !spec.status.is_alive(),
            None => false,
        };
        if settled {
            self.assumed.remove(&spec.name);
        }
    }

    /// Forgets a decision in flight for `pod`: the cluster refused it.
    pub fn forget(&mut self, pod: &ObjectName) {
        if self.assumed.remove(pod).is_some() {
            self.refresh_bound_pod(pod);
        }
    }
}

/// Keeps an object that nothing else is derived from.
fn put<K: Ord, V: PartialEq>(kept: &mut BTreeMap<K, V>, key: K, object: V) -> Effect {
    if kept.get(&key) == Some(&object) {
        return Effect::unchanged();
    }
    kept.insert(key, object);
    Effect::changed()
}

fn effect_of(changed: bool) -> Effect {
    Effect { changed, problems: Vec::new() }
}
