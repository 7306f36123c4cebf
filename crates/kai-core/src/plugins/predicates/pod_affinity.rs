//! `InterPodAffinity`: where a pod may be because of where other pods are.
//!
//! Rules: a *domain* is all nodes with one value of a label. Every required affinity term needs a pod that matches
//! all of them in the node's domain; when no pod anywhere does, a pod that matches its own terms may be the first.
//! A node without the label of an affinity term is refused. No pod in the domain may match a required
//! anti-affinity term, and the required anti-affinity of pods in the domain must not match the pod. A term looks at
//! pods of the namespaces it names or selects by their labels, as these are now; else of its own pod's.
//!
//! The domains are collected once per pod: its own terms ask all pods, the others' terms are asked only on nodes
//! that hold such pods. Each node is then answered by looking its labels up.

use rustc_hash::FxHashSet;

use super::kubernetes::visible_pods;
use super::texts;
use crate::ids::TaskId;
use crate::input::pod::{PodConstraints, PodTerm, TermNamespaces};
use crate::input::selectors::{LabelSelector, Labels};
use crate::input::{PodSpec, Text};
use crate::report::refusal::NodeRefusal;
use crate::world::World;
use crate::world::node::Node;

/// Whether `term` of a pod in `owner_namespace` speaks of `pod`.
pub(crate) fn speaks_of(
    world: &World,
    term: &PodTerm,
    owner_namespace: &Text,
    pod: &PodSpec,
) -> bool {
    let namespace = &pod.name.namespace;
    let looks_there = match &term.namespaces {
        TermNamespaces::Own => namespace == owner_namespace,
        TermNamespaces::All => true,
        TermNamespaces::Chosen { named, selector } => {
            named.contains(namespace)
                || selector.as_ref().is_some_and(|selector| selects(world, selector, namespace))
        }
    };
    looks_there && term.selector.matches(&pod.labels)
}

/// A namespace that is not known has no labels.
fn selects(world: &World, selector: &LabelSelector, namespace: &Text) -> bool {
    match world.namespaces.get(namespace) {
        Some(known) => selector.matches(&known.labels),
        None => selector.matches(&Labels::new()),
    }
}

/// Values of labels: a few keys, many values.
#[derive(Clone, Debug, Default)]
struct Domains {
    by_key: Vec<(Text, FxHashSet<Text>)>,
}

impl Domains {
    /// Adds the domain of a node with `labels`; nothing where it lacks the label.
    fn add(&mut self, key: &Text, labels: &Labels) {
        let Some(value) = labels.get(key) else { return };
        let at = self.by_key.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            self.by_key.push((key.clone(), FxHashSet::default()));
            self.by_key.len() - 1
        });
        let values = &mut self.by_key[at].1;
        if !values.contains(value) {
            values.insert(value.clone());
        }
    }

    fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// A node with `labels` is in one of the domains.
    fn contain(&self, labels: &Labels) -> bool {
        self.by_key
            .iter()
            .any(|(key, values)| labels.get(key).is_some_and(|value| values.contains(value)))
    }

    /// A node whose label `key` is `value` is in one of the domains of that key.
    fn contain_value(&self, key: &Text, value: &Text) -> bool {
        self.by_key.iter().any(|(known, values)| known == key && values.contains(value))
    }
}

/// What the places of other pods say about the places of one pod.
#[derive(Clone, Debug)]
pub(super) struct AffinityFacts {
    /// Domains of pods that match all required affinity terms.
    attracting: Domains,
    /// Domains of pods that match a required anti-affinity term.
    repelling: Domains,
    /// Domains of pods that do not want the pod near them.
    unwelcoming: Domains,
    /// The pod matches its own affinity terms.
    matches_itself: bool,
}

