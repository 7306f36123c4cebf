//! Whether enough GPUs could be free in one domain for each set of pods that must be together. KAI counts pods that
//! run already as demand and does not look at leaves (fault 22); by default only waiting pods count, leaves too.

use std::collections::BTreeMap;

use crate::cycle::Cycle;
use crate::ids::{JobId, TaskId};
use crate::input::Text;
use crate::input::pod_group::TopologyConstraint;
use crate::solver::Probe;
use crate::solver::gpu_filter::{available_centi, match_wanted};
use crate::world::World;
use crate::world::job_tree::Member;

/// Demands of one level of one topology.
struct Level {
    label: Text,
    /// Hundredths of GPUs per set of pods, largest first.
    wanted: Vec<i64>,
    /// What could be free per domain.
    domains: BTreeMap<Text, i64>,
}

pub(crate) struct TopologyFilter {
    levels: Vec<Level>,
}

impl TopologyFilter {
    /// None when no set of the job must be together.
    pub(crate) fn new(cycle: &Cycle<'_>, job: JobId, probe: &Probe<'_>) -> Option<Self> {
        let world = &cycle.world;
        let mut wanted: BTreeMap<(Text, Text), Vec<i64>> = BTreeMap::new();
        let entry = world.job(job);
        let leaves_too = !world.config.compatibility.is_kai();
        let sets = (0..entry.tree.sets.len()).map(Member::Set);
        let leaves = (0..entry.leaves.len()).map(Member::Leaf).filter(|_| leaves_too);
        for member in sets.chain(leaves) {
            let (constraint, below) = match member {
                Member::Set(set) => (&entry.tree.sets[set].topology, entry.leaves_below(set)),
                Member::Leaf(leaf) => (&entry.leaves[leaf].declared.topology, vec![leaf]),
            };
            let Some((topology, level)) = constraint.as_ref().and_then(|it| required(world, it))
            else {
                continue;
            };
            let demand = demand_below(world, job, probe, &below);
            if demand > 0 || world.config.compatibility.is_kai() {
                wanted.entry((topology, level)).or_default().push(demand);
            }
        }
        if wanted.is_empty() {
            return None;
        }
        let levels = wanted.into_iter().map(|((_, label), mut wanted)| {
            wanted.sort_unstable_by(|left, right| right.cmp(left));
            let mut domains: BTreeMap<Text, i64> = BTreeMap::new();
            for (id, node) in world.nodes() {
                if let Some(domain) = node.spec.labels.get(&label).filter(|it| !it.is_empty()) {
                    *domains.entry(domain.clone()).or_default() += available_centi(world, id);
                }
            }
            Level { label, wanted, domains }
        });
        Some(Self { levels: levels.collect() })
    }

    pub(crate) fn free(&mut self, world: &World, task: TaskId) {
        let state = &world.task(task).state;
        let Some(node) = state.node else { return };
        for level in &mut self.levels {
            let domain = world.node(node).spec.labels.get(&level.label);
            if let Some(capacity) = domain.and_then(|domain| level.domains.get_mut(domain)) {
                *capacity += state.accepted.gpu_centi;
            }
        }
    }

    pub(crate) fn accepts(&self) -> bool {
        self.levels.iter().all(|level| {
            let mut holders: Vec<i64> = level.domains.values().copied().collect();
            holders.sort_unstable_by(|left, right| right.cmp(left));
            match_wanted(&level.wanted, &holders)
        })
    }
}

/// Topology and label of the required level, aliases resolved.
fn required(world: &World, constraint: &TopologyConstraint) -> Option<(Text, Text)> {
    let level = constraint.required.as_ref()?;
    let topology = world.topologies.get(&constraint.topology);
    let named = topology.and_then(|topology| {
        topology.levels.iter().find(|known| known.alias.as_ref() == Some(level))
    });
    let label = named.map_or_else(|| level.clone(), |known| known.label.clone());
    Some((constraint.topology.clone(), label))
}

fn demand_below(world: &World, job: JobId, probe: &Probe<'_>, leaves: &[usize]) -> i64 {
    let counted = |task: &TaskId| {
        if world.config.compatibility.is_kai() {
            probe.part.tasks.contains(task)
        } else {
            probe.tasks.contains(task)
        }
    };
    leaves
        .iter()
        .flat_map(|leaf| world.job(job).leaves[*leaf].tasks.iter())
        .filter(|task| counted(task))
        .map(|task| world.shape_of(*task).quota_centi())
        .sum()
}
