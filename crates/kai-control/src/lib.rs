//! Everything that talks to Kubernetes: watches into the planner, plans into writes. No policy: what to do is the planner's.
//!
//! | module | subject |
//! |---|---|
//! | [`planner`] | changes into the world, plans into orders; pure |
//! | [`orders`] | orders into requests |
//! | [`status`] | what is reported: conditions, sums, events |
//! | [`shards`] | one planner per shard, settings read live |
//! | [`metrics`] | what is measured |
//! | [`serve`] | health, metrics and snapshots over HTTP |
//! | [`snapshot`] | the cluster in KAI's archive |
//! | [`explain`] | why something waits, in words |
//! | [`usage`] | past usage of queues |
//! | [`grouper`] | pods into pod groups |
//! | [`scale_adjuster`] | scaling pods, which make autoscalers add nodes for pods that share devices |
//! | [`bootstrap`] | what a new version brings to the cluster: definitions, default queues |
//! | `panics` | panics of a planner, and the objects that are skipped after them |
//! | [`run`] | the loop that holds it together |

pub mod bootstrap;
pub mod explain;
pub mod grouper;
pub mod metrics;
mod name_set;
pub mod orders;
mod panics;
mod plan_window;
pub mod planner;
mod pool;
pub mod run;
pub mod scale_adjuster;
pub mod serve;
pub mod shards;
pub mod snapshot;
pub mod status;
pub mod usage;
mod zip;
