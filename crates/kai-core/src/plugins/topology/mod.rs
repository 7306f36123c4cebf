//! topology: pods of a sub-group in one domain of the network or rack topology.
//!
//! Rule: a sub-group with a constraint is tried on one domain after the other, innermost level first, within a
//! level the domain that would be fullest first. Only domains that fit all its pods are tried. Where a
//! level is merely preferred, nodes of the loosest domain of that level score highest, so that the rest of the
//! sub-group fits beside the first pod. Constraints nest: a member is solved inside the nodes chosen for
//! its parent.

mod demand;
mod domains;
mod refusal;
mod scores;
mod tree;

#[cfg(test)]
mod tests;

pub use refusal::{DomainShortage, LevelRole, ShortOf, TopologyRefusal, TopologyRefusalKind};
pub(crate) use scores::{TopologyScores, score};
pub use tree::Trees;

use crate::config::PluginSpec;
use crate::ids::{JobId, TaskId};
use crate::input::Text;
use crate::input::pod_group::TopologyConstraint;
use crate::placement::node_set::NodeSet;
use crate::plugins::topology::demand::Demand;
use crate::plugins::topology::domains::{DomainCapacities, Sorted};
use crate::plugins::topology::tree::{ROOT, ROOT_LEVEL, Tree};
use crate::plugins::{Policy, Score};
use crate::world::World;
use crate::world::index::RankSet;
use crate::world::job::Job;
use crate::world::job_tree::Member;

pub(super) fn register(policy: &mut Policy, _: &PluginSpec) {
    policy.topology = true;
    policy.scores.push(Score::Topology);
}

/// A sub-group whose pods look for nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubGroupRequest<'a> {
    /// Job of the sub-group.
    pub(crate) job: JobId,
    /// The set or leaf of the job.
    pub(crate) member: Member,
    /// Topology constraint of the member; none: any nodes do.
    pub(crate) constraint: Option<&'a TopologyConstraint>,
    /// Leaves below the member that receive pods in this attempt.
    pub(crate) leaves: &'a [usize],
    /// The pods to be placed.
    pub(crate) tasks: &'a [TaskId],
}

/// The levels of a constraint as positions in a tree; the root is level 0.
struct Levels {
    required: Option<usize>,
    preferred: Option<usize>,
}

/// The parts of `nodes` on which the sub-group is to be tried, in this order; or why there is none.
pub(crate) fn subsets(
    world: &World,
    scores: &mut TopologyScores,
    request: &SubGroupRequest<'_>,
    nodes: &NodeSet,
) -> Result<Vec<NodeSet>, Vec<TopologyRefusal>> {
    let Some(constraint) = request.constraint.filter(|wanted| !wanted.topology.is_empty()) else {
        return Ok(vec![nodes.clone()]);
    };
    if request.tasks.is_empty() {
        return Ok(vec![nodes.clone()]);
    }
    let tree = world.trees.get(world, &constraint.topology);
    let refuse = |kind| refusal(world, request, constraint, tree, kind);
    let Some(tree) = tree else {
        return Err(vec![refuse(TopologyRefusalKind::UnknownTopology)]);
    };
    let levels = Levels {
        required: constraint.required.as_ref().and_then(|name| tree.level(name)),
        preferred: constraint.preferred.as_ref().and_then(|name| tree.level(name)),
    };
    let demand = Demand::of(world, request.tasks);
    let start = start_domain(world, tree, nodes, &levels);
    let capacities = DomainCapacities::below(world, tree, start, &demand);
    if capacities.fit(start).is_err() {
        let domain = (start != ROOT).then(|| tree.domains[start].id.clone());
        return Err(vec![refuse(TopologyRefusalKind::StartTooSmall { domain })]);
    }
    let deepest = levels.preferred.or(levels.required).unwrap_or(usize::MAX);
    let sorted = Sorted::by_tightness(&capacities, deepest);
    if let Some(level) = levels.preferred {
        scores.set(request.member, tree, sorted.at_level(level));
    }
    let relevant = relevant_levels(constraint, &levels).map_err(|kind| vec![refuse(kind)])?;
    let hosts = levels.required.and_then(|level| hosts(world, tree, request, level));
    let allowed = |domain: usize| {
        hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|host| tree.contains(*host, domain)))
    };
    let candidates = relevant
        .clone()
        .rev()
        .flat_map(|level| sorted.at_level(level))
        .filter(|domain| allowed(**domain) && capacities.fit(**domain).is_ok());
    let found: Vec<NodeSet> =
        candidates.filter_map(|domain| nodes_in(world, tree, *domain, nodes)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let top = *relevant.start();
    let outside = world.config.compatibility.is_kai();
    let mut refusals: Vec<TopologyRefusal> = tree
        .at_level(top)
        .filter(|domain| allowed(*domain) && (outside || tree.contains(start, *domain)))
        .filter_map(|domain| capacities.fit(domain).err())
        .map(|lack| refuse(lack.into_kind(&world.names)))
        .collect();
    refusals.push(refuse(TopologyRefusalKind::NoDomain));
    Err(refusals)
}

