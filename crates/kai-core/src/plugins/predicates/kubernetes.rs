//! Filters of kube-scheduler that look at one node: host ports, taints, node selector and node affinity.
//!
//! Rules: a host port is taken when a pod on the node has the same protocol and port and the addresses are equal
//! or one of them is all addresses. Every taint that keeps pods away must be tolerated. The node must have all
//! labels of the selector and satisfy one of the required terms.

use super::texts;
use crate::ids::TaskId;
use crate::input::node::Taint;
use crate::input::pod::{HostPort, PodConstraints, Toleration, tolerate_all};
use crate::input::selectors::{NodeTerm, Operator};
use crate::report::refusal::NodeRefusal;
use crate::world::World;
use crate::world::node::Node;

const ALL_ADDRESSES: &str = "0.0.0.0";

/// Pods on a node as filters see them: also nominated and releasing ones. KAI's filters even see the
/// pod itself while it is being moved, so that it never returns to a place that it alone makes impossible.
pub(crate) fn visible_pods<'a>(
    world: &World,
    task: TaskId,
    node: &'a Node,
) -> impl Iterator<Item = TaskId> + use<'a> {
    let sees_itself = world.config.compatibility.is_kai();
    let pods = node.residents.iter().map(|resident| resident.task);
    pods.filter(move |pod| sees_itself || *pod != task)
}

/// The ports `wanted` are free on `node`.
pub(super) fn check_ports(
    world: &World,
    task: TaskId,
    wanted: &[HostPort],
    node: &Node,
) -> Result<(), NodeRefusal> {
    let taken = visible_pods(world, task, node).any(|pod| {
        let taken = &world.task(pod).spec.constraints.host_ports;
        taken.iter().any(|taken| wanted.iter().any(|wanted| collide(wanted, taken)))
    });
    if taken { Err(texts::HOST_PORTS.refusal()) } else { Ok(()) }
}

fn collide(left: &HostPort, right: &HostPort) -> bool {
    let (left_ip, right_ip) = (address(left), address(right));
    left.port == right.port
        && left.port != 0
        && left.protocol == right.protocol
        && (left_ip == right_ip || left_ip == ALL_ADDRESSES || right_ip == ALL_ADDRESSES)
}

fn address(port: &HostPort) -> &str {
    if port.ip.is_empty() { ALL_ADDRESSES } else { &port.ip }
}

/// Every taint that keeps new pods away is tolerated.
pub(super) fn check_taints(
    tolerations: &[Toleration],
    taints: &[Taint],
) -> Result<(), NodeRefusal> {
    if tolerate_all(tolerations, taints) { Ok(()) } else { Err(texts::TAINT.refusal()) }
}

/// Binds of the pod did not fail on the node just now.
pub(super) fn check_avoided(constraints: &PodConstraints, node: &Node) -> Result<(), NodeRefusal> {
    let avoids = constraints.avoided_nodes.contains(node.name());
    if avoids { Err(texts::AVOIDED.refusal()) } else { Ok(()) }
}

/// The node has the labels of the selector and satisfies one required term.
pub(super) fn check_node_affinity(
    constraints: &PodConstraints,
    node: &Node,
) -> Result<(), NodeRefusal> {
    if matches_node(constraints, node) { Ok(()) } else { Err(texts::NODE_AFFINITY.refusal()) }
}

/// The same as a plain answer, for nodes that the pod does not avoid.
pub(crate) fn matches_node(constraints: &PodConstraints, node: &Node) -> bool {
    let labels = &node.spec.labels;
    let terms = &constraints.node_terms;
    !constraints.avoided_nodes.contains(node.name())
        && constraints.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        && (terms.is_empty() || terms.iter().any(|term| term.matches(node.name(), labels)))
}

/// The terms name nodes in ways that exclude each other, so that no node can ever match.
pub(super) fn node_names_conflict(terms: &[NodeTerm]) -> bool {
    !terms.is_empty() && terms.iter().all(names_no_node)
}

