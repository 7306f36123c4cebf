//! Grove: one group per `PodGang`, with its pod groups as parts, bundled where a topology constraint covers several.
//!
//! The `PodGang` is the workload; the top owner (`PodCliqueSet`) adds what it lacks.

use std::collections::{BTreeMap, BTreeSet};

use kai_api::duration::{Units, parse_duration};
use kai_api::names::objects::TRAIN;
use kai_api::names::{third_party, workload};
use kai_api::pod_group::TopologyConstraint;
use serde_json::Value;

use crate::base::{self, Case, workload_plan};
use crate::error::{GroupingError, Stop};
use crate::facts::ObjectKey;
use crate::metadata;
use crate::object::{Object, label_path, pod_error};
use crate::plan::{Minimum, PodGroupPlan, SubGroupPlan};
use crate::priority::{self, PREEMPTIBILITIES};
use crate::topology;

pub(super) fn plan(case: &Case<'_>) -> Result<PodGroupPlan, Stop> {
    let gang = Object::new(pod_gang(case)?);
    let mut plan = workload_plan(case, gang, TRAIN);
    let topology_name = gang
        .annotation(third_party::GROVE_TOPOLOGY)
        .or_else(|| gang.annotation(workload::TOPOLOGY))
        .filter(|name| !name.is_empty());
    let reader = Reader { gang, topology_name };
    if let Some(constraint) = reader.constraint(gang.value(), "spec.topologyConstraint")? {
        plan.topology = constraint;
    }
    let classes = [
        (gang.string("spec.priorityClassName")?, "spec.priorityClassName of the PodGang"),
        (case.top().label(workload::PRIORITY_CLASS_NAME), "the top owner's label"),
        (gang.label(workload::PRIORITY_CLASS_NAME), "the PodGang's label"),
    ];
    // The last that exists counts.
    for (class, source) in classes {
        if let Some(class) = class.filter(|class| !class.is_empty())
            && priority::exists(case, class, source.to_owned(), &mut plan.notices)
        {
            class.clone_into(&mut plan.priority_class_name);
        }
    }
    inherit(case, gang, &mut plan)?;

    let bundles = reader.bundles()?;
    let (leaves, size) = reader.leaves(case, &mut plan, &bundles)?;
    for bundle in &bundles {
        let children =
            leaves.iter().filter(|leaf| leaf.parent.as_ref() == Some(&bundle.name)).count();
        if children > 0 {
            let parent = SubGroupPlan::parent(&bundle.name, children as i32);
            plan.sub_groups.push(parent.placed(bundle.topology.clone()));
        }
    }
    plan.sub_groups.extend(leaves);
    plan.minimum = Minimum::Members(size);
    Ok(plan)
}

fn pod_gang<'a>(case: &Case<'a>) -> Result<&'a Value, Stop> {
    let key = third_party::GROVE_POD_GANG;
    let name = case
        .pod
        .label(key)
        .ok_or_else(|| pod_error(case.pod, &label_path(key), "label for podgang name not found"))?;
    let object = ObjectKey::new("scheduler.grove.io/v1alpha1", "PodGang", case.namespace(), name);
    case.facts.object(&object)?.ok_or_else(|| {
        pod_error(case.pod, &label_path(key), format!("no PodGang {}/{name}", case.namespace()))
            .into()
    })
}

/// Takes from the top owner what the gang lacks.
fn inherit(case: &Case<'_>, gang: Object<'_>, plan: &mut PodGroupPlan) -> Result<(), Stop> {
    let top = case.top();
    for (key, value) in metadata::labels(case, top) {
        plan.labels.entry(key).or_insert(value);
    }
    for (key, value) in top.annotations() {
        if metadata::copied(&key, &value) {
            plan.annotations.entry(key).or_insert(value);
        }
    }
    plan.notices.retain(|notice| !matches!(notice, crate::Notice::QueuesDisagree { .. }));
    plan.queue = base::queue(case, &[gang], &[top], &mut plan.notices);

    if let Some(value) = plan.labels.get(workload::PREEMPTIBILITY) {
        plan.preemptibility = match value.as_str() {
            "" => None,
            other if PREEMPTIBILITIES.contains(&other) => Some(value.clone()),
            other => {
                let problem = format!(
                    "{other:?} is none of preemptible, non-preemptible and semi-preemptible"
                );
                let carrier =
                    if gang.label(workload::PREEMPTIBILITY).is_some() { gang } else { top };
                return Err(carrier.error(label_path(workload::PREEMPTIBILITY), problem).into());
            }
        };
    }
    let delay = plan.annotations.get(workload::PREEMPTION_DELAY);
    let delay = delay.and_then(|text| parse_duration(text, Units::Go).ok());
    plan.preemption_delay = delay.filter(|nanos| *nanos >= 0).or(plan.preemption_delay);
    let given = topology::constraint(|key| plan.annotations.get(key).map(String::as_str));
    let own = &mut plan.topology;
    own.topology = own.topology.take().or(given.topology);
    own.required_topology_level =
        own.required_topology_level.take().or(given.required_topology_level);
    own.preferred_topology_level =
        own.preferred_topology_level.take().or(given.preferred_topology_level);
    Ok(())
}

