//! snapshot: serves the cluster's objects over HTTP. The server is an adapter's; planning is not influenced.

use crate::config::PluginSpec;
use crate::plugins::Policy;

pub(super) fn register(_: &mut Policy, _: &PluginSpec) {}
