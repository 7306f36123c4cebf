//! Everything that talks to Kubernetes: watches into the planner, plans into writes. No policy: what to do is the planner's.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@env`] | clock, timers and spawning, injected everywhere |
//! | [`client`] | how a client is set up |
//! | [`device_api`] | older versions of `resource.k8s.io` |
//! | [`function`] | the functions, each of which may run alone |
//! | [`lease`] | which of several processes acts |
//! | [`kinds`] | the kinds that are watched |
//! | [`watch`] | one watch: list, follow, resume |
//! | [`planner`] | changes into the world, plans into orders; pure |
//! | [`orders`] | orders into requests |
//! | [`status`] | what is told: conditions, sums, events |
//! | [`admission`] | what is refused or completed when it is written |
//! | [`shards`] | one planner per shard, settings read live |
//! | [`metrics`] | what is measured |
//! | [`serve`] | health, metrics and snapshots over HTTP |
//! | [`snapshot`] | the cluster in KAI's archive |
//! | [`explain`] | why something waits, in words |
//! | [`usage`] | past usage of queues |
//! | [`listing`] | what one look at the cluster answers |
//! | [`config_file`] | KAI's configuration file |
//! | [`flags`] | KAI's scheduler flags |
//! | [`grouper`] | pods into pod groups |
//! | [`kubelet`] | what the kubelet answers, asked on its node |
//! | [`numa_agent`] | the agent of a node: which zones its pods have |
//! | [`binder`] | bind requests into bound pods |
//! | [`own_pod`] | the pod that this process runs in |
//! | [`run`] | the loop that holds it together |
//! | [`manifests`], [`deployments`] | what is installed |

pub mod admission;
pub mod binder;
pub mod client;
pub mod config_file;
pub mod deployments;
pub mod device_api;
pub mod env;
pub mod explain;
pub mod flags;
pub mod function;
pub mod grouper;
pub mod kinds;
pub mod kubelet;
pub mod lease;
pub mod listing;
pub mod manifests;
pub mod metrics;
pub mod numa_agent;
pub mod orders;
pub mod own_pod;
pub mod planner;
mod reserved;
pub mod run;
pub mod serve;
pub mod shards;
pub mod snapshot;
pub mod status;
pub mod usage;
pub mod watch;
mod zip;