/// Pod groups under a common topology constraint.
struct Bundle {
    name: String,
    members: Vec<String>,
    topology: Option<TopologyConstraint>,
}

struct Reader<'a> {
    gang: Object<'a>,
    topology_name: Option<&'a str>,
}

impl<'a> Reader<'a> {
    /// The constraint at `path` within `part`; `part` is the gang or one of its entries.
    fn constraint(
        &self,
        part: &'a Value,
        path: &str,
    ) -> Result<Option<TopologyConstraint>, GroupingError> {
        let path = format!("{path}.packConstraint");
        let level = |name: &str| {
            let path = format!("{path}.{name}");
            Ok(self.gang.string_in(part, &path, &path)?.map(str::to_owned))
        };
        let (required, preferred) = (level("required")?, level("preferred")?);
        if required.is_none() && preferred.is_none() {
            return Ok(None);
        }
        let Some(name) = self.topology_name else {
            let problem = "topology name cannot be empty when topology constraints are defined";
            return Err(self.gang.error(path, problem));
        };
        Ok(Some(TopologyConstraint {
            topology: Some(name.to_owned()),
            required_topology_level: required,
            preferred_topology_level: preferred,
        }))
    }

    fn bundles(&self) -> Result<Vec<Bundle>, GroupingError> {
        let path = "spec.topologyConstraintGroupConfigs";
        let mut bundles = Vec::new();
        for (index, entry) in self.gang.list(path)?.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let name = self
                .gang
                .string_in(entry, "name", &format!("{path}.name"))?
                .ok_or_else(|| self.gang.error(format!("{path}.name"), "is missing"))?;
            let members = entry["podGroupNames"].as_array().into_iter().flatten();
            let members: Vec<String> =
                members.filter_map(Value::as_str).map(str::to_owned).collect();
            if !members.is_empty() {
                let topology = self.constraint(entry, "topologyConstraint")?;
                bundles.push(Bundle { name: name.to_owned(), members, topology });
            }
        }
        Ok(bundles)
    }

    /// The parts that hold pods, and how many pods they need together.
    fn leaves(
        &self,
        case: &Case<'_>,
        plan: &mut PodGroupPlan,
        bundles: &[Bundle],
    ) -> Result<(Vec<SubGroupPlan>, i32), GroupingError> {
        // A pod group in two bundles belongs to the last.
        let parents: BTreeMap<&str, &str> = bundles
            .iter()
            .flat_map(|bundle| {
                bundle.members.iter().map(|name| (name.as_str(), bundle.name.as_str()))
            })
            .collect();
        let (mut leaves, mut size) = (Vec::new(), 0_i32);
        for (index, entry) in self.gang.list("spec.podgroups")?.iter().enumerate() {
            let path = format!("spec.podgroups[{index}]");
            let name =
                self.gang.string_in(entry, "name", &format!("{path}.name"))?.ok_or_else(|| {
                    self.gang.error(format!("{path}.name"), "missing required 'name' field")
                })?;
            let minimum = self.min_replicas(entry, &path)?;
            if self.pods(case, entry, &path)?.contains(case.pod.metadata.name.as_str()) {
                plan.pod_sub_group = Some(name.to_owned());
            }
            let mut leaf = SubGroupPlan::leaf(name, minimum);
            leaf.parent = parents.get(name).map(|parent| (*parent).to_owned());
            leaf.topology = self.constraint(entry, "topologyConstraint")?;
            leaves.push(leaf);
            size = size.saturating_add(minimum);
        }
        Ok((leaves, size))
    }

    fn min_replicas(&self, entry: &'a Value, path: &str) -> Result<i32, GroupingError> {
        let path = format!("{path}.minReplicas");
        let minimum = self.gang.integer_in(entry, "minReplicas", &path)?;
        let minimum = minimum
            .ok_or_else(|| self.gang.error(&path, "missing required 'minReplicas' field"))?;
        i32::try_from(minimum)
            .ok()
            .filter(|minimum| *minimum > 0)
            .ok_or_else(|| self.gang.error(path, "must be greater than 0"))
    }

    fn pods(
        &self,
        case: &Case<'_>,
        entry: &'a Value,
        path: &str,
    ) -> Result<BTreeSet<&'a str>, GroupingError> {
        let path = format!("{path}.podReferences");
        let references = entry["podReferences"]
            .as_array()
            .ok_or_else(|| self.gang.error(&path, "missing required 'podReferences' field"))?;
        let mut names = BTreeSet::new();
        for (index, reference) in references.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let (Some(namespace), Some(name)) =
                (reference["namespace"].as_str(), reference["name"].as_str())
            else {
                return Err(self.gang.error(path, "needs 'namespace' and 'name'"));
            };
            if namespace != case.namespace() {
                let problem = format!(
                    "cross-namespace pod reference not allowed: pod {namespace}/{name} cannot be referenced from PodGang in \
                     namespace {}",
                    case.namespace()
                );
                return Err(self.gang.error(path, problem));
            }
            names.insert(name);
        }
        Ok(names)
    }
}
