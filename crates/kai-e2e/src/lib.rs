//! KAI's end-to-end cases as one list, over any cluster that can run them.
//!
//! | module | subject |
//! |---|---|
//! | [`cluster`] | what a cluster must offer |
//! | [`room`] | a part of a cluster that one case has for itself |
//! | [`devices`] | devices that are claimed |
//! | [`objects`] | queues, pods and groups in few words |
//! | [`kubelet`] | pods start and end on nodes that are nobody's |
//! | [`provisioner`] | volumes are made for claims |
//! | [`cases`] | the list |
//! | [`run`] | the list is run and counted |

pub mod cases;
pub mod cluster;
pub mod devices;
pub mod kubelet;
pub mod objects;
pub mod provisioner;
pub mod room;
pub mod run;
