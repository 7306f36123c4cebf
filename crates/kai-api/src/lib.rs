//! The Kubernetes surface: custom resources, names, quantities and slim views of built-in objects. Types only.

pub mod bind_request;
pub mod config;
pub mod crds;
pub mod cron;
pub mod duration;
pub mod enforcement;
pub mod function;
pub mod gpu_processes;
pub mod gpu_request;
pub mod json;
pub mod names;
pub mod pod_group;
pub mod quantity;
pub mod queue;
pub mod shard;
pub mod sub_groups;
pub mod topology;
pub mod view;

pub use bind_request::BindRequest;
pub use config::Config;
pub use pod_group::PodGroup;
pub use queue::Queue;
pub use shard::SchedulingShard;
pub use topology::Topology;
