//! The rules of topology on small clusters.

use super::*;
use crate::compatibility::Compatibility;
use crate::input::Object;
use crate::input::pod::GpuRequest;
use crate::input::pod_group::{GroupLeaf, GroupSet};
use crate::plugins::testing::{
    constraint, group, named, node, node_id, one_leaf, pod, running, set, task_id, topology, world,
};

struct Cluster {
    world: World,
    scores: TopologyScores,
}

impl Cluster {
    /// Nodes as `(name, free GPUs, zone, rack)`.
    fn new(compatibility: Compatibility, nodes: &[(&str, i64, &str, &str)]) -> Self {
        let mut world = world(compatibility, &[]);
        set(&mut world, Object::Topology(topology(&["zone", "rack"])));
        for (name, gpus, zone, rack) in nodes {
            let labels = [("zone", *zone), ("rack", *rack)];
            let labels: Vec<_> =
                labels.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            set(&mut world, Object::Node(Box::new(node(name, *gpus, &labels))));
        }
        Self { world, scores: TopologyScores::default() }
    }

    fn job(&mut self, tree: GroupSet, pods: &[PodSpecOf<'_>]) {
        set(&mut self.world, Object::PodGroup(Box::new(group("job", tree))));
        for one in pods {
            let mut spec = pod(one.name, "job", one.gpus);
            if let Some(leaf) = one.leaf {
                spec.sub_group = Some(leaf.into());
            }
            if let Some(node) = one.on {
                spec = running(spec, node);
            }
            set(&mut self.world, Object::Pod(Box::new(spec)));
        }
    }

    fn pending(&self) -> Vec<TaskId> {
        let job = self.world.job_named(&named("job")).unwrap();
        let tasks = self.world.job(job).tasks();
        tasks.filter(|task| self.world.task(*task).may_be_placed(false)).collect()
    }

    fn subsets_of(&mut self, member: Member) -> Result<Vec<NodeSet>, Vec<TopologyRefusal>> {
        self.subsets_within(member, &NodeSet::all())
    }

    fn subsets_within(
        &mut self,
        member: Member,
        nodes: &NodeSet,
    ) -> Result<Vec<NodeSet>, Vec<TopologyRefusal>> {
        let id = self.world.job_named(&named("job")).unwrap();
        let job = self.world.job(id);
        let constraint = match member {
            Member::Set(set) => job.tree.sets[set].topology.as_ref(),
            Member::Leaf(leaf) => job.leaves[leaf].declared.topology.as_ref(),
        };
        let tasks = self.pending();
        let mut leaves: Vec<usize> =
            tasks.iter().map(|task| self.world.task(*task).leaf.unwrap() as usize).collect();
        leaves.dedup();
        let request =
            SubGroupRequest { job: id, member, constraint, leaves: &leaves, tasks: &tasks };
        subsets(&self.world, &mut self.scores, &request, nodes)
    }

    fn names(&self, found: &[NodeSet]) -> Vec<Vec<&str>> {
        let count = self.world.nodes_by_rank.len();
        let name = |rank: usize| &**self.world.node(self.world.nodes_by_rank[rank]).name();
        found.iter().map(|nodes| nodes.iter(count).map(name).collect()).collect()
    }

    fn root(&mut self) -> Vec<Vec<String>> {
        let found = self.subsets_of(Member::Set(0)).unwrap();
        let names = self.names(&found);
        names.into_iter().map(|set| set.into_iter().map(str::to_owned).collect()).collect()
    }

    fn details(&mut self) -> Vec<String> {
        let refusals = self.subsets_of(Member::Set(0)).unwrap_err();
        refusals.iter().map(TopologyRefusal::detail).collect()
    }

    fn score_of(&self, node: &str) -> Option<f64> {
        let node = self.world.node(node_id(&self.world, node));
        score(&self.world, &self.scores, self.pending()[0], node)
    }
}

#[derive(Clone, Copy)]
struct PodSpecOf<'a> {
    name: &'a str,
    gpus: i64,
    leaf: Option<&'a str>,
    on: Option<&'a str>,
}

