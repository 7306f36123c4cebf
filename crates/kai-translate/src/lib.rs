//! Kubernetes objects into the words of the planner. Pure: no client, no clock.
//!
//! Each kind has a function from a decoded object to the input of the planner, and returns what is wrong with the object
//! besides: [`Translated`]. An object of which too much is wrong is left out; the others never suffer from it.
//!
//! | module | subject |
//! |---|---|
//! | [`view`] | slim views of pods and nodes, decoded straight from the stream |
//! | [`decode`] | any other object from JSON, with an error that names object and field |
//! | [`pod`] | requests, GPU annotations, status, constraints |
//! | [`node`] | allocatable amounts, taints, conditions |
//! | [`gpus`], [`platform`] | what a node's GPUs are where labels do not say; Jetsons |
//! | [`pod_group`], [`queue`], [`topology`], [`bind_request`] | KAI's own objects |
//! | [`placement`], [`trust`] | what a bind attested, and what of a pod is believed |
//! | [`priority`] | values of priority classes |
//! | [`device_judge`] | selectors of devices |
//! | [`device_versions`] | objects of `resource.k8s.io` before `v1` |
//! | [`device_slice`] | slices, with counters and capacities that devices share |
//! | [`device_results`] | devices that a plan decided, back into the words of Kubernetes |
//! | [`budget`], [`devices`], [`namespace`], [`storage`], [`numa`] | what else limits placement |

mod amounts;
pub mod bind_request;
pub mod budget;
mod container_memory;
pub mod decode;
pub mod device_judge;
pub mod device_results;
pub mod device_slice;
pub mod device_versions;
pub mod devices;
pub mod gpus;
pub mod namespace;
pub mod node;
pub mod numa;
pub mod partition;
pub mod placement;
pub mod platform;
pub mod pod;
pub mod pod_group;
pub mod priority;
mod problem;
pub mod queue;
mod selectors;
pub mod storage;
pub mod time;
mod tolerations;
pub mod topology;
pub mod trust;
pub mod view;

pub use problem::{Problem, Translated};
