//! A full cluster in which one job ends and another arrives, again and again.

use kai_core::input::{Delta, Object, PodSpec, Text};
use kai_core::plan::{CyclePlan, StepKind, assume, plan};
use kai_core::status::Status;

use super::objects::{GPUS_PER_NODE, JobSketch, queue_name};
use super::worlds::STEADY_WAITING;
use super::{BenchError, Built, Case, Family, Mismatch};

/// The world and what happens to it.
#[derive(Debug)]
pub struct Steady {
    built: Built,
    nodes: usize,
    /// Number of events that happened so far.
    events: usize,
}

/// One job that ends and one that arrives.
#[derive(Debug)]
pub struct SteadyEvent {
    /// A job is deleted, a job is created.
    pub deltas: Vec<Delta>,
    /// The pod that is to be bound.
    pub arrived: PodSpec,
}

impl Steady {
    /// The world with `nodes` nodes, full.
    pub fn new(nodes: usize) -> Result<Self, BenchError> {
        let built = Case { family: Family::Steady, size: nodes }.build()?;
        Ok(Self { built, nodes, events: 0 })
    }

    /// The world as the events so far left it.
    pub fn built(&self) -> &Built {
        &self.built
    }

    /// Switches every shortcut of the search off or on.
    pub fn set_naive_search(&mut self, naive: bool) {
        self.built.world.set_naive_search(naive);
    }

    /// What happens next: the jobs of queue 0 end in the order in which they started.
    pub fn next_event(&mut self) -> SteadyEvent {
        let running = GPUS_PER_NODE * self.nodes;
        let queue = queue_name(0);
        let jobs_of_queue = running / 2;
        let ends = if self.events < jobs_of_queue {
            let number = 2 * self.events;
            JobSketch::running(number, &queue, 1, number % self.nodes)
        } else {
            arriving(self.events - jobs_of_queue, &queue)
        };
        let arrives = arriving(self.events, &queue);
        let position = running + STEADY_WAITING + self.events;
        let arrived = arrives.pod(0, position);
        self.events += 1;
        let deltas = ends.removal().chain(arrives.deltas(position, self.built.now)).collect();
        SteadyEvent { deltas, arrived }
    }

    /// Both deltas, a cycle, and its decisions noted as in flight.
    pub fn take(&mut self, deltas: Vec<Delta>) -> CyclePlan {
        for delta in deltas {
            self.built.world.apply(delta);
        }
        let plan = plan(&mut self.built.world, self.built.now);
        assume(&mut self.built.world, &plan);
        plan
    }

    /// Checks that exactly the new job was bound, and lets it run.
    pub fn settle(&mut self, arrived: &PodSpec, plan: &CyclePlan) -> Result<(), Mismatch> {
        let bound: Vec<(&Text, &Text)> = plan
            .steps
            .iter()
            .filter_map(|step| match &step.kind {
                StepKind::Bind { node, .. } => Some((&step.pod.name, node)),
                _ => None,
            })
            .collect();
        let [(pod, node)] = bound[..] else {
            return Err(Mismatch(format!("{} pods bound, expected 1", bound.len())));
        };
        if plan.steps.len() != 1 || *pod != arrived.name.name {
            return Err(Mismatch(format!("{pod} bound, expected {}", arrived.name.name)));
        }
        let runs = PodSpec { status: Status::Running, node: Some(node.clone()), ..arrived.clone() };
        self.built.world.apply(Delta::Set(Object::Pod(Box::new(runs))));
        Ok(())
    }
}

fn arriving(number: usize, queue: &Text) -> JobSketch {
    let name = format!("arriving-{number}").into();
    JobSketch { name, ..JobSketch::waiting(number, queue, 1) }
}