/// The innermost domain that holds all of `nodes`, but none below the level at which domains are looked for.
fn start_domain(world: &World, tree: &Tree, nodes: &NodeSet, levels: &Levels) -> usize {
    // KAI goes below the required level where none is preferred: the required domain then looks empty.
    let required = if world.config.compatibility.is_kai() { None } else { levels.required };
    let deepest = levels.preferred.or(required).unwrap_or(usize::MAX);
    tree.common_domain(nodes.iter(world.nodes_by_rank.len()), deepest)
}

/// Levels whose domains are tried, outermost to innermost.
fn relevant_levels(
    constraint: &TopologyConstraint,
    levels: &Levels,
) -> Result<std::ops::RangeInclusive<usize>, TopologyRefusalKind> {
    let unknown =
        |level: &Text, role| Err(TopologyRefusalKind::UnknownLevel { level: level.clone(), role });
    match (&constraint.required, &constraint.preferred) {
        (None, None) => Err(TopologyRefusalKind::NoLevel),
        (Some(name), _) if levels.required.is_none() => unknown(name, LevelRole::Required),
        (_, Some(name)) if levels.preferred.is_none() => unknown(name, LevelRole::Preferred),
        (_, preferred) => {
            let top = levels.required.unwrap_or(ROOT_LEVEL);
            let deepest = levels.preferred.unwrap_or(top);
            match preferred {
                // A preference above the requirement is never reached on the way up.
                Some(name) if deepest < top => unknown(name, LevelRole::Preferred),
                _ => Ok(top..=deepest),
            }
        }
    }
}

/// Domains of the required level in which pods of the sub-group already hold a place; none: no pod does.
fn hosts(
    world: &World,
    tree: &Tree,
    request: &SubGroupRequest<'_>,
    required: usize,
) -> Option<Vec<usize>> {
    let job = world.job(request.job);
    // KAI asks only the leaves that receive pods now: a restarted leaf can leave the domain of its siblings.
    let leaves: Vec<usize> = match request.member {
        _ if world.config.compatibility.is_kai() => request.leaves.to_vec(),
        Member::Set(set) => job.leaves_below(set),
        Member::Leaf(leaf) => vec![leaf],
    };
    let mut any = false;
    let mut found = Vec::new();
    for leaf in leaves.iter().filter_map(|leaf| job.leaves.get(*leaf)) {
        if leaf.counts.active_allocated() == 0 {
            continue;
        }
        any = true;
        for task in &leaf.tasks {
            let state = &world.task(*task).state;
            let node = state.node.filter(|_| state.status.is_active_allocated());
            let domain = node.and_then(|node| tree.domain_of(world.node(node).rank as usize));
            let host = domain.map(|domain| tree.ancestor(domain, required));
            found.extend(host.filter(|host| !found.contains(host)));
        }
    }
    any.then_some(found)
}

/// The nodes of a domain that are in `nodes`; none: there is no such node.
fn nodes_in(world: &World, tree: &Tree, domain: usize, nodes: &NodeSet) -> Option<NodeSet> {
    let mut ranks = RankSet::with_len(world.nodes_by_rank.len());
    let mut any = false;
    for rank in tree.ranks_in(domain).filter(|rank| nodes.contains(*rank)) {
        ranks.insert(rank);
        any = true;
    }
    any.then(|| NodeSet::of(ranks))
}

fn refusal(
    world: &World,
    request: &SubGroupRequest<'_>,
    constraint: &TopologyConstraint,
    tree: Option<&Tree>,
    kind: TopologyRefusalKind,
) -> TopologyRefusal {
    let job = world.job(request.job);
    // Texts name levels by their label, whatever name the constraint used.
    let required = constraint.required.as_ref().map(|name| {
        tree.and_then(|tree| tree.level(name).and_then(|level| tree.label(level)))
            .unwrap_or(name)
            .clone()
    });
    TopologyRefusal {
        job: job.spec.name.clone(),
        sub_group: member_name(job, request.member),
        topology: constraint.topology.clone(),
        required,
        kind,
    }
}

/// The name of a sub-group; none for the root and for the only leaf of a job without sub-groups.
fn member_name(job: &Job, member: Member) -> Option<Text> {
    let name = match member {
        Member::Set(set) => &job.tree.sets[set].name,
        Member::Leaf(leaf) => &job.leaves[leaf].declared.name,
    };
    let is_named = !name.is_empty() && **name != *crate::input::pod_group::DEFAULT_LEAF;
    is_named.then(|| name.clone())
}