fn waits(name: &str, gpus: i64) -> PodSpecOf<'_> {
    PodSpecOf { name, gpus, leaf: None, on: None }
}

const TWO_ZONES: [(&str, i64, &str, &str); 5] = [
    ("n1", 2, "z1", "r1"),
    ("n2", 4, "z1", "r2"),
    ("n3", 4, "z2", "r1"),
    ("n4", 4, "z2", "r1"),
    ("n5", 8, "", ""),
];

#[test]
fn a_group_without_constraint_or_pods_keeps_its_nodes() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    cluster.job(one_leaf(1, None), &[waits("a", 1)]);
    assert!(cluster.subsets_of(Member::Set(0)).unwrap()[0].is_all());
    cluster.job(one_leaf(1, Some(constraint(Some("zone"), None))), &[]);
    set(&mut cluster.world, Object::Pod(Box::new(running(pod("a", "job", 1), "n1"))));
    assert!(cluster.subsets_of(Member::Set(0)).unwrap()[0].is_all());
}

#[test]
fn a_constraint_with_an_empty_topology_name_is_none() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let mut nameless = constraint(None, None);
    nameless.topology = "".into();
    cluster.job(one_leaf(1, Some(nameless)), &[waits("a", 1)]);
    assert!(cluster.subsets_of(Member::Set(0)).unwrap()[0].is_all());
}

#[test]
fn an_unknown_topology_is_refused() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let mut other = constraint(Some("zone"), None);
    other.topology = "other".into();
    cluster.job(one_leaf(1, Some(other)), &[waits("a", 1)]);
    assert_eq!(cluster.details(), ["Requested topology other does not exist"]);
}

#[test]
fn required_domains_come_tightest_first_and_only_where_all_pods_fit() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(2, Some(constraint(Some("rack"), None)));
    cluster.job(tree, &[waits("a", 2), waits("b", 2)]);
    // z1.r1 holds one pod only; z1.r2 would be full, z2.r1 half full. n5 is outside.
    assert_eq!(cluster.root(), [vec!["n2"], vec!["n3", "n4"]]);
}

#[test]
fn levels_can_be_named_by_alias() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(1, Some(constraint(Some("RACK"), None)));
    cluster.job(tree, &[waits("a", 4)]);
    assert_eq!(cluster.root(), [vec!["n2"], vec!["n3", "n4"]]);
}

#[test]
fn a_preferred_level_is_tried_before_the_levels_above_it_up_to_the_root() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(2, Some(constraint(None, Some("rack"))));
    cluster.job(tree, &[waits("a", 2), waits("b", 2)]);
    let expected: [Vec<&str>; 5] = [
        vec!["n2"],
        vec!["n3", "n4"],
        vec!["n1", "n2"],
        vec!["n3", "n4"],
        vec!["n1", "n2", "n3", "n4"],
    ];
    assert_eq!(cluster.root(), expected);
    // Racks by tightness: z1.r1 (beyond full), z1.r2, z2.r1; the loosest scores highest.
    assert_eq!(cluster.score_of("n1"), Some(300_000.0));
    assert_eq!(cluster.score_of("n2"), Some(600_000.0));
    assert_eq!(cluster.score_of("n4"), Some(1_000_000.0));
    assert_eq!(cluster.score_of("n5"), None);
    cluster.scores.clear();
    assert_eq!(cluster.score_of("n5"), Some(0.0));
}

#[test]
fn required_and_preferred_limit_the_levels_from_both_sides() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(3, Some(constraint(Some("zone"), Some("rack"))));
    cluster.job(tree, &[waits("a", 2), waits("b", 2), waits("c", 2)]);
    // Only z2.r1 of the racks fits three; both zones do.
    assert_eq!(cluster.root(), [vec!["n3", "n4"], vec!["n1", "n2"], vec!["n3", "n4"]]);
}

