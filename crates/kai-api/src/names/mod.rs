//! Every name that users, operators and other controllers can see, one constant each, grouped by subject.
//!
//! Names are part of the compatibility promise: a manifest written for KAI means the same here.

pub mod admission;
pub mod components;
pub mod defaults;
pub mod env;
pub mod gpu;
pub mod guard;
pub mod legacy;
pub mod node;
pub mod objects;
pub mod queue;
pub mod resources;
pub mod scheduling;
pub mod status;
pub mod storage;
pub mod third_party;
pub mod workload;
