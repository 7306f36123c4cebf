//! How many cycles to run, what happens between them and when to compare.

use serde::Deserialize;

use super::StringMap;
use super::expect::Expectation;
use super::job::Job;
use super::node::Node;
use super::queue::Queue;
use super::status::Status;

/// The three ways to run a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RunKeys")]
pub enum Run {
    /// One cycle; its live result is compared.
    Cycle,
    /// Some cycles until things settle, a comparison, and some more that must change nothing.
    Rounds {
        /// Cycles before the comparison.
        before_check: u32,
        /// Cycles after it, each compared.
        after_check: u32,
    },
    /// Steps on a clock.
    Timeline(Vec<Step>),
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Cycle,
    Rounds,
    Timeline,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunKeys {
    mode: Mode,
    before_check: Option<u32>,
    after_check: Option<u32>,
    pause_s: Option<f64>,
    steps: Option<Vec<Step>>,
}

impl TryFrom<RunKeys> for Run {
    type Error = String;

    fn try_from(keys: RunKeys) -> Result<Self, String> {
        let rounds_keys =
            keys.before_check.is_some() || keys.after_check.is_some() || keys.pause_s.is_some();
        if keys.mode != Mode::Rounds && rounds_keys {
            return Err("before_check, after_check and pause_s go with mode rounds only".into());
        }
        if keys.mode != Mode::Timeline && keys.steps.is_some() {
            return Err("steps goes with mode timeline only".into());
        }
        match keys.mode {
            Mode::Cycle => Ok(Self::Cycle),
            Mode::Rounds => {
                let before_check = keys.before_check.unwrap_or(2);
                if before_check < 1 {
                    return Err("before_check is 0, expected at least 1".into());
                }
                Ok(Self::Rounds { before_check, after_check: keys.after_check.unwrap_or(5) })
            }
            Mode::Timeline => {
                keys.steps.map(Self::Timeline).ok_or_else(|| "mode timeline needs steps".into())
            }
        }
    }
}

/// One step of a timeline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The clock is moved here; absent: it stays.
    pub at_s: Option<f64>,
    /// What happens before the cycles.
    #[serde(default, rename = "do")]
    pub operations: Vec<Operation>,
    /// How many cycles to run.
    #[serde(default = "one")]
    pub cycles: u32,
    /// What must hold afterwards.
    pub expect: Option<Expectation>,
    /// Extension: what must hold instead where the faults of the reference are reproduced.
    pub expect_kai: Option<Expectation>,
}

fn one() -> u32 {
    1
}

/// Something that happens to the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A job is created with its tasks.
    AddJob(Box<Job>),
    /// A job is deleted.
    DeleteJob(String),
    /// A task changes its status by itself.
    SetTask(TaskStatus),
    /// A node joins the cluster.
    AddNode(Box<Node>),
    /// A node is removed; its tasks become Failed.
    RemoveNode(String),
    /// A queue comes or changes.
    SetQueue(Box<Queue>),
    /// A node's labels are replaced.
    SetNodeLabels(NodeLabels),
}

/// A task and its new status.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskStatus {
    /// Name of the task.
    pub task: String,
    /// Status that it has from then on.
    pub status: Status,
}

/// A node and its new labels.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLabels {
    /// Name of the node.
    pub node: String,
    /// Labels that replace those it had.
    pub labels: StringMap,
}
