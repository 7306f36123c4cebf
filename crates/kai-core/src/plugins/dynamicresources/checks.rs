//! Whether a pod's claims let it be placed at all, and on one node. Texts are KAI's.

use crate::ids::{NodeId, TaskId};
use crate::input::{ObjectName, PodSpec};
use crate::placement::fit::When;
use crate::plugins::dynamicresources::allocator::{Wanted, matches_any};
use crate::plugins::dynamicresources::extended::ExtendedRequests;
use crate::plugins::dynamicresources::is_gpu_name;
use crate::plugins::dynamicresources::store::Claim;
use crate::report::refusal::{NodeRefusal, Rule, TaskRefusal};
use crate::world::World;
use crate::world::node::Node;

/// Pods that may use one claim.
const MOST_CONSUMERS: usize = 256;
/// KAI names this label in its texts, whatever key is configured.
const DEFAULT_QUEUE_LABEL: &str = "kai.scheduler/queue";

/// Whether the claims of a pod allow it to be placed anywhere.
pub(crate) fn check_task(world: &World, task: TaskId) -> Result<(), TaskRefusal> {
    let pod = &world.task(task).spec;
    if pod.claims.is_empty() {
        return Ok(());
    }
    let refuse = |text: String| Err(TaskRefusal { text: text.into() });
    if !world.config.params.dynamic_resources {
        return refuse(format!(
            "pod {} cannot be scheduled, it references resource claims <{}> while dynamic \
             resource allocation is not available in the cluster",
            pod.name,
            pod.claims.join(", ")
        ));
    }
    for name in &pod.claims {
        let name = ObjectName { namespace: pod.name.namespace.clone(), name: name.clone() };
        let Some(at) = world.claims.find(&name) else {
            return refuse(format!(
                "failed to get resource claim {name}: could not find ResourceClaim \"{name}\""
            ));
        };
        let claim = &world.claims.entries[at];
        check_claim(world, task, pod, claim).or_else(refuse)?;
    }
    Ok(())
}

fn check_claim(world: &World, task: TaskId, pod: &PodSpec, claim: &Claim) -> Result<(), String> {
    let reserved = &claim.state.reserved_for;
    let is_in = !world.config.compatibility.is_kai() && reserved.contains(&pod.name.name);
    if reserved.len() >= MOST_CONSUMERS && !is_in {
        let name = &claim.spec.name;
        return Err(format!(
            "resource claim {name} has reached its maximum number of consumers ({MOST_CONSUMERS})"
        ));
    }
    check_queue_label(world, task, claim)
        .map_err(|text| format!("pod {} cannot be scheduled: {text}", pod.name))?;
    if claim.state.allocation.is_some() {
        return Ok(());
    }
    let wanted = claim.spec.requests.iter().flat_map(|request| &request.alternatives);
    let unknown =
        wanted.map(|one| &one.class).find(|class| !world.claims.classes.contains_key(*class));
    match unknown {
        Some(class) => {
            Err(format!("device class {class} does not exist for claim {}", claim.spec.name))
        }
        None => Ok(()),
    }
}

/// A claim for GPUs that several pods may use must name the queue that pays for it.
fn check_queue_label(world: &World, task: TaskId, claim: &Claim) -> Result<(), String> {
    let mut classes = claim.spec.requests.iter().flat_map(|request| &request.alternatives);
    if claim.spec.owner_pod.is_some() || !classes.any(|one| is_gpu_name(&one.class)) {
        return Ok(());
    }
    let name = &claim.spec.name.name;
    let Some(job) = world.task(task).job else { return Ok(()) };
    let queue = &world.job(job).spec.queue;
    let label = claim.spec.labels.get(&world.config.params.queue_label_key);
    match label.filter(|label| !label.is_empty()) {
        None => Err(format!(
            "DRA claim {name} is a shared GPU claim but does not have a queue label \
             ({DEFAULT_QUEUE_LABEL})"
        )),
        Some(label) if label != queue => Err(format!(
            "DRA claim {name} is a shared GPU claim with wrong queue label (expected queue: \
             {queue}, claim queue label: {label})"
        )),
        Some(_) => Ok(()),
    }
}

/// Whether the claims of a pod can be satisfied on a node, now or when releasing pods have ended.
pub(crate) fn check_node(world: &World, task: TaskId, node: NodeId) -> Result<(), NodeRefusal> {
    check(world, task, world.node(node), When::Later)
}

impl World {
    /// Whether the claims of a pod can be satisfied on a node with devices that are free now.
    pub(crate) fn claims_fit_now(&self, task: TaskId, node: &Node) -> bool {
        self.config.compatibility.is_kai()
            || !self.uses_claims()
            || check(self, task, node, When::Now).is_ok()
    }
}

fn check(world: &World, task: TaskId, node: &Node, when: When) -> Result<(), NodeRefusal> {
    let entry = world.task(task);
    let may_ask = world.claims.classes.values().any(|class| class.extended_resource.is_some());
    if (entry.claims.is_empty() && !may_ask) || !world.config.params.dynamic_resources {
        return Ok(());
    }
    let mut wanted: Vec<Wanted<'_>> = Vec::new();
    for at in &entry.claims.claims {
        let claim = &world.claims.entries[*at];
        match &claim.state.allocation {
            Some(given) if given.nodes.is_empty() || matches_any(&given.nodes, node) => {}
            Some(_) => {
                return Err(NodeRefusal::rule(
                    Rule::Claims,
                    format!(
                        "claim {} node selector does not match node {}",
                        claim.spec.name,
                        node.name()
                    ),
                ));
            }
            None => wanted.push(Wanted::by(&claim.spec)),
        }
    }
    let extended = if world.has_extended_allocation(task, node) {
        None
    } else {
        ExtendedRequests::of(&world.claims, &world.names, &entry.spec, node)
    };
    wanted.extend(
        extended.iter().map(|extended| Wanted::unconstrained(&entry.spec.name, &extended.requests)),
    );
    if wanted.is_empty() || world.devices_for(node, &wanted, when).is_some() {
        return Ok(());
    }
    Err(NodeRefusal::rule(
        Rule::Claims,
        format!("cannot allocate all DRA claims on node {}", node.name()),
    ))
}
