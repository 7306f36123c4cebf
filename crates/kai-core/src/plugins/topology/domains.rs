//! Free capacity per domain. Rule: a domain fits when it can hold all pods (pods that are alike) or when no resource is
//! asked for beyond what is free (pods that are not). How tight it would be is the largest part of a free
//! resource that the pods take; tighter domains are tried first.
//!
//! One pass over the nodes below the start domain fills flat arrays; domains outside of it stay empty.

use crate::plugins::topology::demand::Demand;
use crate::plugins::topology::refusal::{DomainShortage, ShortOf, TopologyRefusalKind};
use crate::plugins::topology::tree::Tree;
use crate::resources::{CPU, GPU, MEMORY, ResourceNames};
use crate::world::World;
use crate::world::shape::mig_slices;

/// How tight a domain is that has nothing of what is asked for.
const NOTHING_FREE: f64 = 1000.0;
/// The tightest that fits.
const FULL: f64 = 1.0;

/// Free capacity of the domains below a start domain.
pub(super) struct DomainCapacities<'a> {
    tree: &'a Tree,
    demand: &'a Demand,
    start: usize,
    /// Free amounts, one row of demanded entries per domain from the start domain on.
    free: Vec<i64>,
    /// Pods each domain can hold, where pods are alike.
    capacity: Vec<i64>,
}

/// Why the pods do not fit a domain.
pub(super) struct Lack<'a> {
    tree: &'a Tree,
    domain: usize,
    reason: LackReason,
}

enum LackReason {
    Capacity {
        capacity: i64,
        needed: i64,
    },
    /// Slot, asked for and free.
    Amounts(Vec<(usize, i64, i64)>),
}

impl<'a> DomainCapacities<'a> {
    pub(super) fn below(world: &World, tree: &'a Tree, start: usize, demand: &'a Demand) -> Self {
        let width = demand.entries.len();
        let count = tree.domains[start].end - start;
        let mut capacities = Self {
            tree,
            demand,
            start,
            free: vec![0; width * count],
            capacity: if demand.alike { vec![0; count] } else { Vec::new() },
        };
        for rank in tree.ranks_in(start) {
            let Some(domain) = tree.domain_of(rank) else { continue };
            let node = world.node(world.nodes_by_rank[rank]);
            let row = (domain - start) * width;
            for (at, entry) in demand.entries.iter().enumerate() {
                let sum = &mut capacities.free[row + at];
                *sum = sum.saturating_add(demand.free(node, entry.slot));
            }
            if demand.alike {
                capacities.capacity[domain - start] += demand.capacity(node);
            }
        }
        capacities.sum_upwards();
        capacities
    }

    /// Adds every domain to its parent; children come after their parents.
    fn sum_upwards(&mut self) {
        let width = self.demand.entries.len();
        for at in (1..self.tree.domains[self.start].end - self.start).rev() {
            let parent = self.tree.domains[self.start + at].parent - self.start;
            for entry in 0..width {
                let amount = self.free[at * width + entry];
                let sum = &mut self.free[parent * width + entry];
                *sum = sum.saturating_add(amount);
            }
            if self.demand.alike {
                self.capacity[parent] += self.capacity[at];
            }
        }
    }

    fn row(&self, domain: usize) -> Option<&[i64]> {
        let width = self.demand.entries.len();
        let at = domain.checked_sub(self.start)? * width;
        self.free.get(at..at + width).filter(|_| self.tree.contains(self.start, domain))
    }

    /// Whether all pods fit the domain.
    pub(super) fn fit(&self, domain: usize) -> Result<(), Lack<'a>> {
        let lack = |reason| Err(Lack { tree: self.tree, domain, reason });
        let inside = self.tree.contains(self.start, domain);
        if self.demand.alike && inside {
            let capacity = self.capacity[domain - self.start];
            if capacity < self.demand.pods {
                return lack(LackReason::Capacity { capacity, needed: self.demand.pods });
            }
            return Ok(());
        }
        if self.tightness(domain) <= FULL {
            return Ok(());
        }
        let row = self.row(domain);
        let entries = self.demand.entries.iter().enumerate();
        let short = entries
            .map(|(at, entry)| (entry.slot, entry.sum, row.map_or(0, |row| row[at])))
            .filter(|(_, asked, free)| asked > free)
            .collect();
        lack(LackReason::Amounts(short))
    }

    /// The largest part of a free resource that the pods would take.
    pub(super) fn tightness(&self, domain: usize) -> f64 {
        let row = self.row(domain);
        let mut tightest = 0.0_f64;
        for (at, entry) in self.demand.entries.iter().enumerate() {
            let free = row.map_or(0, |row| row[at]);
            let part = if free <= 0 { NOTHING_FREE } else { entry.sum as f64 / free as f64 };
            tightest = tightest.max(part);
        }
        tightest
    }
}

impl Lack<'_> {
    /// The refusal as data.
    pub(super) fn into_kind(self, names: &ResourceNames) -> TopologyRefusalKind {
        let domain = self.tree.domains[self.domain].id.clone();
        match self.reason {
            LackReason::Capacity { capacity, needed } => {
                TopologyRefusalKind::PodCapacity { domain, capacity, needed }
            }
            LackReason::Amounts(amounts) => {
                let shortages = amounts.into_iter().map(|(slot, requested, available)| {
                    let what = match slot {
                        GPU => ShortOf::Gpus,
                        CPU => ShortOf::Cpu,
                        MEMORY => ShortOf::Memory,
                        _ if mig_slices(names.name(slot)).is_some() => {
                            ShortOf::MigProfile(names.name(slot).into())
                        }
                        _ => ShortOf::Named(names.name(slot).into()),
                    };
                    DomainShortage { what, requested, available }
                });
                let mut shortages: Vec<DomainShortage> = shortages.collect();
                shortages.sort();
                TopologyRefusalKind::Shortages { domain, shortages }
            }
        }
    }
}

/// Domains below the start domain, level by level, tightest first among siblings.
pub(super) struct Sorted {
    start_level: usize,
    levels: Vec<Vec<usize>>,
}

impl Sorted {
    /// Sorts down to the level `deepest`.
    pub(super) fn by_tightness(capacities: &DomainCapacities<'_>, deepest: usize) -> Self {
        let tree = capacities.tree;
        let start_level = tree.domains[capacities.start].level;
        let mut levels = vec![vec![capacities.start]];
        let mut children: Vec<(f64, usize)> = Vec::new();
        for _ in start_level..deepest {
            let mut next = Vec::new();
            for parent in levels.last().into_iter().flatten() {
                children.clear();
                children.extend(
                    tree.children(*parent).map(|child| (capacities.tightness(child), child)),
                );
                children.sort_by(|left, right| {
                    right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1))
                });
                next.extend(children.iter().map(|(_, child)| *child));
            }
            if next.is_empty() {
                break;
            }
            levels.push(next);
        }
        Self { start_level, levels }
    }

    /// Domains of a level in this order; none above the start domain.
    pub(super) fn at_level(&self, level: usize) -> &[usize] {
        let at = level.checked_sub(self.start_level);
        at.and_then(|at| self.levels.get(at)).map_or(&[], Vec::as_slice)
    }
}
