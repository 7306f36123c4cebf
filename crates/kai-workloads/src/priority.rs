//! Priority class, preemptibility and delays of a workload.

use kai_api::duration::{Units, parse_duration};
use kai_api::names::workload;

use crate::base::{Case, Order, pod_name};
use crate::object::{Object, annotation_path, label_path};
use crate::plan::Notice;

/// The first existing class of: each owner's label (or else the pod's label, or else the pod's spec), the defaults per kind, the
/// default of the rule. The last is taken even if it does not exist.
pub(crate) fn class(
    case: &Case<'_>,
    owners: &[Object<'_>],
    fallback: &str,
    notices: &mut Vec<Notice>,
) -> String {
    let pod = case.pod;
    let on_pod = pod.label(workload::PRIORITY_CLASS_NAME).map(|class| {
        (class, format!("label {} of {}", workload::PRIORITY_CLASS_NAME, pod_name(pod)))
    });
    let in_spec = || {
        let class = pod.spec.priority_class_name.as_deref()?;
        Some((class, format!("spec.priorityClassName of {}", pod_name(pod))))
    };
    for owner in owners {
        let labelled = owner.label(workload::PRIORITY_CLASS_NAME).map(|class| {
            (class, format!("label {} of {}", workload::PRIORITY_CLASS_NAME, owner.describe()))
        });
        let candidate = labelled.or_else(|| on_pod.clone()).or_else(in_spec);
        if let Some((class, source)) = candidate.filter(|(class, _)| !class.is_empty())
            && exists(case, class, source, notices)
        {
            return class.to_owned();
        }
    }
    for (kind, default) in kind_defaults(case, owners) {
        let class = &default.priority_class;
        let source = format!("the defaults of kind {kind}");
        if !class.is_empty() && exists(case, class, source, notices) {
            return class.clone();
        }
    }
    exists(case, fallback, "the default of this kind of workload".to_owned(), notices);
    fallback.to_owned()
}

/// Whether the class exists. If not, the user gets one warning.
pub(crate) fn exists(
    case: &Case<'_>,
    class: &str,
    source: String,
    notices: &mut Vec<Notice>,
) -> bool {
    if case.facts.priority_classes.contains(class) {
        return true;
    }
    let notice = Notice::PriorityClassMissing { name: class.to_owned(), origin: source };
    if !notices.contains(&notice) {
        notices.push(notice);
    }
    false
}

/// Values of the label.
pub(crate) const PREEMPTIBILITIES: [&str; 3] =
    [workload::PREEMPTIBLE, workload::NON_PREEMPTIBLE, workload::SEMI_PREEMPTIBLE];

/// The first valid value of: the labels of owners and pod, the defaults per kind. An empty label ends the search.
pub(crate) fn preemptibility(
    case: &Case<'_>,
    owners: &[Object<'_>],
    order: Order,
    notices: &mut Vec<Notice>,
) -> Option<String> {
    let labels = in_order(
        owners,
        order,
        |owner| owner.label(workload::PREEMPTIBILITY).map(|value| (value, owner.describe())),
        || case.pod.label(workload::PREEMPTIBILITY).map(|value| (value, pod_name(case.pod))),
    );
    for (value, object) in labels {
        match value {
            "" => return None,
            _ if PREEMPTIBILITIES.contains(&value) => return Some(value.to_owned()),
            _ => notices.push(Notice::Ignored {
                place: format!("{object}: {}", label_path(workload::PREEMPTIBILITY)),
                problem: format!(
                    "{value:?} is none of preemptible, non-preemptible and semi-preemptible"
                ),
            }),
        }
    }
    kind_defaults(case, owners)
        .map(|(_, default)| default.preemptibility.as_str())
        .find(|value| PREEMPTIBILITIES.contains(value))
        .map(str::to_owned)
}

/// The first valid duration among the annotations of owners and pod, in nanoseconds.
pub(crate) fn duration(
    case: &Case<'_>,
    owners: &[Object<'_>],
    order: Order,
    key: &str,
    allowed: impl Fn(i64) -> bool,
    notices: &mut Vec<Notice>,
) -> Option<i64> {
    let annotations = in_order(
        owners,
        order,
        |owner| owner.annotation(key).map(|value| (value, owner.describe())),
        || case.pod.annotation(key).map(|value| (value, pod_name(case.pod))),
    );
    for (value, object) in annotations {
        let problem = match parse_duration(value, Units::Go) {
            Ok(nanos) if allowed(nanos) => return Some(nanos),
            Ok(_) => format!("{value:?} is negative"),
            Err(error) => error.to_string(),
        };
        notices.push(Notice::Ignored {
            place: format!("{object}: {}", annotation_path(key)),
            problem,
        });
    }
    None
}

/// Values of owners and pod, in the order in which they count.
fn in_order<'a, T>(
    owners: &[Object<'a>],
    order: Order,
    of_owner: impl Fn(&Object<'a>) -> Option<T>,
    of_pod: impl Fn() -> Option<T>,
) -> Vec<T> {
    let before_pod = if order == Order::NearestFirst { owners.len() } else { 1 };
    let (before, after) = owners.split_at(before_pod.min(owners.len()));
    before
        .iter()
        .filter_map(&of_owner)
        .chain(of_pod())
        .chain(after.iter().filter_map(&of_owner))
        .collect()
}

/// Defaults per kind: of the owners that were passed over, then of the others.
fn kind_defaults<'a>(
    case: &'a Case<'_>,
    owners: &[Object<'_>],
) -> impl Iterator<Item = (String, &'a crate::config::KindDefault)> {
    let skipped = case.skipped.iter().map(|owner| Object::new(owner).gvk());
    let kinds: Vec<_> = skipped.chain(owners.iter().map(|owner| owner.gvk())).collect();
    kinds.into_iter().filter_map(|gvk| {
        let default = case.config.kind_defaults.of(&gvk.kind, &gvk.group)?;
        Some((gvk.kind, default))
    })
}
