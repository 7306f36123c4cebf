//! What a node's GPUs are, asked on the node itself. Nothing here talks to Kubernetes or decides anything.
//!
//! | module | subject |
//! |---|---|
//! | [`nvml`] | what we ask NVML, as a trait, and its errors in NVIDIA's words |
//! | [`library`] | where `libnvidia-ml.so.1` is looked for |
//! | [`driver`] | the real one, loaded while running |
//! | [`listed`] | one that answers from a list |
//! | [`visible`] | the devices that a container may see |
//! | [`count`] | how many GPUs a machine has, whatever a container sees |
//! | [`granted`] | which device it is by the names that the device plugin gave it |
//! | [`discovery`] | which device is ours, and what to do where none is |
//! | [`held_memory`] | memory that the driver keeps, and that processes hold |
//! | `idle_pods` | pods that share a device and do not use it yet |
//! | [`process_view`] | which pods use a device, and whether the library is in their processes |
//! | [`publish`] | what a reservation pod writes on itself |
//! | [`tegra`] | signs of a Tegra system as a container sees them |

pub mod count;
pub mod discovery;
pub mod driver;
pub mod granted;
pub mod held_memory;
mod idle_pods;
pub mod library;
pub mod listed;
pub mod nvml;
pub mod process_view;
pub mod publish;
pub mod tegra;
pub mod visible;

pub use kai_translate::gpus::share_mib;
