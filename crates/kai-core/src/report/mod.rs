//! Reasons as data, and one renderer that turns them into KAI's texts.

pub mod broken_bound;
pub mod device_trials;
pub mod explain;
pub mod held_back;
pub mod job_fit;
pub(crate) mod preemption_policy;
pub mod refusal;
pub mod refused_nodes;
pub(crate) mod remembered;
pub mod searches;
pub mod task_fit;
pub mod text;
pub mod victims;
