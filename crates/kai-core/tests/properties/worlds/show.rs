//! Clusters and differences in few words: a failing case must be readable.

use std::fmt::{self, Write as _};

use kai_core::input::{Delta, Object};
use kai_core::plan::{CyclePlan, Step, StepKind};
use proptest::prelude::TestCaseError;

use super::Cluster;

/// One object on one line, without what is empty or usual.
pub(crate) fn object(object: &Object) -> String {
    let text = match object {
        Object::Pod(pod) => {
            let mut text = format!("pod {} {:?}", pod.name, pod.status);
            for (word, part) in [("on", &pod.node), ("of", &pod.group), ("leaf", &pod.sub_group)] {
                if let Some(part) = part {
                    let _ = write!(text, " {word} {part}");
                }
            }
            let _ = write!(text, " {:?} created {}", pod.role, pod.created.nanos / 1_000_000_000);
            let request = &pod.request;
            let amounts = (request.cpu_milli, request.memory_bytes, &request.gpu);
            let _ = write!(text, " asks {amounts:?} devices {:?}", pod.gpu_groups);
            if let Some(stuck) = pod.stuck_at {
                let _ = write!(text, " stuck at {}", stuck.nanos / 1_000_000_000);
            }
            if *pod.constraints != kai_core::input::pod::PodConstraints::default() {
                let _ = write!(text, " {:?}", pod.constraints);
            }
            text
        }
        other => format!("{other:?}"),
    };
    text.replace("topology: None, ", "").replace("nanos: ", "").replace("000000000 }", " s }")
}

/// One delta on one line.
pub(crate) fn delta(delta: &Delta) -> String {
    match delta {
        Delta::Set(object) => format!("set {}", self::object(object)),
        Delta::Remove(key) => format!("remove {key:?}"),
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = &self.config.params;
        writeln!(f, "{:?} {:?}", self.config.compatibility, params.whole_gpu_policy)?;
        writeln!(
            f,
            "reserve {} consolidating {} signatures {} hierarchy {} preemptees {:?} restrict {}",
            params.gpu_memory_reserve_mib,
            params.allow_consolidating_reclaim,
            params.use_scheduling_signatures,
            params.full_hierarchy_fairness,
            params.max_consolidation_preemptees,
            params.restrict_node_scheduling
        )?;
        let plugins: Vec<_> =
            self.config.plugins.iter().map(|plugin| (&*plugin.name, &plugin.arguments)).collect();
        writeln!(f, "plugins {plugins:?}")?;
        self.objects().iter().try_for_each(|object| writeln!(f, "{}", self::object(object)))
    }
}

/// Objects in the order in which they are applied.
#[derive(Clone)]
pub(crate) struct Applied(pub(crate) Vec<Object>);

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(super::key_of).collect();
        write!(f, "{names:?}")
    }
}

/// Fails with the first line that differs.
pub(crate) fn same(left: &str, right: &str) -> Result<(), TestCaseError> {
    if left == right {
        return Ok(());
    }
    let differs = left.lines().zip(right.lines()).find(|(left, right)| left != right);
    let (one, other) = differs.unwrap_or(("", "one is longer"));
    Err(TestCaseError::fail(format!("they differ:\n{one}\n{other}")))
}

/// Fails with what was found, each on a line.
pub(crate) fn none<T: fmt::Display>(found: &[T], context: &str) -> Result<(), TestCaseError> {
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    Err(TestCaseError::fail(format!("{}\n{context}", lines.join("\n"))))
}

/// The steps of a plan, each on a line.
pub(crate) fn steps(plan: &CyclePlan) -> String {
    let line = |step: &Step| {
        let pod = &step.pod;
        let what = match &step.kind {
            StepKind::Bind { node, gpu_groups, .. } => {
                format!("binds {pod} to {node} {gpu_groups:?}")
            }
            StepKind::Nominate { node, gpu_groups, for_job } => {
                format!("nominates {pod} to {node} {gpu_groups:?} for {for_job:?}")
            }
            StepKind::Evict { for_job, batch, .. } => {
                format!("evicts {pod}, one of {batch}, for {for_job:?}")
            }
        };
        format!("{:?} {what}", step.action)
    };
    plan.steps.iter().map(line).collect::<Vec<_>>().join("\n")
}
