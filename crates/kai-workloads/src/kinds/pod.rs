//! Plain pods: a group each. Spark: driver and executors share one, named by the application's id.
//!
//! Executors are owned by the driver pod, so the driver is the top owner of all.

use kai_api::names::objects::{POD_GROUP_PREFIX, TRAIN};
use kai_api::names::third_party;
use kai_api::view::Pod;

use crate::base::{Case, default_plan};
use crate::plan::PodGroupPlan;

pub(super) fn plan(case: &Case<'_>) -> PodGroupPlan {
    let mut plan = default_plan(case, TRAIN);
    if let Some(application) = spark_application(case.pod) {
        application.clone_into(&mut plan.name);
    }
    plan
}

/// The id of the Spark application; both of Spark's labels must be there.
fn spark_application(pod: &Pod) -> Option<&str> {
    pod.label(third_party::SPARK_APP_NAME)?;
    pod.label(third_party::SPARK_APP_SELECTOR).filter(|selector| !selector.is_empty())
}

/// Names of groups that these rules may have given to a pod without owners.
pub(crate) fn own_names(pod: &Pod) -> Vec<String> {
    let own = format!("{POD_GROUP_PREFIX}{}-{}", pod.metadata.name, pod.metadata.uid);
    std::iter::once(own).chain(spark_application(pod).map(str::to_owned)).collect()
}