#[test]
fn mistakes_in_the_constraint_are_reported() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    cluster.job(one_leaf(1, Some(constraint(Some("row"), None))), &[waits("a", 1)]);
    assert_eq!(
        cluster.details(),
        [
            "topology constraint error: workload specified 'row' as the required topology constraint \
          level, but the topology tree 'net' does not contain a level with this name"
        ]
    );
    cluster.job(one_leaf(1, Some(constraint(Some("rack"), Some("zone")))), &[]);
    assert!(cluster.details()[0].contains("specified 'zone' as the preferred topology"));
    cluster.job(one_leaf(1, Some(constraint(None, None))), &[]);
    let refusals = cluster.subsets_of(Member::Set(0)).unwrap_err();
    assert_eq!(refusals[0].kind, TopologyRefusalKind::NoLevel);
    assert!(!refusals[0].is_shown_by_kai());
}

#[test]
fn too_small_a_cluster_is_one_refusal() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(2, Some(constraint(Some("rack"), None)));
    cluster.job(tree, &[waits("a", 8), waits("b", 8)]);
    let refusals = cluster.subsets_of(Member::Set(0)).unwrap_err();
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].reason(), "PodSchedulingErrors");
    assert_eq!(
        refusals[0].detail(),
        "topology net, requirement rack couldn't be satisfied for job <team/job>: not enough \
         resources in the cluster to allocate the job"
    );
}

#[test]
fn too_small_domains_are_refused_one_by_one() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(3, Some(constraint(Some("rack"), None)));
    cluster.job(tree, &[waits("a", 4), waits("b", 4), waits("c", 4)]);
    assert_eq!(
        cluster.details(),
        [
            "<z1.r1>: node-group z1.r1 can allocate only 0 of 3 required pods",
            "<z1.r2>: node-group z1.r2 can allocate only 1 of 3 required pods",
            "<z2.r1>: node-group z2.r1 can allocate only 2 of 3 required pods",
            "topology net, requirement rack couldn't be satisfied for job <team/job>",
        ]
    );
}

#[test]
fn unlike_pods_are_compared_by_sums() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let tree = one_leaf(2, Some(constraint(Some("rack"), None)));
    // Seven GPUs do not fit one node of z2.r1, but sums are all that is looked at.
    cluster.job(tree, &[waits("a", 7), waits("b", 0)]);
    assert_eq!(cluster.root(), [vec!["n3", "n4"]]);
    set(&mut cluster.world, Object::Pod(Box::new(pod("a", "job", 9))));
    let mut hungry = pod("b", "job", 0);
    hungry.request.cpu_milli = 250_500;
    hungry.request.memory_bytes = 2_000_000_000;
    set(&mut cluster.world, Object::Pod(Box::new(hungry)));
    let details = cluster.details();
    assert_eq!(
        details[0],
        "<z1.r1>: z1.r1 didn't have enough resource: GPUs, requested: 9, available: 2, z1.r1 \
         didn't have enough resources: CPU cores, requested: 251.5, available: 100"
    );
    let refusals = cluster.subsets_of(Member::Set(0)).unwrap_err();
    assert_eq!(refusals[0].reason(), "Not enough resources for the workload");
    assert_eq!(
        refusals[0].text(),
        "node-group(s) didn't have enough resources: GPUs, node-group(s) didn't have enough \
         resources: CPU cores"
    );
}

#[test]
fn what_is_being_released_counts_as_free() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    for (name, node) in [("x", "n3"), ("y", "n4")] {
        let mut releasing = running(pod(name, "other", 4), node);
        releasing.status = crate::status::Status::Releasing;
        set(&mut cluster.world, Object::Pod(Box::new(releasing)));
    }
    let tree = one_leaf(2, Some(constraint(Some("rack"), None)));
    cluster.job(tree, &[waits("a", 4), waits("b", 4)]);
    assert_eq!(cluster.root(), [vec!["n3", "n4"]]);
}

