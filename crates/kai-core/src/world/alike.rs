//! Classes of waiting jobs that differ in nothing but their names: what one of them is refused, all are.
//!
//! Only plain jobs have a class: one leaf, every pod waits, and nothing about a pod but its shape decides where it
//! runs. Classes are found when a cycle begins, for the jobs that changed since the last one.

use std::sync::Arc;

use crate::ids::{JobId, QueueId, TaskId};
use crate::input::pod::PodRole;
use crate::input::pod_group::{DEFAULT_LEAF, Preemptibility};
use crate::keyed_hash::KeyedMap;
use crate::status::Status;
use crate::world::World;
use crate::world::constraint_signature::signature;
use crate::world::job::Job;
use crate::world::shape::ShapeId;

/// A class of waiting jobs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AlikeId(u32);

/// Which class a job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Alike {
    /// The job changed since classes were found.
    #[default]
    Unknown,
    /// It is a case of its own.
    Unlike,
    /// It waits as all jobs of the class do.
    Class {
        /// What the jobs have in common.
        class: AlikeId,
        /// What of its pods the search for victims compares, which includes their labels; zero where it does not compare.
        signature: u64,
    },
}

/// What the jobs of a class have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Traits {
    queue: QueueId,
    priority: i32,
    is_preemptible: bool,
    never_preempts: bool,
    min_members: u32,
    min_available: u32,
    /// Shapes of the pods, in task order.
    shapes: Vec<ShapeId>,
}

/// Classes of the jobs of a world, and the jobs whose class is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlikeJobs {
    ids: KeyedMap<Arc<Traits>, AlikeId>,
    /// Classes by id. Ids of classes without jobs are given to new ones.
    classes: Vec<Class>,
    vacant: Vec<AlikeId>,
    changed: Vec<JobId>,
}

#[derive(Clone, Debug)]
struct Class {
    traits: Arc<Traits>,
    /// Number of jobs that have the class.
    jobs: u32,
}

impl AlikeJobs {
    /// The class of a job with these traits, which is counted in.
    fn join(&mut self, traits: Traits) -> AlikeId {
        if let Some(&id) = self.ids.get(&traits) {
            self.classes[id.0 as usize].jobs += 1;
            return id;
        }
        let class = Class { traits: Arc::new(traits), jobs: 1 };
        let traits = Arc::clone(&class.traits);
        let id = if let Some(id) = self.vacant.pop() {
            self.classes[id.0 as usize] = class;
            id
        } else {
            self.classes.push(class);
            AlikeId(self.classes.len() as u32 - 1)
        };
        self.ids.insert(traits, id);
        id
    }

    /// A job of the class changed or is gone. A class without jobs is forgotten.
    fn leave(&mut self, id: AlikeId) {
        let class = &mut self.classes[id.0 as usize];
        class.jobs -= 1;
        if class.jobs == 0 {
            self.ids.remove(&class.traits);
            self.vacant.push(id);
        }
    }
}

impl World {
    /// Pods, queue or spec of the job changed: its class and what was reported of it no longer hold.
    pub(crate) fn forget_class(&mut self, id: JobId) {
        self.reports.forget(id);
        let job = &mut self.jobs[id.index()];
        if let Alike::Class { class, .. } = std::mem::take(&mut job.alike) {
            self.alike_jobs.leave(class);
        }
        if !std::mem::replace(&mut job.is_listed_as_changed, true) {
            self.alike_jobs.changed.push(id);
        }
    }

    /// Finds the classes of all jobs that changed.
    pub(crate) fn settle_classes(&mut self) {
        for id in std::mem::take(&mut self.alike_jobs.changed) {
            let alike = match self.traits(id) {
                None => Alike::Unlike,
                Some(traits) => {
                    let class = self.alike_jobs.join(traits);
                    let is_compared = self.config.params.use_scheduling_signatures;
                    let signature = if is_compared { signature(self, id) } else { 0 };
                    Alike::Class { class, signature }
                }
            };
            let job = &mut self.jobs[id.index()];
            job.alike = alike;
            job.is_listed_as_changed = false;
        }
    }

