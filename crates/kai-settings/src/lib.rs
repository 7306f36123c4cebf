//! Settings: the flags of KAI's components, `Config`, `SchedulingShard` and KAI's configuration file, each read into the typed
//! settings of the controllers. Pure.
//!
//! | module | subject |
//! |---|---|
//! | [`planner`], [`status`], [`metrics`], [`usage`] | settings of the scheduling controllers |
//! | [`binder`], [`admission`], [`scale_adjuster`] | settings of these components |
//! | [`queue_access`] | annotations of queues that say who may use them |
//! | [`flags`] | KAI's scheduler flags |
//! | [`config_file`] | KAI's configuration file |
//! | [`config`], [`shard`], `sharing_mode` | what `Config` and `SchedulingShard` set |
//! | [`fields`] | which of their fields are honoured |

pub mod admission;
pub mod binder;
pub mod config;
pub mod config_file;
pub mod fields;
pub mod flags;
pub mod metrics;
pub mod planner;
pub mod queue_access;
pub mod scale_adjuster;
pub mod shard;
mod sharing_mode;
pub mod status;
pub mod usage;
