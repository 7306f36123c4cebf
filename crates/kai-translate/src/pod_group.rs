//! Pod groups.

use std::collections::BTreeMap;

use kai_api::names::{defaults, objects, scheduling, workload};
use kai_api::pod_group::{self, PodGroup, SubGroup};
use kai_api::sub_groups::{self, Link, TreeProblem};
use kai_core::input::pod_group::{
    DEFAULT_LEAF, GroupLeaf, GroupSet, Preemptibility, TopologyConstraint,
};
use kai_core::input::{ObjectName, PodGroupSpec, Text};
use kai_core::time::Timestamp;

use crate::partition::Partition;
use crate::priority::PriorityClasses;
use crate::problem::{Complaints, Translated, annotation_path};
use crate::queue::{created, span};
use crate::selectors::non_empty;
use crate::time;

pub fn translate(
    group: &PodGroup,
    classes: &PriorityClasses,
    partition: &Partition,
) -> Translated<PodGroupSpec> {
    let metadata = &group.metadata;
    let name = ObjectName::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    );
    let mut complaints = Complaints::about(format!("PodGroup {name}"));
    let class = group.spec.priority_class_name.as_deref().filter(|class| !class.is_empty());
    let priority = classes.value_of(class);
    let moment = |key: &str, complaints: &mut Complaints| -> Option<Timestamp> {
        let text = metadata.annotations.as_ref()?.get(key)?;
        complaints.check(|| annotation_path(key), time::parse(text))
    };
    let spec = PodGroupSpec {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        queue: group.spec.queue.as_deref().unwrap_or_default().into(),
        priority,
        preemptibility: preemptibility(group.spec.preemptibility.as_deref(), priority),
        created: created(metadata.creation_timestamp.as_ref()),
        last_start: moment(scheduling::LAST_START, &mut complaints),
        last_eviction: moment(scheduling::LAST_EVICTION, &mut complaints),
        stale_since: moment(scheduling::STALE_SINCE, &mut complaints),
        reclaim_delayed_since: moment(scheduling::RECLAIM_DELAYED_SINCE, &mut complaints),
        staleness_grace: span(
            group.spec.staleness_grace_period.as_ref(),
            "spec.stalenessGracePeriod",
            &mut complaints,
        ),
        preemption_delay: span(
            group.spec.preemption_delay.as_ref(),
            "spec.preemptionDelay",
            &mut complaints,
        ),
        schedulable: !gave_up(group, partition),
        never_preempts: classes.never_preempts(class),
        denied: None,
        half_bound: false,
        tree: tree(&group.spec, &mut complaints).into(),
        name,
    };
    complaints.with(spec)
}

/// What the group says, else what its priority says.
pub fn preemptibility(said: Option<&str>, priority: i32) -> Preemptibility {
    match said {
        Some(workload::PREEMPTIBLE) => Preemptibility::Preemptible,
        Some(workload::NON_PREEMPTIBLE) => Preemptibility::NonPreemptible,
        Some(workload::SEMI_PREEMPTIBLE) => Preemptibility::SemiPreemptible,
        _ if priority < defaults::NON_PREEMPTIBLE_FROM => Preemptibility::Preemptible,
        _ => Preemptibility::NonPreemptible,
    }
}

/// It asked to be left out after a failed attempt on this node pool, and has had one.
fn gave_up(group: &PodGroup, partition: &Partition) -> bool {
    let backoff = group.spec.scheduling_backoff.unwrap_or(defaults::NO_SCHEDULING_BACKOFF);
    if backoff == defaults::NO_SCHEDULING_BACKOFF {
        return false;
    }
    let conditions = group.status.iter().flat_map(|status| &status.scheduling_conditions);
    let newest = conditions.max_by_key(|condition| {
        let id = condition.transition_id.as_deref().unwrap_or_default();
        id.parse::<i64>().unwrap_or(-1)
    });
    let pool = partition.name().unwrap_or(objects::DEFAULT_NODE_POOL);
    newest.is_some_and(|condition| {
        condition.node_pool.as_deref().unwrap_or(objects::DEFAULT_NODE_POOL) == pool
    })
}

/// The tree of members. One that makes no sense becomes a single leaf of one pod.
fn tree(spec: &pod_group::PodGroupSpec, complaints: &mut Complaints) -> GroupSet {
    let mut root =
        GroupSet { topology: constraint(spec.topology_constraint.as_ref()), ..GroupSet::default() };
    if spec.sub_groups.is_empty() {
        root.leaves.push(flat_leaf(spec.min_member));
        return root;
    }
    if let Some(problem) = tree_problem(&spec.sub_groups) {
        complaints.add(problem.field(), problem.to_string());
        root.leaves.push(flat_leaf(None));
        return root;
    }
    root.min_members = count(spec.min_sub_group);
    let mut children: Children<'_> = BTreeMap::new();
    for group in &spec.sub_groups {
        children.entry(parent_of(group)).or_default().push(group);
    }
    fill(&mut root, None, &children);
    root
}

fn flat_leaf(min_member: Option<i32>) -> GroupLeaf {
    GroupLeaf {
        name: DEFAULT_LEAF.into(),
        min_available: count(min_member).unwrap_or(1),
        topology: None,
    }
}

fn count(number: Option<i32>) -> Option<u32> {
    number.map(|number| u32::try_from(number).unwrap_or_default())
}

/// Parents are found whatever their case.
fn parent_of(group: &SubGroup) -> Option<String> {
    group.parent.as_deref().filter(|parent| !parent.is_empty()).map(str::to_lowercase)
}

/// Sub-groups by the name of the one above.
type Children<'a> = BTreeMap<Option<String>, Vec<&'a SubGroup>>;

/// As deep as the tree, which was checked.
fn fill(set: &mut GroupSet, above: Option<&str>, children: &Children<'_>) {
    let below = children.get(&above.map(str::to_owned)).into_iter().flatten();
    for group in below {
        let name = group.name.as_str();
        let topology = constraint(group.topology_constraint.as_ref());
        if children.contains_key(&Some(group.name.clone())) {
            let mut inner = GroupSet {
                name: name.into(),
                min_members: count(group.min_sub_group),
                topology,
                ..GroupSet::default()
            };
            fill(&mut inner, Some(name), children);
            set.sets.push(inner);
        } else {
            let min_available = count(group.min_member).unwrap_or_default();
            set.leaves.push(GroupLeaf { name: name.into(), min_available, topology });
        }
    }
}

/// What is wrong with the tree, in linear time.
fn tree_problem(groups: &[SubGroup]) -> Option<TreeProblem> {
    let parents: Vec<Option<String>> = groups.iter().map(parent_of).collect();
    let links: Vec<Link<'_>> = groups
        .iter()
        .zip(&parents)
        .map(|(group, parent)| Link {
            name: &group.name,
            parent: parent.as_deref().unwrap_or_default(),
        })
        .collect();
    sub_groups::check(&links).err()
}

/// A constraint rests unless it names a topology.
fn constraint(constraint: Option<&pod_group::TopologyConstraint>) -> Option<TopologyConstraint> {
    let constraint = constraint?;
    let topology: Text = non_empty(constraint.topology.as_ref())?;
    Some(TopologyConstraint {
        topology,
        required: non_empty(constraint.required_topology_level.as_ref()),
        preferred: non_empty(constraint.preferred_topology_level.as_ref()),
    })
}
