//! Devices for requests on one node. Rule: requests are served together from the devices that can be used from
//! the node and that no claim holds; each device serves one request. Requests take devices in the order in which
//! slices list them; a request for all devices takes every one that matches and fails if one is taken; a look at
//! devices takes none. Alternatives are tried in order of preference. Devices that must agree in an attribute are
//! looked for value by value, in the order in which slices show the values. Devices that depend on each other, because
//! they share counters or because several claims may have shares of one, are tried one after the other.

use crate::input::ClaimSpec;
use crate::input::devices::{
    AllocatedDevice, Allocation, DeviceAccess, DeviceAlternative, DeviceCount, DeviceRef,
    DeviceRequest, DeviceSpec, SameAttribute,
};
use crate::input::selectors::{NodeTerm, Operator, Requirement};
use crate::input::{ObjectName, SliceSpec, Text};
use crate::plugins::dynamicresources::dependent::consumed;
use crate::plugins::dynamicresources::shares;
use crate::plugins::dynamicresources::stock::{Stock, is_dependent};
use crate::plugins::dynamicresources::store::Claims;
use crate::world::node::Node;

/// Choices of alternatives and of attribute values that are tried before a node is given up.
const MOST_CHOICES: usize = 4096;

/// What a claim wants.
#[derive(Clone)]
pub(super) struct Wanted<'a> {
    /// Namespace and name of the claim, or of the pod whose extended resources are meant.
    owner: Text,
    requests: &'a [DeviceRequest],
    constraints: &'a [SameAttribute],
}

impl<'a> Wanted<'a> {
    /// What an unallocated claim wants.
    pub(super) fn by(claim: &'a ClaimSpec) -> Self {
        let owner = claim.name.to_string().into();
        Self { owner, requests: &claim.requests, constraints: &claim.constraints }
    }

    /// Devices that need have nothing in common.
    pub(super) fn unconstrained(pod: &ObjectName, requests: &'a [DeviceRequest]) -> Self {
        Self { owner: pod.to_string().into(), requests, constraints: &[] }
    }
}

/// A device that can be used from the node.
pub(super) struct Candidate<'a> {
    pub(super) slice: &'a SliceSpec,
    pub(super) device: &'a DeviceSpec,
    /// Terms of the slice it comes from; none: it is of this node alone.
    reach: Option<&'a [NodeTerm]>,
    pub(super) free: bool,
}

/// Devices of one request, as positions among the candidates.
pub(super) type Given = Vec<usize>;

/// A request with the alternative that is tried for it.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub(super) claim: usize,
    request: &'a DeviceRequest,
    pub(super) alternative: &'a DeviceAlternative,
}

/// An attribute with the value that is tried for it, for some of the chosen requests.
pub(super) struct Agreement<'a> {
    attribute: &'a Text,
    members: Vec<usize>,
    values: Vec<&'a Text>,
    value: usize,
}

/// A search on one node.
pub(super) struct Search<'a> {
    claims: &'a Claims,
    wanted: &'a [Wanted<'a>],
    pub(super) candidates: Vec<Candidate<'a>>,
    /// What is left of devices that depend on each other.
    pub(super) stock: Stock,
    /// Some pool of the node is being updated: what "all devices" are is not known.
    has_unfinished_pool: bool,
    /// Choices that may still be tried.
    choices_left: usize,
}

impl Claims {
    /// Allocations that give every claim all it wants on `node` when the claims that `counts` says keep their devices,
    /// one per claim; none: there are none.
    pub(super) fn allocate(
        &self,
        node: &Node,
        wanted: &[Wanted<'_>],
        counts: impl Fn(usize) -> bool,
    ) -> Option<Vec<Allocation>> {
        let holders = |device: &DeviceRef| self.taken.get(device).into_iter().flatten();
        let is_free = |device: &DeviceRef| !holders(device).any(|at| counts(*at));
        let candidates = self.candidates(node, is_free);
        let dependent = candidates.iter().filter(|one| is_dependent(one.device));
        let stock = Stock::of(self, dependent.map(|one| one.slice), &counts);
        let mut published = self.published_slices(node.name());
        let has_unfinished_pool = published.any(|slice| self.pools.is_unfinished(slice));
        let mut search = Search {
            claims: self,
            wanted,
            candidates,
            stock,
            has_unfinished_pool,
            choices_left: MOST_CHOICES,
        };
        let (chosen, given) = search.serve()?;
        let of_claim = |claim: usize| {
            let served = chosen.iter().zip(&given).filter(move |(one, _)| one.claim == claim);
            search.allocation(node, &served.collect::<Vec<_>>())
        };
        Some((0..wanted.len()).map(of_claim).collect())
    }

    fn candidates(&self, node: &Node, is_free: impl Fn(&DeviceRef) -> bool) -> Vec<Candidate<'_>> {
        let mut candidates = Vec::new();
        for slice in self.slices_of(node.name()) {
            for device in &slice.devices {
                let reach: Option<&[NodeTerm]> = match slice.access_to(device) {
                    DeviceAccess::Node(of) if of == node.name() => None,
                    DeviceAccess::AllNodes => Some(&[]),
                    DeviceAccess::Nodes(terms) if matches_any(terms, node) => Some(terms),
                    DeviceAccess::Node(_) | DeviceAccess::Nodes(_) | DeviceAccess::PerDevice => {
                        continue;
                    }
                };
                let free = device.is_shareable || is_free(&slice.device(device));
                candidates.push(Candidate { slice, device, reach, free });
            }
        }
        candidates
    }
}

