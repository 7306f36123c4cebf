//! The same cluster built from scratch.

use crate::input::{Delta, Object};
use crate::world::World;

impl World {
    /// A world made from the objects of this one, as if they had just been applied in the order of their names.
    /// Decisions in flight are taken over. It must describe itself exactly as this one does.
    #[must_use]
    pub fn rebuilt(&self) -> Self {
        let mut anew = Self::new(self.config.clone());
        anew.naive = self.naive;
        for object in self.objects() {
            anew.apply(Delta::Set(object));
        }
        anew.assumed.clone_from(&self.assumed);
        for pod in self.assumed.keys() {
            anew.refresh_bound_pod(pod);
        }
        anew
    }

    /// The objects of the world, by kind and name.
    pub fn objects(&self) -> Vec<Object> {
        let mut objects: Vec<Object> = Vec::new();
        objects.extend(self.volumes.objects());
        objects.extend(self.claims.objects());
        objects.extend(self.config_maps.iter().cloned().map(Object::ConfigMap));
        objects.extend(self.namespaces.values().cloned().map(Object::Namespace));
        objects.extend(self.topologies.values().cloned().map(Object::Topology));
        objects.extend(self.budgets.values().cloned().map(Object::Budget));
        objects.extend(self.usage.values().cloned().map(Object::Usage));
        objects.extend(self.numa_specs.values().cloned().map(Object::Numa));
        objects.extend(self.nodes().map(|(_, node)| Object::Node(node.spec.clone())));
        let queue = |id: &crate::ids::QueueId| self.queue_specs[id.index()].clone();
        objects.extend(self.queue_ids.values().map(queue).map(Object::Queue));
        let mut groups: Vec<_> = self.jobs().map(|(_, job)| job.spec.clone()).collect();
        groups.sort_by(|left, right| left.name.cmp(&right.name));
        objects.extend(groups.into_iter().map(Object::PodGroup));
        objects.extend(self.bind_requests.values().cloned().map(Object::BindRequest));
        let mut pods: Vec<_> = self.tasks().map(|(_, task)| task.spec.clone()).collect();
        pods.sort_by(|left, right| left.name.cmp(&right.name));
        objects.extend(pods.into_iter().map(|spec| Object::Pod(Box::new((*spec).clone()))));
        objects
    }
}
