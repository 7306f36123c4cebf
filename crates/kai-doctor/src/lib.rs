//! What is wrong with a cluster or a host, and the command that puts it right.
//!
//! Checks are pure: facts in, findings out. The caller lists the objects of a cluster, or names the folder of a host.
//!
//! | module | subject |
//! |---|---|
//! | [`check`] | every check by name |
//! | [`finding`] | what a check says |
//! | [`cluster`] | what the API shows |
//! | [`host`] | what only the host shows |

pub mod check;
pub mod cluster;
pub mod finding;
pub mod host;
