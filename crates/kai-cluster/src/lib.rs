//! Everything that talks to Kubernetes: watches into the planner, plans into writes. No policy: what to do is the planner's.
//!
//! | module | subject |
//! |---|---|
//! | [`mod@env`] | clock, timers and spawning, injected everywhere |
//! | [`client`] | how a client is set up |
//! | [`kinds`] | the kinds that are watched |
//! | [`watch`] | one watch: list, follow, resume |
//! | [`planner`] | changes into the world, plans into orders; pure |
//! | [`orders`] | orders into requests |
//! | [`grouper`] | pods into pod groups |
//! | [`binder`] | bind requests into bound pods |
//! | [`run`] | the loop that holds it together |
//! | [`manifests`] | what is installed |

pub mod binder;
pub mod client;
pub mod env;
pub mod grouper;
pub mod kinds;
pub mod manifests;
pub mod orders;
pub mod planner;
pub mod run;
pub mod watch;
