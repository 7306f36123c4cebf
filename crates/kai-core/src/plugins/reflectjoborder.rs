//! reflectjoborder: the order in which jobs would be tried is part of the plan, for people who ask why theirs waits.

use crate::config::PluginSpec;
use crate::plugins::Policy;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.reflects_job_order = true;
}