/// The term demands to be on a node by name, and no name is in all of its lists.
fn names_no_node(term: &NodeTerm) -> bool {
    let lists = || {
        let of_names = |key: &str| key == "metadata.name";
        term.fields
            .iter()
            .filter(move |field| of_names(&field.key) && field.operator == Operator::In)
            .map(|field| &field.values)
    };
    let Some(first) = lists().next() else {
        return false;
    };
    !first.iter().any(|name| lists().all(|names| names.contains(name)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compatibility::Compatibility;
    use crate::input::node::TaintEffect;
    use crate::input::selectors::Requirement;
    use crate::plugins::predicates::testing::{Cluster, node, pod, requirement};

    fn port(number: u16, protocol: &str, ip: &str) -> HostPort {
        HostPort { port: number, protocol: protocol.into(), ip: ip.into() }
    }

    #[test]
    fn ports_collide_on_equal_or_all_addresses() {
        let cases = [
            (port(80, "TCP", "0.0.0.0"), port(80, "TCP", "10.0.0.1"), true),
            (port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.1"), true),
            (port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.2"), false),
            (port(80, "TCP", ""), port(80, "TCP", "10.0.0.2"), true),
            (port(80, "UDP", "0.0.0.0"), port(80, "TCP", "0.0.0.0"), false),
            (port(81, "TCP", "0.0.0.0"), port(80, "TCP", "0.0.0.0"), false),
            (port(0, "TCP", "0.0.0.0"), port(0, "TCP", "0.0.0.0"), false),
        ];
        for (left, right, expected) in cases {
            assert_eq!(collide(&left, &right), expected, "{left:?} {right:?}");
            assert_eq!(collide(&right, &left), expected, "{right:?} {left:?}");
        }
    }

    #[test]
    fn a_taken_port_refuses_the_node_even_while_its_holder_leaves() {
        for status in [crate::status::Status::Running, crate::status::Status::Releasing] {
            let mut cluster = Cluster::new();
            cluster.node(node("n"));
            cluster.node(node("free"));
            cluster.pod(pod("holder").port(port(80, "TCP", "")).on("n").status(status));
            let task = cluster.pod(pod("p").port(port(80, "TCP", "")));
            assert_eq!(
                cluster.refusal(task, "n").unwrap(),
                "node(s) didn't have free ports for the requested pod ports"
            );
            assert_eq!(cluster.refusal(task, "free"), None);
        }
    }

    #[test]
    fn only_kai_lets_a_pod_stand_in_its_own_way() {
        for (mode, refused) in [(Compatibility::Right, false), (Compatibility::Kai, true)] {
            let mut cluster = Cluster::with(mode);
            cluster.node(node("n"));
            let task = cluster.pod(pod("p").port(port(80, "TCP", "")).on("n"));
            assert_eq!(cluster.refusal(task, "n").is_some(), refused, "{mode:?}");
        }
    }

    fn toleration(
        key: Option<&str>,
        value: Option<&str>,
        effect: Option<TaintEffect>,
    ) -> Toleration {
        Toleration { key: key.map(Into::into), value: value.map(Into::into), effect }
    }

    fn taint(effect: TaintEffect) -> Taint {
        Taint { key: "dedicated".into(), value: "a".into(), effect }
    }

    #[test]
    fn taints_must_be_tolerated_by_key_value_and_effect() {
        let no_schedule = TaintEffect::NoSchedule;
        let cases = [
            (toleration(Some("dedicated"), Some("a"), Some(no_schedule)), true),
            (toleration(Some("dedicated"), Some("a"), None), true),
            (toleration(Some("dedicated"), None, None), true),
            (toleration(None, None, None), true),
            (toleration(Some("dedicated"), Some("b"), None), false),
            (toleration(Some("other"), None, None), false),
            (toleration(Some("dedicated"), None, Some(TaintEffect::NoExecute)), false),
        ];
        for (toleration, tolerated) in cases {
            let answer = check_taints(std::slice::from_ref(&toleration), &[taint(no_schedule)]);
            assert_eq!(answer.is_ok(), tolerated, "{toleration:?}");
        }
        assert!(check_taints(&[], &[taint(TaintEffect::NoExecute)]).is_err());
        assert!(check_taints(&[], &[taint(TaintEffect::PreferNoSchedule)]).is_ok());
    }

    #[test]
    fn an_untolerated_taint_is_named_as_kubernetes_does() {
        let mut cluster = Cluster::new();
        cluster.node(node("n").taint(taint(TaintEffect::NoSchedule)));
        let task = cluster.pod(pod("p"));
        assert_eq!(cluster.refusal(task, "n").unwrap(), "node(s) had untolerated taint(s)");
        let tolerant = cluster.pod(pod("q").tolerating(toleration(None, None, None)));
        assert_eq!(cluster.refusal(tolerant, "n"), None);
    }

    fn term(labels: Vec<Requirement>, fields: Vec<Requirement>) -> NodeTerm {
        NodeTerm { labels, fields }
    }

    #[test]
    fn selector_and_one_term_must_match() {
        let zone = |value: &str| requirement("zone", Operator::In, &[value]);
        let mut cluster = Cluster::new();
        cluster.node(node("n").label("zone", "a").label("disk", "ssd"));
        let mut refused = |build: fn(crate::plugins::predicates::testing::PodBuilder) -> _,
                           terms: Vec<NodeTerm>| {
            let mut pod: crate::plugins::predicates::testing::PodBuilder = build(pod("p"));
            Arc::make_mut(&mut pod.spec.constraints).node_terms = terms;
            let task = cluster.pod(pod);
            cluster.refusal(task, "n").is_some()
        };
        assert!(!refused(|pod| pod, vec![]));
        assert!(!refused(|pod| pod.selecting("disk", "ssd"), vec![]));
        assert!(refused(|pod| pod.selecting("disk", "hdd"), vec![]));
        let either = vec![term(vec![zone("b")], vec![]), term(vec![zone("a")], vec![])];
        assert!(!refused(|pod| pod.selecting("disk", "ssd"), either.clone()));
        assert!(refused(|pod| pod.selecting("disk", "hdd"), either));
        assert!(refused(|pod| pod, vec![NodeTerm::default()]));
        let named = requirement("metadata.name", Operator::In, &["n"]);
        assert!(!refused(|pod| pod, vec![term(vec![], vec![named])]));
    }

    #[test]
    fn names_that_exclude_each_other_match_no_node() {
        let named = |names: &[&str]| requirement("metadata.name", Operator::In, names);
        let conflict = term(vec![], vec![named(&["a"]), named(&["b"])]);
        assert!(node_names_conflict(std::slice::from_ref(&conflict)));
        let possible = term(vec![], vec![named(&["a", "b"]), named(&["b"])]);
        assert!(!node_names_conflict(&[conflict.clone(), possible]));
        let by_label = term(vec![requirement("zone", Operator::Exists, &[])], vec![]);
        assert!(!node_names_conflict(&[conflict, by_label]));
        assert!(!node_names_conflict(&[]));
    }
}