impl AffinityFacts {
    /// The facts for `task`; none when neither it nor any other pod cares.
    pub(super) fn new(world: &World, task: TaskId) -> Option<Box<Self>> {
        if world.affinity_skips.contains(&task) {
            return None;
        }
        let pod = &world.task(task).spec;
        let constraints = &pod.constraints;
        let has_terms =
            !constraints.pod_affinity.is_empty() || !constraints.pod_anti_affinity.is_empty();
        if !has_terms && world.terms.has_no_guards() {
            return None;
        }
        let mut facts = Self {
            attracting: Domains::default(),
            repelling: Domains::default(),
            unwelcoming: Domains::default(),
            matches_itself: matches_all(world, &constraints.pod_affinity, &pod.name.namespace, pod),
        };
        for node in world.terms.guarded().map(|id| world.node(id)) {
            for other in visible_pods(world, task, node) {
                facts.ask(world, pod, &world.task(other).spec, node);
            }
        }
        if has_terms {
            for (_, node) in world.nodes() {
                for other in visible_pods(world, task, node) {
                    facts.meet(world, pod, &world.task(other).spec, node);
                }
            }
        }
        Some(Box::new(facts))
    }

    /// What the pod's own terms say of `other` on `node`.
    fn meet(&mut self, world: &World, pod: &PodSpec, other: &PodSpec, node: &Node) {
        let namespace = &pod.name.namespace;
        let labels = &node.spec.labels;
        let affinity = &pod.constraints.pod_affinity;
        if matches_all(world, affinity, namespace, other) {
            for term in affinity {
                self.attracting.add(&term.topology_key, labels);
            }
        }
        for term in &pod.constraints.pod_anti_affinity {
            if speaks_of(world, term, namespace, other) {
                self.repelling.add(&term.topology_key, labels);
            }
        }
    }

    /// What the anti-affinity of `other` on `node` says of the pod.
    fn ask(&mut self, world: &World, pod: &PodSpec, other: &PodSpec, node: &Node) {
        for term in &other.constraints.pod_anti_affinity {
            if speaks_of(world, term, &other.name.namespace, pod) {
                self.unwelcoming.add(&term.topology_key, &node.spec.labels);
            }
        }
    }

    /// Whether the pod may be on `node`.
    pub(super) fn check(
        &self,
        constraints: &PodConstraints,
        node: &Node,
    ) -> Result<(), NodeRefusal> {
        let labels = &node.spec.labels;
        if !self.is_attracted(&constraints.pod_affinity, labels) {
            return Err(texts::POD_AFFINITY.refusal());
        }
        if self.repelling.contain(labels) {
            return Err(texts::POD_ANTI_AFFINITY.refusal());
        }
        if self.unwelcoming.contain(labels) {
            return Err(texts::EXISTING_ANTI_AFFINITY.refusal());
        }
        Ok(())
    }

    fn is_attracted(&self, terms: &[PodTerm], labels: &Labels) -> bool {
        let mut in_all_domains = true;
        for term in terms {
            let Some(value) = labels.get(&term.topology_key) else {
                return false;
            };
            in_all_domains &= self.attracting.contain_value(&term.topology_key, value);
        }
        in_all_domains || (self.attracting.is_empty() && self.matches_itself)
    }
}

/// The pod has no terms of its own and no pod on any node repels it.
pub(super) fn is_silent(world: &World, task: TaskId) -> bool {
    let constraints = &world.task(task).spec.constraints;
    constraints.pod_affinity.is_empty()
        && constraints.pod_anti_affinity.is_empty()
        && AffinityFacts::new(world, task).is_none_or(|facts| facts.unwelcoming.is_empty())
}

fn matches_all(world: &World, terms: &[PodTerm], owner_namespace: &Text, pod: &PodSpec) -> bool {
    !terms.is_empty() && terms.iter().all(|term| speaks_of(world, term, owner_namespace, pod))
}

#[cfg(test)]
mod tests {
    use crate::compatibility::Compatibility;
    use crate::ids::TaskId;
    use crate::input::pod::{PodTerm, TermNamespaces};
    use crate::input::selectors::{LabelSelector, Operator};
    use crate::input::{NamespaceSpec, Object};
    use crate::plugins::predicates::TaskContext;
    use crate::plugins::predicates::testing::{Cluster, node, pod, requirement, term};
    use crate::status::Status;

