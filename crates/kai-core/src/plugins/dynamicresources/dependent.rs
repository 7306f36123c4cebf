//! Devices that depend on each other. Rule: they are tried one after the other, the devices of one request in order,
//! because giving one can make others unavailable.

use crate::input::SliceSpec;
use crate::input::devices::{DeviceCount, DeviceSpec, NamedAmounts};
use crate::plugins::dynamicresources::allocator::{Agreement, Candidate, Chosen, Given, Search};
use crate::plugins::dynamicresources::shares;
use crate::plugins::dynamicresources::stock::Stock;

/// Devices that are tried before a node is given up.
const MOST_TRIALS: usize = 1 << 14;

impl Search<'_> {
    /// Tries devices one after the other, because giving one can make others unavailable.
    pub(super) fn serve_dependent(
        &mut self,
        chosen: &[Chosen<'_>],
        agreements: &[Agreement<'_>],
    ) -> Option<Vec<Given>> {
        let mut given: Vec<Given> = vec![Vec::new(); chosen.len()];
        let mut units: Vec<Unit> = Vec::new();
        for (at, one) in chosen.iter().enumerate() {
            let suits = |device: &usize| self.suits(*device, one, agreements, at);
            let matching: Given = (0..self.candidates.len()).filter(suits).collect();
            let count = match one.alternative.count {
                DeviceCount::All => matching.len(),
                DeviceCount::Exactly(count) => usize::try_from(count.max(1)).ok()?,
            };
            if matching.is_empty() || count > matching.len() {
                return None;
            }
            if one.alternative.admin_access {
                given[at] = matching[..count].to_vec();
                continue;
            }
            let is_all = one.alternative.count == DeviceCount::All;
            for place in 0..count {
                let options = if is_all { vec![matching[place]] } else { matching.clone() };
                units.push(Unit { request: at, is_first: place == 0, options });
            }
        }
        let mut search = DependentSearch {
            candidates: &self.candidates,
            chosen,
            units: &units,
            stock: &mut self.stock,
            taken: Vec::new(),
            trials_left: MOST_TRIALS,
        };
        let found = search.place(0);
        let taken = std::mem::take(&mut search.taken);
        if !found {
            return None;
        }
        for (unit, device) in taken {
            let Candidate { slice, device: spec, .. } = &self.candidates[device];
            let request = units[unit].request;
            let consumed = consumed(&chosen[request], slice, spec);
            self.stock.leave(slice, spec, &consumed);
            given[request].push(device);
        }
        Some(given)
    }
}

/// One device that a request needs.
struct Unit {
    request: usize,
    /// It is the first device of its request.
    is_first: bool,
    /// Devices that suit the request, as positions among the candidates.
    options: Given,
}

/// Devices for units one after the other.
struct DependentSearch<'s, 'a> {
    candidates: &'s [Candidate<'a>],
    chosen: &'s [Chosen<'s>],
    units: &'s [Unit],
    stock: &'s mut Stock,
    /// Positions of units and of the devices they have.
    taken: Vec<(usize, usize)>,
    trials_left: usize,
}

impl DependentSearch<'_, '_> {
    /// Gives devices to this unit and all after it; false when there is no way to.
    fn place(&mut self, unit: usize) -> bool {
        let Some(Unit { request, is_first, options }) = self.units.get(unit) else { return true };
        // The devices of one request are interchangeable: they are taken in order.
        let last = self.taken.last().filter(|_| !is_first).map(|(_, device)| *device);
        for device in options.iter().copied().filter(|at| last.is_none_or(|last| *at > last)) {
            if self.trials_left == 0 {
                return false;
            }
            self.trials_left -= 1;
            let Candidate { slice, device: spec, free, .. } = &self.candidates[device];
            let chosen = &self.chosen[*request];
            let consumed = consumed(chosen, slice, spec);
            if !free
                || self.is_taken_for(chosen.claim, device)
                || !self.stock.has(slice, spec, &consumed)
            {
                continue;
            }
            self.stock.enter(slice, spec, &consumed);
            self.taken.push((unit, device));
            if self.place(unit + 1) {
                return true;
            }
            self.taken.pop();
            self.stock.leave(slice, spec, &consumed);
        }
        false
    }

    /// A claim has a device once, also one that it could have shares of.
    fn is_taken_for(&self, claim: usize, device: usize) -> bool {
        let of_claim = |unit: usize| self.chosen[self.units[unit].request].claim == claim;
        self.taken.iter().any(|(unit, taken)| *taken == device && of_claim(*unit))
    }
}

/// What the chosen alternative of a request takes of the capacities of a device that suits it.
pub(super) fn consumed(
    chosen: &Chosen<'_>,
    slice: &SliceSpec,
    device: &DeviceSpec,
) -> NamedAmounts {
    shares::consumption(&chosen.alternative.capacity, slice, device).unwrap_or_default()
}
