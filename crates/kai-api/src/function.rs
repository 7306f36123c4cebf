//! The functions of `kai run`, each of which may run alone.

use crate::names::components;

/// A function of `kai run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Places pods.
    Scheduler,
    /// Makes pod groups.
    PodGrouper,
    /// Carries bind requests out.
    Binder,
    /// Sums up what pod groups have and want.
    PodGroupController,
    /// Sums up what queues have and want.
    QueueController,
    /// Checks and completes what is written.
    Admission,
    /// Makes autoscalers add nodes for pods that share devices.
    NodeScaleAdjuster,
}

impl Function {
    /// Functions that run where none is named. The others have to be asked for.
    pub const USUAL: [Self; 5] = [
        Self::Scheduler,
        Self::PodGrouper,
        Self::Binder,
        Self::PodGroupController,
        Self::QueueController,
    ];
    /// Functions that follow the cluster.
    pub const FOLLOWING: [Self; 6] = [
        Self::Scheduler,
        Self::PodGrouper,
        Self::Binder,
        Self::PodGroupController,
        Self::QueueController,
        Self::NodeScaleAdjuster,
    ];
    pub const ALL: [Self; 7] = [
        Self::Scheduler,
        Self::PodGrouper,
        Self::Binder,
        Self::PodGroupController,
        Self::QueueController,
        Self::Admission,
        Self::NodeScaleAdjuster,
    ];

    /// Its name, which is also that of its service account.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => components::SCHEDULER,
            Self::PodGrouper => components::POD_GROUPER,
            Self::Binder => components::BINDER,
            Self::PodGroupController => components::POD_GROUP_CONTROLLER,
            Self::QueueController => components::QUEUE_CONTROLLER,
            Self::Admission => components::ADMISSION,
            Self::NodeScaleAdjuster => components::NODE_SCALE_ADJUSTER,
        }
    }

    /// The lease that KAI's component of the same function holds too. Schedulers of different parts of a cluster do not
    /// exclude each other.
    pub fn lease(self, scheduler: &str, partition: Option<&str>) -> String {
        match (self, partition) {
            (Self::Scheduler, None) => scheduler.to_owned(),
            (Self::Scheduler, Some(partition)) => format!("{scheduler}-{partition}"),
            (Self::PodGrouper, _) => components::POD_GROUPER_LEASE.to_owned(),
            (Self::Binder, _) => components::BINDER_LEASE.to_owned(),
            (Self::PodGroupController, _) => components::POD_GROUP_CONTROLLER_LEASE.to_owned(),
            (Self::QueueController, _) => components::QUEUE_CONTROLLER_LEASE.to_owned(),
            (Self::Admission, _) => components::ADMISSION_LEASE.to_owned(),
            (Self::NodeScaleAdjuster, _) => components::NODE_SCALE_ADJUSTER_LEASE.to_owned(),
        }
    }
}
