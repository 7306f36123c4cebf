//! `kai.scheduler/min-member`: the gang size of a workload of any kind, from an annotation of the workload, else of the pod.

use kai_api::names::workload::MIN_MEMBER;

use crate::base::{Case, pod_name};
use crate::object::annotation_path;
use crate::plan::{Minimum, Notice, PodGroupPlan};

pub(super) fn apply(case: &Case<'_>, plan: &mut PodGroupPlan) {
    let top = case.top();
    let on_top = top.annotation(MIN_MEMBER).map(|text| (text, top.describe()));
    let on_pod = || case.pod.annotation(MIN_MEMBER).map(|text| (text, pod_name(case.pod)));
    let Some((text, object)) = on_top.or_else(on_pod) else { return };
    let number = text.parse::<i32>().ok().filter(|number| *number >= 1);
    let problem = match number {
        None => "must be an integer of at least 1",
        Some(_) if !plan.sub_groups.is_empty() => {
            "the parts of this kind of workload have gang sizes of their own"
        }
        Some(2..) if plan.is_own_group_of(case.pod) => {
            "each pod of this kind of workload is a group of its own"
        }
        Some(number) => {
            plan.minimum = Minimum::Members(number);
            return;
        }
    };
    let place = format!("{object}: {}", annotation_path(MIN_MEMBER));
    plan.notices.push(Notice::Ignored { place, problem: problem.to_owned() });
}
