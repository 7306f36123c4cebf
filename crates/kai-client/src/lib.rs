//! The API server's client: watches, requests, leases and injected time. Controllers are built on this crate; it has no
//! rule of scheduling.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@env`] | clock, timers and spawning, injected everywhere |
//! | [`client`] | set-up of a client |
//! | [`access`] | which queues and priority classes a service account may use |
//! | [`bearer`] | clients of our own servers that present a token of the cluster |
//! | [`device_api`] | older versions of `resource.k8s.io` |
//! | [`lease`] | leader election, and the gate that closes when a lease expires |
//! | [`kinds`] | the watched kinds |
//! | [`watch`] | one watch: list, follow, resume |
//! | [`observed`] | objects of watches, decoded once |
//! | [`path`] | paths of objects; names are percent-encoded here and nowhere else |
//! | [`mod@write`] | writes as one type, and the executor with limits, deadline and repetition |
//! | [`failure`] | why a request failed: for controllers to act on, and in one sentence for people |
//! | [`request`] | requests that are not writes of [`mod@write`] yet |
//! | [`short_hash`] | names of objects that follow from other names |
//! | [`placement_key`] | the key with which placements are signed |
//! | [`own_pod`] | the pod that this process runs in |

pub mod access;
pub mod bearer;
pub mod client;
pub mod device_api;
pub mod env;
pub mod failure;
pub mod kinds;
pub mod lease;
pub mod observed;
pub mod own_pod;
pub mod path;
pub mod placement_key;
pub mod request;
pub mod short_hash;
pub mod watch;
pub mod write;