    const FREE: &str = "";
    const AFFINITY: &str = "node(s) didn't match pod affinity rules";
    const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
    const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

    /// Two nodes in zone a, one in zone b, one in no zone.
    fn zones() -> Cluster {
        let mut cluster = Cluster::new();
        cluster.node(node("a1").label("zone", "a").label("host", "a1"));
        cluster.node(node("a2").label("zone", "a").label("host", "a2"));
        cluster.node(node("b1").label("zone", "b").label("host", "b1"));
        cluster.node(node("c1").label("host", "c1"));
        cluster
    }

    fn answers(cluster: &Cluster, task: TaskId) -> [String; 4] {
        ["a1", "a2", "b1", "c1"].map(|node| cluster.refusal(task, node).unwrap_or_default())
    }

    #[test]
    fn without_any_terms_nothing_is_computed() {
        let mut cluster = zones();
        cluster.pod(pod("other").on("a1"));
        let task = cluster.pod(pod("p"));
        assert!(TaskContext::new(&cluster.world, task).affinity.is_none());
    }

    #[test]
    fn affinity_wants_a_matching_pod_in_the_domain() {
        let mut cluster = zones();
        cluster.pod(pod("db").label("app", "db").on("a1"));
        let task = cluster.pod(pod("p").near(term("zone", "app", "db")));
        assert_eq!(answers(&cluster, task), [FREE, FREE, AFFINITY, AFFINITY]);
    }

    #[test]
    fn all_terms_must_be_matched_by_the_same_pod() {
        let mut cluster = zones();
        cluster.pod(pod("db").label("app", "db").on("a1"));
        cluster.pod(pod("web").label("tier", "web").on("a1"));
        let terms = pod("p").near(term("zone", "app", "db")).near(term("zone", "tier", "web"));
        let task = cluster.pod(terms);
        assert_eq!(answers(&cluster, task)[0], AFFINITY);
        cluster.pod(pod("both").label("app", "db").label("tier", "web").on("a2"));
        assert_eq!(answers(&cluster, task), [FREE, FREE, AFFINITY, AFFINITY]);
    }

    #[test]
    fn the_first_of_a_series_may_go_anywhere_with_the_label() {
        let mut cluster = zones();
        let group = || pod("p").label("app", "x").near(term("zone", "app", "x"));
        let first = cluster.pod(group());
        assert_eq!(answers(&cluster, first), [FREE, FREE, FREE, AFFINITY]);
        cluster.pod(group().named("second").on("b1"));
        let third = cluster.pod(group().named("third"));
        assert_eq!(answers(&cluster, third), [AFFINITY, AFFINITY, FREE, AFFINITY]);
        let stranger = cluster.pod(pod("s").near(term("zone", "app", "missing")));
        assert_eq!(answers(&cluster, stranger)[0], AFFINITY);
    }

    #[test]
    fn anti_affinity_keeps_out_of_the_domain() {
        let mut cluster = zones();
        cluster.pod(pod("db").label("app", "db").on("a1"));
        let by_zone = cluster.pod(pod("p").away_from(term("zone", "app", "db")));
        assert_eq!(answers(&cluster, by_zone), [ANTI_AFFINITY, ANTI_AFFINITY, FREE, FREE]);
        let by_host = cluster.pod(pod("q").away_from(term("host", "app", "db")));
        assert_eq!(answers(&cluster, by_host), [ANTI_AFFINITY, FREE, FREE, FREE]);
    }

    #[test]
    fn pods_already_there_keep_others_out() {
        let mut cluster = zones();
        cluster.pod(pod("shy").away_from(term("zone", "app", "loud")).on("a2"));
        let loud = cluster.pod(pod("p").label("app", "loud"));
        assert_eq!(answers(&cluster, loud), [EXISTING, EXISTING, FREE, FREE]);
        let quiet = cluster.pod(pod("q").label("app", "quiet"));
        assert_eq!(answers(&cluster, quiet), [FREE, FREE, FREE, FREE]);
    }