#[test]
fn pods_that_ask_for_nothing_fit_everywhere() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    cluster.job(one_leaf(200, Some(constraint(Some("rack"), None))), &[]);
    for at in 0..200 {
        let mut nothing = pod(&format!("p{at:03}"), "job", 0);
        nothing.request.cpu_milli = 0;
        nothing.request.memory_bytes = 0;
        set(&mut cluster.world, Object::Pod(Box::new(nothing)));
    }
    assert_eq!(cluster.root(), [vec!["n1"], vec!["n2"], vec!["n3", "n4"]]);
}

#[test]
fn parts_of_devices_count_shared_devices_too() {
    let mut cluster = Cluster::new(Compatibility::Right, &[("n1", 1, "z1", "r1")]);
    let half = |name: &str| {
        let mut half = pod(name, "job", 0);
        half.request.gpu = GpuRequest::Fraction { portion: 0.5, devices: 1 };
        half
    };
    let mut sitting = running(half("x"), "n1");
    sitting.group = None;
    sitting.gpu_groups = vec!["g".into()];
    set(&mut cluster.world, Object::Pod(Box::new(sitting)));
    cluster.job(one_leaf(1, Some(constraint(Some("rack"), None))), &[]);
    set(&mut cluster.world, Object::Pod(Box::new(half("a"))));
    assert_eq!(cluster.root(), [vec!["n1"]]);
}

#[test]
fn the_start_domain_stops_at_the_required_level() {
    let nodes = [("n1", 4, "z1", "r1"), ("n2", 4, "z1", "r1")];
    let tree = one_leaf(1, Some(constraint(Some("zone"), None)));
    let mut right = Cluster::new(Compatibility::Right, &nodes);
    right.job(tree.clone(), &[waits("a", 1)]);
    assert_eq!(right.root(), [vec!["n1", "n2"]]);
    let mut kai = Cluster::new(Compatibility::Kai, &nodes);
    kai.job(tree, &[waits("a", 1)]);
    let details = kai.details();
    assert!(
        details[0]
            .starts_with("<z1>: z1 didn't have enough resource: GPUs, requested: 1, available: 0")
    );
    assert_eq!(
        details[1],
        "topology net, requirement zone couldn't be satisfied for job <team/job>"
    );
}

#[test]
fn a_part_of_the_nodes_names_its_own_domain() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    cluster.job(one_leaf(1, Some(constraint(Some("rack"), None))), &[waits("a", 5)]);
    let mut ranks = RankSet::with_len(5);
    ranks.insert(0);
    ranks.insert(1);
    let refusals = cluster.subsets_within(Member::Set(0), &NodeSet::of(ranks)).unwrap_err();
    assert!(refusals[0].text().ends_with(": not enough resources in z1 to allocate the job"));
}

#[test]
fn growth_stays_in_the_required_domain() {
    for compatibility in [Compatibility::Right, Compatibility::Kai] {
        let mut cluster = Cluster::new(compatibility, &TWO_ZONES);
        let on = PodSpecOf { name: "x", gpus: 1, leaf: None, on: Some("n3") };
        let tree = one_leaf(1, Some(constraint(Some("zone"), Some("rack"))));
        cluster.job(tree, &[on, waits("a", 2)]);
        assert_eq!(cluster.root(), [vec!["n3", "n4"], vec!["n3", "n4"]]);
        set(&mut cluster.world, Object::Pod(Box::new(running(pod("full", "other", 4), "n4"))));
        set(&mut cluster.world, Object::Pod(Box::new(running(pod("most", "other", 3), "n3"))));
        let details = cluster.details();
        assert_eq!(
            details,
            [
                "<z2>: node-group z2 can allocate only 0 of 1 required pods",
                "topology net, requirement zone couldn't be satisfied for job <team/job>"
            ]
        );
    }
}

