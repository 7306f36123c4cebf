//! Which zones a request gets under each policy of the Topology Manager.
//!
//! Rule. Single zone: the lowest zone that holds all of it. Restricted: all resources must need the same least
//! number of zones by what zones have; of that many zones the first set, lowest zones first, whose free amounts
//! suffice. Best effort: zones that cover most of what is still lacking, one after the other; never refused.
//! Amounts are drawn from the lowest of the chosen zones first.

use crate::input::node::NumaPolicy;
use crate::plugins::numa::demand::{Amounts, Demand};
use crate::plugins::numa::state::{NumaState, ZonePlacement};

/// What a demand takes of each zone; none: it cannot be aligned.
pub(super) fn place(numa: &NumaState, demand: &Demand) -> Option<ZonePlacement> {
    for amounts in &demand.passing {
        zones_for(numa, amounts)?;
    }
    let mut placement = ZonePlacement::default();
    match demand.lasting.as_slice() {
        [amounts] => draw(numa, amounts, &zones_for(numa, amounts)?, &mut placement),
        several => {
            let mut left = numa.clone();
            for amounts in several {
                let mut part = ZonePlacement::default();
                draw(&left, amounts, &zones_for(&left, amounts)?, &mut part);
                left.draw(&part);
                for (zone, taken) in part.zones() {
                    for (slot, amount) in taken.non_zero() {
                        placement.add(*zone, slot, amount);
                    }
                }
            }
        }
    }
    Some(placement)
}

/// The zones for one request.
fn zones_for(numa: &NumaState, amounts: &Amounts) -> Option<Vec<usize>> {
    if amounts.is_empty() {
        return Some(Vec::new());
    }
    match numa.policy {
        NumaPolicy::SingleNumaNode => first_set(numa, amounts, 1),
        NumaPolicy::Restricted => {
            let mut width = None;
            for (slot, amount) in amounts {
                let least = numa.least_zones(*slot, *amount)?;
                if *width.get_or_insert(least) != least {
                    return None;
                }
            }
            first_set(numa, amounts, width?)
        }
        NumaPolicy::BestEffort => Some(most_covering(numa, amounts)),
        NumaPolicy::None => Some(Vec::new()),
    }
}

/// The first set of `width` zones, lowest zones first, whose free amounts suffice.
fn first_set(numa: &NumaState, amounts: &Amounts, width: usize) -> Option<Vec<usize>> {
    let count = numa.zone_count();
    if width > count {
        return None;
    }
    let mut zones: Vec<usize> = (0..width).collect();
    loop {
        let suffices = amounts.iter().all(|(slot, amount)| {
            let free = zones.iter().map(|zone| numa.available()[*zone].get(*slot).max(0));
            free.sum::<i64>() >= *amount
        });
        if suffices {
            return Some(zones);
        }
        // The next set: the last zone that can still move up does, those behind it follow closely.
        let at = (0..width).rev().find(|at| zones[*at] < count - width + at)?;
        zones[at] += 1;
        for behind in at + 1..width {
            zones[behind] = zones[behind - 1] + 1;
        }
    }
}

fn most_covering(numa: &NumaState, amounts: &Amounts) -> Vec<usize> {
    let mut lacking = amounts.clone();
    let mut zones: Vec<usize> = Vec::new();
    while lacking.iter().any(|(_, amount)| *amount > 0) {
        let covered = |zone: usize| -> f64 {
            let parts = lacking.iter().zip(amounts).map(|((slot, lacks), (_, asked))| {
                let free = numa.available()[zone].get(*slot).max(0);
                free.min(*lacks) as f64 / *asked as f64
            });
            parts.sum()
        };
        let mut best: Option<(f64, usize)> = None;
        for zone in (0..numa.zone_count()).filter(|zone| !zones.contains(zone)) {
            let covers = covered(zone);
            if covers > best.map_or(0.0, |(most, _)| most) {
                best = Some((covers, zone));
            }
        }
        let Some((_, zone)) = best else { break };
        for (slot, lacks) in &mut lacking {
            *lacks -= numa.available()[zone].get(*slot).clamp(0, *lacks);
        }
        zones.push(zone);
    }
    zones.sort_unstable();
    zones
}

fn draw(numa: &NumaState, amounts: &Amounts, zones: &[usize], placement: &mut ZonePlacement) {
    for (slot, amount) in amounts {
        let mut left = *amount;
        for zone in zones {
            let taken = numa.available()[*zone].get(*slot).clamp(0, left);
            if taken > 0 {
                placement.add(*zone, *slot, taken);
                left -= taken;
            }
        }
    }
}