    #[test]
    fn releasing_and_nominated_pods_still_count() {
        for status in [Status::Releasing, Status::Pipelined] {
            let mut cluster = zones();
            cluster.pod(pod("db").label("app", "db").on("a1").status(status));
            let task = cluster.pod(pod("p").away_from(term("host", "app", "db")));
            assert_eq!(answers(&cluster, task)[0], ANTI_AFFINITY);
        }
    }

    #[test]
    fn terms_look_in_their_own_the_listed_or_all_namespaces() {
        let mut cluster = zones();
        cluster.pod(pod("db").in_namespace("other").label("app", "db").on("a1"));
        let base = term("zone", "app", "db");
        let named = TermNamespaces::Chosen { named: vec!["other".into()], selector: None };
        let nowhere = TermNamespaces::Chosen { named: Vec::new(), selector: None };
        let cases = [
            (TermNamespaces::Own, false),
            (named, true),
            (TermNamespaces::All, true),
            (nowhere, false),
        ];
        for (namespaces, meets) in cases {
            let term = PodTerm { namespaces, ..base.clone() };
            let task = cluster.pod(pod("p").away_from(term.clone()));
            assert_eq!(cluster.refusal(task, "a1").is_some(), meets, "{term:?}");
        }
    }

    #[test]
    fn terms_select_namespaces_by_the_labels_they_have_now() {
        let mut cluster = zones();
        let team = |value: &str| {
            let labels = [("team".into(), value.into())].into();
            Object::Namespace(NamespaceSpec { name: "other".into(), labels })
        };
        let selecting = |operator: Operator, values: &[&str]| {
            let requirements = vec![requirement("team", operator, values)];
            let selector = Some(LabelSelector { requirements });
            TermNamespaces::Chosen { named: Vec::new(), selector }
        };
        cluster.pod(pod("db").in_namespace("other").label("app", "db").on("a1"));
        let away = |namespaces| PodTerm { namespaces, ..term("zone", "app", "db") };
        let with = cluster.pod(pod("p").away_from(away(selecting(Operator::In, &["red"]))));
        let without = cluster.pod(pod("q").away_from(away(selecting(Operator::DoesNotExist, &[]))));
        let refused =
            |cluster: &Cluster| [with, without].map(|task| cluster.refusal(task, "a1").is_some());
        assert_eq!(refused(&cluster), [false, true], "unknown namespaces have no labels");
        cluster.set(team("red"));
        assert_eq!(refused(&cluster), [true, false]);
        cluster.set(team("blue"));
        assert_eq!(refused(&cluster), [false, false]);
    }

    #[test]
    fn pods_already_there_select_namespaces_too() {
        let mut cluster = zones();
        let selector =
            LabelSelector { requirements: vec![requirement("loud", Operator::Exists, &[])] };
        let namespaces = TermNamespaces::Chosen { named: Vec::new(), selector: Some(selector) };
        let shy = PodTerm { namespaces, ..term("zone", "app", "x") };
        cluster.pod(pod("shy").away_from(shy).on("a2"));
        let guest = cluster.pod(pod("p").in_namespace("other").label("app", "x"));
        assert_eq!(answers(&cluster, guest), [FREE; 4]);
        let labels = [("loud".into(), "".into())].into();
        cluster.set(Object::Namespace(NamespaceSpec { name: "other".into(), labels }));
        assert_eq!(answers(&cluster, guest), [EXISTING, EXISTING, FREE, FREE]);
    }

    #[test]
    fn a_pod_that_wants_its_kind_elsewhere_may_return_to_its_place() {
        for (mode, refused) in [(Compatibility::Right, false), (Compatibility::Kai, true)] {
            let mut cluster = Cluster::with(mode);
            cluster.node(node("n").label("host", "n"));
            let spread = pod("p").label("app", "x").away_from(term("host", "app", "x"));
            let task = cluster.pod(spread.on("n"));
            assert_eq!(cluster.refusal(task, "n").is_some(), refused, "{mode:?}");
        }
    }
}