/// Whether a node satisfies one of the terms.
pub(super) fn matches_any(terms: &[NodeTerm], node: &Node) -> bool {
    terms.iter().any(|term| term.matches(node.name(), &node.spec.labels))
}

impl<'a> Search<'a> {
    /// Tries alternatives in order of preference.
    fn serve(&mut self) -> Option<(Vec<Chosen<'a>>, Vec<Given>)> {
        let wanted = self.wanted;
        let requests: Vec<(usize, &DeviceRequest)> = wanted
            .iter()
            .enumerate()
            .flat_map(|(claim, wanted)| wanted.requests.iter().map(move |one| (claim, one)))
            .collect();
        if requests.iter().any(|(_, request)| request.alternatives.is_empty()) {
            return None;
        }
        let mut choice = vec![0; requests.len()];
        loop {
            let chosen: Vec<Chosen<'a>> = requests
                .iter()
                .zip(&choice)
                .map(|((claim, request), at)| {
                    let alternative = &request.alternatives[*at];
                    Chosen { claim: *claim, request, alternative }
                })
                .collect();
            if let Some(given) = self.serve_agreeing(&chosen) {
                return Some((chosen, given));
            }
            let sizes = requests.iter().map(|(_, request)| request.alternatives.len());
            if self.choices_left == 0 || !advance(&mut choice, sizes) {
                return None;
            }
        }
    }

