//! Domain trees. Rule: a node belongs to a topology when it carries the labels of all its levels; its domain at
//! a level is named by its label values from the outermost level down, joined by dots; a root holds them all.
//!
//! Domains lie in depth-first order, children by id, so that a domain's subtree and its nodes are ranges.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::input::{Text, TopologyLevel, TopologySpec};
use crate::world::World;

/// Position of the root domain.
pub(super) const ROOT: usize = 0;
/// Level of the root domain; the outermost level of the topology is 1.
pub(super) const ROOT_LEVEL: usize = 0;
const NO_DOMAIN: u32 = u32::MAX;

/// Domain trees of all topologies, built when first needed and kept until nodes or topologies change.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    built: OnceLock<BTreeMap<Text, Tree>>,
}

/// The tree of one topology.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    levels: Vec<TopologyLevel>,
    /// The root, then every domain before its children.
    pub(super) domains: Vec<Domain>,
    /// Ranks of member nodes, domain by domain.
    members: Vec<u32>,
    /// The innermost domain of each node.
    domain_of_rank: Vec<u32>,
}

/// A domain: nodes with the same label values down to one level.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    /// Label values joined by dots.
    pub(super) id: Text,
    pub(super) level: usize,
    pub(super) parent: usize,
    /// One past the last domain of its subtree.
    pub(super) end: usize,
    members: Range<usize>,
}

impl Trees {
    /// Nodes or topologies changed.
    pub(crate) fn invalidate(&mut self) {
        self.built.take();
    }

    /// The tree of the topology called `name`.
    pub(super) fn get(&self, world: &World, name: &str) -> Option<&Tree> {
        let built = self.built.get_or_init(|| {
            let trees = world.topologies.iter();
            trees.map(|(name, spec)| (name.clone(), Tree::of(world, spec))).collect()
        });
        built.get(name)
    }
}

impl Tree {
    fn of(world: &World, spec: &TopologySpec) -> Self {
        let mut placed: Vec<(Vec<&Text>, u32)> = Vec::new();
        for (rank, id) in world.nodes_by_rank.iter().enumerate() {
            let labels = &world.node(*id).spec.labels;
            let values: Option<Vec<&Text>> =
                spec.levels.iter().map(|level| labels.get(&level.label)).collect();
            placed.extend(values.map(|values| (values, rank as u32)));
        }
        placed.sort();
        let mut tree = Self {
            levels: spec.levels.clone(),
            domains: vec![Domain {
                id: "root".into(),
                level: ROOT_LEVEL,
                parent: ROOT,
                end: 1,
                members: 0..0,
            }],
            members: Vec::with_capacity(placed.len()),
            domain_of_rank: vec![NO_DOMAIN; world.nodes_by_rank.len()],
        };
        let mut path: Vec<(&Text, usize)> = Vec::new();
        for (values, rank) in placed {
            let shared = path.iter().zip(&values).take_while(|((open, _), value)| open == *value);
            let shared = shared.count();
            path.truncate(shared);
            for value in &values[shared..] {
                let parent = path.last().map_or(ROOT, |(_, domain)| *domain);
                path.push((value, tree.open_domain(parent, value)));
            }
            let domain = path.last().map_or(ROOT, |(_, domain)| *domain);
            tree.add_member(domain, rank);
        }
        tree
    }

    fn open_domain(&mut self, parent: usize, value: &Text) -> usize {
        let at = self.domains.len();
        let id = if parent == ROOT {
            value.clone()
        } else {
            format!("{}.{value}", self.domains[parent].id).into()
        };
        let level = self.domains[parent].level + 1;
        let members = self.members.len()..self.members.len();
        self.domains.push(Domain { id, level, parent, end: at + 1, members });
        let mut above = parent;
        loop {
            self.domains[above].end = at + 1;
            if above == ROOT {
                return at;
            }
            above = self.domains[above].parent;
        }
    }

    fn add_member(&mut self, domain: usize, rank: u32) {
        self.members.push(rank);
        self.domain_of_rank[rank as usize] = domain as u32;
        let mut above = domain;
        loop {
            self.domains[above].members.end = self.members.len();
            if above == ROOT {
                return;
            }
            above = self.domains[above].parent;
        }
    }

    /// The level called `name` by label or alias.
    pub(super) fn level(&self, name: &str) -> Option<usize> {
        let by_label = self.levels.iter().position(|level| &*level.label == name);
        let by_alias = || {
            self.levels.iter().position(|level| level.alias.as_deref().is_some_and(|it| it == name))
        };
        by_label.or_else(by_alias).map(|position| position + 1)
    }

    /// The label of a level.
    pub(super) fn label(&self, level: usize) -> Option<&Text> {
        self.levels.get(level.checked_sub(1)?).map(|level| &level.label)
    }

    /// The innermost domain of the node at `rank`.
    pub(super) fn domain_of(&self, rank: usize) -> Option<usize> {
        let domain = *self.domain_of_rank.get(rank)?;
        (domain != NO_DOMAIN).then_some(domain as usize)
    }

    /// Whether `inner` is `outer` or lies in it.
    pub(super) fn contains(&self, outer: usize, inner: usize) -> bool {
        (outer..self.domains[outer].end).contains(&inner)
    }

    /// The domain at `level` that holds `domain`, or the domain itself where it lies above that level.
    pub(super) fn ancestor(&self, domain: usize, level: usize) -> usize {
        let mut at = domain;
        while self.domains[at].level > level {
            at = self.domains[at].parent;
        }
        at
    }

    /// The innermost domain that holds all the nodes that are members, none below `deepest`; the root if no node
    /// is a member.
    pub(super) fn common_domain(
        &self,
        ranks: impl Iterator<Item = usize>,
        deepest: usize,
    ) -> usize {
        let mut domains = ranks.filter_map(|rank| self.domain_of(rank));
        let Some(first) = domains.next() else { return ROOT };
        let mut common = self.ancestor(first, deepest);
        for domain in domains {
            while !self.contains(common, domain) {
                common = self.domains[common].parent;
            }
        }
        common
    }

    /// Domains of a level in order of their ids.
    pub(super) fn at_level(&self, level: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.domains.len()).filter(move |domain| self.domains[*domain].level == level)
    }

    /// Direct sub-domains in order of their ids.
    pub(super) fn children(&self, domain: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.domains[domain].end;
        let mut next = domain + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(next)?;
            next = self.domains[child].end;
            Some(child)
        })
    }

    /// Ranks of the nodes of a domain.
    pub(super) fn ranks_in(&self, domain: usize) -> impl Iterator<Item = usize> + '_ {
        self.members[self.domains[domain].members.clone()].iter().map(|rank| *rank as usize)
    }

    /// How many nodes there are, members or not.
    pub(super) fn node_count(&self) -> usize {
        self.domain_of_rank.len()
    }
}
