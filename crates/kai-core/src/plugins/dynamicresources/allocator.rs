//! Devices for requests on one node. Rule: requests are served together from the devices that can be used from
//! the node and that no claim holds; each device serves one request. Requests take devices in the order in which
//! slices list them; a request for all devices takes every one that matches and fails if one is held; a look at
//! devices takes none. Alternatives are tried in order of preference.

use crate::input::devices::{
    AllocatedDevice, Allocation, DeviceAccess, DeviceAlternative, DeviceCount, DeviceRef,
    DeviceRequest,
};
use crate::input::selectors::{NodeTerm, Operator, Requirement};
use crate::plugins::dynamicresources::store::Claims;
use crate::world::node::Node;

/// Choices of alternatives that are tried before a node is given up.
const MOST_CHOICES: usize = 4096;

/// A device that can be used from the node.
struct Candidate {
    device: DeviceRef,
    /// Terms of the slice it comes from; none: it is of this node alone.
    reach: Option<Vec<NodeTerm>>,
    free: bool,
}

/// Devices of one request, as positions among the candidates.
type Given = Vec<usize>;

/// A search on one node.
struct Search<'a> {
    claims: &'a Claims,
    candidates: Vec<Candidate>,
}

impl Claims {
    /// Allocations that satisfy all requests of all `claims` on `node`, one per claim; none: there are none.
    pub(super) fn allocate(
        &self,
        node: &Node,
        claims: &[&[DeviceRequest]],
    ) -> Option<Vec<Allocation>> {
        let search = Search { claims: self, candidates: self.candidates(node) };
        let requests: Vec<&DeviceRequest> = claims.iter().copied().flatten().collect();
        let given = search.serve(&requests)?;
        let mut given = given.into_iter();
        let allocations = claims.iter().map(|requests| {
            let per_request: Vec<(&DeviceRequest, Given)> =
                requests.iter().zip(given.by_ref()).collect();
            search.allocation(node, &per_request)
        });
        Some(allocations.collect())
    }

    /// Whether no claim holds a device of an allocation that was given back.
    pub(super) fn is_free(&self, allocation: &Allocation) -> bool {
        allocation.results.iter().all(|result| !self.taken.contains_key(&result.device))
    }

    fn candidates(&self, node: &Node) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for slice in self.slices_of(node.name()) {
            let reach = match &slice.access {
                DeviceAccess::Node(_) => None,
                DeviceAccess::AllNodes => Some(Vec::new()),
                DeviceAccess::Nodes(terms) if matches_any(terms, node) => Some(terms.clone()),
                DeviceAccess::Nodes(_) => continue,
            };
            for device in &slice.devices {
                let device = DeviceRef {
                    driver: slice.driver.clone(),
                    pool: slice.pool.clone(),
                    device: device.clone(),
                };
                let free = !self.taken.contains_key(&device);
                candidates.push(Candidate { device, reach: reach.clone(), free });
            }
        }
        candidates
    }
}

/// Whether a node satisfies one of the terms.
pub(super) fn matches_any(terms: &[NodeTerm], node: &Node) -> bool {
    terms.iter().any(|term| term.matches(node.name(), &node.spec.labels))
}

impl Search<'_> {
    fn serve(&self, requests: &[&DeviceRequest]) -> Option<Vec<Given>> {
        if requests.iter().any(|request| request.alternatives.is_empty()) {
            return None;
        }
        let mut choice = vec![0; requests.len()];
        for _ in 0..MOST_CHOICES {
            let chosen: Vec<&DeviceAlternative> = requests
                .iter()
                .zip(&choice)
                .map(|(request, alternative)| &request.alternatives[*alternative])
                .collect();
            if let Some(given) = self.serve_chosen(&chosen) {
                return Some(given);
            }
            // The last request with an alternative left takes the next one; those after it start over.
            let at = (0..requests.len())
                .rev()
                .find(|at| choice[*at] + 1 < requests[*at].alternatives.len())?;
            choice[at] += 1;
            choice[at + 1..].fill(0);
        }
        None
    }

    fn serve_chosen(&self, chosen: &[&DeviceAlternative]) -> Option<Vec<Given>> {
        let mut holder: Vec<Option<usize>> = vec![None; self.candidates.len()];
        let mut given: Vec<Given> = vec![Vec::new(); chosen.len()];
        let mut units = Vec::new();
        for (at, alternative) in chosen.iter().enumerate() {
            let matching: Given = (0..self.candidates.len())
                .filter(|candidate| {
                    self.claims.is_eligible(alternative, &self.candidates[*candidate].device)
                })
                .collect();
            match alternative.count {
                DeviceCount::All if alternative.admin_access => given[at] = matching,
                DeviceCount::Exactly(count) if alternative.admin_access => {
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

    fn allocation(&self, node: &Node, requests: &[(&DeviceRequest, Given)]) -> Allocation {
        let devices =
            || requests.iter().flat_map(|(_, given)| given).map(|at| &self.candidates[*at]);
        let results = requests.iter().flat_map(|(request, given)| {
            given.iter().map(|at| AllocatedDevice {
                request: request.name.clone(),
                device: self.candidates[*at].device.clone(),
            })
        });
        let first = devices().next().and_then(|candidate| candidate.reach.clone());
        let nodes = match first {
            Some(reach) if devices().all(|one| one.reach.as_ref() == Some(&reach)) => reach,
            // Devices of several reaches can at least be used from here.
            _ => vec![only(node)],
        };
        Allocation { results: results.collect(), nodes }
    }
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