    /// Tries values of the attributes in which devices must agree.
    fn serve_agreeing(&mut self, chosen: &[Chosen<'_>]) -> Option<Vec<Given>> {
        let mut agreements = self.agreements(chosen);
        let mut choice = vec![0; agreements.len()];
        let sizes: Vec<usize> = agreements.iter().map(|agreement| agreement.values.len()).collect();
        if sizes.contains(&0) {
            return None;
        }
        while self.choices_left > 0 {
            self.choices_left -= 1;
            for (agreement, value) in agreements.iter_mut().zip(&choice) {
                agreement.value = *value;
            }
            if let Some(given) = self.serve_chosen(chosen, &agreements) {
                return Some(given);
            }
            if !advance(&mut choice, sizes.iter().copied()) {
                return None;
            }
        }
        None
    }

    /// The constraints that concern chosen requests, with the values that devices of the node have.
    fn agreements(&self, chosen: &[Chosen<'_>]) -> Vec<Agreement<'a>> {
        let mut agreements = Vec::new();
        for (claim, wanted) in self.wanted.iter().enumerate() {
            for constraint in wanted.constraints {
                let concerned = |one: &Chosen<'_>| one.claim == claim && concerns(constraint, one);
                let members: Vec<usize> =
                    (0..chosen.len()).filter(|at| concerned(&chosen[*at])).collect();
                if members.is_empty() {
                    continue;
                }
                let attribute = &constraint.attribute;
                let mut values: Vec<&'a Text> = Vec::new();
                for candidate in &self.candidates {
                    let value = candidate.device.attributes.get(attribute);
                    values.extend(value.filter(|value| !values.contains(value)));
                }
                agreements.push(Agreement { attribute, members, values, value: 0 });
            }
        }
        agreements
    }

    pub(super) fn suits(
        &self,
        at: usize,
        chosen: &Chosen<'_>,
        agreements: &[Agreement<'_>],
        of: usize,
    ) -> bool {
        let Candidate { slice, device, .. } = &self.candidates[at];
        let agrees = |agreement: &Agreement<'_>| {
            !agreement.members.contains(&of)
                || device.attributes.get(agreement.attribute)
                    == Some(agreement.values[agreement.value])
        };
        self.claims.suits(chosen.alternative, slice, device) && agreements.iter().all(agrees)
    }

    fn serve_chosen(
        &mut self,
        chosen: &[Chosen<'_>],
        agreements: &[Agreement<'_>],
    ) -> Option<Vec<Given>> {
        let asks_for_all = |one: &Chosen<'_>| one.alternative.count == DeviceCount::All;
        if self.has_unfinished_pool && chosen.iter().any(asks_for_all) {
            return None;
        }
        if self.candidates.iter().any(|one| is_dependent(one.device)) {
            return self.serve_dependent(chosen, agreements);
        }
        let mut holder: Vec<Option<usize>> = vec![None; self.candidates.len()];
        let mut given: Vec<Given> = vec![Vec::new(); chosen.len()];
        let mut units = Vec::new();
        for (at, one) in chosen.iter().enumerate() {
            let suits = |device: &usize| self.suits(*device, one, agreements, at);
            let matching: Given = (0..self.candidates.len()).filter(suits).collect();
            match one.alternative.count {
                DeviceCount::All if one.alternative.admin_access => given[at] = matching,
                DeviceCount::Exactly(count) if one.alternative.admin_access => {
                    let count = usize::try_from(count.max(1)).ok()?;
                    given[at] = matching.get(..count)?.to_vec();
                }
                DeviceCount::All => {
                    let can_take =
                        |device: &usize| self.candidates[*device].free && holder[*device].is_none();
                    if matching.is_empty() || !matching.iter().all(can_take) {
                        return None;
                    }
                    for device in &matching {
                        holder[*device] = Some(usize::MAX);
                    }
                    given[at] = matching;
                }
                DeviceCount::Exactly(count) => {
                    let free = matching.into_iter().filter(|one| self.candidates[*one].free);
                    let free: Given = free.collect();
                    let count = usize::try_from(count.max(1)).ok()?;
                    if count > free.len() {
                        return None;
                    }
                    units.extend(std::iter::repeat_n((at, free), count));
                }
            }
        }
        assign(&units, &mut holder)?;
        for (device, unit) in holder.iter().enumerate() {
            if let Some((request, _)) = unit.and_then(|unit| units.get(unit)) {
                given[*request].push(device);
            }
        }
        Some(given)
    }

    fn allocation(&self, node: &Node, served: &[(&Chosen<'_>, &Given)]) -> Allocation {
        let devices =
            || served.iter().flat_map(|(_, given)| *given).map(|at| &self.candidates[*at]);
        let results = served.iter().flat_map(|(chosen, given)| {
            given.iter().map(|at| {
                let Candidate { slice, device, .. } = &self.candidates[*at];
                let (request, id) = (result_name(chosen), slice.device(device));
                let is_share = device.is_shareable && !chosen.alternative.admin_access;
                let owner = &self.wanted[chosen.claim].owner;
                let share = is_share
                    .then(|| shares::share(owner, &request, &id, consumed(chosen, slice, device)));
                AllocatedDevice { request, device: id, share }
            })
        });
        let first = devices().next().and_then(|candidate| candidate.reach);
        let nodes = match first {
            Some(reach) if devices().all(|one| one.reach == Some(reach)) => reach.to_vec(),
            // Devices of several reaches can at least be used from here.
            _ => vec![only(node)],
        };
        Allocation { results: results.collect(), nodes }
    }
}

/// What the result of a request is called.
fn result_name(chosen: &Chosen<'_>) -> Text {
    match &chosen.alternative.name {
        Some(name) => format!("{}/{name}", chosen.request.name).into(),
        None => chosen.request.name.clone(),
    }
}

/// Whether a constraint is about the request, or just about the alternative that was chosen for it.
fn concerns(constraint: &SameAttribute, chosen: &Chosen<'_>) -> bool {
    let named = |name: &Text| *name == chosen.request.name || *name == result_name(chosen);
    constraint.requests.is_empty() || constraint.requests.iter().any(named)
}

/// The next choice: the last place that has another option takes it, those after it start over. False when there was
/// no other.
fn advance(choice: &mut [usize], sizes: impl Iterator<Item = usize>) -> bool {
    let can_move = |(_, (at, size)): &(usize, (&usize, usize))| **at + 1 < *size;
    let last = choice.iter().zip(sizes).enumerate().filter(can_move).map(|(place, _)| place).last();
    let Some(place) = last else { return false };
    choice[place] += 1;
    choice[place + 1..].fill(0);
    true
}

/// A term that matches this node alone.
fn only(node: &Node) -> NodeTerm {
    let field = Requirement {
        key: "metadata.name".into(),
        operator: Operator::In,
        values: vec![node.name().clone()],
    };
    NodeTerm { labels: Vec::new(), fields: vec![field] }
}

/// Gives every unit a device of its list that no other has: in order while that works, else by moving earlier
/// units to other devices of their lists.
fn assign(units: &[(usize, Given)], holder: &mut [Option<usize>]) -> Option<()> {
    for unit in 0..units.len() {
        let free = units[unit].1.iter().find(|device| holder[**device].is_none());
        if let Some(device) = free {
            holder[*device] = Some(unit);
            continue;
        }
        let mut tried = vec![false; holder.len()];
        if !move_over(unit, units, holder, &mut tried) {
            return None;
        }
    }
    Some(())
}

fn move_over(
    unit: usize,
    units: &[(usize, Given)],
    holder: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for device in &units[unit].1 {
        if std::mem::replace(&mut tried[*device], true) {
            continue;
        }
        let can_have = match holder[*device] {
            None => true,
            Some(other) if other == usize::MAX => false,
            Some(other) => move_over(other, units, holder, tried),
        };
        if can_have {
            holder[*device] = Some(unit);
            return true;
        }
    }
    false
}