#[test]
fn a_restarted_leaf_follows_its_siblings() {
    let leaf = |name: &str| GroupLeaf { name: name.into(), min_available: 1, topology: None };
    let tree = GroupSet {
        topology: Some(constraint(Some("zone"), None)),
        leaves: vec![leaf("left"), leaf("right")],
        ..GroupSet::default()
    };
    let pods = [
        PodSpecOf { name: "x", gpus: 1, leaf: Some("left"), on: Some("n3") },
        PodSpecOf { name: "a", gpus: 1, leaf: Some("right"), on: None },
    ];
    let mut right = Cluster::new(Compatibility::Right, &TWO_ZONES);
    right.job(tree.clone(), &pods);
    assert_eq!(right.root(), [vec!["n3", "n4"]]);
    let mut kai = Cluster::new(Compatibility::Kai, &TWO_ZONES);
    kai.job(tree, &pods);
    assert_eq!(kai.root(), [vec!["n1", "n2"], vec!["n3", "n4"]]);
}

#[test]
fn scores_of_a_leaf_win_over_those_of_its_parents() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let leaf = GroupLeaf {
        name: "leaf".into(),
        min_available: 1,
        topology: Some(constraint(None, Some("rack"))),
    };
    let inner = GroupSet { name: "inner".into(), leaves: vec![leaf], ..GroupSet::default() };
    let tree = GroupSet {
        topology: Some(constraint(None, Some("zone"))),
        sets: vec![inner],
        ..GroupSet::default()
    };
    cluster.job(tree, &[PodSpecOf { leaf: Some("leaf"), ..waits("a", 1) }]);
    cluster.subsets_of(Member::Set(0)).unwrap();
    assert_eq!(cluster.score_of("n1"), Some(500_000.0));
    cluster.subsets_of(Member::Leaf(0)).unwrap();
    assert_eq!(cluster.score_of("n1"), Some(300_000.0));
    assert_eq!(task_id(&cluster.world, "a"), cluster.pending()[0]);
}

#[test]
fn sub_groups_are_named_in_texts() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    let leaf = GroupLeaf {
        name: "leaf".into(),
        min_available: 2,
        topology: Some(constraint(Some("rack"), None)),
    };
    cluster.job(
        GroupSet { leaves: vec![leaf], ..GroupSet::default() },
        &[
            PodSpecOf { leaf: Some("leaf"), ..waits("a", 4) },
            PodSpecOf { leaf: Some("leaf"), ..waits("b", 4) },
            PodSpecOf { leaf: Some("leaf"), ..waits("c", 4) },
        ],
    );
    let refusals = cluster.subsets_of(Member::Leaf(0)).unwrap_err();
    assert_eq!(
        refusals[0].detail(),
        "<z1.r1>: subgroup leaf: node-group z1.r1 can allocate only 0 of 3 required pods"
    );
    assert_eq!(
        refusals[3].detail(),
        "topology net, requirement rack couldn't be satisfied for job <team/job>, subgroup leaf"
    );
}

#[test]
fn trees_follow_nodes_and_topologies() {
    let mut cluster = Cluster::new(Compatibility::Right, &TWO_ZONES);
    cluster.job(one_leaf(1, Some(constraint(Some("zone"), None))), &[waits("a", 8)]);
    let labels = [("zone", "z3"), ("rack", "r1")];
    set(&mut cluster.world, Object::Node(Box::new(node("n5", 8, &labels))));
    assert!(cluster.root().contains(&vec!["n5".to_owned()]));
    let key = crate::input::ObjectKey::Topology("net".into());
    cluster.world.apply(crate::input::Delta::Remove(key));
    assert_eq!(cluster.details(), ["Requested topology net does not exist"]);
}

#[test]
fn numbers_read_as_the_reference_writes_them() {
    use super::refusal::{three_decimals, three_digits};
    for (number, text) in [
        (0.0, "0"),
        (4.0, "4"),
        (0.5, "0.5"),
        (12.0, "12"),
        (100.0, "100"),
        (1234.0, "1.23e+03"),
        (2.126, "2.13"),
    ] {
        assert_eq!(three_digits(number), text);
    }
    assert_eq!(three_decimals(1_500, 1_000), "1.5");
    assert_eq!(three_decimals(2_000_000_000, 1_000_000_000), "2");
    assert_eq!(three_decimals(1_234_999_999, 1_000_000_000), "1.234");
}