    /// None for jobs that are a case of their own.
    fn traits(&self, id: JobId) -> Option<Traits> {
        let job = self.job(id);
        let queue = job.queue.filter(|_| job.live && waits_whole(job) && is_plain(job))?;
        let leaf = &job.leaves[0];
        // Devices that the first pods of a gang open are named after them.
        let names_devices =
            |task: &TaskId| leaf.tasks.len() > 1 && self.shape_of(*task).is_shared();
        let plain = leaf.tasks.iter().all(|task| self.is_plain_pod(*task) && !names_devices(task));
        plain.then(|| Traits {
            queue,
            priority: job.spec.priority,
            is_preemptible: job.is_preemptible(),
            never_preempts: job.spec.never_preempts,
            min_members: job.threshold(0),
            min_available: leaf.declared.min_available,
            shapes: leaf.tasks.iter().map(|task| self.task(*task).shape).collect(),
        })
    }

    /// Nothing but its shape decides where the pod may run.
    fn is_plain_pod(&self, id: TaskId) -> bool {
        let task = self.task(id);
        let constraints = &task.spec.constraints;
        task.spec.role == PodRole::Workload
            && task.claims.is_empty()
            && task.spec.claims.is_empty()
            && task.spec.nominated_node.is_none()
            && constraints.pod_affinity.is_empty()
            && constraints.pod_anti_affinity.is_empty()
            && constraints.preferred_pod_terms.is_empty()
            && constraints.volume_claims.is_empty()
            && constraints.config_maps.is_empty()
    }
}

/// The job has one leaf, and all its pods wait.
pub(crate) fn waits_whole(job: &Job) -> bool {
    let waiting = job.counts.of(Status::Pending) as usize;
    if waiting == 0 {
        return false;
    }
    let [leaf] = &job.leaves[..] else { return false };
    leaf.tasks.len() == waiting && job.strays.is_empty()
}

/// Neither time nor topology nor a field of the pod group alone decides about the job.
fn is_plain(job: &Job) -> bool {
    let spec = &job.spec;
    job.tree.sets.len() == 1
        && job.tree.sets[0].topology.is_none()
        && job.leaves[0].declared.topology.is_none()
        && &*job.leaves[0].declared.name == DEFAULT_LEAF
        && spec.preemptibility != Preemptibility::SemiPreemptible
        && spec.schedulable
        && spec.denied.is_none()
        && !spec.half_bound
        && spec.preemption_delay.is_none()
        && spec.reclaim_delayed_since.is_none()
}

#[cfg(test)]
mod tests {
    use crate::compatibility::Compatibility;
    use crate::input::{Delta, Object, ObjectKey, PodGroupSpec};
    use crate::plugins::testing::{group, named, one_leaf, pod, queue, set, world};
    use crate::world::World;
    use crate::world::alike::Alike;

    /// Adds a job of one waiting pod.
    fn add_job(world: &mut World, name: &str, priority: i32) {
        let spec = PodGroupSpec { priority, ..group(name, one_leaf(1, None)) };
        set(world, Object::PodGroup(Box::new(spec)));
        set(world, Object::Pod(Box::new(pod(&format!("{name}-0"), name, 1))));
    }

    fn remove_job(world: &mut World, name: &str) {
        world.apply(Delta::Remove(ObjectKey::Pod(named(&format!("{name}-0")))));
        world.apply(Delta::Remove(ObjectKey::PodGroup(named(name))));
    }

    fn class(world: &World, name: &str) -> Alike {
        world.job(world.job_named(&named(name)).expect("the job exists")).alike
    }

    #[test]
    fn classes_without_jobs_are_forgotten() {
        let mut world = world(Compatibility::Right, &[]);
        set(&mut world, Object::Queue(queue("queue")));
        add_job(&mut world, "stays", 0);
        world.settle_classes();
        let stays = class(&world, "stays");
        assert!(matches!(stays, Alike::Class { .. }));
        for priority in 1..100 {
            add_job(&mut world, "comes", priority);
            world.settle_classes();
            remove_job(&mut world, "comes");
        }
        add_job(&mut world, "same", 0);
        world.settle_classes();
        assert_eq!(class(&world, "same"), stays);
        assert_eq!(world.alike_jobs.ids.len(), 1);
        assert_eq!(world.alike_jobs.classes.len(), 2);
    }

    #[test]
    fn a_job_that_changes_leaves_its_class() {
        let mut world = world(Compatibility::Right, &[]);
        set(&mut world, Object::Queue(queue("queue")));
        for priority in 0..100 {
            add_job(&mut world, "job", priority);
            world.settle_classes();
        }
        assert_eq!(world.alike_jobs.ids.len(), 1);
        assert!(world.alike_jobs.classes.len() <= 2);
    }
}
