//! What happens to a cluster between cycles of a timeline.

use super::check;
use super::cluster::{ClusterState, Node};
use super::resolve;
use crate::format::{FormatError, Operation, Status, Step};

/// Goes through the steps without running cycles, so that a name that does not exist is found before
/// anything runs.
pub(super) fn rehearse(state: &ClusterState, steps: &[Step]) -> Result<(), FormatError> {
    let mut state = state.clone();
    let mut now_s = 0.0;
    for (index, step) in steps.iter().enumerate() {
        let path = format!("run.steps[{index}]");
        let at_s = step.at_s.unwrap_or(now_s);
        if at_s < now_s {
            let message = format!("{at_s} is in the past, expected at least {now_s}");
            return Err(FormatError::new(format!("{path}.at_s"), message));
        }
        now_s = at_s;
        for (position, operation) in step.operations.iter().enumerate() {
            let path = format!("{path}.do[{position}]");
            state.carry_out(operation, now_s, &path)?;
        }
    }
    Ok(())
}

impl ClusterState {
    /// Carries out one operation; `path` is where it is written, for the error.
    pub fn carry_out(
        &mut self,
        operation: &Operation,
        now_s: f64,
        path: &str,
    ) -> Result<(), FormatError> {
        let missing =
            |kind: &str, name: &str| FormatError::new(path, format!("there is no {kind} `{name}`"));
        match operation {
            Operation::AddJob(written) => self.add_job(written, now_s, path),
            Operation::DeleteJob(name) => {
                let position = self.jobs.iter().position(|job| job.name == *name);
                self.jobs.remove(position.ok_or_else(|| missing("job", name))?);
                Ok(())
            }
            Operation::SetTask(change) => {
                let mut tasks = self.jobs.iter_mut().flat_map(|job| &mut job.tasks);
                let task = tasks.find(|task| task.name == change.task);
                let task = task.ok_or_else(|| missing("task", &change.task))?;
                task.status = change.status;
                Ok(())
            }
            Operation::AddNode(written) => {
                if self.node(&written.name).is_some() {
                    let message = format!("node `{}` exists already", written.name);
                    return Err(FormatError::new(path, message));
                }
                self.nodes.push(resolve::node(written, self.config.params.whole_gpu_policy));
                Ok(())
            }
            Operation::RemoveNode(name) => {
                let position = self.nodes.iter().position(|node| node.name == *name);
                self.nodes.remove(position.ok_or_else(|| missing("node", name))?);
                self.fail_tasks_on(name);
                Ok(())
            }
            Operation::SetQueue(written) => {
                self.set_queue(written, now_s);
                check::queues(self).map_err(|error| FormatError::new(path, error.message))
            }
            Operation::SetNodeLabels(change) => {
                let node = self.nodes.iter_mut().find(|node| node.name == change.node);
                relabel(node.ok_or_else(|| missing("node", &change.node))?, &change.labels);
                Ok(())
            }
        }
    }

    fn add_job(
        &mut self,
        written: &crate::format::Job,
        now_s: f64,
        path: &str,
    ) -> Result<(), FormatError> {
        let job = resolve::job(written, written.age_s.unwrap_or(0.0), now_s);
        if self.job(&job.name).is_some() {
            return Err(FormatError::new(path, format!("job `{}` exists already", job.name)));
        }
        if let Some(task) = job.tasks.iter().find(|task| self.task(&task.name).is_some()) {
            return Err(FormatError::new(path, format!("task `{}` exists already", task.name)));
        }
        check::job(self, &job, &format!("{path}.add_job"))?;
        self.jobs.push(job);
        Ok(())
    }

    fn set_queue(&mut self, written: &crate::format::Queue, now_s: f64) {
        let known = self.queues.iter().position(|queue| queue.name == written.name);
        let created_at_s = known.map_or(now_s, |position| self.queues[position].created_at_s);
        let mut queue = resolve::queue(written, written.created_s.unwrap_or(created_at_s));
        if self.implicit_root_queue {
            resolve::put_under_root(&mut queue);
        }
        match known {
            Some(position) => self.queues[position] = queue,
            None => self.queues.push(queue),
        }
    }

    fn fail_tasks_on(&mut self, node: &str) {
        let tasks = self.jobs.iter_mut().flat_map(|job| &mut job.tasks);
        for task in tasks.filter(|task| task.node.as_deref() == Some(node)) {
            if task.status.occupies_node() {
                task.status = Status::Failed;
            }
            task.node = None;
        }
        for job in &mut self.jobs {
            for task in &mut job.tasks {
                task.bind_request.take_if(|request| request.node == node);
            }
        }
        self.foreign_pods.retain(|pod| pod.node != node);
        self.resource_slices.retain(|slice| slice.node.as_deref() != Some(node));
    }
}

/// A node's labels are replaced as a whole; those the runner adds to every node stay.
fn relabel(node: &mut Node, labels: &crate::format::StringMap) {
    let added = ["kai.scheduler/type", "nvidia.com/gpu.count", "nvidia.com/gpu.memory"];
    let mut replaced = labels.clone();
    for key in added {
        if let Some(value) = node.labels.get(key) {
            replaced.entry(key.to_owned()).or_insert_with(|| value.clone());
        }
    }
    node.labels = replaced;
    node.gpu_memory_mib = resolve::gpu_memory_label(&node.labels).unwrap_or(node.gpu_memory_mib);
}
