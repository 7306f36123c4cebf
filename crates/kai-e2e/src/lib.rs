//! KAI's end-to-end cases as one list, over any cluster that can run them.
//!
//! | module | subject |
//! |---|---|
//! | [`cluster`] | what a cluster must offer |
//! | [`test_space`] | a part of a cluster that one case has for itself |
//! | [`devices`] | devices that are claimed |
//! | [`objects`] | queues, pods and groups in few words |
//! | [`settings`] | planners that are set up in another way |
//! | [`admission`] | admission for one test space at a time |
//! | [`foreign`] | kinds that other people's operators install |
//! | [`zones`] | nodes with NUMA zones |
//! | [`kubelet`] | pods start and end on nodes without a real kubelet |
//! | [`provisioner`] | volumes are made for claims |
//! | [`cases`] | the cases |
//! | [`suites`] | the list of KAI's cases, and which of them are here |
//! | [`run`] | the list is run and counted |

pub mod admission;
pub mod cases;
pub mod cluster;
pub mod devices;
pub mod foreign;
pub mod kubelet;
pub mod objects;
pub mod provisioner;
pub mod run;
pub mod settings;
pub mod suites;
pub mod test_space;
pub mod zones;
